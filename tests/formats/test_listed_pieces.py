"""Files with merges are not lists of pieces."""

from __future__ import annotations

from pathlib import Path

from volt.formats.registry import listed_pieces
from volt.vocabulary import Vocabulary


def test_a_file_with_merges_is_no_list(tmp_path: Path) -> None:
    """VOLT's own file and subword-nmt's are read as vocabularies."""
    Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo")).save(tmp_path / "a.volt")
    (tmp_path / "codes").write_text("#version: 0.2\nl o\n")
    assert listed_pieces(tmp_path / "a.volt") is None
    assert listed_pieces(tmp_path / "codes") is None
