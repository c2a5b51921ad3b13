"""What is wrong in a table is named by file and row, with a remedy; what is named nowhere would be lost silently."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from volt.errors import StreamError
from volt.stream.reading.tables import TableShard, open_table

FIELDS = {"src": "a", "tgt": "b"}
ROW = b'{"a": "x", "b": "y"}\n'


def opened(
    tmp_path: Path, content: bytes | pa.Table, *, split: int | None = 4, **fields: str
) -> TableShard:
    """The shard of JSON lines, or of a table of Parquet with three rows in a row group."""
    path = tmp_path / "t"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        parquet.write_table(content, path, row_group_size=3)
    return open_table(str(path), fields or FIELDS, split_lines=split, cache=tmp_path / "cache")


@pytest.mark.parametrize("rows", [ROW * 9, b'{"a": null, "c": 1}\n' * 9])
def test_a_key_that_no_line_has_is_an_error(tmp_path: Path, rows: bytes) -> None:
    """Else a misspelt key would take a field from all lines; the keys of the first line are named."""
    with pytest.raises(
        StreamError, match=r"t: no line has 'bb'; line 1 has 'a', '[bc]'; name another key"
    ):
        opened(tmp_path, rows, src="a", tgt="bb")


def test_a_key_of_nulls_or_of_one_line_is_there(tmp_path: Path) -> None:
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
def test_lines_that_are_no_single_object_are_named(
    tmp_path: Path, line: bytes, message: str, split: int | None
) -> None:
    """Wherever they are, and though the file may have as many objects as lines."""
    with pytest.raises(StreamError, match=rf"t:7: .*{message}"):
        opened(tmp_path, ROW * 6 + line + ROW * 3, split=split)


def test_spaces_around_objects_are_allowed(tmp_path: Path) -> None:
    """As JSON has it."""
    content = b'  {"a": "x", "b": "y"} \t\r\n{"a": "z", "b": "}"}'
    assert [column.strings() for column in opened(tmp_path, content).read(0)] == [
        ["x", "z"],
        ["y", "}"],
    ]


def test_a_key_that_leads_through_a_text_is_named_with_its_line(tmp_path: Path) -> None:
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
def test_a_row_of_parquet_that_is_unfit_is_named(
    tmp_path: Path, good: pa.Array, bad: pa.Array, message: str, place: int
) -> None:
    """In any row group, the first one counts."""
    values = pa.concat_arrays([good] * place + [bad] + [good] * (7 - place) + [bad])
    with pytest.raises(StreamError, match=rf"t:{place + 1}: column 'a': .*{message}"):
        opened(tmp_path, pa.table({"a": values}), src="a")


def test_a_column_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """Which of the two would be read cannot be reported."""
    table = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["a", "a"])
    with pytest.raises(StreamError, match=r"t: column 'a' occurs 2 times"):
        opened(tmp_path, table, src="a")
