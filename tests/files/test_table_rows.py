"""Laws of reading tables: every format and kind of column gives the texts that it contains, and
damage is named by file and row."""

import gzip
import io
import itertools
import json
import os
import time
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from support.counting import pairs
from support.drawn import examples
from support.tables import CASES, COLUMNS, HAS_LISTS, rows_of, write_table
from support.web_servers import web_server

from volt.count.corpus import count_words
from volt.errors import ConfigError, CorpusError, VoltError
from volt.files.blocks import is_ready
from volt.files.ranges import FileRange, divide_file
from volt.files.table_rows import TextColumns, column_numbers, read_texts, refuse_table
from volt.text.pretokenizer import PreTokenizer

# without "\r", which Python's and Arrow's readers of CSV treat differently at the end of a field
text = st.text(
    st.sampled_from('ab é,"\n\t{}\0') | st.characters(codec="utf-8", exclude_characters="\r"),
    max_size=6,
)


def read(path, columns, **options):
    """Return the texts of each row, and the numbers of the rows."""
    rows = []
    numbers = []
    for part in read_texts(str(path), columns, **options):
        own = [[] for _ in part.lines]
        for row, value in zip(part.rows.tolist(), part.texts.to_pylist(), strict=True):
            own[row].append(value)
        rows += own
        numbers += [int(part.place_of_row(row).rpartition(":")[2]) for row in range(len(own))]
    return rows, numbers


@pytest.mark.parametrize(("ending", "column"), CASES)
@given(data=st.data())
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_table_has_the_texts_that_were_written(tmp_path, ending, column, data):
    """`read_texts` returns the texts of each row, whatever the format, the kind of column and the
    size of blocks; `count_words` counts the words of each text."""
    has_lists = column in HAS_LISTS
    values = st.lists(text, max_size=3) if has_lists else text
    texts = data.draw(st.lists(values, max_size=8))
    if not texts and not ending.startswith("jsonl"):
        return  # a table without rows has no type of its column
    path = write_table(tmp_path / f"t.{ending}", rows_of(texts, column), column)
    columns = TextColumns(COLUMNS[column])
    if has_lists and not any(texts) and not ending.startswith("jsonl"):
        return
    block_size = data.draw(st.sampled_from([1, 50, 1 << 20]))
    expected = texts if has_lists else [[value] for value in texts]
    first = 2 if ending in ("csv", "tsv", "txt") else 1
    numbers = list(range(first, first + len(texts)))
    assert read(path, columns, block_size=block_size) == (expected, numbers)

    for pretokenizer in ("whitespace", "unicode"):
        split = PreTokenizer(pretokenizer).split
        words = Counter(word for row in expected for value in row for word in split(value))
        if words:
            options = {"pretokenizer": pretokenizer, "block_size": block_size}
            counts = count_words(path, column=COLUMNS[column], **options)
            assert pairs(counts) == words
            assert counts.n_lines == len(texts)


@given(
    rows=st.lists(st.lists(st.text("aé ,\"'", max_size=4), min_size=3, max_size=4), max_size=6),
    fields=st.permutations([1, 2, 3]).map(lambda numbers: numbers[:2]),
    ends=st.sampled_from(["\n", "\r\n"]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fields_of_lines_are_texts(tmp_path, rows, fields, ends):
    """With numbers, the fields between tabs are texts, in the requested order, and quotes are part
    of them."""
    path = tmp_path / "t.tsv"
    path.write_bytes("".join("\t".join(row) + ends for row in rows).encode())
    expected = [[row[number - 1] for number in fields] for row in rows]
    for block_size in (1, 99):
        columns = TextColumns(fields=tuple(fields))
        assert read(path, columns, block_size=block_size)[0] == expected


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_ranges_of_a_table_have_its_rows_once(tmp_path, ending, size):
    """The ranges of a file together have each row once; of CSV, the first range has all rows."""
    texts = [f"text {number}" for number in range(9)]
    path = write_table(tmp_path / f"t.{ending}", rows_of(texts, "flat"), "flat")
    parts = [
        *itertools.chain(
            *(read_texts(part, TextColumns("text")) for part in divide_file(path, size=size))
        )
    ]
    assert [value for part in parts for value in part.texts.to_pylist()] == texts
    assert isinstance(divide_file(path, size=size)[0], FileRange)


def test_blank_lines_and_dropped_lines_keep_the_numbers_of_rows(tmp_path):
    """Numbers of rows count blank lines, and lines that are not UTF-8 and were dropped."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'\n{"a": "x"}\n \n{"a": "\xff"}\r\n{"a": "y"}')
    assert read(path, TextColumns("a"), errors="skip") == ([["x"], ["y"]], [2, 5])
    assert read(path, TextColumns("a"), errors="replace") == ([["x"], ["�"], ["y"]], [2, 4, 5])
    with pytest.raises(CorpusError, match=r"t\.jsonl:4: invalid UTF-8 byte 0xff at column 8"):
        read(path, TextColumns("a"))


def test_lines_that_arrow_refuses_are_read(tmp_path):
    """A key that occurs twice has its last value, and other values may contain lone surrogates."""
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": "x", "a": "y"}\n{"b": "\\ud800", "a": "z"}\n{"a": "1", "c": NaN}\n')
    assert read(path, TextColumns("a"))[0] == [["y"], ["z"], ["1"]]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("column", ["flat", "struct", "messages"])
def test_nulls_follow_the_policy(tmp_path, ending, column):
    """A null, as the text or as one of its outer values, stops, or is an empty text, or is
    omitted; its row stays."""
    texts = [["a"], [None], ["b"]] if column == "messages" else ["a", None, "b"]
    path = write_table(tmp_path / f"t.{ending}", rows_of(texts, column), column)
    columns = TextColumns(COLUMNS[column])
    with pytest.raises(CorpusError, match=rf"t\.{ending}:2: column '.*' is null.*errors='skip'"):
        read(path, columns)
    assert read(path, columns, errors="skip")[0] == [["a"], [], ["b"]]
    assert read(path, columns, errors="replace")[0] == [["a"], [""], ["b"]]
    assert sum(part.n_bad for part in read_texts(path, columns, errors="skip")) == 1


def test_a_null_list_has_no_texts(tmp_path):
    """A null instead of a list stops, or is a row without texts."""
    for ending in ("jsonl", "parquet"):
        rows = [{"a": ["x"]}, {"a": None}, {"a": []}]
        path = write_table(tmp_path / f"t.{ending}", rows, "list")
        with pytest.raises(CorpusError, match=r":2: column 'a\[\]' is null"):
            read(path, TextColumns("a[]"))
        for errors in ("skip", "replace"):
            assert read(path, TextColumns("a[]"), errors=errors)[0] == [["x"], [], []]


PROBLEMS = {
    "id": "column 'id' is of type int64; name a column of text",
    "tags": r"column 'tags' is of type list<.*>; for its elements, write tags\[\]",
    "none": "no column 'none'; there are 'id', 'tags', 'chat'; name another column",
    "id[]": "'id' is of type int64, not a list",
    "chat.none": "no column 'chat.none': 'chat' contains no 'none'; there are 'm'; name another",
    "chat.m.content": r"no column 'chat.m.content': 'm' contains no 'content'; write \[\] after a list",
}


@pytest.mark.parametrize("column", PROBLEMS)
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columns_that_are_not_text_are_refused(tmp_path, ending, column):
    """A missing column or another type raises CorpusError with the file, the type, and what to
    do."""
    rows = [{"id": 1, "tags": ["a"], "chat": {"m": [{"content": "b"}]}}]
    path = write_table(tmp_path / f"t.{ending}", rows, "list")
    with pytest.raises(CorpusError, match=rf"t\.{ending}: {PROBLEMS[column]}"):
        read(path, TextColumns(column))


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ('{"a": 5}', "a", "column 'a' is 5, not a string"),
        ('{"a": {"b": [1]}}', "a.b", r"column 'b' is \[1\], not a string"),
        ('{"a": "x"}', "a.b", "column 'a' is \"x\", not an object"),
        ('{"a": "x"}', "a[]", "column 'a' is \"x\", not a list"),
        ('{"a": [{"b": 1}]}', "a[].b", "column 'b' is 1, not a string"),
        ('{"b": "x"}', "a", "column 'a' is null or missing; the line has 'b'; name another"),
        ("{", "a", "invalid JSON"),
        ('{"a": "x"} {"a": "x"}\n', "a", "invalid JSON"),
    ],
)
def test_damaged_json_lines_are_named(tmp_path, line, column, message):
    """The error for a line names the file, the line, the column and the value, in any block."""
    good = {"a": '{"a": "x"}', "a.b": '{"a": {"b": "x"}}', "a[]": '{"a": ["x"]}'}
    good["a[].b"] = '{"a": [{"b": "x"}]}'
    path = tmp_path / "t.jsonl"
    path.write_text(f"{good[column]}\n{good[column]}\n{line}\n{good[column]}\n")
    for block_size in (1, 1000):
        with pytest.raises(CorpusError, match=rf"t\.jsonl:3: {message}"):
            read(path, TextColumns(column), block_size=block_size)


def test_a_column_that_no_line_has_is_refused_even_if_nulls_are_skipped(tmp_path):
    """If every row lacks the column, `errors` of skip does not hide the wrong name."""
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "x"}\n' * 3)
    with pytest.raises(
        CorpusError, match="no line has 'txt'; the first has 'text'; name another column"
    ):
        read(path, TextColumns("txt"), errors="skip")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('a,b\n1,"x\ny"\n3,4,5\n', r"t\.csv:3: the row has 3 values, but the header has 2; put"),
        ("a,b\n1\n", r"t\.csv:2: the row has 1 values"),
        ("b,c\n1,2\n", r"t\.csv: no column 'a'; there are 'b', 'c'; name another column"),
        ("a,a\n1,2\n", r"t\.csv: column 'a' occurs 2 times"),
        ('a,b\n1,2\n3,"x', r"t\.csv:3: a quote of the row is never closed; close it, or copy"),
        ('a\n"x""\n', r"t\.csv:2: a quote of the row is never closed"),
        (b"a,b\n1,2\nx\xff,3\n", r"t\.csv:3: invalid UTF-8 byte 0xff at column 2"),
    ],
)
def test_damaged_csv_is_named(tmp_path, content, message):
    """Rows of another length, missing columns and wrong UTF-8 raise CorpusError with the row."""
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(CorpusError, match=message):
        read(path, TextColumns("a"))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl.gz"])
def test_truncated_files_are_refused(tmp_path, ending):
    """A file whose end is missing raises CorpusError with its name."""
    texts = [f"text {number}" for number in range(1000)]
    path = tmp_path / f"t.{ending}"
    write_table(path, rows_of(texts, "flat"), "flat")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(VoltError, match=rf"t\.{ending}: (cannot be read as|truncated)"):
        read(path, TextColumns("text"))


def test_invalid_utf8_of_parquet_is_named(tmp_path):
    """A string of Parquet that is not UTF-8 raises CorpusError with its row."""
    values = pa.array([b"x", b"y", b"\xff"]).view(pa.string())
    parquet.write_table(pa.table({"a": values}), tmp_path / "t.parquet")
    with pytest.raises(CorpusError, match=r"t\.parquet:3: column 'a': .*UTF8.*; fix the row"):
        read(tmp_path / "t.parquet", TextColumns("a"))


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow", "csv"])
def test_memory_does_not_grow_with_the_file(tmp_path, ending):
    """Reading more rows allocates no more memory at a time. Arrow reads CSV up to 32 blocks ahead,
    of at least 64 KB."""

    def measure(n_rows):
        path = tmp_path / f"t.{ending}"
        texts = ["word " * 20] * n_rows
        if ending == "parquet":
            table = pa.table({"text": texts})
            parquet.write_table(table, path, row_group_size=1000, use_dictionary=False)
        else:
            write_table(path, rows_of(texts, "flat"), "flat")
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        most = 0
        for part in read_texts(str(path), TextColumns("text"), block_size=1 << 14):
            most = max(most, pa.total_allocated_bytes() - before)
            del part
        most += tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    measure(100)
    n_ahead = 32 << 16 if ending == "csv" else 0
    assert measure(60_000) < 2 * measure(2000) + n_ahead + (1 << 20)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet", "arrow", "stream.arrow"])
def test_a_table_without_a_column_is_refused_with_its_columns(tmp_path, ending):
    """`refuse_table` names the columns of text, and the argument to pass."""
    rows = [{"id": 1, "tags": ["a"], "chat": {"m": [{"content": "b"}]}, "text": "c"}]
    path = write_table(tmp_path / f"t.{ending}", rows, "list")
    columns = r"with columns of text 'tags\[\]', 'chat.m\[\].content', 'text'; name one with column='tags\[\]'"
    with pytest.raises(CorpusError, match=columns):
        refuse_table(path)


@pytest.mark.parametrize("line", ['{"text": "a", "n": 9223372036854775808}', '{"text": "\\ud800"}'])
def test_any_table_without_a_column_is_refused(tmp_path, line):
    """`refuse_table` names the columns even of values that Arrow cannot store."""
    (tmp_path / "t.jsonl").write_text(line)
    with pytest.raises(CorpusError, match=r"t\.jsonl: JSON lines, with columns of text 'text'"):
        refuse_table(str(tmp_path / "t.jsonl"))


def test_columns_and_fields_exclude_each_other():
    """`TextColumns` takes a column or fields, and refuses empty names."""
    assert TextColumns(fields="2,1").fields == (2, 1) == column_numbers([2, 1])
    with pytest.raises(ConfigError, match="fields and column exclude each other"):
        TextColumns("text", 1)
    for column in ("", "a..b", "[]", "a.[]"):
        with pytest.raises(ConfigError, match="contains an empty name; write a column such as"):
            TextColumns(column)


def test_places_are_rows(tmp_path):
    """`TextRows.place` names the file and row of a text, not the number of the text."""
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"a": ["x", "y"]}) + "\n\n" + json.dumps({"a": ["z"]}) + "\n")
    [rows] = read_texts(str(path), TextColumns("a[]"))
    assert [rows.place(index)[-2:] for index in range(3)] == [":1", ":1", ":3"]
    assert np.array_equal(rows.rows, [0, 0, 1])
    packed = tmp_path / "t.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed, TextColumns("a[]")) == read(path, TextColumns("a[]"))


@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet", "arrow", "csv"])
def test_tables_at_a_url_are_read(tmp_path, ending):
    """A table at a URL has the rows of the file."""
    path = tmp_path / f"t.{ending}"
    expected = read(write_table(path, rows_of(["low", "é\n"], "flat"), "flat"), TextColumns("text"))
    with web_server() as web:
        web.files[f"/t.{ending}"] = path.read_bytes()
        assert read(f"{web.url}/t.{ending}", TextColumns("text")) == expected


@pytest.mark.parametrize("ending", ["jsonl", "csv", "txt"])
def test_tables_from_stdin_are_read(tmp_path, monkeypatch, ending):
    """JSON lines, CSV and TSV from stdin are recognised by their first line."""
    path = tmp_path / f"t.{ending}"
    expected = read(write_table(path, rows_of(["low", "é"], "flat"), "flat"), TextColumns("text"))
    stdin = type("Stdin", (), {"buffer": io.BytesIO(path.read_bytes())})
    monkeypatch.setattr("sys.stdin", stdin)
    assert read("-", TextColumns("text")) == expected


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow", "csv"])
def test_fields_are_only_those_of_lines_with_tabs(tmp_path, ending):
    """Numbers of fields are refused for other tables, whose lines would be read as one field."""
    path = write_table(tmp_path / f"t.{ending}", rows_of(["low"], "flat"), "flat")
    with pytest.raises(CorpusError, match="but fields are of lines with tabs; name a column"):
        read(path, TextColumns(fields=1))


def test_a_pipe_may_begin_slowly(tmp_path):
    """read_texts recognises the table of a pipe without an ending whose writer is slow at first."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write():
        with pipe.open("wb", buffering=0) as file:
            for data in (b'{"a"', b': "x"}\n', b'{"a": "y"}\n'):
                time.sleep(0.1)
                file.write(data)

    with ThreadPoolExecutor() as pool:
        pool.submit(write)
        parts = read_texts(str(pipe), TextColumns("a"), wait=is_ready)
        assert [text for rows in parts for text in rows.texts.to_pylist()] == ["x", "y"]
