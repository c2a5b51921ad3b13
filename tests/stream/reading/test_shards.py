"""Files become shards: segments that hold every line once, read as columns."""

from __future__ import annotations

import os
import pickle
import socket
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shard_lines import LINES, PACKERS, TEXT, all_lines, column_lines, read_lines
from streams import deadline, write_lines

from volt.errors import StreamError
from volt.stream.reading.open_shard import open_pair, open_shard
from volt.stream.reading.text_shard import lines_of, split_lines


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("segment", [1, 7, 100, 1000, None])
def test_segments_hold_the_lines_of_a_file(
    tmp_path: Path, packer: str, segment: int | None
) -> None:
    """However a file is packed and cut, its segments joined are its lines, and its digest is that of the lines."""
    path = tmp_path / "a.tsv"
    path.write_bytes(PACKERS[packer](TEXT))
    shard = open_shard(str(path), split_lines=segment, cache=tmp_path / "cache")
    assert [line.decode() for line in all_lines(shard)] == LINES
    assert set(shard.counts[:-1]) <= {segment}
    (tmp_path / "b.tsv").write_bytes(TEXT)
    assert shard.facts.digest == open_shard(str(tmp_path / "b.tsv"), split_lines=3).facts.digest


@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.integers(0, 30), max_size=40), st.integers(1, 9), st.integers(1, 100), st.booleans()
)
def test_segments_do_not_depend_on_how_much_is_read_at_a_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lengths: list[int],
    segment: int,
    size: int,
    ends: bool,
) -> None:
    """All segments but the last have as many lines as asked for, wherever a read ended."""
    lines, path = [*(b"x" * length for length in lengths), b"last"], tmp_path / "a.tsv"
    path.write_bytes(b"\n".join(lines) + b"\n" * ends)
    monkeypatch.setattr("volt.stream.reading.text_shard._READ_SIZE", size)
    shard = open_shard(str(path), split_lines=segment)
    expected = [lines[start : start + segment] for start in range(0, len(lines), segment)]
    found = [read_lines(shard, number) for number in range(len(shard.counts))]
    assert found == expected


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\rb\x0bc\x0cd\x85e\n", [b"a\rb\x0bc\x0cd\x85e"]),
        ("a\u2028b\u2029c\x1cd\n".encode(), ["a\u2028b\u2029c\x1cd".encode()]),
        (b"\n\n", [b"", b""]),
        (b"a\r", [b"a"]),
        (b"a\r\r\nb\r\r\n", [b"a\r", b"b\r"]),
        (b"a\r\r", [b"a\r"]),
        (b"\r\n\r", [b"", b""]),
    ],
)
def test_lines_end_at_line_feeds_alone(data: bytes, lines: list[bytes]) -> None:
    r"""Only "\n" ends a line, and one "\r" before it goes; no other separator of Unicode or Python does."""
    column = lines_of(data, is_first=False)
    assert split_lines(data) == lines == column_lines(column)


@settings(
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\t", b"\xef\xbb\xbf"]), max_size=30),
    st.integers(1, 5),
)
def test_lines_do_not_depend_on_how_a_file_is_cut(
    tmp_path: Path, parts: list[bytes], segment: int
) -> None:
    """Cut anywhere, a file has the lines that it has whole: those of the naive twin, less a byte order mark."""
    data, path = b"".join(parts), tmp_path / "a.tsv"
    path.write_bytes(data)
    whole, cut = (open_shard(str(path), split_lines=size) for size in (None, segment))
    text = data.removeprefix(b"\xef\xbb\xbf")
    assert all_lines(whole) == all_lines(cut) == (split_lines(text) if text else [])
    assert whole.facts.digest == cut.facts.digest


@pytest.mark.parametrize("make", ["pipe", "socket", "device", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: str) -> None:
    """A pipe without a writer is not waited for; the error says what is there and what to do."""
    path = tmp_path / "a.tsv"
    with socket.socket(socket.AF_UNIX) as end, deadline(5):
        if make == "pipe":
            os.mkfifo(path)
        elif make == "socket":
            end.bind(str(path))
        elif make == "folder":
            path.mkdir()
        else:
            path = Path("/dev/zero")
        with pytest.raises(
            StreamError,
            match=rf"{path}: is a {make}(, which cannot .* write its text|; name the files)",
        ):
            open_shard(str(path), split_lines=5)


def test_standard_input_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be read from it a second time; a file of its name can."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        StreamError, match=r"^-: is standard input, which cannot be read repeatedly; write its"
    ):
        open_shard("-", split_lines=5)


def test_shards_go_to_other_processes(tmp_path: Path) -> None:
    """A shard that was pickled is equal to itself and reads the same lines."""
    path, cache = write_lines(tmp_path / "a.tsv", ['{"a": null}'] * 7), tmp_path / "cache"
    shards = [
        open_shard(path, split_lines=3),
        open_pair({"src": path, "tgt": path}, split_lines=3),
        open_shard(path, fields={"src": "a"}, split_lines=3, cache=cache),
    ]
    for shard in shards:
        again = pickle.loads(pickle.dumps(shard))
        assert (again, again.names, again.facts.digest) == (shard, shard.names, shard.facts.digest)
        assert list(map(column_lines, again.read(1))) == list(map(column_lines, shard.read(1)))
