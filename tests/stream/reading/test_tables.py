"""JSON lines and Parquet files are shards whose named columns are read, and whose rows were looked at first."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from support.drawn import examples
from support.streams import write_lines

from volt.errors import ConfigError, StreamError
from volt.stream import Source
from volt.stream.reading import tables
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.open_source import open_source
from volt.stream.reading.shard import shifting_lines
from volt.stream.reading.tables import open_table
from volt.stream.transforms.column import Column

Row = dict[str, Any]


PACKERS = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}


FIELDS = {"source": "id", "de": "text.de", "ids": "ids"}


def write_json(path, rows, *, packer="plain", ascii=False):
    """Write rows as JSON lines."""
    text = "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows)
    path.write_bytes(PACKERS[packer](text.encode()))
    return str(path)


def write_parquet(path, rows, *, size):
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


def read_rows(shard):
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
def test_tables_hold_their_rows(tmp_path, rows, packer, ascii, segment):
    """JSON lines and Parquet give the values of each row and the same digest, for any segment size."""
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


def test_a_table_is_copied_once(tmp_path, monkeypatch):
    """The second opening reads the copy; other columns or a changed file make a new copy."""
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
def test_a_json_line_that_cannot_be_a_row_is_named(tmp_path, line, message):
    """The error names file, line and problem when the file is opened; nothing is cached."""
    path, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    path.write_bytes(GOOD * 5 + line + b"\n" + GOOD)
    with pytest.raises(StreamError, match=rf"a\.jsonl:6: {message}"):
        open_table(
            str(path), {"src": "a", "tgt": "b"}, split_lines=4, cache=cache, max_line=200_000
        )
    assert not [found for found in cache.iterdir() if found.suffix != ".lock"]


@pytest.mark.parametrize("value", ["x", [1, None], [1.5], [1 << 31], [True], 7])
def test_lists_of_ids_hold_whole_numbers(tmp_path, value):
    """Where the first row has a list of whole numbers, all have, of 32 bits."""
    path = write_json(tmp_path / "a.jsonl", [{"a": [1, 2]}, {"a": []}, {"a": value}])
    with pytest.raises(StreamError, match=r"a\.jsonl:3: not a JSON line \(.*\); fix it"):
        open_table(path, {"ids": "a"}, split_lines=None, cache=tmp_path / "cache")


def test_json_lines_may_have_marks_and_other_ends(tmp_path):
    """A byte order mark, "\\r\\n" and a last line without an end are no block of the rows; two objects are no line."""
    (tmp_path / "a").write_bytes(b'\xef\xbb\xbf{"a": "x"}\r\n{"a": "y"}')
    shard = open_shard(
        str(tmp_path / "a"), fields={"src": "a"}, split_lines=9, cache=tmp_path / "cache"
    )
    assert read_rows(shard) == [("x",), ("y",)]
    (tmp_path / "b").write_bytes(b'{"a": "x"} {"a": "y"}\n{"a": "z"}\n')
    with pytest.raises(StreamError, match="b:1: not a JSON line"):
        open_table(str(tmp_path / "b"), {"src": "a"}, split_lines=9, cache=tmp_path / "cache")


def test_parquet_files_are_reported_what_is_wrong(tmp_path):
    """Missing columns, wrong types and damaged Parquet files are refused with the reason."""
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


def test_columns_need_names(tmp_path):
    """No fields, or fields that are no mapping, are refused."""
    path = write_json(tmp_path / "a", [{"a": "x"}])
    for fields in ({}, ["a"]):
        with pytest.raises(ConfigError, match=r"fields is .*; give names and columns, such as"):
            open_table(path, fields, split_lines=1, cache=tmp_path / "cache")  # type: ignore[arg-type]


@given(st.lists(ids, max_size=5))
def test_ids_are_text_as_python_writes_them(values):
    """Also the least and the greatest number of 32 bits."""
    values = [*values, [-(1 << 31), (1 << 31) - 1, 0]]
    column = Column.from_arrow(pa.array(values, pa.list_(pa.int32())))
    assert column.strings() == [" ".join(map(str, value)) for value in values]


def test_rows_that_are_no_lines_are_reported(tmp_path):
    """A value with a tab or line feed, or a missing value before another, is reported when the row is read."""
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


def test_facts_of_tables(tmp_path):
    """Indexing measures rows as lines: bytes with tabs, the longest row, and the first row that is not one line."""
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


@pytest.mark.parametrize("n", [20, 21, 22])
def test_columns_that_there_are_are_listed(tmp_path, n):
    """The error for a missing column lists up to twenty columns, or the fields of a struct."""
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
def test_kinds_of_columns(values, is_taken):
    """All kinds of text, and lists of whole numbers, are accepted; other types are refused."""
    table = pa.table({"a": values})
    if is_taken:
        expected = [None, None] if values.type == pa.null() else [values[0].as_py(), None]
        assert tables.column_of(table, "a").to_pylist() == expected
    else:
        with pytest.raises(StreamError, match="column 'a' is of type"):
            tables.column_of(table, "a")


@pytest.mark.parametrize("n", [1, 2, 3, None])
def test_json_rows_come_in_batches(tmp_path, monkeypatch, n):
    """Rows come in batches of the requested size; a list after nulls is recognised in every batch."""
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


NAMED = {"src": "a", "tgt": "b"}


ROW = b'{"a": "x", "b": "y"}\n'


def opened(tmp_path, content, *, split=4, **fields):
    """The shard of JSON lines, or of a table of Parquet with three rows in a row group."""
    path = tmp_path / "t"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        parquet.write_table(content, path, row_group_size=3)
    return open_table(str(path), fields or NAMED, split_lines=split, cache=tmp_path / "cache")


@pytest.mark.parametrize("rows", [ROW * 9, b'{"a": null, "c": 1}\n' * 9])
def test_a_key_that_no_line_has_is_an_error(tmp_path, rows):
    """Else a misspelt key would take a field from all lines; the keys of the first line are named."""
    with pytest.raises(
        StreamError, match=r"t: no line has 'bb'; line 1 has 'a', '[bc]'; name another key"
    ):
        opened(tmp_path, rows, src="a", tgt="bb")


def test_a_key_of_nulls_or_of_one_line_is_there(tmp_path):
    """A key is there if a single line has it, though with null, or with null on the way to it."""
    for last in (b'{"t": {"b": null}}\n', b'{"t": null}\n', b'{"t": {"b": "z"}}\n'):
        shard = opened(tmp_path, ROW * 9 + last, src="a", tgt="t.b")
        assert (shard.n_lines, shard.read(0)[1].strings()) == (10, ["", "", "", ""])
    assert opened(tmp_path, b"", src="nothing").n_lines == 0


@pytest.mark.parametrize("split", [4, None])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a": "x", "a": "z", "b": "y"}\n', "Column.* was specified twice"),
        (b'{"a": 1, "a": "z", "b": "y"}\n', "changed from string to number"),
        (b'{"a": "x", "b": "y"} {"a": "x", "b": "y"}\n\n', "2 objects on 1 line"),
        (b'{"a": "x",\n"b": "y"}\n{"a": "x"}{"a": "x"}\n', "not (a )?JSON "),
        (b"\n", "not (a )?JSON "),
    ],
)
def test_lines_that_are_no_single_object_are_named(tmp_path, line, message, split):
    """Wherever they are, and though the file may have as many objects as lines."""
    with pytest.raises(StreamError, match=rf"t:7: .*{message}"):
        opened(tmp_path, ROW * 6 + line + ROW * 3, split=split)


def test_spaces_around_objects_are_allowed(tmp_path):
    """As JSON has it."""
    content = b'  {"a": "x", "b": "y"} \t\r\n{"a": "z", "b": "}"}'
    assert [column.strings() for column in opened(tmp_path, content).read(0)] == [
        ["x", "z"],
        ["y", "}"],
    ]


def test_a_key_that_leads_through_a_text_is_named_with_its_line(tmp_path):
    """A dot leads into an object, in each line."""
    lines = b'{"a": {"q": "x"}}\n' * 6 + b'{"a": "flat"}\n'
    with pytest.raises(StreamError, match=r"t:7: not a JSON line \(.*\); fix it"):
        opened(tmp_path, lines, src="a.q")


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (pa.array([b"x"]).view(pa.string()), pa.array([b"\xff"]).view(pa.string()), "UTF8"),
        (pa.array([[1, 2]]), pa.array([[1, 1 << 40]]), "not in range"),
        (pa.array([[1, 2]]), pa.array([[None]], pa.list_(pa.int64())), "contains a null in a list"),
    ],
)
def test_a_row_of_parquet_that_is_unfit_is_named(tmp_path, good, bad, message, place):
    """In any row group, the first one counts."""
    values = pa.concat_arrays([good] * place + [bad] + [good] * (7 - place) + [bad])
    with pytest.raises(StreamError, match=rf"t:{place + 1}: column 'a': .*{message}"):
        opened(tmp_path, pa.table({"a": values}), src="a")


def test_a_column_that_comes_twice_is_refused(tmp_path):
    """Which of the two would be read cannot be reported."""
    table = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["a", "a"])
    with pytest.raises(StreamError, match=r"t: column 'a' occurs 2 times"):
        opened(tmp_path, table, src="a")
