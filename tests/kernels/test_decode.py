"""The loops that decode ids and parse them, compared with plain Python, in buffers that are exactly full."""

from random import Random

import numpy as np
from kernels.support import bytes_of
from support.flat import ends_of, flat, ints, longs

from volt.kernels import decode
from volt.kernels.intrinsics import PADDING


def test_expand_lines_writes_lines_until_its_buffer_is_full():
    """`expand_lines` writes equal lines in buffers of any size, only whole lines, and removes one
    space at the start or end of each line."""
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
        halves,
        longs([0, *ends_of(pieces)]),
        bytes_of(b"".join(pieces) + bytes(PADDING)).copy(),
        decode.NO_SPACE,
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
            first, found, size = 0, [], rng.randint(0, 90)
            while first < len(lines):
                out, ends = np.full(size + PADDING, 0xEE, np.uint8), np.zeros(len(lines), np.int64)
                dropping = table._replace(drops=drops)
                done = decode.expand_lines(ids, offsets, first, dropping, out, ends)
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


def test_parse_ids_reads_up_to_the_first_invalid_byte():
    """`parse_ids` reads numbers below a limit between spaces and line ends.

    A lone return, another byte, or a number that is too large is invalid.
    """
    rng, parts = Random(7), [b"0", b"1", b"12", b" ", b"\n", b"\r\n", b"/", b":", b"\r"]
    weights = [9, 9, 9, 9, 9, 6, 1, 1, 1]
    for _ in range(200):
        data = b"".join(rng.choices(parts, weights, k=rng.randint(0, 12))) + b"\n"
        ids, offsets = np.full(30, -9, np.int32), np.zeros(30, np.int64)
        fault = decode.parse_ids(bytes_of(data), 120, ids, offsets)
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
