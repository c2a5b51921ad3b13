"""Ranks → the parts of each token, joined as tiktoken joins them.

tiktoken knows no merges: it joins the neighbours whose joint bytes have the lowest rank.

>>> dict(recovered([b"a", b"b", b"c", b"ab", b"abc"]))
{b'ab': (b'a', b'b'), b'abc': (b'ab', b'c')}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise


def recovered(tokens: Sequence[bytes]) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Each token of several bytes, given by rank, with the parts that it falls into by the ranks below its own."""
    ranks = dict[bytes, int]()
    for rank, token in enumerate(tokens):
        if len(token) > 1:
            yield token, _parts(token, ranks)
        ranks[token] = rank


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
