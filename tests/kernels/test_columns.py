"""The loops over values of lines, compared with Python's bytes and integers, in buffers that are exactly full."""

from itertools import pairwise
from random import Random

import numpy as np
from kernels.support import GUARD, bytes_of, drawn, room, texts, views, written
from support.flat import ends_of, flat, longs, read_only
from support.splitmix import MASK, mixed

from volt.kernels import columns


def test_line_ends_finds_all_line_feeds():
    """`line_ends` writes the positions of line feeds until its array is full, and returns how many
    line feeds there are."""
    for rng, values in drawn(1, "ab\n\n"):
        data = b"".join(filter(None, values))
        expected = [place for place, byte in enumerate(data) if byte == 10]
        ends = np.full(max(0, len(expected) + rng.randint(-1, 1)), -1)
        assert columns.line_ends(bytes_of(data), ends) == len(expected)
        assert ends.tolist() == [*expected, -1][: len(ends)]


def test_cut_splits_values_at_tabs():
    """`cut` writes field k of each value to row k, and the rest of values with more fields to the
    last row; missing fields have the size −1."""
    for rng, values in drawn(2, "aaaaaa\n\t\t"):
        n_fields, row = rng.randint(0, 3), views(values, rng, rng.choice([0, 20]))
        starts, sizes = (np.zeros((n_fields + 1, len(values)), np.int64) for _ in range(2))
        more = columns.cut(*row, starts, sizes)
        fields = [[] if value is None else value.split(b"\t", n_fields) for value in values]
        assert more == any(len(parts) > n_fields for parts in fields)
        for k in range(n_fields + 1):
            assert texts(row[0], starts[k], sizes[k]) == [
                parts[k] if k < len(parts) else None for parts in fields
            ]


def test_write_values_writes_values_one_after_the_other():
    """`write_values` writes values one after the other, each followed by a byte; a missing value is
    empty."""
    for rng, values in drawn(3, "abc"):
        expected = [(value or b"") + b"\7" for value in values]
        out, ends = room(sum(map(len, expected))), np.zeros(len(values), np.int64)
        columns.write_values(*views(values, rng), 7, out, ends)
        assert written(out) == b"".join(expected)
        assert ends.tolist() == ends_of(expected)


def test_put_values_writes_each_value_to_its_position():
    """`put_values` writes each value to its position, between the same bytes, writes nothing else,
    and sets the position to that after the value."""
    for rng, values in drawn(3, "abc"):
        before, after = rng.choice([(b"", b""), (b"<b>", b"/"), (b"\t", b"")])
        around = [b"" if value is None else before + value + after for value in values]
        gaps = [rng.randint(0, 2) for _ in values]
        starts = np.cumsum(
            [0, *(len(value) + gap for value, gap in zip(around, gaps, strict=True))]
        )
        out, places = room(starts[-1]), starts[:-1].copy()
        columns.put_values(*views(values, rng), bytes_of(before), bytes_of(after), out, places)
        padded = [value + bytes([GUARD]) * gap for value, gap in zip(around, gaps, strict=True)]
        assert written(out) == b"".join(padded)
        assert places.tolist() == [start + len(v) for start, v in zip(starts, around, strict=False)]


def test_write_runs_joins_the_values_of_each_run():
    """`write_runs` writes the values of each run with the same bytes between them."""
    for rng, values in drawn(3, "abc"):
        n = len(values)
        bounds = sorted({0, n, *rng.choices(range(n + 1), k=2)})
        for between in (b"", b" - "):
            runs = [
                between.join(value or b"" for value in values[a:b]) for a, b in pairwise(bounds)
            ]
            out = room(len(b"".join(runs)))
            columns.write_runs(*views(values, rng), longs(bounds), bytes_of(between), out)
            assert written(out) == b"".join(runs)


def test_write_numbers_writes_numbers_as_str_does():
    """`write_numbers` writes numbers of every length as `str` does, and `number_sizes` counts their
    bytes, also for missing values and values without numbers."""
    rng = Random(4)
    edges = [0, 9, 10, 99, 100, 999_999_999, 2**31 - 1, -1, -9, -10, -(2**31)]
    ids = read_only(edges + rng.choices(edges, k=30))
    for _ in range(20):
        starts = longs([rng.randint(0, len(ids)) for _ in range(rng.randint(0, 5))])
        sizes = longs([rng.randint(-1, min(4, len(ids) - start)) for start in starts])
        values = [
            " ".join(map(str, ids[a : a + max(n, 0)])) for a, n in zip(starts, sizes, strict=True)
        ]
        lengths = np.zeros(len(starts), np.int64)
        columns.number_sizes(ids, starts, sizes, lengths)
        assert lengths.tolist() == [
            len(v) if n >= 0 else -1 for v, n in zip(values, sizes, strict=True)
        ]
        out = room(sum(map(len, values)))
        columns.write_numbers(ids, starts, sizes, np.cumsum(np.maximum(lengths, 0)), out)
        assert written(out).decode() == "".join(values)


def test_shuffle_equals_a_naive_twin():
    """`shuffle` swaps line i, from the last to the first, with a line that is not after it, which
    the upper half of word i chooses."""
    rng = Random(5)
    for n in range(8):
        words = np.array([rng.getrandbits(64) for _ in range(n)], np.uint64)
        order = np.arange(n)
        columns.shuffle(words, order)
        expected = list(range(n))
        for i in range(n - 1, 0, -1):
            j = (int(words[i]) >> 32) * (i + 1) >> 32
            expected[i], expected[j] = expected[j], expected[i]
        assert order.tolist() == expected


def test_permuted_orders_output_lines_like_their_input_lines():
    """`permuted` orders output lines like the input lines that they come from, and returns fewer
    than all if output lines are out of order."""
    rng = Random(5)
    for n in range(8):
        order = longs(rng.sample(range(n), n))
        inputs = sorted(rng.sample(range(20), n))
        outputs = sorted(rng.choices(inputs, k=2 * n)) if n else []
        by_input = [[line for line, x in enumerate(outputs) if x == inputs[i]] for i in order]
        firsts, out = np.zeros(n + 1, np.int64), np.full(2 * n + 1, -1)
        assert columns.permuted(longs(inputs), longs(outputs), order, firsts, out) == 2 * n
        assert out.tolist() == [*flat(by_input), -1]
        if len({*outputs}) > 1:
            turned = longs(outputs[::-1])
            assert columns.permuted(longs(inputs), turned, order, firsts, out) < 2 * n


def test_draw_equals_a_naive_twin():
    """`draw` computes a number from the key, the origin of a line, and its index in this origin, as
    a twin with integers of Python does."""
    rng = Random(5)
    for n in range(8):
        first, second = rng.getrandbits(64), rng.getrandbits(64)
        origins = sorted(rng.choices(range(3), k=n))
        numbers = np.zeros(n, np.uint64)
        columns.draw(np.uint64(first), np.uint64(second), longs(origins), numbers)
        for i, origin in enumerate(origins):
            word = mixed(first ^ mixed((origin * 0x9E3779B97F4A7C15 + second) & MASK))
            copy = second + origins[:i].count(origin) * 0xD1B54A32D192ED03
            assert numbers[i] == mixed(word ^ (copy & MASK))


def test_find_starts_joins_lines_with_one_id_while_they_fit():
    """`find_starts` joins a line to a document if it has the id of the first line, and tokens and
    lines stay within the limits."""
    rng = Random(6)
    for _ in range(60):
        n, n_fields, most = rng.randint(0, 12), rng.randint(1, 2), rng.randint(1, 4)
        ids = rng.choices([b"", b"aa", b"aa", b"ab", b"abc"], k=n)
        counts = longs(rng.choices(range(4), k=n * n_fields)).reshape(n_fields, n)
        joins = np.array([rng.random() < 0.9 for _ in range(n)], bool)
        limits = longs(rng.choices([4, 6, 9], k=n))
        expected = []
        for i in range(n):
            start = expected[-1] if expected else 0
            fits = (counts[:, start : i + 1].sum(1) <= limits[start]).all()
            same = ids[i] and ids[i] == ids[start] and joins[start] and i - start < most
            if not (expected and same and fits):
                expected.append(i)
        out, totals = np.full(n + 1, -1), np.zeros(n_fields, np.int64)
        row = views(ids, rng)
        n_documents = columns.find_starts(counts, joins, limits, most, *row, totals, out)
        assert out[:n_documents].tolist() == expected
