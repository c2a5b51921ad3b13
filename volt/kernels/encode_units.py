"""Write the values of a text's units, in one loop. Most units need one table look-up; bytes are not compared.

    end found ---> waits in the ring ---> row is looked at ---+--- has values ----------------> they are written
                                                 ^            +--- open, and text follows ----> they are written
                                                 |            +--- open, and space may follow -> its line is left
                                                 |            +--- irregular -----------------> its line is left
                                                 |            +--- pending -------------------> nothing is written
                                                 |            +--- there is no row -+
                                                 |                                  v
                                                 +--- row is entered <--- encoded now: it has values, is open, or is
                                                                          pending, where Python must encode it

After DONE, volt.encode.batch_encoder encodes pending units in Python and starts anew. After any other status, it
lengthens the array that is full, and continues.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, KeyArray, LongArray, LongTable, TextArray
from volt.kernels.encode_new_unit import (
    AFTER_BREAK,
    HOLDS_IRREGULAR,
    IRREGULAR,
    IS_INSIDE,
    LINE,
    N_LEFT,
    NO_ROW,
    OPEN_ENDED,
    POSITION,
    START,
    WRITTEN,
    UnitEncoder,
    enter_unit,
    write_words,
)
from volt.kernels.intrinsics import character, load64, store64, trailing_zeros, within
from volt.kernels.jit import borrowing, inlined, releasing
from volt.kernels.pretokenize import CARRIES, OPEN, PARTS, Cutter, cut_unit
from volt.kernels.unit_table import FIRST, UnitRows, find_row, slot_shift, wait_for_row
from volt.kernels.unit_table import RING as RING

DONE, TABLE_FULL, OUT_FULL, LINES_FULL = range(4)  # why the loop returns
LINES = RING // 4  # lines that may end before the loop checks for room again
ROOM = 8 * LINES + 64  # bytes that may be written meanwhile
# Units wait for their rows in the ring of volt.kernels.unit_table. The last number of an entry is start << 2 | kind:
# bit 0 of the kind is set if there is a unit, bit 1 if a line ends after it.
# Unsigned indices need no check for negative values.
_U0, _U1, _U2, _U3, _U4 = (np.uint64(i) for i in range(5))
_EIGHT, _BLOCK = np.uint64(8), np.uint64(64)
_SIZE, _HALF, _LAST = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(63)
_RING_MASK, _LAG = np.uint64(RING - 1), np.uint64(4 * 32)


class Rule(NamedTuple):
    separator: int  # the byte that ends a line
    strips_return: bool  # whether a "\r" before the separator is part of the line end
    breaks: int  # bit b is set if byte b ≤ 32 separates units
    clinging: int  # the same for breaks that separate units only after some characters: see the cutter's `kinds`
    keeps_breaks: bool  # whether breaks belong to the unit after them
    marks_first: bool  # whether a line's first unit differs from the same bytes elsewhere
    is_text: (
        bool  # whether values are text, with a space after each, and a line end after each line
    )


@borrowing
def _kind_before(data: ByteArray, place: Any, rule: Rule, cutter: Cutter) -> int:
    first = int(place) - 1
    if data[first] <= 32 and rule.clinging >> int(data[first]) & 1:
        return CARRIES
    while first > 0 and data[first] & 0xC0 == 0x80:
        first -= 1
    code = character(data, first, int(place))[0]
    return int(cutter.kinds[cutter.classes[max(code, 0)]])


@inlined
def _find_units(
    data: ByteArray,
    base: Any,
    stop: Any,
    rule: Rule,
    rows: LongArray,
    shift: Any,
    ring: LongArray,
    head: Any,
    start: Any,
    after_break: Any,
    flag: Any,
    cutter: Cutter,
) -> tuple[Any, Any, Any, Any]:
    """Find the ends of units and lines in a block of 64 bytes, and queue the units in the ring.

    Returns the ring's new head, the next unit's start, the place after the last break, and the next unit's flag.
    """
    separator = np.uint64(rule.separator)
    breaks, clinging = np.uint64(rule.breaks) | _U1 << (separator & _LAST), np.uint64(rule.clinging)
    result = within(data, base, 0, 32) | within(data, base, rule.separator, 0)
    if base + _BLOCK > stop:
        result &= (_U1 << (stop - base)) - _U1
    while result != _U0:
        place = base + trailing_zeros(result)
        result &= result - _U1
        byte = np.uint64(data[place])
        if (breaks >> (byte & _LAST)) & _U1 == _U0:
            continue
        ends_line, end = byte == separator, place
        if ends_line:
            if rule.strips_return and start < place and data[place - _U1] == 13:
                end = place - _U1
            is_unit = start < end
        else:
            is_unit = place != after_break
            if is_unit and (clinging >> byte) & _U1 != _U0:
                kind_before = _kind_before(data, place, rule, cutter)
                if kind_before != PARTS:
                    after_break = after_break if kind_before == CARRIES else place + _U1
                    continue
        if is_unit:
            next_head = wait_for_row(data, start, end - start, flag, rows, shift, ring, head)
            ring[head + _U3] = start << _U2 | np.uint64(ends_line) << _U1 | _U1
            head, flag = next_head, _U0
        elif ends_line:
            ring[head + _U2], ring[head + _U3], head = (
                _U0,
                end << _U2 | _U2,
                (head + _U4) & _RING_MASK,
            )
        after_break = place + _U1
        if ends_line or not (is_unit or rule.keeps_breaks):
            start = after_break
        elif is_unit:
            start = place if rule.keeps_breaks else after_break
        if ends_line:
            flag = FIRST if rule.marks_first else _U0
    return head, start, after_break, flag


@inlined
def _look_up(
    data: ByteArray,
    ring: LongArray,
    tail: Any,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> Any:
    low, high, slot = ring[tail], ring[tail + _U1], ring[tail + _U2] >> _HALF
    start, length = ring[tail + _U3] >> _U2, ring[tail + _U2] & _SIZE
    row = find_row(data, start, length, low, high, slot, table)
    if table.rows[row + _U2] != _U0:
        return row  # if the caller's loop made the call below, new units would take a third longer
    return enter_unit(data, start, length, low, high, row, table, encoder, state)


@inlined
def _is_closed(data: ByteArray, end: Any, ends_line: Any, rule: Rule) -> bool:
    """Check whether an open unit's stored values apply: its line ends, or one break and then text follow."""
    if ends_line != _U0:
        return True
    byte = np.uint64(data[end + _U1])
    is_break = byte <= np.uint64(32) or byte == np.uint64(rule.separator)
    is_space = byte == np.uint64(0xC2) or np.uint64(0xE1) <= byte <= np.uint64(0xE3)
    return not (is_break or is_space or byte == np.uint64(0xF4))


@inlined
def _unit_end(ring: LongArray, tail: Any) -> Any:
    return (ring[tail + _U3] >> _U2) + (ring[tail + _U2] & _SIZE)


@inlined
def _write_unit(
    data: ByteArray,
    ring: LongArray,
    tail: Any,
    row: Any,
    rule: Rule,
    table: UnitRows,
    out: IntArray,
    at: Any,
    room: Any,
    state: LongArray,
) -> tuple[Any, int]:
    """Write the values of the next unit. Return where the following values go, and DONE or OUT_FULL."""
    rows, entry = table.rows, table.rows[row + _U2]
    n = entry & _SIZE
    store64(out, at, rows[row + _U3])
    if n > _EIGHT:
        source, i = np.uint64(table.value_starts[(entry >> _HALF) - _U1]), _EIGHT
        if n == np.uint64(OPEN_ENDED):
            is_closed = _is_closed(data, _unit_end(ring, tail), ring[tail + _U3] & _U2, rule)
            n = rows[row + _U3] if is_closed else np.uint64(IRREGULAR)
            source, i = source + _EIGHT, _U0
        if n >= np.uint64(IRREGULAR):  # or pending
            state[HOLDS_IRREGULAR] |= n == np.uint64(IRREGULAR)
            n = _U0
        elif at + n > room:
            return at, OUT_FULL
        else:
            while i < n:
                store64(out, at + i, load64(table.values, source + i))
                i += _EIGHT
    return at + n, DONE


@inlined
def _end_line(
    end: Any,
    is_text: bool,
    out: IntArray,
    at: Any,
    line_ends: LongArray,
    line: Any,
    left_lines: LongArray,
    state: LongArray,
) -> Any:
    line_start = np.uint64(line_ends[line - _U1]) if line > _U0 else _U0
    if state[HOLDS_IRREGULAR] != 0:
        at, left_lines[state[N_LEFT], 0], left_lines[state[N_LEFT], 1] = line_start, line, end
        state[HOLDS_IRREGULAR], state[N_LEFT] = 0, state[N_LEFT] + 1
    if is_text:
        at += np.uint64(at == line_start)
        out[at - _U1] = 10
    line_ends[line] = at
    return at


@releasing
def encode_units(
    data: TextArray,
    stop: int,
    rule: Rule,
    table: UnitRows,
    encoder: UnitEncoder,
    out: ByteArray,
    line_ends: LongArray,
    left_lines: LongTable,
    ring: KeyArray,
    state: LongArray,
) -> int:
    """Write the values of the units of data[:stop], and add new units to the table.

    data: the text, with a separator at `stop - 1`, and PADDING after it
    line_ends: set to where each line's values end
    left_lines: (…, 2), set to the number of each left line, and where its text ends
    """
    # Parts are inlined, because a call with all these arrays takes longer than writing most units.
    shift, mark = slot_shift(table.rows), FIRST if rule.marks_first else _U0
    base, end_of_all, room = np.uint64(state[POSITION]), np.uint64(stop), np.uint64(len(out) - ROOM)
    start, after_break = np.uint64(state[START]), np.uint64(state[AFTER_BREAK])
    at, line, flag = (
        np.uint64(state[WRITTEN]),
        np.uint64(state[LINE]),
        mark if state[IS_INSIDE] == 0 else _U0,
    )
    most_lines, most_left, status = np.uint64(len(line_ends) - LINES), len(left_lines) - LINES, DONE
    head = tail = _U0
    while status == DONE and (base < end_of_all or tail != head):
        if line > most_lines or state[N_LEFT] > most_left or at > room:
            status = OUT_FULL if at > room else LINES_FULL
            break
        if base < end_of_all:
            head, start, after_break, flag = _find_units(
                data,
                base,
                end_of_all,
                rule,
                table.rows,
                shift,
                ring,
                head,
                start,
                after_break,
                flag,
                encoder.cutter,
            )
            base += _BLOCK
        lag = _LAG if base < end_of_all else _U0
        while (head - tail) & _RING_MASK > lag:
            kind = ring[tail + _U3]
            if kind & _U1 != _U0:
                row = _look_up(data, ring, tail, table, encoder, state)
                if row == NO_ROW:
                    status = TABLE_FULL
                    break
                at, status = _write_unit(data, ring, tail, row, rule, table, out, at, room, state)
                if status != DONE:
                    break
            if kind & _U2 != _U0:
                end = _unit_end(ring, tail)
                at = _end_line(end, rule.is_text, out, at, line_ends, line, left_lines, state)
                line += _U1
            tail = (tail + _U4) & _RING_MASK
    if tail != head:  # continue with the first unit that is not written yet
        kind = ring[tail + _U3]
        start = after_break = kind >> _U2
        base = _unit_end(ring, tail)
        flag = mark & ring[tail + _U1] if kind & _U1 != _U0 else mark
    state[POSITION], state[START], state[AFTER_BREAK] = base, start, after_break
    state[WRITTEN], state[LINE], state[IS_INSIDE] = at, line, flag != mark
    return status


@releasing
def encode_pending(
    data: TextArray,
    table: UnitRows,
    encoder: UnitEncoder,
    numbers: LongArray,
    sizes: LongArray,
    used: int,
) -> int:
    """Encode pending units whose characters now have a class. Return the bytes of values in use.

    sizes: set to the bytes of each unit's values, −1 if it stays pending
    """
    for i in range(len(numbers)):
        start, end = int(table.starts[numbers[i]]), int(table.starts[numbers[i] + 1])
        first = table.firsts[numbers[i]] != 0
        shape, n = cut_unit(data, start, end, first, encoder.cutter)
        sizes[i] = (
            -1
            if shape == OPEN or n < 0
            else write_words(data, first, n, encoder, table.values, used)
        )
        if sizes[i] >= 0:
            table.value_starts[numbers[i]] = used
            used += sizes[i]
    return used
