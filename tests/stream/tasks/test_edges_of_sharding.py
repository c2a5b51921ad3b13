"""Shards made anew beside others, on full disks and among damaged files: nothing is lost, and what is named is so."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sharding import bytes_of, mono_task, numbered, pair_task, shards_of, write

from volt.errors import CorpusError, OutputError, StreamError
from volt.files.atomic import write_atomic
from volt.stream.reading.open_source import open_source
from volt.stream.reading.source_definition import Source
from volt.stream.tasks import shard_writing
from volt.stream.tasks.manifest import read_manifest
from volt.stream.tasks.shard_writing import shard
from volt.stream.tasks.task import Input, Task, look_at


class _FullDisk:
    """Files as `write_atomic` makes them, of which there is room for some."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, path: Path) -> Any:
        self.left -= 1
        return _no_room(path) if self.left < 0 else write_atomic(path)


def _no_room(path: Path) -> Any:
    class Full:
        def __init__(self) -> None:
            self.file = write_atomic(path)

        def __enter__(self) -> Any:
            return self.file.__enter__()

        def __exit__(self, *error: Any) -> None:
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.file.__exit__(OSError, full, None)

    return Full()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """A task of two inputs."""
    return pair_task(tmp_path, {"a": 30, "b": 4}, n_shards=3)


def test_a_full_disk_leaves_the_shards_that_were_there(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed otherwise, or in another number, new ones take their places only when all are made; the error says so."""
    [first] = shard([task], tmp_path / "s")
    before = bytes_of(tmp_path / "s")
    for options in ({"compress": "gz"}, {"compress": "zstd"}):
        asked = replace(task, n_shards=2)
        with monkeypatch.context() as patch:
            patch.setattr(shard_writing, "write_atomic", _FullDisk(3))
            message = r"00001\.tgt.*no space left on device; the earlier shards are unchanged; make room, or"
            with pytest.raises(OutputError, match=message) as error:
                shard([asked], tmp_path / "s", workers=1, **options)  # type: ignore[arg-type]
        assert "it was not changed" not in str(error.value)
        assert before.items() <= bytes_of(tmp_path / "s").items()
        assert read_manifest(tmp_path / "s", task) == first
    [made] = shard([asked], tmp_path / "s")
    assert len(made.shards) == 2
    assert read_manifest(tmp_path / "s", asked) == made
    shard([asked], tmp_path / "t")
    assert bytes_of(tmp_path / "s").keys() == bytes_of(tmp_path / "t").keys()


def test_a_full_disk_says_that_a_second_run_goes_on(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing was there before, finished shards are kept, and the next run makes the others alone."""
    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "write_atomic", _FullDisk(3))
        with pytest.raises(
            OutputError, match=r"left on device; make room, or .*; a second run continues after"
        ):
            shard([task], tmp_path / "s", workers=1)
    seen, written = list[int](), shard_writing._write_shard

    def seeing(work: Any, number: int, *rest: Any) -> Any:
        seen.append(number)
        return written(work, number, *rest)

    monkeypatch.setattr(shard_writing, "_write_shard", seeing)
    shard([task], tmp_path / "s")
    assert seen == [1, 2]


@pytest.mark.parametrize("stop", range(8))
def test_a_run_that_stops_while_new_shards_take_their_places_goes_on(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """Until it has, nobody takes what is there for finished; no shard is made twice."""
    shard([replace(task, n_shards=2)], tmp_path / "s")
    moved, left = os.replace, iter(range(stop))

    def stopping(source: Path, place: Path) -> None:
        if (
            Path(source).parent.name == ".progress"
            and Path(place).parent.name == "de_en"
            and next(left, None) is None
        ):
            raise KeyboardInterrupt
        moved(source, place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            shard([task], tmp_path / "s")
    with pytest.raises(StreamError, match="unfinished shards of task 'de_en'; continue"):
        read_manifest(tmp_path / "s", task)
    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "_write_shard", None)
        shard([task], tmp_path / "s")
    shard([task], tmp_path / "t")
    assert bytes_of(tmp_path / "s") == bytes_of(tmp_path / "t")


def test_a_damaged_shard_is_reported_with_its_remedy(tmp_path: Path, task: Task) -> None:
    """Of the size that it had, so that a manifest cannot tell; other files get no such advice."""
    [made] = shard([task], tmp_path / "s")
    path = Path(made.paths[2])
    path.write_bytes(b"(\xb5/\xfd" + b"x" * (path.stat().st_size - 4))
    assert read_manifest(tmp_path / "s", task) == made
    with pytest.raises(
        StreamError, match=r"00001\.src\.zst: .*; make the shards again: volt shard CONFIG -o .*/s$"
    ):
        open_source(Source("de_en", made.paths, names=made.names), seed=1, cache=tmp_path / "cache")
    other = path.rename(tmp_path / "a.zst")
    with pytest.raises(StreamError) as error:
        open_source(Source("a", (str(other),)), seed=1, cache=tmp_path / "cache")
    assert "volt shard" not in str(error.value)


def test_a_long_line_is_reported_once(tmp_path: Path) -> None:
    """The advice is not repeated when the task is named."""
    with pytest.raises(CorpusError) as error:
        shard([mono_task(tmp_path, {"a": b"x" * 99})], tmp_path / "s", max_line=20)
    assert str(error.value).count("raise max_line") == 1
    assert str(error.value).startswith("task 'auto_en': ")


def test_the_first_line_of_each_kind_is_found_in_any_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid UTF-8 and tabs, behind a byte order mark and many blocks; where there are none, 0."""
    monkeypatch.setattr("volt.stream.tasks.task._BLOCK", 64)
    for text, message in (
        (b"\xef\xbb\xbf\xff\n", (1, 0)),
        (b"\n\n\xff\n\t\n", (3, 4)),
        (numbered("a", 40) + b"b\xff\nc\td\n" + numbered("e\t\u00e9", 9), (41, 42)),
        ("é\n".encode() * 99 + b"\tx", (0, 100)),
        (b"", (0, 0)),
    ):
        found = look_at(write(tmp_path / "a", text))
        assert (found.first_bad, found.first_tab) == message


def test_a_byte_order_mark_alone_is_no_line(tmp_path: Path) -> None:
    """As for a stream: such a file adds none to its input, and an input that holds nothing else is empty."""
    write(tmp_path / "0", b"\xef\xbb\xbf")
    write(tmp_path / "1", b"low\n")
    files = tuple(("mono", f"{tmp_path}/{name}") for name in "010")
    [made] = shard([Task("auto", "mono", (Input("i", files),))], tmp_path / "s")
    assert [lines for (lines,) in shards_of(made)] == [["low"]]
    with pytest.raises(StreamError, match="no line in"):
        shard([Task("auto", "mono", (Input("i", files[:1]),))], tmp_path / "t")


def test_a_lost_manifest_is_reported(tmp_path: Path, task: Task) -> None:
    """Shards without it may be anybody's: nothing is written over, and the error says what may be missing."""
    shard([task], tmp_path / "s")
    (tmp_path / "s" / "de_en" / "manifest.json").unlink()
    before = bytes_of(tmp_path / "s")
    with pytest.raises(
        OutputError,
        match=r"is not one of its shards, or its manifest\.json is missing; name another",
    ):
        shard([task], tmp_path / "s")
    assert bytes_of(tmp_path / "s") == before
