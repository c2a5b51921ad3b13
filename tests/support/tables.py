"""Tables of every format and kind of column, with given texts."""

import csv
import gzip
import io
import json

import pyarrow as pa
from pyarrow import parquet

# kind of column → its path
COLUMNS = {
    "flat": "text",
    "large": "text",
    "view": "text",
    "dictionary": "text",
    "dotted": "a.text",
    "struct": "content.body.text",
    "list": "tags[]",
    "messages": "chat.messages[].content",
    "lists": "a[][]",
}
_TYPES = {"large": pa.large_string(), "view": pa.string_view()}
HAS_LISTS = ("list", "messages", "lists")
FORMATS = {
    "jsonl": COLUMNS,
    "jsonl.gz": COLUMNS,
    "parquet": COLUMNS,
    "arrow": COLUMNS,
    "stream.arrow": COLUMNS,
    "csv": ("flat",),
    "tsv": ("flat",),
    "txt": ("flat",),
}
CASES = [(ending, column) for ending, columns in FORMATS.items() for column in columns]


def rows_of(texts, column):
    """Return rows whose column contains each row's texts. texts: one text a row, or a list of them"""
    wrap = {
        "dotted": lambda text: {"a.text": text},
        "struct": lambda text: {"content": {"body": {"text": text, "n": 1}, "id": "x"}},
        "list": lambda text: {"tags": text},
        "messages": lambda row: {
            "chat": {"messages": [{"role": "user", "content": text} for text in row]}
        },
        "lists": lambda row: {"a": [[text] for text in row]},
    }.get(column, lambda text: {"text": text})
    return [{"id": index, **wrap(text), "last": "z"} for index, text in enumerate(texts)]


def write_table(path, rows, column):
    """Write rows as the table that the path's ending names. Return the path as text."""
    name = path.name
    if ".jsonl" in name:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    elif name.endswith((".csv", ".tsv", ".txt")):
        file = io.StringIO(newline="")
        delimiter = "," if name.endswith(".csv") else "\t"
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerows([["id", "text", "last"], *(row.values() for row in rows)])
        path.write_bytes(file.getvalue().encode())
    else:
        _write_arrow(path, as_arrow(rows, column))
    return str(path)


def as_arrow(rows, column):
    table = pa.Table.from_pylist(rows)
    if column in ("flat", "large", "view", "dictionary"):
        texts = pa.array([row["text"] for row in rows], _TYPES.get(column, pa.string()))
        if column == "dictionary":
            texts = texts.dictionary_encode()
        table = table.set_column(1, "text", texts)
    return table


def _write_arrow(path, table):
    if path.name.endswith(".parquet"):
        parquet.write_table(table, path, row_group_size=3)
        return
    open_writer = pa.ipc.new_stream if path.name.endswith("stream.arrow") else pa.ipc.new_file
    with open_writer(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def read_table(path):
    """Return the rows of a table that VOLT wrote."""
    name = path.name
    if ".jsonl" in name:
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    if name.endswith((".csv", ".tsv")):
        text = io.StringIO(path.read_bytes().decode(), newline="")
        return list(csv.DictReader(text, delimiter="," if name.endswith(".csv") else "\t"))
    if name.endswith(".parquet"):
        return parquet.read_table(path).to_pylist()
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all().to_pylist()
