"""Laws of cached vocabularies: they equal those that their files hold, in all respects, and are never out of date."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import vocabularies

import volt
from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats.registry import read_vocabulary, write_vocabulary
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary, cached_vocabulary
from volt.vocabulary.file_format import VocabularyFile

SMALL = Vocabulary(
    merges=(("l", "o"), ("lo", "w")),
    tokens=("l", "o", "w", "low"),
    marker="none",
    pretokenizer="bytes",
)
NAMES = (
    "merges",
    "tokens",
    "counts",
    "marker",
    "normalizer",
    "pretokenizer",
    "special",
    "byte_fallback",
    "provenance",
    "merging",
    "whole_words",
    "order",
    "fingerprint",
    "made",
    "atoms",
    "unmade",
    "scaffolding",
    "pieces",
    "kinds",
    "ids",
    "unk_id",
    "is_plain",
)


@pytest.fixture(autouse=True)
def caches_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cached_vocabulary, "SIZES", range(1 << 20))


def read_by(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """Return a list that grows by an item whenever a function of a reader is called."""
    calls, original = list[Any](), getattr(owner, name)
    monkeypatch.setattr(
        owner, name, lambda *args, **kwargs: (calls.append(args), original(*args, **kwargs))[1]
    )
    return calls


@given(vocabularies(), st.booleans())
def test_a_cached_vocabulary_is_the_one_of_the_file(vocabulary: Vocabulary, numbers: bool) -> None:
    """All that is known of a vocabulary, and the ids of texts, are those of the file, read or from the cache."""
    if numbers:
        vocabulary = Vocabulary(**{**vars_of(vocabulary), "order": ("", *vocabulary.pieces)})
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.volt")
        vocabulary.save(path)
        for found in (Vocabulary.load(path), Vocabulary.load(path)):
            assert found == vocabulary
            assert found.provenance == vocabulary.provenance
            assert [getattr(found, name) for name in NAMES] == [
                getattr(vocabulary, name) for name in NAMES
            ]
            texts = ["low lower ab ba", " 😀 \u2028ü", "".join(vocabulary.tokens)]
            ours, theirs = (
                Encoder(vocabulary).encode_batch(texts),
                Encoder(found).encode_batch(texts),
            )
            assert np.array_equal(ours.ids, theirs.ids)
            assert np.array_equal(ours.offsets, theirs.offsets)
            assert Encoder(found).encode_lines(texts) == Encoder(vocabulary).encode_lines(texts)


def vars_of(vocabulary: Vocabulary) -> dict[str, Any]:
    return {name: getattr(vocabulary, name) for name in Vocabulary.__dataclass_fields__}


def test_a_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its content changes; a copy elsewhere is the same content. Small files are not cached."""
    path = tmp_path / "a.volt"
    SMALL.save(path)
    calls = read_by(monkeypatch, VocabularyFile, "read")
    assert [Vocabulary.load(path) for _ in range(3)] == [SMALL] * 3
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.volt").write_bytes(path.read_bytes())
    assert volt.read_vocabulary(tmp_path / "b" / "a.volt") == SMALL
    assert len(calls) == 1
    other = Vocabulary(SMALL.merges, ("o", "l", "w", "low"), marker="none", pretokenizer="bytes")
    other.save(path)
    assert Vocabulary.load(path) == other
    assert len(calls) == 2
    monkeypatch.setattr(cached_vocabulary, "SIZES", range(1 << 19, 1 << 28))
    assert [Vocabulary.load(path) for _ in range(2)] == [other] * 2
    assert len(calls) == 4


def test_damage_is_reported_each_time(tmp_path: Path) -> None:
    """An error is not cached, and no cached vocabulary hides it."""
    path = tmp_path / "a.volt"
    SMALL.save(path)
    Vocabulary.load(path)
    path.write_text(path.read_text().replace('["low"]', '["lox"]'))
    for _ in range(2):
        with pytest.raises(VocabularyError, match=r"a\.volt:\d+: no merge makes 'lox'"):
            Vocabulary.load(path)


def test_any_provenance_that_is_read_is_cached(tmp_path: Path) -> None:
    """Provenances that VOLT does not write, but reads, come back from the cache."""
    path, nested = tmp_path / "a.volt", "[" * 300 + "]" * 300
    SMALL.save(path)
    path.write_text(
        path.read_text().replace(
            '"provenance": {', f'"provenance": {{"a": NaN, "b": "\\ud800", "c": {nested}'
        )
    )
    first, second = (Vocabulary.load(path).provenance for _ in range(2))
    assert str(first) == str(second)
    assert [*first] == ["a", "b", "c"]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """A pipe, which can be read only once, is not read for the cache."""
    SMALL.save(tmp_path / "a.volt")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=((tmp_path / "a.volt").read_bytes(),))
    writer.start()
    assert Vocabulary.load(pipe) == SMALL
    writer.join()


def test_a_file_that_changes_meanwhile_is_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another program replaces a file while it is read, the new content is not cached as the old one."""
    path, original = tmp_path / "a.volt", VocabularyFile.read
    other = Vocabulary(SMALL.merges, ("o", "l", "w", "low"), marker="none", pretokenizer="bytes")
    SMALL.save(path)
    first = path.read_bytes()

    def replaced(place: Path) -> VocabularyFile:
        other.save(place)
        return original(place)

    with monkeypatch.context() as patch:
        patch.setattr(VocabularyFile, "read", replaced)
        assert Vocabulary.load(path) == other
    path.write_bytes(first)
    assert Vocabulary.load(path) == SMALL


def written(folder: Path, change: Callable[[dict[str, Any]], None] = lambda data: None) -> Path:
    """Write a folder with a tokenizer.json of bytes, and return the file."""
    special = SpecialTokens(unk=None, bos=None, eos=None, pad=None, control=("<end>", "<url>"))
    letters = tuple(volt.text.byte_alphabet.ALPHABET)
    vocabulary = Vocabulary(
        SMALL.merges, (*letters, "lo", "low"), marker="none", pretokenizer="bytes", special=special
    )
    write_vocabulary(vocabulary, folder, to="huggingface")
    data = json.loads((folder / "tokenizer.json").read_text())
    change(data)
    (folder / "tokenizer.json").write_text(json.dumps(data))
    return folder / "tokenizer.json"


@pytest.mark.filterwarnings("ignore::volt.errors.VoltWarning")
def test_a_tokenizer_is_not_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer.json is parsed once, alone or by its folder; when a file beside it changes, it is parsed again."""
    from volt.formats.huggingface import reading

    path = written(tmp_path / "a")
    calls = read_by(monkeypatch, reading.tokens, "model_merges")
    found = [read_vocabulary(place) for place in (path, path, path.parent, path)]
    assert len(calls) == 1
    assert len({one.fingerprint for one in found}) == 1
    config = path.with_name("tokenizer_config.json")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"eos_token": "<end>"}))
    renamed = [read_vocabulary(place) for place in (path, path)]
    assert [one.special.eos for one in (*found, *renamed)] == [None] * 4 + ["<end>"] * 2
    config.unlink()
    assert read_vocabulary(path).special.eos is None
    assert len(calls) == 3


@pytest.mark.filterwarnings("ignore::volt.errors.VoltWarning")
def test_each_pattern_has_its_vocabulary(tmp_path: Path) -> None:
    """Ranks are cached for one pattern; other options do not change what is cached."""
    from volt.formats.tiktoken import reading

    path = tmp_path / "a.tiktoken"
    write_vocabulary(
        Vocabulary(
            SMALL.merges,
            (*volt.text.byte_alphabet.ALPHABET, "lo", "low"),
            marker="none",
            pretokenizer="bytes",
            special=SpecialTokens(None, None, None, None),
        ),
        path,
        to="tiktoken",
    )
    for _ in range(2):
        for pattern in ("cl100k", "gpt2", r"\w+|\W"):
            direct = reading.read_with_pattern(path, pattern=pattern)
            assert read_vocabulary(path, pattern=pattern) == direct
            assert read_vocabulary(path, pattern=pattern).provenance == direct.provenance
            assert read_vocabulary(path, pattern=pattern, eos={"<eos>": 300}).special.eos == "<eos>"
