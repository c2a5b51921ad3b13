"""Segment lines and words with SentencePiece models: sampled segmentations, and the n best.

    join_lines    a BPE model     each pair is drawn once, and skipped with a probability (sentencepiece's BPE-dropout)
    draw_paths    a unigram model a random path, with a probability ∝ exp(Σ score)
    best_paths    a unigram model the n paths of least cost; at equal cost, a longer last piece comes first

For a unigram model, positions 0 to n lie between the n characters of a line. A *node* is a piece
from one position to another, and a *path* is a sequence of nodes from 0 to n, which is a
segmentation. With α(0) = 0, the sum over all paths to a position is computed from left to right,

    α(j) = log Σ exp(α(i) + score) over all nodes from i to j

and a path is drawn from right to left: a node from i to j with the probability exp(α(i) + score −
α(j)).
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

# BPE models


class JoinTable(NamedTuple):
    pairs: KeyArray  # two symbols → a row, as in volt.kernels.bpe_tables
    results: IntArray  # (n_rows,), the piece that a row makes
    # (n_rows,), the pair with the lowest is joined first, of equal ones the leftmost
    orders: IntArray
    retained: ByteArray  # (n_symbols,), 0 for a piece that is split back into the two that it was joined from


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
    """Write the pieces of lines, and where each line's pieces end. Return the number of pieces.

    symbols, ends: the characters of all lines, and where each line ends
    parts: (n_symbols,), overwritten with the two symbols that each joined piece consists of
    states: the first state of each line's random generator, overwritten
    """
    word = room.word
    n_out = start = 0
    for line in range(len(ends)):
        n = ends[line] - start
        link_word(symbols[start : ends[line]], word)
        for p in range(n - 1):
            _push_join(p, word, joins, parts)
        _join_pairs(word, joins, parts, dropout, states[line : line + 1])

        p = 0 if n > 0 else -1
        while p >= 0:
            n_out = split_back(word.symbols[p], joins.retained, parts, out, n_out, room.stack)
            p = word.follows[p]
        start = ends[line]
        out_ends[line] = n_out
    return n_out


@borrowing
def _join_pairs(
    word: Word, joins: JoinTable, parts: LongArray, dropout: float, state: LongArray
) -> None:
    """Join the symbols of a line. Each pair is drawn once, so a skipped pair joins only if it forms
    anew."""
    while word.heap[0] > 0:
        entry = pop(word.heap)
        p = entry & 0xFFFFFFFF
        row = rank_at(p, word, joins.pairs)
        if row == NO_RANK or joins.orders[row] != entry >> 32 or random(state) < dropout:
            continue
        merge_at(p, joins.results[row], word)
        _push_join(word.precedes[p], word, joins, parts)
        _push_join(p, word, joins, parts)


@borrowing
def _push_join(p: int, word: Word, joins: JoinTable, parts: LongArray) -> None:
    """Push the pair at p to the heap, if it can be joined."""
    row = rank_at(p, word, joins.pairs)
    if row == NO_RANK:
        return
    piece = joins.results[row]
    if joins.retained[piece] == 0:
        right = word.symbols[word.follows[p]]
        parts[piece] = (np.int64(word.symbols[p]) << 32) | np.int64(right)
    push(word.heap, int((np.int64(joins.orders[row]) << 32) | np.int64(p)))


# Unigram models


class Trie(NamedTuple):
    """A trie over the characters of a unigram model's pieces."""

    # a state and a character's symbol → the next state − 1, as in volt.kernels.bpe_tables; the
    # first state is 0
    steps: KeyArray
    pieces: IntArray  # (n_states,), the piece that a state spells, or −1
    scores: FloatArray  # (n_pieces,) float64, scaled; costs for `best_paths`
    unknown: float  # the score of a character that is not a piece


class Lattice(NamedTuple):
    """The nodes of one line. Nodes that end at a position are linked."""

    sums: FloatArray  # (n + 1,) float64, α of each position
    heads: IntArray  # (n + 1,), the last node that ends at a position, or −1
    nexts: IntArray  # (n_nodes,), the previous node that ends at the same position, or −1
    starts: IntArray  # (n_nodes,), the position where each node starts
    pieces: IntArray  # (n_nodes,)


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
    """Draw a path for each line. Write its pieces, and where they end. Return the number of pieces.

    symbols, codes, ends: the characters of all lines, as symbols of the trie and as code points,
        and where each line ends
    states: the first state of each line's random generator, overwritten
    lattice: working memory
    out: an unknown character is written as `-1 - code`
    """
    n_out = start = 0
    for line in range(len(ends)):
        n = ends[line] - start
        _build_lattice(symbols, codes, start, n, trie, lattice)
        first = n_out
        while n > 0:  # from the line's end to its start
            node = _draw_node(n, trie, lattice, states[line : line + 1])
            out[n_out] = lattice.pieces[node]
            n_out += 1
            n = lattice.starts[node]
        for i in range((n_out - first) // 2):
            out[first + i], out[n_out - 1 - i] = out[n_out - 1 - i], out[first + i]
        start = ends[line]
        out_ends[line] = n_out
    return n_out


@borrowing
def _build_lattice(
    symbols: IntArray, codes: IntArray, line_start: int, n: int, trie: Trie, lattice: Lattice
) -> None:
    node = 0
    for position in range(n + 1):
        lattice.sums[position] = -inf
        lattice.heads[position] = -1
    lattice.sums[0] = 0.0
    line_end = line_start + n
    for start in range(n):
        is_known = False
        piece, p, state = _find_longer_piece(symbols, line_start + start, line_end, 0, trie)
        while piece >= 0:
            end = p - line_start
            is_known = is_known or end == start + 1
            node = _add_node(node, start, end, piece, trie.scores[piece], lattice)
            piece, p, state = _find_longer_piece(symbols, p, line_end, state, trie)
        if not is_known:
            unknown = -1 - codes[line_start + start]
            node = _add_node(node, start, start + 1, unknown, trie.unknown, lattice)


@borrowing
def _add_node(node: int, start: int, end: int, piece: int, score: float, lattice: Lattice) -> int:
    """Add a node, and its score to α(end): log(e^a + e^b) = max + log(1 + e^(min − max)). Return
    the next node."""
    lattice.nexts[node] = lattice.heads[end]
    lattice.starts[node] = start
    lattice.pieces[node] = piece
    lattice.heads[end] = node
    before = lattice.sums[end]
    added = lattice.sums[start] + score
    high = max(before, added)
    lattice.sums[end] = high + log1p(exp(min(before, added) - high))
    return node + 1


@borrowing
def _draw_node(end: int, trie: Trie, lattice: Lattice, state: LongArray) -> int:
    """Draw one of the nodes that end at a position."""
    remaining = random(state)
    node = lattice.heads[end]
    chosen = 0
    while node >= 0 and remaining >= 0.0:
        chosen = node
        piece = lattice.pieces[node]
        score = trie.scores[piece] if piece >= 0 else trie.unknown
        remaining -= exp(lattice.sums[lattice.starts[node]] + score - lattice.sums[end])
        node = lattice.nexts[node]
    return int(chosen)


class Paths(NamedTuple):
    """Working memory for the n best paths to each position of a word of m characters, the least
    cost first."""

    sizes: LongArray  # (m + 1,), how many paths lead to each position
    costs: FloatTable  # (m + 1, n) float64
    starts: IntTable  # (m + 1, n), where the last piece of a path starts
    ranks: IntTable  # (m + 1, n), the rank, among the paths to that start, of the path without its last piece


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

    symbols, ends: the characters of all words, and where each word ends
    trie: with costs instead of scores
    n_paths: set to the number of paths of each word
    costs, sizes: set to each path's cost, and its number of pieces
    cuts: set to the start of each path's pieces, from last to first
    """
    word_start = n = n_cuts = 0
    for word in range(len(ends)):
        size = ends[word] - word_start
        _find_paths(symbols, word_start, size, trie, paths)
        n_paths[word] = paths.sizes[size]
        for path in range(paths.sizes[size]):
            position = size
            rank = path
            n_before = n_cuts
            while position > 0:
                position, rank = paths.starts[position, rank], paths.ranks[position, rank]
                cuts[n_cuts] = position
                n_cuts += 1
            costs[n] = paths.costs[size, path]
            sizes[n] = n_cuts - n_before
            n += 1
        word_start = ends[word]
    return n


@borrowing
def _find_paths(symbols: IntArray, word_start: int, n: int, trie: Trie, paths: Paths) -> None:
    for position in range(n + 1):
        paths.sizes[position] = 0
    paths.sizes[0] = 1
    paths.costs[0, 0] = 0.0
    word_end = word_start + n
    for start in range(n):
        is_known = False
        piece, p, state = _find_longer_piece(symbols, word_start + start, word_end, 0, trie)
        while piece >= 0:
            end = p - word_start
            is_known = is_known or end == start + 1
            _extend_paths(start, end, trie.scores[piece], paths)
            piece, p, state = _find_longer_piece(symbols, p, word_end, state, trie)
        if not is_known:
            _extend_paths(start, start + 1, trie.unknown, paths)


@borrowing
def _extend_paths(start: int, end: int, cost: float, paths: Paths) -> None:
    """Add a piece from `start` to `end` to the paths to `start`. Retain the best paths to `end`."""
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
            _set_path(
                end, k, costs[k - 1], paths.starts[end, k - 1], paths.ranks[end, k - 1], paths
            )
            k -= 1
        _set_path(end, k, total, start, rank, paths)


@inlined
def _set_path(end: int, k: int, cost: float, start: int, rank: int, paths: Paths) -> None:
    paths.costs[end, k] = cost
    paths.starts[end, k] = start
    paths.ranks[end, k] = rank


@borrowing
def _find_longer_piece(
    symbols: IntArray, p: int, end: int, state: int, trie: Trie
) -> tuple[int, int, int]:
    """Walk on in the trie to the next piece. Return the piece, or −1, and the position and the
    state after it.

    p, state: the position and the state after the piece before; at first, where the piece starts,
        and 0
    """
    while p < end:
        row = rank_of(state, symbols[p], trie.steps)
        if row == NO_RANK:
            break
        state = row + 1
        p += 1
        if trie.pieces[state] >= 0:
            return int(trie.pieces[state]), p, state
    return -1, p, state
