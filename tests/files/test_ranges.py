"""Laws of spans and ranges of files: every line is in exactly one, and errors have the file's line
numbers."""

import os
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.encode.encoder import Encoder
from volt.errors import CorpusError
from volt.files import ranges
from volt.files.ranges import (
    FileRange,
    FileSpan,
    RandomAccessFile,
    divide_into_spans,
    open_divisible,
    read_range,
    with_line_numbers,
)
from volt.vocabulary import Vocabulary


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    lines=st.lists(st.integers(0, 9_000)),
    size=st.integers(1, 10_000),
    last=st.booleans(),
    mark=st.booleans(),
)
def test_spans_cover_a_file_line_by_line(tmp_path, lines, size, last, mark):
    """The spans of a file join to its text without the byte order mark, and end at line ends, even
    if reads return few bytes."""
    path = tmp_path / "a.txt"
    text = b"".join(b"x" * n + b"\n" for n in lines) + b"end" * last
    path.write_bytes(b"\xef\xbb\xbf" * mark + text)
    read = os.preadv
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            os, "preadv", lambda file, rooms, start: read(file, [rooms[0][: 1 + size // 2]], start)
        )
        spans = [bytes(span) for span in divide_into_spans(str(path), size=size)]
    assert b"".join(spans) == text
    assert all(span.endswith(b"\n") for span in spans[:-1])
    longest = max(map(len, text.split(b"\n"))) + 1
    assert all(0 < len(span) <= size + longest for span in spans)


def test_only_uncompressed_regular_files_are_divisible(tmp_path):
    """`open_divisible` returns None for pipes, folders, missing and compressed files.

    `divide_into_spans` refuses binary files.
    """
    import gzip

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"text\n"))
    (tmp_path / "b.txt").write_bytes(bytes(100))
    os.mkfifo(tmp_path / "pipe")
    assert not any(
        open_divisible(str(tmp_path / name)) for name in (".", "a.gz", "pipe", "missing")
    )
    assert open_divisible(str(tmp_path / "b.txt"))
    with pytest.raises(CorpusError, match="looks like binary data"):
        list(divide_into_spans(str(tmp_path / "b.txt"), size=10))


def test_invalid_bytes_in_a_span_are_reported_with_the_line_of_the_file(tmp_path):
    """`Encoder.encode_file` reports invalid bytes with their line number in the file, whatever span
    they are in."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"low lower\n" * 300_000 + b"lo\xffw\n" + b"low\n" * 300_000)
    with pytest.raises(CorpusError, match=r"a\.txt:300001: invalid UTF-8 byte 0xff at column 3"):
        Encoder(Vocabulary((), tuple("lower"))).encode_file(path)


TEXT = b"low\nnew lower\n\nend"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.txt").write_bytes(TEXT)
    return str(tmp_path / "a.txt")


@pytest.mark.parametrize("step", [1, 5, 4096])
def test_lines_are_found_and_numbered(path, monkeypatch, step):
    """Spans, ranges and errors have the file's line starts and line numbers, however many bytes are
    read at a time."""
    monkeypatch.setattr(ranges, "_SEARCH_STEP", step)
    monkeypatch.setattr(ranges, "_COUNT_STEP", step)
    for size, starts in {1: [0, 4, 14, 15], 4: [0, 4, 14], 5: [0, 14], 18: [0]}.items():
        assert [span.start for span in divide_into_spans(path, size=size)] == starts
    file = RandomAccessFile(path)
    assert [file.line_number(place) for place in (0, 4, 14, 15)] == [1, 2, 3, 4]
    places = 1, 3, 4, 5, 14, 15, 16
    assert [file.next_line_start(place, 18) for place in places] == [4, 4, 4, 14, 14, 15, 18]
    assert file.next_line_start(5, 9) == 9
    block = FileSpan(file, 4, 10).block()
    assert (block.path, block.first_line, block.data) == (path, 2, b"new lower\n")

    bounds = pairwise([0, 5, 14, 18])
    cuts = [FileRange(path, start, stop, 18, first_line=7) for start, stop in bounds]
    blocks = [[(one.first_line, one.data) for one in read_range(cut)] for cut in cuts]
    assert blocks == [[(1, b"low\nnew lower\n")], [], [(7, b"\nend")]]

    asked = []

    def refuse(cut):
        asked.append(cut.first_line)
        raise CorpusError("x")

    for cut in cuts:
        with pytest.raises(CorpusError):
            with_line_numbers(cut, refuse)
    assert asked == [7, 7, 3, 7, 3]
