"""A file that changes after or while it is indexed is reported, not read."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from shard_lines import PACKERS, TEXT, all_lines, read_lines

from volt.errors import StreamError
from volt.files.blocks import read_raw
from volt.stream import Source
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.open_source import open_source
from volt.stream.reading.text_shard import TextShard, open_text, split_lines
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.vocabulary_noise import Switchout


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("segment", [5, None])
def test_a_file_that_changes_is_an_error(tmp_path: Path, packer: str, segment: int | None) -> None:
    """A data file that changes after it was indexed is reported, not read."""
    path = tmp_path / "a.tsv"
    path.write_bytes(PACKERS[packer](TEXT))
    shard = open_text(str(path), split_lines=segment, cache=tmp_path / "cache")
    with open(shard.segments.data_path, "ab") as file:
        file.write(b"more\n")
    with pytest.raises(
        StreamError, match="changed while the stream was running; start the stream anew"
    ):
        read_lines(shard, 0)
    os.unlink(shard.segments.data_path)
    with pytest.raises(StreamError, match=r"cannot be read: .* when it was indexed; restore it"):
        read_lines(shard, 0)


def test_a_file_that_changes_within_its_lines_is_an_error(tmp_path: Path) -> None:
    """Also when as many bytes and lines are there as before: it is the time of change that tells."""
    path = tmp_path / "a.tsv"
    path.write_bytes(TEXT)
    shard = open_text(str(path), split_lines=5)
    shard.check_unchanged()
    path.write_bytes(TEXT.replace(b"Zeile", b"zeile"))
    os.utime(path, ns=(0, shard.segments.stamp[1] + 1))
    for look in (TextShard.check_unchanged, lambda shard: shard.read(0)):
        with pytest.raises(StreamError, match="changed while the stream was running"):
            look(shard)


@pytest.mark.parametrize("packer", PACKERS)
def test_a_file_that_changes_while_it_is_indexed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packer: str
) -> None:
    """A file that is still being written when it is indexed is reported, and no index of it is kept."""
    path, cache = tmp_path / "a.tsv", tmp_path / "cache"
    path.write_bytes(PACKERS[packer](TEXT))

    def grows(name: str, **options: int) -> Iterator[bytes]:
        yield from read_raw(name, **options)
        with path.open("ab") as file:
            file.write(b"more\n")

    monkeypatch.setattr("volt.stream.reading.text_shard.read_raw", grows)
    monkeypatch.setattr("volt.stream.reading.text_shard.SMALL", 0)
    with pytest.raises(
        StreamError, match="changed while it was being indexed; wait until it is complete"
    ):
        open_shard(str(path), split_lines=5, cache=cache)
    assert not list(cache.glob("*.json"))


@pytest.mark.parametrize("packer", ["plain", "gz"])
def test_an_edit_that_hides_is_noticed(tmp_path: Path, packer: str) -> None:
    """As many bytes and the old time of change do not hide an edit: the segment that was edited is reported, others are
    read, and whoever opens the file anew gets its lines."""
    path, edited, cache = (
        tmp_path / "a.tsv",
        TEXT.replace(b"line 57\t", b"linE 57\t"),
        tmp_path / "cache",
    )
    split = 10 if packer == "plain" else None
    pack = (lambda text: gzip.compress(text, 0, mtime=0)) if packer == "gz" else bytes
    path.write_bytes(pack(TEXT))
    shard = open_text(str(path), split_lines=split, cache=cache)
    path.write_bytes(pack(edited))
    os.utime(path, ns=(0, shard.segments.stamp[1]))
    shard.check_unchanged()
    bad = len(shard.counts) // 2
    message = "lines 51 to 60" if split else "lines 1 to 100"
    with pytest.raises(
        StreamError,
        match=rf"a\.tsv: {message} have changed since indexing, .*; touch the file, and start",
    ):
        shard.read(bad)
    if split:
        assert read_lines(shard, 0) == split_lines(TEXT)[:10]
    assert all_lines(open_shard(str(path), split_lines=split, cache=cache)) == split_lines(edited)


def test_every_file_of_the_transforms_is_watched(tmp_path: Path) -> None:
    """Each file that changes, in a choice or not, is reported by name; unchanged files are not."""
    files = [tmp_path / f"{name}.txt" for name in "abc"]
    for path in (*files, tmp_path / "lines"):
        path.write_text("low\nnewest\n")
    first, *others = map(Switchout, files)
    choice = Choice(tuple(Variant(1.0, (step,)) for step in others))
    source = open_source(
        Source("s", (str(tmp_path / "lines"),), transforms=(first, choice)), seed=1
    )
    for path in files:
        source.check_files()
        stamp = path.stat().st_mtime_ns
        os.utime(path, ns=(0, stamp + 1))
        with pytest.raises(
            StreamError, match=rf"{path.name}: changed while the stream was running"
        ):
            source.check_files()
        os.utime(path, ns=(0, stamp))
