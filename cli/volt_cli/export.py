"""`volt export`: a vocabulary → the file or folder that another library loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.errors import ConfigError
from volt_cli.console import say
from volt_cli.models import load_model

if TYPE_CHECKING:
    from volt.formats.check import Agreement
    from volt.vocabulary import Vocabulary


def export(
    model: Annotated[Path, typer.Argument(help="A vocabulary file, VOLT's or another.")],
    to: Annotated[
        str,
        typer.Option(
            "--to", help="subword-nmt, sentencepiece, huggingface, tiktoken, fairseq, marian, opennmt or tokens."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--output", help="Where to write.")],
    text: Annotated[list[str] | None, typer.Argument(help="With --check: files, globs or folders to encode.")] = None,
    closed: Annotated[bool, typer.Option("--closed", help="Keep scaffolding as tokens.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Encode TEXT here and with the real library; fail if they differ.")
    ] = False,
    encoding_errors: Annotated[str, typer.Option(help="Lines that are not UTF-8: strict, replace or skip.")] = "strict",
) -> None:
    """Write a vocabulary in the format of another library, and say what it cannot carry."""
    from volt.formats.registry import format_module, write_vocabulary

    module = format_module(to)
    if text and not check:
        raise ConfigError("TEXT is what --check encodes; add --check or leave it out")
    if check and not hasattr(module, "peer"):
        raise ConfigError(f"--check: no library cuts text with {to} alone; leave it out")
    vocabulary = load_model(model)
    vocabulary = _closed(vocabulary, to) if closed else vocabulary
    for note in write_vocabulary(vocabulary, out, to=to):
        say(f"note: {note}")
    say(f"wrote {out}: {vocabulary.size:,} tokens for {to}")
    if check and not _agrees(vocabulary, out, to, text, encoding_errors):
        raise typer.Exit(1)


def _closed(vocabulary: Vocabulary, to: str) -> Vocabulary:
    """With scaffolding as tokens; in the order of the merges where the format cannot number tokens otherwise."""
    if to != "tiktoken":
        return vocabulary.closed()
    closed = vocabulary.closed(order="merges")
    if closed.tokens[: vocabulary.size] != vocabulary.tokens:
        say(
            "note: tiktoken numbers tokens in the order of the merges, so --closed gives other ids than MODEL has; "
            "volt import of the file has them too"
        )
    return closed


def _agrees(vocabulary: Vocabulary, path: Path, to: str, text: list[str] | None, errors: str) -> bool:
    """Compare, print, and tell whether all lines agree."""
    from volt.formats.check import check, probe_lines
    from volt_cli.lines import read_lines

    lines = [line for block in read_lines(text, errors=errors) for line in block] if text else probe_lines(vocabulary)
    agreement = check(vocabulary, path, to, lines)
    sys.stdout.buffer.write("\n".join(described(agreement)).encode(errors="backslashreplace") + b"\n")
    sys.stdout.flush()
    return agreement.is_complete


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
