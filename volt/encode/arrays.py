"""Handle *rows*: parts of one flat array, such as words or lines.

flat array [5 6 7 8 9] with ends [2 2 5]   rows [5 6], [], [7 8 9], of sizes [2 0 3]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volt.array_types import Array, Longs


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """Encoded lines.

    values: ids or atoms (n,) int32, or text (n,) uint8 with a line end after each line
    ends: (n_lines,) int64, where each line's values end
    """

    values: Array
    ends: Longs

    def with_lines(self, numbers: Longs, lines: EncodedPart) -> EncodedPart:
        """Return these lines, with those of some numbers replaced.

        numbers: sorted;  lines: the line for each number
        """
        sizes = ends_to_sizes(self.ends)
        starts = self.ends - sizes
        new_sizes = ends_to_sizes(lines.ends)
        values = list[Array]()
        end = 0
        for number, new_end, size in zip(numbers, lines.ends, new_sizes, strict=True):
            values.append(self.values[end : starts[number]])
            values.append(lines.values[new_end - size : new_end])
            end = self.ends[number]
        sizes[numbers] = new_sizes
        return EncodedPart(np.concatenate([*values, self.values[end:]]), np.cumsum(sizes))


def ends_to_sizes(ends: Longs) -> Longs:
    """Return the size of each row. ends: where each row ends in the flat array"""
    return np.diff(ends, prepend=0)


def group_ends(item_ends: Longs, n_items: Longs) -> Longs:
    """Return where groups of consecutive rows end in the flat array.

    item_ends: where each row ends;  n_items: the number of rows in each group

    >>> group_ends(np.array([2, 2, 5]), np.array([0, 2, 1])).tolist()
    [0, 2, 5]
    """
    return np.append(0, item_ends)[np.cumsum(n_items)]


def row_indices(starts: Longs, sizes: Longs) -> Longs:
    """Return the indices, in the flat array, of all items of rows with these starts and sizes.

    >>> row_indices(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    shifts = starts - (np.cumsum(sizes) - sizes)
    indices: Longs = np.arange(sizes.sum()) + np.repeat(shifts, sizes)
    return indices
