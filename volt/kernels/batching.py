"""Which rows make a batch, and which share a pack: the compiled loops of `volt.batches`.

>>> ends = np.empty(3, np.int64)
>>> cut_steps(np.array([2, 3, 4]), 6, 9, 8, 1, ends), ends.tolist()[:2]
(2, [2, 3])
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import FlagArray, LongArray
from volt.kernels.compiling import borrowing, releasing


@borrowing
def _last_fitting(longest: LongArray, start: int, max_tokens: int, max_sentences: int, world: int) -> int:
    """Where the rows end that fit into one step, from `start` on: each rank takes one row in `world`, rounded up."""
    top, end = np.int64(0), start
    while end < len(longest):
        top, share = max(top, longest[end]), (end - start) // world + 1
        if share > max_sentences or share * top > max_tokens:
            break
        end += 1
    return end


@releasing
def cut_steps(
    longest: LongArray, max_tokens: int, max_sentences: int, multiple: int, world: int, ends: LongArray
) -> int:
    """Cut rows into steps: see `volt.batches.token_batches`. Returns how many there are.

    longest: (n,) int64, the longest side of each row in order, at most max_tokens
    ends: (n // world,) int64, is written: where each step's rows end; rows behind the last are left
    """
    n, n_steps, start = len(longest), 0, 0
    while n - start >= world:
        end = _last_fitting(longest, start, max_tokens, max_sentences, world)
        if end < n:
            unit = multiple * world if end - start >= multiple * world else world
            end -= (end - start) % unit
        short = world - (n - end)  # of the rows that are missing for one more step
        if 0 < short < world and end - start - short >= world:
            end -= short
        ends[n_steps], n_steps, start = end, n_steps + 1, end
    return n_steps


@releasing
def deal_rows(
    rows: LongArray, step_ends: LongArray, turns: LongArray, world: int, order: LongArray, ends: LongArray
) -> None:
    """Give every `world`-th row of a step to the same rank; the rank that begins is another one in each step.

    rows: (n,) int64;  step_ends: (n_steps,) int64, where each step's rows end
    turns: (n_steps,) int64, the steps in their order
    order: (n,) int64, is written: rows, batch after batch;  ends: (n_steps · world,) int64, is written
    """
    at = batch = 0
    for step in turns:
        start = step_ends[step - 1] if step > 0 else np.int64(0)
        for rank in range(world):
            for row in range(start + (rank + step) % world, step_ends[step], world):
                order[at] = rows[row]
                at += 1
            ends[batch] = at
            batch += 1


@borrowing
def _least_from(tree: FlagArray, leaf: int) -> int:
    """The first leaf that is set, from `leaf` on; −1 if there is none."""
    n_leaves = len(tree) // 2
    node = n_leaves + leaf
    if tree[node] == 0:
        while node > 1 and (node & 1 == 1 or tree[node + 1] == 0):
            node >>= 1
        if node <= 1:
            return -1
        node += 1
    while node < n_leaves:
        node = 2 * node if tree[2 * node] != 0 else 2 * node + 1
    return node - n_leaves


@borrowing
def _mark(tree: FlagArray, leaf: int, flag: int) -> None:
    """Set a leaf to 1 or 0, and each node above to whether any leaf below it is set."""
    node = len(tree) // 2 + leaf
    tree[node] = flag
    while node > 1:
        node >>= 1
        tree[node] = tree[2 * node] | tree[2 * node + 1]


@releasing
def fit_best(sizes: LongArray, space: int, tree: FlagArray, tops: LongArray, below: LongArray, packs: LongArray) -> int:
    """Put each size into the pack with the least free space that holds it, else into a new one. Returns how many packs.

    Packs with the same free space lie on a stack; a tree of flags over all free spaces finds the next
    that is not empty.
    sizes: (n,) int64, from 1 to `space`, in the order in which they are placed
    tree: (2 · n_leaves,) uint8, zeros; n_leaves is a power of two above `space`
    tops: (space + 1,) int64, −1: the last pack with so much free space;  below: (n,) int64, is written
    packs: (n,) int64, is written: the pack of each
    """
    n_packs = 0
    for i in range(len(sizes)):
        free: Any = _least_from(tree, sizes[i])
        if free < 0:
            free, pack, n_packs = space, n_packs, n_packs + 1
        else:
            pack = tops[free]
            tops[free] = below[pack]
            if tops[free] < 0:
                _mark(tree, free, 0)
        packs[i], free = pack, free - sizes[i]
        if free > 0:
            if tops[free] < 0:
                _mark(tree, free, 1)
            below[pack], tops[free] = tops[free], pack
    return n_packs
