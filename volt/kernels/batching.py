"""Build batches: choose sources, group and pack rows, add special ids, write padded arrays."""

from typing import Any

import numpy as np

from volt.kernels.arrays import (
    ByteArray,
    FlagArray,
    IdArray,
    IntArray,
    LongArray,
    LongTable,
    copy_into,
)
from volt.kernels.jit import borrowing, inlined, loop, releasing

NEVER = 1 << 62


@loop
def apportion(
    lags: LongArray, units: LongTable, lengths: LongArray, turns: LongArray, whole: int
) -> None:
    """Fill `turns` with the sources of the next samples and advance `lags`.

    A source's j-th sample comes after its total share exceeds j - 1 samples, and by its deadline, when the share is j.
    The earliest deadline comes first (Tijdeman, The chairman assignment problem, 1980).

    lags: (n_sources,), the share of each source that is not yet used up, in units;  whole: the units of a sample
    units: (n_stretches, n_sources), each source's share of a sample
    lengths: (n_stretches,), the number of samples in each stretch
    """
    n = len(lags)
    stretch = 0
    left = lengths[0]
    firsts = np.empty(n, np.int64)
    deadlines = np.empty(n, np.int64)
    since = np.zeros(n, np.int64)
    for source in range(n):
        _set_times(
            lags[source], units, lengths, source, stretch, left + 1, -1, whole, firsts, deadlines
        )
    for sample in range(len(turns)):
        while left == 0:
            for source in range(n):
                lags[source] += units[stretch, source] * (sample - since[source])
                since[source] = sample
            stretch += 1
            left = lengths[stretch]
        # Compiled to vector instructions, which a search for the source itself prevents.
        earliest = NEVER + 1
        for source in range(n):
            earliest = min(earliest, deadlines[source] if firsts[source] <= sample else NEVER + 1)
        chosen = 0
        while firsts[chosen] > sample or deadlines[chosen] != earliest:
            chosen += 1
        turns[sample] = chosen
        lags[chosen] += units[stretch, chosen] * (sample + 1 - since[chosen]) - whole
        since[chosen] = sample + 1
        _set_times(
            lags[chosen], units, lengths, chosen, stretch, left, sample, whole, firsts, deadlines
        )
        left -= 1
    for source in range(n):
        lags[source] += units[stretch, source] * (len(turns) - since[source])


@inlined
def _set_times(
    lag: int,
    units: LongTable,
    lengths: LongArray,
    source: int,
    stretch: int,
    left: int,
    sample: int,
    whole: int,
    firsts: LongArray,
    deadlines: LongArray,
) -> None:
    """Set the first sample after `sample` at which a source may come, and its deadline."""
    delay = _samples_until(1 - lag, units, lengths, source, stretch, left)
    wait = _samples_until(whole - lag, units, lengths, source, stretch, left)
    firsts[source] = sample + max(delay, 1)
    deadlines[source] = NEVER
    if wait < NEVER:
        deadlines[source] = max(firsts[source], min(sample + wait, NEVER))


@borrowing
def _samples_until(
    need: int, units: LongArray, lengths: LongArray, source: int, stretch: int, left: int
) -> int:
    samples = 0
    left -= 1
    while need > 0:
        share = units[stretch, source]
        if share > 0:
            steps = (need + share - 1) // share
            if steps <= left:
                return int(samples + steps)
            need -= share * left
        samples += left
        stretch += 1
        if stretch == len(lengths):
            return NEVER
        left = lengths[stretch]
    return int(samples)


@releasing
def frame_ids(
    data: IdArray,
    starts: LongArray,
    sizes: LongArray,
    head: IdArray,
    tail: IdArray,
    n_ids: int,
    out: IntArray,
) -> int:
    """Write each value between `head` and `tail`. Return the first value with an id not in range(n_ids), or -1."""
    at = 0
    bad = -1
    for i in range(len(starts)):
        copy_into(out, at, head, 0, len(head))
        at += len(head)
        for k in range(sizes[i]):
            number = data[starts[i] + k]
            if (number < 0 or number >= n_ids) and bad < 0:
                bad = i
            out[at + k] = number
        at += sizes[i]
        copy_into(out, at, tail, 0, len(tail))
        at += len(tail)
    return bad


@releasing
def lay_out(
    ids: IdArray,
    offsets: LongArray,
    samples: LongArray,
    row_ends: LongArray,
    width: int,
    pads_left: bool,
    firsts: LongArray,
    is_last: FlagArray,
    eos: int,
    pad: int,
    out: LongArray | IntArray,
    before: LongArray | IntArray,
    mask: FlagArray,
    positions: LongArray,
    starts: IntArray,
) -> tuple[int, int]:
    """Fill rows of `width` ids with samples, one after the other, and with padding at one end.

    row_ends: where each row's samples end in `samples`
    out, mask: the ids, and True for all but padding
    before: the id before each id (firsts[i] at the start of sample i), unless it is empty
    positions, starts: the index of each id in its sample or padding, and where these start, unless empty
    Returns the first i whose sample must end in EOS but does not (checked only with `before`), or -1, and the number of
    starts.
    """
    bad = -1
    n_starts = first = 0
    for row in range(len(row_ends)):
        n = 0
        for i in range(first, row_ends[row]):
            n += offsets[samples[i] + 1] - offsets[samples[i]]
        at = row * width
        gap = at + n
        if pads_left:
            gap = at
            at += width - n
        _put_padding(gap, gap + width - n, pad, out, before, mask, positions)
        for i in range(first, row_ends[row]):
            start = offsets[samples[i]]
            size = offsets[samples[i] + 1] - start
            copy_into(out, at, ids, start, start + size)
            for k in range(size):
                mask[at + k] = True
            if len(before) > 0 and size > 0:
                before[at] = firsts[i]
                copy_into(before, at + 1, ids, start, start + size - 1)
                if bad < 0 and is_last[i] and ids[start + size - 1] != eos:
                    bad = i
            if len(positions) > 0 and size > 0:
                starts[n_starts] = at
                n_starts += 1
                for k in range(size):
                    positions[at + k] = k
            at += size
        if len(positions) > 0 and n < width:
            starts[n_starts] = gap
            n_starts += 1
        first = row_ends[row]
    return bad, n_starts


@inlined
def _put_padding(
    start: int,
    end: int,
    pad: int,
    out: LongArray,
    before: LongArray,
    mask: FlagArray,
    positions: LongArray,
) -> None:
    for k in range(start, end):
        out[k] = pad
        mask[k] = False
        if len(before) > 0:
            before[k] = pad
        if len(positions) > 0:
            positions[k] = k - start


@releasing
def cut_steps(
    longest: LongArray,
    max_tokens: int,
    max_sentences: int,
    multiple: int,
    world: int,
    ends: LongArray,
) -> int:
    """Group rows into steps, see `volt.batches.token_batches`. Return the number of steps.

    longest: (n,), the longest side of each row;  ends: (n // world,), set to where each step ends
    """
    n = len(longest)
    n_steps = start = 0
    while n - start >= world:
        top = np.int64(0)
        end = start
        while end < n:
            top = max(top, longest[end])
            share = (end - start) // world + 1  # the rows of a rank, rounded up
            if share > max_sentences or share * top > max_tokens:
                break
            end += 1
        if end < n:
            unit = multiple * world if end - start >= multiple * world else world
            end -= (end - start) % unit
        short = world - (n - end)  # the rows that one more step lacks
        if 0 < short < world and end - start - short >= world:
            end -= short
        ends[n_steps] = start = end
        n_steps += 1
    return n_steps


@releasing
def deal_rows(
    rows: LongArray,
    step_ends: LongArray,
    turns: LongArray,
    world: int,
    order: LongArray,
    ends: LongArray,
) -> None:
    """Give every `world`-th row of a step to the same rank; each step begins with a different rank.

    order: (n,), set to the rows of all batches;  ends: (n_steps · world,), set to where each batch ends
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
def _least_from(tree: ByteArray, leaf: int) -> int:
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
def _mark(tree: ByteArray, leaf: int, flag: int) -> None:
    node = len(tree) // 2 + leaf
    tree[node] = flag
    while node > 1:
        node >>= 1
        tree[node] = tree[2 * node] | tree[2 * node + 1]


@releasing
def fit_best(
    sizes: LongArray,
    space: int,
    tree: ByteArray,
    tops: LongArray,
    below: LongArray,
    packs: LongArray,
) -> int:
    """Put each size into the fullest pack that has room for it, or into a new one. Return the number of packs.

    Packs with equal free space form a stack (`tops`, `below`); a tree of flags over all free spaces finds the next
    stack.
    """
    n_packs = 0
    for i in range(len(sizes)):
        free: Any = _least_from(tree, sizes[i])
        if free < 0:
            free = space
            pack = n_packs
            n_packs += 1
        else:
            pack = tops[free]
            tops[free] = below[pack]
            if tops[free] < 0:
                _mark(tree, free, 0)
        packs[i] = pack
        free -= sizes[i]
        if free > 0:
            if tops[free] < 0:
                _mark(tree, free, 1)
            below[pack] = tops[free]
            tops[free] = pack
    return n_packs
