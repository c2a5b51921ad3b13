"""The table of spellings: the symbols that a token is made of → the token, and all ways to cut tokens in two.

A run of symbols s_1 … s_n has the hash Σ (s_i + 1) · B^(n − i + 1) modulo 2^64, so that the hash of what follows a
prefix is known from that of the prefix and of the whole.

>>> table = spellings(np.array([0, 1, 0, 1], np.int32), np.array([1, 2, 4]))
>>> [column.tolist() for column in cuts(table)]
[[0], [1], [2]]
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.compiling import borrowing, inlined, releasing

NO_TOKEN = -1
_BASE, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_U0, _HALF = np.uint64(0), np.uint64(32)


class Spellings(NamedTuple):
    """The symbols of tokens. Of tokens that are spelled alike, the first is in the table.

    slots: (n_slots,) int32, token + 1, or 0: open addressing
    symbols: (n_symbols,) int32, token after token
    starts: (n_tokens + 1,) int64, token t is symbols[starts[t]:starts[t + 1]]; one without symbols is not in the table
    longest: the most symbols of a token
    """

    slots: IntArray
    symbols: IntArray
    starts: LongArray
    longest: int


@inlined
def _added(hashed: Any, symbol: Any) -> Any:
    """The hash of a run with one more symbol."""
    return (hashed + np.uint64(np.int64(symbol)) + np.uint64(1)) * _BASE


@inlined
def _home_slot(hashed: Any, slots: IntArray) -> Any:
    """Where the search for a run starts: the upper bits of the hash are mixed best."""
    return (((hashed ^ hashed >> _HALF) * _MIX) >> _HALF) & np.uint64(len(slots) - 1)


@borrowing
def _find(symbols: IntArray, start: Any, n: Any, hashed: Any, table: Spellings) -> Any:
    """The slot of the token that these n symbols spell, or the free one where it belongs."""
    slot = _home_slot(hashed, table.slots)
    while table.slots[slot] != 0:
        first = table.starts[table.slots[slot] - 1]
        if table.starts[table.slots[slot]] - first == n:
            i = 0
            while i < n and table.symbols[first + i] == symbols[start + i]:
                i += 1
            if i == n:
                return slot
        slot = (slot + np.uint64(1)) & np.uint64(len(table.slots) - 1)
    return slot


@borrowing
def token_spelled(symbols: IntArray, start: int, n: int, table: Spellings) -> int:
    """The token that symbols[start:start + n] spell, or NO_TOKEN."""
    if n > table.longest:
        return NO_TOKEN
    hashed = _U0
    for i in range(start, start + n):
        hashed = _added(hashed, symbols[i])
    return int(table.slots[_find(symbols, start, n, hashed, table)]) - 1


def spellings(symbols: IntArray, ends: LongArray) -> Spellings:
    """The table of tokens. symbols: (n_symbols,), token after token; ends: (n_tokens,), where those of each end."""
    n_slots, starts = 8, np.append(0, ends).astype(np.int64)
    sizes = np.diff(starts)
    while n_slots < 2 * np.count_nonzero(sizes):
        n_slots *= 2
    longest = int(sizes.max(initial=0))
    table = Spellings(np.zeros(n_slots, np.int32), np.ascontiguousarray(symbols, np.int32), starts, longest)
    enter(table)
    return table


def no_spellings() -> Spellings:
    """A table of no tokens."""
    return Spellings(np.zeros(8, np.int32), np.zeros(0, np.int32), np.zeros(1, np.int64), 0)


@releasing
def enter(table: Spellings) -> None:
    """Enter all tokens into an empty table."""
    for token in range(len(table.starts) - 1):
        start, end = table.starts[token], table.starts[token + 1]
        hashed = _U0
        for i in range(start, end):
            hashed = _added(hashed, table.symbols[i])
        slot = _find(table.symbols, start, end - start, hashed, table)
        if end > start and table.slots[slot] == 0:
            table.slots[slot] = token + 1


def cuts(table: Spellings) -> tuple[IntArray, IntArray, IntArray]:
    """All ways to cut a token into two tokens: the lefts, the rights, and the tokens that are cut, int32."""
    lefts, rights, wholes = (np.empty(len(table.symbols), np.int32) for _ in range(3))
    n = find_cuts(table, np.empty(table.longest + 1, np.uint64), lefts, rights, wholes)
    return lefts[:n], rights[:n], wholes[:n]


@releasing
def find_cuts(table: Spellings, hashes: LongArray, lefts: IntArray, rights: IntArray, wholes: IntArray) -> int:
    """Write the ways to cut tokens. Returns how many there are.

    hashes: (longest + 1,) uint64, memory to work in
    """
    found = 0
    for token in range(len(table.starts) - 1):
        start, n, power = table.starts[token], table.starts[token + 1] - table.starts[token], _BASE
        hashes[0] = _U0
        for i in range(n):
            hashes[i + 1] = _added(hashes[i], table.symbols[start + i])
        for i in range(n - 1, 0, -1):
            rest = hashes[n] - hashes[i] * power
            power *= _BASE
            left = table.slots[_find(table.symbols, start, i, hashes[i], table)]
            if left == 0:
                continue
            right = table.slots[_find(table.symbols, start + i, n - i, rest, table)]
            if right != 0:
                lefts[found], rights[found], wholes[found] = left - 1, right - 1, token
                found += 1
    return found
