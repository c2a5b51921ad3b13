"""Pieces and scores of a sentencepiece model → the merges that they imply.

sentencepiece joins the two neighbours that together spell the piece of best score, the leftmost on ties. So the last
join that makes a piece is always the same: this is the piece's merge. If every piece has a worse score than its parts,
and no two pieces share a score, merges by rank encode as the scores do. Otherwise a rank must belong to all pairs that
make the same piece (merging "ranks").
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal

from volt.text.atoms import SUFFIX

_PRIVATE = 0x100000  # the first of the private characters
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # types of pieces


@dataclass(frozen=True, slots=True)
class ImpliedMerges:
    """The merges that a model's pieces imply.

    dropped: pieces that no two other pieces spell
    clash: two pieces of which sentencepiece joins the left one first, which ranks cannot; usually None
    """

    merges: tuple[tuple[str, str], ...]
    merging: Literal["pairs", "ranks"]
    dropped: tuple[str, ...]
    clash: tuple[str, str] | None

    @classmethod
    def of(cls, scores: Mapping[str, float]) -> ImpliedMerges:
        """Return a merge for each piece of two or more characters.

        >>> ImpliedMerges.of({"lo": -2.0, "low": -1.0}).merges
        (('lo', 'w'), ('l', 'o'))
        """
        joins = {piece: last_join(piece, scores) for piece in scores}
        ranks = dict[str, float]()
        for piece in sorted(scores, key=len):
            if pair := joins[piece]:
                ranks[piece] = min(scores[piece], *(ranks.get(part, math.inf) for part in pair))
        late = [piece for piece in ranks if ranks[piece] != scores[piece]]
        output = {piece: scores[piece] for piece in ranks}
        is_paired = not late and len(set(output.values())) == len(output)
        ordered = sorted(ranks, key=lambda piece: (-scores[piece], -len(piece)))
        merges = [pair for piece in ordered if (pair := joins[piece])]
        known, dropped = set(ordered), list[str]()
        for piece in sorted((piece for piece in scores if piece not in ranks), key=len):
            cuts = (
                cut
                for cut in two_parts(piece)
                if all(len(part) == 1 or part in known for part in cut)
            )
            if pair := next(cuts, None):
                merges.append(pair)
                known.add(piece)
            else:
                dropped.append(piece)
        clash = None if is_paired else first_clash(output, late)
        return cls(tuple(merges), "pairs" if is_paired else "ranks", tuple(dropped), clash)


class Letters:
    """Private-use characters, each for one atom that ends in "</w>", so that every atom is one character.

    >>> letters = Letters(["low</w>", "lo"])
    >>> len(letters.short("low</w>")), letters.long(letters.short("low</w>"))
    (3, 'low</w>')
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        finals = dict.fromkeys(
            piece.removesuffix(SUFFIX)[-1:] for piece in pieces if piece.endswith(SUFFIX)
        )
        self.atoms = {final: chr(_PRIVATE + number) for number, final in enumerate(finals) if final}

    def short(self, piece: str) -> str:
        text = piece.removesuffix(SUFFIX)
        return text[:-1] + self.atoms[text[-1]] if text and text != piece else piece

    def long(self, text: str) -> str:
        """Return the piece that `short` shortened."""
        return text.translate({ord(letter): final + SUFFIX for final, letter in self.atoms.items()})


def first_clash(scores: Mapping[str, float], late: Sequence[str]) -> tuple[str, str] | None:
    """Return two pieces of which the left one in text must be joined first; None if the longest can always be first.

    late: pieces with a better score than their parts

    >>> first_clash({"ab": 0.0, "bc": 0.0}, []), first_clash({"--": 0.0, "---": 0.0, "----": 0.0}, [])
    (('ab', 'bc'), None)
    """
    groups = defaultdict[float, list[str]](list)
    for piece, score in scores.items():
        groups[score].append(piece)
    n_runs = Counter(piece[0] for piece in scores if _is_run(piece))
    inside = {part: piece for piece in late for part in _inner(piece)}
    for group in groups.values():
        if len(group) == 1:
            continue
        if result := next((piece for piece in group if piece in inside), None):
            return result, inside[result]
        met = Counter(piece[0] for piece in group if _is_run(piece))
        family = {
            piece: piece[0] if _is_run(piece) and met[piece[0]] == n_runs[piece[0]] else piece
            for piece in group
        }
        if clash := _first_shared(family):
            return clash
    return None


def _is_run(piece: str) -> bool:
    return piece == piece[0] * len(piece)


def _inner(piece: str) -> Iterator[str]:
    for start, end in combinations(range(len(piece) + 1), 2):
        if 1 < end - start < len(piece):
            yield piece[start:end]


def _first_shared(family: Mapping[str, str]) -> tuple[str, str] | None:
    """Return two pieces of different families that can overlap: one contains the other, or ends with its start."""
    starts = defaultdict[str, dict[str, str]](dict)
    for piece, name in family.items():
        for end in range(1, len(piece)):
            starts[piece[:end]].setdefault(name, piece)
    for piece, name in family.items():
        tails = (starts.get(piece[start:], {}) for start in range(1, len(piece)))
        others = [other for result in tails for kind, other in result.items() if kind != name]
        others += [part for part in _inner(piece) if family.get(part, name) != name]
        if others:
            return piece, others[0]
    return None


def last_join(piece: str, scores: Mapping[str, float]) -> tuple[str, str] | None:
    """Return the two parts that sentencepiece joins last to make a piece; None if it never makes the piece.

    >>> last_join("low", {"lo": 0.0, "ow": -1.0, "low": -2.0})
    ('lo', 'w')
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
    return ((piece[:i], piece[i:]) for i in range(1, len(piece)))


def merges_that_make(pieces: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield merges that build each piece from left to right.

    Each merge appends the longest string that an earlier merge made, or one character if there is no such string.

    >>> list(merges_that_make(["lo", "lower"]))
    [('l', 'o'), ('lo', 'w'), ('low', 'e'), ('lowe', 'r')]
    """
    output = set[str]()
    for piece in pieces:
        start = 0
        while start < len(piece):
            ends = range(len(piece), start + 1, -1)
            end = next((end for end in ends if piece[start:end] in output), start + 1)
            if start and piece[:end] not in output:
                yield piece[:start], piece[start:end]
                output.add(piece[:end])
            start = end
