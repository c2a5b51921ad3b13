"""Laws of `Results`: one process appends lines to the file, which are read back unchanged."""

import json

import pytest

from volt.errors import ConfigError
from volt.trial.results import Results, parse

LINE = b'{"key": "a"}\n'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trial.jsonl"


def keys(path):
    """Return the keys of all results in a file."""
    return [row["key"] for row in parse(path.read_bytes(), path)]


def test_two_runs_do_not_append_to_one_file(path):
    """`Results.open` raises ConfigError while the file is open."""
    with (
        Results.open(path),
        pytest.raises(ConfigError, match="another run adds to it"),
        Results.open(path),
    ):
        pass


def test_a_line_that_was_cut_short_is_removed(path):
    """A last line without a line end is not a result, and the next result replaces it."""
    path.write_bytes(LINE + LINE[:-3])
    assert keys(path) == ["a"]
    with Results.open(path) as results:
        results.add({"key": "new"})
    assert keys(path) == ["a", "new"]


def test_a_file_that_was_replaced_is_an_error(path):
    """`Results.add` raises ConfigError if the path names another file, or none; other lines
    stay.
    """
    with Results.open(path) as results:
        with path.open("ab") as other:
            other.write(LINE)
        results.add({"key": "new"})
        assert keys(path) == ["a", "new"]
        path.rename(path.with_suffix(".old"))
        for _ in range(2):
            with pytest.raises(ConfigError, match="was replaced during the run"):
                results.add({"key": "newer"})
            path.write_bytes(LINE)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nothing\n", "Expecting value"),
        (b"[1]\n", "no JSON object"),
        (b"{}\n", "key is missing"),
        (LINE, "the key of an earlier line"),
    ],
)
def test_a_line_that_is_not_a_result_is_an_error(path, line, message):
    """`parse` names file and line of a line that is not a result, or repeats a key."""
    path.write_bytes(LINE + line)
    match = rf"trial.jsonl:2: not a result \({message}.*; fix or remove the line"
    with pytest.raises(ConfigError, match=match):
        keys(path)


def test_numbers_are_stored_exactly(path):
    """A result is read back exactly as it was added."""
    row = {"key": "a", "test": [0.1 + 0.2], "text": "é"}
    with Results.open(path) as results:
        results.add(row)
        assert "a" in results
    assert json.loads(path.read_text()) == row
