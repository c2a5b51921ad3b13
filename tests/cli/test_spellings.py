"""Errors of the library name options on the command line; names are read in any case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import Run

import volt
from volt_cli.remedies import in_options


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("pass errors='replace' or 'skip'", "pass --encoding-errors replace or skip"),
        ("pass errors='skip'", "pass --encoding-errors skip"),
        ("drop rare characters with min_count", "drop rare characters with --min-count"),
        ("or raise n_merges", "or raise --candidates"),
        ("learn with marker='suffix'", "search with --marker suffix"),
        ("count with pretokenizer='whitespace'", "search with --pretokenizer whitespace"),
        ("on your corpus, counted with pretokenizer='bytes'", "on your corpus with volt search --level bytes"),
        ("Export Vocabulary.closed(), which", "Export with --closed, which"),
        ("make one with volt.search", "make one with: volt search CORPUS -o NAME.volt"),
        ("give the merges of the .model to volt.replay_bpe", "give the .model to volt search --candidates"),
        ("system 'bpee:4': no such system", "--with bpee:4: no such system"),
        (
            "dropout draws at random: give a seed, a whole number (it is None)",
            "--dropout draws at random: give --seed N, a whole number",
        ),
        (
            "dropout draws at random: give a seed, a whole number (it is -3)",
            "--dropout draws at random: give --seed N, a whole number (it is -3)",
        ),
        ("corpus.txt: no such file; check the path", "corpus.txt: no such file; check the path"),
    ],
)
def test_remedies_become_options(python: str, option: str) -> None:
    """What the library says in Python's terms is said in the command line's; the rest stays as it is."""
    assert in_options(python) == option


def test_the_library_speaks_python() -> None:
    """No message of volt names an option of the command line; other programs' options may be named."""
    foreign = (
        r"--(model_type|treat_whitespace|split_by|remove_extra|escape_whitespaces|vocabulary|glossaries|compress|head)"
    )
    for path in Path(volt.__file__).parent.rglob("*.py"):
        if path.name == "examples.py":  # it shows command lines
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"(?<![-\w])--[a-z]", re.sub(foreign, "", line)), f"{path.name}: {line}"


def test_errors_name_options(run: Run, tmp_path: Path) -> None:
    """An error on the command line names the option that mends it."""
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    assert b"pass --encoding-errors replace or skip" in run("search", "latin.txt", status=1).stderr
    assert b"--min-pair-count" in run("search", "corpus.txt", "--min-pair-count", "9999", status=1).stderr
    assert (
        b"raise --candidates"
        in run("search", "corpus.txt", "--sizes", "12:900:1", "--candidates", "5", status=1).stderr
    )
    assert b"volt search CORPUS -o NAME.volt" in run("inspect", "-m", "corpus.txt", status=1).stderr


def test_a_normalizer_is_named_in_any_case(run: Run) -> None:
    """NFKC is nfkc: the vocabulary stores the canonical name, and the file is the same."""
    run("search", "corpus.txt", "-q", "--normalizer", "NFKC+Lowercase", "-o", "a.volt")
    run("search", "corpus.txt", "-q", "--normalizer", "nfkc+lowercase", "-o", "b.volt")
    assert Path("a.volt").read_bytes() == Path("b.volt").read_bytes()
    assert volt.Vocabulary.load("a.volt").normalizer.name == "nfkc+lowercase"
