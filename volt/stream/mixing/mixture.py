"""Weights → which source gives each sample, so that at every prefix each source's count is within one of its share.

Nothing is drawn at random: sources take turns as evenly as whole samples allow, also while weights change. Where a
mixture stands follows from the number of samples that each source has given, so it can go on from a saved state at
once.

>>> mixture = Mixture((2.0, 1.0))
>>> mixture.turns(6).tolist(), mixture.counts.tolist()
([0, 0, 1, 0, 0, 1], [4, 2])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.display import counted
from volt.errors import StreamError
from volt.stream.mixing.schedule import UNIT, Shares, Weight, check_weight, shares_of

_AT_ONCE = 1 << 20  # turns


def _zeros() -> NDArray[np.int64]:
    return np.zeros(1, np.int64)


@dataclass(slots=True)
class Mixture:
    """Deals turns to sources.

    weights: one for each source, numbers or schedules.
    counts: (n_sources,) turns dealt to each source so far.
    ended: sources that get no more turns. When one ends, the others share its turns in proportion to their weights,
        and what each is owed counts from there.
    since: the sample at which a source last ended.
    base: (n_sources,) the counts at that sample.

    >>> Mixture((3.0, 1.0)).turns(4).tolist()
    [0, 0, 0, 1]
    """

    weights: Sequence[Weight]
    counts: NDArray[np.int64] = field(default_factory=_zeros)
    ended: frozenset[int] = frozenset()
    since: int = 0
    base: NDArray[np.int64] = field(default_factory=_zeros)
    _shares: Shares = field(init=False)
    _earlier: Mixture | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.weights = arguments.several(self.weights, "weights", remedy="give a list of numbers or schedules")
        for place, weight in enumerate(self.weights):
            check_weight(weight, str(place))
        zeros = np.zeros(len(self.weights), np.int64)
        self.counts = zeros + self.counts  # a copy, with a number for each source
        self.base = zeros + self.base
        weights = [0.0 if i in self.ended else weight for i, weight in enumerate(self.weights)]
        self._shares = shares_of(weights, may_end=bool(self.ended))

    def __repr__(self) -> str:
        return f"<Mixture: {counted(len(self.weights), 'weight')}, {counted(self.n, 'turn')} dealt>"

    @property
    def n(self) -> int:
        """Samples dealt so far."""
        return int(self.counts.sum())

    @property
    def left(self) -> int:
        """Turns until no source has a weight; 2⁶² or so if that never comes. It can come once a source has ended.

        >>> from volt.stream.mixing.schedule import Schedule
        >>> left = Mixture((1.0, Schedule(((0, 1.0), (100, 0.0)))), np.array([20, 20])).end(0)
        >>> left.left if left else 0
        60
        """
        return self._shares.until(self.n) - self.n

    def counts_at(self, n: int) -> NDArray[np.int64]:
        """(n_sources,) the counts after the first n turns.

        n: `since` or more. Turns are dealt once more, from the last n that was asked for on.

        >>> mixture = Mixture((3.0, 1.0), counts=np.array([75, 25]))
        >>> mixture.counts_at(10).tolist()
        [8, 2]
        """
        if self._earlier is None or self._earlier.n > n:
            self._earlier = Mixture(self.weights, self.base, self.ended, self.since, self.base)
        while (left := n - self._earlier.n) > 0:
            self._earlier.turns(min(left, _AT_ONCE))
        return self._earlier.counts.copy()

    def owed(self, n: int | None = None) -> list[float]:
        """Samples that each source has been owed so far, by its share.

        n: a sample; what each will have been owed by then

        >>> Mixture((3.0, 1.0), counts=np.array([7, 3])).owed()
        [7.5, 2.5]
        """
        return [int(base) + units / UNIT for base, units in zip(self.base, self._units(n), strict=True)]

    def shares(self) -> list[float]:
        """Each source's share of the next sample.

        >>> Mixture((3.0, 1.0)).shares()
        [0.75, 0.25]
        """
        stretch, _ = self._shares.lengths(self.n)
        return [units / UNIT for units in self._shares.units[stretch].tolist()]

    def turns(self, n: int) -> NDArray[np.int64]:
        """Deal turns: (n,) int64, the source of each.

        n: how many, 0 or more; fewer are dealt where no more are `left`
        """
        turns = self.peek(n)
        self.advance(turns)
        return turns

    def advance(self, turns: NDArray[np.int64]) -> None:
        """Count turns that have been taken.

        turns: (n,) int64, the source of each
        """
        self.counts += np.bincount(turns, minlength=len(self.counts))

    def peek(self, n: int) -> NDArray[np.int64]:
        """The next turns, not yet dealt.

        n: how many, 0 or more; there are fewer where no more are `left`
        """
        n = min(n, self.left)
        if len(self.ended) == len(self.weights) - 1:
            return np.full(n, next(i for i in range(len(self.weights)) if i not in self.ended))
        from volt.kernels.apportion import apportion  # compiled code, which a single source can do without

        first, lengths = self._shares.lengths(self.n)
        turns = np.empty(n, np.int64)
        apportion(self._lags(), self._shares.units[first:], lengths, turns, UNIT)
        return turns

    def end(self, source: int) -> Mixture | None:
        """The mixture of the other sources from here on, or None if none is left or none has a weight.

        source: the number of the one that ends

        >>> Mixture((3.0, 1.0)).end(0).turns(2).tolist()
        [1, 1]
        >>> Mixture((1.0, 0.0)).end(0) is None
        True
        """
        ended = self.ended | {source}
        if len(ended) == len(self.weights):
            return None
        left = Mixture(self.weights, self.counts, ended, since=self.n, base=self.counts)
        return left if left.left else None

    def _units(self, n: int | None = None) -> list[int]:
        """UNITs that each source has been owed since `since`."""
        now, then = self._shares.owed(self.n if n is None else n), self._shares.owed(self.since)
        return [b - a for a, b in zip(then, now, strict=True)]

    def _lags(self) -> NDArray[np.int64]:
        """What is owed and not yet dealt, in units; less than one sample either way."""
        dealt = (self.counts - self.base).tolist()
        lags = [owed - UNIT * got for owed, got in zip(self._units(), dealt, strict=True)]
        if any(abs(lag) > UNIT for lag in lags):
            raise StreamError(f"counts {self.counts.tolist()} do not follow from the weights; take another state")
        return np.array(lags, np.int64)
