"""`volt export`: a vocabulary → the file or folder that another library loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.errors import ConfigError
from volt_cli.agreements import lines_to_check, print_agreement, refuse_unchecked
from volt_cli.console import say
from volt_cli.inputs import readable_texts
from volt_cli.models import load_model
from volt_cli.options import FORMATS, MAX_LINE, EncodingErrors, MaxLine, Model, Pattern, Quiet, starting
from volt_cli.places import check_places, is_stdout, say_written, told_of, written
from volt_cli.remedies import in_options

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


WRITE_SEVERAL = ("subword-nmt", "sentencepiece", "huggingface")  # formats of more than one file


def export(
    model: Model,
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", autocompletion=starting(FORMATS), help=f"{', '.join(FORMATS)}.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="PLACE", help="The file or folder to write, or - for stdout.")
    ],
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT", callback=readable_texts, help="With --check: files, globs or folders to encode."
        ),
    ] = None,
    closed: Annotated[bool, typer.Option("--closed", help="Keep scaffolding as tokens.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Encode TEXT here and with the real library; fail if they differ.")
    ] = False,
    pattern: Pattern = None,
    encoding_errors: EncodingErrors = "strict",
    max_line: MaxLine = MAX_LINE,
    quiet: Quiet = False,
) -> None:
    """Write a vocabulary for another library.

    Says on stderr what the format cannot carry, or does differently.
    """
    from volt.files.paths import expand
    from volt.formats.check import check as compare_with_library
    from volt.formats.registry import files_written, write_vocabulary

    if is_stdout(out) and to in WRITE_SEVERAL:
        raise ConfigError(f"-o -: {to} is more than one file, and stdout takes one; name a place")
    refuse_unchecked(text, check, to)
    outputs = [out] if is_stdout(out) else files_written(out, to=to)
    check_places(outputs, expand(text) if text else (), model=model)
    vocabulary = load_model(model, beside=text or (), pattern=pattern)
    vocabulary = _closed(vocabulary, to, quiet=quiet) if closed else vocabulary
    with written(out) as path:
        notes = write_vocabulary(vocabulary, path, to=to)
        lines = lines_to_check(vocabulary, text, encoding_errors, max_line) if check else []
        agreement = compare_with_library(vocabulary, path, to, lines) if check else None
    if not quiet:
        for note in notes:
            say(f"note: {in_options(told_of(out, path, note))}")
        say_written(_told(out, outputs), f"{vocabulary.size:,} tokens for {to}")
    if agreement:
        print_agreement(agreement, written=out, on_stderr=is_stdout(out))


def _told(out: Path, outputs: Sequence[Path]) -> Path:
    """The first of the files if they stand beside the place that was named, and not in it."""
    return outputs[0] if outputs and outputs[0].parent == out.parent else out


def _closed(vocabulary: Vocabulary, to: str, *, quiet: bool) -> Vocabulary:
    """With scaffolding as tokens; in the order of the merges where the format cannot number tokens otherwise."""
    from volt.formats.registry import closing_order

    closed = vocabulary.closed(order=closing_order(to))
    if closed.tokens[: vocabulary.size] != vocabulary.tokens and not quiet:
        say(
            f"note: {to} numbers tokens in the order of the merges, so --closed gives other ids than MODEL has; "
            "volt import of the file has them too"
        )
    return closed
