"""Results of trials → curves: for each corpus, what each size scored, by one measure.

A measure says how a result is read, in which unit a loss is told, and whether more is better. Of a language model's ten
readings the one counts that dev liked best: among all of them (the same text for every size), or among those that came
before so many floating-point operations as the cheapest size needed for the whole text (the same compute).

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Curve:
    """What the sizes of a corpus scored; less is better.

    sizes: (n,) that were tried, ascending
    scores: of each size, one for each seed
    """

    corpus: str
    sizes: NDArray[np.int64]
    scores: tuple[Floats, ...]

    @property
    def means(self) -> Floats:
        """(n,) over the seeds."""
        return np.array([float(one.mean()) for one in self.scores])

    @property
    def best(self) -> float:
        """The least mean."""
        return float(self.means.min())

    def at(self, size: int) -> float:
        """The score of any size: on the line, over the logarithm of the size, between the two tried beside it.

        A size beyond those tried scores as the last one.
        """
        return float(np.interp(np.log(size), np.log(self.sizes), self.means))

    def reaches(self, size: int) -> bool:
        """Whether a size lies among those tried, or beyond them by a factor of two at most: farther off is a guess."""
        return bool(self.sizes[0] <= 2 * size and size <= 2 * self.sizes[-1])

    def smooth(self) -> int:
        """The best size of the tried range by a parabola, over the logarithm of the size, through all scores."""
        places = np.concatenate(
            [np.full(len(one), np.log(size)) for size, one in zip(self.sizes, self.scores, strict=True)]
        )
        fit = np.polynomial.Polynomial.fit(places, np.concatenate(self.scores), min(2, len(self.sizes) - 1))
        inner = np.linspace(places.min(), places.max(), 1001)
        return round(float(np.exp(inner[np.argmin(fit(inner))])))


@dataclass(frozen=True, slots=True)
class Measure:
    """How results are judged.

    name: as tables show it
    kind: of the trials, lm or nmt
    read: a result, and the operations that are allowed → the score
    unit: in which a loss is told: "%" of the best, or points
    sign: −1 where more is better
    by_compute: whether operations are limited
    """

    name: str
    kind: str
    read: Callable[[Row, float], float]
    unit: str
    sign: int = 1
    by_compute: bool = False

    def regret(self, curve: Curve, size: int) -> float:
        """What a size loses against the best one tried, never below 0."""
        lost = curve.at(size) - curve.best
        return lost / curve.best * 100 if self.unit == "%" else lost


def bits(row: Row, most: float) -> float:
    """Bits per character of the test at the reading that dev liked best before so many operations.

    Between the last reading before and the first behind, both are on the line over the logarithm of the operations.

    >>> row = {"operations": [1.0, 4.0], "dev": [3.0, 2.0], "test": [3.1, 2.1]}
    >>> bits(row, np.inf), round(bits(row, 2.0), 6)
    (2.1, 2.6)
    """
    places, dev, test = (np.array(row[name], float) for name in ("operations", "dev", "test"))
    if most < places[-1]:
        n = int(np.searchsorted(places, most, side="right"))
        behind = [float(np.interp(np.log(most), np.log(places), one)) for one in (dev, test)]
        dev, test = np.append(dev[:n], behind[0]), np.append(test[:n], behind[1])
    return float(test[np.argmin(dev)])


MEASURES = {
    "text": Measure("bits per character, same text", "lm", bits, "%"),
    "compute": Measure("bits per character, same compute", "lm", bits, "%", by_compute=True),
    "translation": Measure("bits per character of translations", "nmt", lambda row, _: float(row["test"]), "%"),
    "BLEU": Measure("BLEU", "nmt", lambda row, _: float(row["BLEU"]), "points", -1),
    "chrF2": Measure("chrF2", "nmt", lambda row, _: float(row["chrF2"]), "points", -1),
}


def curves(rows: Sequence[Row], measure: Measure) -> list[Curve]:
    """The curves of all corpora, by name."""
    found: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["corpus"]][row["size"]].append(row)
    return [_curve(corpus, found[corpus], measure) for corpus in sorted(found)]


def _curve(corpus: str, rows: Mapping[int, Sequence[Row]], measure: Measure) -> Curve:
    most = allowed([row for alike in rows.values() for row in alike]) if measure.by_compute else np.inf
    sizes = sorted(rows)
    scores = tuple(np.array([measure.sign * measure.read(row, most) for row in rows[size]]) for size in sizes)
    return Curve(corpus, np.array(sizes), scores)


def allowed(rows: Sequence[Row]) -> float:
    """The operations of the cheapest training that learned from the whole text."""
    longest = max(len(row["operations"]) for row in rows)
    return min(float(row["operations"][-1]) for row in rows if len(row["operations"]) == longest)
