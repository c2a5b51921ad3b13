"""Laws of reading pipes: whole lines are yielded before the reader waits, however they were
written."""

import gzip
import os
import sys
import zlib
from threading import Timer

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.writers import cut, writing

from volt.errors import CorpusError
from volt.files.blocks import is_ready, read_as_available, read_blocks

MARK = b"\xef\xbb\xbf"  # of the byte order
PIPE = 1 << 16  # bytes that a pipe holds


def flushed_gzip(parts):
    """Compress the parts so that a reader can decompress each as soon as it arrives."""
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in parts]
    return [*packed, packer.flush()]


def flushed_zstd(parts):
    """Compress the parts with zstd so that a reader can decompress each as soon as it arrives."""
    packer = zstandard.ZstdCompressor().compressobj()
    packed = [
        packer.compress(part) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for part in parts
    ]
    return [*packed, packer.flush()]


def members(parts):
    """Compress each part as a gzip member."""
    return [gzip.compress(part) for part in parts]


def check(
    parts,
    *,
    pack=list,
    size=30,
):
    """Write parts one by one; check that all whole lines were yielded before each wait, and all text at the end."""
    got = []

    def message(n_written):
        text = b"".join(parts[:n_written])
        assert b"".join(got) == text[: text.rfind(b"\n") + 1].removeprefix(MARK)

    lines = 0
    with writing(pack(parts), message) as writer:
        for block in read_blocks(writer.path, block_size=size, wait=writer):
            assert (
                block.data.endswith(b"\n") or not block.data or not b"".join(parts).endswith(b"\n")
            )
            assert block.first_line == 1 + lines
            lines += block.n_lines
            got.append(block.data)
    assert b"".join(got) == b"".join(parts).removeprefix(MARK)


@given(
    text=st.text(alphabet="aé\n\r🙂", max_size=40),
    places=st.lists(st.integers(0, 90), max_size=12),
    mark=st.booleans(),
)
@example(text="a\r\nb\r\n", places=[2, 5], mark=True)  # between "\r" and "\n"
@example(text="é\n🙂\n", places=[1, 2, 4], mark=True)  # within the mark
@example(text="é\n🙂\n", places=[1, 4, 5, 6], mark=False)  # within a character
@settings(max_examples=examples(60))
def test_whole_lines_are_yielded_before_a_wait(text, places, mark):
    """However a text is cut into writes to a pipe, `read_blocks` yields all whole lines before it
    waits, and the blocks join to the text."""
    check(cut(MARK * mark + text.encode(), places))


@pytest.mark.parametrize("pack", [flushed_gzip, flushed_zstd, members])
def test_decompressed_lines_are_yielded_before_a_wait(pack):
    """`read_blocks` yields all lines that can be decompressed before it waits for more bytes of a
    pipe."""
    check([b"low\nlow", b"er\n", b"new\n" * 5_000, b"est"], pack=pack)
    check([b"a\n"], pack=pack)


@pytest.mark.parametrize(
    "parts",
    [
        [b"x" * (PIPE - 1) + b"\n", b"a\n"],
        [b"x" * PIPE, b"\n"],
        [b"x" * 99 + b"\n", b"x" * 100, b"\n"],
        [b"a\n" * 50, b"b\n" * 50],
        [b"a\n" * 4_096, b"b\n" * 4_096, b"c"],
    ],
)
@pytest.mark.parametrize("size", [100, 8 << 10, PIPE])
def test_writes_of_exactly_a_limit(parts, size):
    """Writes as long as a pipe, a block or the checked head, with and without a line end as the
    last byte, are read like others."""
    check(parts, size=size)


def test_a_short_head_of_a_binary_pipe_is_refused():
    """`read_blocks` refuses a binary pipe after its first line, or after a signature that contains
    a line end."""
    for data in (b"PK\x03\x04\n", b"\x89PNG\r\n\x1a\n"):
        with writing([data]) as writer, pytest.raises(CorpusError, match="not UTF-8 text but"):
            assert not b"".join(block.data for block in read_blocks(writer.path, wait=writer))


def test_a_moment_is_waited_only_after_a_long_read():
    """`read_as_available` yields b"" at once after a short read, and waits a moment for more bytes
    after a long read."""
    sizes = iter([3, 20_000, 20_000, 20_000, 9])
    asked = []

    def wait(descriptor, seconds):
        asked.append(seconds)
        return seconds is None or len(asked) in (5, 6)

    pieces = read_as_available(lambda: b"x" * next(sizes, 0), 0, wait=wait)
    assert [len(piece) for piece in pieces] == [0, 3, 0, 20_000, 20_000, 20_000, 0, 9, 0]
    assert [seconds if seconds is None else seconds > 0 for seconds in asked[:5]] == [
        False,
        None,
        False,
        None,
        True,
    ]
    assert asked[8:] == [0.0, None]


def test_moments_have_an_end(monkeypatch):
    """`read_as_available` yields b"" after a limited number of moments, even if the writer is
    always a little late."""
    now = iter(range(1_000_000))
    monkeypatch.setattr("time.monotonic", lambda: next(now) / 500)  # every wait takes 2 ms
    pieces = read_as_available(lambda: b"x" * 20_000, 0, wait=lambda _, seconds: seconds != 0)
    assert 3 <= next(number for number, piece in enumerate(pieces) if number and not piece) <= 20


def test_is_ready_reports_a_closed_outlet():
    """`is_ready` raises BrokenPipeError when the reader of the outlet has closed it."""
    (reader, writer), (other, outlet) = os.pipe(), os.pipe()
    try:
        assert not is_ready(reader, 0, outlet=outlet)
        os.close(other)
        with pytest.raises(BrokenPipeError):
            is_ready(reader, outlet=outlet)
    finally:
        for descriptor in (reader, writer, outlet):
            os.close(descriptor)


def test_a_nonblocking_stdin_is_read_to_its_end(monkeypatch):
    """`read_blocks("-")` waits for bytes if another process made stdin nonblocking."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.write(writer, b"low\n")
    with os.fdopen(reader, "rb", buffering=0) as stdin:
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stdin}))
        Timer(0.05, os.close, [writer]).start()
        assert b"".join(block.data for block in read_blocks("-")) == b"low\n"
