"""Build batches: choose sources, group and pack rows, add special ids, write padded arrays.

The loops serve different steps on the way from a stream to a batch, and do not call each other.
`volt.stream.mixing` calls `apportion`; `volt.batches` calls the others.
"""

from typing import Any, NamedTuple

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
from volt.kernels.jit import borrowing, inlined, releasing

NEVER = 1 << 62  # the index of a sample that never comes


class Periods(NamedTuple):
    """Runs of samples with constant shares: units[period, source] of a sample, for lengths[period]
    samples."""

    units: LongTable
    lengths: LongArray


@releasing
def apportion(
    lags: LongArray,
    units: LongTable,
    lengths: LongArray,
    turns: LongArray,
    whole: int,
    times: LongTable,
) -> None:
    """Fill `turns` with the sources of the next samples, and advance `lags`.

    A source's j-th sample comes after its total share exceeds j - 1 samples, and by its deadline,
    when the share is j. The earliest deadline comes first (Tijdeman, The chairman assignment
    problem, 1980). With the shares 3/4 and 1/4, the sources 0 0 0 1 repeat.

    lags: (n_sources,), the share of each source that is not yet used up, in units
    units: (n_periods, n_sources), each source's share of a sample, in units
    lengths: (n_periods,), the number of samples in each period
    whole: the units of a sample
    times: (3, n_sources), working memory
    """
    n = len(lags)
    periods = Periods(units, lengths)
    period = 0
    n_remaining = lengths[0]  # samples of the period
    firsts = times[0]  # the sample from which each source may come
    deadlines = times[1]
    updated = times[2]  # the sample up to which lags[source] counts the source's share
    for source in range(n):
        updated[source] = 0
        _set_times(
            source, lags[source], -1, whole, periods, period, n_remaining + 1, firsts, deadlines
        )
    for sample in range(len(turns)):
        while n_remaining == 0:
            for source in range(n):
                lags[source] += units[period, source] * (sample - updated[source])
                updated[source] = sample
            period += 1
            n_remaining = lengths[period]
        # Compiled to vector instructions, which a search for the source itself prevents.
        earliest = NEVER + 1
        for source in range(n):
            earliest = min(earliest, deadlines[source] if firsts[source] <= sample else NEVER + 1)
        chosen = 0
        while firsts[chosen] > sample or deadlines[chosen] != earliest:
            chosen += 1
        turns[sample] = chosen
        lags[chosen] += units[period, chosen] * (sample + 1 - updated[chosen]) - whole
        updated[chosen] = sample + 1
        _set_times(
            chosen, lags[chosen], sample, whole, periods, period, n_remaining, firsts, deadlines
        )
        n_remaining -= 1
    for source in range(n):
        lags[source] += units[period, source] * (len(turns) - updated[source])


@inlined
def _set_times(
    source: int,
    lag: int,
    sample: int,
    whole: int,
    periods: Periods,
    period: int,
    n_remaining: int,
    firsts: LongArray,
    deadlines: LongArray,
) -> None:
    """Set the first sample after `sample` at which the source may come, and its deadline.

    lag: the units that the source is owed after `sample`, less `whole` for each time it has come. It
        may come once the lag is 1 or more, and must come once it is `whole` or more.
    n_remaining: the samples of the period from `sample` on, `sample` included
    """
    delay = _samples_until(1 - lag, source, periods, period, n_remaining)
    wait = _samples_until(whole - lag, source, periods, period, n_remaining)
    firsts[source] = sample + max(delay, 1)
    deadlines[source] = NEVER
    if wait < NEVER:
        deadlines[source] = max(firsts[source], min(sample + wait, NEVER))


@borrowing
def _samples_until(need: int, source: int, periods: Periods, period: int, n_remaining: int) -> int:
    """Return after how many samples the source's share has grown by `need` units, or NEVER."""
    n_samples = 0
    n_remaining -= 1
    while need > 0:
        share = periods.units[period, source]
        if share > 0:
            n_needed = (need + share - 1) // share
            if n_needed <= n_remaining:
                return int(n_samples + n_needed)
            need -= share * n_remaining
        n_samples += n_remaining
        period += 1
        if period == len(periods.lengths):
            return NEVER
        n_remaining = periods.lengths[period]
    return int(n_samples)


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
    """Write each value, ids, between the ids `head` and `tail`.

    Returns the index of the first value with an id that is not in range(n_ids), or −1.
    """
    n_out = 0
    invalid = -1
    for i in range(len(starts)):
        copy_into(out, n_out, head, 0, len(head))
        n_out += len(head)
        for k in range(sizes[i]):
            number = data[starts[i] + k]
            if (number < 0 or number >= n_ids) and invalid < 0:
                invalid = i
            out[n_out + k] = number
        n_out += sizes[i]
        copy_into(out, n_out, tail, 0, len(tail))
        n_out += len(tail)
    return invalid


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
) -> int:
    """Fill rows of `width` ids with samples, one after the other, and with padding at one end.

    ids, offsets: sample i is ids[offsets[i]:offsets[i + 1]]
    samples, row_ends: row r contains samples[row_ends[r - 1]:row_ends[r]]
    firsts, is_last: for the i-th of `samples`: the id before it, and whether it must end with `eos`
    out, mask: (n_rows · width,), set to the ids, and to True for all but padding
    before: unless it is empty, set to the id before each id
    positions, starts: unless empty, set to each id's index in its sample or padding, and to their starts
    Returns the number of starts; with `before`, −1 − i for the first i whose sample lacks its EOS.
    """
    invalid = -1
    n_starts = first = 0
    for row in range(len(row_ends)):
        n_ids = _count_ids(samples, first, row_ends[row], offsets)
        to = row * width
        padding_start = to + n_ids
        if pads_left:
            padding_start = to
            to += width - n_ids
        padding_end = padding_start + width - n_ids
        _put_padding(padding_start, padding_end, pad, out, before, mask, positions)
        for i in range(first, row_ends[row]):
            start = offsets[samples[i]]
            size = offsets[samples[i] + 1] - start
            copy_into(out, to, ids, start, start + size)
            for k in range(size):
                mask[to + k] = True
            if len(before) > 0 and size > 0:
                before[to] = firsts[i]
                copy_into(before, to + 1, ids, start, start + size - 1)
                if invalid < 0 and is_last[i] and ids[start + size - 1] != eos:
                    invalid = i
            if len(positions) > 0 and size > 0:
                starts[n_starts] = to
                n_starts += 1
                for k in range(size):
                    positions[to + k] = k
            to += size
        if len(positions) > 0 and n_ids < width:
            starts[n_starts] = padding_start
            n_starts += 1
        first = row_ends[row]
    return n_starts if invalid < 0 else -1 - invalid


@inlined
def _count_ids(samples: LongArray, first: int, end: int, offsets: LongArray) -> int:
    n_ids = 0
    for i in range(first, end):
        n_ids += offsets[samples[i] + 1] - offsets[samples[i]]
    return n_ids


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
    """Group rows into steps of at most `max_tokens` padded ids for each rank, see
    `volt.batches.token_batches`.

    longest: (n,), the length of each row: of its longest side
    multiple: the number of a rank's rows is a multiple of it, if possible
    world: the number of ranks; each gets a row or more of each step
    ends: (n // world,), set to where each step ends
    Returns the number of steps.
    """
    n = len(longest)
    n_steps = start = 0
    while n - start >= world:
        widest = np.int64(0)
        end = start
        while end < n:
            widest = max(widest, longest[end])
            n_rows = (end - start) // world + 1  # of a rank, rounded up
            if n_rows > max_sentences or n_rows * widest > max_tokens:
                break
            end += 1
        if end < n:
            unit = multiple * world if end - start >= multiple * world else world
            end -= (end - start) % unit
        n_lacking = world - (n - end)  # rows that one more step lacks
        if 0 < n_lacking < world and end - start - n_lacking >= world:
            end -= n_lacking
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

    rows, step_ends: step s contains rows[step_ends[s - 1]:step_ends[s]]
    turns: (n_steps,), the steps in the order in which they are used
    order: (n,), set to the rows of all batches, in the order of `turns`, then of ranks
    ends: (n_steps · world,), set to where each batch ends
    """
    n_out = batch = 0
    for step in turns:
        start = step_ends[step - 1] if step > 0 else np.int64(0)
        for rank in range(world):
            for row in range(start + (rank + step) % world, step_ends[step], world):
                order[n_out] = rows[row]
                n_out += 1
            ends[batch] = n_out
            batch += 1


@releasing
def fit_best(
    sizes: LongArray,
    space: int,
    tree: ByteArray,
    tops: LongArray,
    below: LongArray,
    packs: LongArray,
) -> int:
    """Put each size into the fullest pack that has room for it, or into a new one. Return the
    number of packs.

    Packs with equal free space form a stack: tops[free] is its top, and below[pack] is the pack
    under a pack; −1 for none. `tree` finds the least free space that is enough: leaf `free` is 1 if
    the stack of this free space is not empty, and an inner node is 1 if one of its children is.
    Node i has the children 2i and 2i + 1.

    space: the size of a pack
    tree: (2 · a power of two above `space`,), all 0
    tops: (space + 1,), all −1
    below: (n,), overwritten
    packs: (n,), set to the pack of each size
    """
    n_packs = 0
    for i in range(len(sizes)):
        free: Any = _find_leaf(tree, sizes[i])
        if free < 0:
            free = space
            pack = n_packs
            n_packs += 1
        else:
            pack = tops[free]
            tops[free] = below[pack]
            if tops[free] < 0:
                _set_leaf(tree, free, 0)
        packs[i] = pack
        free -= sizes[i]
        if free > 0:
            if tops[free] < 0:
                _set_leaf(tree, free, 1)
            below[pack] = tops[free]
            tops[free] = pack
    return n_packs


@borrowing
def _find_leaf(tree: ByteArray, leaf: int) -> int:
    """Return the first leaf from `leaf` on that is 1, or −1."""
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
def _set_leaf(tree: ByteArray, leaf: int, flag: int) -> None:
    node = len(tree) // 2 + leaf
    tree[node] = flag
    while node > 1:
        node >>= 1
        tree[node] = tree[2 * node] | tree[2 * node + 1]
