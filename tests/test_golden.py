"""Bytes that must not change: streams, their states, vocabularies and ids, as an earlier version wrote them."""

import json
from itertools import islice

import pytest
from support.golden import check, digest, golden

import volt
from volt.stream import Stream
from volt.stream.example_streams import RECIPES, write_recipe

STREAMS = sorted(RECIPES)
TEXT = "".join(
    f"the {a}er the {b}est words of {a}ing {b}s\n"
    for a in ("low", "wide", "new")
    for b in ("old", "big")
)
OPTIONS = {
    "words": {},
    "bytes": {"pretokenizer": "bytes"},
    "metaspace": {"pretokenizer": "metaspace"},
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_equal_the_golden_lines(name, tmp_path, monkeypatch):
    """Each example stream delivers the stored lines, and continues from a stored state."""
    write_recipe(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    with Stream.from_config("stream.yaml") as stream:
        first = "\n".join(islice(stream, 300)).encode()
        state = json.loads(json.dumps(stream.state()))
        rest = "\n".join(islice(stream, 200)).encode()
    stored = golden(
        f"stream {name}", {"first": digest(first), "state": state, "rest": digest(rest)}
    )
    assert (digest(first), digest(rest)) == (stored["first"], stored["rest"])
    with Stream.from_config("stream.yaml") as stream:
        stream.restore(stored["state"])
        assert digest("\n".join(islice(stream, 200)).encode()) == stored["rest"]


@pytest.mark.parametrize("name", OPTIONS)
def test_vocabularies_equal_the_golden_bytes(name, tmp_path):
    """A search writes the stored bytes of a vocabulary, whose encoder returns the stored ids."""
    corpus, path = tmp_path / "corpus.txt", tmp_path / "corpus.volt"
    corpus.write_text(TEXT)
    result = volt.search(
        volt.learn_bpe(volt.count_words(str(corpus), **OPTIONS[name]), n_merges=60)
    )
    result.vocabulary.save(path)
    ids = volt.Encoder(result.vocabulary).encode_batch(TEXT.splitlines()).ids
    check(f"vocabulary {name}", {"file": digest(path.read_bytes()), "ids": digest(ids.tobytes())})
