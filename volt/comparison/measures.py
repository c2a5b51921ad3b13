"""Distinct words, their counts, and their pieces → `Measures`: every criterion on one text.

The types are those of `SizeStep`, so that a search and a comparison give equal figures: the
vocabulary's tokens and its scaffolding, which count as 0, but not special, user and byte tokens,
unless these occur.

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
from numpy.typing import NDArray

from volt.choose import criteria
from volt.choose.criteria import Length
from volt.choose.scaling_law import LanguageModel
from volt.learn.candidates import Longs

Flags = NDArray[np.bool_]

MOST_UNKNOWN = 0.01  # of the pieces; beyond it a system is not ranked


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Measures of one system on one text, which the columns of `tables.MEASURES` explain.

    An undefined measure is None.

    muv: MUV on all training text, for a system whose size was searched
    parity, premium: only for the text of one of several sources; premium only if all have equally
        many lines
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
class Text:
    """The counts of a text's distinct words, (n_words,) int64, and of its characters."""

    word_counts: Longs
    characters: Counter[str]
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """The pieces of distinct words.

    ids: (n_pieces,) int64, the index of each piece's token; -1 for an unknown piece
    ends: (n_words,) int64, where each word ends in `ids`
    """

    ids: Longs
    ends: Longs

    def per_word(self) -> Longs:
        return np.diff(self.ends, prepend=0)

    def token_counts(self, word_counts: Longs, n_types: int) -> Longs:
        """Return each token's count in a text, (n_types,) int64."""
        repeats = np.repeat(word_counts, self.per_word())
        is_known = self.ids >= 0
        counts = np.zeros(n_types, np.int64)
        np.add.at(counts, self.ids[is_known], repeats[is_known])
        return counts


def cuts_of(ids: Sequence[Sequence[int]]) -> Cuts:
    ends = np.fromiter(accumulate(map(len, ids)), np.int64, len(ids))
    return Cuts(np.fromiter(chain.from_iterable(ids), np.int64), ends)


def measure(
    parts: Sequence[tuple[Text, Cuts]],
    *,
    lengths: Longs,
    always: Flags,
    length: Length,
    model: LanguageModel | None,
) -> Measures:
    """Measure a text of several parts, such as sources. lengths, always: see `System`"""
    counts = np.zeros(len(lengths), np.int64)
    for text, cuts in parts:
        counts += cuts.token_counts(text.word_counts, len(lengths))
    is_type = always | (counts > 0)
    counts = counts[is_type]
    lengths = lengths[is_type]
    word_counts = np.concatenate([text.word_counts for text, _ in parts])
    per_word = np.concatenate([cuts.per_word() for _, cuts in parts])
    characters = sum((text.characters for text, _ in parts), Counter[str]())
    n_pieces = int(word_counts @ per_word)
    n_unknown = n_pieces - int(counts.sum())
    n_words = int(word_counts.sum())
    fertility = criteria.fertility(n_pieces, n_words)  # raises an error for a text without words
    measures = Measures(
        n_words=n_words,
        n_characters=characters.total(),
        n_bytes=sum(text.n_bytes for text, _ in parts),
        n_types=len(lengths),
        n_used=int((counts > 0).sum()),
        n_pieces=n_pieces,
        n_unknown=n_unknown,
        unknown_rate=criteria.unknown_rate(n_unknown, n_pieces),
    )
    if not measures.is_ranked:
        return measures

    if n_unknown:
        counts = np.append(counts, n_unknown)
        lengths = np.append(lengths, 1)
    rate = n_pieces / measures.n_bytes
    measures = replace(
        measures,
        bits=criteria.bits(n_pieces, len(counts)),
        fertility=fertility,
        tokens_per_byte=rate,
        serving_flops_per_byte=model.flops_per_byte(measures.n_types, rate) if model else None,
        continued_word_rate=criteria.continued_word_rate(per_word, word_counts),
        f95=criteria.f95(counts),
        rare_share=criteria.rare_share(counts),
    )
    if not n_pieces:
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
    of_characters, n_distinct = character_entropy(characters)
    if n_types <= n_distinct:
        return None
    return (of_characters - entropy) / (n_types - n_distinct)


def character_entropy(characters: Mapping[str, int]) -> tuple[float, int]:
    """Return the entropy (Eq. 2) of a text split into characters.

    Also return the number of distinct characters.
    """
    counts = np.fromiter(characters.values(), np.int64, len(characters))
    return criteria.entropy(counts, np.ones(len(counts), np.int64)), len(counts)


def compared(measures: Mapping[str, Measures], *, aligned: bool) -> dict[str, Measures]:
    """Return the measures of all sources, with parity and premium if all have a fertility."""
    fertilities = [one.fertility for one in measures.values() if one.fertility is not None]
    if len(fertilities) < max(2, len(measures)):
        return dict(measures)
    result = {}
    premiums: list[float | None] = [None] * len(measures)
    if aligned:
        premiums = [*criteria.premiums([one.n_pieces for one in measures.values()])]
    parities = criteria.parity(fertilities)
    for name, parity, premium in zip(measures, parities, premiums, strict=True):
        result[name] = replace(measures[name], parity=parity, premium=premium)
    return result
