"""Find the merges that the pieces and scores of a sentencepiece model imply.

sentencepiece has no merges. It joins the two neighbours that together spell the piece of best
score, the leftmost on ties, until no neighbours spell a piece. So the last join that makes a piece
is always the
same: this is the piece's merge. With the scores lo -1, low -2, "low" is joined from l o w → lo w →
    low, so its merge is (lo, w).

If every piece has a worse score than its parts, and no two pieces share a score, merges by rank
encode as the scores do (merging "pairs"). Otherwise a rank must belong to all pairs that spell the
same piece (merging "ranks"). Two pieces with one score may "clash": if they overlap in text,
sentencepiece joins the left one first, which a list of ranks cannot say.
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

_FIRST_PRIVATE = 0x100000  # a character that no text contains
# The types of pieces in a model
NORMAL = 1
UNKNOWN = 2
CONTROL = 3
USER = 4
UNUSED = 5
BYTE = 6


@dataclass(frozen=True, slots=True)
class ImpliedMerges:
    """The merges that a model's pieces imply.

    merges: by rank
    dropped: pieces that no two other pieces spell, so that they have no merge
    clash: two pieces of one score of which ranks cannot join the left one first; usually None
    """

    merges: tuple[Pair, ...]
    merging: Literal["pairs", "ranks"]
    dropped: tuple[str, ...]
    clash: Pair | None

    @classmethod
    def of(cls, scores: Mapping[str, float]) -> ImpliedMerges:
        """Return the merge of each piece of two or more characters.

        scores: piece → score. A piece that sentencepiece never makes gets a merge of two known
            parts, if there are any.

        >>> ImpliedMerges.of({"lo": -2.0, "low": -1.0}).merges
        (('lo', 'w'), ('l', 'o'))
        """
        joins = dict[str, Pair]()
        worst_scores = dict[str, float]()  # piece → the worst score of the joins that make it
        for piece in sorted(scores, key=len):
            if pair := last_join(piece, scores):
                joins[piece] = pair
                part_scores = (worst_scores.get(part, math.inf) for part in pair)
                worst_scores[piece] = min(scores[piece], *part_scores)
        better_than_parts = [piece for piece in joins if worst_scores[piece] != scores[piece]]
        join_scores = {piece: scores[piece] for piece in joins}
        has_equal_scores = len(set(join_scores.values())) < len(joins)

        ordered = sorted(joins, key=lambda piece: (-scores[piece], -len(piece)))
        merges = [joins[piece] for piece in ordered]
        known = set(joins)
        dropped = list[str]()
        for piece in sorted(filterfalse(joins.__contains__, scores), key=len):
            pair = next((pair for pair in cut_in_two(piece) if _are_known(pair, known)), None)
            if pair is None:
                dropped.append(piece)
            else:
                merges.append(pair)
                known.add(piece)
        merging: Literal["pairs", "ranks"] = "pairs"
        clash = None
        if better_than_parts or has_equal_scores:
            merging = "ranks"
            clash = find_clash(join_scores, better_than_parts)
        return cls(tuple(merges), merging, tuple(dropped), clash)


class Letters:
    """Private-use characters, each for one atom that ends in "</w>", so that every atom is one
    character.

    >>> letters = Letters(["low</w>", "lo"])
    >>> len(letters.shorten("low</w>")), letters.restore(letters.shorten("low</w>"))
    (3, 'low</w>')
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        ended = (piece.removesuffix(SUFFIX) for piece in pieces if piece.endswith(SUFFIX))
        last_characters = dict.fromkeys(text[-1] for text in ended if text)
        self._letters = {
            last: chr(code) for code, last in enumerate(last_characters, _FIRST_PRIVATE)
        }

    def shorten(self, piece: str) -> str:
        text = piece.removesuffix(SUFFIX)
        if text in ("", piece):
            return piece
        return text[:-1] + self._letters[text[-1]]

    def restore(self, text: str) -> str:
        """Return the piece that `shorten` shortened."""
        atoms = {ord(letter): last + SUFFIX for last, letter in self._letters.items()}
        return text.translate(atoms)


def find_clash(scores: Mapping[str, float], better_than_parts: Sequence[str]) -> Pair | None:
    """Return two pieces that clash: the one that is left in text must be joined first; None if no
    pieces clash.

    Pieces of equal score clash if they may overlap, because ranks join the longer one first
    wherever it is. A piece that is better than its parts clashes with every shorter piece in it
    that shares its score with others. Runs of one character ("--", "---") do not clash if all of
    them have equal scores.

    >>> find_clash({"ab": 0.0, "bc": 0.0}, []), find_clash({"--": 0.0, "---": 0.0, "----": 0.0}, [])
    (('ab', 'bc'), None)
    """
    pieces_of_score = defaultdict[float, list[str]](list)
    for piece, score in scores.items():
        pieces_of_score[score].append(piece)
    n_runs = Counter(piece[0] for piece in scores if _is_run(piece))
    outer_piece = dict[str, str]()
    for piece in better_than_parts:
        outer_piece |= dict.fromkeys(_inner_strings(piece), piece)

    for pieces in pieces_of_score.values():
        if len(pieces) == 1:
            continue
        for piece in pieces:
            if piece in outer_piece:
                return piece, outer_piece[piece]
        n_equal_runs = Counter(piece[0] for piece in pieces if _is_run(piece))
        family_of = dict[str, str]()  # pieces of one family never clash
        for piece in pieces:
            character = piece[0]
            all_runs_are_equal = n_equal_runs[character] == n_runs[character]
            family_of[piece] = character if _is_run(piece) and all_runs_are_equal else piece
        if clash := _find_overlap(family_of):
            return clash
    return None


def _is_run(piece: str) -> bool:
    return piece == piece[0] * len(piece)


def _inner_strings(piece: str) -> Iterator[str]:
    """Yield the shorter strings of at least two characters in a piece."""
    for start, end in combinations(range(len(piece) + 1), 2):
        if 1 < end - start < len(piece):
            yield piece[start:end]


def _find_overlap(family_of: Mapping[str, str]) -> Pair | None:
    """Return two pieces of different families that can overlap: one contains the other, or ends
    with its start.

    family_of: piece → the name of its family
    """
    pieces_with_start = defaultdict[str, dict[str, str]](dict)  # start → a piece of each family
    for piece, family in family_of.items():
        for end in range(1, len(piece)):
            pieces_with_start[piece[:end]].setdefault(family, piece)
    for piece, family in family_of.items():
        for start in range(1, len(piece)):
            for other_family, other in pieces_with_start.get(piece[start:], {}).items():
                if other_family != family:
                    return piece, other
        for inner in _inner_strings(piece):
            if family_of.get(inner, family) != family:
                return piece, inner
    return None


def last_join(piece: str, scores: Mapping[str, float]) -> Pair | None:
    """Return the two parts that sentencepiece joins last to make a piece; None if it never makes
    the piece.

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
        index = joint_scores.index(best)
        parts[index : index + 2] = [joint[index]]
    return parts[0], parts[1]


def cut_in_two(piece: str) -> Iterator[Pair]:
    return ((piece[:end], piece[end:]) for end in range(1, len(piece)))


def _are_known(pair: Pair, known: Set[str]) -> bool:
    return all(len(part) == 1 or part in known for part in pair)


def merges_that_make(pieces: Sequence[str]) -> Iterator[Pair]:
    """Yield merges that build each piece from left to right.

    Each merge appends the longest string that an earlier merge made, or one character if there is
    no such string.

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
        yield from (pair for pair in cut_in_two(piece) if _are_known(pair, known))
        known.add(piece)
