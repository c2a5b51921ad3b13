"""Slow, obvious twins of the batching loops, and two programs whose padding VOLT's must not exceed.

The programs are written from what their authors say that they do:

    fairseq      sorts permuted rows by target length, then by source length; ties stay. It collects
                 rows until one more would cost more than max_tokens. Then the largest multiple of 8
                 of the rows is a batch, or all if there are fewer than 8; the others stay collected.
    the sampler  sorts rows by length + U(−ρ · length, ρ · length), where length is that of the
                 longer side. It closes a batch when one more row would cost more than max_tokens.
"""

import random
from functools import cache
from itertools import pairwise


def fairseq_batches(lengths, max_tokens, *, multiple=8, seed=0):
    """Return the batches that fairseq makes."""
    rows = list(range(len(lengths)))
    random.Random(seed).shuffle(rows)
    rows.sort(key=lambda row: lengths[row])

    def n_closed(collected):
        n = len(collected)
        return n if n < multiple else n - n % multiple

    return _close_batches(rows, lengths, max_tokens, n_closed)


def _close_batches(rows, lengths, max_tokens, n_closed):
    """Collect rows, and close batches of them while one more row would cost more than max_tokens.

    n_closed: collected rows → the number of rows in the batch to close; the others stay collected
    """
    longest = list(map(max, lengths))
    batches = []
    collected = []
    for row in rows:
        while (
            collected
            and (len(collected) + 1) * max(longest[r] for r in [*collected, row]) > max_tokens
        ):
            n = n_closed(collected)
            batches.append(collected[:n])
            collected = collected[n:]
        collected.append(row)
    if collected:
        batches.append(collected)
    return batches


def sampler_batches(lengths, max_tokens, *, ratio=0.1, seed=0):
    """Return the batches that the max-token sampler makes."""
    drawn = random.Random(seed)
    keys = [length + drawn.uniform(-ratio * length, ratio * length) for length in map(max, lengths)]
    rows = sorted(range(len(lengths)), key=keys.__getitem__)
    return _close_batches(rows, lengths, max_tokens, len)


def share_of_padding(batches, lengths):
    """Return the share of padding in all batches."""
    sides = [
        side for batch in batches for side in zip(*[lengths[row] for row in batch], strict=True)
    ]
    n_places = sum(len(side) * max(side) for side in sides)
    n_used = sum(map(sum, sides))
    return (n_places - n_used) / n_places if n_places else 0.0


def as_lists(value):
    """Convert the arrays of a step to lists."""
    if isinstance(value, dict):
        return {name: as_lists(item) for name, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def naive_steps(longest, max_tokens, max_sentences, multiple, world):
    """Return the end of each step's rows: the naive twin of `cut_steps`."""
    ends = []
    start = 0
    n = len(longest)
    while n - start >= world:
        rooms = [
            k
            for k in range(1, n - start + 1)
            if fits(longest[start : start + k], max_tokens, max_sentences, world)
        ]
        k = max(rooms)
        if start + k < n:
            step = multiple * world
            if k < step:
                step = world
            k -= k % step
        rest = n - start - k
        if 0 < rest < world and k - (world - rest) >= world:
            k -= world - rest
        start += k
        ends.append(start)
    return ends


def naive_batches(lengths, kept, given):
    """Return the rows of each batch: the naive twin of `token_batches` without random numbers.

    kept: rows that are neither too long nor too short
    """
    widths = given.get("buckets")
    world = given["world"]

    def width_of(n):
        return min(w for w in widths if w >= n) if widths else n

    sides = {row: tuple(map(width_of, lengths[row])) for row in kept}
    longest = {row: max(one) for row, one in sides.items()}

    def lean(row):
        difference = sides[row][0] - sides[row][-1]
        return -difference if longest[row] % 2 else difference

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
    """Return the free space after each size is packed: the naive twin of `fit_best`.

    Of several packs with equal free space, it may choose another one than `fit_best`.
    """
    free = []
    found = []
    for size in sizes:
        room = min((one for one in free if one >= size), default=space)
        if room in free:
            free.remove(room)
        free.append(room - size)
        found.append(free[-1])
    return found


def fewest_packs(sizes, space):
    """Return the least number of packs, by trying all ways."""

    @cache
    def fewest(left, free):
        if not left:
            return len(free)
        size, *others = left
        others = tuple(others)
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
    """Return a row (id, previous id, whether it is no padding, index in its segment) for each place,
    and the places where segments start.
    """
    places = []
    starts = []
    for start, end in pairwise([0, *row_ends]):
        segments = [
            [(number, ([first, *sample])[k], True, k) for k, number in enumerate(sample)]
            for sample, first in zip(samples[start:end], firsts[start:end], strict=True)
        ]
        padding = [(pad, pad, False, k) for k in range(width - sum(map(len, segments)))]
        segments.insert(0 if pads_left else len(segments), padding)
        for segment in segments:
            starts += [len(places)] * bool(segment)
            places += segment
    return places, starts
