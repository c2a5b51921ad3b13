"""Words, their counts and their pieces → `Measures`: every criterion of one system on one text.

A text is stored as its distinct words with a count each, so each word is split only once. For the
words walk (count 3) and walked (count 2), split into walk and walk ed, there are 3 + 2·2 = 7
pieces, and a fertility of 7/5 pieces a word.

The types are the tokens that count as part of the vocabulary, as in `SizeStep`: its tokens and its
scaffolding, even with count 0; special, user and byte tokens only if they occur.

Unknown pieces count as pieces; all of them are occurrences of one additional token, of length 1.
Many unknown pieces could make a system look good, so if more than 1 % are unknown, the measures
that rank systems are None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import numpy as np

from volt.array_types import Flags, Longs
from volt.choose import criteria
from volt.choose.criteria import Length
from volt.choose.scaling_law import LanguageModel

MOST_UNKNOWN = 0.01  # share of unknown pieces; with more, a system is not ranked


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Measures of one system on one text, which the columns of `columns.MEASURES` explain.

    An undefined measure is None.

    muv: MUV (Eq. 1) on the training texts of all sources, if the system's size was searched
    parity, premium: only for one of several sources; premium only if all have equally many lines
    """

    n_words: int
    n_characters: int
    n_bytes: int
    n_types: int
    n_used: int
    n_pieces: int
    n_unknown: int
    bits: float | None = None
    entropy: float | None = None
    muv: float | None = None
    muv_from_atoms: float | None = None
    fertility: float | None = None
    tokens_per_byte: float | None = None
    serving_flops_per_byte: float | None = None
    continued_word_rate: float | None = None
    renyi: float | None = None
    f95: float | None = None
    divergence: float | None = None
    percentile_frequency: float | None = None
    rare_share: float | None = None
    unknown_rate: float
    parity: float | None = None
    premium: float | None = None

    @property
    def is_ranked(self) -> bool:
        return self.unknown_rate <= MOST_UNKNOWN


@dataclass(frozen=True, slots=True)
class TextCounts:
    """The counts of a text.

    word_counts: (n_words,) int64, of each distinct word
    characters: character → its count, without spaces
    n_bytes: size of the text in UTF-8, with a space for each word
    """

    word_counts: Longs
    characters: Counter[str]
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """The pieces of distinct words, one word after the other.

    ids: (n_pieces,) int64, the index of each piece's token; -1 for an unknown piece
    word_ends: (n_words,) int64, the index in `ids` after each word's last piece
    """

    ids: Longs
    word_ends: Longs

    def pieces_per_word(self) -> Longs:
        """Return the number of pieces of each word, (n_words,) int64."""
        return np.diff(self.word_ends, prepend=0)

    def token_counts(self, word_counts: Longs, n_tokens: int) -> Longs:
        """Return each token's count in a text, (n_tokens,)

        int64: the sum of the counts of its pieces' words.
        """
        piece_counts = np.repeat(word_counts, self.pieces_per_word())
        is_known = self.ids >= 0
        token_counts = np.zeros(n_tokens, np.int64)
        np.add.at(token_counts, self.ids[is_known], piece_counts[is_known])
        return token_counts


def flatten_cuts(ids: Sequence[Sequence[int]]) -> Cuts:
    """Return the cuts of words. ids: for each word, the token indices of its pieces

    >>> cuts = flatten_cuts([[4], [4, 7]])
    >>> cuts.ids.tolist(), cuts.word_ends.tolist()
    ([4, 4, 7], [1, 3])
    """
    word_ends = np.fromiter(accumulate(map(len, ids)), np.int64, len(ids))
    return Cuts(np.fromiter(chain.from_iterable(ids), np.int64), word_ends)


def measure(
    parts: Sequence[tuple[TextCounts, Cuts]],
    *,
    lengths: Longs,
    always_types: Flags,
    length: Length,
    model: LanguageModel | None,
) -> Measures:
    """Measure a text.

    parts: the parts of the text, such as its sources, with the pieces of their words
    lengths: (n_tokens,) int64, length of each token in characters
    always_types: (n_tokens,) bool, whether a token is a type even if it does not occur
    length: the mean length in Eq. 2: by type or by occurrence
    model: the language model whose cost per byte is measured
    Raises CriterionError if the text has no words.
    """
    n_tokens = len(lengths)
    token_counts = np.zeros(n_tokens, np.int64)
    for text, cuts in parts:
        token_counts += cuts.token_counts(text.word_counts, n_tokens)
    is_type = always_types | (token_counts > 0)
    counts = token_counts[is_type]
    word_counts = np.concatenate([text.word_counts for text, _ in parts])
    pieces_per_word = np.concatenate([cuts.pieces_per_word() for _, cuts in parts])
    characters = sum((text.characters for text, _ in parts), Counter[str]())
    n_pieces = int(word_counts @ pieces_per_word)
    n_unknown = n_pieces - int(counts.sum())
    n_words = int(word_counts.sum())
    fertility = criteria.fertility(n_pieces, n_words)
    measures = Measures(
        n_words=n_words,
        n_characters=characters.total(),
        n_bytes=sum(text.n_bytes for text, _ in parts),
        n_types=len(counts),
        n_used=int((counts > 0).sum()),
        n_pieces=n_pieces,
        n_unknown=n_unknown,
        unknown_rate=criteria.unknown_rate(n_unknown, n_pieces),
    )
    if not measures.is_ranked:
        return measures
    pieces_per_byte = n_pieces / measures.n_bytes
    measures = replace(
        measures,
        fertility=fertility,
        tokens_per_byte=pieces_per_byte,
        continued_word_rate=criteria.continued_word_rate(pieces_per_word, word_counts),
    )
    if model:
        flops_per_byte = model.flops_per_byte(measures.n_types, pieces_per_byte)
        measures = replace(measures, serving_flops_per_byte=flops_per_byte)
    return _add_type_measures(measures, counts, lengths[is_type], characters, length)


def _add_type_measures(
    measures: Measures,
    counts: Longs,
    lengths: Longs,
    characters: Mapping[str, int],
    length: Length,
) -> Measures:
    """Add the measures of the types' frequencies.

    counts, lengths: (n_types,) int64, of the types
    """
    if measures.n_unknown:
        counts = np.append(counts, measures.n_unknown)
        lengths = np.append(lengths, 1)
    measures = replace(
        measures,
        bits=criteria.bits(measures.n_pieces, len(counts)),
        f95=criteria.f95(counts),
        rare_share=criteria.rare_share(counts),
    )
    if not measures.n_pieces:
        return measures
    entropy = criteria.entropy(counts, lengths, length=length)
    return replace(
        measures,
        entropy=entropy,
        muv_from_atoms=_muv_from_atoms(entropy, measures.n_types, characters),
        renyi=criteria.renyi_efficiency(counts),
        divergence=criteria.divergence(counts),
        percentile_frequency=criteria.percentile_frequency(counts),
    )


def _muv_from_atoms(entropy: float, n_types: int, characters: Mapping[str, int]) -> float | None:
    """Return Eq.

    1 against the vocabulary of the text's characters; None for no more types than characters.
    """
    atom_entropy, n_atoms = measure_characters(characters)
    if n_types <= n_atoms:
        return None
    return (atom_entropy - entropy) / (n_types - n_atoms)


def measure_characters(characters: Mapping[str, int]) -> tuple[float, int]:
    """Return the entropy (Eq. 2) of a text that is split into characters, and how many differ.

    characters: character → its count
    """
    counts = np.fromiter(characters.values(), np.int64, len(characters))
    return criteria.entropy(counts, np.ones(len(counts), np.int64)), len(counts)


def add_parities(measures: Mapping[str, Measures], *, aligned: bool) -> dict[str, Measures]:
    """Add parity and premium to each source, if there are several and all have a fertility.

    aligned: whether all sources have equally many lines, which the premium needs
    """
    fertilities = [each.fertility for each in measures.values() if each.fertility is not None]
    if len(fertilities) < max(2, len(measures)):
        return dict(measures)
    premiums: list[float | None] = [None] * len(measures)
    if aligned:
        premiums = [*criteria.premiums([each.n_pieces for each in measures.values()])]
    parities = criteria.parity(fertilities)
    result = {}
    for name, parity, premium in zip(measures, parities, premiums, strict=True):
        result[name] = replace(measures[name], parity=parity, premium=premium)
    return result
