"""How many lines each source has → its weight in the mixture, and how many lines make a virtual epoch.

With s_i lines in source i, and a temperature T:

    r_i = (s_i / Σs)^(1/T) / Σ_j (s_j / Σs)^(1/T)           the share of source i
    V   = min(Σ_i (r_i / r_max) · s_max, 1.5 · Σs)          lines, rounded down

`max` is the source with the most lines: in a virtual epoch it is read once, and what is smaller, and has been given a
greater share, several times. The bound is that of an epoch in which sources are drawn out far beyond their size.

>>> sampling = Sampling(temperature=2)
>>> weights = sampling.weights({"de": 900, "lb": 100})
>>> weights, virtual_size([900, 100], [*weights.values()])
({'de': 0.75, 'lb': 0.25}, 1200)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from volt import arguments
from volt.errors import ConfigError
from volt.stream.mixing.schedule import UNIT, check_weight

By = Literal["temperature", "uniform", "concatenation"]
TEMPERATURE = 1.5
_MOST = Fraction(3, 2)  # virtual lines for one that there is
_ROUNDING = Fraction(1, 10**11)  # shares are told to twelve digits


@dataclass(frozen=True, slots=True)
class Sampling:
    """How sources are mixed by their numbers of lines, instead of by weights of their own.

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
        """The weight of each source.

        sizes: lines of each source, by its name; 1 or more

        Raises ConfigError if a weight rounds to nothing.

        >>> Sampling("concatenation").weights({"de": 900, "lb": 100})
        {'de': 900.0, 'lb': 100.0}
        """
        if self.by == "uniform":
            return dict.fromkeys(sizes, 1.0)
        if self.by == "concatenation" or self.temperature == 1:
            return {name: float(size) for name, size in sizes.items()}
        found = dict(zip(sizes, shares([*sizes.values()], temperature=self.temperature), strict=True))
        for name, share in found.items():
            if share * UNIT < 1:
                lines = f"{sizes[name]:,} lines beside {max(sizes.values()):,}"
                raise ConfigError(
                    f"{self.where}: {self} leaves nothing to source {name!r} ({lines}); give a higher one"
                )
        return found


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
