"""Numbers → what each stands for, one after the other: ids, or text with a space behind each.

>>> import numpy as np
>>> out, out_ends = np.zeros(3, np.int32), np.zeros(1, np.int64)
>>> starts, values = np.array([0, 1, 3]), np.array([7, 8, 9], np.int32)
>>> expand(np.array([1, 0], np.int32), np.array([2]), starts, values, out, out_ends, False), out.tolist()
(3, [8, 9, 7])
"""

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.compiling import releasing


@releasing
def expand(
    numbers: IntArray, line_ends: LongArray, starts: LongArray, values: IntArray, out: IntArray, out_ends: LongArray,
    is_text: bool,
) -> int:  # fmt: skip
    """Write what each number stands for, values[starts[number]:starts[number + 1]].

    line_ends: (n_lines,) int64, where each line's numbers end
    out: is written; it has room for all values, and for one more in each line
    out_ends: (n_lines,) int64, is set to where each line's values end
    is_text: whether a line end takes the place of each line's last space, or stands alone in an empty line
    Returns how many values were written.
    """
    done = at = 0
    for line in range(len(line_ends)):
        line_start = at
        for number in numbers[done : line_ends[line]]:
            for i in range(starts[number], starts[number + 1]):
                out[at], at = values[i], at + 1
        if is_text:
            at += int(at == line_start)
            out[at - 1] = 10
        done, out_ends[line] = line_ends[line], at
    return at
