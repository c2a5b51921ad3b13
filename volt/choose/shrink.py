"""A vocabulary and word counts → a vocabulary with fewer ids, and a map from old ids to new ones.

If a token is dropped, each of its n occurrences is split back into k parts, which costs n (k − 1)
more pieces. The cheapest token is dropped first. Dropping a token makes others only dearer (their
parts occur more often, and fall into more pieces), so a heap of costs suffices: if the entry at the
top is out of date, it is pushed again with the current cost.

    tokens    count   parts     cost                    low 9×, lo 3×
    low           9   lo w      9 (2 − 1) = 9           n_pieces 12
    lo            3   l o       3 (2 − 1) = 3  dropped  n_pieces 15; now low → l o w costs 18

A dropped token from which kept tokens are merged becomes scaffolding: its merge stays, but not its
id. At the end, unneeded merges are removed. This may change the pieces of a few words, so all words
are counted again.

In a unigram model, dropping a token costs each of its n occurrences the difference between its score
and the sum of the other tokens that then spell it. These costs, too, only grow.

    tokens    count   score   other path     cost
    ▁low          9      −4   ▁l −3, ow −2   9 · 1 = 9
    ▁lo           3      −4   ▁l −3, o −4    3 · 3 = 9
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import chain, compress
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.choose.extend import words_for
from volt.display import counted
from volt.encode.merge_tables import MergedWords, check_same_words, count_symbols
from volt.encode.score_tables import ScoreTables
from volt.encode.word_tables import WordTables, join_words
from volt.errors import VocabularyError
from volt.kernels.arrays import Words
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


# Cost in pieces or nats, count, −token: of equal costs, the last token first
_Entry = tuple[float, int, int]


class DroppedTokens:
    """The state of a vocabulary while tokens are dropped. A token is its number in `MergeTables`.

    Lists have one entry for each token:

    retained: whether the token has an id
    in_use: whether it is retained, or a retained token is merged from it
    counts: how often it occurs
    split_into: the two parts that it is split back into; None for an atom
    parts: both sides of every merge that makes it
    n_needing: how many tokens in use are merged from it
    is_fixed: whether it must stay
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        counts: WordCounts,
        *,
        closed: bool = False,
        keep_atoms: bool = True,
    ) -> None:
        words = MergedWords.of(vocabulary, counts)
        tables = words.tables
        keys = tables.parts.tolist()  # left << 32 | right, or negative for an atom
        n_tokens = len(keys)
        self.old = vocabulary
        self.tokens = tables.tokens
        self.closed = closed
        self.retained: list[bool] = (tables.retained > 0).tolist()
        self.in_use = [True] * n_tokens
        self.counts: list[int] = words.token_counts().tolist()
        self.n_unknown = _count_unknown_pieces(tables, words.words)
        self.split_into = [(key >> 32, key & 0xFFFFFFFF) if key >= 0 else None for key in keys]
        self.parts = _collect_parts(words, vocabulary)

        token_of = {text: token for token, text in enumerate(tables.tokens)}
        needed = Counter(chain(*self.parts, map(token_of.__getitem__, vocabulary.scaffolding)))
        self.n_needing = [needed[token] for token in range(n_tokens)]

        is_fixed = tables.parts < 0
        is_fixed[len(tables.codes) :] = False
        if not (keep_atoms or vocabulary.pretokenizer.is_bytes):
            is_fixed &= count_symbols(words.atoms, n_tokens) > 0
        self.is_fixed = is_fixed.tolist()
        for token in reversed(range(n_tokens)):
            if not self.retained[token] and self.split_into[token]:
                self._split_back(token)

    @property
    def n_pieces(self) -> int:
        return sum(self.counts) + self.n_unknown

    def drop(self, n: int) -> int:
        """Drop up to n tokens, the cheapest first. Return how many were dropped."""
        heap = []
        for token in range(len(self.tokens)):
            if self._may_go(token):
                heap.append(self._entry(token))
        heapify(heap)
        n_dropped = 0
        while heap and n_dropped < n:
            entry = heappop(heap)
            token = -entry[2]
            if not self._may_go(token):
                continue  # it had two entries, and was dropped by the other
            current = self._entry(token)
            if current > entry:
                heappush(heap, current)
                continue

            self.retained[token] = False
            self._split_back(token)
            n_dropped += 1
            for part in self._stop_using(token):
                if self._may_go(part):
                    heappush(heap, self._entry(part))
        return n_dropped

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary of the retained tokens and the merges in use. Ids have no gaps."""
        old = self.old
        retained = set(compress(self.tokens, self.retained))
        in_use = set(compress(self.tokens, self.in_use))
        counts = dict(zip(self.tokens, self.counts, strict=False))
        tokens = tuple(token for token in old.tokens if token in retained)
        dropped = {*old.tokens} - retained
        return replace(
            old,
            merges=tuple(pair for pair in old.merges if "".join(pair) in in_use),
            tokens=tokens,
            scores=tuple(compress(old.scores, map(retained.__contains__, old.tokens))),
            counts=tuple(counts[token] for token in tokens),
            order=tuple(piece for piece in old.order if piece and piece not in dropped),
        )

    def _may_go(self, token: int) -> bool:
        if self.is_fixed[token] or not self.retained[token]:
            return False
        has_to_exist = self.closed or self.split_into[token] is None
        return not (has_to_exist and self.n_needing[token])

    def _entry(self, token: int) -> _Entry:
        count = self.counts[token]
        return count * (len(self._split(token)) - 1), count, -token

    def _split(self, token: int) -> list[int]:
        """Return the retained pieces that a token is split back into.

        An atom cannot be split. It is returned twice, so that dropping it costs one piece.
        """
        pieces = list[int]()
        stack = list(self.split_into[token] or ())
        if not stack:
            return [token, token]
        while stack:
            part = stack.pop()
            parts = self.split_into[part]
            if self.retained[part] or parts is None:
                pieces.append(part)
            else:
                stack += parts
        return pieces

    def _split_back(self, token: int) -> None:
        """Move the count of a token to its pieces; an atom's count is lost."""
        count = self.counts[token]
        self.counts[token] = 0
        if self.split_into[token] is not None:
            for piece in self._split(token):
                self.counts[piece] += count

    def _stop_using(self, token: int) -> list[int]:
        """Stop using a dropped token, and the parts that nothing else needs.

        Return the tokens that stay in use; some of them may now be dropped.
        """
        still_in_use = []
        stack = [token]
        while stack:
            token = stack.pop()
            if self.retained[token] or self.n_needing[token] or not self.in_use[token]:
                still_in_use.append(token)
                continue
            self.in_use[token] = False
            for part in self.parts[token]:
                self.n_needing[part] -= 1
                stack.append(part)
        return still_in_use


class DroppedPieces(DroppedTokens):
    """The state of a unigram model while tokens are dropped; see `DroppedTokens`.

    The last entry of `counts` and `scores`, with the index −1, belongs to unknown characters.

    scores: the score of each token
    token_of: text → token
    """

    def __init__(
        self, vocabulary: Vocabulary, counts: WordCounts, *, keep_atoms: bool = True, **_: bool
    ) -> None:
        check_same_words(vocabulary, counts)
        tables = ScoreTables.of(vocabulary)
        words = Words(*tables.segment(*join_words(counts.words)), counts.counts)
        n_tokens = len(tables.tokens)
        self.old = vocabulary
        self.tokens = tables.tokens
        self.closed = False
        self.retained = [True] * n_tokens
        self.in_use = [True] * n_tokens
        self.counts = [*count_symbols(words, n_tokens).tolist(), 0]
        self.n_unknown = _count_unknown_pieces(tables, words)
        self.split_into = [(-1, -1)] * n_tokens  # not used
        self.parts = [set() for _ in range(n_tokens)]
        self.n_needing = [0] * n_tokens
        self.scores: list[float] = tables.trie.scores.tolist()
        self.scores.append(float(tables.trie.unknown))
        self.token_of = {text: token for token, text in enumerate(self.tokens)}

        characters = set("".join(counts.words))
        self.is_fixed = [score > 0 for score in self.scores]  # sentencepiece's user-defined symbols
        for token in range(len(tables.codes)):
            self.is_fixed[token] |= keep_atoms or self.tokens[token] in characters

    def _entry(self, token: int) -> _Entry:
        count = self.counts[token]
        total = sum(self.scores[piece] for piece in self._split(token))
        return count * (self.scores[token] - total), count, -token

    def _split(self, token: int) -> list[int]:
        """Return the other retained tokens of the best path through a token; −1 is unknown."""
        text = self.tokens[token]
        sums = [0.0]
        last_pieces = [(0, -1)]  # at each place, the start and the number of the best last piece
        for end in range(1, len(text) + 1):
            sums.append(sums[end - 1] + self.scores[-1])
            last_pieces.append((end - 1, -1))
            for start in range(end):
                piece = self.token_of.get(text[start:end], token)
                if piece == token or not self.retained[piece]:
                    continue
                total = sums[start] + self.scores[piece]
                if total > sums[end]:
                    sums[end] = total
                    last_pieces[end] = (start, piece)

        pieces = []
        end = len(text)
        while end:
            end, piece = last_pieces[end]
            pieces.append(piece)
        return pieces


def _start(
    vocabulary: Vocabulary, counts: WordCounts, *, closed: bool = False, keep_atoms: bool = True
) -> DroppedTokens:
    kind = DroppedPieces if vocabulary.is_unigram else DroppedTokens
    return kind(vocabulary, counts, closed=closed, keep_atoms=keep_atoms)


def _count_unknown_pieces(tables: WordTables, words: Words) -> int:
    is_unknown = words.symbols < 0
    counts = np.repeat(words.counts, np.diff(words.ends, prepend=0))[is_unknown]
    n_pieces = 0
    symbols = words.symbols[is_unknown]
    for symbol, count in zip(symbols.tolist(), counts.tolist(), strict=True):
        if not tables.is_continued(symbol):
            n_pieces += count * len(tables.spell(symbol))
    return n_pieces


def _collect_parts(merged: MergedWords, vocabulary: Vocabulary) -> list[set[int]]:
    """Return for each token the tokens from which merges make it."""
    from volt.kernels.bpe_tables import pairs_met

    tables = merged.tables
    token_of = {text: token for token, text in enumerate(tables.tokens)}
    parts: list[set[int]] = [set() for _ in tables.tokens]
    for left, right in vocabulary.merges:
        parts[token_of[left + right]] |= {token_of[left], token_of[right]}
    if vocabulary.merging == "ranks":  # other pairs may join into a token, too
        for left, right, rank in np.stack(pairs_met(tables.merges), axis=1).tolist():
            parts[tables.merges.results[rank]] |= {left, right}
    return parts


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """A vocabulary with fewer ids.

    new_ids: (n_old_ids,) int64, the new id of each old id, −1 for a dropped token; row i of an
        embedding becomes row new_ids[i]
    n_pieces_before, n_pieces: the number of pieces of the corpus with the old and new vocabulary
    n_unknown: the unknown pieces among the new ones
    """

    vocabulary: Vocabulary
    new_ids: Longs
    n_pieces_before: int
    n_pieces: int
    n_unknown: int = 0

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
    """Drop the tokens that a corpus needs least, until `to` ids are left.

    The loss of the first token adds the fewest pieces to the corpus, or in a unigram model, costs it
    the least log probability.

    vocabulary: the vocabulary to shrink, perhaps another library's, or pruned
    counts: the result of `count_words` with the vocabulary's settings, or a mapping of words to
        their counts
    to: the number of ids, special tokens and bytes included
    closed: whether a token stays if other tokens are merged from it; this avoids new scaffolding,
        which files of other libraries cannot contain. A unigram model has none
    keep_atoms: whether all atoms stay; otherwise atoms that the corpus lacks may become unknown
        characters

    Special tokens, byte tokens, the atoms of bytes and tokens with a score above 0, which are
    user-defined symbols of sentencepiece, always stay.
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
    state = _start(vocabulary, counts, closed=closed, keep_atoms=keep_atoms)
    n_pieces_before = state.n_pieces
    if state.drop(n_ids - to) < n_ids - to:
        raise _too_many_stay(state.vocabulary(), to, closed=closed, keep_atoms=keep_atoms)

    exact = _start(state.vocabulary(), counts)
    origin = {"ids": n_ids, "fingerprint": vocabulary.fingerprint, "corpus": counts.fingerprint}
    provenance = {**vocabulary.provenance, "shrunk_from": origin}
    smaller = replace(exact.vocabulary(), provenance=provenance)
    ids = [smaller.ids.get(piece, -1) for piece in vocabulary.pieces]
    new_ids = np.array(ids, np.int64)
    return Shrunk(smaller, new_ids, n_pieces_before, exact.n_pieces, exact.n_unknown)


def _too_many_stay(
    smallest: Vocabulary, to: int, *, closed: bool, keep_atoms: bool
) -> VocabularyError:
    """Return the error for a vocabulary that cannot have only `to` ids. smallest: what remains"""
    n = len(smallest.ids)
    kinds = Counter(smallest.kinds)
    n_atoms = len({*smallest.atoms} & {*smallest.tokens})
    n_special = n - kinds["token"] - kinds["byte"] - kinds["marker"]
    n_needed = kinds["token"] - n_atoms
    others = "from which others are merged"
    if smallest.is_unigram:
        others = "with a score above 0"
    parts = [
        (n_special, "special token", ""),
        (kinds["byte"], "byte token", ""),
        (kinds["marker"], "lone end of a word", ""),
        (n_atoms, "atom", ""),
        (n_needed, f"token {others}", f"tokens {others}"),
    ]
    stays = ", ".join(counted(*part) for part in parts if part[0])
    remedies = f"give {n:,} or more"
    if closed and not smallest.is_unigram:
        remedies += ", or leave out closed"
    hint = None
    if keep_atoms:
        remedies += ", or pass"
        hint = {"keep_atoms": False}
    return VocabularyError(
        f"to is {to:,}, but at least {counted(n, 'id')} must remain: {stays}; {remedies}", hint=hint
    )
