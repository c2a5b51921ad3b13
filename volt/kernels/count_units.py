"""Count the units of texts, and the words of counted units.

    "low lower low"  --- count_units --->  low 2, lower 1  --- add_words, with a pattern --->  lo 3, w 3, er 1

Both loops add to a `UnitRows` table, whose rows hold counts. They stop when the table is full; the
caller then enlarges the table and calls again, with the same `state`, to continue.
"""

import numpy as np

from volt.kernels.arrays import KeyArray, LongArray, TextArray
from volt.kernels.jit import releasing
from volt.kernels.regex_cutting import SplitTables, find_words
from volt.kernels.unit_scan import (
    HAS_UNIT,
    LAG,
    Effects,
    Rule,
    Scan,
    find_units,
    n_queued,
    next_entry,
    oldest_slot,
    oldest_unit,
)
from volt.kernels.unit_table import (
    FIRST,
    U0,
    U1,
    U2,
    U3,
    UnitRows,
    enter_row,
    find_row,
    home_slot,
    make_unit,
    slot_shift,
)

# Indices of the loops' states. Index 0, N_UNITS, is the number of units or words that have a row.
POSITION, START, IS_INSIDE = range(1, 4)  # of `count_units`
UNIT, WORD = range(1, 3)  # of `add_words`


@releasing
def count_units(
    data: TextArray,
    stop: int,
    rule: Rule,
    effects: Effects,
    table: UnitRows,
    ring: KeyArray,
    state: LongArray,
) -> bool:
    """Count the units of data[:stop], and add new units to the table. Return whether the whole text
    was counted.

    data: UTF-8 that ends with a separator at `stop - 1`, then PADDING
    state: (4,), the number of units; then, all 0 for a new text: the byte to continue from, where
        the next unit starts, and 1 if it is not the first of its line
    """
    rows = table.rows
    shift = slot_shift(rows)
    mark = FIRST if rule.marks_first else U0
    flag = mark if state[IS_INSIDE] == 0 else U0
    start = np.uint64(state[START])
    scan = Scan(np.uint64(state[POSITION]), start, start, flag, U0)
    end_of_all = np.uint64(stop)
    tail = U0
    has_room = True

    while has_room and (scan.base < end_of_all or tail != scan.head):
        if scan.base < end_of_all:
            scan = find_units(data, end_of_all, rule, effects, rows, shift, ring, scan)
        lag = LAG if scan.base < end_of_all else U0
        while n_queued(scan.head, tail) > lag:
            if ring[tail + U3] & HAS_UNIT != U0:
                unit = oldest_unit(ring, tail)
                row = find_row(data, unit, oldest_slot(ring, tail), table)
                if rows[row + U2] == U0:
                    has_room = enter_row(data, unit, row, table, state)
                    if not has_room:
                        break
                rows[row + U3] += U1
            tail = next_entry(tail)

    state[POSITION] = scan.base
    state[START] = scan.start
    state[IS_INSIDE] = scan.flag != mark
    if tail != scan.head:  # continue with the first unit that is not counted yet
        unit = oldest_unit(ring, tail)
        state[POSITION] = unit.start + unit.length
        state[START] = unit.start
        state[IS_INSIDE] = mark & unit.high != mark
    return has_room


@releasing
def add_words(
    data: TextArray,
    starts: LongArray,
    ends: LongArray,
    counts: LongArray,
    tables: SplitTables,
    matches_only: int,
    word_starts: LongArray,
    word_ends: LongArray,
    table: UnitRows,
    state: LongArray,
) -> bool:
    """Add the counts of units to the counts of their words. Return whether all counts were added.

    data: the units data[starts[i]:ends[i]], and PADDING at the end
    word_starts, word_ends: overwritten with the words of each unit
    state: (3,), the number of words that have a row; the unit, and the word in that unit, to
        continue from
    """
    shift = slot_shift(table.rows)
    for number in range(state[UNIT], len(ends)):
        n_words = find_words(
            data, starts[number], ends[number], tables, matches_only, word_starts, word_ends
        )
        for word in range(state[WORD], n_words):
            start = np.uint64(word_starts[word])
            unit = make_unit(data, start, np.uint64(word_ends[word]) - start, U0)
            row = find_row(data, unit, home_slot(unit.low, unit.high, shift), table)
            if table.rows[row + U2] == 0 and not enter_row(data, unit, row, table, state):
                state[UNIT] = number
                state[WORD] = word
                return False
            table.rows[row + U3] += np.uint64(counts[number])
        state[WORD] = 0
    return True
