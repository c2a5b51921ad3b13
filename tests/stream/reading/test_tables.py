"""`open_table`: JSON lines and Parquet files become shards of their named columns, and invalid rows
are refused."""

import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from support.drawn import examples

from volt.errors import ConfigError, CorpusError, StreamError
from volt.files.blocks import Block
from volt.files.column_paths import Rows, list_names, values_of
from volt.stream import Source
from volt.stream.reading import tables
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.open_source import open_source
from volt.stream.reading.shard import shifting_lines
from volt.stream.reading.tables import open_table
from volt.stream.transforms.column import Column

PACKERS = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}


FIELDS = {"source": "id", "de": "text.de", "ids": "ids"}


def write_json(path, rows, *, packer="plain", ascii=False):
    """Write rows as JSON lines."""
    text = "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows)
    path.write_bytes(PACKERS[packer](text.encode()))
    return str(path)


def write_parquet(path, rows, *, size):
    """Write rows as Parquet, `size` rows in each row group."""
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
    """Return the rows of all segments, with None for missing values."""
    rows = []
    for segment in range(len(shard.counts)):
        columns = [column.to_arrow().to_pylist() for column in shard.read(segment)]
        rows += zip(*columns, strict=True)
    return rows


def open_content(tmp_path, content, *, split=4, max_line=None, **fields):
    """Open JSON lines (bytes), or a table as Parquet with three rows in each row group."""
    path = tmp_path / "t"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        parquet.write_table(content, path, row_group_size=3)
    fields = fields or {"src": "a", "tgt": "b"}
    cache = tmp_path / "cache"
    return open_table(str(path), fields, split_lines=split, cache=cache, max_line=max_line)


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
def test_tables_have_their_rows(tmp_path, rows, packer, ascii, segment):
    """open_table reads the values of each row from JSON lines and from Parquet, with equal facts,
    for any segment
    size and compression."""
    json_path = write_json(tmp_path / "a", rows, packer=packer, ascii=ascii)
    parquet_path = write_parquet(tmp_path / "b", rows, size=4)
    shards = [
        open_table(path, FIELDS, split_lines=n, cache=tmp_path / "cache")
        for path in (json_path, parquet_path)
        for n in (segment, None)
    ]
    for shard in shards:
        assert read_rows(shard) == [(row["id"], row["text"]["de"], row["ids"]) for row in rows]
        assert (shard.names, shard.n_lines) == (tuple(FIELDS), len(rows))
        assert shard.facts == shards[0].facts
    assert set(shards[0].counts[:-1]) <= {segment}
    assert shards[3].counts == tuple(min(4, len(rows) - start) for start in range(0, len(rows), 4))


def test_a_table_is_converted_once(tmp_path, monkeypatch):
    """open_table uses the cached copy of a file; for other columns, or a changed file, it makes a
    new copy."""
    path = write_json(tmp_path / "a", [{"a": "x", "b": "y"}] * 9)
    cache = tmp_path / "cache"
    first = open_table(path, {"src": "a", "tgt": "b"}, split_lines=4, cache=cache)
    monkeypatch.setattr("volt.stream.reading.tables.read_objects", None)
    assert open_table(path, {"src": "a", "tgt": "b"}, split_lines=4, cache=cache) == first
    assert open_table(path, {"s": "a", "t": "b"}, split_lines=4, cache=cache).names == ("s", "t")
    monkeypatch.undo()
    assert read_rows(open_table(path, {"tgt": "b"}, split_lines=4, cache=cache)) == [("y",)] * 9
    write_json(tmp_path / "a", [{"a": "x", "b": "z"}] * 8)
    assert open_table(path, {"src": "a", "tgt": "b"}, split_lines=4, cache=cache).n_lines == 8


ROW = b'{"a": "x", "b": "y"}\n'
INVALID = r"invalid JSON \(.*\); repair the line"


@pytest.mark.parametrize("split", [4, None])
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b'{"a": 5, "b": "y"}', "column 'a' is 5, not a string; repair the line"),
        (b'{"a": [5], "b": "y"}', r"column 'a' is \[5\], not a string"),
        (b'{"a": {"c": "x"}, "b": "y"}', "column 'a' is {.*}, not a string"),
        (b'{"a": "\\ud800", "b": "y"}', "column 'a' contains a lone surrogate"),
        (b'{"a": "\xff", "b": "y"}', INVALID),
        (b'{"a": "x", "b": "y"', INVALID),
        (b"x\ty", INVALID),
        (b"", INVALID),
        (b"[" * 100_000, INVALID),
        (b'["x", "y"]', r"not a JSON object but \["),
        (b'5 {"a": "x", "b": "y"}', INVALID),
        (b'{"a": "' + b"x" * 300_000 + b'"}', "the line has more than 200,000 bytes"),
        (b'{"a": "x", "b": "y"} {"a": "x", "b": "y"}\n', INVALID),
        (b'{"a": "x",\n"b": "y"}\n{"a": "x"}{"a": "x"}', INVALID),
    ],
)
def test_invalid_json_lines_are_reported(tmp_path, lines, message, split):
    """open_table reports the file, line and problem of a line that is not one JSON object with the
    right types, even
    if the file has as many objects as lines; it caches nothing."""
    content = ROW * 5 + lines + b"\n" + ROW * 3
    with pytest.raises(StreamError, match=rf"t:6: {message}"):
        open_content(tmp_path, content, split=split, max_line=200_000)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]


@pytest.mark.parametrize("value", ["x", [1, None], [1.5], [1 << 31], [True], 7])
def test_ids_are_lists_of_32_bit_numbers(tmp_path, value):
    """If the first value of a key is a list, open_table refuses any value that is not a list of
    int32."""
    path = write_json(tmp_path / "a.jsonl", [{"a": [1, 2]}, {"a": []}, {"a": value}])
    with pytest.raises(
        StreamError, match=r"a\.jsonl:3: column 'a'(: contains a null| is .*, not a (list|32-bit))"
    ):
        open_table(path, {"ids": "a"}, split_lines=None, cache=tmp_path / "cache")


def test_spaces_marks_and_line_ends_around_objects_are_allowed(tmp_path):
    """open_table reads JSON lines with a byte order mark, spaces, "\\r\\n", and a last line without
    an end."""
    content = b'\xef\xbb\xbf  {"a": "x", "b": "y"} \t\r\n{"a": "z", "b": "}"}'
    assert read_rows(open_content(tmp_path, content)) == [("x", "y"), ("z", "}")]


def test_columns_of_parquet_that_cannot_be_read_are_reported(tmp_path):
    """open_table names a missing column, a missing field of a struct, a wrong type, and the row of
    a wrong value."""
    rows = {"a": ["x", "y"], "n": [1, 2], "t": [{"de": "x"}] * 2, "l": [[1], [1 << 40]]}
    table = pa.table(rows)
    for column, message in {
        "c": r"t: no column 'c'; there are 'a', 'n', 't', 'l'; name another column",
        "t.en": r"t: no column 't\.en': 't' contains no 'en'; there are 'de'; name another column",
        "a.x": r"t: no column 'a\.x': 'a' contains no 'x'; name another",
        "n": r"t: column 'n' is of type int64; name columns of text, or of lists of whole numbers",
        "t": r"t: column 't' is of type struct",
        "l": r"t:2: column 'l': Integer value 1099511627776 not in range",
    }.items():
        with pytest.raises(StreamError, match=message):
            open_content(tmp_path, table, src=column)
    twice = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["a", "a"])
    with pytest.raises(StreamError, match=r"t: column 'a' occurs 2 times"):
        open_content(tmp_path, twice, src="a")


def test_damaged_parquet_files_and_files_without_columns_are_refused(tmp_path):
    """open_table refuses a damaged Parquet file; open_shard without fields asks for the columns of
    a Parquet file."""
    shard = open_content(tmp_path, pa.table({"a": ["x"], "b": ["y"]}))
    [path] = shard.paths
    with pytest.raises(StreamError, match=r"name its columns, as in columns: \{src: NAME\}"):
        open_shard(path, split_lines=9, cache=tmp_path / "cache")
    data = Path(path).read_bytes()
    for damaged in (data[:-10], data[:4], data[:4] + bytes(400) + data[404:]):
        Path(path).write_bytes(damaged)
        with pytest.raises(StreamError, match=r"t: cannot be read as Parquet \("):
            open_table(path, {"src": "a"}, split_lines=9, cache=tmp_path / "cache")


@pytest.mark.parametrize("index", range(8))
@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (pa.array([b"x"]).view(pa.string()), pa.array([b"\xff"]).view(pa.string()), "UTF8"),
        (pa.array([[1, 2]]), pa.array([[1, 1 << 40]]), "not in range"),
        (pa.array([[1, 2]]), pa.array([[None]], pa.list_(pa.int64())), "contains a null in a list"),
    ],
)
def test_the_first_invalid_row_of_parquet_is_reported(tmp_path, good, bad, message, index):
    """open_table names the first row with an invalid value, in whichever row group it is."""
    values = pa.concat_arrays([good] * index + [bad] + [good] * (7 - index) + [bad])
    with pytest.raises(StreamError, match=rf"t:{index + 1}: column 'a': .*{message}"):
        open_content(tmp_path, pa.table({"a": values}), src="a")


@pytest.mark.parametrize("n", [20, 21, 22])
def test_errors_list_twenty_columns(n):
    """list_names returns up to twenty names, and the number of further names."""
    names = [f"c{i}" for i in range(n)]
    more = f" and {n - 20} more" if n > 20 else ""
    assert list_names(names) == ", ".join(f"'{name}'" for name in names[:20]) + more


@pytest.mark.parametrize("fields", [{}, ["a"]])
def test_fields_are_a_mapping_of_names(tmp_path, fields):
    """open_table refuses fields that are empty or not a mapping."""
    with pytest.raises(ConfigError, match=r"fields is .*; give names and columns, such as"):
        open_table(write_json(tmp_path / "a", [{}]), fields, split_lines=1)


@given(st.lists(ids, max_size=5))
def test_columns_of_ids_are_written_as_python_writes_numbers(values):
    """Column.strings of ids equals the numbers joined by spaces, up to the limits of int32."""
    values = [*values, [-(1 << 31), (1 << 31) - 1, 0]]
    column = Column.from_arrow(pa.array(values, pa.list_(pa.int32())))
    assert column.strings() == [" ".join(map(str, value)) for value in values]


def test_rows_whose_fields_shift_are_found(tmp_path):
    """shifting_lines finds values of a table with a tab or line feed, and missing values before
    another value."""
    rows = [
        {"a": "x", "b": "y"},
        {"a": "x\ty", "b": "z"},
        {"a": "x", "b": "y\n"},
        {"b": "y"},
        {"a": None, "b": "y"},
        {},
        {"a": "x"},
    ]
    path = write_json(tmp_path / "a", rows)
    shard = open_table(path, {"src": "a", "tgt": "b"}, split_lines=2, cache=tmp_path / "cache")
    missing = "fields: field 1 is missing, field 2 is not"
    assert [shifting_lines(shard.read(segment)) for segment in range(4)] == [
        {1: "fields: field 1 contains a tab"},
        {0: "fields: field 2 contains a line feed", 1: missing},
        {0: missing},
        {},
    ]
    assert (shard.is_clean, shard.facts.first_tab) == (False, 2)


def test_facts_of_tables_measure_rows_as_lines(tmp_path):
    """The facts of a table count bytes with tabs and line ends, the longest row, and the first row
    that shifts; a row
    longer than max_line is refused; a source is clean if all its shards are."""
    rows = [
        {"a": "x", "b": "yy"},
        {"a": None},
        {"a": "é", "b": None},
        {"a": "a\tb", "b": ""},
        {"a": "long", "b": "line"},
    ]
    write_json(tmp_path / "a", rows)
    write_json(tmp_path / "clean", rows[:1])
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "b")
    fields = {"x": "a", "y": "b"}
    for name in "ab":
        path = str(tmp_path / name)
        shard = open_shard(path, fields=fields, split_lines=2, cache=tmp_path, max_line=100)
        facts = shard.facts
        assert (shard.counts, facts.n_bytes, facts.longest) == ((2, 2, 1), 26, 9)
        assert (facts.first_tab, facts.is_utf8) == (4, False)
    assert open_shard(path, fields=fields, split_lines=2, cache=tmp_path, max_line=9).n_lines == 5
    with pytest.raises(StreamError, match=r"b:5: the line has more than 8 bytes"):
        open_shard(path, fields=fields, split_lines=2, cache=tmp_path, max_line=8)
    for names, is_clean in ((["clean"], True), (["a", "clean"], False)):
        paths = tuple(str(tmp_path / name) for name in names)
        declared = Source("s", paths, names=("x", "y"), keys=("a", "b"))
        assert open_source(declared, seed=1, cache=tmp_path).is_clean == is_clean


@pytest.mark.parametrize(
    ("values", "is_accepted"),
    [
        (pa.array(["x", None]), True),
        (pa.array(["x", None], pa.large_string()), True),
        (pa.array([None, None]), True),
        (pa.array(["x", None], pa.string_view()), True),
        (pa.array(["x", None]).dictionary_encode(), True),
        (pa.array([[1], None]), True),
        (pa.array([[1], None], pa.large_list(pa.int8())), True),
        (pa.array([[1], None], pa.list_(pa.int16(), 1)), True),
        (pa.array([1, 2]), False),
        (pa.array([["x"], None]), False),
        (pa.array([[1.0], None]), False),
        (pa.array([b"x", None]), False),
        (pa.array([1, 1]).dictionary_encode(), False),
    ],
)
def test_columns_are_text_or_lists_of_whole_numbers(values, is_accepted):
    """values_of accepts all types of text and of lists of whole numbers, and refuses other
    types."""
    rows = Rows("arrow", Block("t", 1, 2, b"", 0), np.arange(2), pa.table({"a": values}))
    if is_accepted:
        assert values_of(rows, "a", takes_ids=True).array.to_pylist() == [values[0].as_py(), None]
    else:
        with pytest.raises(CorpusError, match="t: column 'a' is of type"):
            values_of(rows, "a", takes_ids=True)


@pytest.mark.parametrize(
    ("n", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (3, [3, 2]), (None, [4, 1])]
)
def test_json_rows_come_in_batches(tmp_path, monkeypatch, n, sizes):
    """_read_batches yields batches of n rows, and recognises a list after nulls in every batch."""
    monkeypatch.setattr(tables, "_MOST_LINES", 4)
    rows = [
        {"a": None, "b": "x"},
        {"b": "y", "c": 1},
        {"a": [1, 2], "b": None},
        {"a": []},
        {"a": [3], "b": "z"},
    ]
    path = write_json(tmp_path / "a", rows)
    batches = list(tables._read_batches(path, ["a", "b"], n=n, max_line=None))
    assert [len(batch) for batch in batches] == sizes
    expected = [{"a": row.get("a"), "b": row.get("b")} for row in rows]
    assert [row for batch in batches for row in batch.to_pylist()] == expected


@pytest.mark.parametrize("rows", [ROW * 9, b'{"a": null, "c": 1}\n' * 9])
def test_a_key_that_no_line_has_is_refused(tmp_path, rows):
    """open_table refuses a key that no line has, and names the keys of the first line."""
    message = r"t: no line has 'bb'; the first has 'a', '[bc]'; name another column"
    with pytest.raises(StreamError, match=message):
        open_content(tmp_path, rows, src="a", tgt="bb")


def test_a_key_that_one_line_has_is_accepted(tmp_path):
    """open_table accepts a key if one line has it, with null, or with null for an outer key; an
    empty file has no keys.
    A key through a text is refused."""
    for last in (b'{"t": {"b": null}}\n', b'{"t": null}\n', b'{"t": {"b": "z"}}\n'):
        shard = open_content(tmp_path, ROW * 9 + last, src="a", tgt="t.b")
        assert (shard.n_lines, shard.read(0)[1].strings()) == (10, ["", "", "", ""])
    assert open_content(tmp_path, b"", src="nothing").n_lines == 0
    lines = b'{"a": {"q": "x"}}\n' * 6 + b'{"a": "flat"}\n'
    with pytest.raises(StreamError, match=r"t:7: column 'a' is .*, not an object; repair"):
        open_content(tmp_path, lines, src="a.q")


def test_columns_within_each_other_are_refused(tmp_path):
    """open_table refuses a key of text whose other fields are named, too."""
    with pytest.raises(StreamError, match=r"a column contains another .*; name one of them"):
        open_content(tmp_path, ROW * 9, src="a", tgt="a.b")
