"""Units are counted and encoded alike in tables of any size, which are full at every point of a text."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from batches import ENCODERS, HARD, plain_ids

from volt.count.unit_table import CountTable
from volt.encode.encoder import Encoder
from volt.kernels import encode_units, unit_table
from volt.kernels.encode_new_unit import LoopState
from volt.kernels.intrinsics import PADDING
from volt.kernels.unit_table import Ends, UnitRows

PARTS = [
    "a",
    "b",
    "ab" * 4,
    "x" * 7,
    "y" * 15,
    "z" * 16,
    "v" * 17,
    "w" * 31,
    " ",
    "  ",
    "\t",
    "\r",
    "\n",
    "\r\n",
    "é",
    "\xa0",
    "\u2003",
    "\x1c",
]


def naive_units(text: str, ends: Ends) -> list[tuple[bytes, bool]]:
    """The units of lines, and whether each is the first of its line, where that is marked."""
    found, breaks = (
        list[tuple[bytes, bool]](),
        [chr(byte) for byte in range(33) if ends.breaks >> byte & 1],
    )
    for line in text.split("\n")[:-1]:
        line, units, start = line.removesuffix("\r") if ends.strips_return else line, list[str](), 0
        for place, character in enumerate(line):
            if (
                character in breaks
                and ends.keeps_breaks
                and place > start
                and line[place - 1] not in "\t\n\x0b\x0c\r \xa0\u2003"
            ):
                units, start = [*units, line[start:place]], place
            elif character in breaks and not ends.keeps_breaks:
                units, start = [*units, line[start:place]], place + 1
        units = [unit for unit in [*units, line[start:]] if unit]
        found += [(unit.encode(), ends.marks_first and i == 0) for i, unit in enumerate(units)]
    return found


def small_table(n: int, n_bytes: int) -> UnitRows:
    nothing, n_slots = np.zeros(0, np.int64), 1 << (2 * n).bit_length()
    rows, data = np.zeros(4 * n_slots, np.uint64), np.zeros(n_bytes + PADDING, np.uint8)
    return UnitRows(
        rows, data, np.zeros(n + 1, np.int64), np.zeros(n, np.uint8), nothing, data[:0], nothing
    )


def test_units_are_counted_in_tables_that_grow() -> None:
    """The loop stops at the unit for which there is no room, and continues there, whatever separates units."""
    rng = Random(1)
    for case in range(50):
        text = "".join(rng.choices(PARTS, k=rng.choice([0, 3, 30, 120]))) + "\n"
        keeps, first, strips = case % 2 == 0, case % 3 == 0, case % 5 < 3
        ends = Ends(
            10,
            strips,
            sum(1 << byte for byte in rng.choice([b" ", b" \t", b" \t\r\x1c"])),
            keeps,
            first,
        )
        expected, whole = naive_units(text, ends), text.encode()
        table, state, data = (
            small_table(1, 20),
            np.zeros(4, np.int64),
            np.frombuffer(whole + b" \n" * 48, np.uint8),
        )
        while not unit_table.count_units(
            data, len(whole), ends, table, np.zeros(unit_table.RING, np.uint64), state
        ):
            n, used = int(state[unit_table.N_UNITS]), int(table.starts[state[unit_table.N_UNITS]])
            unit, _ = next(row for row in expected if list(dict.fromkeys(expected)).index(row) == n)
            assert n == len(table.firsts) or used + len(unit) + PADDING > len(table.bytes)
            grown = small_table(n + 1 + case % 4, used + len(unit) + case % 9)
            unit_table.rebuild(grown.rows, table.rows)
            grown.bytes[:used], grown.starts[: n + 1], grown.firsts[:n] = (
                table.bytes[:used],
                table.starts[: n + 1],
                table.firsts[:n],
            )
            table = grown
        counter, (counts := CountTable())._table = Counter(expected), table
        counts.n = int(state[unit_table.N_UNITS])
        found = counts.units()
        units = [found.text[a:b] for a, b in zip(found.starts, found.ends, strict=True)]
        assert list(zip(units, map(bool, found.firsts), strict=True)) == list(counter)
        assert found.counts.tolist() == list(counter.values())


@pytest.mark.parametrize("number", range(len(ENCODERS)))
def test_units_are_encoded_in_tables_that_grow(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids and pieces of lines, new ones and known ones, and chance of dropout are those of the plain path."""
    rng, encoder = Random(number), Encoder(ENCODERS[number].vocabulary)
    for name, n in {
        "_N_SLOTS": 8,
        "_N_LINES": encode_units.LINES + 2,
        "_N_LEFT": encode_units.LINES + 1,
    }.items():
        monkeypatch.setattr(f"volt.encode.unit_cache.{name}", n)
    lines = (
        ["".join(rng.choices(HARD, k=rng.randint(0, 9))) for _ in range(40)]
        + ["low  low"] * 3
        + [" a", "it's"]
    )
    for batch in (lines, ["low", *lines, "x" * 1100]):
        encoded, expected = encoder.encode_batch(batch, n_threads=1), plain_ids(encoder, batch)
        assert [encoded[i].tolist() for i in range(len(encoded))] == expected
    lines = [line.replace("\n", "").replace("\r", "") for line in lines]
    text = "".join(line + "\n" for line in lines).encode()
    pieces = "".join(" ".join(row) + "\n" for row in encoder.encode_lines(lines))
    assert encoder.encode_text(text, n_threads=1).decode() == pieces
    drawn = encoder.encode_text(text, n_threads=1, dropout=0.4, seed=1).decode()
    assert drawn == "".join(
        " ".join(row) + "\n" for row in encoder.encode_lines(lines, dropout=0.4, seed=1)
    )


def test_the_state_of_the_loop_comes_back() -> None:
    """A state that is read from its array is the state, and all of it starts at zero."""
    state = LoopState(*range(11))
    assert (LoopState.read(state.slots()), sum(LoopState())) == (state, 0)
