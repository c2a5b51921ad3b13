"""The table of the pairs that merge: two tokens → the rank of their merge, read without a branch.

>>> made = ranked_merges(np.array([0, 2]), np.array([1, 0]), np.array([2, 3]))
>>> len(made.results), int((made.pairs != 0).sum()), made.first_ranks[[1, 2 * N_FIRST]].tolist()
(2, 2, [0, 1])
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.compiling import inlined, releasing

NO_RANK = 0xFFFFFF  # above every rank
MOST = (1 << 21) - 1  # tokens, and merges
N_FIRST = 256  # tokens whose pairs are looked up without hashing
# Unsigned places need no look at whether they count from the end.
_U0, _U1 = np.uint64(0), np.uint64(1)
_TOKEN_BITS, _RANK_BITS, _RANKS = np.uint64(21), np.uint64(22), np.uint64((1 << 22) - 1)
_GOLDEN, _UPPER, _MIDDLE = np.uint64(0x9E3779B97F4A7C15), np.uint64(40), np.uint64(24)
_MOST_MOVES = 500  # for one pair
_MOST_DOUBLINGS = 7  # of the size that should do


class Merges(NamedTuple):
    """Ranked merges.

    pairs: (n_slots,) uint64, a cuckoo table (Pagh and Rodler 2001) of pairs and their ranks; of equal pairs, the first
        is in it
    results: (n,) int32, the token that each merge makes
    first_ranks: (256 · 256,) int32, the rank of each pair of the first 256 tokens, or NO_RANK
    one_by_one: whether only the first place of a merge is merged before pairs are compared again, or all its places
    first: the token that rank 0 makes, if rank r makes the token first + r, which is then not looked up; else −1
    """

    pairs: LongArray
    results: IntArray
    first_ranks: IntArray
    one_by_one: bool
    first: int


@inlined
def token_of(rank: Any, merges: Merges) -> Any:
    """The token that a merge makes."""
    return merges.results[rank] if merges.first < 0 else np.int64(rank) + merges.first


@inlined
def _pair(left: int, right: int) -> Any:
    """One number, not 0, for two tokens."""
    return np.uint64(left + 1) << _TOKEN_BITS | np.uint64(right)


@inlined
def _slots(pair: Any, pairs: LongArray) -> tuple[Any, Any]:
    """The two slots where a pair may be."""
    mixed, mask = pair * _GOLDEN, np.uint64(len(pairs) - 1)
    return mixed >> _UPPER & mask, mixed >> _MIDDLE & mask


@inlined
def rank_of(left: int, right: int, pairs: LongArray) -> Any:
    """The rank of the merge of two tokens, or NO_RANK. Unknown characters (below 0) are part of no pair.

    Both slots are read and neither is branched on: nobody could foretell which pairs have a merge.
    """
    pair = _pair(left, right)
    one, other = _slots(pair, pairs)
    entry, entry2 = pairs[one], pairs[other]
    found = (entry & _RANKS) * np.uint64(entry >> _RANK_BITS == pair)
    found |= (entry2 & _RANKS) * np.uint64(entry2 >> _RANK_BITS == pair)
    return np.int64(found - _U1) & NO_RANK


def ranked_merges(
    lefts: IntArray, rights: IntArray, results: IntArray, *, ranks: IntArray | None = None, one_by_one: bool = False
) -> Merges:
    """The merges with a table of their pairs. There may be `MOST` tokens, and as many merges.

    lefts, rights: (n_pairs,), the tokens of each pair
    results: (n_merges,), the token that the merge of each rank makes
    ranks: (n_pairs,), the rank of each pair; by default 0, 1, 2, …
    one_by_one: see `Merges`
    """
    lefts, rights = (np.ascontiguousarray(side, np.int32) for side in (lefts, rights))
    ranks = np.ascontiguousarray(np.arange(len(lefts)) if ranks is None else ranks, np.int32)
    enter = partial(_entered, lefts=lefts, rights=rights, ranks=ranks)
    return filled(len(lefts), results, enter, one_by_one=one_by_one)


def _entered(merges: Merges, lefts: IntArray, rights: IntArray, ranks: IntArray) -> bool:
    return bool(fill(merges.pairs, merges.first_ranks, lefts, rights, ranks))


def filled(n_pairs: int, results: IntArray, enter: Callable[[Merges], bool], *, one_by_one: bool) -> Merges:
    """A table that is large enough for its pairs.

    n_pairs: how many there are at most
    results, one_by_one: see `ranked_merges`
    enter: fills an empty table by `fill`, and tells whether that was large enough
    """
    n_slots, results = 8, results.astype(np.int32)
    while n_slots < 2 * n_pairs:
        n_slots *= 2
    for _ in range(_MOST_DOUBLINGS):
        first_ranks = np.full(N_FIRST * N_FIRST, NO_RANK, np.int32)
        merges = Merges(np.zeros(n_slots, np.uint64), results, first_ranks, one_by_one, _first(results))
        if enter(merges):
            return merges
        n_slots *= 2
    raise ValueError("the pairs of these merges share their slots at every size")


def _first(results: IntArray) -> int:
    """The token that rank 0 makes, if rank r makes that token + r, else −1."""
    return int(results[0]) if len(results) and (np.diff(results) == 1).all() else -1


def pairs_met(merges: Merges) -> tuple[IntArray, IntArray, IntArray]:
    """The pairs in the table, in any order: their left tokens, right tokens and ranks, each (n_pairs,) int64."""
    pairs = merges.pairs[merges.pairs != 0] >> _RANK_BITS
    lefts, rights = (pairs >> _TOKEN_BITS) - _U1, pairs & ((_U1 << _TOKEN_BITS) - _U1)
    return np.asarray(lefts, np.int64), np.asarray(rights, np.int64), ranks_met(merges)


def ranks_met(merges: Merges) -> IntArray:
    """The ranks of the pairs in the table, (n_pairs,) int64, in any order."""
    return np.asarray((merges.pairs[merges.pairs != 0] & _RANKS) - _U1, np.int64)


@releasing
def fill(pairs: LongArray, first_ranks: IntArray, lefts: IntArray, rights: IntArray, ranks: IntArray) -> bool:
    """Enter pairs into a table. Returns False if it must be larger; then a pair is lost."""
    for i in range(len(lefts) - 1, -1, -1):
        if max(lefts[i], rights[i]) < N_FIRST:
            first_ranks[lefts[i] * N_FIRST + rights[i]] = ranks[i]
    for i in range(len(lefts)):
        if rank_of(lefts[i], rights[i], pairs) != NO_RANK:
            continue
        entry, slot = _pair(lefts[i], rights[i]) << _RANK_BITS | np.uint64(ranks[i] + 1), _U0
        for _ in range(_MOST_MOVES):
            one, other = _slots(entry >> _RANK_BITS, pairs)
            slot = other if slot == one else one  # what had to go from one slot goes to its other
            entry, pairs[slot] = pairs[slot], entry
            if entry == _U0:
                break
        if entry != _U0:
            return False
    return True
