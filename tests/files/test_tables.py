"""Laws of recognising tables by their names and first lines."""

import gzip
import json
import re

import pytest

from volt.errors import CorpusError
from volt.files.blocks import Block
from volt.files.tables import columns_in, kind_of_text, table_kind


def _named(description):
    """Return the names of the columns in a description."""
    return " ".join(re.findall(r"\d '(.*?)'", description))


def test_tables_are_recognised_by_name_and_first_lines(tmp_path):
    """`table_kind` decides by the first bytes and then the name, and `columns_in` by separators in
    each of the first five lines. A tab next to a space is text."""
    names = ("a.jsonl", "a.ndjson.gz", "a.csv", "a.tsv.xz", "a.feather", "a.jsonl.txt", "a.json")
    kinds = ["json", "json", "csv", "tsv", "arrow", None, None]
    assert [*map(table_kind, names)] == kinds
    cases = {
        "a\tb\tc\n": "a b c",
        "\n \na\tb\n": "a b",
        "a\tb\nc\n": "",
        "a\n": "",
        "": "",
        "\ta\n": "",
        "a\tb\n" * 5 + "c\n": "a b",
        "a\tb\n" * 4 + "c\n": "",
        '{"a": 1}\nb\n': "",
    }
    for text, columns in cases.items():
        (tmp_path / "a.tsv").write_text(text)
        assert _named(columns_in(str(tmp_path / "a.tsv"))) == columns
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.strip().replace("\t", ",").encode()))
        assert _named(columns_in(str(tmp_path / "a.csv.gz"))) == columns
    (tmp_path / "a.tsv").write_text('{"a": "x"}\n\n{"b": "y"}\n')
    assert columns_in(str(tmp_path / "a.tsv")) == "its lines are JSON objects"
    (tmp_path / "a.bin").write_bytes(bytes(range(9)) * 99)
    assert columns_in(str(tmp_path / "a.bin")) == ""
    (tmp_path / "a.jsonl").write_text(json.dumps({"a\tb": 1}))
    (tmp_path / "b").write_bytes(b"PAR1\ta\n")
    (tmp_path / "a.txt").write_text("a, b\nc, d\n")
    (tmp_path / "b.txt").write_text("a , \t b\nc \td\n")
    names = [str(tmp_path / name) for name in ("a.jsonl", "b", "none", "a.txt", "b.txt")]
    assert not any(map(columns_in, names))
    assert [table_kind(name) for name in names[1:]] == ["parquet", None, None, None]


@pytest.mark.parametrize("text", ['\n[{"id": 1, "text": "a"}]', '\n[\n  {"id": 1}\n]\n'])
def test_one_array_of_json_is_refused_with_a_remedy(text):
    """A file that is one array of JSON is not CSV; the error says how to make JSON lines."""
    with pytest.raises(CorpusError, match=r"a:2: one array of JSON, not JSON lines; .* jq -c"):
        kind_of_text(Block("a", 1, 1, text.encode(), 0))


@pytest.mark.parametrize(
    ("text", "kind"),
    [(b'\n {"a": 1}', "json"), (b"a\tb,c\n", "tsv"), (b"a,b\n", "csv"), (b"a\n{}", None)],
)
def test_tables_of_text_are_recognised_by_their_first_line(text, kind):
    """`kind_of_text` decides by the first line that is not blank, and refuses other text."""
    block = Block("a", 1, 1, text, 0)
    if kind:
        assert kind_of_text(block) == kind
    else:
        with pytest.raises(CorpusError, match=r"a:1: not JSON lines, Parquet, .*; name only files"):
            kind_of_text(block)
