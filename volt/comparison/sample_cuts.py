"""A search and sample lines → `SampleCuts`: how every searched size splits the lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from volt.choose.search import SearchResult
from volt.choose.vocabulary_at import recount_split_tokens, vocabulary_of
from volt.encode.encoder import Encoder
from volt.text.atoms import PREFIX, SUFFIX


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
    pretokenizer = candidates.counts.pretokenizer
    lines = [pretokenizer.split(normalizer.normalize(line)) for _, line in samples]
    words = list(dict.fromkeys(chain.from_iterable(lines)))
    indices = {token: index for index, token in enumerate(candidates.tokens)}
    encoders = _encoders(search, words)

    cuts = []
    counts = []
    for step, encoder in zip(search.steps, encoders, strict=True):
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
