"""What a campaign found: findings, and rows of counts, as a Markdown table that reads well in a terminal too.

>>> row = Row("io", "faults", 7, 7, 1.0, [Finding("io", "hung", "encode", "no end", "again")])
>>> print(as_table([row]))
| part | what   | done | planned | lost | hung | tracebacks | left | other | seconds |
|------|--------|-----:|--------:|-----:|-----:|-----------:|-----:|------:|--------:|
| io   | faults |    7 |       7 |    0 |    1 |          0 |    0 |     0 |     1.0 |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

NAMED = ("lost", "hung", "traceback", "left")  # these have columns of their own
HEAD = ("part", "what", "done", "planned", "lost", "hung", "tracebacks", "left", "other", "seconds")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong.

    kind: lost (data), hung, traceback, left (files, processes, descriptors), or what else it is
    where: which command or target;  told: what was seen;  again: the arguments that repeat it alone
    """

    part: str
    kind: str
    where: str
    told: str
    again: str

    @property
    def family(self) -> tuple[str, str, str, str]:
        """Findings that are likely one fault have the same."""
        return self.part, self.kind, self.where.partition("/")[0], re.sub(r"[0-9a-f]{6,}|\d+", "#", self.told)[:80]


@dataclass(slots=True)
class Row:
    """A part's counts. what: what was counted;  done: how many, of how many planned."""

    part: str
    what: str
    done: int = 0
    planned: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    @property
    def cells(self) -> list[str]:
        """The row as text."""
        kinds = [finding.kind for finding in self.findings]
        named = [kinds.count(kind) for kind in NAMED]
        counts = [self.done, self.planned, *named, len(kinds) - sum(named)]
        return [self.part, self.what, *(f"{count:,}" for count in counts), f"{self.seconds:,.1f}"]


def as_table(rows: Iterable[Row]) -> str:
    """The table."""
    cells = [list(HEAD), *(row.cells for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEAD))]

    def line(row: Sequence[str]) -> str:
        words = (cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths, strict=True)))  # fmt: skip  # noqa: E501
        return f"| {' | '.join(words)} |"

    rule = "|".join("-" * (width + 2) if column < 2 else "-" * (width + 1) + ":" for column, width in enumerate(widths))
    return "\n".join([line(cells[0]), f"|{rule}|", *map(line, cells[1:])])


def as_list(findings: Iterable[Finding]) -> str:
    """Each finding with what repeats it; those that are likely one are told once, with their number."""
    ordered = sorted(findings, key=lambda finding: finding.family)
    told = []
    for _, group in groupby(ordered, key=lambda finding: finding.family):
        first, *more = group
        like = f"  (and {len(more)} like it)" if more else ""
        told.append(f"{first.kind}: {first.where}: {first.told}{like}\n  {first.again}")
    return "\n".join(told)
