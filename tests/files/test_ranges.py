"""Files cut into spans: nothing is lost, every cut is at a line end, and threads read what they encode."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import CorpusError
from volt.files.ranges import can_span, file_spans
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
def test_spans_cover_a_file_line_by_line(
    tmp_path: Path, lines: list[int], size: int, last: bool, mark: bool
) -> None:
    """Joined, the spans are the file without its mark, even if reads are short; all but the last end at a line end."""
    path = tmp_path / "a.txt"
    text = b"".join(b"x" * n + b"\n" for n in lines) + b"end" * last
    path.write_bytes(b"\xef\xbb\xbf" * mark + text)
    read = os.preadv
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            os, "preadv", lambda file, rooms, start: read(file, [rooms[0][: 1 + size // 2]], start)
        )
        spans = [bytes(span) for span in file_spans(str(path), size=size)]
    assert b"".join(spans) == text
    assert all(span.endswith(b"\n") for span in spans[:-1])
    longest = max(map(len, text.split(b"\n"))) + 1
    assert all(0 < len(span) <= size + longest for span in spans)


def test_only_plain_files_are_cut(tmp_path: Path) -> None:
    """Pipes, folders, missing and compressed files are read in other ways; what is no text is refused."""
    import gzip

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"text\n"))
    (tmp_path / "b.txt").write_bytes(bytes(100))
    os.mkfifo(tmp_path / "pipe")
    assert not any(can_span(str(tmp_path / name)) for name in (".", "a.gz", "pipe", "missing"))
    assert can_span(str(tmp_path / "b.txt"))
    with pytest.raises(CorpusError, match="looks like binary data"):
        list(file_spans(str(tmp_path / "b.txt"), size=10))


def test_a_file_that_shrinks_is_reported(tmp_path: Path) -> None:
    """A file that is cut while it is read is an error, not a crash and not a shorter result."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"line\n" * 1000)
    spans = list(file_spans(str(path), size=100))
    os.truncate(path, 200)
    with pytest.raises(CorpusError, match=r"a\.txt: became shorter while it was read"):
        bytes(spans[-1])


def test_a_fault_far_inside_names_its_line(tmp_path: Path) -> None:
    """Bytes that are no text are reported with the line of the file, whatever span they are in."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"low lower\n" * 300_000 + b"lo\xffw\n" + b"low\n" * 300_000)
    with pytest.raises(CorpusError, match=r"a\.txt:300001: invalid UTF-8 byte 0xff at column 3"):
        Encoder(Vocabulary((), tuple("lower"))).encode_file(path)
