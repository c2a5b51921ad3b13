"""`volt encode`: text → pieces or ids, line by line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.lines import checked_errors
from volt_cli.models import load_model

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder
    from volt.encode.files import Job, Output

CACHE_WORDS = 1 << 20


def encode(
    model: Annotated[Path, typer.Option("-m", "--model", help="A vocabulary file, VOLT's or another.")],
    files: Annotated[list[str] | None, typer.Argument(help="Files, globs or folders; default: stdin.")] = None,
    out: Annotated[
        str, typer.Option("-o", "--out", help="A file, or a folder (a/) for one output per file; default: stdout.")
    ] = "",
    output: Annotated[
        str, typer.Option("--output", help="pieces or ids as text; npy or bin: ids as int32, offsets beside.")
    ] = "pieces",
    separator: Annotated[
        str, typer.Option(help="Mark pieces that do not end a word, as subword-nmt does with @@.")
    ] = "",
    threads: Annotated[int | None, typer.Option(help="How many threads; default: one for each core.")] = None,
    dropout: Annotated[float, typer.Option(help="Probability of passing over a merge.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="What dropout draws from.")] = None,
    cache_words: Annotated[
        int, typer.Option(help="Most words that a thread remembers, about 200 bytes each.")
    ] = CACHE_WORDS,
    encoding_errors: Annotated[str, typer.Option(help="Lines that are not UTF-8: strict, replace or skip.")] = "strict",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress; errors only.")] = False,
) -> None:
    """Encode text with a vocabulary: one line of pieces, with a space between two, per line of text.

    With a folder as output each file has its own, written whole or not at all; those that are there already, from the
    same file, vocabulary and options, are not made again.
    """
    with loading():
        from volt.encode.encoder import Encoder
        from volt.encode.files import Job
        from volt.files.paths import expand

        errors, form = checked_errors(encoding_errors), cast("Output", output)  # which Job refuses if it is none
        job = Job(form, separator, dropout=dropout, seed=seed, errors=errors, n_threads=threads)
        paths, phases = expand(files or ["-"]), Phases(quiet=quiet)
        encoder = Encoder(load_model(model), cache_words=cache_words)
        prepare_kernels(phases, "encode")
    total = None if "-" in paths else sum(os.path.getsize(path) for path in paths)
    with phases.phase("encode", total=total, unit="B") as advance:
        _encode(encoder, paths, out, job=job, progress=advance, quiet=quiet)


def _encode(encoder: Encoder, paths: list[str], out: str, *, job: Job, progress: Any, quiet: bool) -> None:
    from volt.encode.files import encode_each, encode_one, encode_stream

    if not out:
        for text in encode_stream(encoder, paths, job=job, progress=progress):
            sys.stdout.buffer.write(text)
        sys.stdout.flush()
    elif out.endswith(os.sep) or os.path.isdir(out):
        for outcome in encode_each(encoder, paths, Path(out), job=job, progress=progress):
            if not quiet:
                done = "was there already" if outcome.n_lines is None else f"{outcome.n_lines:,} lines"
                say(f"{outcome.output}: {done}")
    else:
        encode_one(encoder, paths, Path(out), job=job, progress=progress)
