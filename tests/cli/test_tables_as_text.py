"""No table is treated as text without a word: search, encode and binarize refuse it, or warn and name its columns."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from commands import Run

from volt.encode.encoder import Encoder
from volt.errors import CorpusError
from volt.vocabulary import Vocabulary

JSON = '{"text": "low lower", "id": 3}\n'
COMMANDS = {
    "search": ["search", "-o", "s.volt"],
    "encode": ["encode", "-m", "v.volt"],
    "encode to a folder": ["encode", "-m", "v.volt", "-o", "out/"],
    "binarize": ["binarize", "-m", "v.volt", "-o", "pair"],
}
WARNED = {
    "a.csv": (
        'id,text\n1,"low, lower"\n',
        "a.csv: its lines have several columns between commas: 1 'id', 2 'text'",
    ),
    "a.tsv": (
        "id\ttext\n1\tlow lower\n",
        "a.tsv: its lines have several columns between tabs: 1 'id', 2 'text'",
    ),
}


@pytest.fixture(autouse=True)
def _model(run: Run) -> None:
    run("search corpus.txt -q -o v.volt")


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_give_a_warning(run: Run, command: str) -> None:
    """CSV and TSV; --quiet leaves the warning out."""
    done = "counted" if command == "search" else "encoded"
    for name, (text, warning) in WARNED.items():
        Path(name).write_text(text * 3)
        message = " ".join(run(*COMMANDS[command], name).stderr.decode().split())
        assert f"warning {warning}; all is {done}." in message
        assert "warning" not in run(*COMMANDS[command], name, "-q").stderr.decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_json_lines_are_refused(run: Run, command: str) -> None:
    """By name, compressed too; nothing is written."""
    Path("a.jsonl").write_text(JSON)
    Path("b.ndjson.gz").write_bytes(gzip.compress(JSON.encode()))
    for name in ("a.jsonl", "b.ndjson.gz"):
        message = run(*COMMANDS[command], name, status=1).stderr.decode()
        assert f"{name}: JSON lines" in message
        assert "text" in message
    assert not any(Path(name).exists() for name in ("out", "pair.bin", "pair.idx"))


def test_python_refuses_json_lines() -> None:
    """`encode_file` too."""
    Path("a.jsonl").write_text(JSON)
    with pytest.raises(CorpusError, match=r"a\.jsonl: JSON lines"):
        Encoder(Vocabulary.load("v.volt")).encode_file("a.jsonl")
