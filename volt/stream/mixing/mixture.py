"""`Mixture`: weights of sources → turns, the source of each line of the stream.

Nothing is random. After any number of turns, each source's count of turns is within one of the sum
of its shares (`volt.stream.mixing.schedule`):

    weights 2 and 1   →   turns 0 0 1 0 0 1 …

`Sampling` derives weights from sizes. For s_i lines in source i and a temperature T,

    r_i = (s_i / Σs)^(1/T) / Σ_j (s_j / Σs)^(1/T)           the share of source i
    V   = min(Σ_i (r_i / r_max) · s_max, 1.5 · Σs)          lines of a virtual epoch

where `max` is the largest source. So a virtual epoch reads the largest source about once.
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
from volt.array_types import Longs
from volt.display import counted
from volt.errors import ConfigError, StreamError
from volt.stream.mixing.schedule import UNIT, Shares, Weight, check_weight, compute_shares

By = Literal["temperature", "uniform", "concatenation"]
TEMPERATURE = 1.5
_MOST_VIRTUAL = Fraction(3, 2)  # maximum lines of a virtual epoch, per line of the sources
_MOST_TURNS = 1 << 20  # turns that `counts_at` computes at a time
_ROUNDING = Fraction(1, 10**11)  # shares are reported to twelve digits


@dataclass(frozen=True, slots=True)
class Sampling:
    """A mixture derived from the sources' numbers of lines, instead of from weights.

    by: "temperature"; "uniform" for equal shares; or "concatenation" for shares in proportion to
        the lines.
    temperature: a number above 0; high values favour small sources; 1 equals concatenation.
    where: this option's name in errors.

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
            raise ConfigError(
                f"temperature {temperature:g}: give a number above 0, such as {TEMPERATURE:g}"
            )

    def __str__(self) -> str:
        return f"temperature {self.temperature:g}" if self.by == "temperature" else self.by

    def weights(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """Return the weight of each source. Raises ConfigError if a weight rounds to 0.

        sizes: source name → its number of lines, 1 or more
        """
        if self.by == "uniform":
            return dict.fromkeys(sizes, 1.0)
        if self.by == "concatenation" or self.temperature == 1:
            return {name: float(size) for name, size in sizes.items()}
        shares = temperature_shares([*sizes.values()], temperature=self.temperature)
        weights = dict(zip(sizes, shares, strict=True))
        for name, share in weights.items():
            if share * UNIT < 1:
                source = f"source {name!r} ({sizes[name]:,} lines against {max(sizes.values()):,})"
                raise ConfigError(
                    f"{self.where}: {self} leaves nothing to {source}; raise the temperature"
                )
        return weights


def temperature_shares(sizes: Sequence[int], *, temperature: float) -> list[float]:
    """Return a share ∝ size ^ (1 / temperature) for each size; the sum is 1 within twelve
    digits."""
    largest = max(sizes, default=0) or 1
    powers = [(size / largest) ** (1 / temperature) for size in sizes]
    total = sum(powers) or 1
    return [float(f"{power / total:.12g}") for power in powers]


def virtual_size(sizes: Sequence[int], weights: Sequence[float]) -> int:
    """Return the number of lines of a virtual epoch, rounded down.

    sizes, weights: of each source; sizes of 1 or more

    >>> virtual_size([90, 10], [0.9, 0.1]), virtual_size([90, 10], [1, 1]), virtual_size([90, 10], [1, 0])
    (100, 150, 90)
    """
    for index, weight in enumerate(weights):
        check_weight(weight, str(index))
    pairs = zip(sizes, weights, strict=True)
    sources = [(size, Fraction(repr(float(weight)))) for size, weight in pairs if weight]
    if not sources:
        raise ConfigError("all weights are 0; give one source a weight above 0")
    largest_size, its_weight = max(sources)
    wanted = largest_size * sum(weight for _, weight in sources) / its_weight
    most = _MOST_VIRTUAL * sum(size for size, _ in sources)
    return min(math.floor(wanted * (1 + _ROUNDING)), math.floor(most))


@dataclass(slots=True)
class Mixture:
    """The choice of a source for each turn: for each line of a stream.

    weights: one for each source, numbers or schedules.
    counts: (n_sources,) turns taken by each source so far.
    ended: the indices of sources that have ended; the other sources divide all turns by weight.
    since: the number of turns after which a source last ended; shares count from then on.
    base: (n_sources,) the counts after `since` turns.

    >>> mixture = Mixture((2.0, 1.0))
    >>> mixture.turns(6).tolist(), mixture.counts.tolist()
    ([0, 0, 1, 0, 0, 1], [4, 2])
    """

    weights: Sequence[Weight]
    counts: Longs = field(default_factory=lambda: np.zeros(1, np.int64))
    ended: frozenset[int] = frozenset()
    since: int = 0
    base: Longs = field(default_factory=lambda: np.zeros(1, np.int64))
    _shares: Shares = field(init=False)
    _earlier: Mixture | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.weights = arguments.several(
            self.weights, "weights", remedy="give a list of numbers or schedules"
        )
        for index, weight in enumerate(self.weights):
            check_weight(weight, str(index))
        zeros = np.zeros(len(self.weights), np.int64)
        self.counts = zeros + self.counts  # a copy, with a number for each source
        self.base = zeros + self.base
        weights = [
            0.0 if source in self.ended else weight for source, weight in enumerate(self.weights)
        ]
        self._shares = compute_shares(weights, may_end=bool(self.ended))

    def __repr__(self) -> str:
        return f"<Mixture: {counted(len(self.weights), 'weight')}, {counted(self.n, 'turn')} dealt>"

    @property
    def n(self) -> int:
        """Turns taken so far."""
        return int(self.counts.sum())

    @property
    def left(self) -> int:
        """The number of turns until all weights are 0, at most about 2⁶²."""
        return self._shares.find_end(self.n) - self.n

    def counts_at(self, n: int) -> Longs:
        """Return (n_sources,) the turns of each source among the first n turns.

        n: a number of turns, `since` or more; calls with rising n are fast
        """
        if self._earlier is None or self._earlier.n > n:
            self._earlier = Mixture(self.weights, self.base, self.ended, self.since, self.base)
        while (n_missing := n - self._earlier.n) > 0:
            self._earlier.turns(min(n_missing, _MOST_TURNS))
        return self._earlier.counts.copy()

    def owed(self, n: int | None = None) -> list[float]:
        """Return how many turns are due to each source by its share.

        n: the number of turns so far; by default all turns taken
        """
        units = self._units_owed(self.n if n is None else n)
        result: list[float] = (self.base + units / UNIT).tolist()
        return result

    def shares(self) -> list[float]:
        """Return each source's share of the next turn, from 0 to 1."""
        interval, _ = self._shares.lengths_from(self.n)
        result: list[float] = (self._shares.units[interval] / UNIT).tolist()
        return result

    def turns(self, n: int) -> Longs:
        """Take the next turns; return (n,) int64, the source of each turn.

        n: the number of turns, 0 or more; at most `left` are taken
        """
        turns = self.peek(n)
        self.advance(turns)
        return turns

    def advance(self, turns: Longs) -> None:
        """Count turns as taken.

        turns: (n,) int64, the source of each turn, as `peek` returns them
        """
        self.counts += np.bincount(turns, minlength=len(self.counts))

    def peek(self, n: int) -> Longs:
        """Return the next turns, (n,) int64, without taking them.

        n: the number of turns, 0 or more; at most `left` are returned
        """
        n = min(n, self.left)
        if len(self.ended) == len(self.weights) - 1:
            [source] = {*range(len(self.weights))} - self.ended
            return np.full(n, source)
        from volt.kernels.batching import apportion  # compiled; a single source does not need it

        first, lengths = self._shares.lengths_from(self.n)
        taken = (self.counts - self.base).astype(object)
        lags = self._units_owed(self.n) - UNIT * taken
        if (abs(lags) > UNIT).any():
            raise StreamError(
                f"counts {self.counts.tolist()} do not follow from the weights; use another state"
            )
        turns = np.empty(n, np.int64)
        times = np.empty((3, len(lags)), np.int64)
        apportion(lags.astype(np.int64), self._shares.units[first:], lengths, turns, UNIT, times)
        return turns

    def end(self, source: int) -> Mixture | None:
        """Return the mixture after a source ends; None if no other source has a weight.

        source: the source's index
        """
        ended = self.ended | {source}
        if len(ended) == len(self.weights):
            return None
        rest = Mixture(self.weights, self.counts, ended, since=self.n, base=self.counts)
        if not rest.left:
            return None
        return rest

    def _units_owed(self, n: int) -> NDArray[np.object_]:
        result: NDArray[np.object_] = self._shares.units_owed(n) - self._shares.units_owed(
            self.since
        )
        return result
