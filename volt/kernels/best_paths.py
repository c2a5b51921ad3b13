"""The n best ways to cut words into pieces of a unigram model: Viterbi's algorithm with n paths to each place.

A path to a place is its cost, where its last piece starts, and its number among the paths that lead there. Of equal
costs that path comes first whose last piece is longer, and then the one that goes on from the better path. The arrays
are made in `volt.stream.transforms.segmenters`.
"""

from typing import Any, NamedTuple

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.compiling import borrowing, releasing
from volt.kernels.drawing import Trie
from volt.kernels.pair_table import NO_RANK, rank_of


class Paths(NamedTuple):
    """Room for the best paths of a word of m characters, n to each place.

    sizes: (m + 1,) int64, how many paths there are
    costs: (m + 1, n) float64, the least first
    starts, ranks: (m + 1, n) int32, where the last piece starts, and the number of the path to there
    """

    sizes: LongArray
    costs: Any
    starts: IntArray
    ranks: IntArray


@borrowing
def _add(start: int, end: int, cost: float, paths: Paths) -> None:
    """Add the paths that go on with a piece, as far as they are among the best."""
    most = paths.costs.shape[1]
    for rank in range(paths.sizes[start]):
        total, k = paths.costs[start, rank] + cost, paths.sizes[end]
        if k == most and total >= paths.costs[end, most - 1]:
            return
        k = min(k, most - 1)
        while k > 0 and paths.costs[end, k - 1] > total:
            paths.costs[end, k], paths.starts[end, k] = paths.costs[end, k - 1], paths.starts[end, k - 1]
            paths.ranks[end, k] = paths.ranks[end, k - 1]
            k -= 1
        paths.costs[end, k], paths.starts[end, k], paths.ranks[end, k] = total, start, rank
        paths.sizes[end] = min(paths.sizes[end] + 1, most)


@borrowing
def _find(symbols: IntArray, first: int, n: int, trie: Trie, paths: Paths) -> None:
    """The best paths to each place of a word of n characters."""
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
    symbols: IntArray, ends: LongArray, trie: Trie, paths: Paths, n_paths: LongArray, costs: Any, sizes: LongArray,
    cuts: IntArray,
) -> int:  # fmt: skip
    """Write the best paths of words. Returns how many there are.

    symbols: (n_characters,) int32, those of the trie; below 0 for a character that is in no piece
    ends: (n_words,) int64, where each word's characters end
    trie: its scores are costs
    paths: room for the longest word
    n_paths: (n_words,) int64, is set to how many paths each word has
    costs, sizes: (n_words · n,) float64 and int64, are set to the cost of each path, and its pieces
    cuts: (n_characters · n,) int32, is set to where the pieces of each path start in its word, the last piece first
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
