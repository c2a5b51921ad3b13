"""Training other libraries: they read the counts, and their errors are reported."""

import os

import pytest

from volt.comparison.systems import trained_system
from volt.count.word_counts import WordCounts
from volt.errors import CandidateError, MissingLibraryError

COUNTS = WordCounts.from_pairs({"walk": 5, "walked": 3, "walks": 2, "talk": 4, "talked": 1})


def test_wordpiece_is_trained_on_the_counts():
    """WordPiece, which takes no counts, makes the more frequent of two words of equal length a
    token."""
    pytest.importorskip("tokenizers")
    for frequent, rare in (("xyz", "uvw"), ("uvw", "xyz")):
        system = trained_system(
            "wordpiece", 12, counts=WordCounts.from_pairs({frequent: 1_000_000, rare: 999_999})
        )
        assert frequent in system.tokens
        assert rare not in system.tokens


def test_a_missing_library_is_an_error(tmp_path, monkeypatch):
    """Training without sentencepiece or tokenizers raises an error that says how to install it."""
    for name in ("sentencepiece", "tokenizers"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    for kind in ("spm-bpe", "wordpiece"):
        with pytest.raises(MissingLibraryError, match="pip install"):
            trained_system(kind, 60, counts=COUNTS)


def test_a_refused_size_is_an_error_with_the_reason():
    """If sentencepiece refuses a size, the error states its reason."""
    pytest.importorskip("sentencepiece")
    with pytest.raises(CandidateError, match=r"refuses 3 tokens: .*required_chars"):
        trained_system("spm-bpe", 3, counts=COUNTS)
