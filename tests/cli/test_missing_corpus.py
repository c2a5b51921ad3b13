"""A corpus that is not named is stdin, but never a terminal; numbers that mean nothing are refused, as are no words."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from commands import TEXT, VOLT, Run, status_of

import volt
from volt.errors import ConfigError, CorpusError
from volt.vocabulary import Vocabulary


def test_stdin_is_the_corpus_that_is_not_named(run: Run) -> None:
    """`volt search < corpus.txt` finds what `volt search corpus.txt` finds."""
    run("search corpus.txt -q -o named.volt")
    run("search -q -o read.volt", stdin=TEXT.encode())
    assert Vocabulary.load("read.volt") == Vocabulary.load("named.volt")


def test_a_terminal_is_no_corpus(tmp_path: Path) -> None:
    """At a terminal, `volt search` says what is missing, with 2, and does not wait."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*VOLT, "search"], stdin=theirs, capture_output=True, cwd=tmp_path, timeout=60
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert b"CORPUS is missing: name files, or give a text on stdin" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    [
        "search corpus.txt --min-count 0",
        "search corpus.txt --min-count -1",
        "search corpus.txt --min-pair-count 0",
        "encode -m corpus.txt --threads 0 corpus.txt",
        "encode -m corpus.txt --cache-words 0 corpus.txt",
        "compare corpus.txt --temperature 0.5",
        "compare corpus.txt --temperature nan",
    ],
)
def test_numbers_below_1_are_refused(
    line: str, run: Run, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Wrong usage, reported with the option's name before anything is read."""
    assert status_of(line.split()) == 2
    option = next(word for word in line.split() if word.startswith("--"))
    assert f"Invalid value for '{option}'".encode() in capsysbinary.readouterr().err


def test_counting_refuses_them_too(run: Run) -> None:
    """In Python, min_count is 1 or more; an error speaks of one time, or of several."""
    with pytest.raises(ConfigError, match="min_count is 0; give 1 or more"):
        volt.count_words("corpus.txt", min_count=0)
    Path("once.txt").write_text("low\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="no word of 1 occurs 2 times or more"):
        volt.count_words("once.txt", min_count=2)
    with pytest.raises(ConfigError, match="1 source, temperature 0"):
        volt.mix({"en": volt.count_words("once.txt")}, temperature=0)
