"""Segment lines and words with SentencePiece models: sampled segmentations, and the n best.

    join_lines    a BPE model     each pair is drawn once, and skipped with a probability (sentencepiece's BPE-dropout)
    draw_paths    a unigram model a random path, with a probability in proportion to the product of its pieces' weights
    best_paths    a unigram model the n paths of least cost; at equal cost, a longer last piece comes first

For a unigram model, positions 0 to n lie between the n bytes of a word, with a space for each "▁". A
*node* is a piece from one position to another, and a *path* is a sequence of nodes from 0 to n, which
is a segmentation. With β(n) = 1, the sum over all paths from a position is computed from right to left,

    β(i) = Σ weight · β(j) over all nodes from i to j

and a path is drawn from left to right: a node from i to j with the probability weight · β(j) / β(i).

To draw from the n best paths, they are ranked as in Lawler (1972): a path differs from a better one by
one node, after which it takes the best nodes.
"""

from __future__ import annotations

from math import exp, inf, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    slot_of,
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

_STEP = 256
_BASE = 2.0**_STEP
_GREATEST = 2.0 ** (_STEP / 2)  # the greatest size of a number
_MOST_LOG = 2.0**50  # of a weight
_WORD_END = 0xFF  # occurs nowhere in UTF-8
_ROOM = 1 << 17  # positions for words that may occur again
_NODES_OF_POSITION = 4  # of these words, on average
_N_SLOTS = 1 << 14

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


# A weight is number · 2 ** (256 · exponent), and so are sums and products of weights, which thus neither
# overflow nor vanish. They are pairs of floats, and the exponents are 0 unless alpha is large. Numbers
# are from 2 ** −128 to 2 ** 128, and products of two from 2 ** −256 to 2 ** 256.


def weights_of(scores: NDArray[np.float64]) -> FloatTable:
    """Return (n, 2) the weights exp(score). scores: (n,)"""
    logs = np.clip(scores / log(2), -_MOST_LOG, _MOST_LOG)
    exponents = np.rint(logs / _STEP)
    return np.column_stack([np.exp2(logs - _STEP * exponents), exponents])


@inlined
def _scale(number: float, exponent: float) -> float:
    """Return number · 2 ** (256 · exponent)."""
    while exponent > 0.0:
        number *= _BASE
        exponent -= 1.0
    while exponent < 0.0 and number > 0.0:
        number *= 1 / _BASE
        exponent += 1.0
    return number


class Lattice(NamedTuple):
    """The nodes of one or several words, by the position where they start. A word of n bytes takes
    n + 1 positions."""

    most_nodes: int  # that start at a position
    used: LongArray  # (2,), how many positions and nodes are in use
    text: ByteArray  # (n_positions,), the words, with 0xFF after each
    bounds: IntArray  # (n_positions,), the nodes bounds[i] to bounds[i + 1] − 1 start at position i
    ends: IntArray  # (n_nodes,), the position where each node ends
    symbols: IntArray  # (n_nodes,), the piece, or −1 − 2 · code point for an unknown character
    # (n_nodes, 2), the node's part of the sum where it starts; or how much worse the best path with
    # this node is than the best one from where it starts
    parts: FloatTable
    # (n_positions, 2), the sum over all paths from each position; or the greatest score of a path, and
    # the least that another node on this path loses
    sums: FloatTable
    best: IntArray  # (n_positions,), the first node of the best path from each position
    words: IntArray  # (n_slots,), where the last word with this hash starts, or −1


def lattice_of(n_bytes: int, longest_piece: int) -> Lattice:
    """Return working memory for words of at most so many bytes.

    longest_piece: the characters of the longest piece
    """
    n = n_bytes + _ROOM
    n_nodes = (n_bytes + 1) * (longest_piece + 1) + _NODES_OF_POSITION * _ROOM  # mostly not touched
    bounds, best = np.empty((2, n), np.int32)
    ends, symbols = np.empty((2, n_nodes), np.int32)
    return Lattice(
        most_nodes=longest_piece + 1,
        used=np.zeros(2, np.int64),
        text=np.empty(n, np.uint8),
        bounds=bounds,
        ends=ends,
        symbols=symbols,
        parts=np.empty((n_nodes, 2)),
        sums=np.empty((n, 2)),
        best=best,
        words=np.full(_N_SLOTS, -1, np.int32),
    )


@borrowing
def _find_nodes(text: ByteArray, first: int, end: int, trie: Trie, lattice: Lattice) -> int:
    """List the nodes of the word text[first:end]. Return the position where it starts."""
    n_positions = lattice.used[0]
    n_nodes = lattice.used[1]
    shift = n_positions - first
    for start in range(first, end):
        byte = text[start]
        lattice.text[start + shift] = byte
        lattice.bounds[start + shift] = n_nodes
        if byte & 0xC0 == 0x80:  # inside a character
            continue
        character_end = start + character_size(byte)
        is_known = False
        piece, p, unit = next_piece(text, start, end, trie.units[0], trie)
        while piece >= 0:
            is_known = is_known or p == character_end
            lattice.symbols[n_nodes] = piece
            lattice.ends[n_nodes] = p + shift
            n_nodes += 1
            piece, p, unit = next_piece(text, p, end, unit, trie)
        if not is_known:
            lattice.symbols[n_nodes] = unknown_symbol(text, start, end)
            lattice.ends[n_nodes] = character_end + shift
            n_nodes += 1
    lattice.text[end + shift] = _WORD_END
    lattice.bounds[end + shift] = n_nodes
    lattice.used[0] = end + shift + 1
    lattice.used[1] = n_nodes
    return int(n_positions)


@releasing
def draw_paths(
    data: TextArray,
    starts: LongArray,
    ends: LongArray,
    is_marked: bool,
    cuts_words: bool,
    trie: Trie,
    weights: FloatTable,
    states: LongArray,
    text: ByteArray,
    lattice: Lattice,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Draw a path for each line. Write its symbols, and where they end. Return the number of symbols.

    data: UTF-8;  starts, ends: of the lines in it
    is_marked: whether a "▁" is put before each line that is not empty
    cuts_words: whether each "▁" after another character starts a piece, so that words are drawn alone
    weights: (n_symbols + 1, 2), the weight of each piece; that of an unknown character is last
    states: the first state of each line's random generator, overwritten
    text, lattice: working memory
    """
    n_out = 0
    for line in range(len(ends)):
        n = 0
        if starts[line] < ends[line]:
            n = copy_word(data, starts[line], ends[line], is_marked, text)
        first = 0
        for p in range(1, n + 1):
            is_cut = cuts_words and p < n and text[p] == SPACE and text[p - 1] != SPACE
            if is_cut or p == n:
                start = _enter_word(text, first, p, trie, weights, lattice)
                end = start + p - first
                n_out = _draw_path(start, end, lattice, states[line : line + 1], out, n_out)
                first = p
        out_ends[line] = n_out
    return n_out


@borrowing
def _enter_word(
    text: ByteArray, first: int, end: int, trie: Trie, weights: FloatTable, lattice: Lattice
) -> int:
    """Enter the word text[first:end] into the lattice, unless it is there. Return the position where
    it starts."""
    hashed = np.int64(0)
    for p in range(first, end):
        hashed = (hashed * 31 + text[p]) & 0xFFFFFFFF
    slot = slot_of(int(hashed), len(lattice.words) - 1)
    start = lattice.words[slot]
    if start >= 0:
        p = first
        while p < end and lattice.text[start + p - first] == text[p]:
            p += 1
        if p == end and lattice.text[start + p - first] == _WORD_END:
            return int(start)

    n = end - first
    n_nodes = lattice.used[1] + n * lattice.most_nodes
    if lattice.used[0] + n >= len(lattice.bounds) or n_nodes > len(lattice.ends):
        lattice.used[:] = 0
        lattice.words[:] = -1
    start = _find_nodes(text, first, end, trie, lattice)
    _add_weights(start, start + n, weights, lattice)
    lattice.words[slot] = start
    return int(start)


@borrowing
def _add_weights(first: int, last: int, weights: FloatTable, lattice: Lattice) -> None:
    """Compute the sum over all paths from each position to the last one."""
    lattice.sums[last, 0] = 1.0
    lattice.sums[last, 1] = 0.0
    unknown = len(weights) - 1
    for start in range(last - 1, first - 1, -1):
        total = 0.0
        exponent = -inf
        for node in range(lattice.bounds[start], lattice.bounds[start + 1]):
            end = lattice.ends[node]
            symbol = lattice.symbols[node]
            if symbol < 0:
                symbol = unknown
            part = weights[symbol, 0] * lattice.sums[end, 0]
            part_exponent = weights[symbol, 1] + lattice.sums[end, 1]
            lattice.parts[node, 0] = part
            lattice.parts[node, 1] = part_exponent
            if part_exponent > exponent:
                total = _scale(total, exponent - part_exponent)
                exponent = part_exponent
            total += _scale(part, part_exponent - exponent)
        if total > _GREATEST:
            total *= 1 / _BASE
            exponent += 1.0
        elif total < 1 / _GREATEST:
            total *= _BASE
            exponent -= 1.0
        lattice.sums[start, 0] = total
        lattice.sums[start, 1] = exponent


@borrowing
def _draw_path(
    position: int, end: int, lattice: Lattice, state: LongArray, out: IntArray, n_out: int
) -> int:
    """Draw a path to a position, and write its symbols to out[n_out:]. Return where they end."""
    while position < end:
        node = lattice.bounds[position]
        last = lattice.bounds[position + 1] - 1
        if node < last:
            exponent = lattice.sums[position, 1]
            remaining = random(state) * lattice.sums[position, 0]
            remaining -= _scale(lattice.parts[node, 0], lattice.parts[node, 1] - exponent)
            while remaining >= 0.0 and node < last:
                node += 1
                remaining -= _scale(lattice.parts[node, 0], lattice.parts[node, 1] - exponent)
        out[n_out] = lattice.symbols[node]
        n_out += 1
        position = lattice.ends[node]
    return n_out


class Ranking(NamedTuple):
    """Working memory for the best paths of a word, the best first.

    Each but the best is another one, its parent, up to a position; goes on with a node that is not
    the best from there; and then takes the best nodes.
    """

    losses: FloatArray  # (n_paths,), how much worse each path is than the best
    parents: IntArray  # (n_paths,), the rank of its parent
    starts: IntArray  # (n_paths,), the position where it leaves its parent
    nodes: IntArray  # (n_paths,), its node from there


def ranking_of(n: int) -> Ranking:
    """Return working memory for n paths."""
    parents, starts, nodes = np.empty((3, n), np.int32)
    return Ranking(np.empty(n), parents, starts, nodes)


@releasing
def draw_best_paths(
    data: TextArray,
    starts: LongArray,
    ends: LongArray,
    is_marked: bool,
    alpha: float,
    trie: Trie,
    states: LongArray,
    text: ByteArray,
    lattice: Lattice,
    ranking: Ranking,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Draw one of the best paths of each line, with a probability ∝ exp(alpha · score). Write its
    symbols, and where they end. Return the number of symbols.

    ranking: working memory for as many paths as are drawn from
    data, starts, ends, is_marked, states, text, lattice, out, out_ends: see `draw_paths`
    """
    n_out = 0
    for line in range(len(ends)):
        n = 0
        if starts[line] < ends[line]:
            n = copy_word(data, starts[line], ends[line], is_marked, text)
        lattice.used[:] = 0
        _find_nodes(text, 0, n, trie, lattice)
        _find_losses(n, trie, lattice)
        n_paths = _rank_paths(n, lattice, ranking)
        total = 0.0
        for rank in range(n_paths):
            total += exp(-alpha * ranking.losses[rank])
        remaining = random(states[line : line + 1]) * total - 1.0
        rank = 0
        while remaining >= 0.0 and rank + 1 < n_paths:
            rank += 1
            remaining -= exp(-alpha * ranking.losses[rank])

        while rank > 0:
            lattice.best[ranking.starts[rank]] = ranking.nodes[rank]
            rank = ranking.parents[rank]
        position = 0
        while position < n:
            node = lattice.best[position]
            out[n_out] = lattice.symbols[node]
            n_out += 1
            position = lattice.ends[node]
        out_ends[line] = n_out
    return n_out


@borrowing
def _find_losses(n: int, trie: Trie, lattice: Lattice) -> None:
    """Compute the best path from each position of a word of n bytes, and what other nodes lose."""
    lattice.sums[n, 0] = 0.0
    lattice.sums[n, 1] = inf
    for start in range(n - 1, -1, -1):
        greatest = second = -inf
        for node in range(lattice.bounds[start], lattice.bounds[start + 1]):
            symbol = lattice.symbols[node]
            score = trie.scores[symbol] if symbol >= 0 else trie.unknown
            total = score + lattice.sums[lattice.ends[node], 0]
            lattice.parts[node, 0] = total
            if total > greatest:
                second = greatest
                greatest = total
                lattice.best[start] = node
            else:
                second = max(second, total)
        if greatest == -inf:  # inside a character
            continue
        for node in range(lattice.bounds[start], lattice.bounds[start + 1]):
            lattice.parts[node, 0] = greatest - lattice.parts[node, 0]
        lattice.sums[start, 0] = greatest
        later = lattice.ends[lattice.best[start]]
        lattice.sums[start, 1] = min(greatest - second, lattice.sums[later, 1])


@borrowing
def _rank_paths(n: int, lattice: Lattice, ranking: Ranking) -> int:
    """Find the best paths of a word of n bytes. Return their number."""
    most = len(ranking.losses)
    ranking.losses[:] = inf
    ranking.losses[0] = 0.0
    n_paths = 1
    rank = position = 0
    while rank < n_paths:
        if rank > 0:
            position = lattice.ends[ranking.nodes[rank]]
        before = ranking.losses[rank]
        while before + lattice.sums[position, 1] < ranking.losses[most - 1]:
            best = lattice.best[position]
            for node in range(lattice.bounds[position], lattice.bounds[position + 1]):
                loss = before + lattice.parts[node, 0]
                if node != best and loss < ranking.losses[most - 1]:
                    n_paths = _rank_path(loss, rank, position, node, n_paths, ranking)
            position = lattice.ends[best]
        rank += 1
    return n_paths


@inlined
def _rank_path(
    loss: float, parent: Any, start: Any, node: Any, n_paths: int, ranking: Ranking
) -> int:
    """Enter one of the best paths. Return the new number of paths."""
    rank = min(n_paths, len(ranking.losses) - 1)
    while ranking.losses[rank - 1] > loss:
        ranking.losses[rank] = ranking.losses[rank - 1]
        ranking.parents[rank] = ranking.parents[rank - 1]
        ranking.starts[rank] = ranking.starts[rank - 1]
        ranking.nodes[rank] = ranking.nodes[rank - 1]
        rank -= 1
    ranking.losses[rank] = loss
    ranking.parents[rank] = parent
    ranking.starts[rank] = start
    ranking.nodes[rank] = node
    return min(n_paths + 1, len(ranking.losses))


class Paths(NamedTuple):
    """Working memory for the n best paths to each position of a word of m bytes, the least cost
    first."""

    sizes: LongArray  # (m + 1,), how many paths lead to each position
    costs: FloatTable  # (m + 1, n) float64
    starts: IntTable  # (m + 1, n), where the last piece of a path starts
    ranks: IntTable  # (m + 1, n), the rank, among the paths to that start, of the path without its last piece


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
