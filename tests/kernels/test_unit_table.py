"""Units are counted alike in tables of any size, which are full at every point of a text."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
from kernels.support import bytes_of

from volt.count.unit_table import CountTable
from volt.kernels import unit_table
from volt.kernels.intrinsics import PADDING
from volt.kernels.unit_table import N_UNITS, Ends, UnitRows

WHITE = "\t\n\x0b\x0c\r \xa0\u2003"
PARTS = [" ", "  ", "\t", "\r", "\n", "\r\n", "é", "\xa0", "\u2003", "\x1c", "a", "b", "ab" * 4]
PARTS += ["x" * 7, "y" * 15, "z" * 16, "v" * 17, "w" * 31]


def units_of(line, ends):
    breaks = [chr(byte) for byte in range(33) if ends.breaks >> byte & 1]
    units = [""]
    for place, character in enumerate(line):
        if character not in breaks:
            units[-1] += character
        elif not ends.keeps_breaks:
            units.append("")
        elif line[:place] and line[place - 1] not in WHITE:
            units.append(character)
        else:
            units[-1] += character
    return [unit for unit in units if unit]


def naive_units(text, ends):
    """Return the units of lines, and whether each is the first of its line, if that is marked."""
    result = list[tuple[bytes, bool]]()
    for line in text.split("\n")[:-1]:
        units = units_of(line.removesuffix("\r") if ends.strips_return else line, ends)
        result += [(unit.encode(), ends.marks_first and i == 0) for i, unit in enumerate(units)]
    return result


def small_table(n, n_bytes):
    nothing = np.zeros(0, np.int64)
    rows = np.zeros(4 << (2 * n).bit_length(), np.uint64)
    data = np.zeros(n_bytes + PADDING, np.uint8)
    starts, firsts = np.zeros(n + 1, np.int64), np.zeros(n, np.uint8)
    return UnitRows(rows, data, starts, firsts, nothing, data[:0], nothing)


def grown(table, n, n_bytes, *, room, more):
    """Return a table of the same n units, with room for `room` more units and `more` more bytes."""
    larger = small_table(n + room, n_bytes + more)
    unit_table.rebuild(larger.rows, table.rows)
    larger.bytes[:n_bytes] = table.bytes[:n_bytes]
    larger.starts[: n + 1] = table.starts[: n + 1]
    larger.firsts[:n] = table.firsts[:n]
    return larger


def test_units_are_counted_in_tables_that_grow():
    """The loop stops at the unit for which there is no room, and continues with it, whatever separates units."""
    rng = Random(1)
    for case in range(50):
        text = "".join(rng.choices(PARTS, k=rng.choice([0, 3, 30, 120]))) + "\n"
        breaks = sum(1 << byte for byte in rng.choice([b" ", b" \t", b" \t\r\x1c"]))
        ends = Ends(10, case % 5 < 3, breaks, case % 2 == 0, case % 3 == 0)
        expected = Counter(naive_units(text, ends))
        size = len(text.encode())
        data, ring = bytes_of(text.encode() + b" \n" * 48), np.zeros(unit_table.RING, np.uint64)
        table, state = small_table(1, 20), np.zeros(4, np.int64)
        while not unit_table.count_units(data, size, ends, table, ring, state):
            n = int(state[N_UNITS])
            used = int(table.starts[n])
            unit, _ = list(expected)[n]
            assert n == len(table.firsts) or used + len(unit) + PADDING > len(table.bytes)
            more = len(unit) + case % 9
            table = grown(table, n, used, room=1 + case % 4, more=more)

        counts = CountTable()
        counts._table = table
        counts.n = int(state[N_UNITS])
        found = counts.counted_strings()
        units = [found.text[a:b] for a, b in zip(found.starts, found.ends, strict=True)]
        assert list(zip(units, map(bool, found.is_first), strict=True)) == list(expected)
        assert found.counts.tolist() == list(expected.values())
