"""Criteria: numbers that describe a vocabulary or its size, computed from token counts.

P(j) = n_j / Σ n        H = −(1/l) Σ_j P(j) log P(j)                 (Eq. 2, nats per character)
MUV(t) = −(H_t − H_{t−1}) / (size_t − size_{t−1})                    (Eq. 1)

A type is a token of the vocabulary; a piece is one of its occurrences in text. `counts` has the
shape (n_types,) and contains how many pieces each type has. A function raises CriterionError if its
numbers cannot be counts of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.array_types import Floats, Longs
from volt.errors import ConfigError, CriterionError

Length = Literal["type", "occurrence"]
Numbers = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]


def probs(counts: Numbers) -> Floats:
    """Return P(j) = n_j / Σ n of each type that occurs; types with the count 0 are left out."""
    positive = counts[counts > 0]
    total = positive.sum(dtype=float)
    if not (counts >= 0).all() or not 0 < total < np.inf:
        raise CriterionError(
            "all counts are 0, or one is negative or not finite; give the counts of a text"
        )
    return np.asarray(positive / total)


def mean_length(counts: Numbers, lengths: Longs, *, length: Length = "type") -> float:
    """Return l, the mean length of the tokens in characters.

    lengths: (n_tokens,) int64, characters
    length: the mean over tokens, "type" (Section 4.2), or over their pieces, "occurrence"

    >>> counts, lengths = np.array([9, 1]), np.array([1, 3])
    >>> mean_length(counts, lengths), mean_length(counts, lengths, length="occurrence")
    (2.0, 1.2)
    """
    if arguments.choice(length, "length", get_args(Length)) == "type":
        return float(lengths.mean())
    weights = np.asarray(counts, float)
    return float(weights @ lengths.astype(float) / weights.sum())


def entropy(counts: Numbers, lengths: Longs, *, length: Length = "type") -> float:
    """Return the normalised corpus entropy (Eq. 2), nats per character.

    counts: (n_tokens,), or transported masses (Eq. 4)
    lengths: (n_tokens,) int64, characters
    """
    p = probs(counts)
    per_piece = -(p @ np.log(p))
    return float(per_piece / mean_length(counts, lengths, length=length))


def muv(entropies: Floats, sizes: Longs) -> Floats:
    """Return the marginal utility of vocabularisation (Eq. 1) of each size but the first, (n − 1,).

    >>> muv(np.array([2.0, 1.0]), np.array([100, 300]))
    array([0.005])
    """
    if (np.diff(sizes) <= 0).any():
        raise CriterionError(
            f"sizes {np.asarray(sizes).tolist()} do not increase; sort them, without repetitions"
        )
    return -np.diff(entropies) / np.diff(sizes)


def knee(entropies: Floats, sizes: Longs) -> int:
    """Return the index of the size whose entropy is farthest below a straight line.

    The line joins the entropies of the first and of the last size.

    >>> knee(np.array([3.0, 1.0, 0.5, 0.0]), np.array([1, 2, 3, 4]))
    1
    """
    rise = entropies[-1] - entropies[0]
    slope = rise / max(1, sizes[-1] - sizes[0])
    return int(np.argmax(slope * sizes - entropies))  # up to a constant, the line minus the entropy


def f95(counts: Numbers) -> float:
    """Return the greatest count that 95 % of the types reach (Gowda & May 2020).

    >>> f95(np.arange(1, 101))
    6.0
    """
    is_count = np.isfinite(counts) & (counts >= 0)
    if len(counts) == 0 or not is_count.all():
        raise CriterionError(
            "a count is negative or not finite, or there are no counts; give counts of a vocabulary"
        )
    rank = int(np.ceil(0.95 * len(counts)))
    return float(np.sort(counts)[::-1][rank - 1])


def renyi_efficiency(counts: Numbers, *, alpha: float = 2.5) -> float:
    """Return the Rényi entropy of order α, divided by its maximum (Zouhar et al. 2023).

    The maximum is the logarithm of the number of types.

    >>> renyi_efficiency(np.array([5, 5, 5, 5]))
    1.0
    """
    if not alpha > 0 or alpha == 1:
        raise ConfigError(f"alpha is {alpha}; give a positive number other than 1")
    n_types = len(counts)
    if n_types == 1:
        return 1.0
    power_sum = (probs(counts) ** alpha).sum()
    return float(np.log(power_sum) / ((1 - alpha) * np.log(n_types)))


def divergence(counts: Numbers) -> float:
    """Return D = ½ Σ|p_j − 1/K|, the distance of K types from a uniform distribution, 0 to 1.

    The definition is from Gowda & May 2020.
    """
    p = np.zeros(len(counts))
    p[counts > 0] = probs(counts)
    return float(np.abs(p - 1 / len(p)).sum() / 2)


def bits(n_pieces: int, n_types: int) -> float:
    """Return N log₂ V, the bits of N pieces in a fixed-width code of V types (Zouhar et al. 2023).

    >>> bits(10, 8)
    30.0
    """
    return float(n_pieces * np.log2(n_types))


def fertility(n_pieces: int, n_words: int) -> float:
    """Return the number of pieces per word (Rust et al. 2021).

    >>> fertility(6, 4)
    1.5
    """
    if n_words < 1:
        raise CriterionError(f"{n_words} words; give a text with words, which fertility divides by")
    return n_pieces / n_words


def continued_word_rate(pieces_per_word: Longs, word_counts: Longs) -> float:
    """Return the share of a text's words that have more than one piece (Rust et al. 2021).

    pieces_per_word, word_counts: (n_words,), of each distinct word
    """
    is_continued = pieces_per_word[word_counts > 0] > 1
    return float(probs(word_counts) @ is_continued)


def percentile_frequency(counts: Numbers, *, low: float = 0.03, high: float = 0.83) -> float:
    """Return the share of pieces whose types have a middle rank (Zouhar et al. 2023).

    This is Σ_r p_r over the ranks ⌊low K⌋ < r ≤ ⌊high K⌋ of the K types that occur. Rank 1 is the
    most frequent type.
    """
    if not 0 <= low < high <= 1:
        raise ConfigError(f"low is {low}, high {high}; give 0 ≤ low < high ≤ 1")
    p = np.sort(probs(counts))[::-1]
    first = int(low * len(p))
    end = int(high * len(p))
    return float(p[first:end].sum())


def rare_share(counts: Numbers, *, below: int = 100) -> float:
    """Return the share of the types that occur fewer than `below` times, perhaps never."""
    return float((counts < below).mean())


def unknown_rate(n_unknown: int, n_pieces: int) -> float:
    """Return the share of the pieces that are unknown; 0 for a text without pieces."""
    return n_unknown / n_pieces if n_pieces else 0.0


def parity(fertilities: Sequence[float]) -> list[float]:
    """Return the fertility of each source, divided by the mean of all sources."""
    mean = sum(fertilities) / max(1, len(fertilities))
    return [value / mean for value in fertilities]


def premiums(n_pieces: Sequence[int]) -> list[float]:
    """Return the number of pieces of each source, divided by the smallest (Petrov et al. 2023)."""
    return [n / min(n_pieces) for n in n_pieces]


def source_shares(counts: Longs) -> Floats:
    """Return for each source the mean share that it has in the count of a token, (n_sources,).

    counts: (n_sources, n_tokens); tokens that no source has are left out of the mean

    >>> source_shares(np.array([[3, 0, 0], [1, 5, 0]]))
    array([0.375, 0.625])
    """
    totals = counts.sum(axis=0)
    shares = counts[:, totals > 0] / totals[totals > 0]
    n_used = shares.shape[1]
    return np.asarray(shares.sum(axis=1) / max(1, n_used))
