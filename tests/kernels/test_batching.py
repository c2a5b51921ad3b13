"""The loops that build batches and decode ids, against plain Python: tiny inputs, buffers that are exactly full."""

from __future__ import annotations

from random import Random

import numpy as np
from batching import naive_rows, naive_steps
from flat import ends_of, flat, ints, longs, read_only

from volt.kernels import batching, decode
from volt.kernels.intrinsics import PADDING
from volt.kernels.word_types import N_LINES, N_TOKENS, Types, find_words


def text(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def test_sources_take_turns_by_the_earliest_deadline() -> None:
    """A sample is due before its source is owed a whole more; of equally urgent sources the first goes first."""
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
        shares, expected, deadlines = np.repeat(units, lengths, 0), list[int](), dict[int, int]()
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
        batching.apportion(lags, units, longs(lengths), turns, whole)
        assert (turns.tolist(), lags.tolist()) == (expected, left.tolist())


def test_rows_are_looked_up_and_framed() -> None:
    """Pieces get their ids, −1 if unknown; values stand between head and tail; the first wrong value is reported."""
    rng, words = Random(2), [b"a", b"bc", b"d" * 9]
    known, state = b" ".join(words), np.zeros(4, np.int64)
    types = Types(
        *(
            np.zeros(n, kind)
            for n, kind in ((16, np.int64), (8, np.uint64), (9, np.int64), (20, np.uint8))
        )
    )
    find_words(
        text(known),
        longs([0]),
        longs([len(known)]),
        types,
        True,
        np.zeros(3, np.int32),
        longs([0]),
        state,
    )
    for _ in range(40):
        lines = [
            b"  ".join(rng.choices([*words, b"", b"x", b"ab"], k=rng.randint(0, 3)))
            for _ in range(3)
        ]
        ids, ends, offsets = (
            np.full(12, -9, np.int32),
            np.zeros(4, np.int64),
            longs([0, *ends_of(lines)]),
        )
        sizes = longs([*map(len, lines), -1])
        state[[N_LINES, N_TOKENS]] = 0
        find_words(text(b"".join(lines)), offsets[:4], sizes, types, False, ids, ends, state)
        expected = [
            [words.index(word) if word in words else -1 for word in line.split()]
            for line in [*lines, b""]
        ]
        assert ids.tolist() == (flat(expected) + [-9] * 12)[:12]
        assert ends.tolist() == ends_of(expected)
        starts, sizes = longs([3, 0, 5]), longs([rng.randint(0, 3) for _ in range(3)])
        data = read_only(rng.choices(range(-1, 6), [1, 9, 9, 9, 9, 9, 1], k=9))
        values = [data[i : i + n].tolist() for i, n in zip(starts, sizes, strict=True)]
        head, tail = ([7] * rng.randint(0, 2), [8, 9][: rng.randint(0, 2)])
        framed = flat([*head, *value, *tail] for value in values)
        out = np.full(len(framed) + 1, -9, np.int32)
        bad = batching.frame_ids(data, starts, sizes, read_only(head), read_only(tail), 5, out)
        assert out.tolist() == [*framed, -9]
        assert bad == next(
            (i for i, value in enumerate(values) if any(not 0 <= number < 5 for number in value)),
            -1,
        )


def test_rows_are_filled_with_samples_and_padding() -> None:
    """Arrays are those of the naive twin, or left out; the first sample that lacks its EOS is reported."""
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
        bad, n_starts = batching.lay_out(
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
        assert not len(positions) or sorted(starts[:n_starts].tolist()) == expected
        wrong = [
            i
            for i, sample in enumerate(samples)
            if len(before) and sample and lasts[i] and sample[-1] != 2
        ]
        assert bad == (wrong[0] if wrong else -1)


def test_rows_are_cut_into_steps_and_dealt() -> None:
    """Steps are those of the naive twin; rank r of step s gets every row of the step that is r + s modulo world."""
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


def test_lines_are_decoded_until_the_buffer_is_full() -> None:
    """Blocks of every size hold whole lines and give the same text; one space is removed at a start or end."""
    rng, texts = (
        Random(6),
        ["", " ", "a", " b", "c ", "d" * 14, "e" * 15, " " + "f" * 15, "g" * 23 + " ", "h" * 33],
    )
    pieces = [piece.encode() for piece in texts]
    sizes = [len(piece) if len(piece) <= decode.SHORT else decode.LONG for piece in pieces]
    rows = [
        int.from_bytes(piece[:15], "little") | size << 120
        for piece, size in zip(pieces, sizes, strict=True)
    ]
    halves = np.array(
        [half for row in rows for half in (row & (1 << 64) - 1, row >> 64)], np.uint64
    )
    table = decode.TextTable(
        halves, longs([0, *ends_of(pieces)]), text(b"".join(pieces) + bytes(PADDING)).copy()
    )
    for _ in range(120):
        weights = [9, 3, *[2] * (len(pieces) - 2)]  # several empty pieces may come first
        lines = [
            rng.choices(range(len(pieces)), weights, k=rng.randint(0, 5))
            for _ in range(rng.randint(0, 4))
        ]
        ids, offsets = ints(flat(lines)), longs([0, *ends_of(lines)])
        whole = [b"".join(pieces[number] for number in line) for line in lines]
        for drops in (decode.NO_SPACE, decode.FIRST_SPACE, decode.LAST_SPACE):
            expected = [
                line.removeprefix(b" " * (drops == 1)).removesuffix(b" " * (drops == 2))
                for line in whole
            ]
            first, found, size = 0, list[bytes](), rng.randint(0, 90)
            while first < len(lines):
                out, ends = np.full(size + PADDING, 0xEE, np.uint8), np.zeros(len(lines), np.int64)
                done = decode.expand_lines(ids, offsets, first, table, drops, out, ends)
                if done == first:
                    assert 1 + len(whole[first]) > size or size <= 1
                    size += 1
                    continue
                data = bytes(out[: ends[done - 1] + 1])
                assert data[:1] == data[-1:] == b"\n"
                found += data[1:-1].split(b"\n")
                sizes = [len(line) + 1 for line in expected[first:done]]
                assert ends[first:done].tolist() == np.cumsum(sizes).tolist()
                if done < len(lines):
                    assert ends[done - 1] + 1 >= size or ends[done - 1] + 1 + len(
                        whole[done]
                    ) > size - (drops == 1)
                first = done
            assert found == expected


def test_ids_are_parsed_up_to_the_first_fault() -> None:
    """Whole numbers below a limit, between spaces and line ends; a lone return or another byte is a fault."""
    rng, parts = Random(7), [b"0", b"1", b"12", b" ", b"\n", b"\r\n", b"/", b":", b"\r"]
    weights = [9, 9, 9, 9, 9, 6, 1, 1, 1]
    for _ in range(200):
        data = b"".join(rng.choices(parts, weights, k=rng.randint(0, 12))) + b"\n"
        ids, offsets = np.full(30, -9, np.int32), np.zeros(30, np.int64)
        fault = decode.parse_ids(text(data), 120, ids, offsets)
        lines = data.replace(b"\r\n", b"\n").split(b"\n")[:-1]
        place, value = 0, 0
        for place, byte in enumerate(data):
            value = 10 * value + byte - 48 if chr(byte).isdigit() else 0
            if (
                not (byte in b"0123456789 \n" or (byte == 13 and data[place + 1] == 10))
                or value >= 120
            ):
                break
        else:
            place = -1
        assert fault == place
        if place < 0:
            rows = [list(map(int, line.split())) for line in lines]
            assert ids[: len(flat(rows)) + 1].tolist() == [*flat(rows), -9]
            assert offsets[: len(rows) + 1].tolist() == longs([0, *ends_of(rows)]).tolist()
