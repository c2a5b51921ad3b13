"""`--check` of export and import: lines are encoded here and by another library, and what differs is shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from volt.errors import ConfigError, shown_path
from volt_cli.console import say
from volt_cli.places import is_stdout

if TYPE_CHECKING:
    from volt.files.blocks import Errors
    from volt.formats.check import Agreement
    from volt.vocabulary import Vocabulary


def refuse_unchecked(text: Sequence[str] | None, check: bool, format: str | None) -> None:
    """Raise ConfigError if there is text but nothing to check, or nothing that could check it.

    format: None if it is not known yet
    """
    from volt.formats.registry import peer_loader

    if text and not check:
        raise ConfigError("TEXT is what --check encodes; add --check or leave it out")
    if check and format is not None and peer_loader(format) is None:
        raise ConfigError(f"--check: no library cuts text with {format} alone; leave it out")


def lines_to_check(vocabulary: Vocabulary, text: list[str] | None, errors: Errors, max_line: str) -> list[str]:
    """The lines of these files; without files, lines made of the vocabulary's tokens."""
    from volt.files.long_lines import parse_max_line
    from volt.formats.check import probe_lines
    from volt_cli.lines import read_lines

    if not text:
        return probe_lines(vocabulary)
    blocks = read_lines(text, errors=errors, max_line=parse_max_line(max_line))
    return [line for block in blocks for line in block]


def print_agreement(agreement: Agreement, *, written: Path, on_stderr: bool = False) -> None:
    """Print how far two encoders agree. Raises typer.Exit(1) if they differ.

    written: what stays there all the same
    """
    stream = sys.stderr if on_stderr else sys.stdout
    stream.buffer.write("\n".join(described(agreement)).encode(errors="backslashreplace") + b"\n")
    stream.flush()
    if not agreement.n_lines:
        say("note: --check: TEXT holds no lines, so nothing was compared")
    if not agreement.is_complete:
        say(f"note: --check: the encoders differ; {'stdout' if is_stdout(written) else shown_path(written)} is written")
        raise typer.Exit(1)


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
