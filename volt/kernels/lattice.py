"""Segment lines and words with SentencePiece models: sampled segmentations, and the n best.

    join_lines    a BPE model     each pair is drawn once, and skipped with a probability (sentencepiece's BPE-dropout)
    draw_paths    a unigram model a random path, with a probability in proportion to the product of its pieces' weights
    best_paths    a unigram model the n paths of least cost; at equal cost, a longer last piece comes first

For a unigram model, positions 0 to n lie between the n bytes of a word, with a space for each "▁". A
*node* is a piece from one position to another, and a *path* is a sequence of nodes from 0 to n, which
is a segmentation. With α(0) = 1, the sum over all paths to a position is computed from left to right,

    α(j) = Σ α(i) · weight over all nodes from i to j

and a path is drawn from right to left: a node from i to j with the probability α(i) · weight / α(j).
"""

from __future__ import annotations

from math import exp, inf, log
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
    IntArray,
    IntTable,
    KeyArray,
    LongArray,
    TextArray,
)
from volt.kernels.bpe_tables import NO_RANK
from volt.kernels.jit import borrowing, inlined, releasing
from volt.kernels.trie import (
    SPACE,
    Trie,
    character_size,
    copy_word,
    next_piece,
    unknown_symbol,
)

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


class Lattice(NamedTuple):
    """The nodes of one word. Nodes that end at a position are linked."""

    # (n + 1,) float64, log α of each position; until all nodes to it are added, the greatest log of
    # their parts of α
    logs: FloatArray
    sums: FloatArray  # (n + 1,), the sum of these parts, divided by the greatest one
    heads: IntArray  # (n + 1,), the last node that ends at a position, or −1
    nexts: IntArray  # (n_nodes,), the previous node that ends at the same position, or −1
    starts: IntArray  # (n_nodes,), the position where each node starts
    symbols: IntArray  # (n_nodes,), the piece, or −1 − 2 · code point for an unknown character


def lattice_of(n_bytes: int, longest_piece: int) -> Lattice:
    """Return working memory for words of at most so many bytes.

    longest_piece: the bytes of the longest piece
    """
    n = n_bytes + 1
    logs, sums = np.empty((2, n))
    nexts, starts, symbols = np.empty((3, n * (longest_piece + 1)), np.int32)  # mostly not touched
    return Lattice(logs, sums, np.empty(n, np.int32), nexts, starts, symbols)


@releasing
def draw_paths(
    data: TextArray,
    ends: LongArray,
    cuts_words: bool,
    trie: Trie,
    states: LongArray,
    text: ByteArray,
    lattice: Lattice,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Draw a path for each line. Write its symbols, and where they end. Return the number of symbols.

    data, ends: the lines as UTF-8, and where each ends
    cuts_words: whether each "▁" after another character starts a piece, so that words are drawn alone
    trie: with logs of weights instead of scores
    states: the first state of each line's random generator, overwritten
    text, lattice: working memory
    """
    n_out = start = 0
    for line in range(len(ends)):
        n = copy_word(data, start, ends[line], False, text)
        first = 0
        for p in range(1, n + 1):
            is_cut = cuts_words and p < n and text[p] == SPACE and text[p - 1] != SPACE
            if is_cut or p == n:
                _build_lattice(text, first, p, trie, lattice)
                n_out = _draw_path(p - first, trie, lattice, states[line : line + 1], out, n_out)
                first = p
        start = ends[line]
        out_ends[line] = n_out
    return n_out


@borrowing
def _build_lattice(text: ByteArray, first: int, end: int, trie: Trie, lattice: Lattice) -> None:
    n = end - first
    for position in range(n + 1):
        lattice.logs[position] = -inf
        lattice.sums[position] = 0.0
        lattice.heads[position] = -1
    lattice.logs[0] = 0.0
    lattice.sums[0] = 1.0
    node = start = 0
    while start < n:
        lattice.logs[start] += log(lattice.sums[start])
        size = character_size(text[first + start])
        is_known = False
        piece, p, unit = next_piece(text, first + start, end, trie.units[0], trie)
        while piece >= 0:
            is_known = is_known or p == first + start + size
            node = _add_node(node, start, p - first, piece, trie.scores[piece], lattice)
            piece, p, unit = next_piece(text, p, end, unit, trie)
        if not is_known:
            symbol = unknown_symbol(text, first + start, end)
            node = _add_node(node, start, start + size, symbol, trie.unknown, lattice)
        start += size
    lattice.logs[n] += log(lattice.sums[n])


@borrowing
def _add_node(node: int, start: int, end: int, symbol: int, score: float, lattice: Lattice) -> int:
    """Add a node, and its part to α(end). Return the next node."""
    lattice.nexts[node] = lattice.heads[end]
    lattice.starts[node] = start
    lattice.symbols[node] = symbol
    lattice.heads[end] = node
    total = lattice.logs[start] + score
    greatest = lattice.logs[end]
    if total > greatest:
        lattice.logs[end] = total
        lattice.sums[end] = lattice.sums[end] * exp(greatest - total) + 1.0
    else:
        lattice.sums[end] += exp(total - greatest)
    return node + 1


@borrowing
def _draw_path(
    n: int, trie: Trie, lattice: Lattice, state: LongArray, out: IntArray, first: int
) -> int:
    """Draw a path from position n to 0, and write its symbols to out[first:]. Return where they end."""
    n_out = first
    while n > 0:
        node = _draw_node(n, trie, lattice, state)
        out[n_out] = lattice.symbols[node]
        n_out += 1
        n = int(lattice.starts[node])
    for i in range((n_out - first) // 2):
        out[first + i], out[n_out - 1 - i] = out[n_out - 1 - i], out[first + i]
    return n_out


@borrowing
def _draw_node(end: int, trie: Trie, lattice: Lattice, state: LongArray) -> int:
    """Draw one of the nodes that end at a position."""
    remaining = random(state)
    node = lattice.heads[end]
    chosen = 0
    while node >= 0 and remaining >= 0.0:
        chosen = node
        symbol = lattice.symbols[node]
        start = lattice.starts[node]
        score = trie.scores[symbol] if symbol >= 0 else trie.unknown
        remaining -= exp(lattice.logs[start] + score - lattice.logs[end])
        node = lattice.nexts[node]
    return int(chosen)


class Paths(NamedTuple):
    """Working memory for the n best paths to each position of a word of m bytes, the least cost
    first."""

    sizes: LongArray  # (m + 1,), how many paths lead to each position
    costs: FloatTable  # (m + 1, n) float64
    starts: IntTable  # (m + 1, n), where the last piece of a path starts
    ranks: IntTable  # (m + 1, n), the rank, among the paths to that start, of the path without its last piece


@releasing
def draw_best_paths(
    data: TextArray,
    ends: LongArray,
    alpha: float,
    trie: Trie,
    states: LongArray,
    text: ByteArray,
    paths: Paths,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Draw one of the n best paths of each line, with a probability ∝ exp(−alpha · cost). Write its
    symbols, and where they end. Return the number of symbols.

    data, ends, states, text, out, out_ends: see `draw_paths`
    trie: with costs instead of scores
    """
    n_out = start = 0
    for line in range(len(ends)):
        n = copy_word(data, start, ends[line], False, text)
        _find_paths(text, n, trie, paths)
        total = 0.0
        for rank in range(paths.sizes[n]):
            total += exp(-alpha * (paths.costs[n, rank] - paths.costs[n, 0]))
        remaining = random(states[line : line + 1]) * total
        rank = -1
        while rank + 1 < paths.sizes[n] and (rank < 0 or remaining >= 0.0):
            rank += 1
            remaining -= exp(-alpha * (paths.costs[n, rank] - paths.costs[n, 0]))

        first = n_out
        while n > 0:
            p, rank = paths.starts[n, rank], paths.ranks[n, rank]
            out[n_out] = _symbol_between(text, p, n, trie)
            n_out += 1
            n = int(p)
        for i in range((n_out - first) // 2):
            out[first + i], out[n_out - 1 - i] = out[n_out - 1 - i], out[first + i]
        start = ends[line]
        out_ends[line] = n_out
    return n_out


@borrowing
def _symbol_between(text: ByteArray, start: int, end: int, trie: Trie) -> int:
    """Return the symbol of the piece, or of the unknown character, text[start:end]."""
    piece, p, unit = next_piece(text, start, end, trie.units[0], trie)
    while piece >= 0 and p < end:
        piece, p, unit = next_piece(text, p, end, unit, trie)
    return int(piece) if piece >= 0 else int(unknown_symbol(text, start, end))


def paths_of(n_bytes: int, n: int) -> Paths:
    """Return working memory for the n best paths of words of at most so many bytes."""
    m = n_bytes + 1
    starts, ranks = np.empty((2, m, n), np.int32)
    return Paths(np.zeros(m, np.int64), np.empty((m, n)), starts, ranks)


@releasing
def best_paths(
    data: TextArray,
    ends: LongArray,
    trie: Trie,
    text: ByteArray,
    paths: Paths,
    n_paths: LongArray,
    costs: FloatArray,
    sizes: LongArray,
    cuts: IntArray,
) -> int:
    """Write the best paths of words. Return the number of paths.

    data, ends: the words as UTF-8, and where each ends
    trie: with costs instead of scores
    text: working memory
    n_paths: set to the number of paths of each word
    costs, sizes: set to each path's cost, and its number of pieces
    cuts: set to the start of each path's pieces, in bytes with a space for each "▁", from last to
        first
    """
    word_start = n = n_cuts = 0
    for word in range(len(ends)):
        size = copy_word(data, word_start, ends[word], False, text)
        _find_paths(text, size, trie, paths)
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
def _find_paths(text: ByteArray, n: int, trie: Trie, paths: Paths) -> None:
    for position in range(n + 1):
        paths.sizes[position] = 0
    paths.sizes[0] = 1
    paths.costs[0, 0] = 0.0
    start = 0
    while start < n:
        size = character_size(text[start])
        is_known = False
        piece, end, unit = next_piece(text, start, n, trie.units[0], trie)
        while piece >= 0:
            is_known = is_known or end == start + size
            _extend_paths(start, end, trie.scores[piece], paths)
            piece, end, unit = next_piece(text, end, n, unit, trie)
        if not is_known:
            _extend_paths(start, start + size, trie.unknown, paths)
        start += size


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
