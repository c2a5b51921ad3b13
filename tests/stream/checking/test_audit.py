"""`audit` detects missing and repeated lines, uneven ranks, other content and wrong shares."""

import json
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.streams import numbered, write_lines

from volt.errors import ConfigError
from volt.stream import Schedule, Source, Stream, audit
from volt.stream.checking import audit as auditing
from volt.stream.checking.audit import Audit, SourceAudit, measure_deviation
from volt.stream.reading.epoch_order import SegmentLines
from volt.stream.reading.open_shard import open_pair
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.tables import open_table
from volt.stream.reading.unread_lines import LineBlock, rank_blocks


@pytest.mark.parametrize("world", [1, 2, 5])
@pytest.mark.parametrize("block_lines", [1, 7, 1000])
def test_audits_of_streams_are_exact(tmp_path, world, block_lines):
    """audit finds no missing, repeated or changed line in three epochs of a stream, or in a source
    that ends earlier."""
    paths = numbered(tmp_path, "a", 60, n_shards=3)
    whole = {"epochs": 2, "split_lines": None, "shuffle": "none"}
    sources = [
        Source("a", paths, epochs=5, block_lines=block_lines, split_lines=11),
        Source("b", paths[:1], 0.3, block_lines=block_lines, **whole),
    ]
    result = audit(Stream(sources, world=world), epochs=3, turns=1000, content=True)
    assert result.exact
    assert [(source.n_lines, source.epochs) for source in result.sources] == [(60, 3), (20, 2)]
    assert not any(source.missing or source.repeated for source in result.sources)
    assert json.loads(json.dumps(result.to_json()))["exact"]


def test_audits_count_the_blocks_of_all_ranks(tmp_path):
    """audit counts the blocks of all ranks; a source of one epoch is checked for one epoch; invalid
    options are refused."""
    paths = numbered(tmp_path, "a", 10, n_shards=2)
    sources = [Source("a", paths, block_lines=4, epochs=1), Source("b", paths, block_lines=4)]
    result = audit(Stream(sources, world=2, cache=tmp_path), epochs=3, turns=0)
    assert [(source.epochs, source.n_blocks) for source in result.sources] == [(1, 4), (3, 12)]
    assert (result.n_turns, result.deviation) == (0, 0)
    for wrong in ({"epochs": 0}, {"turns": -1}):
        with pytest.raises(ConfigError, match=rf"{next(iter(wrong))} is "):
            audit(Stream(sources), **wrong)


def test_an_order_that_repeats_lines_is_detected(tmp_path, monkeypatch):
    """audit counts a missing and a repeated line for each repeated index in the order of a
    block."""
    stream = Stream([Source("a", numbered(tmp_path, "a", 60), block_lines=10)])
    monkeypatch.setattr(auditing, "line_order", lambda source, block, n: np.zeros(n, np.int64))
    [source] = audit(stream, turns=10).sources
    assert (source.missing, source.repeated, source.exact) == (54, 54, False)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 5), (5, 5)], (0, 0)),
        ([(2, 8)], (2, 0)),
        ([(0, 8)], (2, 0)),
        ([(0, 4), (6, 4)], (2, 0)),
        ([(0, 6), (4, 6)], (0, 2)),
        ([(0, 10), (3, 2), (8, 2)], (0, 4)),
        ([], (10, 0)),
    ],
)
def test_gaps_and_overlaps_of_blocks_are_counted(
    tmp_path,
    monkeypatch,
    ranges,
    expected,
):
    """_count_missing_and_repeated counts lines in gaps between blocks, and in overlapping or nested
    blocks."""
    [source] = Stream([Source("a", numbered(tmp_path, "a", 10))], cache=tmp_path).sources
    monkeypatch.setattr(
        auditing, "segment_lines", lambda _, block: (SegmentLines(0, block.start, block.n_lines),)
    )
    blocks = [LineBlock(0, start, n) for start, n in ranges]
    assert auditing._count_missing_and_repeated(source, blocks) == expected


@pytest.mark.parametrize(("is_shared", "repeated", "uneven"), [(True, 0, 5), (False, 50, 0)])
def test_uneven_ranks_are_detected(tmp_path, monkeypatch, is_shared, repeated, uneven):
    """audit reports ranks that take whole blocks in turn as uneven, and ranks that read everything
    as repeating."""
    stream = Stream([Source("a", numbered(tmp_path, "a", 25), block_lines=10)], world=2)
    blocks = list(rank_blocks(25, 10, epochs=2))

    def wrong(*_, rank, world, epochs):
        return blocks[rank::world] if is_shared else blocks

    monkeypatch.setattr(auditing, "rank_blocks", wrong)
    [source] = audit(stream, epochs=2, turns=10).sources
    assert (source.missing, source.repeated, source.uneven) == (0, repeated, uneven)
    assert not source.exact


@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("kind", ["table", "pair"])
def test_audits_compare_the_content_of_tables_and_pairs(tmp_path, world, kind):
    """audit(content=True) finds that the lines of tables and pairs equal the fields of their
    files."""
    if kind == "table":
        rows = [f'{{"src": "a {i}", "tgt": "b {i}"}}' for i in range(23)]
        paths = (write_lines(tmp_path / "a.jsonl", rows),)
        shard = open_table(paths[0], fields={"src": "src", "tgt": "tgt"}, split_lines=5)
    else:
        pair = {}
        for name in ("src", "tgt"):
            pair[name] = write_lines(tmp_path / name, [f"{name} {i}" for i in range(23)])
        paths = tuple(pair.values())
        shard = open_pair(pair, split_lines=5)
    source = OpenSource(Source("a", paths, block_lines=4), (shard,), 1)
    assert audit(Stream([source], world=world), turns=10, content=True).exact


def test_other_content_is_detected(tmp_path, monkeypatch):
    """audit(content=True) detects lines that differ from the file."""
    stream = Stream([Source("a", numbered(tmp_path, "a", 9))])
    monkeypatch.setattr(auditing, "_file_lines", lambda source: iter([b"other"]))
    assert audit(stream, turns=10).exact
    assert not audit(stream, turns=10, content=True).exact


def test_only_the_first_byte_order_mark_is_skipped(tmp_path, monkeypatch):
    """audit(content=True) skips a byte order mark only at the start of a file, for reads of any
    size."""
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\nthree")
    read = auditing.read_raw
    monkeypatch.setattr(
        auditing, "read_raw", lambda name, **options: read(name, block_size=4, **options)
    )
    stream = Stream([Source("a", (str(path),), max_line=9)], cache=tmp_path)
    assert audit(stream, turns=1, content=True).exact
    with pytest.raises(Exception, match="more than 3 bytes"):
        list(auditing._text_lines(str(path), 3))


@pytest.mark.parametrize(
    ("missing", "repeated", "uneven", "content", "deviation"),
    [
        *product((0, 1), (0, 1), (0, 1, 2), (None, True, False), (1.0,)),
        *((0, 0, 0, None, off) for off in (0.0, 1 + 2e-6, 1.9)),
    ],
)
def test_an_audit_is_exact_within_one_line(missing, repeated, uneven, content, deviation):
    """Audit.exact allows ranks and shares to be off by one line, but no missing, repeated or
    changed line."""
    source = SourceAudit("a", 9, 1, 2, missing, repeated, uneven, content)
    is_exact = not missing and not repeated and uneven < 2 and content is not False
    assert source.exact == is_exact
    result = Audit((SourceAudit("b", 9, 1, 2, 0, 0, 0, None), source), 7, deviation)
    assert result.exact == result.to_json()["exact"] == (is_exact and deviation <= 1)
    verdict = "exact" if result.exact else "not exact"
    assert repr(result).startswith(f"<Audit: {verdict}, 2 sources, 7 turns, at most ")


@settings(deadline=None, max_examples=8)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 9), st.integers(0, 25))
def test_deviations_equal_a_naive_count(weights, window, turns):
    """measure_deviation equals a turn-by-turn count, for windows of any size."""
    mixture = auditing.Mixture([*map(float, weights)])
    shares = np.array(weights) / sum(weights)
    counts = np.zeros(len(weights))
    worst = 0.0
    for n, turn in enumerate(mixture.turns(turns).tolist(), 1):
        counts[turn] += 1
        worst = max(worst, float(np.abs(n * shares - counts).max()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "_WINDOW", window)
        assert measure_deviation([*map(float, weights)], turns) == pytest.approx(worst)
    assert measure_deviation([1.0, Schedule(((0, 1.0), (9, 3.0)))], 30) == pytest.approx(
        0.5, abs=0.26
    )


def test_deviations_of_many_sources_need_little_memory():
    """measure_deviation needs memory for turns plus sources, not for turns times sources."""
    tracemalloc.start()
    try:
        assert measure_deviation([1.0] * 500, 1 << 16) == pytest.approx(0.998)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
