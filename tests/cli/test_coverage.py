"""`volt search --coverage`: what is left out is reported, and recorded in the file and in the signature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run


def test_what_is_left_out_is_reported_and_recorded(run: Run) -> None:
    """The report, the JSON, the signature and the vocabulary's file say what the share leaves out."""
    with open("corpus.txt", "a", encoding="utf-8") as file:
        file.write("\x1b€\n")
    shown = run("search corpus.txt --coverage 0.99 -o x.volt").stdout.decode()
    assert "|coverage:0.99|" in shown
    assert "left out" in shown
    assert "beyond 99 %" in shown
    assert "\\x1b" in shown
    data = json.loads(run("search corpus.txt --coverage 0.99 --json -o x.volt").stdout)
    assert {"\x1b", "€"} <= set(data["coverage"]["left_out"])
    saved = json.loads(Path("x.volt").read_text(encoding="utf-8"))
    assert saved["provenance"]["left_out"] == data["coverage"]["left_out"]
    assert "left out" not in run("search corpus.txt -o y.volt").stdout.decode()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["--coverage", "0"], "coverage is 0; give a share"),
        (["--coverage", "1.1"], "coverage is 1.1; give a share"),
        (["--coverage", "nan"], "coverage is nan; give a share"),
        (["--coverage", "0.9", "--level", "bytes"], "256 bytes spell every character"),
        (
            ["--coverage", "0.9", "--candidates", "corpus.txt"],
            "--coverage works only when merges are learned",
        ),
    ],
)
def test_impossible_shares_are_refused(given: list[str], found: str, run: Run) -> None:
    """A value out of range, or in conflict with another option, is refused in one line that names the option."""
    assert found in run("search corpus.txt", *given, status=2).stderr.decode()
