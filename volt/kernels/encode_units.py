"""Write the values of a text's units, in one loop. Most units need one table look-up; bytes are not
compared.

    end found ---> waits in the ring ---> row is looked at ---+--- has values ----------------> they
    are written
                                                 ^            +--- pending -------------------> nothing is written
                                                 |            +--- there is no row -+
                                                 |                                  v
                                                 +--- row is entered <--- encoded now: it has
                                                                          values, or is pending,
                                                                          where Python must encode it

The words in this picture are defined in `volt.kernels`. The caller is `volt.encode.unit_cache`.
If units are pending, it has Python encode them, and starts anew. If an array is full, it lengthens
the array, and continues.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, KeyArray, LongArray, TextArray
from volt.kernels.encode_new_unit import (
    AFTER_BREAK,
    ID_SIZE,
    IS_INSIDE,
    LINE,
    N_PENDING,
    NO_ROW,
    PENDING,
    POSITION,
    START,
    WRITTEN,
    UnitEncoder,
    enter_unit,
    write_words,
)
from volt.kernels.intrinsics import copy_eights, load64, store64
from volt.kernels.jit import inlined, releasing
from volt.kernels.pretokenize import cut_unit
from volt.kernels.trie import (
    FIRST_OF_WORD,
    IS_UNKNOWN,
    LEVEL_SHIFT,
    LEVEL_STEP,
    SPACE_CODE,
    add_scores,
    best_path,
    copy_word,
)
from volt.kernels.unit_scan import (
    ENDS_LINE,
    HAS_UNIT,
    LAG,
    Effects,
    Rule,
    Scan,
    find_units,
    n_queued,
    next_entry,
    oldest_end,
    oldest_slot,
    oldest_unit,
)
from volt.kernels.unit_scan import RING as RING
from volt.kernels.unit_table import (
    EIGHT,
    FIRST,
    LOW_HALF,
    U0,
    U1,
    U2,
    U3,
    UnitRows,
    find_row,
    slot_shift,
)

# Why the loop has not written all values; otherwise it returns how many bytes it has written.
HAS_PENDING, TABLE_FULL, OUT_FULL, LINES_FULL = range(-1, -5, -1)
_DONE = 0
LINES = RING // 4  # lines that may end before the loop checks for room again
ROOM = 8 * LINES + 64  # bytes that may be written meanwhile
_LINE_FEED = 10


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
    ring: KeyArray
    state: LongArray  # see `LoopState`


@releasing
def encode_units(loop: Loop, stop: int, is_new: bool) -> int:
    """Write the values of the units of data[:stop], and add new units to the table. Return the
    number of bytes, or HAS_PENDING, TABLE_FULL, OUT_FULL or LINES_FULL.

    is_new: whether to start with the text; else, continue where the loop has stopped
    """
    ring = loop.ring
    state = loop.state
    if is_new:
        for i in range(N_PENDING, len(state)):
            state[i] = 0
    rows = loop.table.rows
    cutter = loop.encoder.cutter
    effects = Effects(cutter.classes, cutter.kinds, cutter.lasts, cutter.firsts)
    shift = slot_shift(rows)
    mark = FIRST if loop.rule.marks_first else U0
    end_of_all = np.uint64(stop)
    room = np.uint64(len(loop.out) - ROOM)
    scan = _resume_scan(state, mark)
    to = np.uint64(state[WRITTEN])
    line = np.uint64(state[LINE])
    most_lines = np.uint64(len(loop.line_ends) - LINES)
    tail = U0
    status = _DONE

    while status == _DONE and (scan.base < end_of_all or tail != scan.head):
        if to > room:
            status = OUT_FULL
            break
        if line > most_lines:
            status = LINES_FULL
            break
        if scan.base < end_of_all:
            scan = find_units(loop.data, end_of_all, loop.rule, effects, rows, shift, ring, scan)
        lag = LAG if scan.base < end_of_all else U0
        while n_queued(scan.head, tail) > lag:
            flags = ring[tail + U3]
            if flags & HAS_UNIT != U0:
                row = _look_up(loop, tail, shift)
                if row == NO_ROW:
                    status = TABLE_FULL
                    break
                to, status = _write_unit(loop, tail, row, to, room)
                if status != _DONE:
                    break
            if flags & ENDS_LINE != U0:
                to = _end_line(loop, to, line)
                line += U1
            tail = next_entry(tail)

    _save_progress(loop, scan, tail, mark)
    state[WRITTEN] = to
    state[LINE] = line
    if status != _DONE:
        return status
    if state[N_PENDING] > 0:
        return HAS_PENDING
    return int(np.int64(to))


@inlined
def _resume_scan(state: LongArray, mark: Any) -> Scan:
    return Scan(
        base=np.uint64(state[POSITION]),
        start=np.uint64(state[START]),
        after_break=np.uint64(state[AFTER_BREAK]),
        flag=mark if state[IS_INSIDE] == 0 else U0,
        head=U0,
    )


@inlined
def _save_progress(loop: Loop, scan: Scan, tail: Any, mark: Any) -> None:
    """Store where to continue: with the oldest entry of the ring, if any."""
    ring = loop.ring
    state = loop.state
    state[POSITION] = scan.base
    state[START] = scan.start
    state[AFTER_BREAK] = scan.after_break
    flag = scan.flag
    if tail != scan.head:
        flags = ring[tail + U3]
        state[POSITION] = oldest_end(ring, tail)
        state[START] = state[AFTER_BREAK] = flags >> U2
        flag = mark
        if flags & HAS_UNIT != U0:
            flag &= ring[tail + U1]
    state[IS_INSIDE] = flag != mark


@inlined
def _look_up(loop: Loop, tail: Any, shift: Any) -> Any:
    """Return the row of the oldest unit, which is entered if it is new; NO_ROW if the table is
    full."""
    unit = oldest_unit(loop.ring, tail)
    row = find_row(loop.data, unit, oldest_slot(loop.ring, tail), loop.table)
    if loop.table.rows[row + U2] != U0:
        return row  # if the caller's loop made the call below, new units would take a third longer
    return enter_unit(loop.data, unit, row, shift, loop.table, loop.encoder, loop.state)


@inlined
def _write_unit(loop: Loop, tail: Any, row: Any, to: Any, room: Any) -> tuple[Any, int]:
    """Write the values of the oldest unit. Return where the following values go, and _DONE or
    OUT_FULL."""
    table = loop.table
    entry = table.rows[row + U2]
    size = entry & LOW_HALF
    values = table.rows[row + U3]
    store64(loop.out, to, values)
    if size <= EIGHT:
        return to + size, _DONE

    if size == np.uint64(PENDING):
        return to, _DONE
    if to + size > room:
        return to, OUT_FULL
    copy_eights(table.values, values, size, loop.out, to)
    return to + size, _DONE


@inlined
def _end_line(loop: Loop, to: Any, line: Any) -> Any:
    """Store where the values of a line end. Return where the next line's go."""
    if loop.rule.is_text:
        line_start = np.uint64(loop.line_ends[line - U1]) if line > U0 else U0
        to += np.uint64(to == line_start)
        loop.out[to - U1] = _LINE_FEED
    loop.line_ends[line] = to
    return to


@releasing
def encode_pending(
    data: TextArray,
    table: UnitRows,
    encoder: UnitEncoder,
    numbers: LongArray,
    sizes: LongArray,
    n_values: int,
) -> int:
    """Encode pending units whose characters now have a class. Return the bytes of values in use.

    data: the bytes of all units, read-only
    numbers: the units to encode
    sizes: set to the bytes of each unit's values, −1 if it stays pending
    """
    for i in range(len(numbers)):
        number = numbers[i]
        is_first = table.firsts[number] != 0
        start = int(table.starts[number])
        _, n = cut_unit(data, start, int(table.starts[number + 1]), is_first, encoder.cutter)
        sizes[i] = -1
        if n >= 0:
            sizes[i] = write_words(data, is_first, n, encoder, table.values, n_values)
        n_values += max(sizes[i], 0)
    return n_values


@releasing
def follow_lines(loop: Loop, continued: int, symbols: IntArray, n_lines: int) -> int:
    """Write the symbols of lines whose marked symbols the loop has written, and return their number.

    The path of a word is found again if the sum of the line's scores has reached the word's level, see
    volt.kernels.trie. `line_ends` are set to where the symbols of each line end.

    continued: subtracted from the symbol of an unknown character whose piece continues
    symbols: set to the symbols, −1 − 2 · code point for an unknown character; with `word_bits`, to
        2 · symbol, + 1 at the end of a word
    """
    data, _, _, encoder, out, line_ends, _, _ = loop
    trie = encoder.trie
    n_out = i = p = 0
    for line in range(n_lines):
        end = line_ends[line] // ID_SIZE
        total = 0.0
        is_marked = loop.rule.marks_first and i < end
        p -= int(is_marked)
        while i < end:
            value = _marked_symbol(out, i)
            most_before = ((value >> LEVEL_SHIFT) - 1) * LEVEL_STEP
            before = total
            start = n_out
            word_start = p
            while True:
                value &= FIRST_OF_WORD - 1
                if value < IS_UNKNOWN:
                    symbols[n_out] = value
                    p += trie.sizes[value]
                    total = add_scores(total, trie.scores[value], True)
                else:
                    value -= IS_UNKNOWN
                    symbols[n_out] = -1 - 2 * value
                    p += _bytes_of(value)
                    total = add_scores(total, trie.unknown, True)
                n_out += 1
                i += 1
                if i == end:
                    break
                value = _marked_symbol(out, i)
                if value >= FIRST_OF_WORD:
                    break
            if abs(before) >= most_before:
                first = word_start + int(is_marked)
                size = copy_word(data, first, p, is_marked, encoder.path_room.text)
                n, _ = best_path(size, before, True, trie, encoder.path_room, symbols, start)
                n_out = start + n
                total = encoder.path_room.sums[size]
            _mark_word(symbols, start, n_out, continued, encoder.word_bits != 0)
            is_marked = False
        line_ends[line] = n_out
        while data[p] != loop.rule.separator:
            p += 1
        p += 1
    return n_out


@inlined
def _marked_symbol(out: ByteArray, i: int) -> Any:
    return np.int64(load64(out, np.uint64(ID_SIZE * i)) & LOW_HALF)


@inlined
def _bytes_of(code: Any) -> Any:
    """Return the bytes of a character in the trie, where "▁" is a space."""
    if code == SPACE_CODE:
        return 1
    return 1 + int(code >= 0x80) + int(code >= 0x800) + int(code >= 0x10000)


@inlined
def _mark_word(symbols: IntArray, start: int, end: int, continued: int, marks_words: bool) -> None:
    for i in range(start, end - 1):
        if symbols[i] < 0 and symbols[i + 1] < 0:
            symbols[i] -= continued
    if marks_words:
        for i in range(start, end):
            symbols[i] = 2 * symbols[i] + int(i == end - 1)
