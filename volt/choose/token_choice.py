"""A search's result → a vocabulary of as many ids, with tokens that cut the words into fewer pieces.

Each word is cut into the fewest pieces that tokens and atoms allow. Starting from BPE's tokens, an
*exchange* adds one token and drops another, if that saves pieces:

    words abc 9×, ab 4×, room for one token      pieces
    ab                                           9 · 2 + 4 · 1 = 22
    add abc, drop ab                             9 · 1 + 4 · 2 = 17

Tokens are tried in the order of their values (volt.kernels.token_values), and only words that contain
a token are cut again. Any token within words is a candidate, if it occurs more than half as often as
BPE's last merge. Rarer tokens would save pieces of the counted text, but not of other text.

The vocabulary is a unigram model in which every token scores −1, so that the best path is the shortest.
Of two shortest paths, the one with the longer last piece wins, or if these are equal, the one with
the longer piece before it, and so on, as in sentencepiece and `tokenizers`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.array_types import Flags, Ints, Longs
from volt.choose.certificate import LONGEST, build_lattice
from volt.choose.search import SearchResult
from volt.choose.size_steps import SearchParameters, SizeStep, checked_parameters, size_steps
from volt.encode.merge_tables import count_symbols
from volt.encode.score_tables import ScoreTables
from volt.errors import CandidateError
from volt.kernels.arrays import Words
from volt.kernels.token_values import Room, find_best, find_cheapest, rate_words
from volt.learn.bpe import split_into_atoms
from volt.learn.candidates import Candidates, Extended, Trajectory
from volt.text.atoms import atom_text, token_lengths
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.piece_bound import WordLattice

Report = Callable[[int], object]
Find = Callable[[Longs, Flags, Flags], int]  # see find_best and find_cheapest

MOST_FAILURES = 100  # exchanges in a row that save nothing, before a pass ends
_NEVER = -(1 << 60)  # the value of a token that may not be chosen


def choose_tokens(
    result: SearchResult,
    *,
    parameters: SearchParameters | None = None,
    report: Report | None = None,
) -> SearchResult:
    """Return a result whose vocabulary has as many ids, and tokens chosen for few pieces.

    The vocabulary is a unigram model without merges: it cuts words into the fewest pieces. Rules, picks
    and the other sizes are those of BPE.

    result: of `search`, with candidates from `learn_bpe` or `replay_bpe` without a marker
    parameters: as for `search`
    report: called with the number of tokens that were exchanged
    Raises CandidateError if words have a marker, or the candidates extend a vocabulary, are in
    parity, or have superwords.

    >>> from volt.choose.search import search
    >>> from volt.learn.bpe import learn_bpe
    >>> result = search(learn_bpe({"abc": 9, "ab": 4}, marker="none"), sizes=[4], select=4)
    >>> choose_tokens(result).vocabulary.tokens, result.best.n_pieces, choose_tokens(result).best.n_pieces
    (('a', 'b', 'c', 'abc'), 22, 17)
    """
    result = arguments.instance(result, SearchResult, "result")
    parameters = checked_parameters(parameters)
    report = arguments.function(report, "report")
    candidates = result.candidates
    _check_origin(candidates)
    merged = result.vocabulary
    reserved = set(merged.pieces) - set(merged.tokens)
    atoms = candidates.tokens[: candidates.n_atoms]
    first = dict.fromkeys(token for token in merged.tokens if len(token) > 1)

    words = Words(*split_into_atoms(candidates.counts, "none", candidates.coverage))
    n_merges = candidates.merges_at(result.best.size)
    last_gain = int(candidates.gains()[:n_merges][-1:].sum())  # 0 without merges
    least_count = 1 + last_gain // 2
    chosen = _exchange_tokens(first, reserved, words, least_count, report)
    counts = _count_tokens((*atoms, *chosen), words)
    if counts.sum() > result.best.n_pieces:  # because long words were cut for the choice
        chosen = [*first]
        counts = _count_tokens((*atoms, *chosen), words)
    tokens = (*atoms, *chosen)

    signature = result.signature.replace("|merges:", "|tokens:optimal|merges:")
    count_of = {}
    for token, count in zip(tokens, counts.tolist(), strict=True):
        if token not in reserved:
            count_of[token] = count
    vocabulary = replace(
        merged,
        merges=(),
        tokens=tuple(count_of),
        counts=tuple(count_of.values()),
        scores=(-1.0,) * len(count_of),
        fuse_unk=True,  # as in sentencepiece and tokenizers
        provenance={**merged.provenance, "signature": signature},
    )
    return replace(
        result,
        best=_measure(candidates, vocabulary, tokens, counts, parameters),
        merged=result.best,
        vocabulary=vocabulary,
        signature=signature,
    )


def _check_origin(candidates: Candidates) -> None:
    """Raise CandidateError if tokens cannot be chosen in place of these candidates."""
    if candidates.marker != "none":
        message = (
            f"marker {candidates.marker!r} is for merges; tokens are chosen in place of merges without a "
            "marker, which are learned from words that contain their spaces: count words with"
        )
        raise CandidateError(message, hint={"pretokenizer": "metaspace"})
    if candidates.extends or candidates.parity or candidates.superwords:
        raise CandidateError(
            "tokens are chosen within words, for all of a text, in place of BPE's; give candidates "
            "from learn_bpe, not ones that extend a vocabulary, are in parity, or have superwords"
        )


def _exchange_tokens(
    first: Collection[str],
    reserved: Collection[str],
    words: Words,
    least_count: int,
    report: Report | None,
) -> list[str]:
    """Return as many tokens as given, that cut the words into fewer pieces.

    first: the tokens to start with
    reserved: strings that may not be tokens
    words: as codes of atoms
    least_count: how often tokens must occur
    """
    lattice = build_lattice(_cut_long_words(words), 1, least_count=least_count)
    texts = list_texts(lattice, words.symbols)
    is_first = np.array([text in first for text in texts], bool)
    is_reserved = np.array([text in reserved for text in texts], bool)
    choice = TokenChoice(
        lattice,
        np.flatnonzero(is_first),
        excluded=np.flatnonzero(is_reserved),
    )
    choice.fill(len(first))
    choice.exchange(MOST_FAILURES, report)
    return list(compress(texts, choice.is_chosen))


def _cut_long_words(words: Words) -> Words:
    """Cut words of more than LONGEST symbols into parts of this length, which a lattice can hold."""
    sizes = np.diff(words.ends, prepend=0)
    starts = np.repeat(words.ends - sizes, sizes)
    places = np.arange(len(words.symbols)) - starts
    is_last = places % LONGEST == LONGEST - 1
    is_last[words.ends - 1] = True
    ends = np.flatnonzero(is_last) + 1
    counts = np.repeat(words.counts, sizes)
    return Words(words.symbols, ends, counts[is_last])


def list_texts(lattice: WordLattice, symbols: Longs) -> list[str]:
    """Return the string of each candidate of a lattice.

    symbols: (n_places,) the codes of the words' atoms, without a marker
    """
    _, first_edges = np.unique(lattice.tokens, return_index=True)
    starts = np.searchsorted(lattice.first_edges, first_edges, side="right") - 1
    ends = starts + lattice.sizes[first_edges]
    text = "".join(map(atom_text, symbols.tolist()))  # without a marker, an atom is one character
    texts = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        texts.append(text[start:end])
    return texts


class TokenChoice:
    """Chosen tokens, the pieces of all words with them, and the value of each token.

    lattice: of the words; its candidates have the numbers 0 … n_candidates − 1
    chosen, excluded: the candidates that are chosen first, and those that are never chosen
    is_chosen: (n_candidates,)
    values: (n_candidates,) int64, see volt.kernels.token_values
    n_pieces: of all words
    """

    def __init__(
        self,
        lattice: WordLattice,
        chosen: Longs,
        *,
        excluded: Longs | None = None,
    ) -> None:
        n_candidates = int(lattice.tokens.max(initial=-1)) + 1
        n_words = len(lattice.ends)
        sizes = np.diff(lattice.ends, prepend=0)
        self.lattice = lattice
        self.is_chosen = np.zeros(n_candidates, bool)
        self.is_chosen[chosen] = True
        self.values = np.zeros(n_candidates, np.int64)
        if excluded is not None:
            self.values[excluded] = _NEVER
        room = int(sizes.max(initial=0)) + 1
        self._room = Room(
            before=np.zeros(room, np.int64),
            after=np.zeros(room, np.int64),
            without=np.zeros(room, np.int64),
            path=np.zeros(room, np.int64),
        )
        self._words, self._word_ends = _list_words(lattice, n_candidates)
        self.n_pieces = self._rate(np.arange(n_words, dtype=np.int32), 1)

    def _rate(self, words: Ints, sign: int) -> int:
        n_pieces = rate_words(self.lattice, words, self.is_chosen, sign, self._room, self.values)
        return sign * n_pieces

    def toggle(self, token: int) -> None:
        """Add a token, or drop it if it is chosen."""
        start = self._word_ends[token - 1] if token else 0
        words = self._words[start : self._word_ends[token]]
        self.n_pieces += self._rate(words, -1)
        self.is_chosen[token] ^= True
        self.n_pieces += self._rate(words, 1)

    def fill(self, n_tokens: int) -> None:
        """Add the best or drop the cheapest tokens until n_tokens are chosen, or all are."""
        is_tried = np.zeros(len(self.values), bool)
        n_missing = n_tokens - int(self.is_chosen.sum())
        find = find_best if n_missing > 0 else find_cheapest
        for _ in range(abs(n_missing)):
            token = find(self.values, self.is_chosen, is_tried)
            if token >= 0:
                self.toggle(token)

    def exchange(self, most_failures: int, report: Report | None = None) -> int:
        """Exchange tokens until so many exchanges in a row save nothing. Return how many saved pieces.

        One pass adds the token that saves most, and drops the cheapest; the next one drops first. A
        token whose exchange saves nothing is not tried again in its pass.

        report: called with the number of exchanges so far
        """
        n_exchanges = 0
        n_before = -1
        passes = (find_best, find_cheapest), (find_cheapest, find_best)
        while n_exchanges > n_before:
            n_before = n_exchanges
            for find_first, find_second in passes:
                for _ in self._exchange_each(find_first, find_second, most_failures):
                    n_exchanges += 1
                    if report:
                        report(n_exchanges)
        return n_exchanges

    def _exchange_each(
        self, find_first: Find, find_second: Find, most_failures: int
    ) -> Iterator[None]:
        """Make one pass. Yield after each exchange that saves pieces."""
        is_tried = np.zeros(len(self.values), bool)
        n_failures = 0
        while n_failures < most_failures:
            first = find_first(self.values, self.is_chosen, is_tried)
            if first < 0:
                break
            if self._try_exchange(first, find_second):
                n_failures = 0
                yield
            else:
                n_failures += 1
                is_tried[first] = True

    def _try_exchange(self, first: int, find_second: Find) -> bool:
        """Toggle a token and the best other one, if that saves pieces. Return whether it does."""
        n_pieces = self.n_pieces
        self.toggle(first)
        nothing_tried = np.zeros(len(self.values), bool)
        second = find_second(self.values, self.is_chosen, nothing_tried)
        self.toggle(second)
        saves = self.n_pieces < n_pieces
        if not saves:
            self.toggle(second)
            self.toggle(first)
        return saves


def _list_words(lattice: WordLattice, n_candidates: int) -> tuple[Ints, Longs]:
    """Return the words that contain each candidate, and where each candidate's words end."""
    order = np.argsort(lattice.tokens, kind="stable")
    tokens = lattice.tokens[order]
    places = np.searchsorted(lattice.first_edges, order, side="right") - 1
    words = np.searchsorted(lattice.ends, places, side="right").astype(np.int32)
    is_new = np.ones(len(tokens), bool)
    is_new[1:] = tokens[1:] != tokens[:-1]
    is_new[1:] |= words[1:] != words[:-1]
    ends = np.cumsum(np.bincount(tokens[is_new], minlength=n_candidates))
    return words[is_new], ends


def _count_tokens(tokens: Sequence[str], words: Words) -> Longs:
    """Return how often each token occurs in words that are cut into the fewest of them.

    words: of the corpus, as codes of atoms
    """
    model = Vocabulary(
        (),
        tuple(tokens),
        marker="none",
        special=SpecialTokens(unk=None, bos=None, eos=None, pad=None),
        scores=(-1.0,) * len(tokens),
    )
    tables = ScoreTables.of(model)
    text = "".join(map(atom_text, words.symbols.tolist()))
    symbols, ends = tables.segment(text, np.diff(words.ends, prepend=0))
    segmented = Words(symbols, ends, words.counts)
    counts = count_symbols(segmented, len(tables.tokens))
    number_of = {token: number for number, token in enumerate(tables.tokens)}
    return counts[[number_of[token] for token in tokens]]


def _measure(
    candidates: Candidates,
    vocabulary: Vocabulary,
    tokens: tuple[str, ...],
    counts: Longs,
    parameters: SearchParameters,
) -> SizeStep:
    """Return the measures of tokens, of which the vocabulary has all that are not reserved.

    tokens: the candidates' atoms, then others;  counts: of each, (n_tokens,)
    """
    is_kept = np.ones(len(tokens), bool)
    numbers = np.zeros(0, np.int32)
    no_counts = np.zeros(0, np.int64)
    measured = replace(
        candidates,
        tokens=tokens,
        lengths=token_lengths(tokens, marker="none"),
        parts=numbers.reshape(0, 2),
        results=numbers,
        trajectory=Trajectory(numbers, numbers, no_counts, no_counts),
        extends=Extended(vocabulary, is_kept, counts),
    )
    [step] = size_steps(measured, [len(tokens)], parameters=parameters, kept=is_kept)
    return step
