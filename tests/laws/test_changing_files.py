"""Laws of files that change while they are read: the initial content is read, or an error is raised."""

import os

import pytest

from volt.count import count_words
from volt.encode.encoder import Encoder
from volt.errors import CorpusError, StreamError
from volt.files.blocks import read_blocks
from volt.files.ranges import divide_file, divide_into_spans, read_range
from volt.stream.reading.text_shard import open_text
from volt.vocabulary import Vocabulary

TEXT = b"low lower\n" * 5_000


def blocks(path):
    return (block.data for block in read_blocks(str(path), block_size=1_000))


def spans(path):
    return map(bytes, divide_into_spans(str(path), size=1_000))


def cuts(path):
    for part in divide_file(str(path), size=9_000):
        yield from (block.data for block in read_range(part, block_size=1_000))


READERS = pytest.mark.parametrize("read", [blocks, spans])
ALL_READERS = pytest.mark.parametrize("read", [blocks, spans, cuts])


@ALL_READERS
def test_what_is_added_is_left_out(tmp_path, read):
    """A file that grows while it is read is read up to its size at opening, so that reading ends."""
    path = tmp_path / "a"
    path.write_bytes(TEXT + b"half")
    found = []
    for data in read(path):
        found.append(data)
        with path.open("ab") as file:
            file.write(b"more\n" * 1_000)
    assert b"".join(found) == TEXT + b"half"


@ALL_READERS
def test_what_is_cut_off_is_an_error(tmp_path, read):
    """A file that becomes shorter while it is read raises an error with its name."""
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    reader = read(path)
    next(reader)
    os.truncate(path, 20_000)
    with pytest.raises(CorpusError, match=r"a: became shorter while it was read; run it again"):
        list(reader)


@READERS
@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_a_file_that_is_replaced_or_deleted_is_read_to_its_end(tmp_path, read, change):
    """A file that is deleted, or replaced by another of its name, while it is read is read to its
    own end.
    """
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    reader = read(path)
    found = [next(reader)]
    if change == "replaced":
        (tmp_path / "b").write_bytes(b"other\n" * 50_000)
        os.replace(tmp_path / "b", path)
    else:
        path.unlink()
    assert b"".join([*found, *reader]) == TEXT


@pytest.mark.parametrize("n", [len(TEXT) - 1, len(TEXT) // 2])
def test_a_stream_refuses_a_piece_that_was_cut(tmp_path, monkeypatch, n):
    """A stream raises an error for a file that became shorter after it was indexed, even inside a
    line.
    """
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    shard = open_text(str(path), split_lines=None)
    os.truncate(path, n)
    monkeypatch.setattr("volt.stream.reading.segments.stamp_of", lambda _: shard.segments.stamp)
    with pytest.raises(StreamError, match="changed while the stream was running"):
        shard.read(0)


def test_a_file_without_a_size_is_read(tmp_path):
    """A file of /proc, whose size is 0, is read in full."""
    path = "/proc/self/status"
    if not os.path.exists(path):
        pytest.skip("no /proc")
    assert "Name:" in count_words(path).words
    assert len(Encoder(Vocabulary((), ("a",))).encode_file(path)) > 10
