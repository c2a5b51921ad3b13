"""`LoopState`: where the loop over units stands between two calls, field by field.

Python reads and writes the fields by name. The compiled loop gets the same numbers as one array, whose places have the
names below. Arrays of one number each would carry the names into the loop, but an array is seven arguments to every
call, and there are eleven fields.

>>> slots = LoopState(n_units=3).slots()
>>> slots[LINE] = 5
>>> found = LoopState.read(slots)
>>> found.n_units, found.line
(3, 5)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import LongArray


class LoopState(NamedTuple):
    """How much of the table is used, where the loop goes on, and what it has written. A text starts at zero in all
    but the first two.

    n_units: units that have a row
    n_values: bytes of values in use
    n_pending: units that this text has added and that are pending
    position: byte from which the loop looks for ends of units
    start: byte at which the next unit starts
    behind_break: the byte behind the last break
    is_inside: 1 if the next unit is not the first of its line
    written: bytes that have been written
    line: lines that have ended
    holds_irregular: 1 if the line that has not yet ended holds an irregular unit
    n_left: lines that are left to Python
    """

    n_units: int = 0
    n_values: int = 0
    n_pending: int = 0
    position: int = 0
    start: int = 0
    behind_break: int = 0
    is_inside: int = 0
    written: int = 0
    line: int = 0
    holds_irregular: int = 0
    n_left: int = 0

    def slots(self) -> LongArray:
        """The array that the loop reads and changes, (n_fields,) int64."""
        return np.array(self, np.int64)

    @classmethod
    def read(cls, slots: LongArray) -> LoopState:
        """What the loop has left in its array."""
        return cls(*slots.tolist())


# The place of each field in the array.
(
    N_UNITS, N_VALUES, N_PENDING, POSITION, START, BEHIND_BREAK, IS_INSIDE, WRITTEN, LINE, HOLDS_IRREGULAR, N_LEFT,
) = range(len(LoopState._fields))  # fmt: skip
