"""`open_source`: files become segments, and blocks that have every line exactly once per epoch."""

import gzip
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.golden import check
from support.indexed_ids import write_pair
from support.streams import numbered, write_lines

from volt.errors import ConfigError, StreamError
from volt.files.text_checks import LongLineError
from volt.stream import ErrorPolicy, Source, Stream
from volt.stream.config.configuration import load_config
from volt.stream.reading.epoch_order import permutation
from volt.stream.reading.open_shard import open_pair, open_shard
from volt.stream.reading.open_source import (
    fingerprint,
    open_source,
    read_block,
    segment_lines,
)
from volt.stream.reading.unread_lines import LineBlock, rank_blocks
from volt.stream.running.chunk_computation import Address, compute_chunk
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.user_code import User
from volt.stream.transforms.vocabulary_noise import Switchout


def epoch_blocks(source, epoch):
    blocks = rank_blocks(source.n_lines, source.block_lines, epochs=epoch + 1)
    return [block for block in blocks if block.epoch == epoch]


def epoch_lines(source, epoch):
    """Return all lines of an epoch, in order."""
    blocks = [
        compute_chunk(source, Address(block, 0), ErrorPolicy())
        for block in epoch_blocks(source, epoch)
    ]
    return b"".join(bytes(block.data) for block in blocks).decode().split("\n")[:-1]


@pytest.mark.parametrize("block_lines", [1, 7, 30, 1000])
@pytest.mark.parametrize("shuffle", ["lines", "outputs", "none"])
def test_an_epoch_has_every_line_once(tmp_path, block_lines, shuffle):
    """The blocks of an epoch have every line once, for any block size, number of shards and way to
    shuffle."""
    paths = numbered(tmp_path, "a", 60, n_shards=3)
    declared = Source("a", paths, block_lines=block_lines, split_lines=8, shuffle=shuffle)
    source = open_source(declared, seed=3)
    lines = [line for path in paths for line in Path(path).read_text().splitlines()]
    epochs = [epoch_lines(source, epoch) for epoch in range(3)]
    assert all(Counter(epoch) == Counter(lines) for epoch in epochs)
    assert (epochs[0] == lines) == (shuffle == "none")
    assert (epochs[0] == epochs[1]) == (shuffle == "none")


def test_places_name_the_lines_that_are_read(tmp_path):
    """Each line of a block is at the path and line number that place_of returns for its origin."""
    paths = numbered(tmp_path, "a", 50, n_shards=2)
    source = open_source(Source("a", paths, block_lines=13, split_lines=4), seed=1)
    for block in epoch_blocks(source, 5):
        batch = read_block(source, block)
        for line, origin in zip(batch.lines, batch.origins.tolist(), strict=True):
            path, number = source.place_of(origin)
            assert Path(path).read_text().split("\n")[number - 1] == line


def test_folders_globs_and_files_are_found(tmp_path):
    """open_source finds files named directly, by a folder or by a pattern, among them empty
    files."""
    paths = numbered(tmp_path, "a", 10, n_shards=2)
    write_lines(tmp_path / "a.empty.tsv", [])
    for named in [paths, (str(tmp_path),), (str(tmp_path / "a.*.tsv"),)]:
        assert open_source(Source("a", named), seed=0).n_lines == 10


def test_sources_without_lines_are_refused(tmp_path):
    """open_source refuses a source without a file, a line, or a readable file, and names the
    source."""
    write_lines(tmp_path / "empty.tsv", [])
    (tmp_path / "bad.gz").write_bytes(gzip.compress(bytes(1000))[:-20])
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


def test_orders_depend_on_seed_name_and_epoch(tmp_path):
    """Another seed, another name or another epoch permutes the segments in another order."""
    paths = numbered(tmp_path, "a", 60)
    orders = {
        tuple(epoch_lines(open_source(Source(name, paths), seed=seed), epoch))
        for name, seed, epoch in [("a", 1, 0), ("b", 1, 0), ("a", 2, 0), ("a", 1, 1)]
    }
    assert len(orders) == 4


@pytest.mark.parametrize(
    ("block_bytes", "options", "expected"),
    [
        (1000, {}, (10, 10)),
        (1009, {}, (10, 10)),
        (1010, {}, (10, 10)),
        (1, {}, (1, 1)),
        (10**6, {}, (64, 64)),
        (10**6, {"block_lines": 7}, (7, 7)),
        (500, {"block_lines": 7}, (5, 5)),
        (10**6, {"python": True}, (64, 8)),
        (1000, {"python": True}, (10, 8)),
        (700, {"python": True}, (7, 7)),
        (10**6, {"python": True, "shuffle": "outputs"}, (64, 64)),
    ],
)
def test_blocks_and_chunks_are_bounded(
    tmp_path,
    monkeypatch,
    block_bytes,
    options,
    expected,
):
    """block_lines is bounded by lines and average bytes; chunk_lines of Python code by 1,024,
    unless blocks must be whole."""
    monkeypatch.setattr("volt.stream.reading.open_source.CHUNK_LINES", 8)
    (tmp_path / "own.py").write_text("def same(fields):\n    return fields\n")
    steps = (
        (User(file=tmp_path / "own.py", function="same"),) if options.pop("python", False) else ()
    )
    declared = Source(
        "a",
        (write_lines(tmp_path / "a", ["x" * 99] * 50),),
        1.0,
        steps,
        **{"block_lines": 64, **options},
    )
    source = open_source(replace(declared, block_bytes=block_bytes), seed=0)
    assert (source.block_lines, source.chunk_lines) == expected
    assert ("chunk_lines" in source.fingerprints) == (expected[1] < expected[0])
    assert (source.n_bytes, source.n_lines, source.is_clean, source.is_utf8) == (
        5000,
        50,
        True,
        True,
    )


@pytest.mark.parametrize("shuffle", ["lines", "none"])
def test_appended_lines_come_last_in_their_epoch(tmp_path, shuffle):
    """Until the epoch in which lines were appended ends, old lines come in its order, then appended
    lines in file order."""
    source = open_source(
        Source("a", numbered(tmp_path, "a", 11, n_shards=2), split_lines=2, shuffle=shuffle), seed=1
    )
    rows = []
    for grown in ((), ((1, 4),), ((1, 6),), ((0, 3), (1, 8)), ((1, 10),)):
        growing = source.growing(grown)
        assert growing.growing(grown) is growing
        for epoch in (0, 1, 2):
            lines = []
            for part in segment_lines(growing, LineBlock(epoch, 0, 11)):
                first = int(growing.line_starts[part.segment]) + part.first
                lines += range(first, first + part.n_lines)
            assert sorted(lines) == list(range(11))
            rows.append(f"{grown} {epoch}: {lines}")
    if shuffle == "lines":
        check("stream layouts", rows)
    else:
        assert all(row.endswith(f": {[*range(11)]}") for row in rows)
    assert source.growing(((1, 4),)) is not source


def test_orders_and_fingerprints_do_not_change():
    """Permutations by seed, name, epoch and block, and digests of JSON values, equal the stored
    ones."""
    orders = [
        permutation(n, *place).tolist()
        for n, *place in ((0, 1), (1, 1), (2, 1, "a"), (9, 1, "a", 0), (9, 1, "a", 1))
    ]
    check("stream orders", [*map(str, orders), fingerprint({"b": [1, None], "a": "é"})])
    assert fingerprint({"a": "é", "b": [1, None]}) == fingerprint({"b": [1, None], "a": "é"})


def test_changed_files_of_transforms_are_reported(tmp_path):
    """check_files reports each changed file of a transform, also inside a choice."""
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


def test_places_of_first_and_last_lines(tmp_path):
    """place_of returns the path and number of the first and last line of each file, for any segment
    size."""
    source = open_source(Source("a", numbered(tmp_path, "a", 7, n_shards=2), split_lines=2), seed=1)
    places = [source.place_of(origin) for origin in range(7)]
    assert [(Path(path).name, line) for path, line in places] == [
        *(("a.0.tsv", i) for i in (1, 2, 3)),
        *(("a.1.tsv", i) for i in (1, 2, 3, 4)),
    ]
    slices = segment_lines(
        replace(source, source=replace(source.source, shuffle="none")), LineBlock(0, 0, 7)
    )
    for one in (*slices, *(one._replace(first=1, n_lines=1) for one in slices if one.n_lines > 1)):
        batch = source.read(one)
        first = int(source.line_starts[one.segment]) + one.first
        assert batch.origins.tolist() == list(range(first, first + one.n_lines))
        assert batch.lines == [f"a-{i}\tA {i}" for i in batch.origins]
    assert np.array_equal(source.shard_starts, [0, 2, 4])


MARK = b"\xef\xbb\xbf"


def test_files_without_lines_are_skipped(tmp_path):
    """A file that has only a byte order mark adds no lines to a source; alone, it is refused."""
    mark = tmp_path / "mark.tsv"
    line = tmp_path / "line.tsv"
    mark.write_bytes(MARK)
    line.write_bytes(MARK + b"a\n")
    with Stream([Source("s", (str(mark), str(line)), epochs=1)]) as stream:
        assert list(stream) == ["a"]
    with pytest.raises(StreamError, match=r"no line in .*mark\.tsv"):
        Stream([Source("s", (str(mark),))])
    with pytest.raises(StreamError, match="0 lines"):
        open_pair({"src": str(mark), "tgt": str(line)}, split_lines=None)


def test_the_error_for_a_long_line_names_max_line_of_the_source(tmp_path):
    """The error for a long line recommends the source's option max_line, for text and for
    tables."""
    text = tmp_path / "a.tsv"
    table = tmp_path / "a.jsonl"
    text.write_text("long line\n")
    table.write_text('{"de": "long line"}\n')
    for path, fields in ((text, None), (table, {"src": "de"})):
        with pytest.raises(
            StreamError, match=r":1: .*cut it, or raise the source's max_line"
        ) as error:
            open_shard(str(path), split_lines=None, fields=fields, cache=tmp_path, max_line=3)
        assert "max_line=" not in str(error.value)
        assert isinstance(error.value.__cause__, LongLineError)


def test_lines_of_up_to_max_line_bytes_are_read(tmp_path):
    """A source reads a line of max_line bytes and refuses a longer one, even if an earlier index
    allowed it."""
    (tmp_path / "a.txt").write_text("long line\n")
    (tmp_path / "a.jsonl").write_text('{"de": "long line"}\n')
    write_pair(tmp_path / "a", [[1, 2]], "u16")
    table = {"path": "*.jsonl", "columns": {"x": "de"}}
    config = tmp_path / "stream.yaml"
    cache = tmp_path / "cache"
    for name, n_bytes, options, each in (
        ("a.txt", 9, {}, {"path": "*.txt"}),
        ("a.bin", 8, {}, {"path": "*.bin"}),
        ("a.txt", 9, {"names": ("x", "y")}, {"pair": {"x": "*.txt", "y": "*.txt"}}),
        ("a.jsonl", 19, {"names": ("x",), "keys": ("de",)}, table),
    ):
        paths = (str(tmp_path / name),) * (1 + ("pair" in each))
        config.write_text(json.dumps({"cache": "cache", "each": {**each, "max_line": n_bytes}}))
        declared = Source("s", paths, max_line=n_bytes, **options)
        for source in (declared, *load_config(config).sources):
            assert open_source(source, seed=1, cache=cache).n_lines == 1
        message = f"{name}:1: the line has more than {n_bytes - 1} bytes"
        with pytest.raises(StreamError, match=message):
            open_source(replace(declared, max_line=n_bytes - 1), seed=1, cache=cache)
        config.write_text(json.dumps({"cache": "cache", "each": {**each, "max_line": n_bytes - 1}}))
        with pytest.raises(ConfigError, match=message):
            load_config(config)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("a.csv", 'x\n1\n"2\t3"\n', 3), ("a.jsonl", '{"x": "1"}\n{"x": "2\\t3"}\n', 2)],
)
def test_the_place_of_a_row_counts_the_header(name, text, line, tmp_path):
    """The number of a row in a file is the number of its line, and a header is line 1."""
    (tmp_path / name).write_text(text)
    source = Source("a", (str(tmp_path / name),), names=("x",), keys=("x",))
    opened = open_source(source, seed=1, cache=tmp_path / "cache")
    assert opened.place_of(1) == (str(tmp_path / name), line)
