"""Counted words and a size → vocabularies of this size, and a bound on the pieces of any.

    ranked     BPE: tokens of merges, and text cut by the merges in their order
    trimmed    BPE with so many more merges that as many tokens occur; the others are left out
    fewest     the tokens of BPE, and text cut into the fewest pieces
    optimal    tokens chosen for few pieces, and text cut into the fewest pieces

A vocabulary of fewest pieces is a unigram model in which every token scores −1, so that the best path
is the shortest. Of two shortest paths, the one with the longer last piece wins, or if these are
equal, the one with the longer piece before it, and so on, as in sentencepiece and `tokenizers`.

>>> counts = volt.count_words(["corpus.txt"], pretokenizer="metaspace")  # doctest: +SKIP
>>> find_vocabularies(counts, 2_000).vocabularies["optimal"]  # doctest: +SKIP
<Vocabulary: 2,000 tokens, unigram, metaspace>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from volt.choose.certificate import Relaxation, SweepLimits, build_lattice
from volt.choose.token_choice import TokenChoice, list_texts
from volt.choose.vocabulary_at import vocabulary_at
from volt.count.word_counts import WordCounts
from volt.encode import Encoder
from volt.errors import CandidateError
from volt.kernels.arrays import Words
from volt.learn.bpe import learn_bpe, split_into_atoms
from volt.learn.candidates import Candidates
from volt.vocabulary import Vocabulary

SYSTEMS = ("ranked", "trimmed", "fewest", "optimal")
PRETOKENIZER = "metaspace"  # unigram models of other libraries have no end-of-word marker
MOST_FAILURES = 300  # exchanges in a row that save nothing, before a pass ends
MOST_SWEEPS = 300  # another 500 raise the bound by 0.15 %, and do not lower the pieces
_MORE_MERGES = 1.5  # as a share of the size, for the tokens that trimming leaves out


@dataclass(frozen=True, slots=True)
class Found:
    """The vocabularies of a size, and how the optimal one came about.

    vocabularies: by system
    bound: no vocabulary of this size that has all atoms needs fewer pieces for the counted words
    n_pieces: of the counted words, after each step: "fewest", "exchanged" (exchanges that start with
        BPE's tokens), "rounded" (the largest shares of the relaxation), "optimal" (exchanges that
        start with these)
    n_atoms, n_candidates, n_sweeps: of the relaxation
    """

    vocabularies: dict[str, Vocabulary]
    bound: int
    n_pieces: dict[str, int]
    n_atoms: int
    n_candidates: int
    n_sweeps: int


def find_vocabularies(counts: WordCounts, size: int) -> Found:
    """Return vocabularies of a size, with the atoms of the words.

    counts: of words split by PRETOKENIZER, of at most 256 characters
    Raises CandidateError if the words do not give so many tokens.
    """
    candidates = learn_bpe(counts, round(_MORE_MERGES * size), marker="none")
    if not candidates.n_atoms < size <= candidates.n_tokens:
        raise CandidateError(
            f"size {size:,}: give more than {candidates.n_atoms:,} (the atoms) and at most "
            f"{candidates.n_tokens:,} (all merges)"
        )
    ranked = vocabulary_at(candidates, size)
    atoms = ranked.tokens[: candidates.n_atoms]
    bpe_tokens = ranked.tokens[candidates.n_atoms :]
    words = Words(*split_into_atoms(counts, "none"))
    least_saving = max(1, int(candidates.gains()[len(bpe_tokens) - 1]) // 2)
    lattice = build_lattice(words, least_saving)
    texts = list_texts(lattice, words.symbols)
    number_of = {text: number for number, text in enumerate(texts)}

    choice = TokenChoice(lattice, [number_of[text] for text in bpe_tokens if text in number_of])
    n_pieces = {"fewest": choice.n_pieces}
    choice.fill(len(bpe_tokens))
    choice.exchange(MOST_FAILURES)
    n_pieces["exchanged"] = choice.n_pieces

    relaxation = Relaxation(lattice, len(bpe_tokens), least_saving)
    n_sweeps, _ = relaxation.run(SweepLimits(least_saving, MOST_SWEEPS, inf, None))
    choice = TokenChoice(lattice, np.argsort(-relaxation.shares, kind="stable")[: len(bpe_tokens)])
    n_pieces["rounded"] = choice.n_pieces
    choice.exchange(MOST_FAILURES)
    n_pieces["optimal"] = choice.n_pieces

    optimal_tokens = [texts[token] for token in np.flatnonzero(choice.is_chosen)]
    return Found(
        vocabularies={
            "ranked": ranked,
            "trimmed": trim(candidates, size),
            "fewest": build_model((*atoms, *bpe_tokens)),
            "optimal": build_model((*atoms, *optimal_tokens)),
        },
        bound=relaxation.best,
        n_pieces=n_pieces,
        n_atoms=len(atoms),
        n_candidates=len(texts),
        n_sweeps=n_sweeps,
    )


def trim(candidates: Candidates, size: int) -> Vocabulary:
    """Return BPE of a size, without tokens that no longer occur in the counted words."""
    largest = size
    while True:
        is_retained = candidates.counts_at(largest) > 0
        is_retained[: candidates.n_atoms] = True
        n_missing = size - int(is_retained.sum())
        if n_missing <= 0 or largest == candidates.n_tokens:
            return vocabulary_at(candidates, largest, kept=is_retained)
        largest = min(largest + n_missing, candidates.n_tokens)


def build_model(tokens: Iterable[str]) -> Vocabulary:
    """Return the vocabulary that cuts text into the fewest of these tokens.

    >>> from volt.encode import Encoder
    >>> Encoder(build_model(["▁", "a", "b", "▁a", "▁ab", "ab", "bab"])).encode("abab")
    ['▁a', 'bab']
    """
    tokens = tuple(tokens)
    return Vocabulary(
        (), tokens, scores=(-1.0,) * len(tokens), marker="none", pretokenizer=PRETOKENIZER
    )


def count_pieces(vocabulary: Vocabulary, text: Sequence[str]) -> int:
    """Return the number of pieces of all lines; each unknown character is a piece."""
    encoder = Encoder(vocabulary)
    return sum(encoder.count(line) for line in text)
