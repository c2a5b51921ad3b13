"""`count_units` counts the units of a text, in tables that are too small at any point of the text."""

from collections import Counter
from random import Random

import numpy as np
from kernels.support import bytes_of

from volt.count.unit_table import CountTable
from volt.kernels.count_units import count_units
from volt.kernels.intrinsics import PADDING
from volt.kernels.unit_scan import RING, Effects, Rule
from volt.kernels.unit_table import N_UNITS, UnitRows, rebuild
from volt.text.patterns.split_points import white_last_bytes

WHITE = "\t\n\x0b\x0c\r \xa0\u2003"
PARTS = [" ", "  ", "\t", "\r", "\n", "\r\n", "é", "\xa0", "\u2003", "\x1c", "a", "b", "ab" * 4]
PARTS += ["x" * 7, "y" * 15, "z" * 16, "v" * 17, "w" * 31]
NO_BYTES = np.zeros(0, np.uint8)


def split_naively(line, rule):
    breaks = [chr(byte) for byte in range(33) if rule.breaks >> byte & 1]
    units = [""]
    for place, character in enumerate(line):
        if character not in breaks:
            units[-1] += character
        elif not rule.keeps_breaks:
            units.append("")
        elif line[:place] and line[place - 1] not in WHITE:
            units.append(character)
        else:
            units[-1] += character
    return [unit for unit in units if unit]


def naive_units(text, rule):
    """Return the units of lines, and whether each is the first of its line, if that is marked."""
    result = []
    for line in text.split("\n")[:-1]:
        units = split_naively(line.removesuffix("\r") if rule.strips_return else line, rule)
        result += [(unit.encode(), rule.marks_first and i == 0) for i, unit in enumerate(units)]
    return result


def table_with_room(n, n_bytes):
    nothing = np.zeros(0, np.int64)
    rows = np.zeros(4 << (2 * n).bit_length(), np.uint64)
    data = np.zeros(n_bytes + PADDING, np.uint8)
    starts = np.zeros(n + 1, np.int64)
    firsts = np.zeros(n, np.uint8)
    return UnitRows(rows, data, starts, firsts, NO_BYTES, nothing)


def enlarge(table, n, n_bytes, *, room, more):
    """Return a table of the same n units, with room for `room` more units and `more` more bytes."""
    larger = table_with_room(n + room, n_bytes + more)
    rebuild(larger.rows, table.rows)
    larger.bytes[:n_bytes] = table.bytes[:n_bytes]
    larger.starts[: n + 1] = table.starts[: n + 1]
    larger.firsts[:n] = table.firsts[:n]
    return larger


def test_count_units_continues_after_its_table_was_full():
    """count_units stops at the first unit without room in the table. Called again, it counts this unit and the rest.

    The units and counts equal a naive split of the text, whatever bytes separate units.
    """
    rng = Random(1)
    for case in range(50):
        text = "".join(rng.choices(PARTS, k=rng.choice([0, 3, 30, 120]))) + "\n"
        keeps_breaks = case % 2 == 0
        third = b" \t\r" if keeps_breaks else b" \t\r\x1c"  # Unicode's white space is kept
        breaks = sum(1 << byte for byte in rng.choice([b" ", b" \t", third]))
        rule = Rule(
            separator=10,
            strips_return=case % 5 < 3,
            breaks=breaks,
            clinging=0,
            keeps_breaks=keeps_breaks,
            marks_first=case % 3 == 0,
        )
        expected = Counter(naive_units(text, rule))
        size = len(text.encode())
        data = bytes_of(text.encode() + b" \n" * 48)
        ring = np.zeros(RING, np.uint64)
        lasts = white_last_bytes(breaks, glues_mark=False) * keeps_breaks
        effects = Effects(NO_BYTES, NO_BYTES, lasts, NO_BYTES)
        table = table_with_room(1, 20)
        state = np.zeros(4, np.int64)
        while not count_units(data, size, rule, effects, table, ring, state):
            n = int(state[N_UNITS])
            used = int(table.starts[n])
            unit, _ = list(expected)[n]
            assert n == len(table.firsts) or used + len(unit) + PADDING > len(table.bytes)
            more = len(unit) + case % 9
            table = enlarge(table, n, used, room=1 + case % 4, more=more)

        counts = CountTable()
        counts._table = table
        counts.n = int(state[N_UNITS])
        found = counts.counted_strings()
        units = [found.text[a:b] for a, b in zip(found.starts, found.ends, strict=True)]
        assert list(zip(units, map(bool, found.is_first), strict=True)) == list(expected)
        assert found.counts.tolist() == list(expected.values())
