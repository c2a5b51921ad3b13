"""`Segments`: a file that changes during or after indexing is reported."""

import gzip
import json
import os
from dataclasses import replace

import pytest
from support.shard_lines import PACKERS, TEXT, all_lines, read_lines

from volt.errors import StreamError
from volt.files.blocks import read_raw
from volt.stream.reading import segments
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.text_shard import TextShard, open_text, split_lines


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("segment", [5, None])
def test_a_changed_file_is_reported(tmp_path, packer, segment):
    """Reading a segment of a file that has changed since it was indexed raises StreamError."""
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


def test_a_changed_modification_time_is_reported(tmp_path):
    """Reading a segment reports a new modification time, even if the numbers of bytes and lines are
    equal."""
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
def test_a_file_that_changes_while_it_is_indexed_is_reported(tmp_path, monkeypatch, packer):
    """Indexing a file that is still being written raises StreamError, and stores no index."""
    path = tmp_path / "a.tsv"
    cache = tmp_path / "cache"
    path.write_bytes(PACKERS[packer](TEXT))

    def grows(name, **options):
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
def test_an_edit_with_the_same_size_and_time_is_reported(tmp_path, packer):
    """An edit that keeps size and modification time is reported with its segment; other segments
    can be read."""
    path = tmp_path / "a.tsv"
    edited = TEXT.replace(b"line 57\t", b"linE 57\t")
    cache = tmp_path / "cache"
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
        match=rf"a\.tsv: {message} have changed since the file was indexed, .*; touch the file, and start",
    ):
        shard.read(bad)
    if split:
        assert read_lines(shard, 0) == split_lines(TEXT)[:10]
    assert all_lines(open_shard(str(path), split_lines=split, cache=cache)) == split_lines(edited)


def test_segments_read_their_bytes(tmp_path):
    """Segments.read returns the bytes of each segment, from the file or its copy, also after
    to_record and from_record."""
    path = tmp_path / "a"
    path.write_bytes(b"ab\nc\n\nd\n")
    cut = [(b"ab\nc\n", 2), (b"\nd\n", 2)]
    for packing, copy in (("plain", None), ("frames", tmp_path / "copy")):
        found = segments.index_segments(str(path), packing, iter(cut), copy=copy)
        assert [found.read(0), found.read(1)] == [cut[0][0], cut[1][0]]
        assert (found.counts, found.packing, found.data_path) == (
            (2, 2),
            packing,
            str(copy or path),
        )
        again = segments.Segments.from_record(
            json.loads(json.dumps(found.to_record())), str(path), tmp_path / "copy"
        )
        assert again == found
        with pytest.raises(StreamError, match="cannot be read"):
            segments.stamp_of(str(tmp_path / "no"))
    damaged = replace(found, checks=(0, 0))
    with pytest.raises(
        StreamError,
        match=r"its copy .*copy is damaged in segment 1 and was deleted; start the stream",
    ):
        damaged.read(1)
    assert not (tmp_path / "copy").exists()
    with pytest.raises(
        StreamError, match="a: lines 3 to 4 have changed since the file was indexed"
    ):
        replace(segments.index_segments(str(path), "plain", cut), checks=(0, 0)).read(1)
    assert segments.crc32(b"123456789") == 0xCBF43926
