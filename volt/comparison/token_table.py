"""A search → what becomes of every token along the sizes, and sample lines cut at each size.

>>> from volt.learn.bpe import learn_bpe
>>> from volt.choose.search import search
>>> from volt.count.word_counts import WordCounts
>>> result = search(learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6}), n_merges=9), sizes=[11, 16])
>>> table = token_table(result)
>>> at = table.tokens.index("low</w>")
>>> int(table.appears[at]), int(table.peaks[at]), int(table.peak_counts[at])
(16, 16, 5)
>>> cuts = sample_cuts(result, [("en", "low newer")])
>>> [[table.tokens[piece] for piece in word] for word in cuts.cuts[0][0]]
[['l', 'o', 'w</w>'], ['n', 'e', 'w', 'e', 'r</w>']]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volt.choose.search import SearchResult
from volt.choose.size_steps import SizeStep
from volt.choose.vocabulary_at import counts_of_kept, vocabulary_of
from volt.encode.encoder import Encoder
from volt.learn.candidates import Candidates
from volt.text.markers import PREFIX, SUFFIX
from volt.vocabulary import Vocabulary

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TokenTable:
    """One entry for each candidate token: atoms first, then the others in the order in which merges make them.

    Counts are those of the corpus that the merges were learned from, rescaled if a temperature rescaled it.
    tokens: spelled as in the vocabulary, marker included
    lengths: (n,) int64, characters
    counts: (n,) int64, pieces in the corpus cut by the chosen vocabulary, −1 for a token that it lacks
    ranks: (n,) int64 from 1, the most frequent first, 0 for a token that the chosen vocabulary lacks
    appears: (n,) int64, the smallest size that holds the token
    peaks: (n,) int64, the smallest size at which the token is used most
    peak_counts: (n,) int64, its count at that size
    scaffolding: (n,) int64, the first searched size that has the token and drops it, 0 if none does
    """

    tokens: tuple[str, ...]
    lengths: Longs
    counts: Longs
    ranks: Longs
    appears: Longs
    peaks: Longs
    peak_counts: Longs
    scaffolding: Longs


@dataclass(frozen=True, slots=True)
class SampleCuts:
    """Sample lines, cut by the vocabulary of every searched size: its kept tokens, all others split back.

    sizes: those that were searched
    samples: (name of the text, line)
    cuts: for every size, sample and word, its pieces. A piece is the number of a token in the TokenTable, or the
        string of a character that no token holds.
    counts: for every size, the count in the corpus of each token number that the samples use
    """

    sizes: tuple[int, ...]
    samples: tuple[tuple[str, str], ...]
    cuts: tuple[tuple[tuple[tuple[int | str, ...], ...], ...], ...]
    counts: tuple[dict[int, int], ...]


def token_table(search: SearchResult) -> TokenTable:
    """What becomes of every candidate token, and how the chosen vocabulary uses those that it holds."""
    candidates = search.candidates
    counts, ranks = _chosen(search)
    peaks, peak_counts = _peaks(candidates)
    dropped = np.zeros(candidates.n_tokens, np.int64)
    for step in search.steps:
        new = np.flatnonzero(~step.kept & (dropped[: step.size] == 0))
        dropped[new] = step.size
    appears = np.maximum(np.arange(1, candidates.n_tokens + 1), candidates.n_atoms)
    return TokenTable(candidates.tokens, candidates.lengths, counts, ranks, appears, peaks, peak_counts, dropped)


def _chosen(search: SearchResult) -> tuple[Longs, Longs]:
    """Counts and ranks in the chosen vocabulary, −1 and 0 for tokens that it lacks."""
    held = dict(zip(search.vocabulary.tokens, search.vocabulary.counts, strict=True))
    counts = np.array([held.get(token, -1) for token in search.candidates.tokens], np.int64)
    ranks = np.zeros(len(counts), np.int64)
    ordered = np.argsort(-counts, kind="stable")[: len(held)]
    ranks[ordered] = np.arange(1, len(held) + 1)
    return counts, ranks


def _peaks(candidates: Candidates) -> tuple[Longs, Longs]:
    """The smallest size at which each token is used most, and how often then."""
    change, n_atoms = candidates.trajectory, candidates.n_atoms
    tokens = np.concatenate([np.arange(n_atoms), change.tokens])
    sizes = np.concatenate([np.full(n_atoms, n_atoms), candidates.sizes_after()[1:][change.merges]])
    counts = np.concatenate([candidates.atom_counts, change.after])
    order = np.argsort(tokens, kind="stable")
    tokens, sizes, counts = tokens[order], sizes[order], counts[order]
    last = np.append((tokens[1:] != tokens[:-1]) | (sizes[1:] != sizes[:-1]), True)  # where a size ends for a token
    tokens, sizes, counts = tokens[last], sizes[last], counts[last]
    best = np.lexsort((sizes, -counts, tokens))
    found, first = np.unique(tokens[best], return_index=True)
    peaks, peak_counts = np.arange(1, candidates.n_tokens + 1), np.zeros(candidates.n_tokens, np.int64)
    peaks[found], peak_counts[found] = sizes[best][first], counts[best][first]
    return peaks, peak_counts


@dataclass(frozen=True, slots=True, eq=False)
class _Narrowed:
    """Candidates with those of their merges and tokens that can occur in some words.

    A vocabulary of these alone is small, and cuts the words as one of all merges and tokens does.
    merges: (rank, pair)
    tokens: the numbers of the tokens
    """

    candidates: Candidates
    merges: tuple[tuple[int, tuple[str, str]], ...]
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, candidates: Candidates, words: Sequence[str]) -> _Narrowed:
        longest = max(map(len, candidates.tokens))
        texts = set[str]()
        for word in words:
            text = PREFIX * (candidates.marker == "prefix") + word + SUFFIX * (candidates.marker == "suffix")
            texts.update(text[start:end] for start in range(len(text)) for end in range(start + 1, start + longest + 1))
        merges = tuple((rank, pair) for rank, pair in enumerate(candidates.merges) if "".join(pair) in texts)
        tokens = enumerate(candidates.tokens)
        return cls(candidates, merges, tuple(n for n, token in tokens if n < candidates.n_atoms or token in texts))

    def at_step(self, step: SizeStep) -> Vocabulary:
        """The vocabulary of a searched size, as far as it matters to the words."""
        candidates, n_merges = self.candidates, self.candidates.merges_at(step.size)
        return vocabulary_of(
            candidates,
            merges=(pair for rank, pair in self.merges if rank < n_merges),
            tokens=(candidates.tokens[n] for n in self.tokens if n < step.size and step.kept[n]),
        )


def sample_cuts(search: SearchResult, samples: Sequence[tuple[str, str]]) -> SampleCuts:
    """Cut lines at every searched size. samples: (name of the text, line)."""
    candidates = search.candidates
    normalizer, pretokenizer = candidates.counts.normalizer, candidates.counts.pretokenizer
    lines = [pretokenizer.split(normalizer.normalize(line)) for _, line in samples]
    words = list(dict.fromkeys(word for line in lines for word in line))
    numbers = {token: number for number, token in enumerate(candidates.tokens)}
    narrowed = _Narrowed.of(candidates, words)
    cuts, counts = [], []
    for step in search.steps:
        found = Encoder(narrowed.at_step(step)).encode_words(words)
        pieces = {
            word: tuple(numbers.get(piece, piece) for piece in cut) for word, cut in zip(words, found, strict=True)
        }
        cuts.append(tuple(tuple(pieces[word] for word in line) for line in lines))
        used = {piece for cut in pieces.values() for piece in cut if isinstance(piece, int)}
        exact = counts_of_kept(candidates, step.kept)
        counts.append({token: int(exact[token]) for token in sorted(used)})
    return SampleCuts(tuple(step.size for step in search.steps), tuple(samples), tuple(cuts), tuple(counts))
