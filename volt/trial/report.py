"""The result of a trial (`TrialResult`) and its report: for a terminal, as JSON data, as HTML.

The report has the best size, warnings, and three tables: bits per character by size; the loss of
the size that each rule picks; the best size if trainings had been shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from volt.choose.report import warning_lines
from volt.choose.rules import TRAINED
from volt.choose.training_law import Training
from volt.display import (
    Grid,
    LabelledText,
    counted,
    escape,
    html_curve,
    html_note,
    html_page,
    html_table,
)
from volt.trial.results import Curve, Row, amount, score, shared_warnings
from volt.trial.schedule import Sizes
from volt.trial.sides import SidesResult
from volt.trial.superwords import SuperwordResult

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.trial.results import TrainingChoice

CLOSE = 1.005  # a size is close to the best if its bits are at most so many times the best bits
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # shorter trainings in the report, as shares of the length


@dataclass(frozen=True)
class TrialResult:
    """The results of a trial.

    rows: the result of each training, as in `volt.trial.results`
    sizes: the sizes that may be tried
    n_characters: the number of characters of the training text
    requested: the number of characters that each training should read
    characters: the number of characters that each training was allowed to read
    picks: rule → the size that it picks on the training text
    left: the trainings that the time did not allow
    """

    rows: tuple[Row, ...]
    sizes: Sizes
    n_characters: int
    requested: int
    characters: int
    picks: dict[str, int]
    left: tuple[TrainingChoice, ...]

    @cached_property
    def curve(self) -> Curve:
        return self.curve_at(self.characters)

    def curve_at(self, characters: float) -> Curve:
        """Return the scores of each size if trainings had read so many characters."""
        scores_at = dict[int, list[float]]()
        for row in sorted(self.rows, key=lambda row: row["size"]):
            scores_at.setdefault(row["size"], []).append(score(row, characters / 1e6))
        return Curve("", np.array(list(scores_at)), tuple(map(np.array, scores_at.values())))

    @property
    def best(self) -> int:
        """The tried size with the fewest bits per character."""
        return best_of(self.curve)

    @property
    def best_for_request(self) -> int:
        """The estimated best size for trainings of the requested length.

        If trainings read less than requested, the best size is changed by the factor by which the
        pick of the rule `trained` changes from their length to the requested length.
        """
        for_read = Training(read=self.characters).size(self.n_characters)
        for_request = Training(read=self.requested).size(self.n_characters)
        size = round(self.best * for_request / max(for_read, 1))
        return min(max(size, self.sizes.values[0]), self.best)

    @property
    def losses(self) -> dict[str, float]:
        """Rule → the loss of its pick: how many % more bits per character than the best size.

        A pick beyond the sizes tried has the loss of the nearest size tried, and may lose more.
        """
        return {rule: self._loss(self.curve.at(size)) for rule, size in self.picks.items()}

    def _loss(self, bits: float) -> float:
        return 100 * (bits / self.curve.best - 1)

    def is_beyond(self, size: int) -> bool:
        """Check whether a size is smaller or larger than all sizes tried."""
        return not self.curve.sizes[0] <= size <= self.curve.sizes[-1]

    @property
    def tables(self) -> dict[str, Grid]:
        """Tables of the sizes, of the rules, and of lengths of training, by title."""
        return report_tables(self)

    @property
    def answer(self) -> str:
        """A sentence with the best size, its bits per character, and the sizes close to it."""
        low, high = close_to(self.curve)
        near = "no other size tried is within 0.5 %"
        if len(self.curve.sizes) == 1:
            near = "no other size was tried"
        elif low < high:
            near = f"{low:,} to {high:,} are within 0.5 %, interpolated between the sizes tried"
        bits = f"{self.curve.best:.4f} bits per character of unseen text"
        return f"{self.best:,} tokens: {bits}; {near}."

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before trusting this result."""
        requested = amount(self.requested)
        change = f"the rule {TRAINED} has no smaller size for {requested}"
        if self.best_for_request < self.best:
            change = f"by the rule {TRAINED} to {self.best_for_request:,} tokens for {requested}"
        change = f"the best size falls as a training gets longer, {change}"
        effect = "large sizes look better than they are"
        among = ""
        if self.best in [choice.size for choice in self.left]:
            among = ", among them another seed of the best size"
        return [*shared_warnings(self, change, effect, among), *self._size_warnings()]

    def _size_warnings(self) -> Iterator[str]:
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
        tables = map(_table, self.tables.values())
        return html_page(self.answer, *map(html_note, self.warnings), self._drawing(), *tables)

    def _drawing(self) -> str:
        """Return the curve as HTML."""
        sizes = self.curve.sizes.tolist()
        means = self.curve.means.tolist()
        points = list(zip(sizes, means, strict=True))
        return html_curve(
            points,
            chosen=min(points, key=lambda point: point[1]),
            across="vocabulary size",
            upwards="bits per character",
        )


AnyResult: TypeAlias = TrialResult | SuperwordResult | SidesResult


def best_of(curve: Curve) -> int:
    """Return the size with the smallest mean score."""
    return int(curve.sizes[np.argmin(curve.means)])


def close_to(curve: Curve) -> tuple[int, int]:
    """Return the smallest and largest size around the best one whose bits are within 0.5 %.

    Bits are interpolated over the logarithm of the size.
    """
    best = best_of(curve)
    grid = np.geomspace(curve.sizes[0], curve.sizes[-1], 500)
    sizes = np.unique(grid.round().astype(int))
    is_far = np.array([curve.at(size) > CLOSE * curve.best for size in sizes])
    far_below = np.flatnonzero(is_far & (sizes < best))
    far_above = np.flatnonzero(is_far & (sizes >= best))
    low = sizes[far_below[-1] + 1] if len(far_below) else sizes[0]
    high = sizes[far_above[0] - 1] if len(far_above) else sizes[-1]
    return min(int(low), best), max(int(high), best)


def size_data(result: TrialResult) -> Iterator[dict[str, Any]]:
    """Yield the values of each size tried.

    `epochs` says how often a training had read the text when dev was best, on average over seeds.
    """
    curve = result.curve
    for size, bits in zip(curve.sizes.tolist(), curve.means.tolist(), strict=True):
        rows = [row for row in result.rows if row["size"] == size]
        epochs = [
            1e6 * row["millions"][np.argmin(row["dev"])] / result.n_characters for row in rows
        ]
        yield {
            "size": size,
            "bits_per_character": bits,
            "loss_percent": result._loss(bits),
            "seeds": len(epochs),
            "epochs": float(np.mean(epochs)),
        }


def read_data(result: TrialResult) -> Iterator[dict[str, Any]]:
    """Yield the best size and the range of sizes close to it, for several lengths of training."""
    for share in SHARES:
        read = share * result.characters
        curve = result.curve_at(read)
        yield {
            "characters": read,
            "epochs": read / result.n_characters,
            "best": best_of(curve),
            "close": list(close_to(curve)),
        }


def report_tables(result: TrialResult) -> dict[str, Grid]:
    """Return tables of the sizes, of the rules, and of lengths of training, by title."""
    sizes = []
    for size, bits, loss, seeds, epochs in (values.values() for values in size_data(result)):
        sizes.append([f"{size:,}", f"{bits:.4f}", f"{loss:.2f}", f"{seeds}", f"{epochs:.3g}"])
    rules = []
    for rule, size in result.picks.items():
        loss = f"{result.losses[rule]:.2f}"
        if result.is_beyond(size):
            loss += " or more"
        elif size not in result.curve.sizes:
            loss = f"≈ {loss}"
        rules.append([rule, f"{size:,}", loss])
    reads = []
    for read, epochs, best, (low, high) in (values.values() for values in read_data(result)):
        reads.append([amount(read), f"{epochs:.3g}", f"{best:,}", f"{low:,} to {high:,}"])
    strong = result.curve.sizes.tolist().index(result.best)
    heads = ("size", "bits/character", "loss %", "seeds", "epochs")
    lengths = ("characters read", "epochs", "best size", "within 0.5 %")
    return {
        "Sizes": Grid(heads, sizes, range(5), strong),
        "What the picks of rules lose": Grid(("rule", "size", "loss %"), rules, [1]),
        "The best size of shorter trainings": Grid(lengths, reads, range(3)),
    }


def as_data(result: AnyResult) -> dict[str, Any]:
    """Return all values of the report as JSON data."""
    if not isinstance(result, TrialResult):
        return result.data
    rules = {}
    for rule, size in result.picks.items():
        rules[rule] = {
            "size": size,
            "loss_percent": result.losses[rule],
            "at_least": result.is_beyond(size),
            "interpolated": size not in result.curve.sizes,
        }
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
        "left": [choice.labels for choice in result.left],
    }


def as_page(result: AnyResult) -> str:
    """Return the report as an HTML page in the style of the page of `volt compare`."""
    from volt.comparison.page.page import read_resource

    number, noun, *_ = result.answer.replace(":", "").split()
    if isinstance(result, SidesResult):
        number = f"{result.best.source:,} + {result.best.target:,}"
        noun = "tokens"
    warnings = "".join(f"<li>{escape(sentence)}</li>" for sentence in result.warnings)
    sections = [
        f'<section><h2>{title}</h2><div class="scroll all">{_table(table)}</div></section>'
        for title, table in result.tables.items()
    ]
    figure = ""
    if isinstance(result, TrialResult):
        figure = f"<figure>{result._drawing()}</figure>"
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>VOLT trial: {number} {noun}</title>
<style>{read_resource("page.css")}</style>
<header>
<p class="name">VOLT</p>
<h1><span class="big">{number}</span> {noun}</h1>
<p class="answer">{escape(result.answer)}</p>
<ul class="warnings">{warnings}</ul>
</header>
<main>
{figure}
{"".join(sections)}
</main>
"""


def _table(table: Grid) -> str:
    return html_table(table.heads, table.rows, numbers=table.numbers, strong=table.strong)


def as_text(result: AnyResult) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    from rich.console import Group

    lines: list[RenderableType] = [LabelledText("answer    ", result.answer.split(" "))]
    lines += warning_lines(result.warnings)
    for table in result.tables.values():
        lines += ["", table]
    return Group(*lines, "")
