"""Laws of recognising tables by their names and first lines."""

import gzip
import json
import re

from volt.files.tables import columns_in, is_json_lines, is_parquet


def _named(description):
    """Return the names of the columns in a description."""
    return " ".join(re.findall(r"\d '(.*?)'", description))


def test_tables_are_recognised_by_name_and_first_lines(tmp_path):
    """`is_json_lines` decides by the file's name, `is_parquet` by its first bytes, and `columns_in`
    by separators in each of the first five lines."""
    names = ("a.jsonl", "a.ndjson.gz", "a.jsonl.xz", "a.jsonl.txt", "a.json", "a")
    assert (*filter(is_json_lines, names),) == names[:3]
    cases = {
        "a\tb\tc\n": "a b c",
        "\n \na\tb\n": "a b",
        "a\tb\nc\n": "",
        "a\n": "",
        "": "",
        "\ta\n": "",
        "a\tb\n" * 5 + "c\n": "a b",
        "a\tb\n" * 4 + "c\n": "",
    }
    for text, columns in cases.items():
        (tmp_path / "a.tsv").write_text(text)
        assert _named(columns_in(str(tmp_path / "a.tsv"))) == columns
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.strip().replace("\t", ",").encode()))
        assert _named(columns_in(str(tmp_path / "a.csv.gz"))) == columns
    (tmp_path / "a.jsonl").write_text(json.dumps({"a\tb": 1}))
    (tmp_path / "b").write_bytes(b"PAR1\ta\n")
    (tmp_path / "a.txt").write_text("a, b\nc, d\n")
    names = [str(tmp_path / name) for name in ("a.jsonl", "b", "none", "a.txt")]
    assert not any(map(columns_in, names))
    assert list(filter(is_parquet, [*names, str(tmp_path)])) == names[1:2]
