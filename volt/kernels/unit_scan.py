"""Find the units of a text, 64 bytes at a time, and queue them until their rows are in the
processor's cache.

    text --- find_units ---> ring of units whose rows are being loaded --- oldest_unit ---> look up,
    count or encode

A unit ends before a break (such as a space), at the end of its line, or after a break that clings
(see volt.text.patterns.split_points). With the break " ", the line "low  lower" has the
units "low" and "lower"; if breaks are kept, "low" and "  lower".

Looking up a unit waits for memory. So `find_units` computes the unit's slot, tells the processor to
load the row there, and puts the unit into the ring; the caller takes it out LAG units later. The
ring also holds line ends, in their order.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, LongArray
from volt.kernels.intrinsics import (
    character,
    code_before,
    is_white,
    prefetch,
    trailing_zeros,
    within,
)
from volt.kernels.jit import borrowing, inlined
from volt.kernels.pretokenize import GLUES, PARTS, SPACE_CODE, STARTS_LINE
from volt.kernels.unit_table import (
    FIRST,
    HALF,
    LOW_HALF,
    U0,
    U1,
    U2,
    U3,
    U4,
    Unit,
    home_slot,
    make_unit,
)

BLOCK_SIZE = np.uint64(64)  # bytes that are searched together
# An entry of the ring has four numbers: the unit's key (two), slot << 32 | length, and
# start << 2 | flags.
RING = 4 * 128
_RING_MASK = np.uint64(RING - 1)
LAG = np.uint64(4 * 32)  # numbers in the ring between the prefetch of a row and its use
HAS_UNIT, ENDS_LINE = U1, U2  # flags of an entry
_LAST_BIT = np.uint64(63)
NEVER_GLUES, MAY_GLUE, ALWAYS_GLUES = range(3)  # see `Effects`
_RETURN = 13
_LAST_BREAK = 32


class Rule(NamedTuple):
    """The ends of lines and units. In `breaks` and `clinging`, bit b stands for byte b ≤ 32."""

    separator: int  # the byte that ends a line
    strips_return: bool  # whether a "\\r" before the separator is part of the line end
    breaks: int  # the bytes that separate units
    clinging: int  # the breaks that separate units only after some characters, see `volt.text.patterns.split_points`
    # whether breaks, then bytes of white space, belong to the unit after them
    keeps_breaks: bool
    marks_first: bool  # whether a line's first unit differs from the same bytes elsewhere
    # for encoding: whether values are text, with a space after each, and line ends
    is_text: bool = False


class Effects(NamedTuple):
    """Tables of how the text before a break affects it.

    classes, effects: the effect of a character is effects[classes[code point]]. If `effects` is
        empty, white space and "▁" glue, other characters part, and none starts lines.
    lasts: (256,), for the last byte before a break: NEVER_GLUES; MAY_GLUE if a character that glues
        may end with it; ALWAYS_GLUES
    firsts: (256,), for the first byte of a line: 1 if a user token may begin with it, 2 if no lines
        are units, because user tokens strip white space; else 0
    """

    classes: ByteArray
    effects: ByteArray
    lasts: ByteArray
    firsts: ByteArray


class Scan(NamedTuple):
    """The state of the search for units: positions in the text, and the end of the ring."""

    base: Any  # the next block
    start: Any  # where the current unit starts
    after_break: Any  # the position after the last break
    flag: Any  # of the current unit's key: FIRST or 0
    head: Any  # where the next entry goes in the ring


@inlined
def find_units(
    data: ByteArray,
    stop: Any,
    rule: Rule,
    effects: Effects,
    rows: LongArray,
    shift: Any,
    ring: LongArray,
    scan: Scan,
) -> Scan:
    """Queue the units and lines that end in the next 64 bytes. Return where the search continues.

    stop: the end of the text;  shift: see `slot_shift`
    """
    base, start, after_break, flag, head = scan
    separator = np.uint64(rule.separator)
    breaks = np.uint64(rule.breaks) | U1 << (separator & _LAST_BIT)
    candidates = within(data, base, 0, 32) | within(data, base, rule.separator, 0)
    if base + BLOCK_SIZE > stop:
        candidates &= (U1 << (stop - base)) - U1

    while candidates != U0:
        p = base + trailing_zeros(candidates)
        candidates &= candidates - U1
        byte = np.uint64(data[p])
        if (breaks >> (byte & _LAST_BIT)) & U1 == U0:
            continue

        ends_line = byte == separator
        is_clinging = False
        end = p
        if ends_line:
            if rule.strips_return and start < p and data[p - U1] == _RETURN:
                end = p - U1
            is_unit = start < end
        else:
            is_clinging = (np.uint64(rule.clinging) >> byte) & U1 != U0
            is_unit = p != after_break and _ends_unit(data, p, is_clinging, rule, effects)

        if is_unit:
            unit = make_unit(data, start, end - start, flag)
            head = _queue_unit(unit, np.uint64(ends_line) << U1 | HAS_UNIT, rows, shift, ring, head)
            flag = U0
        elif ends_line:
            ring[head + U2] = U0
            ring[head + U3] = end << U2 | ENDS_LINE
            head = next_entry(head)

        after_break = p + U1
        if is_unit and rule.keeps_breaks and not ends_line:
            start = p
        elif ends_line or is_unit or not rule.keeps_breaks:
            start = after_break
        if ends_line:
            flag = FIRST if rule.marks_first else U0
        elif is_clinging and _starts_line(data, after_break, stop, rule, effects):
            unit = make_unit(data, start, after_break - start, flag)
            head = _queue_unit(unit, HAS_UNIT, rows, shift, ring, head)
            start = after_break
    return Scan(base + BLOCK_SIZE, start, after_break, flag, head)


@inlined
def _ends_unit(data: ByteArray, p: Any, is_clinging: bool, rule: Rule, effects: Effects) -> bool:
    if not is_clinging and effects.lasts[data[p - U1]] == NEVER_GLUES:
        return True
    effect = _effect_before(data, p, rule, effects)
    return effect == PARTS or (effect != GLUES and not is_clinging)


@borrowing
def _effect_before(data: ByteArray, p: Any, rule: Rule, effects: Effects) -> int:
    byte = data[p - U1]
    if effects.lasts[byte] == ALWAYS_GLUES:
        return GLUES
    code = code_before(data, int(p))
    if len(effects.effects) > 0:
        return int(effects.effects[effects.classes[max(code, 0)]]) % STARTS_LINE
    is_glue = byte <= 32 or code == SPACE_CODE or is_white(code)
    return GLUES if is_glue else PARTS


@borrowing
def _starts_line(data: ByteArray, p: Any, stop: Any, rule: Rule, effects: Effects) -> bool:
    """Check whether free breaks, and then a character that starts lines, follow from p on."""
    free = rule.breaks & ~rule.clinging
    while p < stop and data[p] <= _LAST_BREAK and free >> int(data[p]) & 1:
        p += U1
    if p >= stop or data[p] == rule.separator:
        return False
    code, _ = character(data, int(p), int(stop))
    if code < 0:
        return False
    kind = effects.effects[effects.classes[code]]
    return bool(kind // STARTS_LINE > effects.firsts[data[p]])


@inlined
def _queue_unit(
    unit: Unit, flags: Any, rows: LongArray, shift: Any, ring: LongArray, head: Any
) -> Any:
    slot = home_slot(unit.low, unit.high, shift)
    prefetch(rows, slot << U2)
    ring[head] = unit.low
    ring[head + U1] = unit.high
    ring[head + U2] = slot << HALF | unit.length
    ring[head + U3] = unit.start << U2 | flags
    return next_entry(head)


@inlined
def next_entry(i: Any) -> Any:
    return (i + U4) & _RING_MASK


@inlined
def n_queued(head: Any, tail: Any) -> Any:
    """Return how many numbers the ring holds, four for each entry."""
    return (head - tail) & _RING_MASK


@inlined
def oldest_unit(ring: LongArray, tail: Any) -> Unit:
    length = ring[tail + U2] & LOW_HALF
    return Unit(ring[tail + U3] >> U2, length, ring[tail], ring[tail + U1])


@inlined
def oldest_slot(ring: LongArray, tail: Any) -> Any:
    return ring[tail + U2] >> HALF


@inlined
def oldest_end(ring: LongArray, tail: Any) -> Any:
    return (ring[tail + U3] >> U2) + (ring[tail + U2] & LOW_HALF)
