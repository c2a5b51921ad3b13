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
from volt.trial.results import Curve, TrialOutcome, amount, score
from volt.trial.schedule import Sizes
from volt.trial.sides import SidesResult
from volt.trial.superwords import SuperwordResult

if TYPE_CHECKING:
    from rich.console import RenderableType

SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # shorter trainings in the report, as shares of the length


@dataclass(frozen=True)
class TrialResult(TrialOutcome):
    """The results of a trial of sizes.

    rows, requested, characters, left: see `TrialOutcome`
    sizes: the sizes that may be tried
    n_characters: the number of characters of the training text
    picks: rule → the size that it picks on the training text
    """

    sizes: Sizes
    n_characters: int
    picks: dict[str, int]

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
        return self.curve.best_size

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
    def answer(self) -> str:
        """A sentence with the best size, its bits per character, and the sizes close to it."""
        low, high = self.curve.close_sizes
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
        return [*self.time_warnings(change, effect, among), *self._size_warnings()]

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

    def _list_sizes(self) -> Iterator[dict[str, Any]]:
        """Yield the values of each size tried.

        `epochs` says how often a training had read the text when dev was best, on average over
        seeds.
        """
        curve = self.curve
        for size, bits in zip(curve.sizes.tolist(), curve.means.tolist(), strict=True):
            rows = [row for row in self.rows if row["size"] == size]
            read = [1e6 * row["millions"][np.argmin(row["dev"])] for row in rows]
            epochs = np.mean(np.array(read) / self.n_characters)
            yield {
                "size": size,
                "bits_per_character": bits,
                "loss_percent": self._loss(bits),
                "seeds": len(rows),
                "epochs": float(epochs),
            }

    def _list_lengths(self) -> Iterator[dict[str, Any]]:
        """Yield the best size and the sizes close to it, for several lengths of training."""
        for share in SHARES:
            read = share * self.characters
            curve = self.curve_at(read)
            yield {
                "characters": read,
                "epochs": read / self.n_characters,
                "best": curve.best_size,
                "close": list(curve.close_sizes),
            }

    @property
    def tables(self) -> dict[str, Grid]:
        """Tables of the sizes, of the rules, and of lengths of training, by title."""
        sizes = []
        for size, bits, loss, seeds, epochs in map(dict.values, self._list_sizes()):
            sizes.append([f"{size:,}", f"{bits:.4f}", f"{loss:.2f}", f"{seeds}", f"{epochs:.3g}"])
        rules = []
        for rule, size in self.picks.items():
            loss = f"{self.losses[rule]:.2f}"
            if self.is_beyond(size):
                loss += " or more"
            elif size not in self.curve.sizes:
                loss = f"≈ {loss}"
            rules.append([rule, f"{size:,}", loss])
        lengths = []
        for read, epochs, best, (low, high) in map(dict.values, self._list_lengths()):
            lengths.append([amount(read), f"{epochs:.3g}", f"{best:,}", f"{low:,} to {high:,}"])
        strong = self.curve.sizes.tolist().index(self.best)
        size_heads = ("size", "bits/character", "loss %", "seeds", "epochs")
        length_heads = ("characters read", "epochs", "best size", "within 0.5 %")
        return {
            "Sizes": Grid(size_heads, sizes, range(5), strong),
            "What the picks of rules lose": Grid(("rule", "size", "loss %"), rules, [1]),
            "The best size of shorter trainings": Grid(length_heads, lengths, range(3)),
        }

    @property
    def data(self) -> dict[str, Any]:
        """All values of the report as JSON data."""
        rules = {}
        for rule, size in self.picks.items():
            rules[rule] = {
                "size": size,
                "loss_percent": self.losses[rule],
                "at_least": self.is_beyond(size),
                "interpolated": size not in self.curve.sizes,
            }
        return {
            "answer": self.answer,
            "best": self.best,
            "close": list(self.curve.close_sizes),
            "best_for_request": self.best_for_request,
            "warnings": self.warnings,
            "training_characters": self.n_characters,
            "characters_requested": self.requested,
            "characters_read": self.characters,
            "sizes": list(self._list_sizes()),
            "rules": rules,
            "by_characters_read": list(self._list_lengths()),
            **self.training_data,
        }

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
{"".join(map(html_note, result.notes))}
</main>
"""


def _table(table: Grid) -> str:
    return html_table(table.heads, table.rows, numbers=table.numbers, strong=table.strong)


def as_text(result: AnyResult) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    from rich.console import Group
    from rich.text import Text

    lines: list[RenderableType] = [LabelledText("answer    ", result.answer.split(" "))]
    lines += warning_lines(result.warnings)
    for table in result.tables.values():
        lines += ["", table]
    lines += [Text(note, style="dim") for note in result.notes]
    return Group(*lines, "")
