"""A vocabulary and the counts of a corpus → a vocabulary with fewer ids, and a map to the new ids.

Dropping a token splits each of its n occurrences back into k parts, which costs n (k - 1) more
pieces. The cost of a token only rises as others are dropped, so a heap finds the cheapest token;
its cost is updated when it reaches the top. A dropped token from which other tokens are merged
becomes scaffolding. At the end, unneeded merges are removed; because this changes the pieces of a
few words, all pieces are counted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import chain, compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.choose.extend import words_for
from volt.display import counted
from volt.encode.merged_words import MergedWords, count_symbols
from volt.errors import VocabularyError
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


_Entry = tuple[int, int, int]  # added pieces, occurrences, − number of a token


class Drops:
    """The tokens of a vocabulary while some are dropped, numbered as in `MergeTables`.

    retained: whether each token is kept
    in_use: whether each token is kept, or is an intermediate result of merges
    counts: how often each token occurs
    n_unknown: how many pieces are unknown
    first_parts: the two parts that each token is split back into
    parts: both sides of every merge that makes each token
    needs: how many tokens in use are merged from each token
    fixed: whether each token must stay
    closed: whether a token that other tokens need must stay
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        counts: WordCounts,
        *,
        closed: bool = False,
        keep_atoms: bool = True,
    ) -> None:
        merged = MergedWords.of(vocabulary, counts)
        tables = merged.tables
        keys = tables.parts.tolist()
        self.old = vocabulary
        self.tokens = tables.tokens
        self.closed = closed
        self.retained: list[bool] = (tables.retained > 0).tolist()
        self.in_use = [True] * len(keys)
        self.counts: list[int] = merged.token_counts().tolist()
        self.n_unknown = _unknown_pieces(merged)
        self.first_parts = [(key >> 32, key & 0xFFFFFFFF) if key >= 0 else None for key in keys]
        self.parts = _parts(merged, vocabulary)

        numbers = {token: number for number, token in enumerate(tables.tokens)}
        needed = Counter(chain(*self.parts, map(numbers.__getitem__, vocabulary.scaffolding)))
        self.needs = [needed[number] for number in range(len(keys))]

        stays = tables.parts < 0
        stays[len(tables.codes) :] = False
        if not (keep_atoms or vocabulary.pretokenizer.is_bytes):
            stays &= count_symbols(merged.atoms, len(keys)) > 0
        self.fixed = stays.tolist()
        for number in reversed(range(len(keys))):
            if not self.retained[number] and self.first_parts[number]:
                self._split_back(number)

    @property
    def n_pieces(self) -> int:
        return sum(self.counts) + self.n_unknown

    def drop(self, n: int) -> int:
        """Drop up to n tokens, the cheapest first. Returns how many were dropped."""
        heap = [self._entry(number) for number in range(len(self.tokens)) if self._may_go(number)]
        heapify(heap)
        n_dropped = 0
        while heap and n_dropped < n:
            entry = heappop(heap)
            number = -entry[2]
            if not self._may_go(number):
                continue  # already dropped: it had two entries
            current = self._entry(number)
            if current > entry:
                heappush(heap, current)
                continue

            self.retained[number] = False
            self._split_back(number)
            n_dropped += 1
            for part in self._released(number):
                if self._may_go(part):
                    heappush(heap, self._entry(part))
        return n_dropped

    def vocabulary(self) -> Vocabulary:
        """Return the remaining vocabulary: kept tokens, their merges, ids without gaps."""
        old = self.old
        retained = set(compress(self.tokens, self.retained))
        in_use = set(compress(self.tokens, self.in_use))
        counts = dict(zip(self.tokens, self.counts, strict=True))
        tokens = tuple(token for token in old.tokens if token in retained)
        pieces = zip(old.pieces, old.kinds, strict=True)
        retained.update(piece for piece, kind in pieces if kind != "token")
        return replace(
            old,
            merges=tuple(pair for pair in old.merges if "".join(pair) in in_use),
            tokens=tokens,
            counts=tuple(counts[token] for token in tokens),
            order=tuple(piece for piece in old.order if piece and piece in retained),
        )

    def _may_go(self, number: int) -> bool:
        if self.fixed[number] or not self.retained[number]:
            return False
        must_be_made = self.closed or self.first_parts[number] is None
        return not (must_be_made and self.needs[number])

    def _entry(self, number: int) -> _Entry:
        n = self.counts[number]
        return n * (len(self._pieces(number)) - 1), n, -number

    def _pieces(self, number: int) -> list[int]:
        """Return the pieces that a token is split back into.

        A token without a merge costs as much as two pieces, so it is returned twice.
        """
        pieces = list[int]()
        stack = list(self.first_parts[number] or ())
        if not stack:
            return [number, number]
        while stack:
            part = stack.pop()
            parts = self.first_parts[part]
            if self.retained[part] or parts is None:
                pieces.append(part)
            else:
                stack += parts
        return pieces

    def _split_back(self, number: int) -> None:
        n = self.counts[number]
        self.counts[number] = 0
        if self.first_parts[number] is not None:
            for part in self._pieces(number):
                self.counts[part] += n

    def _released(self, number: int) -> list[int]:
        """Stop using a dropped token, and parts that only it needs.

        Returns tokens that may now be dropped.
        """
        released = []
        stack = [number]
        while stack:
            token = stack.pop()
            if self.retained[token] or self.needs[token] or not self.in_use[token]:
                released.append(token)
                continue
            self.in_use[token] = False
            for part in self.parts[token]:
                self.needs[part] -= 1
                stack.append(part)
        return released


def _unknown_pieces(merged: MergedWords) -> int:
    """Return how many pieces of all words are unknown."""
    words = merged.words
    is_unknown = words.symbols < 0
    counts = np.repeat(words.counts, np.diff(words.ends, prepend=0))[is_unknown]
    n_pieces = 0
    for symbol, count in zip(words.symbols[is_unknown].tolist(), counts.tolist(), strict=True):
        if not merged.tables.is_continued(symbol):
            n_pieces += count * len(merged.tables.spell(symbol))
    return n_pieces


def _parts(merged: MergedWords, vocabulary: Vocabulary) -> list[set[int]]:
    """Return the tokens from which each token is merged."""
    from volt.kernels.bpe_tables import pairs_met

    tables = merged.tables
    numbers = {token: number for number, token in enumerate(tables.tokens)}
    parts: list[set[int]] = [set() for _ in tables.tokens]
    for left, right in vocabulary.merges:
        parts[numbers[left + right]] |= {numbers[left], numbers[right]}
    if vocabulary.merging == "ranks":  # other pairs may join into a token, too
        for left, right, rank in np.stack(pairs_met(tables.merges), axis=1).tolist():
            parts[tables.merges.results[rank]] |= {left, right}
    return parts


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """A vocabulary with fewer ids, and the number of pieces in the corpus before and after.

    new_ids: (n_old_ids,) the new id of each old one, −1 for dropped tokens: copy row i of an
        embedding to row new_ids[i]
    """

    vocabulary: Vocabulary
    new_ids: NDArray[np.int64]
    n_pieces_before: int
    n_pieces: int

    def __repr__(self) -> str:
        ids = f"{len(self.vocabulary):,} of {counted(len(self.new_ids), 'id')}"
        return f"<Shrunk: {ids}, {self.n_pieces:,} pieces instead of {self.n_pieces_before:,}>"


def shrink(
    vocabulary: Vocabulary,
    counts: WordCounts | Mapping[str, int],
    *,
    to: int,
    closed: bool = False,
    keep_atoms: bool = True,
) -> Shrunk:
    """Drop the tokens whose loss adds the fewest pieces to a corpus, until `to` ids are left.

    vocabulary: the vocabulary to shrink, perhaps another library's, or pruned
    counts: the result of `count_words` with the vocabulary's settings, or a mapping of words to
        their counts
    to: the number of ids, special tokens and bytes included
    closed: whether a token stays if other tokens are merged from it; this avoids new scaffolding,
        which files of other libraries cannot contain
    keep_atoms: whether all atoms stay; otherwise atoms that the corpus lacks may become unknown
        characters

    Special tokens, byte tokens and the atoms of bytes always stay.
    Raises VocabularyError if the vocabulary has fewer ids than `to`, or if more must stay.
    Raises CorpusError if the words were counted with other settings, or there are no words.

    >>> merges = (("l", "o"), ("lo", "w"))
    >>> old = Vocabulary(merges=merges, tokens=("l", "o", "w", "lo", "low"), marker="none")
    >>> shrink(old, {"low": 9, "lo": 3}, to=8)
    <Shrunk: 8 of 9 ids, 15 pieces instead of 12>
    """
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    counts = words_for(vocabulary, counts)
    to = arguments.whole(to, "to", low=1)
    n_ids = len(vocabulary.ids)
    if to > n_ids:
        raise VocabularyError(
            f"to is {to:,}, but the vocabulary has {counted(n_ids, 'id')}; give {n_ids:,} or fewer"
        )
    drops = Drops(vocabulary, counts, closed=closed, keep_atoms=keep_atoms)
    before = drops.n_pieces
    if drops.drop(n_ids - to) < n_ids - to:
        raise _too_few(drops.vocabulary(), to, closed=closed, keep_atoms=keep_atoms)

    exact = Drops(drops.vocabulary(), counts)
    origin = {"ids": n_ids, "fingerprint": vocabulary.fingerprint, "corpus": counts.fingerprint}
    provenance = {**vocabulary.provenance, "shrunk_from": origin}
    smaller = replace(exact.vocabulary(), provenance=provenance)
    new_ids = np.array([smaller.ids.get(piece, -1) for piece in vocabulary.pieces], np.int64)
    return Shrunk(smaller, new_ids, before, exact.n_pieces)


def _too_few(smallest: Vocabulary, to: int, *, closed: bool, keep_atoms: bool) -> VocabularyError:
    n = len(smallest.ids)
    kinds = Counter(smallest.kinds)
    n_atoms = len({*smallest.atoms} & {*smallest.tokens})
    n_special = n - kinds["token"] - kinds["byte"] - kinds["marker"]
    n_needed = kinds["token"] - n_atoms
    others = "from which others are merged"
    parts = [
        (n_special, "special token", ""),
        (kinds["byte"], "byte token", ""),
        (kinds["marker"], "lone end of a word", ""),
        (n_atoms, "atom", ""),
        (n_needed, f"token {others}", f"tokens {others}"),
    ]
    stays = ", ".join(counted(*part) for part in parts if part[0])
    remedies = f"give {n:,} or more"
    if closed:
        remedies += ", or leave out closed"
    hint = None
    if keep_atoms:
        remedies += ", or pass"
        hint = {"keep_atoms": False}
    return VocabularyError(
        f"to is {to:,}, but at least {counted(n, 'id')} must remain: {stays}; {remedies}", hint=hint
    )
