"""`Encoded`: the ids of many lines, flat, with the places where lines start.

>>> Encoded(np.array([5, 6, 7], np.int32), np.array([0, 2, 3]))[1]
array([7], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.display import counted
from volt.encode.batches import EncodedPart

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The ids of many lines, flat.

    ids: (n_ids,) int32
    offsets: (n_lines + 1,) int64, line i has ids[offsets[i]:offsets[i + 1]]
    Both are plain numpy arrays, so `torch.from_numpy(encoded.ids)` shares their memory.

    >>> encoded = Encoded(np.array([5, 6, 7], np.int32), np.array([0, 2, 2, 3]))
    >>> len(encoded), encoded[0]
    (3, array([5, 6], dtype=int32))
    >>> encoded
    <Encoded: 3 ids of 3 lines>
    """

    ids: Ids
    offsets: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"<Encoded: {counted(len(self.ids), 'id')} of {counted(len(self), 'line')}>"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, line: int) -> Ids:
        line = arguments.whole(line, "line")
        if not -len(self) <= line < len(self):
            raise IndexError(f"line {line} of {len(self)}")
        line %= len(self)
        return self.ids[self.offsets[line] : self.offsets[line + 1]]

    @classmethod
    def of(cls, parts: Iterable[EncodedPart], *, n_bytes: int = 0) -> Encoded:
        """The parts' lines, one after the other.

        parts: what chunks of text became
        n_bytes: how many the text has, which most often has fewer ids than bytes
        """
        ids, n, ends = _room_for_ids(n_bytes), 0, [np.zeros(1, np.int64)]
        for part in parts:
            end = n + len(part.values)
            if end > len(ids):
                ids = np.concatenate([ids[:n], np.empty(max(end - n, n // 2), np.int32)])
            ids[n:end] = part.values
            ends.append(part.ends + n)
            n = end
        return cls(ids[:n], np.concatenate(ends))


def _room_for_ids(n: int) -> Ids:
    """Room for n ids, or for a quarter of them if no more can be promised. Room that is not used costs nothing."""
    try:
        return np.empty(n, np.int32)
    except MemoryError:
        return np.empty(n // 4, np.int32)
