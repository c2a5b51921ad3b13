"""What became of rounds, as a Markdown table: one row for a loader, its versions, and what changed at the resume.

>>> rows = rows_of("a loader", "it 1.0", [Outcome("world", "counted", 3, 0), Outcome("world", "refused", told="No: x")])
>>> [row.cells[2:] for row in rows]
[('world', '2', '0', '3.0', '0.0', '1', '0', '0', 'refused: No: x')]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from experiments.resume.rounds import Outcome

HEAD = (
    "loader", "versions", "changed at resume", "rounds", "exact", "lost per epoch", "repeated per epoch", "refused",
    "errors", "hangs", "first words",
)  # fmt: skip
N_TEXT = 3
MOST = 110  # characters of what a loader said


class Row(NamedTuple):
    """Cells as text. lost, repeated: means over the rounds that came to their end."""

    loader: str
    versions: str
    change: str
    rounds: str
    exact: str
    lost: str
    repeated: str
    refused: str
    errors: str
    hangs: str
    told: str

    @property
    def cells(self) -> tuple[str, ...]:
        """All."""
        return tuple(self)


def rows_of(told: str, versions: str, outcomes: Iterable[Outcome]) -> Iterator[Row]:
    """One row for each change."""
    for change, group in groupby(outcomes, key=lambda outcome: outcome.change):
        found = list(group)
        counted = [outcome for outcome in found if outcome.kind == "counted"]
        refused, errors, hangs = (
            f"{sum(outcome.kind == kind for outcome in found):,}" for kind in ("refused", "error", "hang")
        )
        yield Row(
            told, versions, change, f"{len(found):,}",
            f"{sum(outcome.lost == outcome.repeated == 0 for outcome in counted):,}",
            _mean([outcome.lost for outcome in counted]), _mean([outcome.repeated for outcome in counted]),
            refused, errors, hangs, _first_words(found),
        )  # fmt: skip


def missing(told: str, versions: str, why: str) -> Row:
    """The row of a loader that is not there."""
    return Row(told, versions, "", "0", "", "", "", "", "", "", f"not installed: {_cut(why)}")


def _mean(counts: Sequence[int]) -> str:
    return f"{sum(counts) / len(counts):,.1f}" if counts else "–"


def _first_words(outcomes: Iterable[Outcome]) -> str:
    """What was said first of each kind."""
    said: dict[str, str] = {}
    for outcome in outcomes:
        if outcome.kind != "counted":
            said.setdefault(outcome.kind, f"{outcome.kind}: {_cut(outcome.told)}")
    return "; ".join(said.values())


def _cut(text: str) -> str:
    """The beginning; of an error within torch's worker, which comes with a traceback, the end of that.

    >>> _cut("KeyError: Caught KeyError in worker.\\nOriginal Traceback (most recent):\\n …\\nKeyError: 'x'")
    "KeyError: 'x'"
    """
    lines = text.strip().splitlines()
    if any(line.startswith("Original Traceback") for line in lines):
        lines = lines[-1:]
    flat = " ".join(" ".join(lines).split()).replace("|", "¦")
    return flat if len(flat) <= MOST else f"{flat[: MOST - 1]}…"


def as_table(rows: Iterable[Row]) -> str:
    """Markdown."""
    lines = [HEAD, *(row.cells for row in rows)]
    rule = "|".join("---" if column < N_TEXT or column == len(HEAD) - 1 else "--:" for column in range(len(HEAD)))
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, f"|{rule}|", *body])
