"""`TrialResult` → a report for the terminal, its values as JSON data, and a page with the curve."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.choose.rules import TRAINED
from volt.choose.training_law import Training
from volt.display import Grid, LabelledText, counted, html_curve, html_note, html_page, html_table
from volt.trial.results import Curve, Row, score
from volt.trial.schedule import Sizes

if TYPE_CHECKING:
    from rich.console import RenderableType

ENOUGH = 1_000_000  # characters to read, below which models have hardly begun to learn
CLOSE = 1.005  # times the best bits per character
SHARES = (
    0.1,
    0.2,
    0.3,
    0.5,
    0.7,
    1.0,
)  # of the characters read, at which the best size is reported
HEADS = ("size", "bits/character", "loss %", "seeds", "epochs")
RULES = ("rule", "size", "loss %")
READS = ("characters read", "epochs", "best size", "within 0.5 %")


@dataclass(frozen=True)
class TrialResult:
    """The results of a trial.

    rows: of the trainings, with bits per character of `dev` and `test` at each reading
    sizes: that may be tried
    n_characters: of the training text
    requested, characters: that a training should read, and that each was allowed to read
    picks: rule → the size that it picks on the training text
    left: (size, seed) of the trainings that the time did not allow
    """

    rows: tuple[Row, ...]
    sizes: Sizes
    n_characters: int
    requested: int
    characters: int
    picks: dict[str, int]
    left: tuple[tuple[int, int], ...]

    @cached_property
    def curve(self) -> Curve:
        return self.curve_at(self.characters)

    def curve_at(self, characters: float) -> Curve:
        """Return the bits per character of the test by size, at the best dev reading up to some characters."""
        by_size = defaultdict[int, list[float]](list)
        for row in self.rows:
            by_size[row["size"]].append(score(row, characters / 1e6))
        sizes = sorted(by_size)
        return Curve("", np.array(sizes), tuple(np.array(by_size[size]) for size in sizes))

    @property
    def best(self) -> int:
        """The size with the fewest bits per character."""
        return best_of(self.curve)

    @property
    def best_for_request(self) -> int:
        """The best size; if trainings read less than was requested, changed as the pick of `trained` changes."""
        before, after = (
            Training(read=read).size(self.n_characters)
            for read in (self.characters, self.requested)
        )
        return min(max(round(self.best * after / max(before, 1)), self.sizes.values[0]), self.best)

    @property
    def losses(self) -> dict[str, float]:
        """Rule → the loss of its pick in % of the best bits per character; beyond the sizes tried, of the nearest."""
        return {
            rule: 100 * (self.curve.at(size) / self.curve.best - 1)
            for rule, size in self.picks.items()
        }

    def is_beyond(self, size: int) -> bool:
        """Check whether a size is beyond the sizes tried."""
        return not self.curve.sizes[0] <= size <= self.curve.sizes[-1]

    @property
    def answer(self) -> str:
        low, high = close_to(self.curve)
        near = (
            f"{low:,} to {high:,} are within 0.5 %"
            if low < high
            else "no other size tried is within 0.5 %"
        )
        return f"{self.best:,} tokens: {self.curve.best:.4f} bits per character of unseen text; {near}."

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before trusting this result."""
        result, tried = list[str](), self.curve.sizes
        if self.characters < self.requested:
            longer = f"the rule {TRAINED} has no smaller size for {amount(self.requested)}"
            if self.best_for_request < self.best:
                longer = f"by the rule {TRAINED} to {self.best_for_request:,} tokens for {amount(self.requested)}"
            result.append(
                f"the time allows each training to read {amount(self.characters)} of {amount(self.requested)} "
                f"characters; the best size falls as a training gets longer, {longer}. Give more time to check it"
            )
        if self.characters < ENOUGH:
            result.append(
                f"after {amount(self.characters)} characters, models have hardly begun to learn, and large sizes "
                f"look better than they are; let trainings read {amount(ENOUGH)} or more"
            )
        if self.left:
            more = counted(len(self.left), "more training")
            if self.best in dict(self.left):
                more += ", among them another seed of the best size"
            result.append(
                f"the time was over before {more}: give more hours, and run again to continue"
            )
        if len(tried) == 1:
            result.append("one size alone was tried, so nothing was compared")
        elif self.best in tried[[0, -1]]:
            edge = "smallest" if self.best == tried[0] else "largest"
            is_limit = self.best in (self.sizes.values[0], self.sizes.values[-1])
            why = "the trial has no size beyond it" if is_limit else "better ones may lie beyond it"
            result.append(f"the best size is the {edge} one tried; {why}")
        return result

    def __repr__(self) -> str:
        trainings = counted(len(self.rows), "training")
        return f"<TrialResult: {self.best:,} tokens are best, {self.curve.best:.4f} bits per character, {trainings}>"

    def _repr_html_(self) -> str:
        points = [
            (float(size), float(bits))
            for size, bits in zip(self.curve.sizes, self.curve.means, strict=True)
        ]
        best, rows = [size for size, _ in points].index(self.best), size_rows(self)
        return html_page(
            self.answer,
            *map(html_note, self.warnings),
            html_curve(
                points, chosen=points[best], across="vocabulary size", upwards="bits per character"
            ),
            html_table(HEADS, rows, strong=[row[0] for row in rows].index(f"{self.best:,}")),
            *(html_table(*table) for table in ((RULES, rule_rows(self)), (READS, read_rows(self)))),
        )


def best_of(curve: Curve) -> int:
    return int(curve.sizes[np.argmin(curve.means)])


def close_to(curve: Curve) -> tuple[int, int]:
    """Return the sizes around the best one whose bits, interpolated over log size, are within 0.5 %."""
    sizes = np.unique(np.geomspace(curve.sizes[0], curve.sizes[-1], 500).round().astype(int))
    is_far = np.array([curve.at(size) > CLOSE * curve.best for size in sizes])
    best = int(np.searchsorted(sizes, best_of(curve)))
    below, above = np.flatnonzero(is_far[:best]), np.flatnonzero(is_far[best:])
    low = sizes[below[-1] + 1] if len(below) else sizes[0]
    high = sizes[best + above[0] - 1] if len(above) else sizes[-1]
    return min(int(low), best_of(curve)), max(int(high), best_of(curve))


def amount(characters: float) -> str:
    """Return a number of characters, in millions if there are any.

    >>> amount(5_060_000), amount(98_100)
    ('5.06 M', '98,100')
    """
    return f"{characters / 1e6:,.3g} M" if characters >= 1e6 else f"{characters:,.0f}"


def size_data(result: TrialResult) -> Iterator[dict[str, Any]]:
    """Yield the values of each size; epochs are the mean at the best dev reading."""
    curve = result.curve
    for size, bits in zip(curve.sizes.tolist(), curve.means.tolist(), strict=True):
        rows = [row for row in result.rows if row["size"] == size]
        epochs = [
            1e6 * row["millions"][int(np.argmin(row["dev"]))] / result.n_characters for row in rows
        ]
        yield {
            "size": size,
            "bits_per_character": bits,
            "loss_percent": 100 * (bits / curve.best - 1),
            "seeds": len(rows),
            "epochs": float(np.mean(epochs)),
        }


def read_data(result: TrialResult) -> Iterator[dict[str, Any]]:
    """Yield the best size, and the sizes close to it, for several lengths of training."""
    for read in (share * result.characters for share in SHARES):
        curve, epochs = result.curve_at(read), read / result.n_characters
        yield {
            "characters": read,
            "epochs": epochs,
            "best": best_of(curve),
            "close": list(close_to(curve)),
        }


def size_rows(result: TrialResult) -> list[list[str]]:
    return [
        [f"{size:,}", f"{bits:.4f}", f"{loss:.2f}", f"{seeds}", f"{epochs:.3g}"]
        for size, bits, loss, seeds, epochs in (one.values() for one in size_data(result))
    ]


def rule_rows(result: TrialResult) -> list[list[str]]:
    return [
        [rule, f"{size:,}", f"{result.losses[rule]:.2f}" + " or more" * result.is_beyond(size)]
        for rule, size in result.picks.items()
    ]


def read_rows(result: TrialResult) -> list[list[str]]:
    rows = list[list[str]]()
    for read, epochs, best, (low, high) in (one.values() for one in read_data(result)):
        rows.append([amount(read), f"{epochs:.3g}", f"{best:,}", f"{low:,} to {high:,}"])
    return rows


def as_data(result: TrialResult) -> dict[str, Any]:
    """Return all values of the report as JSON data."""
    return {
        "answer": result.answer,
        "best": result.best,
        "close": list(close_to(result.curve)),
        "best_for_request": result.best_for_request,
        "warnings": result.warnings,
        "training_characters": result.n_characters,
        "characters_requested": result.requested,
        "characters_read": result.characters,
        "sizes": list(size_data(result)),
        "rules": {
            rule: {
                "size": size,
                "loss_percent": result.losses[rule],
                "at_least": result.is_beyond(size),
            }
            for rule, size in result.picks.items()
        },
        "by_characters_read": list(read_data(result)),
        "trainings": list(result.rows),
        "left": [{"size": size, "seed": seed} for size, seed in result.left],
    }


def as_text(result: TrialResult) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [LabelledText("answer    ", result.answer.split(" "))]
    for warning in result.warnings:
        parts += ["", Text.assemble(("warning ", "bold yellow"), warning)]
    rows = size_rows(result)
    strong = [row[0] for row in rows].index(f"{result.best:,}")
    parts += ["", Grid(HEADS, rows, range(5), strong=strong), ""]
    parts += [Grid(RULES, rule_rows(result), [1]), "", Grid(READS, read_rows(result), range(3)), ""]
    return Group(*parts)
