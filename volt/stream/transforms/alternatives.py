"""A word's segmentations → what may be written for it: one drawn by its score, or two that share no long piece.

    P(segmentation) ∝ score^theta        theta = 0: all alike; theta = ∞: always the best

Two segmentations for taboo: the first is drawn so, and the second likewise from those that share no piece of several
characters with it. Where there is none, it is the word's characters. The marker ▁, or </w>, is no character of a piece.

>>> from volt.stream.transforms.segmenters import UnigramLexicon
>>> lexicon = UnigramLexicon.of({"lo": 2.0, "w": 2.0, "l": 1.0, "o": 1.0})
>>> sampled(lexicon, ["low"], n=5, theta=0.0)[0].texts, sampled(lexicon, ["low"], n=5, theta=0.0)[0].bounds
(['lo w', 'l o w'], [0.5, 1.0])
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import accumulate

from volt.stream.transforms.segmenters import Scored, Segmenter
from volt.stream.transforms.word_types import Choices
from volt.text.markers import PREFIX, SUFFIX


def sampled(segmenter: Segmenter, words: Sequence[str], *, n: int, theta: float) -> list[Choices]:
    """One of the n best segmentations of each word, on both sides."""
    return [_one(found, theta) for found in segmenter.best(words, n)]


def _one(found: Sequence[Scored], theta: float) -> Choices:
    if not found:
        return Choices()
    shares = shares_of([one.score for one in found], theta)
    texts = [" ".join(one.pieces) for one in found]
    return Choices(texts, [(number, number) for number in range(len(texts))], _bounds(shares))


def disjoint(segmenter: Segmenter, words: Sequence[str], *, n: int, theta: float) -> list[Choices]:
    """Two segmentations of each word, one for each side, of the n best."""
    found = zip(words, segmenter.best(words, n), strict=True)
    return [_two(scored, segmenter.characters(word), theta) for word, scored in found]


def _two(found: Sequence[Scored], characters: tuple[str, ...], theta: float) -> Choices:
    """Pairs of segmentations, with the product of both probabilities. found: may be empty"""
    if not found:
        return Choices()
    long = [long_pieces(one.pieces, characters) for one in found]
    sides, shares = list[tuple[int, int]](), list[float]()
    firsts = shares_of([one.score for one in found], theta)
    for first, share in enumerate(firsts):
        others = [other for other in range(len(found)) if long[first].isdisjoint(long[other])] if share else []
        seconds = shares_of([found[other].score for other in others], theta) if others else [1.0]
        sides += [(first, second) for second in others or [len(found)]]
        shares += [share * second for second in seconds]
    drawn = [place for place, share in enumerate(shares) if share]
    texts = [" ".join(pieces) for pieces in (*(one.pieces for one in found), characters)]
    return Choices(texts, [sides[place] for place in drawn], _bounds([shares[place] for place in drawn]))


def long_pieces(pieces: Collection[str], characters: Collection[str] = ()) -> frozenset[str]:
    """Those of several characters, which markers are not, nor what a segmenter takes for one character.

    >>> sorted(long_pieces(["▁a", "bc", "d</w>", "▁ef", "<0x0A>"], ["<0x0A>"]))
    ['bc', '▁ef']
    """
    return frozenset(piece for piece in pieces if len(_unmarked(piece)) > 1 and piece not in characters)


def _unmarked(piece: str) -> str:
    """A piece without markers, wherever they stand."""
    return piece.replace(PREFIX, "").removesuffix(SUFFIX)


def shares_of(scores: Sequence[float], theta: float) -> list[float]:
    """Probabilities ∝ score^theta. scores: logarithms, the greatest first

    >>> shares_of([-1.0, -2.0], float("inf"))
    [1.0, 0.0]
    """
    if theta == math.inf:
        return [1.0, *[0.0] * (len(scores) - 1)]
    weights = [math.exp(theta * (score - scores[0])) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def _bounds(shares: Sequence[float]) -> list[float]:
    """Of each, its share and those before it; the last is 1."""
    return [*list(accumulate(shares))[:-1], 1.0]
