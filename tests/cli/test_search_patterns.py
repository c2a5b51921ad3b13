"""Laws of `volt search --pattern`: it counts, learns and saves by a published pattern or an own one."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Run

import volt
from volt.text.pretokenizer import PreTokenizer

TEXT = "It's 12345 o'clock,\tIT'S late!\n" * 20


@pytest.mark.parametrize("level", ["characters", "bytes"])
@pytest.mark.parametrize("pattern", ["gpt2", "deepseek3", r" ?\w+|\W"])
def test_a_vocabulary_holds_the_pattern(run: Run, tmp_path: Path, pattern: str, level: str) -> None:
    """It is found on words of that pattern, saved with it, and gives every text back."""
    (tmp_path / "c.txt").write_text(TEXT)
    run("search c.txt -q -o v.volt --pattern", pattern, "--level", level)
    assert volt.Vocabulary.load(tmp_path / "v.volt").pretokenizer == PreTokenizer.of_pattern(
        pattern, level=level
    )
    encoded = run("encode -m v.volt c.txt").stdout
    assert run("decode -m v.volt", stdin=encoded).stdout.decode() == TEXT


def test_an_export_agrees_with_the_library(run: Run, tmp_path: Path) -> None:
    """--check finds tokenizers and tiktoken cutting by the same pattern; a format of marked words is refused."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("tiktoken")
    (tmp_path / "c.txt").write_text(TEXT)
    run("search c.txt -q -o v.volt --pattern cl100k --level bytes")
    error_text = run("export -m v.volt --to huggingface -o hf --closed --check c.txt")
    assert "20 of 20 lines" in (error_text.stdout + error_text.stderr).decode()
    error_text = run(
        "export -m v.volt --to tiktoken -o v.tiktoken --closed --check c.txt",
    )
    assert "20 of 20 lines" in (error_text.stdout + error_text.stderr).decode()
    refused = run("export -m v.volt --to subword-nmt -o codes --closed", status=1)
    assert "subword-nmt" in refused.stderr.decode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pattern", "cl100"], "no pattern is called 'cl100'; did you mean cl100k?"),
        (["--pattern", "(?<=a)b"], "look-behind"),
        (
            ["--pattern", "gpt2", "--pretokenizer", "unicode"],
            "--pattern and --pretokenizer both define how text is split",
        ),
        (
            ["--level", "bytes", "--pretokenizer", "unicode"],
            "remove --pretokenizer, or give --pattern",
        ),
    ],
)
def test_a_bad_pattern_ends_in_one_message(run: Run, options: list[str], message: str) -> None:
    """What was found, and what to do."""
    assert message in " ".join(
        run("search corpus.txt -q", *options, status=2).stderr.decode().split()
    )


def test_an_empty_pattern_is_none_that_was_meant(run: Run) -> None:
    """--pattern '' is refused, as everywhere, and does not count as left out."""
    error_text = run("search corpus.txt -o v.volt --pattern", "", status=2).stderr.decode()
    assert "pattern '' could match the empty text" in error_text
