"""Samples of ids: pieces looked up, ids framed by BOS, prefixes and EOS, and rows of a batch written with padding.

The compiled loops of `volt.batches`. Sample i has ids[offsets[i]:offsets[i + 1]].

>>> ids, offsets = np.array([5, 2, 6, 7, 2], np.int32), np.array([0, 2, 5])
>>> out, before = np.ones(6, np.int64), np.ones(6, np.int64)
>>> firsts, is_last, nothing = np.array([2, 9]), np.ones(2, bool), (np.zeros(0, bool), np.zeros(0, np.int64))
>>> put_rows(ids, offsets, np.array([1, 0]), np.array([0, 3]), firsts, is_last, 2, out, before, *nothing)
-1
>>> out.tolist(), before.tolist()
([6, 7, 2, 5, 2, 1], [2, 6, 7, 9, 5, 1])
"""

import numpy as np

from volt.kernels.arrays import FlagArray, IntArray, LongArray
from volt.kernels.columns import mixed
from volt.kernels.compiling import releasing
from volt.kernels.hashing import slot_of
from volt.kernels.segmentations import Types, is_type

_SPACE = 0x20


@releasing
def look_up(
    data: IntArray, starts: LongArray, sizes: LongArray, types: Types, ids: IntArray, ends: LongArray
) -> None:  # fmt: skip
    """The number of each piece, which stands between spaces, in a table that is not changed; −1 if it has none.

    ids: int32, is written; it has room for every second byte and one more in each line
    ends: (n_lines,) int64, is set to where each line's ids end
    """
    at, mask = 0, len(types.slots) - 1
    for line in range(len(starts)):
        place, end = starts[line], starts[line] + max(sizes[line], 0)
        while place < end:
            first, code = place, np.uint64(0xCBF29CE484222325)
            while place < end and data[place] != _SPACE:
                code = (code ^ np.uint64(data[place])) * np.uint64(0x100000001B3)  # FNV-1a
                place += 1
            if place > first:
                code = mixed(code)
                slot, found = slot_of(code, mask), -1
                while found < 0 and types.slots[slot] != 0:
                    number = types.slots[slot] - 1
                    if types.hashes[number] == code and is_type(data, first, place - first, types, number):
                        found = number
                    slot = (slot + 1) & mask
                ids[at] = found
                at += 1
            place += 1
        ends[line] = at


@releasing
def frame_ids(
    data: IntArray, starts: LongArray, sizes: LongArray, head: IntArray, tail: IntArray, n_ids: int, out: IntArray
) -> int:
    """Each value between a head and a tail, one value after the other.

    data, head, tail: int32
    n_ids: all ids are to be below it
    out: int32, is written
    Returns the first value with an id that is negative or too large, or −1.
    """
    at, bad = 0, -1
    for i in range(len(starts)):
        for k in range(len(head)):
            out[at + k] = head[k]
        at += len(head)
        for k in range(sizes[i]):
            number = data[starts[i] + k]
            if (number < 0 or number >= n_ids) and bad < 0:
                bad = i
            out[at + k] = number
        at += sizes[i]
        for k in range(len(tail)):
            out[at + k] = tail[k]
        at += len(tail)
    return bad


@releasing
def put_rows(
    ids: IntArray, offsets: LongArray, rows: LongArray, places: LongArray, firsts: LongArray, is_last: FlagArray,
    eos: int, out: IntArray, before: IntArray, mask: FlagArray, positions: LongArray,
) -> int:  # fmt: skip
    """Write each row's sample at its place, and what stands before each of its ids.

    rows, places: (n,) int64, the sample of each row, and where its first id is written
    firsts: (n,) int64, what stands before its first id;  is_last: (n,) bool, whether it is to end in EOS
    out: flat, is written
    before: as long as out, or empty. What stands before each id
    mask: bool, as long as out, or empty; is set where an id is written
    positions: as long as out, or empty; is set to how many ids of its sample stand before each
    Returns the first row that has ids, is to end in EOS, and does not, where `before` is asked for, or −1.
    """
    bad = -1
    for i in range(len(rows)):
        start, at = offsets[rows[i]], places[i]
        n = offsets[rows[i] + 1] - start
        for k in range(n):
            out[at + k] = ids[start + k]
        if len(before) > 0 and n > 0:
            before[at] = firsts[i]
            for k in range(n - 1):
                before[at + 1 + k] = ids[start + k]
            if bad < 0 and is_last[i] and ids[start + n - 1] != eos:
                bad = i
        if len(mask) > 0:
            for k in range(n):
                mask[at + k] = True
        if len(positions) > 0:
            for k in range(n):
                positions[at + k] = k
    return bad
