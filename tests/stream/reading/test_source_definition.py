"""Files become segments, and segments become blocks that hold every line exactly once per epoch."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from streams import numbered, write_lines

from volt.errors import StreamError
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_source import OpenSource, open_source, read_block
from volt.stream.reading.source_definition import Source
from volt.stream.reading.unread_lines import LineBlock, rank_blocks
from volt.stream.running.chunk_computation import Address, compute_chunk

LINES = [f"line {i}\tZeile {i}" for i in range(100)]


TEXT = "".join(line + "\n" for line in LINES).encode()


def parts_of(source: OpenSource, epoch: int) -> list[LineBlock]:
    """The parts of an epoch."""
    found = rank_blocks(source.n_lines, source.block_lines, epochs=epoch + 1)
    return [block for block in found if block.epoch == epoch]


def epoch_lines(source: OpenSource, epoch: int) -> list[str]:
    """All lines of an epoch, in the order in which its parts give them."""
    blocks = [
        compute_chunk(source, Address(block, 0), ErrorPolicy()) for block in parts_of(source, epoch)
    ]
    return b"".join(bytes(block.data) for block in blocks).decode().split("\n")[:-1]


@pytest.mark.parametrize("block_lines", [1, 7, 30, 1000])
@pytest.mark.parametrize("shuffle", ["lines", "outputs", "none"])
def test_an_epoch_holds_every_line_once(tmp_path: Path, block_lines: int, shuffle: str) -> None:
    """Exact cover at any block size, for several shards, segments that blocks share, and all ways to shuffle."""
    paths = numbered(tmp_path, "a", 60, n_shards=3)
    declared = Source("a", paths, block_lines=block_lines, split_lines=8, shuffle=shuffle)  # type: ignore[arg-type]
    source = open_source(declared, seed=3)
    lines = [line for path in paths for line in Path(path).read_text().splitlines()]
    epochs = [epoch_lines(source, epoch) for epoch in range(3)]
    assert all(Counter(epoch) == Counter(lines) for epoch in epochs)
    assert (epochs[0] == lines) == (shuffle == "none")
    assert (epochs[0] == epochs[1]) == (shuffle == "none")


def test_places_name_the_line_that_was_read(tmp_path: Path) -> None:
    """Each line of a block is found at the path and line number of its origin."""
    paths = numbered(tmp_path, "a", 50, n_shards=2)
    source = open_source(Source("a", paths, block_lines=13, split_lines=4), seed=1)
    for block in parts_of(source, 5):
        batch = read_block(source, block)
        for line, origin in zip(batch.lines, batch.origins.tolist(), strict=True):
            path, number = source.place_of(origin)
            assert Path(path).read_text().split("\n")[number - 1] == line


def test_folders_globs_and_files_are_found(tmp_path: Path) -> None:
    """A source may be named by files, a folder or a pattern; empty files among others do no harm."""
    paths = numbered(tmp_path, "a", 10, n_shards=2)
    write_lines(tmp_path / "a.empty.tsv", [])
    for named in [paths, (str(tmp_path),), (str(tmp_path / "a.*.tsv"),)]:
        assert open_source(Source("a", named), seed=0).n_lines == 10


def test_sources_without_lines_are_errors(tmp_path: Path) -> None:
    """No file, no line, or no readable file: each is reported with the source's name."""
    write_lines(tmp_path / "empty.tsv", [])
    (tmp_path / "bad.gz").write_bytes(gzip.compress(TEXT)[:-20])
    with pytest.raises(StreamError, match=r"source 'a': .*no file matches"):
        open_source(Source("a", (str(tmp_path / "*.txt"),)), seed=0)
    with pytest.raises(StreamError, match=r"source 'a': no line in .*; name other files"):
        open_source(Source("a", (str(tmp_path / "empty.tsv"),)), seed=0)
    with pytest.raises(StreamError, match=r"source 'a': .*truncated"):
        open_source(Source("a", (str(tmp_path / "bad.gz"),)), seed=0, cache=tmp_path / "c")
    with pytest.raises(StreamError, match=r"source 'a': no line in .*unreadable shard.*truncated"):
        open_source(
            Source("a", (str(tmp_path / "bad.gz"),)),
            seed=0,
            cache=tmp_path / "c",
            policy=ErrorPolicy("skip"),
        )


def test_orders_depend_on_seed_name_and_epoch(tmp_path: Path) -> None:
    """Another seed, another name or another epoch reads in another order."""
    paths = numbered(tmp_path, "a", 60)
    orders = {
        tuple(epoch_lines(open_source(Source(name, paths), seed=seed), epoch))
        for name, seed, epoch in [("a", 1, 0), ("b", 1, 0), ("a", 2, 0), ("a", 1, 1)]
    }
    assert len(orders) == 4
