"""Files become pieces, and pieces become blocks that hold every line exactly once per epoch."""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import numbered, write_lines

from volt.errors import ConfigError, StreamError
from volt.files.blocks import read_raw
from volt.stream.reading.faults import Policy
from volt.stream.reading.order import Slice, read_order
from volt.stream.reading.shards import SMALL, check_unchanged, open_shard, read_piece, split_lines
from volt.stream.reading.source import OpenSource, Source, addresses, block_slices, open_source, place_of, read_block

LINES = [f"line {i}\tZeile {i}" for i in range(100)]
TEXT = "".join(line + "\n" for line in LINES).encode()
PACKERS = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.ZstdCompressor().compress}


def epoch_lines(source: OpenSource, epoch: int) -> list[str]:
    """All lines of an epoch, in the order of its blocks."""
    return [line.decode() for block in range(source.n_blocks) for line in read_block(source, epoch, block).lines]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("piece", [1, 7, 100, 1000, None])
def test_pieces_hold_the_lines_of_a_file(tmp_path: Path, packer: str, piece: int | None) -> None:
    """However a file is packed and cut, its pieces joined are its lines, and its digest is that of the lines."""
    path = tmp_path / "a.tsv"
    path.write_bytes(PACKERS[packer](TEXT))
    shard = open_shard(str(path), split_lines=piece, cache=tmp_path / "cache")
    lines = [line.decode() for number in range(len(shard.counts)) for line in read_piece(shard, number)]
    assert lines == LINES
    assert set(shard.counts[:-1]) <= {piece}
    (tmp_path / "b.tsv").write_bytes(TEXT)
    assert shard.digest == open_shard(str(tmp_path / "b.tsv"), split_lines=3).digest


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 9), st.integers(1, 100), st.booleans())
def test_pieces_do_not_depend_on_how_much_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: list[int], piece: int, size: int, ends: bool
) -> None:
    """All pieces but the last have as many lines as asked for, wherever a read ended."""
    lines, path = [*(b"x" * length for length in lengths), b"last"], tmp_path / "a.tsv"
    path.write_bytes(b"\n".join(lines) + b"\n" * ends)
    monkeypatch.setattr("volt.stream.reading.shards._READ_SIZE", size)
    shard = open_shard(str(path), split_lines=piece)
    expected = [lines[start : start + piece] for start in range(0, len(lines), piece)]
    found = [read_piece(shard, number) for number in range(len(shard.counts))]
    assert found == expected


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 80), st.randoms())
def test_blocks_tile_an_epoch(sizes: list[int], block_lines: int, random: object) -> None:
    """The slices of all blocks are the pieces' lines, each once, in the order of the pieces."""
    import numpy as np

    order = np.array(sorted(range(len(sizes)), key=lambda _: random.random()))  # type: ignore[attr-defined]
    expected = [(int(piece), line) for piece in order for line in range(sizes[piece])]
    found = list[tuple[int, int]]()
    for block in range(-(-sum(sizes) // block_lines)):
        slices: tuple[Slice, ...] = read_order(np.array(sizes), block_lines=block_lines, block=block, order=order)
        found += [(part.piece, part.first + i) for part in slices for i in range(part.n_lines)]
    assert found == expected


@pytest.mark.parametrize("block_lines", [1, 7, 30, 1000])
@pytest.mark.parametrize("shuffle", ["lines", "outputs", "none"])
def test_an_epoch_holds_every_line_once(tmp_path: Path, block_lines: int, shuffle: str) -> None:
    """Exact cover at any block size, for several shards, pieces that blocks share, and all ways to shuffle."""
    paths = numbered(tmp_path, "a", 60, n_shards=3)
    declared = Source("a", paths, block_lines=block_lines, split_lines=8, shuffle=shuffle)  # type: ignore[arg-type]
    source = open_source(declared, seed=3)
    lines = [line for path in paths for line in Path(path).read_text().splitlines()]
    epochs = [epoch_lines(source, epoch) for epoch in range(3)]
    assert all(Counter(epoch) == Counter(lines) for epoch in epochs)
    assert (epochs[0] == lines) == (shuffle == "none")
    assert (epochs[0] == epochs[1]) == (shuffle == "none")


def test_places_name_the_line_that_was_read(tmp_path: Path) -> None:
    """Line k of a block, before it is permuted, is found at its path and line number."""
    paths = numbered(tmp_path, "a", 50, n_shards=2)
    source = open_source(Source("a", paths, block_lines=13, split_lines=4), seed=1)
    for block in range(source.n_blocks):
        raw = read_block(source, 5, block)
        assert raw.order is not None
        for line, origin in zip(raw.lines, raw.order.tolist(), strict=True):
            path, number = place_of(source, raw.slices, origin)
            assert Path(path).read_bytes().split(b"\n")[number - 1] == line


def test_orders_depend_on_seed_name_and_epoch(tmp_path: Path) -> None:
    """Another seed, another name or another epoch reads in another order."""
    paths = numbered(tmp_path, "a", 60)
    orders = {
        tuple(epoch_lines(open_source(Source(name, paths), seed=seed), epoch))
        for name, seed, epoch in [("a", 1, 0), ("b", 1, 0), ("a", 2, 0), ("a", 1, 1)]
    }
    assert len(orders) == 4


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\rb\x0bc\x0cd\x85e\n", [b"a\rb\x0bc\x0cd\x85e"]),
        ("a\u2028b\u2029c\x1cd\n".encode(), ["a\u2028b\u2029c\x1cd".encode()]),
        (b"\n\n", [b"", b""]),
        (b"a\r", [b"a"]),
    ],
)
def test_lines_end_at_line_feeds_alone(data: bytes, lines: list[bytes]) -> None:
    r"""Only "\n" ends a line, and one "\r" before it goes; no other separator of Unicode or Python does."""
    assert split_lines(data) == lines


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """A byte order mark at the start of a file is left out, packed or not."""
    for packer in PACKERS.values():
        path = tmp_path / "a.tsv"
        path.write_bytes(packer(b"\xef\xbb\xbfone\ntwo\n"))
        source = open_source(Source("a", (str(path),), split_lines=1, shuffle="none"), seed=0, cache=tmp_path / "c")
        assert epoch_lines(source, 0) == ["one", "two"]


def test_folders_globs_and_files_are_found(tmp_path: Path) -> None:
    """A source may be named by files, a folder or a pattern; empty files among others do no harm."""
    paths = numbered(tmp_path, "a", 10, n_shards=2)
    write_lines(tmp_path / "a.empty.tsv", [])
    for named in [paths, (str(tmp_path),), (str(tmp_path / "a.*.tsv"),)]:
        assert open_source(Source("a", named), seed=0).n_lines == 10


def test_an_index_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second opening reads the index from the cache and not the file; a changed file is indexed anew."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT))
    first = open_shard(str(path), split_lines=10, cache=cache)
    monkeypatch.setattr("volt.stream.reading.shards._cut", None)  # what reads the file
    assert open_shard(str(path), split_lines=10, cache=cache) == first
    monkeypatch.undo()
    path.write_bytes(gzip.compress(TEXT + b"more\n"))
    assert open_shard(str(path), split_lines=10, cache=cache).n_lines == 101


def test_a_cut_off_copy_is_never_used(tmp_path: Path) -> None:
    """A split copy that lost its end, or an index that did, is made again."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT))
    first = open_shard(str(path), split_lines=10, cache=cache)
    for found in (Path(first.data_path), next(cache.glob("*.json"))):
        os.truncate(found, found.stat().st_size // 2)
        again = open_shard(str(path), split_lines=10, cache=cache)
        assert [line for number in range(10) for line in read_piece(again, number)] == split_lines(TEXT)


def test_an_index_of_another_version_is_made_again(tmp_path: Path) -> None:
    """What another version wrote is not read, whatever it says."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT))
    first = open_shard(str(path), split_lines=10, cache=cache)
    [index] = cache.glob("*.json")
    index.write_text(json.dumps({**json.loads(index.read_text()), "version": 0, "digest": "other"}))
    assert open_shard(str(path), split_lines=10, cache=cache).digest == first.digest


def test_nothing_is_left_of_a_split_that_failed(tmp_path: Path) -> None:
    """A truncated gzip file leaves no copy and no index in the cache, and the error says where it ends."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT)[:-20])
    with pytest.raises(StreamError, match=r"a\.tsv\.gz: truncated after line \d+; copy or compress it again"):
        open_shard(str(path), split_lines=10, cache=cache)
    assert not [found for found in cache.iterdir() if found.suffix != ".lock"]


def test_a_large_plain_file_is_indexed_in_the_cache(tmp_path: Path) -> None:
    """Plain files are never copied; the index of a large one is kept."""
    path = write_lines(tmp_path / "a.tsv", ["x" * 99] * (SMALL // 100 + 1))
    shard = open_shard(path, split_lines=1000, cache=tmp_path / "cache")
    assert shard.data_path == path
    assert open_shard(path, split_lines=1000, cache=tmp_path / "cache") == shard
    assert len(list((tmp_path / "cache").glob("*.json"))) == 1


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Where no index can be kept the error says so and what to do."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(StreamError, match=r"no index can be kept .*; name another cache folder"):
        open_shard(str(tmp_path / "a.gz"), split_lines=10, cache=tmp_path / "cache")


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("piece", [5, None])
def test_a_file_that_changes_is_an_error(tmp_path: Path, packer: str, piece: int | None) -> None:
    """A data file that changes after it was indexed is told, not read."""
    path = tmp_path / "a.tsv"
    path.write_bytes(PACKERS[packer](TEXT))
    shard = open_shard(str(path), split_lines=piece, cache=tmp_path / "cache")
    with open(shard.data_path, "ab") as file:
        file.write(b"more\n")
    with pytest.raises(StreamError, match="changed while the stream was running; start the stream anew"):
        read_piece(shard, 0)
    os.unlink(shard.data_path)
    with pytest.raises(StreamError, match=r"cannot be read: .* when it was indexed: restore it"):
        read_piece(shard, 0)


def test_a_file_that_changes_within_its_lines_is_an_error(tmp_path: Path) -> None:
    """Also when as many bytes and lines are there as before: it is the time of change that tells."""
    path = tmp_path / "a.tsv"
    path.write_bytes(TEXT)
    shard = open_shard(str(path), split_lines=5)
    check_unchanged(shard)
    path.write_bytes(TEXT.replace(b"Zeile", b"zeile"))
    os.utime(path, ns=(0, shard.stamp[1] + 1))
    for look in (check_unchanged, lambda shard: read_piece(shard, 0)):
        with pytest.raises(StreamError, match="changed while the stream was running"):
            look(shard)


@pytest.mark.parametrize("packer", PACKERS)
def test_a_file_that_changes_while_it_is_indexed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packer: str
) -> None:
    """A file that is still being written when it is indexed is told, and no index of it is kept."""
    path, cache = tmp_path / "a.tsv", tmp_path / "cache"
    path.write_bytes(PACKERS[packer](TEXT))

    def grows(name: str, **options: int) -> Iterator[bytes]:
        yield from read_raw(name, **options)
        with path.open("ab") as file:
            file.write(b"more\n")

    monkeypatch.setattr("volt.stream.reading.shards.read_raw", grows)
    monkeypatch.setattr("volt.stream.reading.shards.SMALL", 0)
    with pytest.raises(StreamError, match="changed while it was being indexed; wait until it is complete"):
        open_shard(str(path), split_lines=5, cache=cache)
    assert not list(cache.glob("*.json"))


def test_sources_without_lines_are_errors(tmp_path: Path) -> None:
    """No file, no line, or no readable file: each is told with the source's name."""
    write_lines(tmp_path / "empty.tsv", [])
    (tmp_path / "bad.gz").write_bytes(gzip.compress(TEXT)[:-20])
    with pytest.raises(StreamError, match=r"source 'a': .*no file matches"):
        open_source(Source("a", (str(tmp_path / "*.txt"),)), seed=0)
    with pytest.raises(StreamError, match="source 'a': no line in 1 files"):
        open_source(Source("a", (str(tmp_path / "empty.tsv"),)), seed=0)
    with pytest.raises(StreamError, match=r"source 'a': .*truncated"):
        open_source(Source("a", (str(tmp_path / "bad.gz"),)), seed=0, cache=tmp_path / "c")
    with pytest.raises(StreamError, match=r"source 'a': no line in 1 files.*unreadable shard.*truncated"):
        open_source(Source("a", (str(tmp_path / "bad.gz"),)), seed=0, cache=tmp_path / "c", policy=Policy("skip"))


def test_an_unreadable_shard_can_be_left_out(tmp_path: Path) -> None:
    """With the policy to skip, the other shards are read, and the fault is noted."""
    good, bad = write_lines(tmp_path / "a.tsv", LINES), tmp_path / "b.gz"
    bad.write_bytes(gzip.compress(TEXT)[:-20])
    source = open_source(Source("a", (good, str(bad))), seed=0, cache=tmp_path / "c", policy=Policy("skip"))
    assert source.n_lines == 100
    assert [fault.place for fault in source.faults] == [str(bad)]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 8))
def test_ranks_share_the_blocks_of_every_epoch(world: int, n_blocks: int, epochs: int) -> None:
    """Over the ranks each block of each epoch is dealt exactly once, and from any start the rest is the same. In as
    many epochs as there are ranks, all have equally many."""

    class Declared:
        source = Source("a", ("a",), epochs=epochs)

    declared = Declared()
    declared.n_blocks = n_blocks  # type: ignore[attr-defined]
    dealt = [list(addresses(declared, rank=rank, world=world)) for rank in range(world)]  # type: ignore[arg-type]
    assert Counter(address for rank in dealt for address in rank) == Counter(
        (epoch, block) for epoch in range(epochs) for block in range(n_blocks)
    )
    if epochs >= world:
        assert {sum(epoch < world for epoch, _ in blocks) for blocks in dealt} == {n_blocks}
    for rank, blocks in enumerate(dealt):
        for position, start in enumerate(blocks):
            rest = addresses(declared, rank=rank, world=world, start=start)  # type: ignore[arg-type]
            assert list(rest) == blocks[position:]


def test_blocks_are_bounded_by_memory(tmp_path: Path) -> None:
    """A block holds no more lines than have about so many bytes."""
    path = write_lines(tmp_path / "a.tsv", ["x" * 99] * 50)
    source = open_source(Source("a", (path,), block_bytes=1000), seed=0)
    assert (source.block_lines, source.n_blocks) == (10, 5)
    assert sum(part.n_lines for part in block_slices(source, 0, 0)) == 10
    assert open_source(Source("a", (path,), block_bytes=1), seed=0).block_lines == 1


def test_endless_sources_go_on(tmp_path: Path) -> None:
    """Without a number of epochs the blocks never end."""
    source = open_source(Source("a", numbered(tmp_path, "a", 4), block_lines=2), seed=0)
    assert list(islice(addresses(source), 5)) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize(
    "options", [{"block_lines": 0}, {"split_lines": 0}, {"epochs": 0}, {"shuffle": "all"}, {"weight": float("nan")}]
)
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    """Sizes below 1, unknown words and weights that are no numbers are told with the source's name."""
    with pytest.raises(ConfigError, match="source 'a'"):
        Source("a", ("a.tsv",), **options)  # type: ignore[arg-type]
