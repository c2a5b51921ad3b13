"""Byte-level merges are those of HF tokenizers but for ties: a learner by definition takes either side's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tokenizers")

import volt
from experiments.oracles import compare_bytes, greatest_text, learn


@given(st.dictionaries(st.text("aabc", min_size=1, max_size=9), st.integers(1, 5), min_size=1), st.integers(0, 9))
def test_both_sides_learn_what_the_definition_says(words: dict[str, int], n_merges: int) -> None:
    """Drawn words, in which most pairs occur as often as others."""
    lines = [word for word, count in words.items() for _ in range(count)]
    counts = volt.WordCounts.from_pairs(words, pretokenizer="bytes")
    assert [wrong for _, _, wrong in compare_bytes(lines, counts, n_merges)] == ["", ""]


@pytest.mark.parametrize("name", ["multi30k/train.en.gz", "ted/Finnish.txt.gz", "ted/Georgian.txt.gz"])
def test_they_do_on_corpora(lines: Callable[[str, int], list[str]], name: str, tmp_path: Path) -> None:
    """Words as VOLT counts them from a file, and as HF tokenizers cuts the lines."""
    text, path = lines(name, 8_000), tmp_path / "text.txt"
    path.write_text("\n".join(text), encoding="utf-8", newline="\n")
    counts = volt.count_words(path, pretokenizer="bytes")
    assert [wrong for _, _, wrong in compare_bytes(text, counts, 1_000)] == ["", ""]


def test_counts_beyond_32_bits_are_exact() -> None:
    """A table of words that occur up to 2^60 times: sums of pairs are beyond what 32 bits hold."""
    words = {"ab": 2**33, "cd": 2**33 + 1, "abcd": 2**40, "bc": 3, "cdb": 2**60}
    expected = learn(words, 20, greatest_text)
    assert volt.learn_bpe(volt.WordCounts.from_pairs(words, pretokenizer="bytes"), 20).merges == expected
