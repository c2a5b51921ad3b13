"""Lists of tokens with counts that have a fraction, as sampled text gives them, and lists without their merges."""

from __future__ import annotations

from pathlib import Path

import pytest

from volt.errors import VocabularyError
from volt.formats.opennmt import rows
from volt.formats.registry import listed_pieces, read_vocabulary
from volt.vocabulary import Vocabulary


def test_a_count_with_a_fraction_is_rounded_up(tmp_path: Path) -> None:
    """What is counted in sampled text becomes the next whole number; a whole count stays."""
    path = tmp_path / "list"
    path.write_text("12.7\tlo\n3\tw\n0.004\tl\n1.5e+03\to\n")
    assert [(row.piece, row.count) for row in rows(path)] == [
        ("lo", 13),
        ("w", 3),
        ("l", 1),
        ("o", 1501),
    ]
    Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), marker="none").save(
        tmp_path / "a.volt"
    )
    assert read_vocabulary(path, merges=tmp_path / "a.volt").counts == (13, 3, 1, 1501)


@pytest.mark.parametrize("count", ["-1.5", "nan", "1.5.2", "x"])
def test_what_is_no_count_is_refused(count: str, tmp_path: Path) -> None:
    """The error names file and line."""
    path = tmp_path / "list"
    path.write_text(f"12.7\tlo\n3\tw\n{count}\tl\n")
    with pytest.raises(VocabularyError, match=f"{path}:3: '{count}' is not a count"):
        list(rows(path))


def test_a_count_beyond_all_is_refused(tmp_path: Path) -> None:
    """Sums of such counts would be infinite."""
    path = tmp_path / "list"
    path.write_text("12.7\tlo\n1e999\tl\n")
    with pytest.raises(VocabularyError, match=f"{path}:2: the count 1e999 is above 1e"):
        list(rows(path))


def test_a_file_with_merges_is_no_list(tmp_path: Path) -> None:
    """VOLT's own file and subword-nmt's are read as vocabularies."""
    Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo")).save(tmp_path / "a.volt")
    (tmp_path / "codes").write_text("#version: 0.2\nl o\n")
    assert listed_pieces(tmp_path / "a.volt") is None
    assert listed_pieces(tmp_path / "codes") is None
