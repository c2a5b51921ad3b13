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
    _merge_at,
    _pop,
    _push,
    _random,
    _split_back,
    link_word,
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
from volt.kernels.jit import borrowing, releasing


class JoinTable(NamedTuple):
    pairs: KeyArray  # two symbols → a row, as in volt.kernels.bpe_tables
    results: IntArray  # (n_rows,), the piece that a row makes
    orders: IntArray  # (n_rows,), the priority: the lowest first, then the leftmost
    retained: ByteArray  # (n_symbols,), 0 for a piece that is split back into the two that it was joined from


@borrowing
def _push_join(p: int, size: int, word: Word, joins: JoinTable, parts: LongArray) -> int:
    if p < 0 or word.follows[p] < 0:
        return size
    left, right = word.symbols[p], word.symbols[word.follows[p]]
    row = rank_of(left, right, joins.pairs)
    if row == NO_RANK:
        return size
    if joins.retained[joins.results[row]] == 0:
        parts[joins.results[row]] = (np.int64(left) << 32) | np.int64(right)
    return _push(word.heap, size, int((np.int64(joins.orders[row]) << 32) | np.int64(p)))


@borrowing
def _join(
    word: Word, size: int, joins: JoinTable, parts: LongArray, dropout: float, state: LongArray
) -> None:
    """Join the symbols of a line. Each pair is drawn once, so a skipped pair joins only if it forms anew."""
    while size > 0:
        entry = word.heap[0]
        size = _pop(word.heap, size)
        p = entry & 0xFFFFFFFF
        if word.follows[p] < 0:
            continue
        row = rank_of(word.symbols[p], word.symbols[word.follows[p]], joins.pairs)
        if row == NO_RANK or joins.orders[row] != entry >> 32 or _random(state) < dropout:
            continue
        _merge_at(p, joins.results[row], word)
        size = _push_join(word.precedes[p], size, word, joins, parts)
        size = _push_join(p, size, word, joins, parts)


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
    n_out, start, word = 0, 0, room.word
    for line in range(len(ends)):
        n, size = ends[line] - start, 0
        link_word(symbols[start : ends[line]], word)
        for p in range(n - 1):
            size = _push_join(p, size, word, joins, parts)
        _join(word, size, joins, parts, dropout, states[line : line + 1])
        p = 0 if n > 0 else -1
        while p >= 0:
            n_out = _split_back(word.symbols[p], joins.retained, parts, out, n_out, room.stack)
            p = word.follows[p]
        start, out_ends[line] = ends[line], n_out
    return n_out


class Trie(NamedTuple):
    """A trie over the characters of a unigram model's pieces."""

    # a state and a character's symbol → the next state − 1, as in volt.kernels.bpe_tables; the first state is 0
    steps: KeyArray
    pieces: IntArray  # (n_states,), the piece that a state spells, or −1
    scores: FloatArray  # (n_pieces,) float64, scaled; costs for `best_paths`
    unknown: float  # the score of a character that is not a piece


class Lattice(NamedTuple):
    sums: FloatArray  # (n + 1,) float64, the logarithm of the sum over all paths up to a position
    heads: IntArray  # (n + 1,), the last node that ends at a position, or −1
    nexts: IntArray  # of each node: the previous node that ends at the same position; its start; its piece
    begins: IntArray
    pieces: IntArray


@borrowing
def _add_score(node: int, begin: int, end: int, piece: int, score: float, lattice: Lattice) -> int:
    lattice.nexts[node], lattice.begins[node], lattice.pieces[node] = (
        lattice.heads[end],
        begin,
        piece,
    )
    lattice.heads[end] = node
    one, other = lattice.sums[end], lattice.sums[begin] + score
    low, high = min(one, other), max(one, other)
    lattice.sums[end] = high + log1p(exp(low - high))
    return node + 1


@borrowing
def _build(
    symbols: IntArray, codes: IntArray, start: int, n: int, trie: Trie, lattice: Lattice
) -> None:
    node = 0
    for place in range(n + 1):
        lattice.sums[place], lattice.heads[place] = -inf, -1
    lattice.sums[0] = 0.0
    for begin in range(n):
        state, single, end = 0, False, begin
        while end < n:
            row = rank_of(state, symbols[start + end], trie.steps)
            if row == NO_RANK:
                break
            state, end = row + 1, end + 1
            piece = trie.pieces[state]
            if piece >= 0:
                node = _add_score(node, begin, end, piece, trie.scores[piece], lattice)
                single = single or end == begin + 1
        if not single:
            node = _add_score(
                node, begin, begin + 1, -1 - codes[start + begin], trie.unknown, lattice
            )


@borrowing
def _drawn(end: int, trie: Trie, lattice: Lattice, state: LongArray) -> int:
    left, node, result = _random(state), lattice.heads[end], 0
    while node >= 0 and left >= 0.0:
        piece, result = lattice.pieces[node], node
        score = trie.scores[piece] if piece >= 0 else trie.unknown
        left -= exp(lattice.sums[lattice.begins[node]] + score - lattice.sums[end])
        node = lattice.nexts[node]
    return int(result)


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
            out[n_out], n_out, n = lattice.pieces[node], n_out + 1, lattice.begins[node]
        for i in range((n_out - first) // 2):
            out[first + i], out[n_out - 1 - i] = out[n_out - 1 - i], out[first + i]
        start, out_ends[line] = ends[line], n_out
    return n_out


class Paths(NamedTuple):
    """Working memory for the best paths of a word of m characters, n to each position."""

    sizes: LongArray  # (m + 1,), how many paths lead to each position
    costs: FloatTable  # (m + 1, n) float64, the least first
    starts: IntTable  # (m + 1, n), where the last piece starts, and the number of the path to there
    ranks: IntTable


@borrowing
def _add(start: int, end: int, cost: float, paths: Paths) -> None:
    most = paths.costs.shape[1]
    for rank in range(paths.sizes[start]):
        total, k = paths.costs[start, rank] + cost, paths.sizes[end]
        if k == most and total >= paths.costs[end, most - 1]:
            return
        k = min(k, most - 1)
        while k > 0 and paths.costs[end, k - 1] > total:
            paths.costs[end, k], paths.starts[end, k] = (
                paths.costs[end, k - 1],
                paths.starts[end, k - 1],
            )
            paths.ranks[end, k] = paths.ranks[end, k - 1]
            k -= 1
        paths.costs[end, k], paths.starts[end, k], paths.ranks[end, k] = total, start, rank
        paths.sizes[end] = min(paths.sizes[end] + 1, most)


@borrowing
def _find(symbols: IntArray, first: int, n: int, trie: Trie, paths: Paths) -> None:
    for place in range(n + 1):
        paths.sizes[place] = 0
    paths.sizes[0], paths.costs[0, 0] = 1, 0.0
    for start in range(n):
        state, single, end = 0, False, start
        while end < n:
            row = rank_of(state, symbols[first + end], trie.steps)
            if row == NO_RANK:
                break
            state, end = row + 1, end + 1
            piece = trie.pieces[state]
            if piece >= 0:
                _add(start, end, trie.scores[piece], paths)
                single = single or end == start + 1
        if not single:
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
                cuts[at], at = place, at + 1
            costs[n], sizes[n], n = paths.costs[size, path], at - before, n + 1
        start = ends[word]
    return n
