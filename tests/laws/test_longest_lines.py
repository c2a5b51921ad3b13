"""Laws of the longest line: which line is refused depends on the text alone, not on the reader."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import PACKERS
from support.drawn import examples

from volt.arguments import checked_max_line, parse_max_line
from volt.count import count_words
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_stream
from volt.errors import ConfigError, CorpusError, StreamError, VoltError
from volt.files.blocks import ReadProgress, join_into_blocks, read_blocks, read_raw
from volt.files.decompression import decompress, find_decoder
from volt.files.ranges import divide_into_spans
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.text_shard import open_text
from volt.vocabulary import Vocabulary

ENCODER = Encoder(Vocabulary((), tuple("abc")))
texts = st.lists(st.text("aé", max_size=9), max_size=8).map(lambda lines: "\n".join(lines).encode())


def expected(data, most):
    """Return the number of the first line of more than `most` bytes, or 0."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return next((number for number, line in enumerate(lines, 1) if len(line) > most), 0)


def refused(read, path, most):
    """Return the number of the line that a reader refuses, or 0."""
    try:
        read(path, most)
    except VoltError as error:
        place, message = str(error).split(": the line has more than ")
        assert message.startswith(f"{most} bytes; cut it, or ")
        assert message.endswith("max_line")
        assert "or raise " in message
        return int(place.rpartition(":")[2])
    return 0


READERS = {
    "blocks": lambda path, most: list(read_blocks(str(path), block_size=3, max_line=most)),
    "raw": lambda path, most: list(read_raw(str(path), max_line=most)),
    "spans": lambda path, most: [
        bytes(span) for span in divide_into_spans(str(path), size=3, max_line=most)
    ],
    "long spans": lambda path, most: [
        bytes(span) for span in divide_into_spans(str(path), size=100, max_line=most)
    ],
    "shards": lambda path, most: open_shard(str(path), split_lines=2, max_line=most),
}


@given(texts, st.integers(1, 12), st.booleans())
@settings(max_examples=examples(60))
def test_all_readers_refuse_the_same_line(tmp_path_factory, data, most, marked):
    """Every reader accepts a line of exactly `max_line` bytes and refuses one more; a byte order
    mark does not count.
    """
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    path.write_bytes(b"\xef\xbb\xbf" * marked + data)
    for name, read in READERS.items():
        assert (name, refused(read, path, most)) == (name, expected(data, most))


@given(texts, st.integers(1, 12), st.lists(st.integers(1, 9), max_size=9))
@settings(max_examples=examples(60))
def test_pieces_do_not_matter(data, most, sizes):
    """However a text is read in pieces, a reader refuses the same line, after yielding only the
    lines before it.
    """
    pieces, rest = [], data
    for size in sizes:
        pieces, rest = [*pieces, rest[:size]], rest[size:]
    progress = ReadProgress("a")
    passed = bytearray()

    def read(_path, most):
        for block in join_into_blocks([*pieces, rest], progress, block_size=3, max_line=most):
            passed.extend(block.data)

    line = refused(read, Path("a"), most)
    assert line == expected(data, most)
    assert data.startswith(passed)
    assert passed.count(b"\n") < line if line else passed == data


@pytest.mark.parametrize("packer", PACKERS)
def test_counting_encoding_and_streams_name_the_line(tmp_path, packer):
    """Counting, encoding and streams refuse the same line that is too long, and read it without a
    limit.
    """
    path = tmp_path / "a"
    path.write_bytes(PACKERS[packer](b"ab\nc\n" + b"abc " * 50 + b"\nab\n"))
    jobs = {
        "count": lambda most: count_words(path, max_line=most),
        "encode": lambda most: ENCODER.encode_file(path, max_line=most),
        "text": lambda most: list(
            encode_stream(ENCODER, [str(path)], job=EncodeJob(max_line=most))
        ),
        "replaced": lambda most: ENCODER.encode_file(path, errors="replace", max_line=most),
        "shard": lambda most: open_shard(
            str(path), split_lines=1, cache=tmp_path / "cache", max_line=most
        ),
    }
    for name, job in jobs.items():
        for most in (200, None, 0):
            job(most)
        with pytest.raises(
            (CorpusError, StreamError), match=r"a:3: the line has more than 199 bytes; "
        ):
            job(199)
        assert name


def test_an_index_that_was_made_under_a_higher_limit_is_not_taken(tmp_path):
    """A cached index stores its longest line, so a lower limit refuses the file."""
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfabc\n" * 1 + b"ab\n" * 400_000)
    shard = open_text(str(path), split_lines=300_000, cache=tmp_path / "cache", max_line=None)
    assert (shard.facts.longest, shard.read(0)[0].take([0, 1]).strings()) == (3, ["abc", "ab"])
    assert open_shard(str(path), split_lines=300_000, cache=tmp_path / "cache", max_line=3) == shard
    with pytest.raises(StreamError, match="a:1: the line has more than 2 bytes"):
        open_shard(str(path), split_lines=300_000, cache=tmp_path / "cache", max_line=2)


@pytest.mark.parametrize("packer", ["gzip", "bzip2", "xz", "zstd"])
def test_a_bomb_takes_little_memory(tmp_path, packer):
    """A line of 8 MB, compressed to some kilobytes, is refused within a few megabytes of memory."""
    path = tmp_path / "bomb"
    path.write_bytes(PACKERS[packer](b" " * (8 << 20)))
    with pytest.raises(CorpusError, match="bomb:1: the line has more than 1,048,576 bytes"):
        count_words(path, max_line=1 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(CorpusError):
            list(read_blocks(str(path), max_line=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < {"xz": 14 << 20, "zstd": 24 << 20}.get(
            packer, 6 << 20
        )
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packer", ["gzip", "bzip2", "xz", "zstd"])
def test_unpacked_pieces_are_small(monkeypatch, packer):
    """Decompressed pieces are bounded, however well the data was compressed."""
    monkeypatch.setattr("volt.files.decompression._TEXT_SIZE", 1 << 16)
    packed = PACKERS[packer](b"a\n" * (3 << 18))
    start = find_decoder(packed)
    assert start is not None
    pieces = list(decompress([packed], start, path="a"))
    assert b"".join(pieces) == b"a\n" * (3 << 18)
    assert max(map(len, pieces)) <= 1 << 16


@pytest.mark.parametrize("packer", ["xz", "zstd"])
def test_a_dictionary_that_does_not_fit_is_refused(monkeypatch, packer):
    """A file that needs too much memory for its dictionary or window is refused, with a remedy."""
    monkeypatch.setattr("volt.files.decompression._MAX_MEMORY", 1 << 15)
    packed = PACKERS[packer](bytes(range(97, 123)) * 100_000)
    start = find_decoder(packed)
    assert start is not None
    with pytest.raises(
        CorpusError, match="a: decompression needs more than 0 MB of memory; compress it again"
    ):
        list(decompress([packed], start, path="a"))


def test_sizes_as_people_write_them():
    """`max_line` accepts bytes, or a number with K, M or G; none and 0 mean no limit."""
    assert [parse_max_line(text) for text in ("7", "3MB", "none", "0")] == [7, 3 << 20, None, None]
    for text in ("", "-1", "1.5M", "M", "x", "٣", "1e6"):
        with pytest.raises(
            ConfigError, match="give bytes, such as 1000, 64M or 1G, or none for no limit"
        ):
            parse_max_line(text)
    with pytest.raises(ConfigError, match="max_line is -1; give 0 or more"):
        checked_max_line(-1)
    for value in (True, 1.5, "64M"):
        with pytest.raises(ConfigError, match="give bytes, 1 or more, or None for no limit"):
            checked_max_line(value)
