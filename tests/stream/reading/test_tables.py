"""JSON lines and Parquet files are shards whose named columns are read, and whose rows were looked at first."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from volt.errors import ConfigError, StreamError
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.shard import Shard, shifting_lines
from volt.stream.reading.tables import open_table
from volt.stream.transforms.column import Column

Row = dict[str, Any]
PACKERS = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}
FIELDS = {"source": "id", "de": "text.de", "ids": "ids"}


def write_json(
    path: Path, rows: Sequence[Row], *, packer: str = "plain", ascii: bool = False
) -> str:
    """Write rows as JSON lines."""
    text = "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows)
    path.write_bytes(PACKERS[packer](text.encode()))
    return str(path)


def write_parquet(path: Path, rows: Sequence[Row], *, size: int) -> str:
    """Write rows as Parquet, so many in a row group."""
    kinds = [
        ("id", pa.string()),
        ("text", pa.struct([("de", pa.string())])),
        ("ids", pa.list_(pa.int64())),
    ]
    parquet.write_table(
        pa.Table.from_pylist(list(rows), schema=pa.schema(kinds)), path, row_group_size=size
    )
    return str(path)


def read_rows(shard: Shard) -> list[tuple[str | list[int] | None, ...]]:
    """The rows of all segments, with None for what is missing."""
    columns = [
        [column.to_arrow().to_pylist() for column in shard.read(segment)]
        for segment in range(len(shard.counts))
    ]
    return [row for segment in columns for row in zip(*segment, strict=True)]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\t\n"), max_size=5)
ids = st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=3)
rows_of_texts = st.builds(
    lambda a, b, c: {"id": a, "text": {"de": b}, "ids": c}, texts, texts, ids | st.none()
)


@settings(
    deadline=None,
    max_examples=examples(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(rows_of_texts, max_size=9),
    st.sampled_from(list(PACKERS)),
    st.booleans(),
    st.integers(1, 5),
)
def test_tables_hold_their_rows(
    tmp_path: Path, rows: list[Row], packer: str, ascii: bool, segment: int
) -> None:
    """JSON lines and Parquet give the values of each row, cut and packed like they may be, and have the same digest."""
    named = write_json(tmp_path / "a", rows, packer=packer, ascii=ascii)
    stored = write_parquet(tmp_path / "b", rows, size=4)
    shards = [
        open_table(path, FIELDS, split_lines=n, cache=tmp_path / "cache")
        for path in (named, stored)
        for n in (segment, None)
    ]
    for shard in shards:
        assert read_rows(shard) == [(row["id"], row["text"]["de"], row["ids"]) for row in rows]
        assert (shard.names, shard.n_lines) == (tuple(FIELDS), len(rows))
    assert (
        len({(shard.facts.digest, shard.facts.n_bytes, shard.facts.longest) for shard in shards})
        == 1
    )
    assert set(shards[0].counts[:-1]) <= {segment}
    assert shards[3].counts == tuple(min(4, len(rows) - start) for start in range(0, len(rows), 4))


def test_a_table_is_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second opening reads the copy, under whatever names; other columns, or a changed file, are copied anew."""
    path, cache = write_json(tmp_path / "a", [{"a": "x", "b": "y"}] * 9), tmp_path / "cache"
    first = open_table(path, {"src": "a", "tgt": "b"}, split_lines=4, cache=cache)
    monkeypatch.setattr("volt.stream.reading.tables.json_rows", None)
    assert open_table(path, {"src": "a", "tgt": "b"}, split_lines=4, cache=cache) == first
    assert open_table(path, {"s": "a", "t": "b"}, split_lines=4, cache=cache).names == ("s", "t")
    monkeypatch.undo()
    assert read_rows(open_table(path, {"tgt": "b"}, split_lines=4, cache=cache)) == [("y",)] * 9
    write_json(tmp_path / "a", [{"a": "x", "b": "z"}] * 8)
    assert open_table(path, {"src": "a", "tgt": "b"}, split_lines=4, cache=cache).n_lines == 8


GOOD = b'{"a": "x", "b": "y"}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"a": 5, "b": "y"}',
            r"not a JSON line \(.*Column\(/a\) changed from string to number.*\); fix it",
        ),
        (b'{"a": [5], "b": "y"}', r"not a JSON line \(.*Column\(/a\) changed from string to array"),
        (b'{"a": {"c": "x"}, "b": "y"}', "not a JSON line"),
        (b'{"a": "\\ud800", "b": "y"}', "not a JSON line"),
        (b'{"a": "\xff", "b": "y"}', "not a JSON line"),
        (b'{"a": "x", "b": "y"', r"not a JSON line \(.*\); fix it"),
        (b"x\ty", r"not a JSON line \(.*\); fix it"),
        (b"", r"not a JSON line \(.*\); fix it"),
        (b"[" * 100_000, r"not a JSON line \(.*\); fix it"),
        (b'["x", "y"]', r"not a JSON line \(.*\); fix it"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', "the line has more than 200,000 bytes"),
    ],
)
def test_a_json_line_that_cannot_be_a_row_is_named(
    tmp_path: Path, line: bytes, message: str
) -> None:
    """Its file, its number and what is wrong with it, when the file is opened; nothing is kept."""
    path, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    path.write_bytes(GOOD * 5 + line + b"\n" + GOOD)
    with pytest.raises(StreamError, match=rf"a\.jsonl:6: {message}"):
        open_table(
            str(path), {"src": "a", "tgt": "b"}, split_lines=4, cache=cache, max_line=200_000
        )
    assert not [found for found in cache.iterdir() if found.suffix != ".lock"]


@pytest.mark.parametrize("value", ["x", [1, None], [1.5], [1 << 31], [True], 7])
def test_lists_of_ids_hold_whole_numbers(tmp_path: Path, value: object) -> None:
    """Where the first row has a list of whole numbers, all have, of 32 bits."""
    path = write_json(tmp_path / "a.jsonl", [{"a": [1, 2]}, {"a": []}, {"a": value}])
    with pytest.raises(StreamError, match=r"a\.jsonl:3: not a JSON line \(.*\); fix it"):
        open_table(path, {"ids": "a"}, split_lines=None, cache=tmp_path / "cache")


def test_json_lines_may_have_marks_and_other_ends(tmp_path: Path) -> None:
    """A byte order mark, "\\r\\n" and a last line without an end are no block of the rows; two objects are no line."""
    (tmp_path / "a").write_bytes(b'\xef\xbb\xbf{"a": "x"}\r\n{"a": "y"}')
    shard = open_shard(
        str(tmp_path / "a"), fields={"src": "a"}, split_lines=9, cache=tmp_path / "cache"
    )
    assert read_rows(shard) == [("x",), ("y",)]
    (tmp_path / "b").write_bytes(b'{"a": "x"} {"a": "y"}\n{"a": "z"}\n')
    with pytest.raises(StreamError, match="b:1: not a JSON line"):
        open_table(str(tmp_path / "b"), {"src": "a"}, split_lines=9, cache=tmp_path / "cache")


def test_parquet_files_are_reported_what_is_wrong(tmp_path: Path) -> None:
    """Columns that are not there or of another type, rows with tabs, cut and garbled files; one without fields."""
    path, cache = str(tmp_path / "a.parquet"), tmp_path / "cache"
    rows = {
        "a": ["x", "y", "z\tz"],
        "n": [1, 2, 3],
        "t": [{"de": "x"}] * 3,
        "l": [[1], [1 << 40], [None]],
    }
    parquet.write_table(pa.table(rows), path, row_group_size=2)
    for column, message in {
        "c": r"a\.parquet: no column 'c'; there are 'a', 'n', 't', 'l'; name other columns",
        "t.en": r"a\.parquet: no column 't\.en': 't' contains no 'en'; there are 'de'; name other columns",
        "n": r"a\.parquet: column 'n' is of type int64; name columns of text, or of lists of whole numbers",
        "l": r"a\.parquet:2: column 'l': Integer value 1099511627776 not in range",
    }.items():
        with pytest.raises(StreamError, match=message):
            open_table(path, {"src": column}, split_lines=9, cache=cache)
    with pytest.raises(
        StreamError,
        match=r"a\.parquet: is a Parquet file; name its columns, as in columns: \{src: NAME\}",
    ):
        open_shard(path, split_lines=9, cache=cache)
    data = Path(path).read_bytes()
    for damaged in (data[:-10], data[:4], data[:4] + bytes(400) + data[404:]):
        Path(path).write_bytes(damaged)
        with pytest.raises(StreamError, match=r"a\.parquet: cannot be read as Parquet \("):
            open_table(path, {"src": "t.de"}, split_lines=9, cache=cache)


def test_columns_need_names(tmp_path: Path) -> None:
    """No fields, or fields that are no mapping, are refused."""
    path = write_json(tmp_path / "a", [{"a": "x"}])
    for fields in ({}, ["a"]):
        with pytest.raises(ConfigError, match=r"fields is .*; give names and columns, such as"):
            open_table(path, fields, split_lines=1, cache=tmp_path / "cache")  # type: ignore[arg-type]


@given(st.lists(ids, max_size=5))
def test_ids_are_text_as_python_writes_them(values: list[list[int]]) -> None:
    """Also the least and the greatest number of 32 bits."""
    values = [*values, [-(1 << 31), (1 << 31) - 1, 0]]
    column = Column.from_arrow(pa.array(values, pa.list_(pa.int32())))
    assert column.strings() == [" ".join(map(str, value)) for value in values]


def test_rows_that_are_no_lines_are_reported(tmp_path: Path) -> None:
    """A tab, a line feed, or a value that is missing before another, is found when the row is read, by its index; a
    shard knows whether it has any, and rows that end early are lines."""
    rows = [
        {"a": "x", "b": "y"},
        {"a": "x\ty", "b": "z"},
        {"a": "x", "b": "y\n"},
        {"b": "y"},
        {"a": None, "b": "y"},
        {},
    ]
    path, fields = write_json(tmp_path / "a", [*rows, {"a": "x"}]), {"src": "a", "tgt": "b"}
    shard = open_table(path, fields, split_lines=2, cache=tmp_path / "cache")
    assert [shifting_lines(shard.read(segment)) for segment in range(4)] == [
        {1: "fields: field 1 contains a tab"},
        {
            0: "fields: field 2 contains a line feed",
            1: "fields: field 1 is missing, field 2 is not",
        },
        {0: "fields: field 1 is missing, field 2 is not"},
        {},
    ]
    assert (shard.is_clean, shard.facts.first_tab) == (False, 2)
    path = write_json(tmp_path / "b", [rows[0], {}, {"a": "x"}])
    assert open_table(path, fields, split_lines=2, cache=tmp_path / "cache").is_clean
