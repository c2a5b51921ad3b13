"""Reading a file of another library warns once of what it lacks and of what VOLT does differently."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

import volt
from volt.errors import VoltWarning
from volt.vocabulary import Vocabulary


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    """Codes of subword-nmt that name no end of a word, so that VOLT has to assume what they are."""
    path = tmp_path / "codes"
    path.write_text("#version: 0.2\nt h\nth e\n", encoding="utf-8")
    return path


def test_one_warning_has_the_file_and_all_notes(codes: Path) -> None:
    """The warning stands at the caller's line, and its sentences are `Vocabulary.notes`."""
    with pytest.warns(VoltWarning) as caught:
        vocabulary = volt.read_vocabulary(codes)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert str(caught[0].message) == f"{codes}: {' '.join(vocabulary.notes)}"
    assert "VOLT assumes subword-nmt's codes" in vocabulary.notes[0]
    assert escape(vocabulary.notes[0]) in vocabulary._repr_html_()


def test_nothing_is_repeated(codes: Path, tmp_path: Path) -> None:
    """VOLT's own file keeps the notes; it, a pickled copy, an encoder and a stream do not warn."""
    with pytest.warns(VoltWarning):
        vocabulary = volt.read_vocabulary(codes)
    vocabulary.save(tmp_path / "own.volt")
    (tmp_path / "text").write_text("the\n", encoding="utf-8")
    source = f"{{path: {tmp_path / 'text'}, epochs: 1, transforms: [{{encode: {{vocabulary: {codes}}}}}]}}"
    (tmp_path / "stream.yaml").write_text(
        f"seed: 1\nsources: {{text: {source}}}\n", encoding="utf-8"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = volt.read_vocabulary(tmp_path / "own.volt")
        assert own.notes == pickle.loads(pickle.dumps(vocabulary)).notes == vocabulary.notes
        lines = list(volt.Stream.from_config(tmp_path / "stream.yaml"))
    assert lines == [" ".join(volt.Encoder(own).encode("the"))]


def test_a_tokenizer_in_memory_warns_of_added_tokens() -> None:
    """A pruned vocabulary is closed for transformers, so ids are added: a warning states the rows of an embedding."""
    pytest.importorskip("transformers")
    from volt.ext.transformers import tokenizer

    letters = {"marker": "none", "pretokenizer": "bytes"}
    full = Vocabulary((("t", "h"), ("th", "e")), ("t", "h", "e", "th", "the"), **letters)
    pruned = replace(full, tokens=("t", "h", "e", "the"))
    with pytest.warns(VoltWarning, match="1 token is added, with the id 8.* needs 9 rows.*closed"):
        tokenizer(pruned)
    with warnings.catch_warnings():
        warnings.simplefilter("error", VoltWarning)
        tokenizer(full)
