"""Which tokens of many values are hit by noise, and in which order they come: the compiled loops of token noise.

Tokens are numbered through, one value after the other; value i has those from ends[i − 1] to ends[i]. Each value has a
seed and draws from a generator of its own, SplitMix64 (Steele et al. 2014).

>>> seeds, keys, order = np.array([7], np.uint64), np.empty(4), np.empty(4, np.int64)
>>> reorder_tokens(np.array([4]), 3.0, seeds, keys, order)
>>> order.tolist()
[1, 0, 2, 3]
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.columns import mixed
from volt.kernels.compiling import inlined, releasing
from volt.kernels.noise import fraction, stepped

MARK = (0xE2, 0x96, 0x81)  # "▁" in UTF-8


@inlined
def below(state: Any, n: int) -> Any:
    """What the generator draws in a state: a whole number from 0 up to, and without, n < 2³²."""
    return np.int64((mixed(state) >> np.uint64(32)) * np.uint64(n) >> np.uint64(32))


@releasing
def count_hits(counts: LongArray, rate: float, seeds: IntArray, out: LongArray) -> None:
    """How many tokens of each value are hit, if each is with the same probability.

    counts: (n,) int64, how many tokens there are;  out: (n,) int64, is written
    """
    for i in range(len(counts)):
        state, total = seeds[i], 0
        for _ in range(counts[i]):
            state = stepped(state)
            if fraction(state) < rate:
                total += 1
        out[i] = total


@releasing
def hit_tokens(ends: LongArray, numbers: LongArray, n_choices: int, seeds: IntArray, hits: LongArray) -> None:
    """Hit so many tokens of each value, all sets of so many being equally likely (selection sampling, Knuth 3.4.2).

    numbers: (n,) int64, how many
    n_choices: what is drawn for a token that is hit is below this
    hits: (n_tokens,) int64, is set to what is drawn, and to −1 for a token that is not hit
    """
    place = 0
    for i in range(len(ends)):
        state, left = seeds[i], numbers[i]
        while place < ends[i]:
            hits[place] = -1
            if left > 0:
                state = stepped(state)
                if below(state, ends[i] - place) < left:
                    state = stepped(state)
                    hits[place] = below(state, n_choices)
                    left -= 1
            place += 1


@releasing
def reorder_tokens(ends: LongArray, distance: float, seeds: IntArray, keys: IntArray, order: LongArray) -> None:
    """Sort the tokens of each value, stably, by their place plus a number drawn from 0 up to a distance.

    A token stays before one that stands `distance` or more behind it. So fewer than `distance` tokens pass a token from
    either side, and none moves further than that.

    keys: (n_tokens,) float64, to work in;  order: (n_tokens,) int64, is set to the tokens in their new order
    """
    token = 0
    for i in range(len(ends)):
        state, first = seeds[i], token
        while token < ends[i]:
            state = stepped(state)
            key, at = token - first + distance * fraction(state), token
            while at > first and keys[at - 1] > key:
                keys[at], order[at] = keys[at - 1], order[at - 1]
                at -= 1
            keys[at], order[at] = key, token
            token += 1


@inlined
def is_marked(data: IntArray, start: int, size: int) -> bool:
    """Whether a token starts with the mark."""
    return size >= 3 and data[start] == MARK[0] and data[start + 1] == MARK[1] and data[start + 2] == MARK[2]


@inlined
def is_less(data: IntArray, start: int, size: int, other: IntArray, other_start: int, other_size: int) -> bool:
    """Whether one text comes before another, byte by byte."""
    for k in range(min(size, other_size)):
        if data[start + k] != other[other_start + k]:
            return bool(data[start + k] < other[other_start + k])
    return size < other_size


@inlined
def found(
    data: IntArray, start: int, size: int, others: IntArray, starts: LongArray, sizes: LongArray, skip: int, low: int,
    high: int,
) -> int:  # fmt: skip
    """The first from `low` to `high` of sorted texts that is not less, `skip` bytes of each left out; −1 if it differs.

    That is the text itself, or it is not there.
    """
    end = high
    while low < high:
        middle = (low + high) >> 1
        if is_less(others, starts[middle] + skip, sizes[middle] - skip, data, start, size):
            low = middle + 1
        else:
            high = middle
    if low < end and not is_less(data, start, size, others, starts[low] + skip, sizes[low] - skip):
        return low
    return -1


@releasing
def toggle_marks(
    data: IntArray, starts: LongArray, sizes: LongArray, hits: LongArray, others: IntArray, other_starts: LongArray,
    other_sizes: LongArray, low: int, high: int, chosen: LongArray,
) -> None:  # fmt: skip
    """The tokens that are hit lose the mark in front, or get one, where that gives a token of a vocabulary.

    data, starts, sizes: the tokens;  hits: of each, −1 if it is not hit
    others, other_starts, other_sizes: the vocabulary, sorted; those from `low` to `high` start with the mark
    chosen: (n_tokens,) int64, is set as `write_tokens` takes it
    """
    for token in range(len(hits)):
        chosen[token] = token
        if hits[token] < 0:
            continue
        start, size = starts[token], sizes[token]
        if is_marked(data, start, size):
            other = found(data, start + 3, size - 3, others, other_starts, other_sizes, 0, 0, len(other_starts))
        else:
            other = found(data, start, size, others, other_starts, other_sizes, 3, low, high)
        if other >= 0:
            chosen[token] = -1 - other
