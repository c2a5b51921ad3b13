"""`-o`: a file, a folder, or - for stdout, in every command that writes data; stdout holds one thing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from commands import TEXT, Run, listed

from volt.vocabulary import Vocabulary
from volt_cli.export_import import WRITE_SEVERAL
from volt_cli.options import FORMATS


@pytest.fixture
def model(run: Run) -> Path:
    """v.volt, from corpus.txt."""
    run("search corpus.txt -q -o v.volt")
    return Path("v.volt")


def test_a_vocabulary_can_go_to_stdout(run: Run, model: Path, tmp_path: Path) -> None:
    """`volt search -o -` prints the file that it would have written; the report goes to stderr."""
    done = run("search corpus.txt -o -")
    assert done.stdout == model.read_bytes()
    assert b"signature volt|corpus:" in done.stderr
    assert b"wrote stdout" in done.stderr
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_encode_and_decode_take_a_dash(run: Run, model: Path, tmp_path: Path) -> None:
    """-o - is what they do anyway."""
    pieces = run(f"encode -m {model} corpus.txt -o -").stdout
    assert pieces == run(f"encode -m {model} corpus.txt").stdout
    assert run(f"decode -m {model} -o -", stdin=pieces).stdout.decode() == TEXT
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_import_and_export_take_a_dash(run: Run, model: Path, tmp_path: Path) -> None:
    """A list of tokens, and the vocabulary made of it, are printed as they would be written."""
    run(f"export -m {model} --to tokens -o list")
    done = run(f"export -m {model} --to tokens -o -")
    assert done.stdout == Path("list").read_bytes()
    assert b"note: " in done.stderr
    imported = run(f"import list --from tokens --merges {model} -o -").stdout
    Path("again.volt").write_bytes(imported)
    assert Vocabulary.load("again.volt").tokens == Vocabulary.load(model).tokens
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("format", WRITE_SEVERAL)
@pytest.mark.parametrize("options", [[], ["--closed"]])
def test_what_is_more_than_one_file_needs_a_place(
    format: str, options: list[str], run: Run, model: Path
) -> None:
    """stdout takes one file: status 2 whatever the vocabulary is, nothing on stdout."""
    done = run(f"export -m {model} --to {format}", *options, "-o", "-", status=2)
    assert (
        f"-o -: {format} writes more than one file, but stdout takes only one; name a file or folder"
        in done.stderr.decode()
    )
    assert done.stdout == b""


def test_formats_of_several_files_are_known(run: Run, tmp_path: Path) -> None:
    """Exactly those in WRITE_SEVERAL write more than one file."""
    run("search corpus.txt -q -o b.volt --level bytes")
    run("search corpus.txt -q -o p.volt --marker prefix")
    run("search corpus.txt -q -o s.volt")
    models = {"tiktoken": "b.volt", "sentencepiece": "p.volt"}
    for format in FORMATS:
        folder = tmp_path / format
        folder.mkdir()
        run(
            "export -m",
            models.get(format, "s.volt"),
            "--to",
            format,
            "--closed",
            "-o",
            str(folder / "x"),
        )
        n_files = sum(path.is_file() and path.name != "x.closed.volt" for path in folder.rglob("*"))
        assert (n_files > 1) == (format in WRITE_SEVERAL), format


def test_messages_on_stdout_name_no_temporary_path(run: Run, model: Path) -> None:
    """Refusals and notes about an export to stdout say "stdout" instead of a temporary path."""
    refused = run(f"export -m {model} --to tiktoken -o -", status=1).stderr.decode()
    assert "stdout: tiktoken needs the pre-tokenizer bytes" in refused
    run("search corpus.txt -q -o b.volt --level bytes")
    error_text = run("export -m b.volt --to tiktoken --closed -o -").stderr.decode()
    assert "note: " in error_text
    for message in (refused, error_text):
        assert tempfile.gettempdir() not in message


def test_an_example_needs_a_folder(run: Run) -> None:
    """So does an example of a stream."""
    assert b"name a folder" in run("stream example mixing -o -", status=2).stderr


def test_a_comparison_can_go_to_stdout(run: Run) -> None:
    """The page or the Markdown takes the place of the tables, which go to stderr; two of them are too many."""
    done = run("compare corpus.txt --with bpe:14 --markdown -")
    assert done.stdout.startswith(b"#")
    assert b"volt knee" in done.stderr
    page = run("compare corpus.txt --with bpe:14 -o - -q")
    assert page.stdout.lower().startswith(b"<!doctype html>")
    assert page.stderr == b""
    both = run("compare corpus.txt -o - --json", status=2)
    assert b"--json and --output would both write to stdout" in both.stderr


def test_json_of_a_search_and_its_vocabulary_cannot_both_be_stdout(
    run: Run, tmp_path: Path
) -> None:
    """Status 2 before any work, nothing written."""
    assert (
        b"give one of them another place" in run("search corpus.txt -o - --json", status=2).stderr
    )
    assert listed(tmp_path) == ["corpus.txt"]


def test_preview_prints_json_too(run: Run) -> None:
    """`volt stream preview --json` prints one JSON document: an array of the lines, also of one."""
    run("stream example case-noise -o noise")
    for n in (3, 1):
        rows = json.loads(run(f"stream preview noise/stream.yaml -n {n} --json").stdout)
        assert [row["n"] for row in rows] == list(range(n))
