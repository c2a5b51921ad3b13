"""Laws of decompression: compressed bytes are restored, cut anywhere; damage is reported with its line."""

import gzip
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counting import PACKERS

from volt.errors import CorpusError
from volt.files.decompression import decompress, find_decoder

PACKED = pytest.mark.parametrize("packer", [name for name in PACKERS if name != "plain"])


def unpacked(data, size=1 << 20):
    """Return the decompressed data, read `size` bytes at a time."""
    start = find_decoder(data[:8])
    assert start is not None
    return b"".join(
        decompress((data[i : i + size] for i in range(0, len(data), size)), start, path="a")
    )


@PACKED
@given(parts=st.lists(st.binary(max_size=30), min_size=1, max_size=5), size=st.integers(1, 40))
def test_decompress_restores_members_cut_anywhere(packer, parts, size):
    """`decompress` restores members, streams or frames in sequence, wherever reads cut them."""
    assert unpacked(b"".join(map(PACKERS[packer], parts)), size) == b"".join(parts)


@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_padding_and_skippable_frames(size):
    """`decompress` omits zeros after gzip and xz members, and zstd's skippable frames."""
    assert (
        unpacked(gzip.compress(b"a\n") + bytes(100) + gzip.compress(b"b\n") + bytes(7), size)
        == b"a\nb\n"
    )
    assert unpacked(lzma.compress(b"a\n") + bytes(8) + lzma.compress(b"b\n"), size) == b"a\nb\n"
    frame = bytes([0x53, 0x2A, 0x4D, 0x18, 2, 0, 0, 0]) + b"xx"
    assert unpacked(frame + PACKERS["zstd"](b"a\n"), size) == b"a\n"


def test_many_tiny_members():
    """`decompress` reads a gzip member for each of 20,000 lines, as log writers make them, in
    linear time."""
    assert unpacked(gzip.compress(b"ab\n") * 20_000, 16 << 10) == b"ab\n" * 20_000


@PACKED
@given(data=st.data())
def test_a_cut_file_is_reported(packer, data):
    """If a file is cut within its second member, `decompress` yields the text before the cut, then
    raises an error with the number of lines."""
    first = PACKERS[packer](b"one\n")
    second = PACKERS[packer](b"two\n")
    cut = data.draw(st.integers(len(first) + 1, len(first + second) - 1))
    with pytest.raises(CorpusError, match=r"^a: truncated after line [12];"):
        unpacked((first + second)[:cut], 7)


@pytest.mark.parametrize("packer", [packer for packer in PACKERS if packer != "plain"])
@pytest.mark.parametrize("tail", [b"x", b"garbage", b"low newest\n" * 9])
def test_bytes_after_the_last_member_are_reported(packer, tail):
    """If other bytes follow the last member, `decompress` yields all text, then raises an error
    that calls the file neither truncated nor corrupt."""
    packed = PACKERS[packer](b"one\ntwo\n") + b"\0" + tail
    texts = []
    with pytest.raises(
        CorpusError, match=r"^a: bytes that are not compressed follow the last line, 2; remove them"
    ):
        texts.extend(decompress([packed], find_decoder(packed), path="a"))
    assert b"".join(texts) == b"one\ntwo\n"


def test_plain_text_has_no_decoder():
    """`find_decoder` decides by the first bytes alone, and returns None for plain text."""
    assert find_decoder(b"low newest") is find_decoder(b"") is find_decoder(b"BZ") is None
    assert (
        None is not find_decoder(b"BZh9") is find_decoder(b"BZh1") is not find_decoder(b"\x1f\x8b")
    )
