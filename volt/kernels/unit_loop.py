"""Bytes → the values of their units, in one loop: find where a unit ends, look it up, write what it stands for.

A unit is a run of bytes between break bytes (white space), with the breaks before it if they are kept. Most units cost
one row of the table of those met before (see volt.kernels.unit_rows) and no look at their bytes.

Units that are new are learned on the spot where that is simple (see volt.kernels.unit_values), else they are pending:
the caller learns them, and runs the loop again.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.compiling import inlined, releasing
from volt.kernels.cutting import OPEN, cut_unit
from volt.kernels.memory import load64, prefetch, separators, store64, trailing_zeros
from volt.kernels.unit_entry import IRREGULAR, N_SLOTS_USED, NO_ROW, UNSURE, enter_unit
from volt.kernels.unit_rows import FIRST, UnitRows, find_row, home_slot, slot_shift, unit_key
from volt.kernels.unit_values import UnitEncoder, learn_words

# Slots of `state`: how much of the table is used (see volt.kernels.unit_entry), where to go on, what was found.
POSITION, START, BEHIND_BREAK, FLAG, AT, LINE, STRANGE, N_STRANGE, N_SLOTS_OF_STATE = range(N_SLOTS_USED, 12)
DONE, TABLE_FULL, OUT_FULL, LINES_FULL = range(4)  # why the loop returns
LINES = 128  # that may end before room is asked for again
ROOM = 8 * LINES + 64  # bytes that may be written meanwhile
RING = 4 * LINES  # words: four for each unit that waits for its row
# Unsigned places need no look at whether they count from the end.
_U0, _U1, _U2, _U3, _U4 = (np.uint64(i) for i in range(5))
_EIGHT, _BLOCK = np.uint64(8), np.uint64(64)
_SIZE, _HALF, _LAST = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(63)
_RING_MASK, _LAG = np.uint64(RING - 1), np.uint64(4 * 32)


class Rule(NamedTuple):
    """How lines and units are parted. separator: the byte that ends a line;  strips_return: "\\r" before it does too;
    breaks: bit b is set if byte b ≤ 32 parts units;  keeps_breaks: breaks belong to what follows;  marks_first: a
    line's first unit is another unit than the same bytes elsewhere;  is_text: values end with a space, lines with a
    line end."""

    separator: int
    strips_return: bool
    breaks: int
    keeps_breaks: bool
    marks_first: bool
    is_text: bool


@inlined
def _ask_for_row(low: Any, high: Any, begin: Any, length: Any, kind: Any, rows: LongArray, ring: LongArray, head: Any,
                 shift: Any) -> Any:  # fmt: skip
    """Have a unit's row brought into the cache, and let the unit wait for it in the ring; the ring's new head."""
    slot = home_slot(low, high, shift)
    prefetch(rows, slot << _U2)
    ring[head], ring[head + _U1] = low, high
    ring[head + _U2], ring[head + _U3] = slot << _HALF | length, begin << _U2 | kind
    return (head + _U4) & _RING_MASK


@inlined
def _find_units(
    data: IntArray, base: Any, stop: Any, rule: Rule, rows: LongArray, shift: Any, ring: LongArray, head: Any,
    start: Any, behind_break: Any, flag: Any,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Look for the ends of units and lines in a block of 64 bytes; the ring's new head, and where the next unit starts,
    where the byte behind the last break is, and the next unit's flag."""
    separator = np.uint64(rule.separator)
    breaks = np.uint64(rule.breaks) | _U1 << (separator & _LAST)
    found = separators(data, base, rule.separator)
    if base + _BLOCK > stop:
        found &= (_U1 << (stop - base)) - _U1
    while found != _U0:
        place = base + trailing_zeros(found)
        found &= found - _U1
        byte = np.uint64(data[place])
        if (breaks >> (byte & _LAST)) & _U1 == _U0:
            continue
        ends_line, end = byte == separator, place
        if ends_line:
            if rule.strips_return and start < place and data[place - _U1] == 13:
                end = place - _U1
            is_unit = start < end
        else:
            is_unit = place != behind_break
        if is_unit:
            low, high = unit_key(data, start, end - start)
            kind = np.uint64(ends_line) << _U1 | _U1
            head, flag = _ask_for_row(low, high | flag, start, end - start, kind, rows, ring, head, shift), _U0
        elif ends_line:
            ring[head + _U2], ring[head + _U3], head = _U0, end << _U2 | _U2, (head + _U4) & _RING_MASK
        behind_break = place + _U1
        if ends_line or not (is_unit or rule.keeps_breaks):
            start = behind_break
        elif is_unit:
            start = place if rule.keeps_breaks else behind_break
        if ends_line:
            flag = FIRST if rule.marks_first else _U0
    return head, start, behind_break, flag


@inlined
def _look_up(
    data: IntArray, ring: LongArray, tail: Any, table: UnitRows, learner: UnitEncoder, state: LongArray
) -> Any:
    """The place of the row of the unit that has waited longest; a new one is entered. NO_ROW if there is no room."""
    low, high, slot = ring[tail], ring[tail + _U1], ring[tail + _U2] >> _HALF
    start, length = ring[tail + _U3] >> _U2, ring[tail + _U2] & _SIZE
    row = find_row(data, start, length, low, high, slot, table)
    if table.rows[row + _U2] != _U0:
        return row
    return enter_unit(data, start, length, low, high, row, table, learner, state)


@inlined
def _is_sure(data: IntArray, end: Any, ends_line: Any, rule: Rule) -> bool:
    """Whether white space that ends a unit cannot go on behind it: the line ends, or one break and text follow.

    White space beyond ASCII starts with one of four bytes, a private character, which bytes are cut at otherwise, with
    0xF4.
    """
    if ends_line != _U0:
        return True
    byte = np.uint64(data[end + _U1])
    is_break = byte <= np.uint64(32) or byte == np.uint64(rule.separator)
    is_space = byte == np.uint64(0xC2) or np.uint64(0xE1) <= byte <= np.uint64(0xE3)
    return not (is_break or is_space or byte == np.uint64(0xF4))


@inlined
def _write(source: Any, i: Any, n: Any, table: UnitRows, out: IntArray, at: Any) -> None:
    """Write n bytes of values, from the i-th on."""
    while i < n:
        store64(out, at + i, load64(table.values, source + i))
        i += _EIGHT


@inlined
def _end_line(
    end: Any, is_text: bool, out: IntArray, at: Any, line_ends: LongArray, line: Any, strange: LongArray,
    state: LongArray,
) -> Any:  # fmt: skip
    """Note where a line's values end, and whether it holds irregular units; where the next one's start."""
    line_start = np.uint64(line_ends[line - _U1]) if line > _U0 else _U0
    if state[STRANGE] != 0:
        at, strange[state[N_STRANGE], 0], strange[state[N_STRANGE], 1] = line_start, line, end
        state[STRANGE], state[N_STRANGE] = 0, state[N_STRANGE] + 1
    if is_text:
        at += np.uint64(at == line_start)
        out[at - _U1] = 10
    line_ends[line] = at
    return at


@releasing
def encode_units(
    data: IntArray, stop: int, rule: Rule, table: UnitRows, learner: UnitEncoder, out: IntArray,
    line_ends: LongArray, strange: LongArray, ring: LongArray, state: LongArray,
) -> int:  # fmt: skip
    """Write what the units of data[:stop] stand for; new ones are added to the table.

    A unit's row is asked for when its end is found, and looked at `_LAG` units later, when it has come into the cache.

    data: (stop + PADDING or more,) uint8, a separator at stop − 1
    out: (…,) uint8 values, with ROOM to spare;  line_ends: where each line's end, with room for LINES to spare
    strange: (…, 2) int64: lines with irregular units (number, end of its text), of which nothing is written
    ring: (RING,) uint64 to work in;  state: where to go on; for a new chunk 0 but for N_UNITS and N_VALUES
    Returns DONE, or what is full. Without pending units everything is written then.
    """
    rows, shift, mark = table.rows, slot_shift(table.rows), FIRST if rule.marks_first else _U0
    base, end_of_all, room = np.uint64(state[POSITION]), np.uint64(stop), np.uint64(len(out) - ROOM)
    start, behind_break = np.uint64(state[START]), np.uint64(state[BEHIND_BREAK])
    at, line, flag = np.uint64(state[AT]), np.uint64(state[LINE]), mark if state[FLAG] == 0 else _U0
    most_lines, most_strange, status = np.uint64(len(line_ends) - LINES), len(strange) - LINES, DONE
    head = tail = _U0
    while status == DONE and (base < end_of_all or tail != head):
        if line > most_lines or state[N_STRANGE] > most_strange or at > room:
            status = OUT_FULL if at > room else LINES_FULL
            break
        if base < end_of_all:
            head, start, behind_break, flag = _find_units(
                data, base, end_of_all, rule, rows, shift, ring, head, start, behind_break, flag
            )
            base += _BLOCK
        lag = _LAG if base < end_of_all else _U0
        while (head - tail) & _RING_MASK > lag:
            kind = ring[tail + _U3]
            if kind & _U1 != _U0:
                row = _look_up(data, ring, tail, table, learner, state)
                if row == NO_ROW:
                    status = TABLE_FULL
                    break
                entry = rows[row + _U2]
                n = entry & _SIZE
                store64(out, at, rows[row + _U3])
                if n > _EIGHT:
                    source, i = np.uint64(table.value_starts[(entry >> _HALF) - _U1]), _EIGHT
                    if n == np.uint64(UNSURE):
                        end = (kind >> _U2) + (ring[tail + _U2] & _SIZE)
                        n = rows[row + _U3] if _is_sure(data, end, kind & _U2, rule) else np.uint64(IRREGULAR)
                        source, i = source + _EIGHT, _U0
                    if n >= np.uint64(IRREGULAR):
                        state[STRANGE] |= n == np.uint64(IRREGULAR)
                        n = _U0
                    elif at + n > room:
                        status = OUT_FULL
                        break
                    else:
                        _write(source, i, n, table, out, at)
                at += n
            if kind & _U2 != _U0:
                end = (kind >> _U2) + (ring[tail + _U2] & _SIZE)
                at = _end_line(end, rule.is_text, out, at, line_ends, line, strange, state)
                line += _U1
            tail = (tail + _U4) & _RING_MASK
    if tail != head:  # go on with the first unit that is not yet written
        kind = ring[tail + _U3]
        start = behind_break = kind >> _U2
        base = start + (ring[tail + _U2] & _SIZE)
        flag = mark & ring[tail + _U1] if kind & _U1 != _U0 else mark
    state[POSITION], state[START], state[BEHIND_BREAK] = base, start, behind_break
    state[AT], state[LINE], state[FLAG] = at, line, flag != mark
    return status


@releasing
def learn_again(
    data: IntArray, table: UnitRows, learner: UnitEncoder, numbers: LongArray, sizes: LongArray, used: int
) -> int:  # fmt: skip
    """Try to learn pending units when more is known of their characters; how many bytes of values there are then.

    data: table.bytes, read-only as texts are;  sizes: (n,) int64 is set to the bytes of each one's values, −1: pending
    table.values: with room for (2 · (bytes of the units) + 2 · n) · learner.widest more.
    """
    for i in range(len(numbers)):
        start, end = int(table.starts[numbers[i]]), int(table.starts[numbers[i] + 1])
        first = table.firsts[numbers[i]] != 0
        shape, n = cut_unit(data, start, end, first, learner.cutter)
        sizes[i] = -1 if shape == OPEN or n < 0 else learn_words(data, first, n, learner, table.values, used)
        if sizes[i] >= 0:
            table.value_starts[numbers[i]] = used
            used += sizes[i]
    return used
