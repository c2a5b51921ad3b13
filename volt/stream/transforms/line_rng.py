"""`LineRng`: random numbers for each line, a function of (seed, source, epoch, step) and the line's
number.

The other lines of the batch have no influence, except that adjacent copies of a line (`repeat`) are
numbered, and so draw different numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from volt import arguments

Longs = NDArray[np.int64]
Bits = NDArray[np.uint64]
Place = str | int
_BITS = 53  # bits of a double's fraction
_MOST = (1 << 64) - 1


def key(*place: Place) -> int:
    digest = blake2b(json.dumps(place).encode(), digest_size=16)
    return int.from_bytes(digest.digest(), "little")


def as_uniform(words: Bits) -> NDArray[np.float64]:
    highest = words >> np.uint64(64 - _BITS)
    result: NDArray[np.float64] = np.ldexp(highest.astype(np.float64), -_BITS)
    return result


@dataclass(frozen=True, slots=True)
class LineRng:
    """The random numbers of one step in one epoch of a source.

    first, second: the key, 64 bits each.

    >>> rng = LineRng.of(1, "wmt", 0, 0)
    >>> alone, among = rng.uniform(np.array([7])), rng.uniform(np.array([3, 7, 9]))
    >>> bool(alone[0] == among[1])
    True
    """

    first: int
    second: int

    def __post_init__(self) -> None:
        arguments.whole(self.first, "first", low=0, high=_MOST)
        arguments.whole(self.second, "second", low=0, high=_MOST)

    @classmethod
    def of(cls, *place: Place) -> LineRng:
        """Return the `LineRng` of a step and epoch in a stream; it is equal on every machine.

        place: names and numbers, such as seed, source, epoch, step
        """
        result = key(*place)
        return cls(result & _MOST, result >> 64)

    def at(self, name: Place) -> LineRng:
        """Return independent random numbers for the same lines.

        name: the draw's name, unique within the step
        """
        return LineRng.of(self.first, self.second, name)

    def words(self, origins: Longs) -> Bits:
        """Return 64 random bits for each line.

        origins: (n,) the `Batch`'s origins
        """
        from volt.kernels.columns import draw

        out = np.empty(len(origins), np.uint64)
        draw(np.uint64(self.first), np.uint64(self.second), origins, out)
        return out

    def uniform(self, origins: Longs) -> NDArray[np.float64]:
        """Return (n,) numbers in [0, 1).

        origins: (n,) the `Batch`'s origins
        """
        return as_uniform(self.words(origins))

    def integers(self, origins: Longs, low: int, high: int) -> Longs:
        """Return (n,) whole numbers, all equally probable.

        origins: (n,) the `Batch`'s origins
        low, high: the least and the greatest number, both included
        """
        scaled = self.uniform(origins) * (high - low + 1)
        return low + np.floor(scaled).astype(np.int64)

    def generators(self, origins: Longs) -> Iterator[np.random.Generator]:
        """Yield a NumPy generator for each line; it is valid only until the next generator is
        requested.

        origins: (n,) the `Batch`'s origins
        """
        # One for all lines: creating a generator takes ten times as long as setting its state
        bits = np.random.SFC64(0)
        generator = np.random.Generator(bits)
        state = bits.state
        words = state["state"]["state"]
        words[3] = 1  # the generator's counter

        drawn = [self.at(f"word {number}").words(origins) for number in range(3)]
        for row in np.stack(drawn, axis=1):
            words[:3] = row
            bits.state = state
            yield generator
