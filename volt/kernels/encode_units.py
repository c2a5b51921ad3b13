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

from volt.kernels.arrays import ByteArray, KeyArray, LongArray, LongTable, TextArray
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
from volt.kernels.intrinsics import code_before, load64, store64, trailing_zeros
from volt.kernels.jit import borrowing, inlined, releasing
from volt.kernels.pretokenize import CARRIES, OPEN, PARTS, Cutter, cut_unit
from volt.kernels.unit_table import (
    BLOCK_SIZE,
    EIGHT,
    FIRST,
    HALF,
    LAG,
    LAST_BIT,
    LOW_HALF,
    RING_MASK,
    U0,
    U1,
    U2,
    U3,
    U4,
    UnitRows,
    breaks_in,
    find_row,
    slot_shift,
    wait_for_row,
    waiting_unit,
)
from volt.kernels.unit_table import RING as RING

DONE, TABLE_FULL, OUT_FULL, LINES_FULL = range(4)  # why the loop returns
LINES = RING // 4  # lines that may end before the loop checks for room again
ROOM = 8 * LINES + 64  # bytes that may be written meanwhile


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


class Loop(NamedTuple):
    """The tables that the loop reads, and the arrays that it fills.

    Parts are inlined, because a call with all these arrays takes longer than writing most units.
    """

    data: TextArray  # the text, with a separator at `stop - 1`, and PADDING after it
    rule: Rule
    table: UnitRows
    encoder: UnitEncoder
    out: ByteArray
    line_ends: LongArray  # where each line's values end
    left_lines: LongTable  # (…, 2), the number of each left line, and where its text ends
    ring: KeyArray
    state: LongArray


@borrowing
def _kind_before(data: ByteArray, place: Any, rule: Rule, cutter: Cutter) -> int:
    byte = data[place - U1]
    if byte <= 32 and rule.clinging >> int(byte) & 1:
        return CARRIES
    code = code_before(data, int(place))
    return int(cutter.kinds[cutter.classes[max(code, 0)]])


@inlined
def _find_units(
    loop: Loop, base: Any, stop: Any, shift: Any, head: Any, start: Any, after_break: Any, flag: Any
) -> tuple[Any, Any, Any, Any]:
    """Find the ends of units and lines in a block of 64 bytes, and queue the units in the ring.

    Returns the ring's new head, the next unit's start, the place after the last break, and the next unit's flag.
    """
    data = loop.data
    rule = loop.rule
    ring = loop.ring
    rows = loop.table.rows
    separator = np.uint64(rule.separator)
    clinging = np.uint64(rule.clinging)
    breaks = np.uint64(rule.breaks) | U1 << (separator & LAST_BIT)
    bits = breaks_in(data, base, stop, rule.separator)
    while bits != U0:
        place = base + trailing_zeros(bits)
        bits &= bits - U1
        byte = np.uint64(data[place])
        if (breaks >> (byte & LAST_BIT)) & U1 == U0:
            continue

        ends_line = byte == separator
        end = place
        if ends_line:
            if rule.strips_return and start < place and data[place - U1] == 13:
                end = place - U1
            is_unit = start < end
        else:
            is_unit = place != after_break
            if is_unit and (clinging >> byte) & U1 != U0:
                kind_before = _kind_before(data, place, rule, loop.encoder.cutter)
                if kind_before != PARTS:
                    if kind_before != CARRIES:
                        after_break = place + U1
                    continue

        if is_unit:
            kind = np.uint64(ends_line) << U1 | U1
            head = wait_for_row(data, start, end, kind, flag, rows, shift, ring, head)
            flag = U0
        elif ends_line:
            ring[head + U2] = U0
            ring[head + U3] = end << U2 | U2
            head = (head + U4) & RING_MASK

        after_break = place + U1
        if is_unit and rule.keeps_breaks and not ends_line:
            start = place
        elif ends_line or is_unit or not rule.keeps_breaks:
            start = after_break
        if ends_line:
            flag = FIRST if rule.marks_first else U0
    return head, start, after_break, flag


@inlined
def _look_up(loop: Loop, tail: Any) -> Any:
    unit = waiting_unit(loop.ring, tail)
    row = find_row(loop.data, unit, loop.ring[tail + U2] >> HALF, loop.table)
    if loop.table.rows[row + U2] != U0:
        return row  # if the caller's loop made the call below, new units would take a third longer
    return enter_unit(loop.data, unit, row, loop.table, loop.encoder, loop.state)


@inlined
def _is_closed(data: ByteArray, end: Any, ends_line: Any, rule: Rule) -> bool:
    """Check whether an open unit's stored values apply: its line ends, or one break and then text follow."""
    if ends_line != U0:
        return True
    byte = np.uint64(data[end + U1])
    is_break = byte <= np.uint64(32) or byte == np.uint64(rule.separator)
    is_space = byte == np.uint64(0xC2) or np.uint64(0xE1) <= byte <= np.uint64(0xE3)
    return not (is_break or is_space or byte == np.uint64(0xF4))


@inlined
def _unit_end(ring: LongArray, tail: Any) -> Any:
    return (ring[tail + U3] >> U2) + (ring[tail + U2] & LOW_HALF)


@inlined
def _write_unit(loop: Loop, tail: Any, row: Any, at: Any, room: Any) -> tuple[Any, int]:
    """Write the values of the next unit. Return where the following values go, and DONE or OUT_FULL."""
    table = loop.table
    entry = table.rows[row + U2]
    n = entry & LOW_HALF
    store64(loop.out, at, table.rows[row + U3])
    if n <= EIGHT:
        return at + n, DONE

    source = np.uint64(table.value_starts[(entry >> HALF) - U1])
    i = EIGHT
    if n == np.uint64(OPEN_ENDED):
        ends_line = loop.ring[tail + U3] & U2
        n = np.uint64(IRREGULAR)
        if _is_closed(loop.data, _unit_end(loop.ring, tail), ends_line, loop.rule):
            n = table.rows[row + U3]
        source += EIGHT
        i = U0
    if n >= np.uint64(IRREGULAR):  # or pending
        loop.state[HOLDS_IRREGULAR] |= n == np.uint64(IRREGULAR)
        return at, DONE
    if at + n > room:
        return at, OUT_FULL
    while i < n:
        store64(loop.out, at + i, load64(table.values, source + i))
        i += EIGHT
    return at + n, DONE


@inlined
def _end_line(loop: Loop, end: Any, at: Any, line: Any) -> Any:
    state = loop.state
    line_start = np.uint64(loop.line_ends[line - U1]) if line > U0 else U0
    if state[HOLDS_IRREGULAR] != 0:
        at = line_start
        loop.left_lines[state[N_LEFT], 0] = line
        loop.left_lines[state[N_LEFT], 1] = end
        state[HOLDS_IRREGULAR] = 0
        state[N_LEFT] += 1
    if loop.rule.is_text:
        at += np.uint64(at == line_start)
        loop.out[at - U1] = 10
    loop.line_ends[line] = at
    return at


@releasing
def encode_units(loop: Loop, stop: int) -> int:
    """Write the values of the units of data[:stop], and add new units to the table. Return the status."""
    ring = loop.ring
    state = loop.state
    shift = slot_shift(loop.table.rows)
    mark = FIRST if loop.rule.marks_first else U0
    flag = mark if state[IS_INSIDE] == 0 else U0
    end_of_all = np.uint64(stop)
    room = np.uint64(len(loop.out) - ROOM)
    base = np.uint64(state[POSITION])
    start = np.uint64(state[START])
    after_break = np.uint64(state[AFTER_BREAK])
    at = np.uint64(state[WRITTEN])
    line = np.uint64(state[LINE])
    most_lines = np.uint64(len(loop.line_ends) - LINES)
    head = tail = U0
    status = DONE

    while status == DONE and (base < end_of_all or tail != head):
        if at > room:
            status = OUT_FULL
            break
        if line > most_lines or state[N_LEFT] > len(loop.left_lines) - LINES:
            status = LINES_FULL
            break
        if base < end_of_all:
            head, start, after_break, flag = _find_units(
                loop, base, end_of_all, shift, head, start, after_break, flag
            )
            base += BLOCK_SIZE
        lag = LAG if base < end_of_all else U0
        while (head - tail) & RING_MASK > lag:
            kind = ring[tail + U3]
            if kind & U1 != U0:
                row = _look_up(loop, tail)
                if row == NO_ROW:
                    status = TABLE_FULL
                    break
                at, status = _write_unit(loop, tail, row, at, room)
                if status != DONE:
                    break
            if kind & U2 != U0:
                at = _end_line(loop, _unit_end(ring, tail), at, line)
                line += U1
            tail = (tail + U4) & RING_MASK

    if tail != head:  # continue with the first unit that is not written yet
        kind = ring[tail + U3]
        start = after_break = kind >> U2
        base = _unit_end(ring, tail)
        flag = mark
        if kind & U1 != U0:
            flag &= ring[tail + U1]
    state[POSITION] = base
    state[START] = start
    state[AFTER_BREAK] = after_break
    state[WRITTEN] = at
    state[LINE] = line
    state[IS_INSIDE] = flag != mark
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
        number = numbers[i]
        first = table.firsts[number] != 0
        start = int(table.starts[number])
        shape, n = cut_unit(data, start, int(table.starts[number + 1]), first, encoder.cutter)
        sizes[i] = -1
        if shape != OPEN and n >= 0:
            sizes[i] = write_words(data, first, n, encoder, table.values, used)
        if sizes[i] >= 0:
            table.value_starts[number] = used
            used += sizes[i]
    return used
