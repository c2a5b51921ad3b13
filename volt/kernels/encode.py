"""Greedy encoding of words by ranked merges: flat arrays in, flat arrays out.

    repeat: of the adjacent pairs that have a merge, take the lowest rank and merge its occurrences from left to right

The symbols of one word are doubly linked; the pairs wait in a binary heap of (rank, position), so a word of n symbols
takes O(n log n). Dropout (Provilkov et al. 2020) passes over each applicable merge with a given probability, anew at
every step. Tokens that the vocabulary does not keep are then split back into the two parts that they were merged from.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from volt.kernels.bpe import FlagArray, Words
from volt.kernels.hashing import IntArray, LongArray, build_slots, copy_into, free_slot, grown, pair_key

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
def _room(n: int) -> Word:
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
def _encoding_room(n: int) -> Room:
    """Room for encoding words of at most n symbols."""
    return Room(_room(n), np.empty(n, np.int32), np.empty(n, np.uint8), np.empty(2 * n + 2, np.int32))


@njit(cache=True)
def _rank(left: int, right: int, keys: LongArray, slots: IntArray) -> int:
    """The rank of the merge of two tokens, or NO_RANK. Unknown characters (below 0) never merge."""
    if left < 0 or right < 0:
        return NO_RANK
    entry = slots[free_slot(slots, keys, pair_key(left, right))]
    return NO_RANK if entry == 0 else entry - 1


@njit(cache=True)
def _push(heap: LongArray, size: int, entry: int) -> int:
    """Add an entry to a min-heap; its new size."""
    i = size
    while i > 0 and entry < heap[(i - 1) >> 1]:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = entry
    return size + 1


@njit(cache=True)
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


@njit(cache=True)
def _push_pair(p: int, size: int, word: Word, merges: Merges) -> int:
    """Push the pair that starts at position p, if it has a merge; the heap's new size."""
    if p < 0 or word.follows[p] < 0:
        return size
    rank = _rank(word.symbols[p], word.symbols[word.follows[p]], merges.keys, merges.slots)
    return size if rank == NO_RANK else _push(word.heap, size, int((np.int64(rank) << 32) | np.int64(p)))


@njit(cache=True)
def _random(state: LongArray) -> float:
    """The next number in [0, 1) of the generator splitmix64, whose (1,) int64 state advances."""
    state[0] += np.int64(-7046029254386353131)
    z = np.uint64(state[0])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / (1 << 53))


@njit(cache=True)
def _load(symbols: IntArray, word: Word, merges: Merges) -> int:
    """Copy a word's symbols into the room and link them; the size of the heap of its pairs."""
    n, size = len(symbols), 0
    for p in range(n):
        word.symbols[p], word.precedes[p], word.follows[p] = symbols[p], p - 1, p + 1
    word.follows[n - 1] = -1
    for p in range(n - 1):
        size = _push_pair(p, size, word, merges)
    return size


@njit(cache=True)
def _next_merge(
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


@njit(cache=True)
def _merge_at(p: int, result: int, word: Word) -> None:
    """Replace the pair that starts at p by one token."""
    second = word.follows[p]
    after = word.follows[second]
    word.symbols[p], word.follows[p] = result, after
    word.symbols[second], word.follows[second] = -1, -1
    if after >= 0:
        word.precedes[after] = p


@njit(cache=True)
def _apply(rank: int, size: int, positions: IntArray, word: Word, merges: Merges) -> tuple[int, int]:
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
def _split_back(token: int, kept: FlagArray, parts: LongArray, out: IntArray, n_out: int, stack: IntArray) -> int:
    """Write a token's kept parts to `out`; how many pieces `out` then has. parts: pair key of each token, −1: atom."""
    stack[0], depth = token, 1
    while depth > 0:
        depth -= 1
        token = stack[depth]
        if token < 0 or kept[token] or parts[token] < 0:
            out[n_out] = token
            n_out += 1
        else:
            stack[depth] = parts[token] & 0xFFFFFFFF
            stack[depth + 1] = parts[token] >> 32
            depth += 2
    return n_out


@njit(cache=True)
def line_state(seed: int, line: int) -> int:
    """Where the generator of a line starts: a function of the seed and the line's number alone."""
    state = np.full(1, seed)
    _random(state)
    state[0] ^= line * np.int64(-4417276706812531889)
    _random(state)
    return int(state[0])


@njit(cache=True)
def _merge_short(
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


@njit(cache=True)
def _merge_long(symbols: IntArray, room: Room, merges: Merges, dropout: float, state: LongArray) -> int:
    """Merge a long word with a heap of its pairs; how many symbols are left at the start of the room."""
    size = _load(symbols, room.word, merges)
    while size > 0:
        rank, n, size = _next_merge(size, room.word, merges, dropout, state, room.positions)
        if rank == NO_MERGE:
            break
        n, size = _apply(rank, size, room.positions[:n], room.word, merges)
    p = n = 0
    while p >= 0:
        room.word.symbols[n] = room.word.symbols[p]
        n, p = n + 1, room.word.follows[p]
    return n


@njit(cache=True)
def _encode_word(
    symbols: IntArray, room: Room, merges: Merges, kept: FlagArray, parts: LongArray,
    dropout: float, state: LongArray, out: IntArray, n_out: int,
) -> int:  # fmt: skip
    """Write the pieces of one word to `out`; how many pieces `out` then has."""
    word, n = room.word.symbols, len(symbols)
    if n > LONG:
        n = _merge_long(symbols, room, merges, dropout, state)
    else:
        copy_into(word, 0, symbols, 0, n)
        n = _merge_short(
            word, room.positions, room.passed, n, merges.keys, merges.results, merges.slots, dropout, state
        )
    for i in range(n):
        if word[i] < 0 or kept[word[i]]:
            out[n_out], n_out = word[i], n_out + 1
        else:
            n_out = _split_back(word[i], kept, parts, out, n_out, room.stack)
    return n_out


@njit(cache=True, nogil=True)
def encode_words(
    symbols: IntArray, ends: LongArray, merges: Merges, kept: FlagArray, parts: LongArray,
    dropout: float, state: LongArray,
) -> tuple[IntArray, LongArray]:  # fmt: skip
    """Encode words into pieces.

    symbols: (n_symbols,) int32 atoms, −1 where unknown;  ends: (n_words,) int64, where each word's symbols end
    kept: (n_tokens,) whether each token may stay;  parts: (n_tokens,) pair key of each token's two parts, −1: atom
    dropout: probability of passing over a merge, drawn from the generator with `state` (1,) int64
    Returns the pieces (n_pieces,) int32 and where each word's pieces end (n_words,) int64.
    """
    longest, start = 1, 0
    for end in ends:
        longest, start = max(longest, end - start), end
    room = _encoding_room(longest)
    out, piece_ends = np.empty(len(symbols), np.int32), np.empty(len(ends), np.int64)
    n_out = start = 0
    for i, end in enumerate(ends):
        if end > start:
            n_out = _encode_word(symbols[start:end], room, merges, kept, parts, dropout, state, out, n_out)
        piece_ends[i], start = n_out, end
    return out[:n_out], piece_ends


@njit(cache=True, nogil=True)
def encode_sampled(
    numbers: IntArray, line_ends: LongArray, starts: LongArray, atoms: IntArray, merges: Merges, kept: FlagArray,
    parts: LongArray, dropout: float, seed: int, first_line: int,
) -> tuple[IntArray, LongArray]:  # fmt: skip
    """Encode lines of numbered units with dropout, line i by the generator of (seed, first_line + i).

    numbers, line_ends: as `volt.kernels.units.scan` gives them;  atoms: (…,) int32, unit u has those from starts[u] to
    starts[u + 1], each 2 · symbol, + 1 for the last of a word.
    Returns the pieces (n_pieces,) int32 and where each line's pieces end (n_lines,) int64.
    """
    longest, total = 1, 0
    for number in numbers:
        n = starts[number + 1] - starts[number]
        longest, total = max(longest, n), total + n
    room, word, state = _encoding_room(longest), np.empty(longest, np.int32), np.zeros(1, np.int64)
    out, piece_ends = np.empty(total, np.int32), np.empty(len(line_ends), np.int64)
    n_out = done = 0
    for line in range(len(line_ends)):
        state[0] = line_state(seed, first_line + line)
        for number in numbers[done : line_ends[line]]:
            n = 0
            for i in range(starts[number], starts[number + 1]):
                word[n], n = atoms[i] >> 1, n + 1
                if atoms[i] & 1:
                    n_out = _encode_word(word[:n], room, merges, kept, parts, dropout, state, out, n_out)
                    n = 0
        done, piece_ends[line] = line_ends[line], n_out
    return out[:n_out], piece_ends


@njit(cache=True, nogil=True)
def trace(words: Words, merges: Merges, progress: LongArray) -> tuple[LongArray, LongArray, LongArray]:
    """Encode every word with all merges and note when each replacement happens as the merges are added one by one.

    With only the merges below rank k, a word goes through the same replacements up to the first whose rank is k or
    more. So a replacement of rank r happens at step max(r, all ranks before it in that word).
    Returns the replacements whose step is their rank, summed by rank and weighted by word count (n_merges,) int64; and
    the late ones: (n_late,) keys step << 32 | rank, and their weights (n_late,).  progress[1] ≠ 0 stops.
    """
    regular = np.zeros(len(merges.keys), np.int64)
    late, late_counts, n_late = np.zeros(16, np.int64), np.zeros(16, np.int64), 0
    no_state, longest, start = np.zeros(1, np.int64), 1, 0
    for end in words.ends:
        longest, start = max(longest, end - start), end
    word, positions = _room(longest), np.empty(longest, np.int32)
    start = 0
    for i, end in enumerate(words.ends):
        step, size = 0, _load(words.symbols[start:end], word, merges) if end > start else 0
        while size > 0:
            rank, n, size = _next_merge(size, word, merges, 0.0, no_state, positions)
            if rank == NO_MERGE:
                break
            n, size = _apply(rank, size, positions[:n], word, merges)
            step = max(step, rank)
            if step == rank:
                regular[rank] += n * words.counts[i]
                continue
            if n_late == len(late):
                late, late_counts = grown(late, 2 * n_late), grown(late_counts, 2 * n_late)
            late[n_late], late_counts[n_late], n_late = (
                (np.int64(step) << 32) | rank,
                n * words.counts[i],
                n_late + 1,
            )
        start = end
        progress[0] = i + 1
        if progress[1] != 0:
            break
    return regular, late[:n_late], late_counts[:n_late]
