"""Pieces and scores of a sentencepiece model → the merges that they imply.

sentencepiece joins the two neighbours whose joint string has the best score, so each piece has one last join, which is
its merge.

>>> last_join("low", {"lo": 0.0, "ow": -1.0, "low": -2.0})
('lo', 'w')
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # types of pieces


@dataclass(frozen=True, slots=True)
class Joins:
    """The merges that a model's pieces imply, and the pieces for which they are not all that decides.

    merges: by rank
    late: pieces whose parts have a worse score than they
    tied: pieces of equal score
    dropped: pieces that no two others spell
    """

    merges: tuple[tuple[str, str], ...]
    late: list[str]
    tied: list[str]
    dropped: list[str]

    @classmethod
    def of(cls, model: Any) -> Joins:
        """A merge for each piece; those that sentencepiece never makes come last, where they never apply."""
        scores = {
            piece.piece: piece.score
            for piece in model.pieces
            if piece.type in (NORMAL, UNUSED) and len(piece.piece) > 1
        }
        joins = {piece: last_join(piece, scores) for piece in scores}
        ranks = dict[str, float]()
        for piece in sorted(scores, key=len):
            if pair := joins[piece]:
                ranks[piece] = min(scores[piece], *(ranks.get(part, math.inf) for part in pair))
        ordered = sorted(ranks, key=lambda piece: (-ranks[piece], len(piece)))
        others = sorted((piece for piece in scores if piece not in ranks), key=len)
        merges, dropped = _made_anyhow(others, [pair for piece in ordered if (pair := joins[piece])])
        late = [piece for piece in ranks if ranks[piece] != scores[piece]]
        n_with = Counter(scores.values())
        tied = [piece for piece in scores if n_with[scores[piece]] > 1]
        return cls(tuple(merges), late, tied, dropped)


def _made_anyhow(pieces: Sequence[str], merges: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """The merges, and one more for each piece that two parts spell; and the pieces that none do.

    >>> _made_anyhow(["low", "new"], [("l", "o")])
    ([('l', 'o'), ('lo', 'w')], ['new'])
    """
    merges, made, dropped = list(merges), set(map("".join, merges)), list[str]()
    for piece in pieces:
        pair = next((cut for cut in two_parts(piece) if all(len(part) == 1 or part in made for part in cut)), None)
        if pair:
            merges.append(pair)
            made.add(piece)
        else:
            dropped.append(piece)
    return merges, dropped


def last_join(piece: str, scores: Mapping[str, float]) -> tuple[str, str] | None:
    """The two parts that sentencepiece joins last when it makes this piece of two or more characters.

    scores: of all pieces. None if sentencepiece never makes the piece.

    >>> last_join("low", {"ow": 0.0, "low": -1.0}), last_join("low", {"low": 0.0})
    (('l', 'ow'), None)
    """
    parts = list(piece)
    while len(parts) > 2:
        joint = [left + right for left, right in pairwise(parts)]
        values = [scores.get(text, -math.inf) for text in joint]
        best = max(values)
        if best == -math.inf:
            return None
        place = values.index(best)
        parts[place : place + 2] = [joint[place]]
    return parts[0], parts[1]


def two_parts(piece: str) -> Iterator[tuple[str, str]]:
    """All ways to cut a piece in two.

    >>> list(two_parts("low"))
    [('l', 'ow'), ('lo', 'w')]
    """
    return ((piece[:i], piece[i:]) for i in range(1, len(piece)))


def merges_that_make(pieces: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Merges for pieces that no merges made, such as those of a unigram model.

    Each piece, in this order, is made of the longest strings that are made before it, from left to right.

    >>> list(merges_that_make(["lo", "lower"]))
    [('l', 'o'), ('lo', 'w'), ('low', 'e'), ('lowe', 'r')]
    """
    made = set[str]()
    for piece in pieces:
        start = 0
        while start < len(piece):
            ends = range(len(piece), start + 1, -1)
            end = next((end for end in ends if piece[start:end] in made), start + 1)
            if start and piece[:end] not in made:
                yield piece[:start], piece[start:end]
                made.add(piece[:end])
            start = end
