"""`volt encode`: text → pieces or ids, line by line."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from volt.display import counted
from volt.errors import ConfigError, shown_path
from volt.urls import plain_path
from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.engine_options import EngineOptions
from volt_cli.io import (
    check_places,
    is_conversation,
    is_stdout,
    load_model,
    waiting_for,
    warn_of_columns,
    write_each,
)
from volt_cli.options import ModelAndText, Quiet, Separator, checked_separator, flag, option

CACHE_WORDS, N_SHOWN = 1 << 20, 8


@dataclass(frozen=True)
class SamplingOptions:
    PANEL = "Sampling"

    dropout: Annotated[float, option("P", "Probability of skipping a merge.")] = 0.0
    seed: Annotated[int | None, option("N", "Seed; --dropout requires it.")] = None


@dataclass(frozen=True)
class LineOptions:
    PANEL = "Lines of ids"

    bos: Annotated[bool, flag("Put the id of bos before each line.", "--bos")] = False
    eos: Annotated[bool, flag("Put the id of eos after each line.", "--eos")] = False
    truncate: Annotated[
        int | None, option("N", "Maximum number of ids in a line; the last ids are removed.", min=1)
    ] = None
    pad_to: Annotated[
        int | None,
        option("N", "Number of ids in each line; shorter lines end in the id of pad.", min=1),
    ] = None


@dataclass(frozen=True)
class SpeedOptions:
    PANEL = "Speed"

    threads: Annotated[
        int | None, option("N", "Number of threads; default: one for each core.", min=1)
    ] = None
    cache_words: Annotated[
        int,
        option(
            "N",
            "Maximum number of words that a thread caches, some 200 bytes each; default: 1,048,576.",
            min=1,
            show_default=False,
        ),
    ] = CACHE_WORDS


def encode(
    text: ModelAndText,
    sampling: SamplingOptions,
    lines: LineOptions,
    speed: SpeedOptions,
    engine: EngineOptions,
    out: Annotated[
        str,
        option(
            "PLACE",
            "A file, a folder (a/) for one output per file, or - for stdout.",
            "-o",
            "--output",
        ),
    ] = "-",
    form: Annotated[
        Literal["pieces", "ids", "npy", "bin"],
        option(
            "FORM",
            "pieces or ids as text; npy or bin: ids as int32, with the lines' offsets in a second file.",
        ),
    ] = "pieces",
    separator: Separator = None,
    quiet: Quiet = False,
) -> None:
    """Encode text with a vocabulary.

    Each line of text gives one line of pieces or ids, separated by spaces. If the output is a folder, each input file
    has its own output, written completely or not at all. Up-to-date outputs are not rewritten, and never read as input.
    With --engine ray, workers write the outputs of a folder; a single output is written here, and workers encode.
    """
    with loading():
        from volt.encode.encoder import Encoder
        from volt.encode.files import (
            EncodeJob,
            encode_each,
            encode_one,
            encode_stream,
            output_files,
        )
        from volt.files.paths import total_size

        job = EncodeJob(
            form,
            checked_separator(separator),
            dropout=sampling.dropout,
            seed=sampling.seed,
            n_threads=speed.threads,
            bos=lines.bos,
            eos=lines.eos,
            truncate=lines.truncate,
            pad_to=lines.pad_to,
            **text.limits,
        )
        out = plain_path(out)
        paths, phases = _inputs(text.files, out, quiet=quiet), Phases(quiet=quiet)
        outputs = (
            [out]
            if is_stdout(out)
            else output_files(paths, Path(out), job=job, each=is_folder(out))
        )
        check_places(outputs, paths, model=text.model)
        if not quiet:
            warn_of_columns(paths, "encoded", "extract it first")
        engine.check(paths)
        encoder = Encoder(
            load_model(text.model, texts=paths, pattern=text.pattern), cache_words=speed.cache_words
        )
        prepare_kernels(phases, "encode", "words", "dropout" if sampling.dropout else "words")
    total = total_size(paths)
    shown = Phases(quiet=quiet or is_conversation(paths, out))
    stdout = sys.stdout.buffer  # which Ray's messages must not reach
    with shown.phase("encode", total=total, unit="B") as advance, engine.running(connects=False):
        write = engine.writer(quiet=quiet)
        parts = write.parts if write else None
        if is_stdout(out):
            texts = encode_stream(
                encoder, paths, job=job, progress=advance, wait=waiting_for(out), parts=parts
            )
            write_each(stdout, texts)
        elif not is_folder(out):
            encode_one(encoder, paths, Path(out), job=job, progress=advance, parts=parts)
        else:
            for outcome in encode_each(
                encoder, paths, Path(out), job=job, progress=advance, write=write
            ):
                if not quiet:
                    done = (
                        "is up to date"
                        if outcome.n_lines is None
                        else counted(outcome.n_lines, "line")
                    )
                    say(f"{shown_path(outcome.output)}: {done}")
    if not quiet and (unknown := encoder.unknown_characters):
        from volt_cli.terminal import harmless

        what = f"{counted(len(unknown), 'character')} of the text {'is' if len(unknown) == 1 else 'are'} unknown"
        say(
            f"note: {what}: {' '.join(map(harmless, unknown[:N_SHOWN]))}{' …' * (len(unknown) > N_SHOWN)}"
        )


def _inputs(paths: list[str], out: str, *, quiet: bool) -> list[str]:
    """Return the paths except those of files that earlier runs wrote into the folder `out`."""
    from volt.encode.files import without_outputs

    if is_stdout(out) or not is_folder(out):
        return paths
    inputs = without_outputs(paths, Path(out))
    left_out = f"{counted(len(paths) - len(inputs), 'file')} that earlier runs wrote to {out}"
    if not inputs:
        raise ConfigError(f"the input is only {left_out}; name other files, or another folder")
    if len(inputs) < len(paths) and not quiet:
        say(f"left out {left_out}")
    return inputs


def is_folder(out: str) -> bool:
    return out.endswith(os.sep) or os.path.isdir(out)
