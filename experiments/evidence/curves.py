"""Results of trials → curves (volt/trial/results.py): the score of each size on each corpus, by one measure.

A measure names the score to read, the unit of a loss, and whether more is better. A language model's test score is read
at the reading with the best dev score: among all readings (the same text for every size), or among the readings within
the floating-point operations that the cheapest size needed for the whole text (the same compute).

>>> rows = [{"corpus": "a", "size": size, "seed": 1, "dev": [2.0], "test": [test], "operations": [1.0]}
...         for size, test in ((1000, 2.5), (4000, 2.4))]
>>> curve, = curves(rows, MEASURES["text"])
>>> curve.sizes.tolist(), curve.at(2000), curve.best
([1000, 4000], 2.45, 2.4)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volt.trial.results import Curve, Row, score


@dataclass(frozen=True, slots=True)
class Measure:
    """A score of results. kind: of the trials;  read: a result and the most operations → the score;  unit: of a loss,
    "%" of the best score or points;  sign: −1 where more is better;  by_compute: whether operations are limited."""

    name: str
    kind: str
    read: Callable[[Row, float], float]
    unit: str
    sign: int = 1
    by_compute: bool = False

    def regret(self, curve: Curve, size: int) -> float:
        lost = curve.at(size) - curve.best
        return lost / curve.best * 100 if self.unit == "%" else lost


def bits(row: Row, most: float) -> float:
    return score(row, most, along="operations")


MEASURES = {
    "text": Measure("bits per character, same text", "lm", bits, "%"),
    "compute": Measure("bits per character, same compute", "lm", bits, "%", by_compute=True),
    "translation": Measure(
        "bits per character of translations", "nmt", lambda row, _: float(row["test"]), "%"
    ),
    "BLEU": Measure("BLEU", "nmt", lambda row, _: float(row["BLEU"]), "points", -1),
    "chrF2": Measure("chrF2", "nmt", lambda row, _: float(row["chrF2"]), "points", -1),
}


def curves(rows: Sequence[Row], measure: Measure) -> list[Curve]:
    by_size: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_size[row["corpus"]][row["size"]].append(row)
    return [_curve(corpus, by_size[corpus], measure) for corpus in sorted(by_size)]


def _curve(corpus: str, rows: Mapping[int, Sequence[Row]], measure: Measure) -> Curve:
    most = (
        allowed([row for alike in rows.values() for row in alike]) if measure.by_compute else np.inf
    )
    sizes = sorted(rows)
    scores = tuple(
        np.array([measure.sign * measure.read(row, most) for row in rows[size]]) for size in sizes
    )
    return Curve(corpus, np.array(sizes), scores)


def allowed(rows: Sequence[Row]) -> float:
    """Return the operations of the cheapest training that used the whole text."""
    longest = max(len(row["operations"]) for row in rows)
    return min(float(row["operations"][-1]) for row in rows if len(row["operations"]) == longest)
