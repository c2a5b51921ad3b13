"""`volt encode`: text → pieces or ids, line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from volt.errors import ConfigError
from volt.urls import plain_path
from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.engines import EngineOptions
from volt_cli.io import check_places, is_conversation, is_stdout, load_model, waiting_beside, write_each
from volt_cli.options import (
    MAX_LINE,
    EncodingErrors,
    Files,
    MaxLine,
    Model,
    Pattern,
    Quiet,
    Separator,
    checked_separator,
)

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder
    from volt.encode.files import EncodeJob

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

    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many threads; default: one for each core.")
    ] = None
    cache_words: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Most words that a thread remembers, some 200 bytes each; default: 1,048,576.",
            show_default=False,
        ),
    ] = CACHE_WORDS


def encode(
    model: Model,
    sampling: SamplingOptions,
    speed: SpeedOptions,
    engine: EngineOptions,
    files: Files,
    out: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PLACE", help="A file, a folder (a/) for one output per file, or - for stdout."
        ),
    ] = "-",
    form: Annotated[
        Literal["pieces", "ids", "npy", "bin"],
        typer.Option(
            metavar="FORM", help="pieces or ids as text; npy or bin: ids as int32, with the lines' offsets beside."
        ),
    ] = "pieces",
    separator: Separator = None,
    pattern: Pattern = None,
    encoding_errors: EncodingErrors = "strict",
    max_line: MaxLine = MAX_LINE,
    quiet: Quiet = False,
) -> None:
    """Encode text with a vocabulary.

    Each line of text gives one line of pieces or ids, with a space between two. With a folder as output each file has
    its own, written whole or not at all; those that are there already, from the same file, vocabulary and options, are
    not made again, and what earlier runs wrote there is no input. With --engine ray workers write them.
    """
    with loading():
        from volt.encode.encoder import Encoder
        from volt.encode.files import EncodeJob
        from volt.files.limits import parse_max_line
        from volt.files.paths import total_size

        job = EncodeJob(
            form, checked_separator(separator), dropout=sampling.dropout, seed=sampling.seed, errors=encoding_errors,
            n_threads=speed.threads, max_line=parse_max_line(max_line),
        )  # fmt: skip
        out = plain_path(out)
        paths, phases = _inputs(files, out, quiet=quiet), Phases(quiet=quiet)
        check_places(_outputs(paths, out, job), paths, model=model)
        _check_engine(engine, paths, out)
        encoder = Encoder(load_model(model, texts=paths, pattern=pattern), cache_words=speed.cache_words)
        prepare_kernels(phases, "encode", "words", "dropout" if sampling.dropout else "words")
    total = total_size(paths)
    shown = Phases(quiet=quiet or is_conversation(paths, out))
    with shown.phase("encode", total=total, unit="B") as advance:
        _encode(encoder, paths, out, job=job, engine=engine, progress=advance, quiet=quiet)


def _inputs(paths: list[str], out: str, *, quiet: bool) -> list[str]:
    """Leave out what earlier runs wrote into the folder. Raises ConfigError if nothing else is left."""
    from volt.display import counted
    from volt.encode.files import without_outputs

    if is_stdout(out) or not is_folder(out):
        return paths
    inputs = without_outputs(paths, Path(out))
    left_out = f"{counted(len(paths) - len(inputs), 'file')} that earlier runs wrote to {out}"
    if not inputs:
        raise ConfigError(f"the input is {left_out}; name other files, or another folder")
    if len(inputs) < len(paths) and not quiet:
        say(f"left out {left_out}")
    return inputs


def _check_engine(engine: EngineOptions, paths: list[str], out: str) -> None:
    """Raise ConfigError if workers cannot read or write what is asked for."""
    engine.check(paths)
    if engine.is_ray and (is_stdout(out) or not is_folder(out)):
        raise ConfigError("--engine ray writes an output for each file; give a folder: -o FOLDER/")


def _encode(
    encoder: Encoder, paths: list[str], out: str, *, job: EncodeJob, engine: EngineOptions,
    progress: Callable[[float], object], quiet: bool,
) -> None:  # fmt: skip
    from volt.display import counted
    from volt.encode.files import encode_each, encode_one, encode_stream
    from volt.errors import shown_path

    if is_stdout(out):
        texts = encode_stream(encoder, paths, job=job, progress=progress, wait=waiting_beside(out))
        write_each(sys.stdout.buffer, texts)
    elif is_folder(out):
        for outcome in encode_each(encoder, paths, Path(out), job=job, progress=progress, write=engine.writer()):
            if not quiet:
                done = "was there already" if outcome.n_lines is None else counted(outcome.n_lines, "line")
                say(f"{shown_path(outcome.output)}: {done}")
    else:
        encode_one(encoder, paths, Path(out), job=job, progress=progress)


def _outputs(paths: list[str], out: str, job: EncodeJob) -> list[str | Path]:
    from volt.encode.files import output_files

    return [out] if is_stdout(out) else [*output_files(paths, Path(out), job=job, each=is_folder(out))]


def is_folder(out: str) -> bool:
    """Check whether a place is a folder, which takes an output for each file.

    >>> is_folder("out/"), is_folder("nowhere")
    (True, False)
    """
    return out.endswith(os.sep) or os.path.isdir(out)
