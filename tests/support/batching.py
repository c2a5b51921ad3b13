"""Slow, obvious twins, and the programs whose padding ours must not exceed.

The peers are written from what their authors say that they do:

    fairseq      rows are permuted and sorted by target length, then by source length, ties kept. Rows are collected
                 until one more would cost more than max_tokens; then the largest multiple of 8 of them goes out, or
                 all where there are fewer than 8, and the others stay collected.
    the sampler  rows are sorted by length + U(−ρ · length, ρ · length), the length being that of the longer side; a
                 batch is closed where one more row would cost more than max_tokens
"""

import random
from functools import cache
from itertools import pairwise

Row = tuple[int, ...]
Batches = list[list[int]]


def fairseq_batches(lengths, max_tokens, *, multiple=8, seed=0):
    """Return the batches that fairseq makes."""
    rows = list(range(len(lengths)))
    random.Random(seed).shuffle(rows)
    for side in reversed(range(len(lengths[0]) if lengths else 0)):
        rows.sort(key=lambda row: lengths[row][side])
    done, collected, longest = Batches(), [], list(map(max, lengths))
    top = 0  # the longest of those collected
    for row in rows:
        while collected and (len(collected) + 1) * max(top, longest[row]) > max_tokens:
            n = (
                len(collected) - len(collected) % multiple
                if len(collected) >= multiple
                else len(collected)
            )
            done.append(collected[:n])
            collected = collected[n:]
            top = max((longest[other] for other in collected), default=0)
        collected.append(row)
        top = max(top, longest[row])
    return [*done, collected] if collected else done


def sampler_batches(lengths, max_tokens, *, ratio=0.1, seed=0):
    """Return the batches that the max-token sampler makes."""
    drawn, longest = random.Random(seed), list(map(max, lengths))
    keys = [length + drawn.uniform(-ratio * length, ratio * length) for length in longest]
    done, collected, top = Batches(), [], 0
    for row in sorted(range(len(lengths)), key=keys.__getitem__):
        if collected and (len(collected) + 1) * max(top, longest[row]) > max_tokens:
            done.append(collected)
            collected, top = [], 0
        collected.append(row)
        top = max(top, longest[row])
    return [*done, collected] if collected else done


def share_of_padding(batches, lengths):
    """Return the share of padding in all batches."""
    sides = [
        side for batch in batches for side in zip(*[lengths[row] for row in batch], strict=True)
    ]
    laid_out, full = sum(len(side) * max(side) for side in sides), sum(map(sum, sides))
    return (laid_out - full) / laid_out if laid_out else 0.0


def naive_steps(longest, max_tokens, max_sentences, multiple, world):
    """Return where each step's rows end: the naive twin of `cut_steps`."""
    ends, start, n = [], 0, len(longest)
    while n - start >= world:
        rooms = [
            k
            for k in range(1, n - start + 1)
            if fits(longest[start : start + k], max_tokens, max_sentences, world)
        ]
        k = max(rooms)
        if start + k < n:
            k -= k % (multiple * world if k >= multiple * world else world)
        rest = n - start - k
        if 0 < rest < world and k - (world - rest) >= world:
            k -= world - rest
        start += k
        ends.append(start)
    return ends


def naive_batches(lengths, kept, given):
    """The twin of `token_batches` without chance: the rows of each batch.

    kept: rows that are neither too long nor too short
    """
    widths, world = given.get("buckets"), given["world"]
    sides = {
        row: tuple(min(w for w in widths if w >= n) if widths else n for n in lengths[row])
        for row in kept
    }
    longest = {row: max(one) for row, one in sides.items()}

    def lean(row):
        return (sides[row][0] - sides[row][-1]) * (-1 if longest[row] % 2 else 1)

    if given.get("sort") == "sides":
        order = sorted(kept, key=sides.__getitem__)
    else:
        order = sorted(kept, key=lambda row: (longest[row], lean(row)))
    most = given.get("max_sentences", len(lengths))
    padded = [
        -(-longest[row] // given["pad_to_multiple"]) * given["pad_to_multiple"] for row in order
    ]
    ends = naive_steps(padded, given["max_tokens"], most, given["multiple"], world)
    steps = [order[start:end] for start, end in pairwise([0, *ends])]
    return [
        step[(rank + n) % world :: world] for n, step in enumerate(steps) for rank in range(world)
    ]


def fits(longest, max_tokens, max_sentences, world):
    """Check whether these rows can be one step."""
    share = -(-len(longest) // world)
    return share <= max_sentences and share * max(longest) <= max_tokens


def naive_best_fit(sizes, space):
    """The twin of `fit_best`, but for which of several packs with the same free space is taken: the free space left
    by each size."""
    free, found = [], []
    for size in sizes:
        room = min((one for one in free if one >= size), default=None)
        if room is not None:
            free.remove(room)
        free.append((space if room is None else room) - size)
        found.append(free[-1])
    return found


def fewest_packs(sizes, space):
    """Return the least number of packs, by trying all ways."""

    @cache
    def fewest(left, free):
        if not left:
            return len(free)
        size, others = left[0], left[1:]
        choices = [fewest(others, tuple(sorted((*free, space - size))))]
        for place, room in enumerate(free):
            if room >= size:
                rest = (*free[:place], *free[place + 1 :], room - size)
                choices.append(fewest(others, tuple(sorted(rest))))
        return min(choices)

    return fewest(tuple(sorted(sizes, reverse=True)), ())


def naive_rows(
    samples,
    firsts,
    row_ends,
    width,
    *,
    pads_left,
    pad,
):
    """Return the id of each place, the id before it, whether it is an id, and its index; and where segments start."""
    places, starts = [], []
    for start, end in pairwise([0, *row_ends]):
        segments = [
            [(number, ([first, *sample])[k], True, k) for k, number in enumerate(sample)]
            for sample, first in zip(samples[start:end], firsts[start:end], strict=True)
        ]
        padding = [(pad, pad, False, k) for k in range(width - sum(map(len, segments)))]
        for segment in [padding, *segments] if pads_left else [*segments, padding]:
            starts += [len(places)] * bool(segment)
            places += segment
    return places, starts
