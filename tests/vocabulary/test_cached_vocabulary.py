"""Laws of cached vocabularies: a cached vocabulary equals the one that its file contains now."""

import json
import os
import pickle
from copy import copy
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.batches import ids_of
from support.vocabularies import vocabularies

import volt
from volt.encode import merge_tables
from volt.encode.encoder import Encoder
from volt.encode.rendering import Rendering
from volt.errors import ConfigError, VocabularyError
from volt.formats.registry import read_vocabulary, write_vocabulary
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary, cached_vocabulary
from volt.vocabulary.file_format import VocabularyFile

SMALL = Vocabulary(
    merges=(("l", "o"), ("lo", "w")),
    tokens=("l", "o", "w", "low"),
    marker="none",
    pretokenizer="bytes",
)
OTHER = Vocabulary(SMALL.merges, ("o", "l", "w", "low"), marker="none", pretokenizer="bytes")
NAMES = [
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
]


@pytest.fixture(autouse=True)
def caches_all(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cached_vocabulary, "SIZES", range(1 << 20))


def calls_of(monkeypatch, owner, name):
    """Replace a function by one that records its calls, and return the growing list of calls."""
    calls = []
    function = getattr(owner, name)

    def called(*args, **kwargs):
        calls.append(args)
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, called)
    return calls


@given(vocabularies(), st.booleans())
def test_a_cached_vocabulary_equals_the_one_of_the_file(vocabulary, has_order):
    """All properties of a vocabulary, and the pieces and ids of texts, are equal when a file is
    read and when the cache is.
    """
    if has_order:
        vocabulary = replace(vocabulary, order=("", *vocabulary.pieces))
    texts = ["low lower ab ba", " 😀 \u2028ü", "".join(vocabulary.tokens)]
    encoder = Encoder(vocabulary)
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.volt")
        vocabulary.save(path)
        for _ in range(2):
            loaded = Vocabulary.load(path)
            assert loaded == vocabulary
            for name in NAMES:
                assert getattr(loaded, name) == getattr(vocabulary, name)
            cached = Encoder(loaded)
            assert ids_of(cached.encode_batch(texts)) == ids_of(encoder.encode_batch(texts))
            assert cached.encode_lines(texts) == encoder.encode_lines(texts)


@pytest.mark.parametrize("merging", ["steps", "ranks"])
def test_encoding_with_a_cached_vocabulary_builds_no_strings(tmp_path, merging):
    """Encoding known characters, `repr`, the size, the number of ids, pickling and copying build none of a
    cached vocabulary's strings.
    """
    path = tmp_path / "a.volt"
    vocabulary = replace(SMALL, merging=merging, whole_words=True)
    vocabulary.save(path)
    expected = ids_of(Encoder(vocabulary).encode_batch(["lowlo", "lo"]))
    for is_cached in (False, True):
        loaded = Vocabulary.load(path)
        assert ids_of(Encoder(loaded).encode_batch(["lowlo", "lo"])) == expected
        if not is_cached:
            continue
        assert repr(loaded) == repr(vocabulary)
        assert (len(loaded), loaded.size) == (len(vocabulary), vocabulary.size)
        assert loaded.unk_id == vocabulary.unk_id
        copied = pickle.loads(pickle.dumps(copy(loaded)))
        assert not {"merges", "tokens", "counts", "order", "ids", "pieces"} & vars(copied).keys()
        assert "strings" not in vars(loaded.stored)
        assert copied == vocabulary


def test_tables_are_built_once(tmp_path, monkeypatch):
    """The tables of a cached vocabulary are built once, and each form of output once."""
    path = tmp_path / "a.volt"
    SMALL.save(path)
    tables = calls_of(monkeypatch, merge_tables, "_build_arrays")
    rows = calls_of(monkeypatch, Rendering, "_build_rows")
    for _ in range(3):
        encoder = Encoder(Vocabulary.load(path))
        assert encoder.encode_text(b"low\n") == b"low\n"
        assert encoder.encode_text(b"low\n", form="ids") == b"7\n"
    assert (len(tables), len(rows)) == (1, 2)


def test_a_vocabulary_with_further_special_tokens_is_cached(tmp_path, monkeypatch):
    """A vocabulary that is read with special tokens is parsed once, whatever type holds the tokens;
    other tokens and ids make another vocabulary.
    """
    path = tmp_path / "a.volt"
    SMALL.save(path)
    calls = calls_of(monkeypatch, VocabularyFile, "read")
    for _ in range(2):
        for special in ({"<end>": 9}, {"<end>": 8}, ["<end>"], {"<end>"}, iter(["<end>"])):
            number = special["<end>"] if isinstance(special, dict) else 11  # after all others
            loaded = read_vocabulary(path, special=special, eos={"<eos>": 10})
            assert loaded.ids["<end>"] == number
            assert loaded.special.user == ("<end>",)
            assert loaded.special.eos == "<eos>"
    assert len(calls) == 1
    for _ in range(2):
        with pytest.raises(ConfigError, match="the id 5 of '<end>' belongs to 'o'"):
            read_vocabulary(path, special={"<end>": 5})


def test_a_cached_vocabulary_has_no_other_attributes(tmp_path):
    """A cached vocabulary raises AttributeError for an unknown name, as any object does."""
    SMALL.save(tmp_path / "a.volt")
    for loaded in (SMALL, Vocabulary.load(tmp_path / "a.volt")):
        with pytest.raises(AttributeError, match="'Vocabulary' object has no attribute 'token'"):
            attrgetter("token")(loaded)


def test_a_file_is_parsed_once(tmp_path, monkeypatch):
    """A file is parsed again only if its content changes, or if it is too small to be cached; a
    copy with equal content is not parsed.
    """
    path = tmp_path / "a.volt"
    SMALL.save(path)
    calls = calls_of(monkeypatch, VocabularyFile, "read")
    assert [Vocabulary.load(path) for _ in range(3)] == [SMALL] * 3
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.volt").write_bytes(path.read_bytes())
    assert volt.read_vocabulary(tmp_path / "b" / "a.volt") == SMALL
    assert len(calls) == 1
    OTHER.save(path)
    assert Vocabulary.load(path) == OTHER
    assert len(calls) == 2
    monkeypatch.setattr(cached_vocabulary, "SIZES", range(1 << 19, 1 << 28))
    assert [Vocabulary.load(path) for _ in range(2)] == [OTHER] * 2
    assert len(calls) == 4


def test_damage_is_reported_each_time(tmp_path):
    """A damaged file is refused at each reading, even if the undamaged one is cached."""
    path = tmp_path / "a.volt"
    SMALL.save(path)
    Vocabulary.load(path)
    path.write_text(path.read_text().replace('["low"]', '["lox"]'))
    for _ in range(2):
        with pytest.raises(VocabularyError, match=r"a\.volt:\d+: no merge makes 'lox'"):
            Vocabulary.load(path)


def test_any_provenance_is_cached(tmp_path):
    """A provenance that VOLT reads and does not write (NaN, a lone surrogate, deep nesting) is
    equal when the cache is read.
    """
    path = tmp_path / "a.volt"
    SMALL.save(path)
    provenance = '"provenance": {"a": NaN, "b": "\\ud800", "c": ' + "[" * 300 + "]" * 300
    path.write_text(path.read_text().replace('"provenance": {', provenance))
    first, second = (Vocabulary.load(path).provenance for _ in range(2))
    assert str(first) == str(second)
    assert [*first] == ["a", "b", "c"]


def test_a_pipe_is_read_once(tmp_path):
    """`Vocabulary.load` reads a pipe once, and not for the cache."""
    SMALL.save(tmp_path / "a.volt")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=((tmp_path / "a.volt").read_bytes(),))
    writer.start()
    assert Vocabulary.load(pipe) == SMALL
    writer.join()


def test_a_file_that_changes_meanwhile_is_not_cached(tmp_path, monkeypatch):
    """If a file is replaced while it is read, its new content is not cached as the old one."""
    path = tmp_path / "a.volt"
    read = VocabularyFile.read
    SMALL.save(path)
    first = path.read_bytes()

    def read_replaced(path):
        OTHER.save(path)
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(VocabularyFile, "read", read_replaced)
        assert Vocabulary.load(path) == OTHER
    path.write_bytes(first)
    assert Vocabulary.load(path) == SMALL


def of_bytes(special):
    tokens = (*ALPHABET, "lo", "low")
    return replace(SMALL, tokens=tokens, special=special)


@pytest.mark.filterwarnings("ignore::volt.errors.VoltWarning")
def test_a_tokenizer_is_not_out_of_date(tmp_path, monkeypatch):
    """A tokenizer.json is parsed once, by its path or its folder, until a file in its folder
    changes.
    """
    from volt.formats.huggingface import reading

    special = SpecialTokens(None, None, None, None, control=("<end>", "<url>"))
    write_vocabulary(of_bytes(special), tmp_path / "a", to="huggingface")
    path = tmp_path / "a" / "tokenizer.json"
    calls = calls_of(monkeypatch, reading.tokens, "model_merges")
    before = [read_vocabulary(place) for place in (path, path, path.parent, path)]
    assert len(calls) == 1
    assert len({one.fingerprint for one in before}) == 1
    config = path.with_name("tokenizer_config.json")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"eos_token": "<end>"}))
    after = [read_vocabulary(place) for place in (path, path)]
    assert [one.special.eos for one in (*before, *after)] == [None] * 4 + ["<end>"] * 2
    config.unlink()
    assert read_vocabulary(path).special.eos is None
    assert len(calls) == 3


@pytest.mark.filterwarnings("ignore::volt.errors.VoltWarning")
def test_each_pattern_has_its_vocabulary(tmp_path):
    """A ranks file is cached separately for each pattern. Special tokens that the caller names do
    not change the cached vocabulary.
    """
    from volt.formats.tiktoken import reading

    path = tmp_path / "a.tiktoken"
    write_vocabulary(of_bytes(SpecialTokens(None, None, None, None)), path, to="tiktoken")
    for pattern in ("cl100k", "gpt2", r"\w+|\W") * 2:
        direct = reading.read_with_pattern(path, pattern=pattern)
        cached = read_vocabulary(path, pattern=pattern)
        assert cached == direct
        assert cached.provenance == direct.provenance
        assert read_vocabulary(path, pattern=pattern, eos={"<eos>": 300}).special.eos == "<eos>"
