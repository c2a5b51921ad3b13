"""Files that are read: exactly at each limit, one below and one above."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from golden import check
from indexed_ids import write_pair
from pyarrow import parquet
from streams import numbered, write_lines

from volt.errors import CorpusError, StreamError
from volt.stream import Source
from volt.stream.reading import index_cache, segments, tables, text_shard
from volt.stream.reading.open_shard import bins_of, open_id_shard, open_shard, remedy_of
from volt.stream.reading.open_source import open_source, segment_lines
from volt.stream.reading.shard import shifting_lines
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.transforms.column import Column

TEXTS = (
    b"a\tb\nlonger line\n\xff\n",
    b"\xef\xbb\xbfab\r\nc",
    b"a\n\n\tb\xc3\xa9\n",
    b"",
    b"\n",
    b"\r\n\xff\t\xff",
)


@pytest.mark.parametrize("split", [1, 2, None])
def test_facts_of_texts(tmp_path: Path, split: int | None) -> None:
    """Bytes, the longest line, the first tab and UTF-8, plain and packed; a copy's segments join to the file."""
    result = []
    for number, text in enumerate(TEXTS):
        for pack in (bytes, gzip.compress):
            path = tmp_path / f"{number}.{pack.__name__}"
            path.write_bytes(pack(text))
            shard = open_shard(str(path), split_lines=split, cache=tmp_path / "cache")
            facts = shard.facts
            result.append(
                f"{shard.counts} {facts.n_bytes} {facts.longest} {facts.first_tab} {facts.is_utf8}"
            )
            assert result[-1] == result[-1 - (pack is not bytes)]
            assert b"".join(map(shard.files[0].read, range(len(shard.counts)))) == text
            for n in range(1, shard.n_lines + 1):
                (tmp_path / "first").write_bytes(b"\n".join(text.split(b"\n")[:n]) + b"\n")
                first = open_shard(str(tmp_path / "first"), split_lines=None).facts.digest
                assert first in shard.digests_of(n) or n == shard.n_lines
    check(f"stream facts {split}", result[::2])


def test_facts_of_tables(tmp_path: Path) -> None:
    """Rows as lines: their bytes with tabs between fields, the longest, the first that is not one line."""
    rows = [
        {"a": "x", "b": "yy"},
        {"a": None},
        {"a": "é", "b": None},
        {"a": "a\tb", "b": ""},
        {"a": "long", "b": "line"},
    ]
    path = write_lines(tmp_path / "a", [json.dumps(row) for row in rows])
    shard = open_shard(path, fields={"x": "a", "y": "b"}, split_lines=2, cache=tmp_path)
    facts = shard.facts
    assert (shard.counts, facts.n_bytes, facts.longest, facts.first_tab, facts.is_utf8) == (
        (2, 2, 1),
        26,
        9,
        4,
        False,
    )
    write_lines(tmp_path / "clean", [json.dumps(rows[0])])
    for names, is_clean in ((["clean"], True), (["a", "clean"], False)):
        paths = tuple(str(tmp_path / name) for name in names)
        declared = Source("s", paths, names=("x", "y"), keys=("a", "b"))
        assert open_source(declared, seed=1, cache=tmp_path).is_clean == is_clean
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "b")
    for most in (9, None):
        stored = open_shard(
            str(tmp_path / "b"),
            fields={"x": "a", "y": "b"},
            split_lines=2,
            cache=tmp_path,
            max_line=most,
        )
        assert stored.facts == facts
    with pytest.raises(StreamError, match=r"b:5: the line has more than 8 bytes"):
        open_shard(
            str(tmp_path / "b"),
            fields={"x": "a", "y": "b"},
            split_lines=2,
            cache=tmp_path,
            max_line=8,
        )


def test_limits_of_ids(tmp_path: Path) -> None:
    """32 bits, and as many ids as a line may have bytes for four each; each with its sentence."""
    path = write_pair(tmp_path / "a", [[1], [], [-(1 << 31), (1 << 31) - 1], [5, 6]], "i64")
    shard = open_id_shard(f"{path}.bin", split_lines=3, cache=tmp_path, max_line=8)
    assert (shard.facts.n_bytes, shard.facts.longest, shard.facts.first_tab, shard.counts) == (
        4 * 5 + 4,
        8,
        0,
        (3, 1),
    )
    with pytest.raises(StreamError, match=r"a\.bin:3: the line has more than 7 bytes"):
        open_id_shard(f"{path}.bin", split_lines=3, cache=tmp_path, max_line=7)
    for number, wrong in enumerate((1 << 31, -(1 << 31) - 1)):
        path = write_pair(tmp_path / str(number), [[1], [2], [], [3, wrong], [wrong]], "i64")
        for split in (None, 1, 2):
            with pytest.raises(
                StreamError,
                match=rf"{number}\.bin:4: id {wrong:,} does not fit in 32 bits; name data",
            ):
                open_id_shard(f"{path}.idx", split_lines=split, cache=tmp_path)
    assert bins_of(["x.idx", "y.bin", "y.idx", "z"]) == ["x.bin", "y.bin", "z"]
    with pytest.raises(StreamError, match=r"has no columns|have no columns; remove `columns`"):
        open_shard("a.bin", split_lines=1, fields={"a": "b"})


@pytest.mark.parametrize("n", [20, 21, 22])
def test_columns_that_there_are_are_listed(tmp_path: Path, n: int) -> None:
    """Twenty of them, and how many more; of a struct, its fields; of nothing, no list."""
    columns: dict[str, Any] = {f"c{i}": ["x"] for i in range(n - 1)} | {
        "s": [{"de": "x", "en": [1]}]
    }
    parquet.write_table(pa.table(columns), tmp_path / "a")
    shown = [f"'c{i}'" for i in range(n - 1)][:20] + ["'s'"] * (n == 20)
    more = f" and {n - 20} more" if n > 20 else ""
    for name, message in (
        ("d", f"no column 'd'; there are {', '.join(shown)}{more}; name other columns"),
        ("s.fr", "no column 's.fr': 's' contains no 'fr'; there are 'de', 'en'; name"),
        ("c0.x", "no column 'c0.x': 'c0' contains no 'x'; name other"),
        ("s", "column 's' is of type struct.*; name columns of text, or of lists of whole numbers"),
    ):
        with pytest.raises(StreamError, match=rf"a: {message}"):
            open_shard(str(tmp_path / "a"), fields={"x": name}, split_lines=2, cache=tmp_path)
    shard = open_shard(
        str(tmp_path / "a"), fields={"x": "s.de", "y": "s.en"}, split_lines=2, cache=tmp_path
    )
    assert [column.strings() for column in shard.read(0)] == [["x"], ["1"]]


KINDS = [
    (pa.array(["x", None]), True),
    (pa.array(["x", None], pa.large_string()), True),
    (pa.array([None, None]), True),
    (pa.array(["x", None], pa.string_view()), True),
    (pa.array(["x", None]).dictionary_encode(), True),
    (pa.array([[1], None]), True),
    (pa.array([[1], None], pa.large_list(pa.int8())), True),
    (pa.array([1, 2]), False),
    (pa.array([[1], None], pa.list_(pa.int16(), 1)), True),
    (pa.array([["x"], None]), False),
    (pa.array([[1.0], None]), False),
    (pa.array([b"x", None]), False),
    (pa.array([1, 1]).dictionary_encode(), False),
]


@pytest.mark.parametrize(("values", "is_taken"), KINDS)
def test_kinds_of_columns(values: pa.Array, is_taken: bool) -> None:
    """Text of every kind, and lists of whole numbers; nothing else."""
    table = pa.table({"a": values})
    if is_taken:
        expected = [None, None] if values.type == pa.null() else [values[0].as_py(), None]
        assert tables.column_of(table, "a").to_pylist() == expected
    else:
        with pytest.raises(StreamError, match="column 'a' is of type"):
            tables.column_of(table, "a")


@pytest.mark.parametrize("n", [1, 2, 3, None])
def test_json_rows_come_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int | None
) -> None:
    """As many rows as asked for, the last batch short; a list after a null is still a list, however they are cut."""
    monkeypatch.setattr(tables, "_MOST_LINES", 4)
    rows = [
        {"a": None, "b": "x"},
        {"b": "y", "c": 1},
        {"a": [1, 2], "b": None},
        {"a": []},
        {"a": [3], "b": "z"},
    ]
    path = write_lines(tmp_path / "a", [json.dumps(row) for row in rows])
    batches = list(tables.json_rows(path, ["a", "b"], n=n, max_line=None))
    sizes = {1: [1] * 5, 2: [2, 2, 1], 3: [3, 2], None: [4, 1]}[n]
    assert [len(batch) for batch in batches] == sizes
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {"a": r.get("a"), "b": r.get("b")} for r in rows
    ]


def test_lines_that_shift_are_named_once() -> None:
    """By the first field that has a tab, a line feed, or is missing before another; in the order of lines."""
    columns = [
        Column.of(["a", "b\n", None, "d", "\t\n", None, ""]),
        Column.of(["a\t", None, "c", "d", "\n", None, "x"]),
        Column.of(["a\n", "b", None, None, "e", "f", None]),
    ]
    texts = {
        row: text.removeprefix("fields: field ") for row, text in shifting_lines(columns).items()
    }
    assert list(texts.items()) == [
        (0, "2 contains a tab"),
        (1, "1 contains a line feed"),
        (2, "1 is missing, field 2 is not"),
        (4, "1 contains a tab"),
        (5, "2 is missing, field 3 is not"),
    ]


@pytest.mark.parametrize(("size", "entries"), [(text_shard.SMALL - 1, 0), (text_shard.SMALL, 1)])
def test_small_files_are_not_cached(tmp_path: Path, size: int, entries: int) -> None:
    """A plain file below 2**20 bytes is indexed anew; from there on its index is stored."""
    (tmp_path / "a").write_bytes(b"x" * (size - 1) + b"\n")
    shard = open_shard(str(tmp_path / "a"), split_lines=1, cache=tmp_path / "c")
    assert (shard.facts.n_bytes, shard.files[0].data_path) == (size, str(tmp_path / "a"))
    assert len(list((tmp_path / "c").glob("*.json"))) == entries


def test_entries_of_the_cache_belong_to_one_way_to_cut(tmp_path: Path) -> None:
    """Another number of lines, another path or another time of change is another entry; the lines' limit is not."""
    path, cache = tmp_path / "a.gz", tmp_path / "c"
    path.write_bytes(gzip.compress(b"abc\nde\n"))
    for split, n in ((1, 1), (2, 2), (None, 3), (1, 3)):
        open_shard(str(path), split_lines=split, cache=cache)
        assert len(list(cache.glob("*.json"))) == n
    for most in (3, None):
        assert open_shard(str(path), split_lines=1, cache=cache, max_line=most).n_lines == 2
    with pytest.raises((StreamError, CorpusError), match="more than 2 bytes"):
        open_shard(str(path), split_lines=1, cache=cache, max_line=2)
    (tmp_path / "b.gz").write_bytes(path.read_bytes())
    open_shard(str(tmp_path / "b.gz"), split_lines=1, cache=cache)
    assert len(list(cache.glob("*.json"))) == 4
    used = index_cache.cache_size(cache)
    assert used == sum(one.stat().st_size for one in cache.iterdir())
    assert index_cache.prune(cache) == 0
    assert index_cache.cache_size(tmp_path / "nowhere") == 0


def test_segments_read_their_bytes(tmp_path: Path) -> None:
    """Each segment from where the last one ended, in place or from a copy; a record gives them back."""
    path = tmp_path / "a"
    path.write_bytes(b"ab\nc\n\nd\n")
    cut = [(b"ab\nc\n", 2), (b"\nd\n", 2)]
    for packing, copy in (("plain", None), ("frames", tmp_path / "copy")):
        found = segments.noted(str(path), packing, iter(cut), copy=copy)  # type: ignore[arg-type]
        assert [found.read(0), found.read(1)] == [cut[0][0], cut[1][0]]
        assert (found.counts, found.packing, found.data_path) == (
            (2, 2),
            packing,
            str(copy or path),
        )
        again = segments.Segments.of_record(
            json.loads(json.dumps(found.record())), str(path), tmp_path / "copy"
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
    with pytest.raises(StreamError, match="a: lines 3 to 4 have changed since indexing"):
        replace(segments.noted(str(path), "plain", cut), checks=(0, 0)).read(1)
    assert segments.crc32(b"123456789") == 0xCBF43926


def test_a_rest_of_lines_is_cut_across_blocks() -> None:
    """Lines are taken whatever the blocks; what is missing at the end is counted."""
    lines = text_shard.LineCutter(iter([b"a\nb\n", b"c\n", b"d\ne"]))
    missing = list[int]()

    def taken(n: int) -> list[bytes]:
        cut, result = lines.cut(n), list[bytes]()
        try:
            while True:
                result.append(next(cut))
        except StopIteration as end:
            missing.append(end.value)
            return result

    assert [taken(1), taken(0), taken(2), taken(4), taken(1)] == [
        [b"a\n"],
        [],
        [b"b\n", b"c\n"],
        [b"d\ne"],
        [],
    ]
    assert missing == [0, 0, 0, 2, 1]


def test_damaged_shards_name_their_remedy(tmp_path: Path) -> None:
    """Only where a damaged file has a shard's name and stands beside a manifest."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "manifest.json").write_text("{}")
    damaged, other = StreamError("x"), StreamError("y")
    damaged.__cause__ = CorpusError("z")
    for name, error, has_remedy in (
        ("00001.src.zst", damaged, True),
        ("123456.mono", damaged, True),
        ("00001.tgt.gz", damaged, True),
        ("00001.src.zst", other, False),
        ("0001.src.zst", damaged, False),
        ("00001.src.xz", damaged, False),
    ):
        remedy = f"; make the shards again: volt shard CONFIG -o {tmp_path}"
        assert remedy_of(str(tmp_path / "t" / name), error) == (remedy if has_remedy else "")
    assert remedy_of(str(tmp_path / "00001.src.zst"), damaged) == ""


def test_places_of_lines(tmp_path: Path) -> None:
    """The first and the last line of each file, whatever its segments; blocks of lines keep their numbers."""
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
        batch, first = source.read(one), int(source.line_starts[one.segment]) + one.first
        assert batch.origins.tolist() == list(range(first, first + one.n_lines))
        assert batch.lines == [f"a-{i}\tA {i}" for i in batch.origins]
    assert np.array_equal(source.shard_starts, [0, 2, 4])
