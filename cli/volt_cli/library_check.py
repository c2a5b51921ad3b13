"""The option --check of `volt export` and `volt import`.

It compares VOLT's encoder with the library of a format. Both encode the lines of TEXT. The report
counts the lines with equal pieces and equal ids, and shows the first differences.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.errors import ConfigError
from volt_cli.console import say
from volt_cli.io import decode_lines, is_stdout, read_text_blocks, show_destination
from volt_cli.options import Pattern, Reading, argument, expand_inputs, flag

if TYPE_CHECKING:
    from volt.formats.check import Agreement
    from volt.vocabulary import Vocabulary


Texts = Annotated[
    list[str] | None,
    argument(
        "TEXT",
        "With --check: files, globs or folders to encode.",
        callback=lambda text: expand_inputs(text) if text else None,
    ),
]


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Reading):
    text: Texts = None
    check: Annotated[
        bool, flag("Also encode TEXT with the format's library; fail on differences.", "--check")
    ] = False
    pattern: Pattern = None

    def check_format(self, format: str | None) -> None:
        """Raise ConfigError for TEXT without --check, or if no library can check the format.

        format: None if unknown
        """
        from volt.formats.registry import peer_loader

        if self.text and not self.check:
            raise ConfigError("TEXT works only with --check; add --check, or remove TEXT")
        if self.check and format is not None and peer_loader(format) is None:
            raise ConfigError(
                f"--check: no library can split text with {format} alone; remove --check"
            )

    def compare(self, vocabulary: Vocabulary, path: Path, format: str) -> Agreement | None:
        """Encode with VOLT and with the library that loads `path`; return None without --check.

        Both encode the lines of TEXT or, without TEXT, lines made of the vocabulary's tokens.
        """
        from volt.formats.check import check, probe_lines

        if not self.check:
            return None
        if self.text:
            blocks = read_text_blocks(self.text, **self.limits)
            lines = [*chain.from_iterable(map(decode_lines, blocks))]
        else:
            lines = probe_lines(vocabulary)
        return check(vocabulary, path, format, lines)


def report_agreement(agreement: Agreement, out: Path) -> None:
    """Print how often VOLT and the library agree. Raises Exit with status 1 if they differ.

    out: the written file
    """
    result = f"{agreement.library}: {agreement.n_equal_pieces:,} of {agreement.n_lines:,} lines have equal pieces"
    if agreement.n_equal_ids is not None:
        result += f", {agreement.n_equal_ids:,} equal ids"
    rows = [result]
    for difference in agreement.differences:
        rows += [
            f"line {difference.line}",
            f"  ours    {' '.join(difference.ours)}",
            f"  theirs  {' '.join(difference.theirs)}",
        ]
    stream = sys.stderr if is_stdout(out) else sys.stdout
    stream.buffer.write("\n".join(rows).encode(errors="backslashreplace") + b"\n")
    stream.flush()
    if not agreement.n_lines:
        say("note: --check: TEXT contains no lines, so nothing was compared")
    if not agreement.is_complete:
        say(f"note: --check: the encoders differ; {show_destination(out)} was written")
        raise typer.Exit(1)
