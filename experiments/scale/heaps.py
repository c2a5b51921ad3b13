"""Distinct words by length of text: Heaps' law V(n) = k · n^β, fitted by least squares of log V on log n.

Source: H. S. Heaps, Information Retrieval: Computational and Theoretical Aspects, 1978. n is bytes of text here, so
that nothing has to be converted; with a constant number of bytes per word only k differs.

Natural text bends: β falls as n grows, and text drawn from a fixed list of words stops at the length of the list. So
a law carries an interval. It spans the fits that leave one size out, and the slope between the two largest sizes, which
is the one that sees the bend. Far from the sample it is no confidence interval, and a bend to come lies below it.

>>> law = fit([1e6, 1e7, 1e8], [10 * n**0.5 for n in (1e6, 1e7, 1e8)])
>>> round(law.k, 6), round(law.beta, 6), round(law(1e10))
(10.0, 0.5, 1000000)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Law:
    """V(n) = k · n^β.  others: (k, β) of further fits, which span the interval."""

    k: float
    beta: float
    others: tuple[tuple[float, float], ...] = ()

    def __call__(self, n_bytes: float) -> float:
        """Distinct words of so many bytes."""
        return float(self.k * n_bytes**self.beta)

    def interval(self, n_bytes: float) -> tuple[float, float]:
        """The least and the greatest that any of the fits says.

        >>> Law(2, 0.5, ((2, 0.25),)).interval(10_000)
        (20.0, 200.0)
        """
        found = [k * n_bytes**beta for k, beta in ((self.k, self.beta), *self.others)]
        return float(min(found)), float(max(found))


def fit(sizes: Sequence[float], distinct: Sequence[float]) -> Law:
    """The law of some sizes in bytes, growing, and of how many distinct words each has.

    Raises ValueError for fewer than three sizes, of which no interval can be told, and where one has no word.
    """
    if len(sizes) < 3 or min(distinct) <= 0:
        raise ValueError(f"{len(sizes)} sizes with {list(distinct)} words; give at least three, each with words.")
    x, y = np.log(np.array(sizes, dtype=float)), np.log(np.array(distinct, dtype=float))
    return Law(*_line(x, y), tuple(_line(x[places], y[places]) for places in _parts(len(x))))


def _parts(n: int) -> Iterator[list[int]]:
    """All places but one, for each; and the last two."""
    yield from ([place for place in range(n) if place != left_out] for left_out in range(n))
    yield [n - 2, n - 1]


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    beta, log_k = np.polyfit(x, y, 1)
    return float(np.exp(log_k)), float(beta)
