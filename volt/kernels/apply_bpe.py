"""Encode words by ranked merges.

    repeat: take the lowest rank among adjacent pairs with a merge, and merge its occurrences from
        left to right

With the merges (0) l o → lo, (1) e r → er, (2) lo w → low, the symbols l o w e r become lo w e r,
lo w er, low er. If merges apply one by one, only the leftmost occurrence is merged before all pairs
are compared again. Then tokens outside the vocabulary are split back into the parts of their first
merge. Dropout (Provilkov et al. 2020) skips each merge with a probability, and draws again at every
step.

Three loops merge, and give the same symbols: `_merge_unrivalled` in one pass, only pairs that no
other merge can prevent; `_merge_short`, which searches all pairs for the next one; `_merge_long`,
with a heap of pairs, in O(n log n).

A symbol is a token's number, or below 0 for an unknown character, which has no merges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import (
    ByteArray,
    IntArray,
    LongArray,
    copy_into,
    fraction_of,
    mixed,
)
from volt.kernels.bpe_tables import (
    MOST,
    N_FIRST,
    NO_MERGES,
    NO_RANK,
    NO_TOKEN,
    UNKNOWN,
    Merges,
    Spellings,
    rank_of,
    token_of,
    token_spelled,
)
from volt.kernels.jit import borrowing, inlined, releasing

LONG = 100  # symbols; for longer words a heap is faster than a scan of all pairs; at most 125, as a position has 7 bits
# The priority of a pair is rank << 7 | position: the lowest priority is merged next.
_POSITION_BITS, _POSITIONS = 7, 127
_NO_PRIORITY = NO_RANK << _POSITION_BITS  # this priority and greater ones have no merge
# Unsigned indices need no check for negative values.
_U0, _U1, _U2, _U3, _U4, _U5 = (np.uint64(i) for i in range(6))
_FIRST = np.uint64(N_FIRST)
_SHIFT = np.uint64(_POSITION_BITS)
_MOST, _ONE_RANK, _TWO_RANKS = (np.uint64(i) for i in (MOST, 21, 42))  # of `Merges.rivals`


class Word(NamedTuple):
    """Working memory for the merges of one word."""

    symbols: IntArray
    follows: IntArray  # links to the neighbours; at the ends −1 in a long word, 0 or n + 1 in a short one
    precedes: IntArray
    heap: LongArray  # rank << 32 | position of each pair of a long word, from index 1 on; heap[0] is their number
    aside: LongArray  # the pairs in the heap that dropout skips


class WordBuffers(NamedTuple):
    """Working memory for encoding a word. Its symbols start at index 1; those of a long word are
    moved to 0."""

    word: Word
    # The positions of one merge in a long word; the priority of the pair at each position in a
    # short one.
    positions: IntArray
    passed: ByteArray  # 1 at the positions of pairs that dropout skips, in a short word
    stack: IntArray  # tokens to split back


class PieceRule(NamedTuple):
    """Rules, besides merges, that turn a word into pieces."""

    retained: ByteArray  # (n_tokens,), whether each token may stay
    parts: LongArray  # (n_tokens,), left << 32 | right, the two tokens that each token is split back into; −1 for an atom
    words: Spellings  # tokens that are looked up as whole words, if there is no dropout


def room_of(n: int) -> WordBuffers:
    """Return working memory for words of at most n symbols."""
    symbols, follows, precedes, positions = (np.empty(n + 4, np.int32) for _ in range(4))
    heap, aside = (np.empty(3 * n + 12, np.int64) for _ in range(2))
    word = Word(symbols, follows, precedes, heap, aside)
    return WordBuffers(word, positions, np.empty(n + 1, np.uint8), np.empty(2 * n + 2, np.int32))


# Encode words


def encode_words(
    symbols: IntArray,
    ends: LongArray,
    merges: Merges,
    rule: PieceRule,
    dropout: float,
    state: LongArray,
) -> tuple[IntArray, LongArray]:
    """Encode words. Return the pieces of all words, and where each word's pieces end.

    symbols, ends: the words' atoms, and where those of each word end
    state: (1,), the random generator, used if `dropout` is above 0
    """
    out = np.empty(len(symbols), np.int32)
    piece_ends = np.empty(len(ends), np.int64)
    room = room_of(longest(ends))
    n_out = encode_each(symbols, ends, merges, rule, dropout, state, room, out, piece_ends)
    return out[:n_out], piece_ends


def longest(ends: LongArray) -> int:
    """Return the most symbols of a word, at least 1. ends: where each word ends"""
    return int(np.diff(ends, prepend=0).max(initial=1))


@releasing
def encode_each(
    symbols: IntArray,
    ends: LongArray,
    merges: Merges,
    rule: PieceRule,
    dropout: float,
    state: LongArray,
    room: WordBuffers,
    out: IntArray,
    piece_ends: LongArray,
) -> int:
    n_out = start = 0
    for i in range(len(ends)):
        end = ends[i]
        if end > start:
            copy_into(room.word.symbols, 1, symbols, start, end)
            n_out = encode_word(end - start, room, merges, rule, dropout, state, out, n_out)
        piece_ends[i] = n_out
        start = end
    return n_out


def encode_sampled(
    atoms: IntArray,
    ends: LongArray,
    merges: Merges,
    rule: PieceRule,
    dropout: float,
    seed: int,
    numbers: LongArray,
) -> tuple[IntArray, LongArray]:
    """Encode lines of atoms with dropout. Line i uses the random generator of line number
    numbers[i].

    atoms: 2 · symbol for each atom, plus 1 for the last atom of a word
    Returns the pieces, and where each line's pieces end.
    """
    out = np.empty(len(atoms), np.int32)
    piece_ends = np.empty(len(ends), np.int64)
    room = room_of(longest(np.flatnonzero(atoms & 1) + 1))
    state = np.zeros(1, np.int64)
    n_out = sample_each(
        atoms, ends, merges, rule, dropout, seed, numbers, state, room, out, piece_ends
    )
    return out[:n_out], piece_ends


@releasing
def sample_each(
    atoms: IntArray,
    ends: LongArray,
    merges: Merges,
    rule: PieceRule,
    dropout: float,
    seed: int,
    numbers: LongArray,
    state: LongArray,
    room: WordBuffers,
    out: IntArray,
    piece_ends: LongArray,
) -> int:
    n = n_out = n_read = 0
    for line in range(len(ends)):
        _start_line(state, seed, numbers[line])
        for i in range(n_read, ends[line]):
            n += 1
            room.word.symbols[n] = atoms[i] >> 1
            if atoms[i] & 1:
                n_out = encode_word(n, room, merges, rule, dropout, state, out, n_out)
                n = 0
        n_read = ends[line]
        piece_ends[line] = n_out
    return n_out


@inlined
def encode_word(
    n: int,
    room: WordBuffers,
    merges: Merges,
    rule: PieceRule,
    dropout: float,
    state: LongArray,
    out: IntArray,
    n_out: int,
) -> int:
    """Write the pieces of a word to `out` after the first n_out pieces. Return the new n_out.

    n: the number of the word's symbols, which are room.word.symbols[1:n + 1]
    """
    word = room.word
    if n <= rule.words.longest and dropout == 0.0:
        token = token_spelled(word.symbols, 1, n, rule.words)
        if token != NO_TOKEN and rule.retained[token]:
            out[n_out] = token
            return n_out + 1

    if dropout == 0.0 and len(merges.rivals) > 0:
        n = _merge_unrivalled(n, word.symbols, merges)
    if n > LONG:
        _merge_long(n, room, merges, dropout, state)
        p = 0
        end = -1
    else:
        _merge_short(n, room, merges, dropout, state)
        p = 1
        end = n + 1

    while p != end:
        symbol = word.symbols[p]
        p = word.follows[p]
        if symbol < 0 or rule.retained[symbol]:
            out[n_out] = symbol
            n_out += 1
        else:
            n_out = split_back(symbol, rule.retained, rule.parts, out, n_out, room.stack)
    return n_out


@borrowing
def split_back(
    token: int, retained: ByteArray, parts: LongArray, out: IntArray, n_out: int, stack: IntArray
) -> int:
    """Write the retained tokens, or atoms, that spell a token. Return the new n_out. stack:
    overwritten"""
    stack[0] = token
    depth = 1
    while depth > 0:
        depth -= 1
        token = stack[depth]
        if token < 0 or retained[token] or parts[token] < 0:
            out[n_out] = token
            n_out += 1
        else:
            stack[depth] = parts[token] & 0xFFFFFFFF
            stack[depth + 1] = parts[token] >> 32
            depth += 2
    return n_out


# Merge pairs that no other merge can prevent


@borrowing
def _merge_unrivalled(n: int, symbols: IntArray, merges: Merges) -> int:
    """Merge pairs of atoms that no other merge can prevent. Return the new number of symbols.

    In the atoms … x a b y …, the merge of a and b has rivals: merges of a token that ends with x
    and a, and merges of b and a token that starts with y. If the rank of a and b is below all ranks
    of rivals, no rival can come first, and the pair is merged at once. `Merges.rivals` packs these
    ranks into one number for each pair of atoms (see `bpe_tables._rivals`). Symbols are read from p on, and written to n_out.
    """
    symbols[n + 1] = symbols[n + 2] = -1
    p = n_out = _U1
    was_merged = _U0
    left_rival = _MOST
    left = np.uint64(symbols[_U1])
    right = np.uint64(symbols[_U2])
    ranks = _look_up_rivals(left, right, merges)
    while p <= np.uint64(n):
        after = np.uint64(symbols[p + _U2])
        next_ranks = _look_up_rivals(right, after, merges)
        rank = ranks >> _TWO_RANKS
        # No branches, because no processor could predict them.
        is_merged = np.uint64(rank < left_rival) & np.uint64(rank < next_ranks & _MOST)
        token = np.uint64(token_of(is_merged * rank, merges))
        symbols[n_out] = np.int64(left + is_merged * (token - left))
        n_out += _U1 - was_merged  # the right atom of a merged pair is overwritten
        was_merged = is_merged
        left_rival = ranks >> _ONE_RANK & _MOST
        ranks, left, right = next_ranks, right, after
        p += _U1
    return int(np.int64(n_out - _U1))


@inlined
def _look_up_rivals(left: Any, right: Any, merges: Merges) -> Any:
    if left | right < _FIRST:
        return merges.rivals[left * _FIRST + right]
    return NO_MERGES if np.int64(left | right) < 0 else UNKNOWN


# Merge short words


@borrowing
def _merge_short(
    n: int, room: WordBuffers, merges: Merges, dropout: float, state: LongArray
) -> None:
    """Merge the symbols 1 to n. `room.word` links the symbols that remain: the first is 1, and n +
    1 follows the last."""
    priorities = room.positions
    word = room.word
    after = np.uint64(n + 1)
    n_scanned = after if dropout == 0.0 else _U0  # with dropout, all pairs are drawn again
    word.symbols[_U0] = word.symbols[after] = -1
    p = _U1
    while p < after:
        word.precedes[p] = np.int64(p - _U1)
        word.follows[p] = np.int64(p + _U1)
        priorities[p] = _priority(word.symbols[p], word.symbols[p + _U1], p, merges.pairs)
        p += _U1
    priorities[p] = priorities[p + _U1] = priorities[p + _U2] = _NO_PRIORITY

    lowest = _find_lowest(n, room, dropout, state)
    while lowest < _NO_PRIORITY:
        rank = np.uint64(lowest >> _POSITION_BITS)
        first = np.uint64(lowest & _POSITIONS)
        rest, new = _merge_pair(first, rank, n_scanned, priorities, word, merges)
        # Usually, the merge's other positions have the next priorities, because no token is a part
        # of itself. If a new pair comes first, or pairs are drawn again, all positions must be
        # merged now.
        if (new < lowest or dropout > 0.0) and not merges.one_by_one:
            p = first + _U1
            while p < after:
                if priorities[p] >> _POSITION_BITS == lowest >> _POSITION_BITS and (
                    dropout == 0.0 or room.passed[p] == 0
                ):
                    _merge_pair(p, rank, _U0, priorities, word, merges)
                p += _U1
            rest = new = _lowest(priorities, after)
        lowest = min(rest, new)
        if dropout > 0.0:
            lowest = _draw_lowest(n, room, dropout, state)


@inlined
def _find_lowest(n: int, room: WordBuffers, dropout: float, state: LongArray) -> Any:
    if dropout > 0.0:
        return _draw_lowest(n, room, dropout, state)
    return _lowest(room.positions, np.uint64(n + 1))


@borrowing
def _draw_lowest(n: int, room: WordBuffers, dropout: float, state: LongArray) -> Any:
    lowest: Any = _NO_PRIORITY
    for p in range(1, n):
        priority = room.positions[p]
        if priority < _NO_PRIORITY:
            room.passed[p] = random(state) < dropout
            if room.passed[p] == 0:
                lowest = min(lowest, np.int64(priority))
    return lowest


@inlined
def _lowest(priorities: IntArray, n: Any) -> Any:
    """Return the minimum of priorities[1:n]. The three entries from n on must not be lower.

    Four independent minima, of every fourth entry, because a minimum that waits for the one before
    is slower.
    """
    one, two, three, four = priorities[_U1], priorities[_U2], priorities[_U3], priorities[_U4]
    p = _U5
    while p < n:
        one = min(one, priorities[p])
        two = min(two, priorities[p + _U1])
        three = min(three, priorities[p + _U2])
        four = min(four, priorities[p + _U3])
        p += _U4
    return np.int64(min(min(one, two), min(three, four)))


@inlined
def _merge_pair(
    p: Any, rank: Any, n: Any, priorities: IntArray, word: Word, merges: Merges
) -> tuple[Any, Any]:
    """Merge the pair at p. Return the lowest of the old priorities[1:n] that remain, and of the two
    new priorities."""
    second = np.uint64(word.follows[p])
    before = np.uint64(word.precedes[p])
    after = np.uint64(word.follows[second])
    token = token_of(rank, merges)
    word.symbols[p] = token
    word.follows[p] = np.int64(after)
    word.precedes[after] = np.int64(p)
    priority = _priority(token, word.symbols[after], p, merges.pairs)
    priority_before = _priority(word.symbols[before], token, before, merges.pairs)
    priorities[second] = priorities[p] = priorities[before] = _NO_PRIORITY
    rest = _lowest(priorities, n)  # does not wait for the two look-ups
    priorities[p] = priority
    priorities[before] = priority_before
    return rest, min(priority, priority_before)


@inlined
def _priority(left: int, right: int, p: Any, pairs: LongArray) -> Any:
    return np.int64(np.uint64(rank_of(left, right, pairs)) << _SHIFT | p)


# Merge long words


@borrowing
def _merge_long(
    n: int, room: WordBuffers, merges: Merges, dropout: float, state: LongArray
) -> None:
    word = room.word
    load_word(word.symbols[1 : n + 1], word, merges)
    rank, n = next_merge(word, merges, dropout, state, room.positions)
    while n > 0:
        apply_merge(rank, room.positions[:n], word, merges)
        rank, n = next_merge(word, merges, dropout, state, room.positions)


@borrowing
def load_word(symbols: IntArray, word: Word, merges: Merges) -> None:
    link_word(symbols, word)
    for p in range(len(symbols) - 1):
        _push_pair(p, word, merges)


@borrowing
def link_word(symbols: IntArray, word: Word) -> None:
    n = len(symbols)
    word.heap[0] = 0
    for p in range(n):
        word.symbols[p] = symbols[p]
        word.precedes[p] = p - 1
        word.follows[p] = p + 1
    if n > 0:
        word.follows[n - 1] = -1


@borrowing
def next_merge(
    word: Word, merges: Merges, dropout: float, state: LongArray, positions: IntArray
) -> tuple[int, int]:
    """Write the positions of the next merge. Return its rank, and their number, 0 if no merge is
    left."""
    rank = -1
    n = n_aside = 0
    heap = word.heap
    while heap[0] > 0 and (n == 0 or (heap[1] >> 32 == rank and not merges.one_by_one)):
        entry = pop(heap)
        p = entry & 0xFFFFFFFF
        if rank_at(p, word, merges.pairs) != entry >> 32:
            continue
        if dropout > 0.0 and random(state) < dropout:
            word.aside[n_aside] = entry
            n_aside += 1
            continue
        rank = entry >> 32
        positions[n] = p
        n += 1
    for entry in word.aside[:n_aside]:
        push(heap, entry)
    return rank, n


@borrowing
def apply_merge(rank: int, positions: IntArray, word: Word, merges: Merges) -> int:
    """Merge the pair of this rank at `positions` if still there. Return how often it was."""
    n_done = 0
    for p in positions:
        if rank_at(p, word, merges.pairs) == rank:
            merge_at(p, token_of(rank, merges), word)
            positions[n_done] = p
            n_done += 1
    for i in range(n_done):
        before = word.precedes[positions[i]]
        if i == 0 or before != positions[i - 1]:  # otherwise the previous position has pushed it
            _push_pair(before, word, merges)
        _push_pair(positions[i], word, merges)
    return n_done


@borrowing
def merge_at(p: int, result: int, word: Word) -> None:
    second = word.follows[p]
    after = word.follows[second]
    word.symbols[p] = result
    word.follows[p] = after
    word.symbols[second] = word.follows[second] = -1
    if after >= 0:
        word.precedes[after] = p


@borrowing
def _push_pair(p: int, word: Word, merges: Merges) -> None:
    rank = rank_at(p, word, merges.pairs)
    if rank != NO_RANK:
        push(word.heap, rank << 32 | p)


@borrowing
def rank_at(p: int, word: Word, pairs: LongArray) -> Any:
    if p < 0 or word.follows[p] < 0:
        return np.int64(NO_RANK)
    return rank_of(word.symbols[p], word.symbols[word.follows[p]], pairs)


# Heaps: heap[0] is the number of entries, heap[1] the least; the children of entry i are 2i and 2i
# + 1


@borrowing
def push(heap: LongArray, entry: int) -> None:
    heap[0] += 1
    i = heap[0]
    while i > 1 and entry < heap[i >> 1]:
        heap[i] = heap[i >> 1]
        i >>= 1
    heap[i] = entry


@borrowing
def pop(heap: LongArray) -> int:
    """Remove the least entry, and return it."""
    least = heap[1]
    size = heap[0] - 1
    entry = heap[size + 1]
    heap[0] = size
    i = 1
    child = 2
    while child <= size:
        if child < size and heap[child + 1] < heap[child]:
            child += 1
        if entry <= heap[child]:
            break
        heap[i] = heap[child]
        i = child
        child *= 2
    heap[i] = entry
    return int(least)


# Random numbers


@borrowing
def random(state: LongArray) -> float:
    """Return the next number in [0, 1) of SplitMix64, whose state is state[0]."""
    state[0] += np.int64(-7046029254386353131)
    return fraction_of(mixed(np.uint64(state[0])))


def line_state(seed: int, line: int) -> int:
    """Return the first state of the random generator of line number `line`."""
    state = np.zeros(1, np.int64)
    start_lines(state, seed, np.array([line]))
    return int(state[0])


@releasing
def start_lines(states: LongArray, seed: int, lines: LongArray) -> None:
    """Write the first state of the random generator of each line number."""
    for i in range(len(lines)):
        _start_line(states[i : i + 1], seed, lines[i])


@borrowing
def _start_line(state: LongArray, seed: int, line: int) -> None:
    state[0] = seed
    random(state)
    state[0] ^= line * np.int64(-4417276706812531889)
    random(state)
