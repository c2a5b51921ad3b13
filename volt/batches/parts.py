"""Where samples stand in their lines: each is a line, or a part of one.

>>> Parts.whole(2)
Parts(starts=array([0, 0]), before=array([-1, -1]), is_last=array([ True,  True]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from volt.batches.lengths import Longs


class Parts(NamedTuple):
    """Where samples stand in their lines.

    starts: (n,) int64, how many ids of the line stand before a sample
    before: (n,) int64, the last of these; −1 if there is none
    is_last: (n,) bool, whether the line ends with the sample
    """

    starts: Longs
    before: Longs
    is_last: NDArray[np.bool_]

    @classmethod
    def whole(cls, n: int) -> Self:
        """Those of samples that are whole lines."""
        return cls(np.zeros(n, np.int64), np.full(n, -1, np.int64), np.ones(n, np.bool_))

    def taken(self, rows: Longs) -> Parts:
        """Those of some samples.

        >>> Parts.whole(2).taken(np.array([1])).starts.tolist()
        [0]
        """
        return Parts(self.starts[rows], self.before[rows], self.is_last[rows])


def joined_parts(parts: Sequence[Parts]) -> Parts:
    """One after the other.

    >>> joined_parts([Parts.whole(1), Parts.whole(2)]).starts.tolist()
    [0, 0, 0]
    """
    return Parts(*map(np.concatenate, zip(*parts, strict=True)))
