"""A search → what the page shows of every size: a table of all candidate tokens, and lines split at each size.

A token's count depends on the size: merging l and o makes lo frequent, and a later merge of lo and
w takes many of its occurrences away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import polars as pl

from volt.array_types import Longs
from volt.choose.search import SearchResult
from volt.choose.vocabulary_at import recount_split_tokens, vocabulary_of
from volt.encode.encoder import Encoder
from volt.learn.candidates import Candidates
from volt.text.atoms import PREFIX, SUFFIX


def token_table(search: SearchResult) -> pl.DataFrame:
    """Return a table with a row for each candidate token.

    token, length: the token, and its length in characters
    count, rank: its count and rank in the chosen vocabulary; null if that vocabulary lacks it
    appears: the smallest size that has the token
    peak, peak_count: the size at which its count is greatest, and that count
    scaffolding: the first searched size at which merges make it but the vocabulary drops it, or
        null
    """
    candidates = search.candidates
    n_tokens = candidates.n_tokens
    chosen = dict(zip(search.vocabulary.tokens, search.vocabulary.counts, strict=True))
    counts = pl.Series([chosen.get(token) for token in candidates.tokens])
    # A vocabulary has at least the atoms; token number n is in sizes from n + 1 on.
    first_sizes = np.maximum(np.arange(n_tokens) + 1, candidates.n_atoms)
    dropping_sizes = np.zeros(n_tokens, np.int64)
    for step in reversed(search.steps):
        dropping_sizes[np.flatnonzero(~step.kept)] = step.size

    peaks = _find_peaks(candidates, first_sizes)
    return pl.DataFrame(
        {
            "token": candidates.tokens,
            "length": candidates.lengths,
            "count": counts,
            "rank": counts.rank("ordinal", descending=True),
            "appears": first_sizes,
            "peak": peaks["size"],
            "peak_count": peaks["count"],
            "scaffolding": pl.Series(dropping_sizes).replace(0, None),
        }
    )


def _find_peaks(candidates: Candidates, first_sizes: Longs) -> pl.DataFrame:
    """Return for each token the smallest size with its greatest count, and that count.

    The trajectory lists every change of a count. So the counts at the first sizes, followed by the
    counts after each change, are all counts that a token ever has. If several merges do not change
    the size, the last count holds.
    """
    changes = candidates.trajectory
    first_counts = np.zeros(candidates.n_tokens, np.int64)
    first_counts[: candidates.n_atoms] = candidates.atom_counts
    changed_sizes = candidates.sizes_after()[1:][changes.merges]
    table = pl.DataFrame(
        {
            "token": np.concatenate([np.arange(candidates.n_tokens), changes.tokens]),
            "size": np.concatenate([first_sizes, changed_sizes]),
            "count": np.concatenate([first_counts, changes.after]),
        }
    )
    last_counts = table.unique(["token", "size"], keep="last", maintain_order=True)
    ordered = last_counts.sort("token", "count", "size", descending=[False, True, False])
    return ordered.unique("token", keep="first", maintain_order=True)


@dataclass(frozen=True, slots=True)
class SampleCuts:
    """Sample lines, split by the vocabulary of every searched size.

    samples: for each line, the name of its text, and the line
    cuts: [size][sample][word] → the word's pieces: an index for each token, a string for each
        unknown character
    counts: [size] → {index as a string: count in the corpus} of the tokens in the samples
    """

    sizes: tuple[int, ...]
    samples: tuple[tuple[str, str], ...]
    cuts: tuple[tuple[tuple[tuple[int | str, ...], ...], ...], ...]
    counts: tuple[dict[str, int], ...]


def cut_samples(search: SearchResult, samples: Sequence[tuple[str, str]]) -> SampleCuts:
    """Split lines at every searched size. samples: the name of a text, and a line, for each"""
    candidates = search.candidates
    normalizer = candidates.counts.normalizer
    normal_lines = [normalizer.normalize(line) for _, line in samples]
    pretokenizers = [candidates.pretokenizer_at(step.size) for step in search.steps]
    words_of_lines = {
        each: list(map(each.split, normal_lines)) for each in dict.fromkeys(pretokenizers)
    }
    indices = {token: index for index, token in enumerate(candidates.tokens)}
    all_lines = chain.from_iterable(words_of_lines.values())
    encoders = _encoders(search, list(chain.from_iterable(all_lines)))

    cuts = []
    counts = []
    for step, encoder, pretokenizer in zip(search.steps, encoders, pretokenizers, strict=True):
        lines = words_of_lines[pretokenizer]
        words = list(dict.fromkeys(chain.from_iterable(lines)))
        pieces = {}
        for word, encoded in zip(words, encoder.encode_words(words), strict=True):
            pieces[word] = tuple(indices.get(piece, piece) for piece in encoded)
        cuts.append(tuple(tuple(pieces[word] for word in line) for line in lines))
        used = {piece for piece in chain.from_iterable(pieces.values()) if isinstance(piece, int)}
        exact_counts = recount_split_tokens(candidates, step.kept)
        counts.append({str(index): int(exact_counts[index]) for index in sorted(used)})
    sizes = tuple(step.size for step in search.steps)
    return SampleCuts(sizes, tuple(samples), tuple(cuts), tuple(counts))


def _encoders(search: SearchResult, words: Sequence[str]) -> Iterator[Encoder]:
    """Yield an encoder of each searched size that is exact for these words.

    It has only the merges and tokens that are substrings of a word, so that few samples need little
    work.
    """
    candidates = search.candidates
    marked_words = words
    if candidates.marker == "prefix":
        marked_words = [PREFIX + word for word in words]
    elif candidates.marker == "suffix":
        marked_words = [word + SUFFIX for word in words]
    text = "\n".join(marked_words)
    merges = [(rank, pair) for rank, pair in enumerate(candidates.merges) if "".join(pair) in text]
    tokens = [
        (index, token)
        for index, token in enumerate(candidates.tokens)
        if index < candidates.n_atoms or token in text
    ]
    for step in search.steps:
        n_merges = candidates.merges_at(step.size)
        vocabulary = vocabulary_of(
            candidates,
            merges=[pair for rank, pair in merges if rank < n_merges],
            tokens=[token for n, token in tokens if n < step.size and step.kept[n]],
        )
        yield Encoder(vocabulary)
