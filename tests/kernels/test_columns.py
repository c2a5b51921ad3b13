"""The loops over values of lines, compared with Python's bytes and integers, in buffers that are exactly full."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
from kernels.support import GUARD, Values, bytes_of, drawn, room, texts, views, written
from support.flat import ends_of, flat, longs, read_only
from support.splitmix import MASK, mixed

from volt.kernels import columns


def test_lines_end_at_line_feeds():
    """The positions of line feeds are written until the array is full; all line feeds are counted."""
    for rng, values in drawn(1, "ab\n\n"):
        data = b"".join(filter(None, values))
        expected = [place for place, byte in enumerate(data) if byte == 10]
        ends = np.full(max(0, len(expected) + rng.randint(-1, 1)), -1)
        assert columns.line_ends(bytes_of(data), ends) == len(expected)
        assert ends.tolist() == [*expected, -1][: len(ends)]


def test_values_are_cut_at_tabs():
    """Row k has field k of each value; the last row has the rest of values with more fields. Other places are missing."""
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


def test_values_are_written_one_after_the_other():
    """A byte follows each value; a missing value is empty."""
    for rng, values in drawn(3, "abc"):
        expected = [(value or b"") + b"\7" for value in values]
        out, ends = room(sum(map(len, expected))), np.zeros(len(values), np.int64)
        columns.write_values(*views(values, rng), 7, out, ends)
        assert written(out) == b"".join(expected)
        assert ends.tolist() == ends_of(expected)


def test_values_are_put_in_their_places():
    """Each value is written between the same bytes, nothing else is, and its place becomes the place after it."""
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


def test_runs_of_values_are_joined():
    """The values of each run are written with the same bytes between them."""
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


def test_numbers_are_written_as_text():
    """Numbers of every length, and missing values and values without numbers, are written as `str` writes them."""
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


def test_lines_are_shuffled_by_random_words():
    """Line i from the end is swapped with a line that is not after it, drawn by the upper half of word i."""
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


def test_output_lines_follow_their_input_lines():
    """Fewer lines than all are written if the output lines are out of order."""
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


def test_a_random_number_depends_on_the_key_the_origin_and_the_copy():
    """The numbers equal those of a twin with Python's integers."""
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


def test_documents_take_lines_while_they_fit():
    """A line joins if its id is that of the document's first line, and tokens and lines are within its limits."""
    rng = Random(6)
    for _ in range(60):
        n, n_fields, most = rng.randint(0, 12), rng.randint(1, 2), rng.randint(1, 4)
        ids: Values = rng.choices([b"", b"aa", b"aa", b"ab", b"abc"], k=n)
        counts = longs(rng.choices(range(4), k=n * n_fields)).reshape(n_fields, n)
        joins = np.array([rng.random() < 0.9 for _ in range(n)], bool)
        limits = longs(rng.choices([4, 6, 9], k=n))
        expected = list[int]()
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
