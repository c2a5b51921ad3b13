"""Pieces and scores of a sentencepiece model → the merges that they imply.

sentencepiece joins the two neighbours that together spell the piece of best score, the leftmost on ties. So the last
join that makes a piece is always the same: this is the piece's merge. If every piece has a worse score than its parts,
and no two pieces share a score, merges by rank encode as the scores do. Otherwise a rank must belong to all pairs that
make the same piece (merging "ranks").
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, filterfalse, pairwise
from typing import Literal

from volt.formats.protocol import Pair
from volt.text.atoms import SUFFIX

_PRIVATE = 0x100000  # the first of the private characters
# Types of pieces.
NORMAL = 1
UNKNOWN = 2
CONTROL = 3
USER = 4
UNUSED = 5
BYTE = 6


@dataclass(frozen=True, slots=True)
class ImpliedMerges:
    """The merges that a model's pieces imply.

    dropped: pieces that no two other pieces spell
    clash: two pieces of which sentencepiece joins the left one first, which ranks cannot; usually None
    """

    merges: tuple[Pair, ...]
    merging: Literal["pairs", "ranks"]
    dropped: tuple[str, ...]
    clash: Pair | None

    @classmethod
    def of(cls, scores: Mapping[str, float]) -> ImpliedMerges:
        """Return a merge for each piece of two or more characters.

        >>> ImpliedMerges.of({"lo": -2.0, "low": -1.0}).merges
        (('lo', 'w'), ('l', 'o'))
        """
        joins = dict[str, Pair]()
        worst = dict[str, float]()  # piece → the worst score of the joins that make it
        for piece in sorted(scores, key=len):
            if pair := last_join(piece, scores):
                joins[piece] = pair
                worst[piece] = min(scores[piece], *(worst.get(part, math.inf) for part in pair))
        late = [piece for piece in joins if worst[piece] != scores[piece]]
        own_scores = {piece: scores[piece] for piece in joins}
        is_paired = not late and len(set(own_scores.values())) == len(joins)

        ordered = sorted(joins, key=lambda piece: (-scores[piece], -len(piece)))
        merges = [joins[piece] for piece in ordered]
        known = set(joins)
        dropped = list[str]()
        for piece in sorted(filterfalse(joins.__contains__, scores), key=len):
            pair = next((pair for pair in two_parts(piece) if _are_known(pair, known)), None)
            if pair is None:
                dropped.append(piece)
            else:
                merges.append(pair)
                known.add(piece)
        if is_paired:
            return cls(tuple(merges), "pairs", tuple(dropped), None)
        return cls(tuple(merges), "ranks", tuple(dropped), first_clash(own_scores, late))


class Letters:
    """Private-use characters, each for one atom that ends in "</w>", so that every atom is one character.

    >>> letters = Letters(["low</w>", "lo"])
    >>> len(letters.short("low</w>")), letters.long(letters.short("low</w>"))
    (3, 'low</w>')
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        ended = (piece.removesuffix(SUFFIX) for piece in pieces if piece.endswith(SUFFIX))
        finals = dict.fromkeys(text[-1] for text in ended if text)
        self.atoms = {final: chr(code) for code, final in enumerate(finals, _PRIVATE)}

    def short(self, piece: str) -> str:
        text = piece.removesuffix(SUFFIX)
        if text in ("", piece):
            return piece
        return text[:-1] + self.atoms[text[-1]]

    def long(self, text: str) -> str:
        """Return the piece that `short` shortened."""
        ends = {ord(letter): final + SUFFIX for final, letter in self.atoms.items()}
        return text.translate(ends)


def first_clash(scores: Mapping[str, float], late: Sequence[str]) -> Pair | None:
    """Return two pieces of which the left one in text must be joined first; None if the longest can always be first.

    late: pieces with a better score than their parts

    >>> first_clash({"ab": 0.0, "bc": 0.0}, []), first_clash({"--": 0.0, "---": 0.0, "----": 0.0}, [])
    (('ab', 'bc'), None)
    """
    groups = defaultdict[float, list[str]](list)
    for piece, score in scores.items():
        groups[score].append(piece)
    n_runs = Counter(piece[0] for piece in scores if _is_run(piece))
    inside = dict[str, str]()
    for piece in late:
        inside |= dict.fromkeys(_inner(piece), piece)

    for group in groups.values():
        if len(group) == 1:
            continue
        for piece in group:
            if piece in inside:
                return piece, inside[piece]
        n_runs_here = Counter(piece[0] for piece in group if _is_run(piece))
        family_of = dict[str, str]()  # pieces of one family never clash
        for piece in group:
            letter = piece[0]
            are_together = _is_run(piece) and n_runs_here[letter] == n_runs[letter]
            family_of[piece] = letter if are_together else piece
        if clash := _first_shared(family_of):
            return clash
    return None


def _is_run(piece: str) -> bool:
    return piece == piece[0] * len(piece)


def _inner(piece: str) -> Iterator[str]:
    """Yield the shorter strings of at least two characters in a piece."""
    for start, end in combinations(range(len(piece) + 1), 2):
        if 1 < end - start < len(piece):
            yield piece[start:end]


def _first_shared(family_of: Mapping[str, str]) -> Pair | None:
    """Return two pieces of different families that can overlap: one contains the other, or ends with its start."""
    starts = defaultdict[str, dict[str, str]](dict)  # start → a piece of each family
    for piece, family in family_of.items():
        for end in range(1, len(piece)):
            starts[piece[:end]].setdefault(family, piece)
    for piece, family in family_of.items():
        for start in range(1, len(piece)):
            for other_family, other in starts.get(piece[start:], {}).items():
                if other_family != family:
                    return piece, other
        for part in _inner(piece):
            if family_of.get(part, family) != family:
                return piece, part
    return None


def last_join(piece: str, scores: Mapping[str, float]) -> Pair | None:
    """Return the two parts that sentencepiece joins last to make a piece; None if it never makes the piece.

    >>> last_join("low", {"lo": 0.0, "ow": -1.0, "low": -2.0})
    ('lo', 'w')
    """
    parts = list(piece)
    while len(parts) > 2:
        joint = [left + right for left, right in pairwise(parts)]
        joint_scores = [scores.get(text, -math.inf) for text in joint]
        best = max(joint_scores)
        if best == -math.inf:
            return None
        place = joint_scores.index(best)
        parts[place : place + 2] = [joint[place]]
    return parts[0], parts[1]


def two_parts(piece: str) -> Iterator[Pair]:
    return ((piece[:place], piece[place:]) for place in range(1, len(piece)))


def _are_known(pair: Pair, known: Set[str]) -> bool:
    return all(len(part) == 1 or part in known for part in pair)


def merges_that_make(pieces: Sequence[str]) -> Iterator[Pair]:
    """Yield merges that build each piece from left to right.

    Each merge appends the longest string that an earlier merge made, or one character if there is no such string.

    >>> list(merges_that_make(["lo", "lower"]))
    [('l', 'o'), ('lo', 'w'), ('low', 'e'), ('lowe', 'r')]
    """
    known = set[str]()
    for piece in pieces:
        start = 0
        while start < len(piece):
            end = len(piece)
            while end > start + 1 and piece[start:end] not in known:
                end -= 1
            if start and piece[:end] not in known:
                yield piece[:start], piece[start:end]
                known.add(piece[:end])
            start = end


def all_cuts(pieces: Sequence[str]) -> Iterator[Pair]:
    """Yield each cut of a piece into two characters or earlier pieces.

    >>> list(all_cuts(["lo", "low"]))
    [('l', 'o'), ('lo', 'w')]
    """
    known = set[str]()
    for piece in pieces:
        yield from (pair for pair in two_parts(piece) if _are_known(pair, known))
        known.add(piece)
