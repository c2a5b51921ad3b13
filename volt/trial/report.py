"""`TrialResult` → a report for the terminal, its values as JSON data, and a page with the curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.choose.report import warning_lines
from volt.choose.rules import TRAINED
from volt.choose.training_law import Training
from volt.display import Grid, LabelledText, counted, html_curve, html_note, html_page, html_table
from volt.trial.results import Curve, Row, score
from volt.trial.schedule import Sizes

if TYPE_CHECKING:
    from rich.console import RenderableType

ENOUGH = 1_000_000  # characters to read, below which models have hardly begun to learn
CLOSE = 1.005  # times the best bits per character
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # of the characters read, for which best sizes are reported


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
        """Return the bits per character of the test by size, when trainings read no more."""
        scores = dict[int, list[float]]()
        for row in sorted(self.rows, key=lambda row: row["size"]):
            scores.setdefault(row["size"], []).append(score(row, characters / 1e6))
        return Curve("", np.array(list(scores)), tuple(map(np.array, scores.values())))

    @property
    def best(self) -> int:
        """The size with the fewest bits per character."""
        return best_of(self.curve)

    @property
    def best_for_request(self) -> int:
        """The best size for trainings of the requested length.

        If trainings read less, the best size changes as the pick of `trained` changes.
        """
        for_read = Training(read=self.characters).size(self.n_characters)
        for_request = Training(read=self.requested).size(self.n_characters)
        size = round(self.best * for_request / max(for_read, 1))
        return min(max(size, self.sizes.values[0]), self.best)

    @property
    def losses(self) -> dict[str, float]:
        """Rule → the loss of its pick in % of the best bits per character.

        A size beyond the sizes tried has the loss of the nearest.
        """
        return {rule: self._loss(self.curve.at(size)) for rule, size in self.picks.items()}

    def _loss(self, bits: float) -> float:
        return 100 * (bits / self.curve.best - 1)

    def is_beyond(self, size: int) -> bool:
        """Check whether a size is beyond the sizes tried."""
        return not self.curve.sizes[0] <= size <= self.curve.sizes[-1]

    @property
    def answer(self) -> str:
        low, high = close_to(self.curve)
        near = "no other size tried is within 0.5 %"
        if low < high:
            near = f"{low:,} to {high:,} are within 0.5 %"
        bits = f"{self.curve.best:.4f} bits per character of unseen text"
        return f"{self.best:,} tokens: {bits}; {near}."

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before trusting this result."""
        return [*self._length_warnings(), *self._size_warnings()]

    def _length_warnings(self) -> Iterator[str]:
        if self.characters < self.requested:
            requested = amount(self.requested)
            change = f"the rule {TRAINED} has no smaller size for {requested}"
            if self.best_for_request < self.best:
                change = (
                    f"by the rule {TRAINED} to {self.best_for_request:,} tokens for {requested}"
                )
            yield (
                f"the time allows each training to read {amount(self.characters)} of {requested} "
                f"characters; the best size falls as a training gets longer, {change}. "
                "Give more time to check it"
            )
        if self.characters < ENOUGH:
            yield (
                f"after {amount(self.characters)} characters, models have hardly begun to learn, "
                "and large sizes look better than they are; let trainings read "
                f"{amount(ENOUGH)} or more"
            )

    def _size_warnings(self) -> Iterator[str]:
        if self.left:
            more = counted(len(self.left), "more training")
            if self.best in dict(self.left):
                more += ", among them another seed of the best size"
            yield f"the time was over before {more}: give more hours, and run again to continue"

        tried = self.curve.sizes
        if len(tried) == 1:
            yield "one size alone was tried, so nothing was compared"
        elif self.best in (tried[0], tried[-1]):
            edge = "smallest" if self.best == tried[0] else "largest"
            why = "better ones may lie beyond it"
            if self.best in (self.sizes.values[0], self.sizes.values[-1]):
                why = "the trial has no size beyond it"
            yield f"the best size is the {edge} one tried; {why}"

    def __repr__(self) -> str:
        trainings = counted(len(self.rows), "training")
        bits = f"{self.curve.best:.4f} bits per character"
        return f"<TrialResult: {self.best:,} tokens are best, {bits}, {trainings}>"

    def _repr_html_(self) -> str:
        sizes = self.curve.sizes.tolist()
        means = self.curve.means.tolist()
        points = list(zip(sizes, means, strict=True))
        curve = html_curve(
            points,
            chosen=min(points, key=lambda point: point[1]),
            across="vocabulary size",
            upwards="bits per character",
        )
        by_size, *others = (
            html_table(table.heads, table.rows, strong=-1 if table.strong is None else table.strong)
            for table in report_tables(self)
        )
        return html_page(self.answer, *map(html_note, self.warnings), curve, by_size, *others)


def best_of(curve: Curve) -> int:
    return int(curve.sizes[np.argmin(curve.means)])


def close_to(curve: Curve) -> tuple[int, int]:
    """Return the range of sizes around the best one whose bits are within 0.5 %.

    Bits are interpolated over log size.
    """
    best = best_of(curve)
    spaced = np.geomspace(curve.sizes[0], curve.sizes[-1], 500)
    sizes = np.unique(spaced.round().astype(int))
    is_far = np.array([curve.at(size) > CLOSE * curve.best for size in sizes])
    below = np.flatnonzero(is_far & (sizes < best))
    above = np.flatnonzero(is_far & (sizes >= best))
    low = sizes[below[-1] + 1] if len(below) else sizes[0]
    high = sizes[above[0] - 1] if len(above) else sizes[-1]
    return min(int(low), best), max(int(high), best)


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
        millions = [
            row["millions"][np.argmin(row["dev"])] for row in result.rows if row["size"] == size
        ]
        epochs = [1e6 * read / result.n_characters for read in millions]
        yield {
            "size": size,
            "bits_per_character": bits,
            "loss_percent": result._loss(bits),
            "seeds": len(epochs),
            "epochs": float(np.mean(epochs)),
        }


def read_data(result: TrialResult) -> Iterator[dict[str, Any]]:
    """Yield the best size, and the sizes close to it, for several lengths of training."""
    for share in SHARES:
        read = share * result.characters
        curve = result.curve_at(read)
        yield {
            "characters": read,
            "epochs": read / result.n_characters,
            "best": best_of(curve),
            "close": list(close_to(curve)),
        }


def report_tables(result: TrialResult) -> list[Grid]:
    """Return tables of the sizes, of the rules, and of lengths of training."""
    sizes = []
    for size, bits, loss, seeds, epochs in (values.values() for values in size_data(result)):
        sizes.append([f"{size:,}", f"{bits:.4f}", f"{loss:.2f}", f"{seeds}", f"{epochs:.3g}"])
    rules = []
    for rule, size in result.picks.items():
        loss = f"{result.losses[rule]:.2f}"
        rules.append([rule, f"{size:,}", f"{loss} or more" if result.is_beyond(size) else loss])
    reads = []
    for read, epochs, best, (low, high) in (values.values() for values in read_data(result)):
        reads.append([amount(read), f"{epochs:.3g}", f"{best:,}", f"{low:,} to {high:,}"])
    strong = result.curve.sizes.tolist().index(result.best)
    return [
        Grid(("size", "bits/character", "loss %", "seeds", "epochs"), sizes, range(5), strong),
        Grid(("rule", "size", "loss %"), rules, [1]),
        Grid(("characters read", "epochs", "best size", "within 0.5 %"), reads, range(3)),
    ]


def as_data(result: TrialResult) -> dict[str, Any]:
    """Return all values of the report as JSON data."""
    rules = {}
    for rule, size in result.picks.items():
        is_beyond = result.is_beyond(size)
        loss = result.losses[rule]
        rules[rule] = {"size": size, "loss_percent": loss, "at_least": is_beyond}
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
        "rules": rules,
        "by_characters_read": list(read_data(result)),
        "trainings": list(result.rows),
        "left": [{"size": size, "seed": seed} for size, seed in result.left],
    }


def as_text(result: TrialResult) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    from rich.console import Group

    lines: list[RenderableType] = [LabelledText("answer    ", result.answer.split(" "))]
    lines += warning_lines(result.warnings)
    for table in report_tables(result):
        lines += ["", table]
    return Group(*lines, "")
