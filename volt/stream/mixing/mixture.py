"""Weights → which source gives each sample, so that at every prefix each source's count is within one of its share.

Nothing is drawn at random: sources take turns as evenly as whole samples allow, also while weights change. The position
of a mixture follows from the number of samples that each source has given, so it resumes from a saved state at once.

Weights may follow from sizes. With s_i lines in source i, and a temperature T:

    r_i = (s_i / Σs)^(1/T) / Σ_j (s_j / Σs)^(1/T)           the share of source i
    V   = min(Σ_i (r_i / r_max) · s_max, 1.5 · Σs)          lines, rounded down

`max` is the source with the most lines: in a virtual epoch it is read once, and smaller sources with a greater share
several times. The second bound limits the epoch where small sources are repeated far beyond their size.

>>> mixture = Mixture((2.0, 1.0))
>>> mixture.turns(6).tolist(), mixture.counts.tolist()
([0, 0, 1, 0, 0, 1], [4, 2])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, StreamError
from volt.stream.mixing.schedule import UNIT, Shares, Weight, check_weight, shares_of

By = Literal["temperature", "uniform", "concatenation"]
TEMPERATURE = 1.5
_MOST = Fraction(3, 2)  # virtual lines for one that there is
_ROUNDING = Fraction(1, 10**11)  # shares are reported to twelve digits


@dataclass(frozen=True, slots=True)
class Sampling:
    """A mixture by the sources' numbers of lines, instead of by weights of their own.

    by: "temperature"; "uniform" for equal shares; or "concatenation" for shares in proportion to the lines, which is
        temperature 1.
    temperature: above 0; a high one brings up the small sources, until all are equal.
    where: how errors call it.

    Raises ConfigError if `by` is another word, or the temperature is not positive and finite.

    >>> str(Sampling(temperature=5)), str(Sampling("uniform"))
    ('temperature 5', 'uniform')
    """

    by: By = "temperature"
    temperature: float = TEMPERATURE
    where: str = field(default="mix", repr=False, compare=False)

    def __post_init__(self) -> None:
        arguments.choice(self.by, "by", get_args(By))
        temperature = arguments.number(self.temperature, "temperature")
        if not (math.isfinite(temperature) and temperature > 0):
            raise ConfigError(f"temperature {temperature:g}: give a number above 0, such as {TEMPERATURE:g}")

    def __str__(self) -> str:
        return f"temperature {self.temperature:g}" if self.by == "temperature" else self.by

    def weights(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """Return the weight of each source.

        sizes: lines of each source, by its name; 1 or more

        Raises ConfigError if a weight rounds to nothing.

        >>> Sampling("concatenation").weights({"de": 900, "lb": 100})
        {'de': 900.0, 'lb': 100.0}
        """
        if self.by == "uniform":
            return dict.fromkeys(sizes, 1.0)
        if self.by == "concatenation" or self.temperature == 1:
            return {name: float(size) for name, size in sizes.items()}
        result = dict(zip(sizes, shares([*sizes.values()], temperature=self.temperature), strict=True))
        for name, share in result.items():
            if share * UNIT < 1:
                lines = f"{sizes[name]:,} lines against {max(sizes.values()):,}"
                raise ConfigError(
                    f"{self.where}: {self} leaves nothing to source {name!r} ({lines}); give a higher one"
                )
        return result


def shares(sizes: Sequence[int], *, temperature: float) -> list[float]:
    """Shares in proportion to size ^ (1 / temperature), which sum to 1, as far as twelve digits say it.

    >>> shares([8, 1], temperature=3)
    [0.666666666667, 0.333333333333]
    """
    largest = max(sizes, default=0) or 1
    powers = [(size / largest) ** (1 / temperature) for size in sizes]
    return [float(f"{power / (sum(powers) or 1):.12g}") for power in powers]


def virtual_size(sizes: Sequence[int], weights: Sequence[float]) -> int:
    """Lines of a virtual epoch of sources that are mixed by these weights.

    sizes: lines of each source, 1 or more
    weights: of each; sources without a weight count for nothing

    The number is rounded down, as fairseq's is; but what lacks less than a part in 10¹¹ of a whole line is one, so that
    no rounding of the shares takes a line away. Of several largest sources, the one with the greatest weight counts.

    Raises ConfigError if no source has a weight.

    >>> virtual_size([90, 10], [0.9, 0.1]), virtual_size([90, 10], [1, 1]), virtual_size([90, 10], [1, 0])
    (100, 150, 90)
    """
    for place, weight in enumerate(weights):
        check_weight(weight, str(place))
    mixed = [(size, Fraction(repr(float(weight)))) for size, weight in zip(sizes, weights, strict=True) if weight]
    if not mixed:
        raise ConfigError("all weights are 0; give one source a weight above 0")
    largest, its_weight = max(mixed)
    wanted = largest * sum(weight for _, weight in mixed) / its_weight
    return min(math.floor(wanted * (1 + _ROUNDING)), math.floor(_MOST * sum(size for size, _ in mixed)))


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
        """Return each source's share of the next sample.

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
        """Return the next turns, not yet dealt.

        n: how many, 0 or more; there are fewer where no more are `left`
        """
        n = min(n, self.left)
        if len(self.ended) == len(self.weights) - 1:
            return np.full(n, next(i for i in range(len(self.weights)) if i not in self.ended))
        from volt.kernels.batching import apportion  # compiled code, which a single source can do without

        first, lengths = self._shares.lengths(self.n)
        turns = np.empty(n, np.int64)
        apportion(self._lags(), self._shares.units[first:], lengths, turns, UNIT)
        return turns

    def end(self, source: int) -> Mixture | None:
        """Return the mixture of the other sources from here on, or None if none is left or none has a weight.

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
        """Return what is owed and not yet dealt, in units; less than one sample either way."""
        dealt = (self.counts - self.base).tolist()
        lags = [owed - UNIT * got for owed, got in zip(self._units(), dealt, strict=True)]
        if any(abs(lag) > UNIT for lag in lags):
            raise StreamError(f"counts {self.counts.tolist()} do not follow from the weights; take another state")
        return np.array(lags, np.int64)
