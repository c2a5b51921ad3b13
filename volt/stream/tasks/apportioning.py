"""How many lines of each input go to each shard, and in which order they stand there.

Line j of all inputs, laid end to end, counts for shard j mod S. So every shard gets N/S of the N lines, and of each
input's n_i lines n_i/S, both within one: no input is too small. Only the numbers are dealt like this; the lines that a
shard gets of an input follow each other there, so that all inputs are read once, from their start to their end.

In a shard, line k of the c_i lines of an input stands at the place (k + ½)/c_i, so that inputs mix evenly from the
first line to the last. Where lines are to keep their order, shards are cut from the inputs laid end to end instead.

>>> dealt([5, 1], 3).tolist(), in_a_row([5, 1], 3).tolist()
([[2, 0], [2, 0], [1, 1]], [[2, 0], [2, 0], [1, 1]])
>>> mixed_order(np.array([0, 0]), np.array([4, 2]), np.array([4, 2])).tolist()
[0, 4, 1, 2, 5, 3]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]


def number_of_shards(n_lines: int, *, asked: int | None, lines: int) -> int:
    """How many shards so many lines make: as many as are asked for, or one for every `lines`; none without a line.

    >>> [number_of_shards(25, asked=asked, lines=10) for asked in (None, 4, 100)]
    [3, 4, 25]
    """
    return min(n_lines, asked or -(-n_lines // lines))


def dealt(sizes: Sequence[int] | Longs, n_shards: int) -> Longs:
    """(n_shards, n_inputs) how many lines of each input each shard gets, dealt evenly.

    sizes: (n_inputs,) lines of each input
    """
    remainders = np.arange(n_shards)[:, None]
    return np.diff((_bounds(sizes) + n_shards - 1 - remainders) // n_shards, axis=1)


def in_a_row(sizes: Sequence[int] | Longs, n_parts: int) -> Longs:
    """(n_parts, n_inputs) the same, of inputs laid end to end and cut into parts that are equal within one line.

    sizes: (n_inputs,) lines of each input
    """
    bounds = _bounds(sizes)
    cuts = bounds[-1] * np.arange(n_parts + 1) // n_parts
    places: Longs = np.clip(bounds, cuts[:-1, None], cuts[1:, None])
    return np.diff(places, axis=1)


def mixed_chunks(counts: Longs, n_chunks: int) -> Longs:
    """(n_chunks, n_inputs) how many lines of each input each chunk of a shard gets.

    counts: (n_inputs,) lines that the shard gets of each input
    A chunk holds the lines whose places in the shard lie between c/n_chunks and (c + 1)/n_chunks.

    >>> mixed_chunks(np.array([4, 1]), 2).tolist()
    [[2, 0], [2, 1]]
    """
    cuts = np.arange(n_chunks + 1)[:, None]
    return np.diff((2 * counts * cuts + n_chunks - 1) // (2 * n_chunks), axis=0)


def mixed_order(first: Longs, n_lines: Longs, counts: Longs) -> Longs:
    """The order in which lines of several inputs stand in a chunk, as indices of them laid end to end.

    first, n_lines: (n_inputs,) which of the shard's lines of each input are in the chunk
    counts: (n_inputs,) how many lines the shard gets of each input
    """
    places = [
        (2 * np.arange(at, at + n) + 1) / (2 * max(1, of)) for at, n, of in zip(first, n_lines, counts, strict=True)
    ]
    return np.argsort(np.concatenate(places), kind="stable")


def _bounds(sizes: Sequence[int] | Longs) -> Longs:
    """(n_inputs + 1,) where inputs begin and end, laid end to end."""
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), np.asarray(sizes, np.int64)]))
