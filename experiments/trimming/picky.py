"""Picky BPE (Chizhov, Arnett, Korotkova and Yamshchikov 2024) as it is meant, slowly: removal changes later merges.

A merge of (a, b) that takes at least the share τ of all a removes a, unless it is a character: all that is left of it
is split into the parts of its own merge at once. A later merge may make it again. Learning leaves a list of events,
merges and splits in order, and a text is encoded by going through them.

>>> model = learn({"low": 5, "lower": 2, "newest": 6, "widest": 3}, n_tokens=14, tau=0.9)
>>> [event.thing for event in model.events[:3]], model.removed
([('s', 't</w>'), ('e', 'st</w>'), 'st</w>'], {'st</w>'})
>>> model.encode("newest") == model.pieces["newest"]
True
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from experiments.trimming.removal import check_tau

END = "</w>"
Pair = tuple[str, str]


class Event(NamedTuple):
    """What is replaced, a pair or a token that goes, and by what: what the pair makes, or the parts of the token."""

    thing: Pair | str
    by: tuple[str, ...]

    def applied(self, symbols: Sequence[str]) -> list[str]:
        """The symbols after it, from left to right.

        >>> Event(("a", "a"), ("aa",)).applied(["a", "a", "a"]), Event("ab", ("a", "b")).applied(["ab", "c"])
        (['aa', 'a'], ['a', 'b', 'c'])
        """
        found, i, width = list[str](), 0, 2 if isinstance(self.thing, tuple) else 1
        while i < len(symbols):
            here = tuple(symbols[i : i + 2]) if width == 2 else symbols[i]
            fits = here == self.thing
            found += self.by if fits else symbols[i : i + 1]
            i += width if fits else 1
        return found


@dataclass(frozen=True)
class Picky:
    """What was learned.

    events: merges and splits in order
    tokens: those that are left, characters included
    removed: those that merges made and that are gone
    pieces: the pieces of each word that it was learned from
    """

    events: list[Event]
    tokens: set[str]
    removed: set[str]
    pieces: dict[str, list[str]]

    @cached_property
    def _places(self) -> dict[Pair | str, list[int]]:
        places: dict[Pair | str, list[int]] = defaultdict(list)
        for place, event in enumerate(self.events):
            places[event.thing].append(place)
        return dict(places)

    def encode(self, word: str) -> list[str]:
        """The pieces of a word, which goes through all events in order."""
        symbols, place = atoms(word), -1
        while (place := min(self._next(thing, place) for thing in things(symbols))) < len(self.events):
            symbols = self.events[place].applied(symbols)
        return symbols

    def _next(self, thing: Pair | str, place: int) -> int:
        """Where the first event behind a place replaces this."""
        places = self._places.get(thing, [])
        found = bisect_right(places, place)
        return places[found] if found < len(places) else len(self.events)


def atoms(word: str) -> list[str]:
    """Characters, the last with the end-of-word mark.

    >>> atoms("low")
    ['l', 'o', 'w</w>']
    """
    return [*word[:-1], word[-1] + END]


def things(symbols: Sequence[str]) -> Iterator[Pair | str]:
    """What an event could replace.

    >>> list(things(["a", "b"]))
    ['a', 'b', ('a', 'b')]
    """
    yield from symbols
    yield from pairwise(symbols)


class _Last:
    """A pair that is less than another if it comes behind it: the heap gives the greatest first."""

    __slots__ = ("pair",)

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def __lt__(self, other: _Last) -> bool:
        return self.pair > other.pair


class _Corpus:
    """Words as symbols, with the counts of tokens and pairs, and the words that hold them."""

    def __init__(self, word_counts: Mapping[str, int]) -> None:
        self.words = {word: atoms(word) for word in word_counts}
        self.counts = word_counts
        self.n_tokens, self.n_pairs = Counter[str](), Counter[Pair]()
        self.holding: dict[Pair | str, set[str]] = defaultdict(set)
        self._heap: list[tuple[int, _Last]] = []
        for word, symbols in self.words.items():
            self._count(word, symbols, 1)
        self._push(self.n_pairs)

    def _count(self, word: str, symbols: Sequence[str], sign: int) -> None:
        n = sign * self.counts[word]
        for symbol in symbols:
            self.n_tokens[symbol] += n
        for pair in pairwise(symbols):
            self.n_pairs[pair] += n
        for thing in set(things(symbols)):
            if sign > 0:
                self.holding[thing].add(word)
            else:
                self.holding[thing].discard(word)

    def _push(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            heapq.heappush(self._heap, (-self.n_pairs[pair], _Last(pair)))

    def best(self) -> Pair | None:
        """The pair of the greatest (count, left, right) that occurs twice."""
        while self._heap:
            n, last = heapq.heappop(self._heap)
            makes_end = "".join(last.pair).endswith(END) and not last.pair[1].endswith(END)
            if -n == self.n_pairs[last.pair] and n <= -2 and not makes_end:
                return last.pair
        return None

    def change(self, event: Event) -> None:
        """Apply an event to all words that hold what it replaces."""
        touched = set[Pair]()
        for word in list(self.holding[event.thing]):
            old, new = self.words[word], event.applied(self.words[word])
            self._count(word, old, -1)
            self._count(word, new, 1)
            self.words[word] = new
            touched |= {*pairwise(old), *pairwise(new)}
        self._push(touched)


def learn(word_counts: Mapping[str, int], *, n_tokens: int, tau: float) -> Picky:
    """Merge and remove until there are n_tokens, characters included, or nothing is left to merge.

    Raises ConfigError if tau is outside (0, 1].
    """
    check_tau(tau)
    corpus, events, parts = _Corpus(word_counts), list[Event](), dict[str, Pair]()
    present = set(corpus.n_tokens)
    while len(present) < n_tokens and (pair := corpus.best()):
        made, before = "".join(pair), {token: corpus.n_tokens[token] for token in pair}
        events.append(Event(pair, (made,)))
        corpus.change(events[-1])
        parts.setdefault(made, pair)
        present.add(made)
        taken = {token: n - corpus.n_tokens[token] for token, n in before.items()}
        for token in before:
            if token in parts and taken[token] >= tau * before[token]:
                present.discard(token)
                events.append(Event(token, tuple(_spread(token, parts, present))))
                corpus.change(events[-1])
    return Picky(events, present, set(parts) - present, corpus.words)


def _spread(token: str, parts: Mapping[str, Pair], present: set[str]) -> list[str]:
    """The parts of a token's first merge, and theirs where they are gone."""
    if token in present or token not in parts:
        return [token]
    return [piece for part in parts[token] for piece in _spread(part, parts, present)]
