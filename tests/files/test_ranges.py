"""Files cut into spans: nothing is lost, every cut is at a line end, and threads read what they encode."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volt.errors import CorpusError
from volt.files.ranges import can_span, file_spans


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.integers(0, 9_000)), size=st.integers(1, 10_000), last=st.booleans(), mark=st.booleans())
def test_spans_cover_a_file_line_by_line(tmp_path: Path, lines: list[int], size: int, last: bool, mark: bool) -> None:
    """Joined, the spans are the file without its byte order mark; all but the last end at a line end."""
    path = tmp_path / "a.txt"
    text = b"".join(b"x" * n + b"\n" for n in lines) + b"end" * last
    path.write_bytes(b"\xef\xbb\xbf" * mark + text)
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
