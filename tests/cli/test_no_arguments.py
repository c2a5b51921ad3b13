"""The first minute: versions, a bare command, slips of the pen, a vocabulary from stdin, a mark that marks nothing."""

from __future__ import annotations

import io
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy
import polars
import pytest
from commands import Run, status_of

import volt
from volt_cli.app import LIBRARIES


def test_the_version_is_followed_by_what_a_report_of_a_fault_needs(run: Run) -> None:
    """The first line is VOLT's version alone; Python, each library as it says of itself, and the processor follow."""
    first, *rest = run("--version").lines
    assert first == f"volt {volt.__version__}"
    message = dict(line.split(maxsplit=1) for line in rest)
    assert message.keys() == {"python", *LIBRARIES, "cpu"}
    assert platform.python_version() in message["python"]
    assert {name: message[name] for name in LIBRARIES} == {
        name: version(name) for name in LIBRARIES
    }
    assert (message["numpy"], message["polars"]) == (numpy.__version__, polars.__version__)
    assert message["cpu"].endswith(" cores")


@pytest.mark.parametrize("command", [[], ["stream"]])
def test_a_bare_command_shows_its_help(command: list[str], run: Run) -> None:
    """Without arguments there is the help, and status 2, for nothing was done."""
    assert run(*command, status=2).stdout.split() == run(*command, "--help").stdout.split()


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["encod"], "'encode'"),
        (["stream", "previw"], "'preview'"),
        (["encode", "-m", "corpus.txt", "--sepaartor", "@@"], "--separator"),
        (["encode", "-m", "corpus.txt", "--form", "pices"], "'pieces'"),
        (["search", "corpus.txt", "--select", "kne"], "knee"),
        (["export", "-m", "corpus.txt", "--to", "fairsec", "-o", "x"], "fairseq"),
        (["stream", "schema", "uper"], "upper"),
    ],
)
def test_a_slip_is_answered_with_what_may_be_meant(
    arguments: list[str], meant: str, run: Run
) -> None:
    """A word that is not known is reported beside the one like it, in one message, with status 2."""
    assert meant in run(*arguments, status=2).stderr.decode()


def test_a_vocabulary_may_come_from_stdin(run: Run) -> None:
    """`-m -` reads the vocabulary from stdin, and messages on it say so; a text cannot come from there as well."""
    run("search corpus.txt --sizes 15:20:1 -q")
    model = Path("corpus.volt").read_bytes()
    piped = json.loads(run("inspect -m -", "the cat", "--json", stdin=model).stdout)
    assert piped == {
        **json.loads(run("inspect -m corpus.volt", "the cat", "--json").stdout),
        "file": "-",
    }
    encoded = run("encode -m corpus.volt corpus.txt").stdout
    assert run("encode -m - corpus.txt", stdin=model).stdout == encoded
    for command in ("encode", "decode"):
        assert (
            "stdin cannot be both the vocabulary and the text"
            in run(command, "-m", "-", stdin=model, status=2).stderr.decode()
        )
    assert run("inspect -m -", stdin=b"no", status=1).stderr.startswith(b"error stdin: ")


@pytest.mark.parametrize("command", ["encode", "decode"])
def test_a_separator_marks_something(command: str, run: Run) -> None:
    """An empty --separator is refused: it would mark nothing."""
    assert (
        b"marks nothing"
        in run(command, "-m", "corpus.txt", "--separator", "", "corpus.txt", status=2).stderr
    )


def test_files_of_a_comparison_are_there_before_it_is_printed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page and the tables are whole even if who reads stdout stops at once, with status 0."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return nothing.fileno()

        @property
        def buffer(self) -> Closed:
            return self

    monkeypatch.setattr(
        "volt.comparison.page.page.write_page", lambda comparison, path: path.write_text("a page")
    )
    arguments = ["compare", "corpus.txt", "--with", "bpe:15", "--sizes", "15:20:1", "--json"]
    with open("nothing", "wb") as nothing:
        monkeypatch.setattr(sys, "stdout", Closed())
        assert status_of([*arguments, "-o", "page.html", "--markdown", "tables.md"]) == 0
    assert Path("page.html").read_text() == "a page"
    assert Path("tables.md").read_text().startswith("# Vocabularies compared")
