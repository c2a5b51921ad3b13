"""Hash tables for encoding: `Merges`, two tokens → the rank of their merge; `Spellings`, symbols →
the token they spell.

A table of spellings also finds all splits of its tokens into two tokens. The symbols s_1 … s_n have
the hash

    h(s_1 … s_n) = Σ (s_i + 1) · B^(n − i + 1) modulo 2^64,   so   h(suffix) = h(whole) − h(prefix) · B^(its length)

and no split needs to hash its symbols again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from volt.errors import VocabularyError
from volt.kernels.arrays import IntArray, KeyArray, LongArray, table_size
from volt.kernels.jit import borrowing, inlined, releasing

MOST = (1 << 21) - 1  # tokens, and merges
NO_TOKEN = -1
NO_RANK = (1 << 22) - 1  # above every rank
N_FIRST = 256  # atoms whose pairs are in `Merges.rivals`
NO_MERGES = np.uint64((1 << 63) - 1)  # rivals of a pair with a character that has no merges
UNKNOWN = np.uint64(MOST << 42)  # rivals of a pair outside the table, which may have any rank
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
# Unsigned indices need no check for negative values.
_U0, _U1, _HALF = (np.uint64(i) for i in (0, 1, 32))
_TOKEN_BITS, _RANK_BITS, _RANKS = (np.uint64(i) for i in (21, 22, NO_RANK))
_UPPER, _MIDDLE = np.uint64(40), np.uint64(24)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_NO_RIVALS = np.zeros(0, np.uint64)
_MOST_MOVES = 500  # of entries, to make room for one pair
_MOST_DOUBLINGS = 7  # of the expected size


class Spellings(NamedTuple):
    """The symbols of each token, and a hash table from symbols to the first token that has them."""

    slots: IntArray  # token + 1, or 0: open addressing
    symbols: IntArray  # token after token
    starts: LongArray  # (n_tokens + 1,), token t is symbols[starts[t]:starts[t + 1]]; empty ones are not in the table
    longest: int  # maximum symbols of a token


@inlined
def _append(hashed: Any, symbol: Any) -> Any:
    """Return the hash of some symbols and one more."""
    return (hashed + np.uint64(np.int64(symbol)) + _U1) * _BASE


@borrowing
def _find_slot(symbols: IntArray, start: Any, n: Any, hashed: Any, table: Spellings) -> Any:
    """Return the slot of the token that symbols[start:start + n] spell, or the free slot for it.
    hashed: their hash"""
    mask = np.uint64(len(table.slots) - 1)
    slot = (((hashed ^ hashed >> _HALF) * _MIX) >> _HALF) & mask
    while table.slots[slot] != 0:
        token = table.slots[slot] - 1
        first = table.starts[token]
        if table.starts[token + 1] - first == n:
            i = 0
            while i < n and table.symbols[first + i] == symbols[start + i]:
                i += 1
            if i == n:
                return slot
        slot = (slot + _U1) & mask
    return slot


@borrowing
def token_spelled(symbols: IntArray, start: int, n: int, table: Spellings) -> int:
    """Return the token that symbols[start:start + n] spell, or NO_TOKEN."""
    if n > table.longest:
        return NO_TOKEN
    hashed = _U0
    for i in range(start, start + n):
        hashed = _append(hashed, symbols[i])
    return int(table.slots[_find_slot(symbols, start, n, hashed, table)]) - 1


def spellings(symbols: IntArray, ends: LongArray) -> Spellings:
    """Return a table of tokens. symbols, ends: the symbols of all tokens, and where each token's
    symbols end"""
    starts = np.append(0, ends).astype(np.int64)
    sizes = np.diff(starts)
    slots = np.zeros(table_size(int(np.count_nonzero(sizes))), np.int32)
    symbols = np.ascontiguousarray(symbols, np.int32)
    table = Spellings(slots, symbols, starts, int(sizes.max(initial=0)))
    enter(table)
    return table


def no_spellings() -> Spellings:
    return Spellings(np.zeros(8, np.int32), np.zeros(0, np.int32), np.zeros(1, np.int64), 0)


@releasing
def enter(table: Spellings) -> None:
    """Enter all tokens into the table's slots, which are free."""
    for token in range(len(table.starts) - 1):
        start = table.starts[token]
        end = table.starts[token + 1]
        hashed = _U0
        for i in range(start, end):
            hashed = _append(hashed, table.symbols[i])
        slot = _find_slot(table.symbols, start, end - start, hashed, table)
        if end > start and table.slots[slot] == 0:
            table.slots[slot] = token + 1


def cuts(table: Spellings) -> tuple[IntArray, IntArray, IntArray]:
    """Return all splits of tokens into two tokens: the left parts, the right parts, and the whole
    tokens."""
    lefts, rights, wholes = (np.empty(len(table.symbols), np.int32) for _ in range(3))
    n = find_cuts(table, np.empty(table.longest + 1, np.uint64), lefts, rights, wholes)
    return lefts[:n], rights[:n], wholes[:n]


@releasing
def find_cuts(
    table: Spellings, hashes: KeyArray, lefts: IntArray, rights: IntArray, wholes: IntArray
) -> int:
    """Write the two parts and the whole of each split. Return the number of splits. hashes:
    overwritten"""
    n_cuts = 0
    for token in range(len(table.starts) - 1):
        start = table.starts[token]
        n = table.starts[token + 1] - start
        hashes[0] = _U0
        for i in range(n):
            hashes[i + 1] = _append(hashes[i], table.symbols[start + i])
        power = _BASE
        for i in range(n - 1, 0, -1):
            rest = hashes[n] - hashes[i] * power
            power *= _BASE
            left = table.slots[_find_slot(table.symbols, start, i, hashes[i], table)]
            if left == 0:
                continue
            right = table.slots[_find_slot(table.symbols, start + i, n - i, rest, table)]
            if right != 0:
                lefts[n_cuts] = left - 1
                rights[n_cuts] = right - 1
                wholes[n_cuts] = token
                n_cuts += 1
    return n_cuts


class Merges(NamedTuple):
    """The merges of a vocabulary, by rank from 0. The merge with the lowest rank is applied
    first."""

    # A cuckoo hash table (Pagh and Rodler 2001): a pair is in one of two slots. An entry is pair <<
    # 22 | rank, and the first of equal pairs counts.
    pairs: KeyArray
    results: IntArray  # (n_merges,), the token that each merge makes
    # (256 · 256,), what competes with each pair of the first 256 atoms: see `_rivals`; or (0,)
    rivals: KeyArray
    one_by_one: bool  # whether pairs are compared again after each replacement, not after all replacements of a merge
    first: int  # the token of rank 0, if rank r always makes token first + r; else −1


@inlined
def token_of(rank: Any, merges: Merges) -> Any:
    return merges.results[rank] if merges.first < 0 else np.int64(rank) + merges.first


@inlined
def _pair(left: int, right: int) -> Any:
    return np.uint64(left + 1) << _TOKEN_BITS | np.uint64(right)


@inlined
def _slots(pair: Any, pairs: LongArray) -> tuple[Any, Any]:
    mixed = pair * _BASE
    mask = np.uint64(len(pairs) - 1)
    return mixed >> _UPPER & mask, mixed >> _MIDDLE & mask


@inlined
def rank_of(left: int, right: int, pairs: LongArray) -> Any:
    """Return the rank of the merge of two tokens, or NO_RANK. Unknown characters (below 0) have no
    merge."""
    # An entry is pair << 22 | rank. If its pair is this one, `entry ^ key` is the rank, and
    # otherwise above NO_RANK. Both slots are read without a branch, because no processor could
    # predict it.
    pair = _pair(left, right)
    key = pair << _RANK_BITS
    one, other = _slots(pair, pairs)
    return np.int64(min(min(pairs[one] ^ key, pairs[other] ^ key), _RANKS))


def ranked_merges(
    lefts: IntArray,
    rights: IntArray,
    results: IntArray,
    *,
    ranks: IntArray | None = None,
    one_by_one: bool = False,
) -> Merges:
    """Return at most `MOST` merges with a table of their pairs.

    results: the token that the merge of each rank makes;  ranks: the rank of each pair, by default 0, 1, 2, …
    """
    if ranks is None:
        ranks = np.arange(len(lefts))
    pairs = [np.ascontiguousarray(column, np.int32) for column in (lefts, rights, ranks)]

    def enter(merges: Merges) -> bool:
        return bool(fill(merges.pairs, *pairs))

    return fill_merges(len(lefts), results, enter, one_by_one=one_by_one)


def fill_merges(
    n_pairs: int, results: IntArray, enter: Callable[[Merges], bool], *, one_by_one: bool
) -> Merges:
    """Return merges whose pairs `enter` has entered. The table is enlarged until `enter` returns
    True."""
    results = results.astype(np.int32)
    is_run = len(results) > 0 and bool((np.diff(results) == 1).all())
    first = int(results[0]) if is_run else -1
    n_atoms = int(results.min(initial=MOST))
    n_slots = table_size(n_pairs)
    for _ in range(_MOST_DOUBLINGS):
        merges = Merges(np.full(n_slots, _EMPTY), results, _NO_RIVALS, one_by_one, first)
        if enter(merges):
            has_rivals = first > 0 or 0 < n_atoms <= N_FIRST
            return merges._replace(rivals=_rivals(merges)) if has_rivals else merges
        n_slots *= 2
    raise VocabularyError(
        "the merges collide in hash tables of all sizes, as in a manipulated file; use another file"
    )


def _rivals(merges: Merges) -> KeyArray:
    """Return three ranks of 21 bits for each pair of atoms a and b, the first in the highest bits.

    Each rank is MOST if there is no such merge.

    1. The rank of merging a and b, unless their token is in a merge of a lower rank.
    2. The lowest rank of the merges of b with a token that ends with a.
    3. The lowest rank of the merges of a with a token that starts with b.
    """
    lefts, rights, ranks = pairs_met(merges)
    results = merges.results[ranks]
    n_atoms = min(N_FIRST, int(merges.results.min()))
    n_tokens = 1 + max(int(tokens.max(initial=0)) for tokens in (lefts, rights, results))
    first_atoms = np.arange(n_tokens)
    last_atoms = np.arange(n_tokens)
    first_atoms[results] = lefts
    last_atoms[results] = rights
    for _ in range(MOST.bit_length()):  # each step doubles how many merges are undone
        first_atoms = first_atoms[first_atoms]
        last_atoms = last_atoms[last_atoms]
    uses = np.full(n_tokens, MOST)
    np.minimum.at(uses, lefts, ranks)
    np.minimum.at(uses, rights, ranks)

    rivals = np.zeros((N_FIRST, N_FIRST), np.uint64)
    for left, right, most in (
        (lefts, rights, uses[results]),
        (last_atoms[lefts], rights, MOST),
        (lefts, first_atoms[rights], MOST),
    ):
        chosen = (left < n_atoms) & (right < n_atoms) & (ranks < most)
        lowest = np.full((N_FIRST, N_FIRST), MOST)
        np.minimum.at(lowest, (left[chosen], right[chosen]), ranks[chosen])
        rivals = rivals << _TOKEN_BITS | lowest.astype(np.uint64)
    rivals[n_atoms:] = rivals[:, n_atoms:] = UNKNOWN
    return rivals.ravel()


def pairs_met(merges: Merges) -> tuple[IntArray, IntArray, IntArray]:
    """Return the left tokens, the right tokens and the ranks of all pairs, in any order."""
    entries = merges.pairs[merges.pairs != _EMPTY]
    pairs = entries >> _RANK_BITS
    lefts = (pairs >> _TOKEN_BITS) - _U1
    rights = pairs & ((_U1 << _TOKEN_BITS) - _U1)
    return lefts.astype(np.int64), rights.astype(np.int64), (entries & _RANKS).astype(np.int64)


@releasing
def fill(pairs: KeyArray, lefts: IntArray, rights: IntArray, ranks: IntArray) -> bool:
    """Enter pairs into a table. Return False if the table is too short."""
    for i in range(len(lefts)):
        if rank_of(lefts[i], rights[i], pairs) != NO_RANK:
            continue
        entry = _pair(lefts[i], rights[i]) << _RANK_BITS | np.uint64(ranks[i])
        slot = _U0
        for _ in range(_MOST_MOVES):
            one, other = _slots(entry >> _RANK_BITS, pairs)
            slot = other if slot == one else one  # an evicted pair moves to its other slot
            entry, pairs[slot] = pairs[slot], entry
            if entry == _EMPTY:
                break
        if entry != _EMPTY:
            return False
    return True
