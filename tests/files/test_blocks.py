"""Laws of `read_blocks`: blocks contain the file's lines, whatever the compression and the block
size."""

import gzip
import io
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import PACKERS
from support.drawn import examples

from volt.errors import ConfigError, CorpusError
from volt.files.blocks import Block, read_blocks, read_raw, split_block

TEXT = "".join(f"line {i} ä🙂 {'x' * (i % 50)}\n" for i in range(5_000)).encode()


def joined(path, **options):
    return b"".join(block.data for block in read_blocks(str(path), **options))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("reader") / "file"


@pytest.mark.parametrize("packer", PACKERS)
@given(
    parts=st.lists(st.text(alphabet="aé\n\r🙂", max_size=20), max_size=6),
    block_size=st.integers(1, 30),
)
@settings(max_examples=examples(40))
def test_blocks_are_the_file(scratch, packer, parts, block_size):
    """The blocks of a file join to its text, end at line ends, and number its lines, for one or
    several members. `read_raw` yields the same lines."""
    data = "".join(parts).encode()
    scratch.write_bytes(b"".join(PACKERS[packer](part.encode()) for part in parts))
    blocks = list(read_blocks(str(scratch), block_size=block_size))
    assert b"".join(block.data for block in blocks) == data
    assert all(block.data.endswith(b"\n") for block in blocks[:-1])
    first_line = 1
    for block in blocks:
        assert block.first_line == first_line
        assert block.n_lines == len(io.BytesIO(block.data).readlines())
        first_line += block.n_lines
    assert list(read_raw(str(scratch), block_size=block_size)) == [block.data for block in blocks]
    assert not blocks or blocks[-1].n_raw_bytes == scratch.stat().st_size


@pytest.mark.parametrize("packer", PACKERS)
def test_blocks_of_a_larger_file_report_progress(tmp_path, packer):
    """Blocks of a file that needs many reads join to its text, and `n_raw_bytes` grows to the size
    of the file."""
    path = tmp_path / "misnamed.txt"
    path.write_bytes(PACKERS[packer](TEXT) + PACKERS[packer](TEXT))
    blocks = list(read_blocks(str(path), block_size=50_000))
    assert b"".join(block.data for block in blocks) == TEXT + TEXT
    assert len(blocks) >= 2
    progress = [block.n_raw_bytes for block in blocks]
    assert progress == sorted(progress)
    assert progress[-1] == path.stat().st_size


@pytest.mark.parametrize("packer", ["plain", "gzip"])
def test_a_byte_order_mark_is_not_text(tmp_path, packer):
    """`read_blocks` removes a UTF-8 byte order mark at the start of the text, and only there."""
    path = tmp_path / "a"
    path.write_bytes(PACKERS[packer](b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"))
    assert joined(path, block_size=1) == b"a\n\xef\xbb\xbfb\n"


def test_a_line_longer_than_a_block(tmp_path):
    """A line of ten megabytes is one block, whatever the block size."""
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10_000_000 + b"\nlast")
    assert [len(block.data) for block in read_blocks(str(path), block_size=1_000)] == [
        10_000_001,
        4,
    ]


BAD = b"good\nab\xffc\n\xc3\xa9\xed\xa0\x80\nfine\nend\xf0\x9f"


def test_invalid_utf8_is_reported_with_line_and_column(tmp_path):
    """With errors="strict", the error names line and column of the first invalid byte, in any
    block. Surrogates are invalid."""
    path = tmp_path / "train.de"
    path.write_bytes(BAD)
    for block_size in (1, 6, 1_000):
        with pytest.raises(CorpusError) as caught:
            joined(path, block_size=block_size)
        assert str(caught.value) == (
            f"{path}:2: invalid UTF-8 byte 0xff at column 3; convert the file or pass errors='replace'"
        )
    path.write_bytes(b"\n\n" + BAD)
    with pytest.raises(CorpusError, match=r"train.de:4: invalid UTF-8 byte 0xff at column 3"):
        joined(path)
    path.write_bytes(BAD.replace(b"\xff", b""))
    with pytest.raises(CorpusError, match=r"train.de:3: invalid UTF-8 byte 0xed at column 2"):
        joined(path)


@pytest.mark.parametrize("block_size", [1, 8, 1_000])
def test_bad_lines_are_repaired_or_dropped_and_counted(tmp_path, block_size):
    """errors="replace" writes U+FFFD, and "skip" drops the line.

    Both list the bad lines, and `Block.place` returns the file's line numbers.
    """
    path = tmp_path / "a"
    path.write_bytes(BAD)
    blocks = list(read_blocks(str(path), block_size=block_size, errors="replace"))
    assert b"".join(block.data for block in blocks) == BAD.decode(errors="replace").encode()
    assert [n for block in blocks for n in block.bad_lines] == [2, 3, 5]
    blocks = list(read_blocks(str(path), block_size=block_size, errors="skip"))
    assert b"".join(block.data for block in blocks) == b"good\nfine\n"
    assert sum(block.n_bad_lines for block in blocks) == 3
    assert sum(block.n_lines for block in blocks) == 5
    places = [block.place(i) for block in blocks for i in range(block.data.count(b"\n"))]
    assert places == [f"{path}:1", f"{path}:4"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a\n".encode("utf-16"), "UTF-16 text; convert it"),
        ("a\n".encode("utf-32"), "UTF-32 text; convert it"),
        ("\ufeffa\n".encode("utf-16-be"), "UTF-16 text; convert it"),
        ("ab\n".encode("utf-16-le"), r"looks like UTF-16 text \(every other byte is NUL\)"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"\x89PNG\r\n", "PNG image"),
        (b"%PDF-1.7", "PDF document"),
        (b"PAR1....", "parquet file"),
        (b"x" * 257 + b"ustar", "tar archive"),
        (gzip.compress(b"x" * 257 + b"ustar", mtime=0), "tar archive"),
        (bytes(5_000), r"binary data \(100% of its first 5,000 bytes are control characters\)"),
    ],
)
def test_binary_files_are_refused_by_their_format(tmp_path, data, message):
    """`read_blocks` refuses a binary file, compressed or not, and names its format."""
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=rf"a\.txt: .*{message}"):
        joined(path)


@pytest.mark.parametrize("packer", ["gzip", "bzip2", "xz", "zstd"])
def test_damaged_files_are_reported(tmp_path, packer):
    """The error for a truncated or garbled compressed file names the file and the last good
    line."""
    path = tmp_path / "a"
    packed = PACKERS[packer](TEXT) + PACKERS[packer](TEXT)
    path.write_bytes(packed[:-20])
    with pytest.raises(CorpusError, match=r"a: truncated after line [1-9]\d*; copy"):
        joined(path)
    middle = len(packed) * 3 // 4
    path.write_bytes(packed[:middle] + b"garbage" * 9 + packed[middle + 63 :])
    with pytest.raises(CorpusError, match=r"a: corrupt after line [5-9]\d{3} "):
        joined(path)


def test_unreadable_files_and_wrong_options_are_refused(tmp_path):
    """`read_blocks` raises CorpusError for a missing file and a folder, and ConfigError for wrong
    options."""
    with pytest.raises(CorpusError, match=r"b: cannot be read: no such file or directory"):
        joined(tmp_path / "b")
    with pytest.raises(CorpusError, match=r"cannot be read: is a directory"):
        joined(tmp_path)
    with pytest.raises(ConfigError, match="give strict, replace or skip"):
        joined(tmp_path, errors="ignore")
    with pytest.raises(ConfigError, match="block_size=0"):
        joined(tmp_path, block_size=0)


def test_a_failing_disk_is_reported(monkeypatch):
    """An error of the disk during a read is a CorpusError that names the file."""

    class Failing(io.RawIOBase):
        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": Failing()}))
    with pytest.raises(CorpusError, match=r"stdin: cannot be read: input/output error"):
        joined("-")


def test_a_file_that_cannot_be_closed_has_been_read(tmp_path, monkeypatch):
    """`read_blocks` ignores an error when the file is closed, because its bytes have been read."""

    class Unclosable(io.FileIO):
        def close(self):
            was_open = not self.closed
            super().close()
            if was_open:
                raise OSError(5, "Input/output error")

    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    monkeypatch.setattr("builtins.open", lambda path, *_, **__: Unclosable(path))
    assert [block.data for block in read_blocks(str(path))] == [b"one\ntwo\n"]
    begun = read_blocks(str(path), block_size=4)
    assert next(begun).data == b"one\n"
    begun.close()


def test_stdin_is_a_file_like_any_other(monkeypatch):
    """`read_blocks("-")` reads stdin, which may be compressed, and may return a byte at a time."""

    class Dripping(io.BytesIO):
        def read(self, size=-1):
            return super().read(1)

    monkeypatch.setattr(
        sys, "stdin", type("Stdin", (), {"buffer": Dripping(gzip.compress(b"a\nb\n"))})
    )
    assert joined("-") == b"a\nb\n"


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs /proc")
def test_a_file_that_reports_the_size_0_is_read_to_its_end():
    """`read_blocks` reads all bytes of a file of /proc, whose size is reported as 0."""
    assert joined("/proc/version") == Path("/proc/version").read_bytes()


LINES = b"low\nnew lower\n\nend"


@pytest.mark.parametrize(
    ("size", "ends", "n_bytes"),
    [
        (1, [4, 14, 15, 18], [8, 14, 15, 18]),
        (4, [4, 15, 18], [8, 16, 18]),
        (14, [14, 18], [14, 18]),
        (18, [15, 18], [18, 18]),
        (19, [18], [18]),
    ],
)
def test_a_block_ends_at_the_first_line_end_after_its_size(tmp_path, size, ends, n_bytes):
    """`read_blocks` reads as many bytes at a time as a block has.

    A block ends at the last line end read, and counts the bytes read.
    """
    path = tmp_path / "a"
    path.write_bytes(LINES)
    blocks = list(read_blocks(str(path), block_size=size))
    parts = [LINES[start:end] for start, end in pairwise([0, *ends])]
    assert [block.data for block in blocks] == parts
    assert [block.n_raw_bytes for block in blocks] == n_bytes


def test_large_blocks_are_divided_at_lines():
    """`split_block` yields parts of at most `size` bytes, or of one longer line.

    It leaves blocks of few or bad lines whole.
    """
    parts = list(split_block(Block("a", 5, 4, LINES, 18), 3))
    assert [(part.first_line, part.n_lines) for part in parts] == [(5, 1), (6, 1), (7, 1), (8, 1)]
    assert [part.data for part in parts] == LINES.splitlines(keepends=True)
    parts = list(split_block(Block("a", 1, 9, b"a\nb\nc\n" * 3, 18), 4))
    assert b"|".join(part.data for part in parts) == b"a\nb\n|c\na\n|b\nc\n|a\nb\n|c\n"
    for block in (Block("a", 1, 4, LINES, 18), Block("a", 1, 5, LINES, 18, bad_lines=(2,))):
        assert list(split_block(block, 4)) == [block]


def test_dropped_lines_are_counted_in_places():
    """`Block.place` returns the file's line numbers, also after lines that were dropped or
    repaired."""
    dropped = Block("a", 3, 6, b"", 0, bad_lines=(3, 5, 6), dropped=True)
    assert [dropped.place(index) for index in range(3)] == ["a:4", "a:7", "a:8"]
    assert Block("a", 3, 6, b"", 0, bad_lines=(3, 5, 6)).place(1) == "a:4"
