"""Merging the symbols of one word by ranked merges.

    repeat: of the adjacent pairs that have a merge, take the lowest rank and merge its occurrences from left to right

A short word is an array that is looked through at every step. The symbols of a long one are doubly linked and its pairs
wait in a binary heap of (rank, position), so a word of n symbols takes O(n log n). Dropout (Provilkov et al. 2020)
passes over each applicable merge with a given probability, anew at every step.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from volt.kernels.bpe import FlagArray
from volt.kernels.compiling import borrowing, inlined
from volt.kernels.hashing import IntArray, LongArray, build_slots, free_slot, pair_key

NO_MERGE = -1
NO_RANK = 0x7FFFFFFF  # above every rank
LONG = 100  # symbols; from here on a heap is faster than looking at every pair


class Merges(NamedTuple):
    """Ranked merges. keys: (n,) int64 pair keys; results: (n,) int32 tokens; slots: table of the keys, where the first
    of equal keys wins."""

    keys: LongArray
    results: IntArray
    slots: IntArray


class Word(NamedTuple):
    """Room for one word while it is merged: tokens, links to the neighbours (−1: none), heap. All (room,)."""

    symbols: IntArray
    follows: IntArray
    precedes: IntArray
    heap: LongArray
    aside: LongArray


def ranked_merges(lefts: IntArray, rights: IntArray, results: IntArray) -> Merges:
    """The merges with a table of their keys; token numbers are below 2**31."""
    keys = (lefts.astype(np.int64) << 32) | rights.astype(np.int64)
    return Merges(keys, results.astype(np.int32), build_slots(keys))


@njit(cache=True)
def word_room(n: int) -> Word:
    """Room for a word of n symbols."""
    return Word(
        np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32),
        np.empty(3 * n, np.int64), np.empty(3 * n, np.int64),
    )  # fmt: skip


class Room(NamedTuple):
    """Room for encoding a word. positions: of one merge, or the ranks of all pairs;  passed: which pairs are passed
    over;  stack: tokens yet to be split back."""

    word: Word
    positions: IntArray
    passed: FlagArray
    stack: IntArray


@njit(cache=True)
def room_for(n: int) -> Room:
    """Room for encoding words of at most n symbols."""
    return Room(word_room(n), np.empty(n, np.int32), np.empty(n, np.uint8), np.empty(2 * n + 2, np.int32))


@inlined
def _rank(left: int, right: int, keys: LongArray, slots: IntArray) -> int:
    """The rank of the merge of two tokens, or NO_RANK. Unknown characters (below 0) never merge."""
    if left < 0 or right < 0:
        return NO_RANK
    entry = slots[free_slot(slots, keys, pair_key(left, right))]
    return NO_RANK if entry == 0 else entry - 1


@borrowing
def _push(heap: LongArray, size: int, entry: int) -> int:
    """Add an entry to a min-heap; its new size."""
    i = size
    while i > 0 and entry < heap[(i - 1) >> 1]:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = entry
    return size + 1


@borrowing
def _pop(heap: LongArray, size: int) -> int:
    """Remove the first entry of a min-heap; its new size."""
    entry, i, child = heap[size - 1], 0, 1
    while child < size - 1:
        if child + 2 < size and heap[child + 1] < heap[child]:
            child += 1
        if entry <= heap[child]:
            break
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    heap[i] = entry
    return size - 1


@borrowing
def _push_pair(p: int, size: int, word: Word, merges: Merges) -> int:
    """Push the pair that starts at position p, if it has a merge; the heap's new size."""
    if p < 0 or word.follows[p] < 0:
        return size
    rank = _rank(word.symbols[p], word.symbols[word.follows[p]], merges.keys, merges.slots)
    return size if rank == NO_RANK else _push(word.heap, size, int((np.int64(rank) << 32) | np.int64(p)))


@borrowing
def _random(state: LongArray) -> float:
    """The next number in [0, 1) of the generator splitmix64, whose (1,) int64 state advances."""
    state[0] += np.int64(-7046029254386353131)
    z = np.uint64(state[0])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / (1 << 53))


@borrowing
def load_word(symbols: IntArray, word: Word, merges: Merges) -> int:
    """Copy a word's symbols into the room and link them; the size of the heap of its pairs."""
    n, size = len(symbols), 0
    for p in range(n):
        word.symbols[p], word.precedes[p], word.follows[p] = symbols[p], p - 1, p + 1
    word.follows[n - 1] = -1
    for p in range(n - 1):
        size = _push_pair(p, size, word, merges)
    return size


@borrowing
def next_merge(
    size: int, word: Word, merges: Merges, dropout: float, state: LongArray, positions: IntArray
) -> tuple[int, int, int]:
    """The next rank to merge (NO_MERGE: none), how many `positions` it is merged at, and the heap's new size."""
    rank, n, n_aside = NO_MERGE, 0, 0
    while size > 0 and (n == 0 or word.heap[0] >> 32 == rank):
        entry = word.heap[0]
        size = _pop(word.heap, size)
        p = entry & 0xFFFFFFFF
        if (
            word.follows[p] < 0
            or _rank(word.symbols[p], word.symbols[word.follows[p]], merges.keys, merges.slots) != entry >> 32
        ):
            continue
        if dropout > 0.0 and _random(state) < dropout:
            word.aside[n_aside] = entry
            n_aside += 1
            continue
        rank, positions[n], n = entry >> 32, p, n + 1
    for entry in word.aside[:n_aside]:
        size = _push(word.heap, size, entry)
    return rank, n, size


@borrowing
def _merge_at(p: int, result: int, word: Word) -> None:
    """Replace the pair that starts at p by one token."""
    second = word.follows[p]
    after = word.follows[second]
    word.symbols[p], word.follows[p] = result, after
    word.symbols[second], word.follows[second] = -1, -1
    if after >= 0:
        word.precedes[after] = p


@borrowing
def apply_merge(rank: int, size: int, positions: IntArray, word: Word, merges: Merges) -> tuple[int, int]:
    """Merge at the positions that still hold the pair; how many did, and the heap's new size."""
    n_done = 0
    for p in positions:
        if (
            word.follows[p] >= 0
            and _rank(word.symbols[p], word.symbols[word.follows[p]], merges.keys, merges.slots) == rank
        ):
            _merge_at(p, merges.results[rank], word)
            positions[n_done] = p
            n_done += 1
    for i in range(n_done):
        if i == 0 or word.precedes[positions[i]] != positions[i - 1]:  # else the pair is that of the one before
            size = _push_pair(word.precedes[positions[i]], size, word, merges)
        size = _push_pair(positions[i], size, word, merges)
    return n_done, size


@njit(cache=True)
def line_state(seed: int, line: int) -> int:
    """Where the generator of a line starts: a function of the seed and the line's number alone."""
    state = np.full(1, seed)
    _random(state)
    state[0] ^= line * np.int64(-4417276706812531889)
    _random(state)
    return int(state[0])


@borrowing
def merge_short(
    word: IntArray, ranks: IntArray, passed: FlagArray, n: int, keys: LongArray, results: IntArray, slots: IntArray,
    dropout: float, state: LongArray,
) -> int:  # fmt: skip
    """Merge a short word in place, looking at all its pairs at every step; how many symbols are left.

    word: (n,) int32 symbols;  ranks, passed: (n,) room;  keys, results, slots: the merges. A heap pays off later.
    """
    for i in range(n - 1):
        ranks[i], passed[i] = _rank(word[i], word[i + 1], keys, slots), 0
    while True:
        best = NO_RANK
        for i in range(n - 1):
            if dropout > 0.0 and ranks[i] != NO_RANK:
                passed[i] = _random(state) < dropout
            if ranks[i] < best and passed[i] == 0:
                best = ranks[i]
        if best == NO_RANK:
            return n
        i, done, fresh = 0, 0, False
        while i < n:
            merged = i < n - 1 and ranks[i] == best and passed[i] == 0
            word[done] = results[best] if merged else word[i]
            if done > 0 and (merged or fresh):
                ranks[done - 1] = _rank(word[done - 1], word[done], keys, slots)
            i += merged
            ranks[done] = ranks[i]
            i, done, fresh = i + 1, done + 1, merged
        n = done


@borrowing
def merge_long(symbols: IntArray, room: Room, merges: Merges, dropout: float, state: LongArray) -> int:
    """Merge a long word with a heap of its pairs; how many symbols are left at the start of the room."""
    size = load_word(symbols, room.word, merges)
    while size > 0:
        rank, n, size = next_merge(size, room.word, merges, dropout, state, room.positions)
        if rank == NO_MERGE:
            break
        n, size = apply_merge(rank, size, room.positions[:n], room.word, merges)
    p = n = 0
    while p >= 0:
        room.word.symbols[n] = room.word.symbols[p]
        n, p = n + 1, room.word.follows[p]
    return n
