"""`volt encode`: text → pieces or ids, line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.models import load_model
from volt_cli.options import EncodingErrors, Files, Model, Quiet, Separator

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder
    from volt.encode.files import Job

CACHE_WORDS = 1 << 20


@dataclass(frozen=True)
class SamplingOptions:
    """How pieces are drawn at random."""

    PANEL = "Sampling"

    dropout: Annotated[float, typer.Option(metavar="P", help="Probability of passing over a merge.")] = 0.0
    seed: Annotated[int | None, typer.Option(metavar="N", help="What dropout draws from; it needs one.")] = None


@dataclass(frozen=True)
class SpeedOptions:
    """How fast, and in how much memory."""

    PANEL = "Speed"

    threads: Annotated[int | None, typer.Option(metavar="N", help="How many threads; default: one for each core.")] = (
        None
    )
    cache_words: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Most words that a thread remembers, some 200 bytes each; default: 1,048,576.",
            show_default=False,
        ),
    ] = CACHE_WORDS


def encode(
    model: Model,
    sampling: SamplingOptions,
    speed: SpeedOptions,
    files: Files = None,
    out: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PLACE", help="A file, a folder (a/) for one output per file, or - for stdout."
        ),
    ] = "-",
    form: Annotated[
        Literal["pieces", "ids", "npy", "bin"],
        typer.Option(help="Text, or ids as int32 with the lines' offsets beside."),
    ] = "pieces",
    separator: Separator = "",
    encoding_errors: EncodingErrors = "strict",
    quiet: Quiet = False,
) -> None:
    """Encode text with a vocabulary.

    Each line of text gives one line of pieces or ids, with a space between two. With a folder as output each file has
    its own, written whole or not at all; those that are there already, from the same file, vocabulary and options, are
    not made again.
    """
    with loading():
        from volt.encode.encoder import Encoder
        from volt.encode.files import Job
        from volt.files.paths import expand

        job = Job(
            form, separator, dropout=sampling.dropout, seed=sampling.seed, errors=encoding_errors,
            n_threads=speed.threads,
        )  # fmt: skip
        paths, phases = expand(files or ["-"]), Phases(quiet=quiet)
        encoder = Encoder(load_model(model), cache_words=speed.cache_words)
        prepare_kernels(phases, "encode", "words", "dropout" if sampling.dropout else "words")
    total = None if "-" in paths else sum(os.path.getsize(path) for path in paths)
    with phases.phase("encode", total=total, unit="B") as advance:
        _encode(encoder, paths, out, job=job, progress=advance, quiet=quiet)


def _encode(
    encoder: Encoder, paths: list[str], out: str, *, job: Job, progress: Callable[[float], object], quiet: bool
) -> None:
    from volt.encode.files import encode_each, encode_one, encode_stream

    if out == "-":
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
