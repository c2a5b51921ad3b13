"""Counted words, candidates and a number of places → tokens that cut the words into few pieces.

Each word is cut into the fewest pieces that tokens and atoms allow. The *value* of a token is the
number of pieces that change if it is added, or dropped if it is chosen. An exchange adds one token,
and drops another:

    words abab 9×, abb 4×, one place     chosen ab: 26 pieces, value of abab 9, value of ab 18 + 4
    add abab, now the value of ab is 4   drop ab: 9 + 12 = 21 pieces

Only words that contain a token are cut again when it is added or dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.piece_bound import WordLattice

_FAR = 1 << 30

Pick = Callable[
    [NDArray[np.bool_]], list[int]
]  # excluded tokens → a token, or none if none is left


class Room(NamedTuple):
    """Working memory for the longest word: pieces before and after each place, without a token, and
    the tokens of a path."""

    before: LongArray
    after: LongArray
    without: LongArray
    path: LongArray


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def rate_words(
    lattice: WordLattice,
    words: IntArray,
    is_chosen: NDArray[np.bool_],
    sign: int,
    room: Room,
    values: LongArray,
) -> int:
    """Add these words' part of the values of tokens, times the sign. Return the words' pieces."""
    n_pieces = 0
    for word in words:
        start = lattice.ends[word - 1] if word > 0 else 0
        size = lattice.ends[word] - start
        count = lattice.counts[word]
        cut_forward(lattice, start, size, is_chosen, -1, room.before)
        cut_backward(lattice, start, size, is_chosen, room.after)
        fewest = room.before[size]
        n_pieces += count * fewest
        for i in range(size):
            for edge in range(lattice.first_edges[start + i], lattice.first_edges[start + i + 1]):
                token = lattice.tokens[edge]
                if not is_chosen[token]:
                    saved = fewest - room.before[i] - 1 - room.after[i + lattice.sizes[edge]]
                    if saved > 0:
                        values[token] += sign * count * saved

        n_tokens = follow_path(lattice, start, size, is_chosen, room)
        for i in range(n_tokens):
            token = room.path[i]
            cut_forward(lattice, start, size, is_chosen, token, room.without)
            values[token] += sign * count * (room.without[size] - fewest)
    return n_pieces


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def cut_forward(
    lattice: WordLattice,
    start: int,
    size: int,
    is_chosen: NDArray[np.bool_],
    dropped: int,
    pieces: LongArray,
) -> None:
    """Set the fewest pieces before each place of a word, without the token `dropped`."""
    pieces[: size + 1] = _FAR
    pieces[0] = 0
    for i in range(size):
        n = pieces[i] + 1
        pieces[i + 1] = min(pieces[i + 1], n)
        for edge in range(lattice.first_edges[start + i], lattice.first_edges[start + i + 1]):
            token = lattice.tokens[edge]
            if is_chosen[token] and token != dropped:
                to = i + lattice.sizes[edge]
                pieces[to] = min(pieces[to], n)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def cut_backward(
    lattice: WordLattice,
    start: int,
    size: int,
    is_chosen: NDArray[np.bool_],
    pieces: LongArray,
) -> None:
    """Set the fewest pieces after each place of a word."""
    pieces[size] = 0
    for i in range(size - 1, -1, -1):
        n = pieces[i + 1]
        for edge in range(lattice.first_edges[start + i], lattice.first_edges[start + i + 1]):
            if is_chosen[lattice.tokens[edge]]:
                n = min(n, pieces[i + lattice.sizes[edge]])
        pieces[i] = n + 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def follow_path(
    lattice: WordLattice, start: int, size: int, is_chosen: NDArray[np.bool_], room: Room
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
                room.path[n_tokens] = token
                n_tokens += 1
                for other in range(n_tokens - 1):
                    if room.path[other] == token:
                        n_tokens -= 1
                        break
                i += lattice.sizes[edge]
                break
    return n_tokens


class TokenChoice:
    """Chosen tokens, the pieces of all words with them, and the value of each token.

    is_chosen: (n_candidates,)
    values: (n_candidates,) int64, the pieces that change if the token is added or dropped; for a
        token that occurs several times in a word, the sum over its occurrences
    """

    def __init__(self, lattice: WordLattice, chosen: Sequence[int] | NDArray[Any]) -> None:
        n_candidates = int(lattice.tokens.max(initial=-1)) + 1
        n_words = len(lattice.ends)
        longest = int(np.diff(lattice.ends, prepend=0).max(initial=0)) + 1
        self.lattice = lattice
        self.is_chosen = np.zeros(n_candidates, bool)
        self.is_chosen[chosen] = True
        self.values = np.zeros(n_candidates, np.int64)
        self._room = Room(*np.zeros((4, longest), np.int64))
        places = np.repeat(np.arange(len(lattice.first_edges) - 1), np.diff(lattice.first_edges))
        words = np.searchsorted(lattice.ends, places, side="right")
        pairs = np.unique(lattice.tokens.astype(np.int64) * n_words + words)
        self._words = (pairs % n_words).astype(np.int32)
        self._first_words = np.searchsorted(pairs, np.arange(n_candidates + 1) * n_words)
        self.n_pieces = self._rate(np.arange(n_words, dtype=np.int32), 1)

    def _rate(self, words: IntArray, sign: int) -> int:
        n_pieces = rate_words(self.lattice, words, self.is_chosen, sign, self._room, self.values)
        return sign * int(n_pieces)

    def toggle(self, *tokens: int) -> None:
        """Add tokens, or drop those that are chosen."""
        for token in tokens:
            words = self._words[self._first_words[token] : self._first_words[token + 1]]
            self.n_pieces += self._rate(words, -1)
            self.is_chosen[token] ^= True
            self.n_pieces += self._rate(words, 1)

    def exchange(self, most_failures: int) -> int:
        """Exchange tokens until so many exchanges in a row save nothing. Return how many saved pieces.

        One pass adds the token that saves most, and drops the cheapest; the next one drops first. A
        token whose exchange saves nothing is not tried again in its pass.
        """
        n_exchanges = 0
        n_before = -1
        while n_exchanges > n_before:
            n_before = n_exchanges
            n_exchanges += self._exchange_each(self._best, self._cheapest, most_failures)
            n_exchanges += self._exchange_each(self._cheapest, self._best, most_failures)
        return n_exchanges

    def _exchange_each(self, first: Pick, second: Pick, most_failures: int) -> int:
        is_tried = np.zeros(len(self.values), bool)
        nothing = np.zeros(len(self.values), bool)
        n_exchanges = 0
        n_failures = 0
        while n_failures < most_failures:
            tokens = first(is_tried)
            if not tokens:
                break
            n_pieces = self.n_pieces
            self.toggle(*tokens)
            others = second(nothing)
            self.toggle(*others)
            if self.n_pieces < n_pieces:
                n_exchanges += 1
                n_failures = 0
            else:
                n_failures += 1
                is_tried[tokens] = True
                self.toggle(*others)
                self.toggle(*tokens)
        return n_exchanges

    def _best(self, is_excluded: NDArray[np.bool_]) -> list[int]:
        """Return the token that saves most pieces, the first of equal ones, if any saves pieces."""
        tokens = np.flatnonzero(~self.is_chosen & ~is_excluded & (self.values > 0))
        return self._pick(tokens, -self.values[tokens])

    def _cheapest(self, is_excluded: NDArray[np.bool_]) -> list[int]:
        """Return the chosen token whose loss adds the fewest pieces, the first of equal ones."""
        tokens = np.flatnonzero(self.is_chosen & ~is_excluded)
        return self._pick(tokens, self.values[tokens])

    def _pick(self, tokens: LongArray, costs: LongArray) -> list[int]:
        if not len(tokens):
            return []
        return [int(tokens[np.argmin(costs)])]

    def fill(self, n_tokens: int) -> None:
        """Add the best or drop the cheapest tokens, until n_tokens are chosen or no token saves any."""
        nothing = np.zeros(len(self.values), bool)
        n_missing = n_tokens - int(self.is_chosen.sum())
        pick = self._best if n_missing > 0 else self._cheapest
        for _ in range(abs(n_missing)):
            self.toggle(*pick(nothing))
