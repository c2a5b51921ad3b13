"""Find the n best paths of lines and words: rank or list the segmentations of a unigram model.

    draw_best_paths   one of the n best paths of each line, drawn by its score
    find_best_paths   the n paths of least cost of each word; at equal cost, a longer last piece comes first

`volt.kernels.lattice` says what nodes and paths are. To draw from the n best paths, they are ranked as
in Lawler (1972): a path differs from a better one by one node, after which it takes the best nodes.
"""

from __future__ import annotations

from math import exp, inf
from typing import Any, NamedTuple

import numpy as np

from volt.kernels.apply_bpe import random
from volt.kernels.arrays import (
    ByteArray,
    FloatArray,
    FloatTable,
    IntArray,
    IntTable,
    LongArray,
    TextArray,
)
from volt.kernels.jit import borrowing, inlined, releasing
from volt.kernels.lattice import Lattice, find_nodes
from volt.kernels.trie import Trie, character_size, copy_word, next_piece


class Ranking(NamedTuple):
    """Working memory for the best paths of a word, the best first.

    Each path but the best follows a better one, its parent, up to a position; continues with a node
    that is not the best from there; and then takes the best nodes.
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
    data, starts, ends, is_marked, states, text, lattice, out, out_ends: see `volt.kernels.lattice.draw_paths`
    """
    n_out = 0
    for line in range(len(ends)):
        n = 0
        if starts[line] < ends[line]:
            n = copy_word(data, starts[line], ends[line], is_marked, text)
        lattice.used[:] = 0
        find_nodes(text, 0, n, trie, lattice)
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
def find_best_paths(
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
