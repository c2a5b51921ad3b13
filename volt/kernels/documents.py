"""The compiled loops of `volt.stream.transforms.documents`: where documents start, and their values joined.

>>> import numpy as np
>>> ids, starts, sizes = np.frombuffer(b"x", np.uint8), np.zeros(3, np.int64), np.ones(3, np.int64)
>>> joins, limits, found, room = np.ones(3, bool), np.full(3, 2), np.zeros(3, np.int64), np.zeros(1, np.int64)
>>> find_starts(np.array([[1, 1, 1]]), joins, limits, 9, ids, starts, sizes, room, found), found[:2].tolist()
(2, [0, 2])
"""

from volt.kernels.arrays import FlagArray, IntArray, LongArray
from volt.kernels.columns import copy_bytes
from volt.kernels.compiling import inlined, releasing


@inlined
def _same(data: IntArray, first: int, second: int, size: int) -> bool:
    """Whether two places hold the same bytes."""
    k = 0
    while k < size and data[first + k] == data[second + k]:
        k += 1
    return k == size


@inlined
def _fits(n_tokens: LongArray, totals: LongArray, line: int, limit: int) -> bool:
    """Whether no field of a document grows beyond the limit by a line."""
    for field in range(len(totals)):
        if totals[field] + n_tokens[field, line] > limit:
            return False
    return True


@releasing
def find_starts(
    n_tokens: LongArray, joins: FlagArray, limits: LongArray, max_lines: int,
    ids: IntArray, starts: LongArray, sizes: LongArray, totals: LongArray, out: LongArray,
) -> int:  # fmt: skip
    """Write where documents start: each takes lines as long as they have its id and its limits allow.

    n_tokens: (n_fields, n) int64
    joins: (n,) bool, whether a document that starts at a line may have more lines
    limits: (n,) int64, the most tokens of a document that starts at a line
    ids, starts, sizes: the column of the documents' ids; a line whose id is empty stands alone
    totals: (n_fields,) int64, room
    out: (n,) int64, is written
    Returns how many documents there are.
    """
    n, start = 0, 0
    for i in range(len(starts)):
        is_next = n > 0 and joins[start] and sizes[i] > 0 and sizes[i] == sizes[start] and i - start < max_lines
        is_next = is_next and _same(ids, starts[start], starts[i], sizes[i])
        if not (is_next and _fits(n_tokens, totals, i, limits[start])):
            out[n], start = i, i
            n += 1
            for field in range(len(totals)):
                totals[field] = 0
        for field in range(len(totals)):
            totals[field] += n_tokens[field, i]
    return n


@releasing
def write_runs(
    data: IntArray, starts: LongArray, sizes: LongArray, bounds: LongArray, between: IntArray, out: IntArray
) -> None:
    """Write the values of runs of lines, with some bytes between two values of a run and none between two runs.

    data: uint8;  bounds: (n_runs + 1,) int64, where runs start, and where the last ends
    out: uint8, is written
    """
    at = 0
    for run in range(len(bounds) - 1):
        for i in range(bounds[run], bounds[run + 1]):
            if i > bounds[run]:
                copy_bytes(between, 0, out, at, len(between))
                at += len(between)
            copy_bytes(data, starts[i], out, at, sizes[i])
            at += max(sizes[i], 0)
