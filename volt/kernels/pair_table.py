"""The table of the pairs that merge: two tokens → the rank of their merge, read without a branch.

>>> made = ranked_merges(np.array([0, 2]), np.array([1, 0]), np.array([2, 3]))
>>> len(made.results), int((made.pairs != 0).sum()), made.first_ranks[[1, 2 * N_FIRST]].tolist()
(2, 2, [0, 1])
"""

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
_LARGEST = 64  # times the size that should do


class Merges(NamedTuple):
    """Ranked merges.

    pairs: (n_slots,) uint64, a cuckoo table (Pagh and Rodler 2001) of pairs and their ranks; of equal pairs, the first
        is in it
    results: (n,) int32, the token that each merge makes
    first_ranks: (256 · 256,) int32, the rank of each pair of the first 256 tokens, or NO_RANK
    one_by_one: whether only the first place of a merge is merged before pairs are compared again, or all its places
    """

    pairs: LongArray
    results: IntArray
    first_ranks: IntArray
    one_by_one: bool


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
    n_slots = 8
    while n_slots < 2 * len(lefts):
        n_slots *= 2
    first_ranks, pairs = np.full(N_FIRST * N_FIRST, NO_RANK, np.int32), np.zeros(n_slots, np.uint64)
    while not fill(pairs, first_ranks, lefts, rights, ranks):
        if len(pairs) > _LARGEST * n_slots:
            raise ValueError("the pairs of these merges share their slots at every size")
        pairs = np.zeros(2 * len(pairs), np.uint64)
    return Merges(pairs, results.astype(np.int32), first_ranks, one_by_one)


@releasing
def fill(pairs: LongArray, first_ranks: IntArray, lefts: IntArray, rights: IntArray, ranks: IntArray) -> bool:
    """Enter all pairs into an empty table. Returns False if the table must be larger."""
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
