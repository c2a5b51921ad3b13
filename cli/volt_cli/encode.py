"""`volt encode`: text → pieces or ids, a line of them for each line of text.

The destination of -o decides how the inputs are encoded:

    - or nothing   all inputs, one after the other, to stdout
    FILE           all inputs, one after the other, into one file; of a table, into a table, if the
                   name ends like one
    FOLDER/        each input into a file of its own; files that are up to date are not rewritten

With --engine ray, workers of Ray encode (stdout, FILE) or also write (FOLDER/).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

from volt.display import counted
from volt.errors import ConfigError, shown_path
from volt.urls import plain_path
from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.engine_options import EngineOptions
from volt_cli.io import (
    check_destination,
    check_distinct_files,
    choose_wait,
    is_stdout,
    load_model,
    warn_of_table_columns,
    write_and_flush_each,
)
from volt_cli.options import ModelAndTable, Quiet, Separator, check_separator, flag, option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from volt.encode.encoder import Encoder
    from volt.encode.files import EncodeJob
    from volt.kernels.warmup import Job

MAX_SHOWN_UNKNOWN = 8  # unknown characters that the note at the end lists


@dataclass(frozen=True)
class SamplingOptions:
    PANEL = "Sampling"

    dropout: Annotated[float, option("P", "Probability of skipping a merge.")] = 0.0
    alpha: Annotated[
        float | None,
        option("A", "Draw from a unigram model's paths, in proportion to exp(A · score)."),
    ] = None
    nbest: Annotated[
        int, option("N", "Draw from the N best paths; default: all.", show_default=False)
    ] = -1
    seed: Annotated[int | None, option("N", "Seed; --dropout and --alpha require it.")] = None


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
            "Maximum number of words that a thread caches, some 200 bytes each; default: 2,900,000.",
            min=1,
            show_default=False,
        ),
    ] = 2_900_000

    def load_encoder(self, text: ModelAndTable, *, quiet: bool) -> Encoder:
        from volt.encode.encoder import Encoder

        vocabulary = load_model(text.model, texts=text.files, pattern=text.pattern, quiet=quiet)
        return Encoder(vocabulary, cache_words=self.cache_words)


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    text: ModelAndTable
    sampling: SamplingOptions
    lines: LineOptions
    speed: SpeedOptions
    engine: EngineOptions
    out: Annotated[
        str,
        option(
            "PLACE",
            "A file, a folder (a/) for one output per file, or - for stdout.",
            "-o",
            "--output",
            parser=plain_path,
        ),
    ] = "-"
    form: Annotated[
        Literal["pieces", "ids", "npy", "bin"],
        option(
            "FORM",
            "pieces or ids as text; npy or bin: ids as int32, with the lines' offsets in a second "
            "file.",
        ),
    ] = "pieces"
    to_column: Annotated[
        str | None,
        option("NAME", "Write the table of --column, with pieces or ids in a new column."),
    ] = None
    separator: Separator = None
    quiet: Quiet = False

    def job(self) -> EncodeJob:
        from volt.encode.files import EncodeJob

        return EncodeJob(
            self.form,
            check_separator(self.separator),
            to_column=self.to_column,
            n_threads=self.speed.threads,
            **vars(self.sampling),
            **vars(self.lines),
            **self.text.limits,
        )


def encode(options: EncodeOptions) -> None:
    """Encode text with a vocabulary.

    Each line of text gives one line of pieces or ids, separated by spaces. Of a table, --column or
    --fields names the texts: an output that is named like the table (-o ids.jsonl) is the table with
    pieces or ids instead of the texts; with several fields, any output is; other outputs have one
    line for each text. If the output is a
    folder, each input file has its own output, written completely or not at all. Up-to-date outputs
    are not rewritten, and never read as input. With --engine ray, workers write the outputs of a
    folder; a single output is written here, and workers encode.
    """
    out = options.out
    quiet = options.quiet
    with loading():
        from volt.encode.files import check_arguments, output_files
        from volt.files.paths import total_size

        job = options.job()
        inputs = _omit_earlier_outputs(options.text.files, out, quiet=quiet)
        outputs: Sequence[str | Path] = [out]
        if not is_stdout(out):
            outputs = output_files(inputs, Path(out), job=job, each=is_folder(out))
        check_distinct_files(outputs, inputs, model=options.text.model)
        if not is_folder(out):
            check_destination(Path(out))
        if not quiet and not job.columns:
            warn_of_table_columns(inputs, "encoded")
        options.engine.check(inputs)
        encoder = options.speed.load_encoder(options.text, quiet=quiet)
        check_arguments(encoder, job)
        kernels: tuple[Job, ...] = ("encode", "words")
        if job.dropout:
            kernels += ("dropout",)
        if job.alpha is not None:
            kernels += ("paths",)
        if encoder.vocabulary.normalizer.steps:
            kernels += ("normalize",)
        prepare_kernels(Phases(quiet=quiet), *kernels, loads=False)  # a line needs half of them

    # A progress bar would disturb a person who types the lines or reads the pieces.
    types_lines = "-" in inputs and sys.stdin.isatty()
    reads_pieces = is_stdout(out) and sys.stdout.isatty()
    phases = Phases(quiet=quiet or types_lines or reads_pieces)
    stdout = sys.stdout.buffer  # the file itself, because Ray's messages replace sys.stdout below
    with (
        phases.phase("encode", total=total_size(inputs), unit="B") as advance,
        options.engine.running(connects=False),
    ):
        _write_outputs(encoder, inputs, job, options, stdout=stdout, advance=advance)
    if not quiet:
        _note_unknown(encoder.unknown_characters)


def _omit_earlier_outputs(inputs: list[str], out: str, *, quiet: bool) -> list[str]:
    """Return the inputs except the files that earlier runs wrote into the folder `out`."""
    from volt.encode.files import without_outputs

    if is_stdout(out) or not is_folder(out):
        return inputs
    remaining = without_outputs(inputs, Path(out))
    n_omitted = len(inputs) - len(remaining)
    omitted = f"{counted(n_omitted, 'file')} that earlier runs wrote to {out}"
    if not remaining:
        raise ConfigError(f"the input is only {omitted}; name other files, or another folder")
    if n_omitted and not quiet:
        say(f"left out {omitted}")
    return remaining


def _write_outputs(
    encoder: Encoder,
    inputs: list[str],
    job: EncodeJob,
    options: EncodeOptions,
    *,
    stdout: BinaryIO,
    advance: Callable[..., object],
) -> None:
    from volt.encode.files import encode_each, encode_one, encode_stream

    out = options.out
    writer = options.engine.writer(quiet=options.quiet)
    encode_parts = writer.parts if writer else None
    if is_stdout(out):
        texts = encode_stream(
            encoder, inputs, job=job, progress=advance, wait=choose_wait(out), parts=encode_parts
        )
        write_and_flush_each(stdout, texts)
        return
    if not is_folder(out):
        encode_one(encoder, inputs, Path(out), job=job, progress=advance, parts=encode_parts)
        return
    outcomes = encode_each(encoder, inputs, Path(out), job=job, progress=advance, write=writer)
    for outcome in outcomes:
        result = "is up to date"
        if outcome.n_lines is not None:
            result = counted(outcome.n_lines, "line")
        if not options.quiet:
            say(f"{shown_path(outcome.output)}: {result}")


def _note_unknown(characters: Sequence[str]) -> None:
    if not characters:
        return
    from volt_cli.terminal import harmless

    verb = "is" if len(characters) == 1 else "are"
    shown = [harmless(character) for character in characters[:MAX_SHOWN_UNKNOWN]]
    if len(characters) > MAX_SHOWN_UNKNOWN:
        shown.append("…")
    n_unknown = counted(len(characters), "character")
    say(f"note: {n_unknown} of the text {verb} unknown: {' '.join(shown)}")


def is_folder(out: str) -> bool:
    return out.endswith(os.sep) or os.path.isdir(out)
