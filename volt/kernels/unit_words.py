"""Counted units → how often each of their words occurs: every unit is cut once, however often it was met.

Words stand in a table like that of the units (volt.kernels.unit_counts), as the bytes that they are in the text.
"""

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.compiling import releasing
from volt.kernels.pattern_cutting import SplitTables, cut_span, find_matches
from volt.kernels.unit_counts import enter_row
from volt.kernels.unit_rows import UnitRows, find_row, home_slot, slot_shift, unit_key

UNIT, WORD = 1, 2  # places in the loop's state, behind that of the words that have a row
_U2, _U3 = np.uint64(2), np.uint64(3)


@releasing
def add_words(
    data: IntArray, starts: LongArray, ends: LongArray, counts: LongArray, tables: SplitTables, matches_only: int,
    word_starts: LongArray, word_ends: LongArray, table: UnitRows, state: LongArray,
) -> bool:  # fmt: skip
    """Add to the count of each word how often the units that hold it were met.

    data: (…,) uint8, UTF-8, of which unit i is data[starts[i] : ends[i]], with PADDING more
    counts: (n_units,) int64
    matches_only: 1 if what lies between the matches of the one split is left out, else 0
    word_starts, word_ends: (…,) int64, memory to work in: one for each byte of the longest unit
    state: (3,) int64: words that have a row; the unit to go on from, and which word of it
    Returns whether all are added. If not, a new word finds no room; with a longer table, the loop goes on with it.
    """
    shift = slot_shift(table.rows)
    for unit in range(state[UNIT], len(ends)):
        before = starts[unit]
        if matches_only:
            n_words = find_matches(data, before, ends[unit], tables, word_starts, word_ends)
        else:
            n_words = cut_span(data, before, ends[unit], tables, word_ends, word_starts, 0)
        for word in range(n_words):
            start, end = np.uint64(word_starts[word] if matches_only else before), np.uint64(word_ends[word])
            before = word_ends[word]
            if word < state[WORD]:
                continue
            low, high = unit_key(data, start, end - start)
            row = find_row(data, start, end - start, low, high, home_slot(low, high, shift), table)
            if table.rows[row + _U2] == 0 and not enter_row(data, start, end - start, low, high, row, table, state):
                state[UNIT], state[WORD] = unit, word
                return False
            table.rows[row + _U3] += np.uint64(counts[unit])
        state[WORD] = 0
    return True
