"""`LineRng`: the random numbers of a line in a step, which depend on nothing but the line and the step.

They follow from (seed, source, epoch, step) and the line's number in its source, not from the other lines of a batch. A
line may be computed alone or among others, and dropping an unfit line changes nothing for the rest. Copies of a line
(`repeat`) draw numbers of their own.

>>> chance = LineRng.of(1, "wmt", 0, 0)
>>> alone, among = chance.uniform(np.array([7])), chance.uniform(np.array([3, 7, 9]))
>>> bool(alone[0] == among[1])
True
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
Place = str | int
_BITS = 53  # of a double's fraction
_MOST = (1 << 64) - 1


def key(*place: Place) -> int:
    """128 bits that stand for a place in a stream, the same on every machine.

    >>> key(1, "wmt", 0) == key(1, "wmt", 0), key(1, "wmt", 0) == key(1, "wmt", 1)
    (True, False)
    """
    return int.from_bytes(blake2b(json.dumps(place).encode(), digest_size=16).digest(), "little")


@dataclass(frozen=True, slots=True)
class LineRng:
    """The random numbers of one step in one epoch of a source.

    first, second: 64 bits each, the key.

    >>> LineRng(1, 2) == LineRng(1, 2), LineRng(1, 2).words(np.array([0, 1])).shape
    (True, (2,))
    """

    first: int
    second: int

    def __post_init__(self) -> None:
        arguments.whole(self.first, "first", low=0, high=_MOST)
        arguments.whole(self.second, "second", low=0, high=_MOST)

    @classmethod
    def of(cls, *place: Place) -> LineRng:
        """Return the LineRng of a place in a stream, the same on every machine.

        place: names and numbers, such as seed, source, epoch, step

        >>> LineRng.of(1, "wmt", 0, 0) == LineRng.of(1, "wmt", 0, 1)
        False
        """
        result = key(*place)
        return cls(result & _MOST, result >> 64)

    def at(self, name: str | int) -> LineRng:
        """Another draw for the same lines.

        name: distinguishes it from the others of this step

        >>> chance = LineRng(1, 2)
        >>> bool(chance.at("limit").uniform(np.array([0]))[0] == chance.uniform(np.array([0]))[0])
        False
        """
        return LineRng.of(self.first, self.second, name)

    def words(self, origins: Longs) -> NDArray[np.uint64]:
        """64 random bits for each line.

        origins: (n,) as of a `Batch`

        >>> LineRng(1, 2).words(np.array([0, 0, 1])).dtype
        dtype('uint64')
        """
        from volt.kernels.columns import draw

        out = np.empty(len(origins), np.uint64)
        draw(np.uint64(self.first), np.uint64(self.second), origins, out)
        return out

    def uniform(self, origins: Longs) -> NDArray[np.float64]:
        """(n,) numbers from 0 up to, and without, 1.

        origins: (n,) as of a `Batch`

        >>> bool(0 <= LineRng(1, 2).uniform(np.array([0]))[0] < 1)
        True
        """
        return np.ldexp((self.words(origins) >> np.uint64(64 - _BITS)).astype(np.float64), -_BITS)

    def integers(self, origins: Longs, low: int, high: int) -> Longs:
        """(n,) int64, whole numbers, each equally probable.

        origins: (n,) as of a `Batch`
        low, high: the least and the most, both included

        >>> LineRng(1, 2).integers(np.arange(3), 4, 4).tolist()
        [4, 4, 4]
        """
        return low + np.floor(self.uniform(origins) * (high - low + 1)).astype(np.int64)

    def generators(self, origins: Longs) -> Iterator[np.random.Generator]:
        """Yield a generator of NumPy's for each line, for code that wants to draw more.

        Each is good until the next is asked for.
        origins: (n,) as of a `Batch`

        >>> a, b = (generator.random() for generator in LineRng(1, 2).generators(np.array([0, 1])))
        >>> a == b
        False
        """
        bits = np.random.SFC64(0)  # one for all: to make a generator takes ten times as long as to set its state
        generator, state = np.random.Generator(bits), bits.state
        words = state["state"]["state"]
        words[3] = 1  # it counts
        for row in np.stack([self.at(f"word {k}").words(origins) for k in range(3)], axis=1):
            words[:3] = row
            bits.state = state
            yield generator
