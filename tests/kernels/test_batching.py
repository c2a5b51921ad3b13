"""The loops that build batches, compared with plain Python, in buffers that are exactly full."""

from random import Random

import numpy as np
from support.batching import naive_rows, naive_steps
from support.flat import ends_of, flat, longs, read_only

from volt.kernels import batching


def test_apportion_chooses_the_source_with_the_earliest_deadline():
    """`apportion` gives each sample to the source whose share must reach a whole sample first, and
    to the first of equal ones, as a naive twin does."""
    rng = Random(1)
    for _ in range(60):
        n, whole, lengths = (
            rng.randint(1, 9),
            12,
            [rng.randint(0, 5) for _ in range(rng.randint(1, 4))],
        )
        lengths[-1] += not sum(lengths)
        rows = [sorted([0, *rng.choices(range(13), k=n - 1), whole]) for _ in lengths]
        units = longs([rng.sample(list(np.diff(row)), n) for row in rows])
        owed = np.cumsum([0, *rng.choices([-whole, -5, 0, 5], k=n - 1)])
        lags = longs(np.append(owed[1:] - owed[:-1], -owed[-1]))
        shares, expected, deadlines = np.repeat(units, lengths, 0), [], {}
        left = lags.copy()
        for sample in range(n_samples := rng.randint(0, len(shares))):
            left += shares[sample]
            for source in np.flatnonzero(left > 0).tolist():
                if source not in deadlines:
                    need = (
                        whole - left[source] - np.append(0, np.cumsum(shares[sample + 1 :, source]))
                    )
                    due = np.flatnonzero(need <= 0)
                    deadlines[source] = sample + int(due[0]) if len(due) else batching.NEVER
            expected.append(min(deadlines, key=lambda source: (deadlines[source], source)))
            left[expected[-1]] -= whole
            del deadlines[expected[-1]]
        turns = np.full(n_samples, -1)
        times = np.full((3, n), -1)
        batching.apportion(lags, units, longs(lengths), turns, whole, times)
        assert (turns.tolist(), lags.tolist()) == (expected, left.tolist())


def test_frame_ids_writes_each_value_between_head_and_tail():
    """`frame_ids` writes each value between head and tail, and returns the first value with an id
    out of range."""
    rng = Random(2)
    for _ in range(40):
        starts, sizes = longs([3, 0, 5]), longs([rng.randint(0, 3) for _ in range(3)])
        data = read_only(rng.choices(range(-1, 6), [1, 9, 9, 9, 9, 9, 1], k=9))
        values = [data[i : i + n].tolist() for i, n in zip(starts, sizes, strict=True)]
        head, tail = [7] * rng.randint(0, 2), [8, 9][: rng.randint(0, 2)]
        framed = flat([*head, *value, *tail] for value in values)
        out = np.full(len(framed) + 1, -9, np.int32)
        bad = batching.frame_ids(data, starts, sizes, read_only(head), read_only(tail), 5, out)
        assert out.tolist() == [*framed, -9]
        wrong = [i for i, value in enumerate(values) if not {*value} <= {*range(5)}]
        assert bad == (wrong[0] if wrong else -1)


def test_lay_out_fills_rows_with_samples_and_padding():
    """The arrays that `lay_out` fills equal those of a naive twin; it leaves empty arrays empty,
    and returns the first sample without its EOS."""
    rng = Random(3)
    for _ in range(200):
        sizes = [rng.randint(0, 4) for _ in range(5)]
        ids, offsets = read_only(rng.choices([1, 2, 3], k=sum(sizes))), np.cumsum([0, *sizes])
        packs = [rng.sample(range(5), rng.randint(0, 3)) for _ in range(rng.randint(0, 3))]
        rows = flat(packs)
        samples = [ids[offsets[row] : offsets[row + 1]].tolist() for row in rows]
        firsts, lasts = [10 + row for row in rows], [rng.random() < 0.5 for _ in rows]
        width = max([sum(sizes[row] for row in pack) for pack in packs], default=0) + rng.randint(
            0, 2
        )
        pads_left, n = rng.random() < 0.5, len(packs) * width
        before, positions = (np.full(n * (rng.random() < 0.7), -9) for _ in range(2))
        arrays = np.full(n, -9), before, np.full(n, rng.random() < 0.5), positions
        starts = np.full(len(rows) + len(packs), -9, np.int32)
        n_starts = batching.lay_out(
            ids,
            offsets,
            longs(rows),
            longs(ends_of(packs)),
            width,
            pads_left,
            longs(firsts),
            np.array(lasts, bool),
            2,
            7,
            *arrays,
            starts,
        )
        places, expected = naive_rows(
            samples, firsts, ends_of(packs), width, pads_left=pads_left, pad=7
        )
        for number, array in enumerate(arrays):
            assert not len(array) or array.tolist() == [place[number] for place in places]
        wrong = [
            i
            for i, sample in enumerate(samples)
            if len(before) and sample and lasts[i] and sample[-1] != 2
        ]
        if wrong:
            assert n_starts == -1 - wrong[0]
        elif len(positions):
            assert sorted(starts[:n_starts].tolist()) == expected


def test_cut_steps_and_deal_rows_equal_naive_twins():
    """The steps of `cut_steps` equal those of a naive twin.

    `deal_rows` gives rank r the rows of step s whose index modulo world is (r + s) modulo world.
    """
    rng = Random(4)
    for _ in range(150):
        longest, world = [rng.randint(0, 6) for _ in range(rng.randint(0, 14))], rng.randint(1, 3)
        most, sentences, multiple = rng.randint(6, 14), rng.randint(1, 4), rng.randint(1, 3)
        ends, steps = (
            np.full(len(longest) // world, -1),
            naive_steps(longest, most, sentences, multiple, world),
        )
        assert batching.cut_steps(longs(longest), most, sentences, multiple, world, ends) == len(
            steps
        )
        assert ends[: len(steps)].tolist() == steps
        rows, turns = rng.sample(range(50), len(longest)), rng.sample(range(len(steps)), len(steps))
        order, dealt = np.full(len(rows), -1), np.full(len(steps) * world, -1)
        batching.deal_rows(longs(rows), longs(steps), longs(turns), world, order, dealt)
        starts = [0, *steps]
        batches = [
            rows[starts[s] : steps[s]][(rank + s) % world :: world]
            for s in turns
            for rank in range(world)
        ]
        assert order[: len(flat(batches))].tolist() == flat(batches)
        assert dealt.tolist() == ends_of(batches)
