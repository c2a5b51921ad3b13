"""Segment lines and words with SentencePiece models: sampled segmentations, and the n best.

BPE       each pair is drawn once, and skipped with a probability (sentencepiece's BPE-dropout)
unigram   a path with probability ∝ exp(Σ score): forward sums, then draws from the end backwards
n best    Viterbi's algorithm with n paths to each place; at equal cost, a longer last piece comes first
"""

from __future__ import annotations

from math import exp, inf, log1p
from typing import NamedTuple

import numpy as np

from volt.kernels.apply_bpe import (
    Word,
    WordBuffers,
    link_word,
    merge_at,
    pop,
    push,
    random,
    rank_at,
    split_back,
)
from volt.kernels.arrays import (
    ByteArray,
    FloatArray,
    FloatTable,
    IdArray,
    IntArray,
    IntTable,
    KeyArray,
    LongArray,
)
from volt.kernels.bpe_tables import NO_RANK, rank_of
from volt.kernels.jit import borrowing, inlined, releasing


class JoinTable(NamedTuple):
    pairs: KeyArray  # two symbols → a row, as in volt.kernels.bpe_tables
    results: IntArray  # (n_rows,), the piece that a row makes
    orders: IntArray  # (n_rows,), the priority: the lowest first, then the leftmost
    retained: ByteArray  # (n_symbols,), 0 for a piece that is split back into the two that it was joined from


@borrowing
def _push_join(p: int, word: Word, joins: JoinTable, parts: LongArray) -> None:
    row = rank_at(p, word, joins.pairs)
    if row == NO_RANK:
        return
    piece = joins.results[row]
    if joins.retained[piece] == 0:
        right = word.symbols[word.follows[p]]
        parts[piece] = (np.int64(word.symbols[p]) << 32) | np.int64(right)
    push(word.heap, int((np.int64(joins.orders[row]) << 32) | np.int64(p)))


@borrowing
def _join(word: Word, joins: JoinTable, parts: LongArray, dropout: float, state: LongArray) -> None:
    """Join the symbols of a line. Each pair is drawn once, so a skipped pair joins only if it forms anew."""
    while word.heap[0] > 0:
        entry = pop(word.heap)
        p = entry & 0xFFFFFFFF
        row = rank_at(p, word, joins.pairs)
        if row == NO_RANK or joins.orders[row] != entry >> 32 or random(state) < dropout:
            continue
        merge_at(p, joins.results[row], word)
        _push_join(word.precedes[p], word, joins, parts)
        _push_join(p, word, joins, parts)


@releasing
def join_lines(
    symbols: IntArray,
    ends: LongArray,
    joins: JoinTable,
    parts: LongArray,
    dropout: float,
    states: LongArray,
    room: WordBuffers,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Write the pieces of lines and each line's end. Return the number of pieces.

    parts: overwritten with the parts of joined pieces
    states: the initial state of each line's random generator, overwritten
    """
    word = room.word
    n_out = start = 0
    for line in range(len(ends)):
        n = ends[line] - start
        link_word(symbols[start : ends[line]], word)
        for p in range(n - 1):
            _push_join(p, word, joins, parts)
        _join(word, joins, parts, dropout, states[line : line + 1])

        p = 0 if n > 0 else -1
        while p >= 0:
            n_out = split_back(word.symbols[p], joins.retained, parts, out, n_out, room.stack)
            p = word.follows[p]
        start = ends[line]
        out_ends[line] = n_out
    return n_out


class Trie(NamedTuple):
    """A trie over the characters of a unigram model's pieces."""

    # a state and a character's symbol → the next state − 1, as in volt.kernels.bpe_tables; the first state is 0
    steps: KeyArray
    pieces: IntArray  # (n_states,), the piece that a state spells, or −1
    scores: FloatArray  # (n_pieces,) float64, scaled; costs for `best_paths`
    unknown: float  # the score of a character that is not a piece


@borrowing
def _longer_piece(
    symbols: IntArray, place: int, end: int, state: int, trie: Trie
) -> tuple[int, int, int]:
    """Return the next longer piece, −1 if there is none, and the place and the state after it.

    place, state: those after the piece found before
    """
    while place < end:
        row = rank_of(state, symbols[place], trie.steps)
        if row == NO_RANK:
            break
        state = row + 1
        place += 1
        if trie.pieces[state] >= 0:
            return int(trie.pieces[state]), place, state
    return -1, place, state


class Lattice(NamedTuple):
    sums: FloatArray  # (n + 1,) float64, the logarithm of the sum over all paths up to a position
    heads: IntArray  # (n + 1,), the last node that ends at a position, or −1
    nexts: IntArray  # of each node: the previous node that ends at the same position; its start; its piece
    begins: IntArray
    pieces: IntArray


@borrowing
def _add_score(node: int, begin: int, end: int, piece: int, score: float, lattice: Lattice) -> int:
    lattice.nexts[node] = lattice.heads[end]
    lattice.begins[node] = begin
    lattice.pieces[node] = piece
    lattice.heads[end] = node
    before = lattice.sums[end]
    added = lattice.sums[begin] + score
    high = max(before, added)
    lattice.sums[end] = high + log1p(exp(min(before, added) - high))
    return node + 1


@borrowing
def _build(
    symbols: IntArray, codes: IntArray, start: int, n: int, trie: Trie, lattice: Lattice
) -> None:
    node = 0
    for place in range(n + 1):
        lattice.sums[place] = -inf
        lattice.heads[place] = -1
    lattice.sums[0] = 0.0
    for begin in range(n):
        is_known = False
        piece, end, state = _longer_piece(symbols, start + begin, start + n, 0, trie)
        while piece >= 0:
            is_known = is_known or end == start + begin + 1
            node = _add_score(node, begin, end - start, piece, trie.scores[piece], lattice)
            piece, end, state = _longer_piece(symbols, end, start + n, state, trie)
        if not is_known:
            unknown = -1 - codes[start + begin]
            node = _add_score(node, begin, begin + 1, unknown, trie.unknown, lattice)


@borrowing
def _drawn(end: int, trie: Trie, lattice: Lattice, state: LongArray) -> int:
    left = random(state)
    node = lattice.heads[end]
    chosen = 0
    while node >= 0 and left >= 0.0:
        chosen = node
        piece = lattice.pieces[node]
        score = trie.scores[piece] if piece >= 0 else trie.unknown
        left -= exp(lattice.sums[lattice.begins[node]] + score - lattice.sums[end])
        node = lattice.nexts[node]
    return int(chosen)


@releasing
def draw_paths(
    symbols: IntArray,
    codes: IdArray,
    ends: LongArray,
    trie: Trie,
    states: LongArray,
    lattice: Lattice,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Draw a path for each line; write its pieces and where they end. An unknown character is written as `-1 - code`.

    Returns the number of pieces.
    """
    n_out = start = 0
    for line in range(len(ends)):
        n = ends[line] - start
        _build(symbols, codes, start, n, trie, lattice)
        first = n_out
        while n > 0:
            node = _drawn(n, trie, lattice, states[line : line + 1])
            out[n_out] = lattice.pieces[node]
            n_out += 1
            n = lattice.begins[node]
        for i in range((n_out - first) // 2):
            out[first + i], out[n_out - 1 - i] = out[n_out - 1 - i], out[first + i]
        start = ends[line]
        out_ends[line] = n_out
    return n_out


class Paths(NamedTuple):
    """Working memory for the best paths of a word of m characters, n to each position."""

    sizes: LongArray  # (m + 1,), how many paths lead to each position
    costs: FloatTable  # (m + 1, n) float64, the least first
    starts: IntTable  # (m + 1, n), where the last piece starts, and the number of the path to there
    ranks: IntTable


@inlined
def _set(end: int, k: int, cost: float, start: int, rank: int, paths: Paths) -> None:
    paths.costs[end, k] = cost
    paths.starts[end, k] = start
    paths.ranks[end, k] = rank


@borrowing
def _add(start: int, end: int, cost: float, paths: Paths) -> None:
    """Add the paths to `start` and then a piece to the paths to `end`."""
    costs = paths.costs[end]
    most = len(costs)
    for rank in range(paths.sizes[start]):
        total = paths.costs[start, rank] + cost
        k = paths.sizes[end]
        if k == most:
            if total >= costs[k - 1]:
                return
            k -= 1
        else:
            paths.sizes[end] += 1
        while k > 0 and costs[k - 1] > total:
            _set(end, k, costs[k - 1], paths.starts[end, k - 1], paths.ranks[end, k - 1], paths)
            k -= 1
        _set(end, k, total, start, rank, paths)


@borrowing
def _find(symbols: IntArray, first: int, n: int, trie: Trie, paths: Paths) -> None:
    for place in range(n + 1):
        paths.sizes[place] = 0
    paths.sizes[0] = 1
    paths.costs[0, 0] = 0.0
    for start in range(n):
        is_known = False
        piece, end, state = _longer_piece(symbols, first + start, first + n, 0, trie)
        while piece >= 0:
            is_known = is_known or end == first + start + 1
            _add(start, end - first, trie.scores[piece], paths)
            piece, end, state = _longer_piece(symbols, end, first + n, state, trie)
        if not is_known:
            _add(start, start + 1, trie.unknown, paths)


@releasing
def best_paths(
    symbols: IntArray,
    ends: LongArray,
    trie: Trie,
    paths: Paths,
    n_paths: LongArray,
    costs: FloatArray,
    sizes: LongArray,
    cuts: IntArray,
) -> int:
    """Write the best paths of words. Return the number of paths.

    n_paths: the number of paths of each word;  costs, sizes: each path's cost and number of pieces
    cuts: the start of each path's pieces, from last to first
    """
    start = n = at = 0
    for word in range(len(ends)):
        size = ends[word] - start
        _find(symbols, start, size, trie, paths)
        n_paths[word] = paths.sizes[size]
        for path in range(paths.sizes[size]):
            place, rank, before = size, path, at
            while place > 0:
                place, rank = paths.starts[place, rank], paths.ranks[place, rank]
                cuts[at] = place
                at += 1
            costs[n] = paths.costs[size, path]
            sizes[n] = at - before
            n += 1
        start = ends[word]
    return n
