"""A vocabulary and the counts of a corpus → the vocabulary with fewer ids, and a map from old ids to new ones.

Dropping a token splits each of its n occurrences back into k parts, which costs n (k - 1) more pieces. The cost of a
token only rises as others are dropped, so a heap finds the cheapest token; its cost is updated when it reaches the top.
A dropped token from which other tokens are merged becomes scaffolding. At the end, unneeded merges are removed; because
this changes the pieces of a few words, all pieces are counted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.choose.extend import words_for
from volt.display import counted
from volt.encode.merge_tables import MergedWords, occurrences
from volt.errors import VocabularyError
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


_Entry = tuple[int, int, int]  # added pieces, occurrences, − number of a token


class Drops:
    """The tokens of a vocabulary while some are dropped, numbered as in `MergeTables`.

    retained: whether each token is kept
    in_use: whether each token is kept, or is an intermediate result of merges
    first_parts: the two parts that each token is split back into
    parts: both sides of every merge that makes each token
    needs: how many tokens in use are merged from each token
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
        from volt.kernels.bpe_tables import pairs_met

        merged = MergedWords.of(vocabulary, counts)
        tables = merged.tables
        words = merged.words
        keys = tables.parts.tolist()
        numbers = {token: number for number, token in enumerate(tables.tokens)}
        self.old, self.tokens, self.closed = vocabulary, tables.tokens, closed
        self.retained: list[bool] = (tables.retained > 0).tolist()
        self.in_use = [True] * len(keys)
        self.counts: list[int] = merged.token_counts().tolist()
        unknown = words.symbols < 0
        often = np.repeat(words.counts, np.diff(words.ends, prepend=0))
        symbols = zip(words.symbols[unknown].tolist(), often[unknown].tolist(), strict=True)
        self.n_unknown: int = sum(
            n * len(tables.spell(one)) for one, n in symbols if not tables.is_continued(one)
        )
        self.first_parts = [None if key < 0 else (key >> 32, key & 0xFFFFFFFF) for key in keys]
        self.parts: list[set[int]] = [set() for _ in keys]
        for left, right in vocabulary.merges:
            self.parts[numbers[left + right]] |= {numbers[left], numbers[right]}
        if (
            vocabulary.merging == "ranks"
        ):  # a token may be joined from parts other than those of its merge
            for left, right, rank in zip(
                *(column.tolist() for column in pairs_met(tables.merges)), strict=True
            ):
                self.parts[tables.merges.results[rank]] |= {left, right}
        needed = Counter(chain(*self.parts, map(numbers.__getitem__, vocabulary.scaffolding)))
        self.needs = [needed[number] for number in range(len(keys))]
        always = keep_atoms or vocabulary.pretokenizer.is_bytes
        occur = always | (occurrences(merged.atoms, len(keys)) > 0)
        self.fixed = [
            key < 0 and bool(occur[number]) for number, key in enumerate(keys[: len(tables.codes)])
        ]
        self.fixed += [False] * (len(keys) - len(self.fixed))
        for number in reversed(range(len(keys))):
            if not self.retained[number] and self.first_parts[number] is not None:
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
            if (now := self._entry(number)) > entry:
                heappush(heap, now)
                continue
            self.retained[number] = False
            self._split_back(number)
            n_dropped += 1
            for part in self._released(number):
                if self._may_go(part):
                    heappush(heap, self._entry(part))
        return n_dropped

    def vocabulary(self) -> Vocabulary:
        """Return the remaining vocabulary: kept tokens, the merges that they need, ids without gaps."""
        retained = {token for token, keep in zip(self.tokens, self.retained, strict=True) if keep}
        output = {token for token, is_made in zip(self.tokens, self.in_use, strict=True) if is_made}
        counts = dict(zip(self.tokens, self.counts, strict=True))
        tokens = tuple(token for token in self.old.tokens if token in retained)
        reserved = {
            piece
            for piece, kind in zip(self.old.pieces, self.old.kinds, strict=True)
            if kind != "token"
        }
        return replace(
            self.old,
            merges=tuple(pair for pair in self.old.merges if "".join(pair) in output),
            tokens=tokens,
            counts=tuple(counts[token] for token in tokens),
            order=tuple(
                piece
                for piece in self.old.order
                if piece and (piece in retained or piece in reserved)
            ),
        )

    def _may_go(self, number: int) -> bool:
        if self.fixed[number] or not self.retained[number]:
            return False
        is_part = self.needs[number] > 0
        return not is_part or not (self.closed or self.first_parts[number] is None)

    def _entry(self, number: int) -> _Entry:
        n = self.counts[number]
        return n * (len(self._pieces(number)) - 1), n, -number

    def _pieces(self, number: int) -> list[int]:
        """Return the pieces that a token is split back into; without a merge, the token twice, as its cost."""
        result = list[int]()
        stack = list(self.first_parts[number] or ())
        if not stack:
            return [number, number]
        while stack:
            part = stack.pop()
            within = self.first_parts[part]
            if self.retained[part] or within is None:
                result.append(part)
            else:
                stack += within
        return result

    def _split_back(self, number: int) -> None:
        n, self.counts[number] = self.counts[number], 0
        if self.first_parts[number] is not None:
            for part in self._pieces(number):
                self.counts[part] += n

    def _released(self, number: int) -> list[int]:
        """Stop using a dropped token, and parts that only it needs. Returns tokens that may now be dropped."""
        result = []
        stack = [number]
        while stack:
            token = stack.pop()
            if self.retained[token] or self.needs[token] or not self.in_use[token]:
                result.append(token)
                continue
            self.in_use[token] = False
            for part in self.parts[token]:
                self.needs[part] -= 1
                stack.append(part)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """A vocabulary with fewer ids, and the number of pieces in the corpus before and after.

    new_ids: (n_old_ids,) the new id of each old one, −1 for dropped tokens: copy row i of an embedding to row
        new_ids[i]
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
    counts: the result of `count_words` with the vocabulary's settings, or a mapping of words to their counts
    to: the number of ids, special tokens and bytes included
    closed: whether a token stays if other tokens are merged from it; this avoids new scaffolding, which files of other
        libraries cannot contain
    keep_atoms: whether all atoms stay; otherwise atoms that the corpus lacks may become unknown characters

    Special tokens, byte tokens and the atoms of bytes always stay.
    Raises VocabularyError if the vocabulary has fewer ids than `to`, or if more must stay.
    Raises CorpusError if the words were counted with other settings, or there are no words.

    >>> old = Vocabulary(merges=(("l", "o"), ("lo", "w")), tokens=("l", "o", "w", "lo", "low"), marker="none")
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
        raise _too_few(drops, to, closed=closed, keep_atoms=keep_atoms)
    exact = Drops(drops.vocabulary(), counts)
    values = {"ids": n_ids, "fingerprint": vocabulary.fingerprint, "corpus": counts.fingerprint}
    left = replace(exact.vocabulary(), provenance={**vocabulary.provenance, "shrunk_from": values})
    new_ids = np.array([left.ids.get(piece, -1) for piece in vocabulary.pieces], np.int64)
    return Shrunk(left, new_ids, before, exact.n_pieces)


def _too_few(drops: Drops, to: int, *, closed: bool, keep_atoms: bool) -> VocabularyError:
    left = drops.vocabulary()
    n = len(left.ids)
    kinds = Counter(left.kinds)
    n_atoms = len({*left.atoms} & {*left.tokens})
    n_special = n - kinds["token"] - kinds["byte"] - kinds["marker"]
    parts = [
        (n_special, "special token", ""),
        (kinds["byte"], "byte token", ""),
        (kinds["marker"], "lone end of a word", ""),
        (n_atoms, "atom", ""),
        (
            kinds["token"] - n_atoms,
            "token from which others are merged",
            "tokens from which others are merged",
        ),
    ]
    what = ", ".join(counted(*part) for part in parts if part[0])
    ways = [f"give {n:,} or more", *(["leave out closed"] * closed), *(["pass"] * keep_atoms)]
    return VocabularyError(
        f"to is {to:,}, but at least {counted(n, 'id')} must remain: {what}; {', or '.join(ways)}",
        hint={"keep_atoms": False} if keep_atoms else None,
    )
