"""The loops over columns and tokens, against Python's bytes and integers, with buffers that are exactly full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
from flat import ends_of, flat, longs, read_only
from splitmix import MASK, mixed

from volt.kernels import columns, string_functions, word_types
from volt.stream.transforms.column import Column, blank, count_bytes, lengths
from volt.text.white_space import SPLIT_SPACE

GUARD = 0xEE  # after each output
Views = tuple[np.ndarray, np.ndarray, np.ndarray]
Values = list[bytes | None]


def views(values: Values, rng: Random, spare: int = 0) -> Views:
    """Values in random order in one buffer, with bytes between them; the last one ends with the buffer or earlier."""
    data, starts, sizes = bytearray(), np.zeros(len(values), np.int64), np.full(len(values), -1)
    for index in rng.sample(range(len(values)), len(values)):
        data += b"\t a\n"[: rng.randint(0, 4)]
        if (value := values[index]) is not None:
            starts[index], sizes[index] = len(data), len(value)
            data += value
    return np.frombuffer(bytes(data) + b" \ta\n" * spare, np.uint8), starts, sizes


def drawn(seed: int, letters: Sequence[str], n: int = 40) -> Iterator[tuple[Random, Values]]:
    """A generator and values: missing ones, empty ones, and some about as long as the bytes looked at together."""
    rng = Random(seed)
    for _ in range(n):
        lengths = [
            rng.choice([0, 1, 2, 7, 8, 9, 20, 61, 64, 66, 130]) for _ in range(rng.randint(0, 5))
        ]
        values: Values = ["".join(rng.choices(letters, k=k)).encode() for k in lengths]
        yield rng, [None if rng.random() < 0.2 else value for value in values]


def texts(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> Values:
    """The values of views."""
    pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
    return [None if size < 0 else bytes(data[start : start + size]) for start, size in pairs]


def room(n: int) -> np.ndarray:
    return np.full(n + 9, GUARD, np.uint8)


def written(out: np.ndarray, n: int) -> bytes:
    """The output, after which nothing was written."""
    assert out[n:].tolist() == [GUARD] * 9
    return bytes(out[:n])


def test_lines_end_at_line_feeds() -> None:
    """Positions are written until the array is full; all are counted."""
    for rng, values in drawn(1, "ab\n\n"):
        data = b"".join(filter(None, values))
        expected = [place for place, byte in enumerate(data) if byte == 10]
        ends = np.full(max(0, len(expected) + rng.randint(-1, 1)), -1)
        assert columns.line_ends(np.frombuffer(data, np.uint8), ends) == len(expected)
        assert ends.tolist() == [*expected, -1][: len(ends)]


def test_values_are_cut_at_tabs() -> None:
    """A row for each field, and one for the rest of values with more fields; other places are missing."""
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


def bytes_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def test_values_are_written_one_after_the_other() -> None:
    """A byte follows each value; a missing value is empty."""
    for rng, values in drawn(3, "abc"):
        expected = [(value or b"") + b"\7" for value in values]
        out, ends = room(sum(map(len, expected))), np.zeros(len(values), np.int64)
        columns.write_values(*views(values, rng), 7, out, ends)
        assert written(out, len(out) - 9) == b"".join(expected)
        assert ends.tolist() == ends_of(expected)


def test_values_are_put_in_their_places() -> None:
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
        assert written(out, starts[-1]) == b"".join(padded)
        assert places.tolist() == [start + len(v) for start, v in zip(starts, around, strict=False)]


def test_runs_of_values_are_joined() -> None:
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
            assert written(out, len(out) - 9) == b"".join(runs)


def test_numbers_are_written_as_text() -> None:
    """Numbers of every length, least and greatest ones, and values without numbers or missing."""
    rng, edges = Random(4), [0, 9, 10, 99, 100, 999_999_999, 2**31 - 1, -1, -9, -10, -(2**31)]
    ids = read_only(edges + rng.choices(edges, k=30))
    for _ in range(20):
        starts = longs([rng.randint(0, len(ids)) for _ in range(rng.randint(0, 5))])
        sizes = longs([rng.randint(-1, min(4, len(ids) - start)) for start in starts])
        values = [
            b" ".join(b"%d" % x for x in ids[a : a + max(n, 0)])
            for a, n in zip(starts, sizes, strict=True)
        ]
        columns.number_sizes(ids, starts, sizes, lengths := np.zeros(len(starts), np.int64))
        assert lengths.tolist() == [
            -1 if n < 0 else len(value) for value, n in zip(values, sizes, strict=True)
        ]
        ends, out = np.cumsum(np.maximum(lengths, 0)), room(sum(map(len, values)))
        columns.write_numbers(ids, starts, sizes, ends, out)
        assert written(out, len(out) - 9) == b"".join(values)


def test_lines_are_shuffled_by_random_words() -> None:
    """The twins are in Python's integers; output lines follow their input lines, unless they are out of order."""
    rng = Random(5)
    for n in range(8):
        words = np.array([rng.getrandbits(64) for _ in range(n)], np.uint64)
        columns.shuffle(words, order := np.arange(n))
        expected = list(range(n))
        for i in range(n - 1, 0, -1):
            j = (int(words[i]) >> 32) * (i + 1) >> 32
            expected[i], expected[j] = expected[j], expected[i]
        assert order.tolist() == expected
        inputs = longs(sorted(rng.sample(range(20), n)))
        outputs = longs(sorted(rng.choices(inputs.tolist(), k=2 * n)) if n else [])
        firsts, out = np.zeros(n + 1, np.int64), np.full(2 * n + 1, -1)
        assert columns.permuted(inputs, outputs, order, firsts, out) == 2 * n
        by_input = [
            [line for line, origin in enumerate(outputs) if origin == inputs[i]] for i in order
        ]
        assert out.tolist() == [*flat(by_input), -1]
        if n > 1 and len({*outputs}) > 1:
            assert columns.permuted(inputs, outputs[::-1].copy(), order, firsts, out) < 2 * n
        origins, (first, second) = (
            longs(sorted(rng.choices(range(3), k=n))),
            (rng.getrandbits(64) for _ in range(2)),
        )
        columns.draw(np.uint64(first), np.uint64(second), origins, found := np.zeros(n, np.uint64))
        for i, origin in enumerate(origins.tolist()):
            copy = origins.tolist()[:i].count(origin)
            word = mixed(first ^ mixed((origin * 0x9E3779B97F4A7C15 + second) & MASK))
            assert found[i] == mixed(word ^ ((second + copy * 0xD1B54A32D192ED03) & MASK))


def test_documents_take_lines_while_they_fit() -> None:
    """A line joins if its id is that of the document's first line, and tokens and lines are within its limits."""
    rng = Random(6)
    for _ in range(60):
        n, n_fields, most = rng.randint(0, 12), rng.randint(1, 2), rng.randint(1, 4)
        ids: Values = [rng.choice([b"", b"aa", b"aa", b"ab", b"abc"]) for _ in range(n)]
        counts = np.array(
            [[rng.randint(0, 3) for _ in range(n)] for _ in range(n_fields)], np.int64
        ).reshape(n_fields, n)
        joins, limits = (
            np.array([rng.random() < 0.9 for _ in range(n)], bool),
            longs(rng.choices([4, 6, 9], k=n)),
        )
        expected = list[int]()
        for i in range(n):
            start = expected[-1] if expected else 0
            fits = (counts[:, start : i + 1].sum(1) <= limits[start]).all()
            same = ids[i] and ids[i] == ids[start] and joins[start] and i - start < most
            if not (expected and same and fits):
                expected.append(i)
        out, row = np.full(n + 1, -1), views(ids, rng)
        assert columns.find_starts(
            counts, joins, limits, most, *row, np.zeros(n_fields, np.int64), out
        ) == len(expected)
        assert out[: len(expected)].tolist() == expected


def test_texts_are_measured() -> None:
    """Words, white space, and bytes within a range or of a set, as Python finds them."""
    near = "\x08\x0e\x1b!\x7f\x84\x86\xa1\u167f\u1681\u1fff\u200b\u2027\u202a\u2030\u205e\u2060\u2fff\u3001"
    letters = SPLIT_SPACE.replace("\n", "") + near + "aabb  é中😀\0" * 4
    for rng, values in drawn(7, letters, 60):
        if rng.random() < 0.3:
            values += [
                b" " * rng.randint(60, 140),
                "\u2003".encode() * 30 + b"a" * rng.randint(0, 1),
            ]
        data, *row = views(values, rng, rng.choice([16, 40]))
        numbers, flags = np.zeros(len(values), np.int64), np.zeros(len(values), bool)
        plain = [(value or b"").decode() for value in values]
        string_functions.count_words(data, *row, numbers)
        assert numbers.tolist() == [len(text.split()) for text in plain]
        string_functions.find_blank(data, *row, flags)
        assert flags.tolist() == [not text.strip() for text in plain]
        for first, span in ((97, 0), (97, 1), (0xE2, 1)):
            string_functions.count_within(data, *row, first, span, numbers)
            expected = [
                sum(first <= byte <= first + span for byte in value or b"") for value in values
            ]
            assert numbers.tolist() == expected
        column = Column(data, *row)
        for unit, length in (
            ("words", lambda text: len(text.split())),
            ("characters", len),
            ("bytes", lambda text: len(text.encode())),
        ):
            assert lengths(column, unit).tolist() == list(map(length, plain))
        assert blank(column).tolist() == [not text.strip() for text in plain]
        assert count_bytes(column, 97, 1).tolist() == [sum(map(text.count, "ab")) for text in plain]
        wanted = np.isin(np.arange(256), [98, 0xE4])
        string_functions.find_any(data, *row, wanted, flags)
        assert flags.tolist() == [any(wanted[byte] for byte in value or b"") for value in values]


def test_ids_are_words() -> None:
    """Of ids, words are ids, and characters those of the numbers; a value is blank only without any."""
    column = Column.of_ids(np.array([7, 10, 12345], np.int32), np.array([0, 2, 2, 3])).take(
        [2, 1, 0]
    )
    assert [lengths(column, "words").tolist(), lengths(column, "characters").tolist()] == [
        [1, 0, 2],
        [5, 0, 4],
    ]
    assert blank(column).tolist() == [False, True, False]


def test_tokens_stand_between_spaces() -> None:
    """Tokens are counted, cut, chosen, and written again with one space between two."""
    for rng, values in drawn(8, "aab   \t", 60):
        row = views(values, rng, rng.choice([0, 0, 30]))
        counts, parts = (
            np.zeros(len(values), np.int64),
            [(value or b"").split(b" ") for value in values],
        )
        found = [list(filter(None, one)) for one in parts]
        word_types.count_tokens(*row, counts)
        assert counts.tolist() == list(map(len, found))
        starts, sizes = np.zeros(n := sum(counts), np.int64), np.zeros(n, np.int64)
        word_types.cut_tokens(*row, starts, sizes)
        every = flat(found)
        assert texts(row[0], starts, sizes) == every
        others = [b"", b"xy", b"z" * 20]
        chosen, ends = longs([rng.randint(-3, n - 1) for _ in range(n)]), np.cumsum(counts)
        picked = [every[i] if i >= 0 else others[-1 - i] for i in chosen]
        lines = [
            b" ".join(picked[end - size : end]) for end, size in zip(ends, counts, strict=True)
        ]
        out, out_ends = (
            np.full(sum(map(len, lines)) + word_types.SPARE, GUARD, np.uint8),
            np.zeros(len(lines), np.int64),
        )
        word_types.write_tokens(
            row[0], starts, sizes, *views(list(others), rng, 2), chosen, ends, out, out_ends
        )
        assert bytes(out[: len(out) - word_types.SPARE]) == b"".join(lines)
        assert out_ends.tolist() == ends_of(lines)


def tables(n_types: int, n_bytes: int, n_slots: int) -> word_types.Types:
    sizes: list[tuple[int, Any]] = [
        (n_slots, np.int64),
        (n_types, np.uint64),
        (n_types + 1, np.int64),
        (n_bytes, np.uint8),
    ]
    return word_types.Types(*(np.zeros(n, kind) for n, kind in sizes))


def test_word_types_are_numbered_as_they_come() -> None:
    """The loop stops before a line that may not fit, and continues there in larger tables."""
    for rng, values in drawn(9, "aab  ", 60):
        words = [list(filter(None, (value or b"").split(b" "))) for value in values]
        numbers: dict[bytes, int] = {}
        expected = [[numbers.setdefault(word, len(numbers)) for word in line] for line in words]
        n, row = sum(map(len, words)), views(values, rng)
        out, ends, state = (
            np.full(n + 1, -1, np.int32),
            np.zeros(len(values), np.int64),
            np.zeros(4, np.int64),
        )
        types = tables(*rng.choice([(9, 60, 16), (70, 40, 256)]))
        while not word_types.find_words(*row, types, True, out, ends, state):
            line, n_types, n_bytes = (
                int(state[word_types.N_LINES]),
                int(state[word_types.N_TYPES]),
                int(state[word_types.N_BYTES]),
            )
            size, most = len(values[line] or b""), n_types + (len(values[line] or b"") + 1) // 2
            assert (
                n_bytes + size > len(types.bytes)
                or most > len(types.hashes)
                or 2 * most > len(types.slots)
            )
            larger = tables(max(most, 9), n_bytes + size, max(16, 1 << (2 * most - 1).bit_length()))
            larger.hashes[:n_types], larger.starts[: n_types + 1] = (
                types.hashes[:n_types],
                types.starts[: n_types + 1],
            )
            larger.bytes[:n_bytes] = types.bytes[:n_bytes]
            word_types.enter_types(larger.hashes, n_types, larger.slots)
            types = larger
        assert out.tolist() == [*flat(expected), -1]
        assert ends.tolist() == ends_of(words)
        bounds = types.starts[: len(numbers) + 1].tolist()
        assert [bytes(types.bytes[a:b]) for a, b in pairwise(bounds)] == list(numbers)
        for word, number in numbers.items():
            code = 0xCBF29CE484222325
            for byte in word:
                code = (code ^ byte) * 0x100000001B3 & MASK
            assert types.hashes[number] == mixed(code)
        assert state.tolist() == [len(numbers), bounds[-1], len(values), n]
        lines = np.array([rng.getrandbits(64) for _ in values], np.uint64)
        n_choices = [1 + number % 3 for number in range(len(numbers))]
        shares = np.array([(k + 1) / size for size in n_choices for k in range(size)])
        firsts, hashes = np.cumsum([0, *n_choices]), types.hashes.tolist()
        for by_type in (True, False):
            word_types.choose(
                lines,
                ends,
                out,
                types.hashes,
                by_type,
                firsts,
                shares,
                picks := np.zeros(n, np.int32),
            )
            place = 0
            for line, row_of_numbers in zip(lines.tolist(), expected, strict=True):
                for k, number in enumerate(row_of_numbers):
                    key = hashes[number] if by_type else (k + 1) * 0x9E3779B97F4A7C15 & MASK
                    share = (mixed(line ^ mixed(key)) >> 11) / (1 << 53)
                    choice = sum(
                        share >= bound for bound in shares[firsts[number] : firsts[number + 1]][:-1]
                    )
                    assert picks[place] == firsts[number] + choice
                    place += 1
