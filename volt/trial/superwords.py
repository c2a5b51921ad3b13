"""The result of a trial of superwords: one size, of whose tokens 0 or more are superwords.

Each number of superwords is compared with 0 in two ways:

    same text          all models have read equally many characters
    same operations    each training counts up to the operations that the cheapest one needs, so
                       models whose text has fewer pieces have read more of it

A difference is the mean, over seeds, of how many % more bits per character a training needs than the
training without superwords that has the same seed. Its interval is Student's, for 95 %, from the
variance between seeds of all numbers together; two seeds and few numbers make it wide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy.special import stdtrit

from volt.display import Grid
from volt.trial.results import TrialOutcome, score

UPPER = 0.975  # of Student's distribution, for an interval of 95 %
_HEADS = (
    "superwords",
    "with a space",
    "pieces/character",
    "bits, same text",
    "more %",
    "bits, same operations",
    "more %",
    "seeds",
)

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class BitsDifference:
    """Bits per character, and how many % more they are than those of the first models.

    margin: half the width of the interval of `more`; None if no others have two seeds
    """

    bits: float
    more: float
    margin: float | None

    def __str__(self) -> str:
        margin = "" if self.margin is None else f" ± {self.margin:.2f}"
        return f"{self.more:+.2f}{margin}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A number of superwords. crossing: the tokens that contain a space after another character"""

    superwords: int
    crossing: int
    pieces_per_character: float
    same_text: BitsDifference
    same_operations: BitsDifference
    seeds: int


@dataclass(frozen=True, repr=False)
class SuperwordResult(TrialOutcome):
    """The results of a trial of superwords.

    rows, requested, characters, left: see `TrialOutcome`; for each row, there is one without superwords
        and with the same seed
    size: the number of tokens of all vocabularies
    n_characters: the number of characters of the training text
    """

    size: int
    n_characters: int

    @cached_property
    def numbers(self) -> list[Compared]:
        """The numbers of superwords, ascending, from 0."""
        same_text = self._compare("millions")
        same_operations = self._compare("operations")
        numbers = []
        for number, difference in same_text.items():
            rows = [row for row in self.rows if row["superwords"] == number]
            pieces = np.mean([row["tokens"] / row["millions"][-1] / 1e6 for row in rows])
            compared = Compared(
                superwords=number,
                crossing=rows[0]["crossing"],
                pieces_per_character=float(pieces),
                same_text=difference,
                same_operations=same_operations[number],
                seeds=len(rows),
            )
            numbers.append(compared)
        return numbers

    def _compare(self, along: str) -> dict[int, BitsDifference]:
        """Compare trainings of one length. along: the values of a row that measure lengths"""
        per_million = min(row[along][-1] / row["millions"][-1] for row in self.rows)
        most = per_million * self.characters / 1e6
        bits = defaultdict[int, dict[int, float]](dict)
        for row in sorted(self.rows, key=lambda row: row["superwords"]):
            bits[row["superwords"]][row["seed"]] = score(row, most, along=along)
        return compare(bits)

    @property
    def best(self) -> Compared:
        """The number of superwords, or 0, with the fewest bits at the same operations."""
        return min(self.numbers, key=lambda number: number.same_operations.more)

    @property
    def answer(self) -> str:
        """A sentence with the best number of superwords above 0, its differences, and a verdict."""
        without, *others = self.numbers
        if not others:
            return "0 superwords: no other number was tried."
        best = min(others, key=lambda number: number.same_operations.more)
        saved = 1 - best.pieces_per_character / without.pieces_per_character
        operations = best.same_operations
        verdict = "they do not lower the bits clearly, and only shorten sequences"
        if operations.margin is None:
            verdict = "one seed cannot show how sure this is"
        elif operations.more < -operations.margin:
            verdict = "they are worth it where operations are limited"
        return (
            f"{best.superwords:,} superwords among {self.size:,} tokens save {saved:.1%} of the "
            f"pieces. Bits per character of unseen text change by {best.same_text} % at the same "
            f"text, and by {operations} % at the same operations: {verdict}."
        )

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before trusting this result."""
        change = "superwords may cost more or less in longer ones"
        effect = "differences may be others later"
        warnings = [*self.time_warnings(change, effect)]
        if not any(number.crossing for number in self.numbers):
            warnings.append("no token contains a space, so no superwords were compared")
        return warnings

    @property
    def tables(self) -> dict[str, Grid]:
        rows = []
        for number in self.numbers:
            cells = [f"{number.superwords:,}", f"{number.crossing:,}"]
            cells.append(f"{number.pieces_per_character:.4f}")
            for difference in (number.same_text, number.same_operations):
                cells += [f"{difference.bits:.4f}", str(difference) if number.superwords else ""]
            rows.append([*cells, f"{number.seeds}"])
        strong = self.numbers.index(self.best)
        return {"Numbers of superwords": Grid(_HEADS, rows, range(len(_HEADS)), strong)}

    @property
    def data(self) -> dict[str, Any]:
        """All values of the report as JSON data."""
        return {
            "answer": self.answer,
            "best": self.best.superwords,
            "warnings": self.warnings,
            "size": self.size,
            "training_characters": self.n_characters,
            "characters_requested": self.requested,
            "characters_read": self.characters,
            "superwords": list(map(asdict, self.numbers)),
            **self.training_data,
        }

    def __repr__(self) -> str:
        return f"<SuperwordResult: {self.answer}>"


def compare(bits: Mapping[K, Mapping[int, float]]) -> dict[K, BitsDifference]:
    """Compare models with the first ones, over the seeds that both have; without one, leave them out.

    bits: model → seed → bits per character

    >>> print(*compare({0: {1: 2.0, 2: 2.0}, 90: {1: 2.02, 2: 2.04}, 200: {2: 1.97}}).values())
    +0.00 ± 0.00 +1.50 ± 6.35 -1.50 ± 8.98
    """
    first = next(iter(bits.values()))
    models = [model for model in bits if bits[model].keys() & first.keys()]
    table = np.array([[bits[model].get(seed, np.nan) for seed in first] for model in models])
    more = 100 * (table / table[0] - 1)
    n_seeds = np.isfinite(more).sum(axis=1)
    freedom = int((n_seeds[1:] - 1).sum())
    margins: list[float | None] = [None] * len(models)
    if freedom:
        squares = (n_seeds * np.nanvar(more, axis=1)).sum()
        widths = stdtrit(freedom, UPPER) * np.sqrt(squares / freedom / n_seeds)
        margins = [0.0, *widths[1:].tolist()]
    means = np.nanmean(table, axis=1).tolist()
    differences = map(BitsDifference, means, np.nanmean(more, axis=1).tolist(), margins)
    return dict(zip(models, differences, strict=True))
