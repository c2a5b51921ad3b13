"""`volt export`: a vocabulary → the file or folder that another library loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.errors import ConfigError
from volt_cli.console import say
from volt_cli.inputs import readable_texts
from volt_cli.models import load_model
from volt_cli.options import FORMATS, MAX_LINE, EncodingErrors, MaxLine, Model, Quiet, starting
from volt_cli.places import check_places, is_stdout, say_written, told_of, written
from volt_cli.remedies import in_options

if TYPE_CHECKING:
    from volt.files.blocks import Errors
    from volt.formats.check import Agreement
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
    encoding_errors: EncodingErrors = "strict",
    max_line: MaxLine = MAX_LINE,
    quiet: Quiet = False,
) -> None:
    """Write a vocabulary for another library.

    Says on stderr what the format cannot carry, or does differently.
    """
    from volt.files.paths import expand
    from volt.formats.registry import files_written, peer_loader, write_vocabulary

    load_peer = peer_loader(to)
    if is_stdout(out) and to in WRITE_SEVERAL:
        raise ConfigError(f"-o -: {to} is more than one file, and stdout takes one; name a place")
    if text and not check:
        raise ConfigError("TEXT is what --check encodes; add --check or leave it out")
    if check and load_peer is None:
        raise ConfigError(f"--check: no library cuts text with {to} alone; leave it out")
    outputs = [out] if is_stdout(out) else files_written(out, to=to)
    check_places(outputs, expand(text) if text else (), model=model)
    vocabulary = load_model(model, beside=text or ())
    vocabulary = _closed(vocabulary, to, quiet=quiet) if closed else vocabulary
    with written(out) as path:
        notes = write_vocabulary(vocabulary, path, to=to)
        agreement = _compared(vocabulary, path, to, text, encoding_errors, max_line) if check else None
    if not quiet:
        for note in notes:
            say(f"note: {in_options(told_of(out, path, note))}")
        say_written(out, f"{vocabulary.size:,} tokens for {to}")
    if agreement:
        stream = sys.stderr if is_stdout(out) else sys.stdout
        stream.buffer.write("\n".join(described(agreement)).encode(errors="backslashreplace") + b"\n")
        stream.flush()
    if agreement and not agreement.is_complete:
        raise typer.Exit(1)


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


def _compared(
    vocabulary: Vocabulary, path: Path, to: str, text: list[str] | None, errors: Errors, max_line: str
) -> Agreement:
    """How the real library, with the file at `path`, cuts lines beside this vocabulary."""
    from volt.files.long_lines import parse_max_line
    from volt.formats.check import check, probe_lines
    from volt_cli.lines import read_lines

    if not text:
        return check(vocabulary, path, to, probe_lines(vocabulary))
    blocks = read_lines(text, errors=errors, max_line=parse_max_line(max_line))
    return check(vocabulary, path, to, [line for block in blocks for line in block])


def described(agreement: Agreement) -> list[str]:
    """Lines that tell how far two encoders agree.

    >>> from volt.formats.check import Agreement, Difference
    >>> described(Agreement("subword-nmt", 3, 2, None, (Difference(2, ["a", "b"], ["ab"]),)))
    ['subword-nmt: 2 of 3 lines have equal pieces', 'line 2', '  ours    a b', '  theirs  ab']
    """
    found = f"{agreement.library}: {agreement.n_equal_pieces:,} of {agreement.n_lines:,} lines have equal pieces"
    if agreement.n_equal_ids is not None:
        found += f", {agreement.n_equal_ids:,} equal ids"
    rows = [found]
    for difference in agreement.differences:
        ours, theirs = " ".join(difference.ours), " ".join(difference.theirs)
        rows += [f"line {difference.line}", f"  ours    {ours}", f"  theirs  {theirs}"]
    return rows
