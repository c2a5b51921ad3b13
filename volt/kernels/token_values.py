"""Cut the words of a lattice into the fewest pieces that chosen tokens allow, and rate tokens by that.

The *value* of a chosen token is the number of pieces that dropping it adds, and that of another token
the number of pieces that adding it saves. A token that occurs several times in a word is rated as
the sum of its occurrences, each by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import FlagArray, IntArray, LongArray
from volt.kernels.jit import borrowing, releasing
from volt.kernels.piece_bound import WordLattice

_FAR = 1 << 30


class Room(NamedTuple):
    """Working memory for the longest word: pieces before and after each place, pieces before it
    without one token, and the tokens of a path."""

    before: LongArray
    after: LongArray
    without: LongArray
    path: LongArray


@releasing
def rate_words(
    lattice: WordLattice,
    words: IntArray,
    is_chosen: FlagArray,
    sign: int,
    room: Room,
    values: LongArray,
) -> int:
    """Add these words' part of the values of tokens, times the sign. Return the pieces of the words."""
    n_pieces = 0
    for word in words:
        start = lattice.ends[word - 1] if word > 0 else 0
        size = lattice.ends[word] - start
        count = lattice.counts[word]
        _cut_forwards(lattice, start, size, is_chosen, -1, room.before)
        _cut_backwards(lattice, start, size, is_chosen, room.after)
        fewest = room.before[size]
        n_pieces += count * fewest
        for i in range(size):
            for edge in range(lattice.first_edges[start + i], lattice.first_edges[start + i + 1]):
                token = lattice.tokens[edge]
                if not is_chosen[token]:
                    saved = fewest - room.before[i] - 1 - room.after[i + lattice.sizes[edge]]
                    if saved > 0:
                        values[token] += sign * count * saved

        n_tokens = _follow_path(lattice, start, size, is_chosen, room)
        for i in range(n_tokens):
            token = room.path[i]
            _cut_forwards(lattice, start, size, is_chosen, token, room.without)
            values[token] += sign * count * (room.without[size] - fewest)
    return n_pieces


@borrowing
def _cut_forwards(
    lattice: WordLattice,
    start: Any,
    size: Any,
    is_chosen: FlagArray,
    dropped: Any,
    pieces: LongArray,
) -> None:
    """Set the fewest pieces before each place of a word, without the token `dropped`."""
    for i in range(size + 1):
        pieces[i] = _FAR
    pieces[0] = 0
    for i in range(size):
        n = pieces[i] + 1
        pieces[i + 1] = min(pieces[i + 1], n)
        for edge in range(lattice.first_edges[start + i], lattice.first_edges[start + i + 1]):
            token = lattice.tokens[edge]
            if is_chosen[token] and token != dropped:
                to = i + lattice.sizes[edge]
                pieces[to] = min(pieces[to], n)


@borrowing
def _cut_backwards(
    lattice: WordLattice, start: Any, size: Any, is_chosen: FlagArray, pieces: LongArray
) -> None:
    """Set the fewest pieces after each place of a word."""
    pieces[size] = 0
    for i in range(size - 1, -1, -1):
        n = pieces[i + 1]
        for edge in range(lattice.first_edges[start + i], lattice.first_edges[start + i + 1]):
            if is_chosen[lattice.tokens[edge]]:
                n = min(n, pieces[i + lattice.sizes[edge]])
        pieces[i] = n + 1


@borrowing
def _follow_path(
    lattice: WordLattice, start: Any, size: Any, is_chosen: FlagArray, room: Room
) -> int:
    """List the distinct tokens of one shortest path. Return their number."""
    n_tokens = 0
    i = 0
    while i < size:
        rest = room.after[i] - 1
        if room.after[i + 1] == rest:
            i += 1
            continue
        for edge in range(lattice.first_edges[start + i], lattice.first_edges[start + i + 1]):
            token = lattice.tokens[edge]
            if is_chosen[token] and room.after[i + lattice.sizes[edge]] == rest:
                is_new = True
                for other in range(n_tokens):
                    is_new &= room.path[other] != token
                if is_new:
                    room.path[n_tokens] = token
                    n_tokens += 1
                i += lattice.sizes[edge]
                break
    return n_tokens


@releasing
def find_best(values: LongArray, is_chosen: FlagArray, is_tried: FlagArray) -> int:
    """Return the first token of greatest value, at least 0, among those neither chosen nor tried.

    Return −1 if there is none.
    """
    best = -1
    greatest = -1
    for token in range(len(values)):
        if values[token] > greatest and not is_chosen[token] and not is_tried[token]:
            greatest = values[token]
            best = token
    return best


@releasing
def find_cheapest(values: LongArray, is_chosen: FlagArray, is_tried: FlagArray) -> int:
    """Return the first token of least value among those that are chosen and not tried, or −1."""
    cheapest = -1
    least = np.iinfo(np.int64).max
    for token in range(len(values)):
        if values[token] < least and is_chosen[token] and not is_tried[token]:
            least = values[token]
            cheapest = token
    return cheapest
