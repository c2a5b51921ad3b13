"""Distinct words, their counts, and how a system cuts them → `Measures`: every criterion of one system on one text.

Unknown pieces count as pieces, and in measures of the token distribution as one more type of one character. Many of
them would make a system look compact and even, so above 1 % every measure that ranks systems is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.choose import criteria
from volt.choose.criteria import Length
from volt.choose.language_model import LanguageModel

Longs = NDArray[np.int64]

MOST_UNKNOWN = 0.01  # of the pieces; beyond it a system is not ranked
RANKED = (
    "bits", "entropy", "muv", "muv_from_atoms", "fertility", "tokens_per_byte", "serving_flops_per_byte",
    "continued_word_rate", "renyi", "f95", "divergence", "percentile_frequency", "rare_share",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of one system on one text; an undefined measure is None. The columns of `tables.MEASURES` explain them.

    muv: MUV on the training text, for a system whose size was searched
    parity: None for a whole text;  premium: None unless all sources have equally many lines
    """

    n_words: int
    n_characters: int
    n_bytes: int
    n_types: int
    n_used: int
    n_pieces: int
    n_unknown: int
    bits: float | None
    entropy: float | None
    muv: float | None
    muv_from_atoms: float | None
    fertility: float | None
    tokens_per_byte: float | None
    serving_flops_per_byte: float | None
    continued_word_rate: float | None
    renyi: float | None
    f95: float | None
    divergence: float | None
    percentile_frequency: float | None
    rare_share: float | None
    unknown_rate: float
    parity: float | None = None
    premium: float | None = None

    @property
    def is_ranked(self) -> bool:
        return self.unknown_rate <= MOST_UNKNOWN


@dataclass(frozen=True, slots=True)
class Text:
    """A text by the counts of its distinct words, (n_words,) int64."""

    word_counts: Longs
    n_characters: int
    n_bytes: int
    n_lines: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """Distinct words, cut into pieces: numbers of tokens, −1 if unknown, and where the pieces of each word end."""

    ids: Longs
    ends: Longs

    def per_word(self) -> Longs:
        return np.diff(self.ends, prepend=0)

    def token_counts(self, word_counts: Longs, n_types: int) -> Longs:
        """Return each token's count in a text, (n_types,), exact beyond 2⁵³."""
        repeats, known = np.repeat(word_counts, self.per_word()), self.ids >= 0
        counts = np.zeros(n_types, np.int64)
        np.add.at(counts, self.ids[known], repeats[known])
        return counts


def cuts_of(ids: Sequence[Sequence[int]]) -> Cuts:
    """Return the numbers of each word's pieces as `Cuts`."""
    ends = np.fromiter(accumulate(map(len, ids)), np.int64, len(ids))
    return Cuts(np.fromiter(chain.from_iterable(ids), np.int64), ends)


def measure(
    parts: Sequence[tuple[Text, Cuts]],
    *,
    lengths: Longs,
    length: Length = "type",
    atoms: tuple[float, int] | None = None,
    model: LanguageModel | None = None,
) -> Measures:
    """Measure a text in parts, such as one for each source.

    atoms: the entropy (Eq. 2) and number of the text's distinct characters, where `muv_from_atoms` starts
    """
    counts = np.sum([cuts.token_counts(text.word_counts, len(lengths)) for text, cuts in parts], axis=0)
    word_counts = np.concatenate([text.word_counts for text, _ in parts])
    per_word = np.concatenate([cuts.per_word() for _, cuts in parts])
    n_words, n_pieces, n_known = int(word_counts.sum()), int(word_counts @ per_word), int(counts.sum())
    n_bytes = sum(text.n_bytes for text, _ in parts)
    n_types, n_used, n_unknown = len(lengths), int((counts > 0).sum()), n_pieces - n_known
    if n_unknown:
        counts, lengths = np.append(counts, n_unknown), np.append(lengths, 1)
    entropy = criteria.entropy(counts, lengths, length=length) if n_pieces else None
    fertility, slope = criteria.fertility(n_pieces, n_words), None
    if atoms is not None and entropy is not None and n_types > atoms[1]:
        slope = (atoms[0] - entropy) / (n_types - atoms[1])
    tokens_per_byte = n_pieces / n_bytes
    result = Measures(
        n_words=n_words,
        n_characters=sum(text.n_characters for text, _ in parts),
        n_bytes=n_bytes,
        n_types=n_types,
        n_used=n_used,
        n_pieces=n_pieces,
        n_unknown=n_unknown,
        bits=criteria.bits(n_pieces, len(counts)),
        entropy=entropy,
        muv=None,
        muv_from_atoms=slope,
        fertility=fertility,
        tokens_per_byte=tokens_per_byte,
        serving_flops_per_byte=model.flops_per_byte(n_types, tokens_per_byte) if model else None,
        continued_word_rate=criteria.continued_word_rate(per_word, word_counts),
        renyi=criteria.renyi_efficiency(counts) if n_pieces else None,
        f95=criteria.f95(counts),
        divergence=criteria.divergence(counts) if n_pieces else None,
        percentile_frequency=criteria.percentile_frequency(counts) if n_pieces else None,
        rare_share=criteria.rare_share(counts),
        unknown_rate=criteria.unknown_rate(n_unknown, n_pieces),
    )
    unranked: dict[str, Any] = dict.fromkeys(RANKED)
    return result if result.is_ranked else replace(result, **unranked)


def character_entropy(words: Sequence[str], word_counts: Longs) -> tuple[float, int]:
    """Return Eq. 2 of the text cut into characters, and the number of distinct characters."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    characters, places = np.unique(codes, return_inverse=True)
    counts = np.zeros(len(characters), np.int64)
    np.add.at(counts, places, np.repeat(word_counts, lengths))
    return criteria.entropy(counts, np.ones(len(counts), np.int64)), len(counts)


def compared(measures: Mapping[str, Measures], *, aligned: bool) -> dict[str, Measures]:
    """Return the measures of all sources, with parity and premium if all have a fertility."""
    result = list(measures.values())
    known = [one.fertility for one in result if one.fertility is not None]
    if len(measures) < 2 or len(known) < len(result):
        return dict(measures)
    parities = criteria.parity(known)
    premiums = criteria.premiums([one.n_pieces for one in result]) if aligned else [None] * len(result)
    rows = zip(measures, result, parities, premiums, strict=True)
    return {name: replace(one, parity=parity, premium=premium) for name, one, parity, premium in rows}
