"""Ranks → the parts of each token.

tiktoken knows no merges: it joins the neighbours whose joint bytes have the lowest rank. So a vocabulary that joins by
ranks, too, needs one merge for each token, whichever it is (`joins`); one that goes by merges needs the parts that
tiktoken itself comes to (`recovered`).

>>> dict(recovered([b"a", b"b", b"c", b"ab", b"abc"]))
{b'ab': (b'a', b'b'), b'abc': (b'ab', b'c')}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise

from volt.text.byte_alphabet import to_characters


def joins(tokens: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """For each token that two others make, a pair of them; in the order of the tokens.

    tokens: by rank, lowest first; single bytes need no making
    A token is made of earlier ones where that is possible, else of any; one that none make is left out.

    >>> joins([b"a", b"b", b"c", b"abc", b"bc", b"abcdef"])
    [(b'a', b'bc'), (b'b', b'c')]
    """
    made, found = {token for token in tokens if len(token) == 1}, dict[bytes, tuple[bytes, bytes]]()
    waiting = [token for token in tokens if len(token) > 1]
    while waiting:
        later = list[bytes]()
        for token in waiting:
            if pair := _made_of(token, made):
                found[token] = pair
                made.add(token)
            else:
                later.append(token)
        if len(later) == len(waiting):
            break
        waiting = later
    return [found[token] for token in tokens if token in found]


def _made_of(token: bytes, made: Set[bytes]) -> tuple[bytes, bytes] | None:
    """Two parts that are made already, the first one as long as can be; None if there are none."""
    for middle in range(len(token) - 1, 0, -1):
        if token[:middle] in made and token[middle:] in made:
            return token[:middle], token[middle:]
    return None


def recovered(tokens: Sequence[bytes]) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Each token of several bytes, given by rank, with the parts that it falls into by the ranks below its own."""
    ranks = dict[bytes, int]()
    for rank, token in enumerate(tokens):
        if len(token) > 1:
            yield token, _parts(token, ranks)
        ranks[token] = rank


def merges_of(tokens: Sequence[bytes]) -> list[tuple[str, str]]:
    """The merges that ranks stand for, in VOLT's spelling, each of what earlier ones make; tokens by rank.

    >>> merges_of([b"a", b"b", b"c", b"bc", b"ab", b"abc", b"cab"])
    [('b', 'c'), ('a', 'b'), ('a', 'bc'), ('c', 'ab')]
    """
    made, pairs = {token for token in tokens if len(token) == 1}, list[tuple[str, str]]()
    for token, parts in recovered(tokens):
        if len(parts) == 2 and made.issuperset(parts):
            made.add(token)
            pairs.append((to_characters(parts[0]), to_characters(parts[1])))
    return pairs


def _parts(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, ...]:
    """tiktoken's algorithm: join the neighbours with the lowest joint rank, the first of equals, while there are any.

    >>> _parts(b"aaa", {b"a": 0, b"aa": 1})
    (b'aa', b'a')
    """
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 1:
        found = ((ranks.get(left + right, len(ranks)), place) for place, (left, right) in enumerate(pairwise(parts)))
        rank, place = min(found)
        if rank == len(ranks):
            break
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return tuple(parts)
