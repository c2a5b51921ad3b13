"""Laws of `train`: it is counting, learning and searching in one call."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

import volt
from volt.errors import VoltError, VoltWarning

LINES = [f"the square of {root} is {root**2}, and its cube {root**3}" for root in range(15_000)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"epochs": 11},
        {"level": "bytes", "multiple_of": 64},
        {"pattern": "cl100k", "level": "bytes", "epochs": 10},
        {"normalizer": "lowercase", "pretokenizer": "metaspace", "byte_fallback": True},
        {"coverage": 0.99, "marker": "prefix", "special": volt.SpecialTokens(user=("cube",))},
    ],
)
def test_auto_is_the_pick_of_a_search(options):
    """With size="auto", the vocabulary is that of `learn_enough` and `search`."""
    warnings.simplefilter("ignore", VoltWarning)  # pytest restores the filters
    vocabulary = volt.train(LINES, **options)
    chosen = dict(options)
    training = volt.Training(epochs=chosen.pop("epochs", None))
    learning = {name: chosen.pop(name) for name in ("coverage", "marker") if name in chosen}
    names = ("multiple_of", "byte_fallback", "special")
    searching = {name: chosen.pop(name) for name in names if name in chosen}
    counts = volt.count_words(texts=LINES, special=searching.get("special"), **chosen)
    candidates = volt.learn_enough(counts, training=training, **learning)
    result = volt.search(candidates, training=training, **searching)
    assert (vocabulary, vocabulary.provenance) == (
        result.vocabulary,
        result.vocabulary.provenance,
    )


@given(
    size=st.integers(257, 900),
    level=st.sampled_from(["characters", "bytes"]),
    byte_fallback=st.booleans(),
    multiple_of=st.sampled_from([1, 1, 64]),
    user=st.sampled_from([(), ("the", "and its"), ("squar",)]),
)
@settings(max_examples=examples(40), deadline=None)
def test_a_size_is_that_of_a_search(size, level, byte_fallback, multiple_of, user):
    """With a size, the vocabulary is that of `search` with this size, which counts all tokens."""
    special = volt.SpecialTokens(user=user)
    options = {
        "byte_fallback": byte_fallback and level == "characters",
        "multiple_of": multiple_of,
        "special": special,
    }
    vocabulary = volt.train(LINES, size=size, level=level, **options)
    counts = volt.count_words(texts=LINES, level=level, special=special)
    result = volt.search(volt.learn_bpe(counts), select=size, **options)
    assert vocabulary == result.vocabulary
    assert 0 <= result.best.size - size < multiple_of
    assert len(vocabulary) % multiple_of == 0
    text = LINES[7]
    assert volt.Encoder(vocabulary).decode(volt.Encoder(vocabulary).encode(text)) == text


def test_files_give_the_vocabulary_of_the_command(tmp_path):
    """`train(sources=…)` and `train(texts)` return what `volt search` writes, whatever is in it."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    out = tmp_path / "corpus.volt"
    command = [sys.executable, "-m", "volt_cli", "search", corpus, "-q", "-o", out]
    subprocess.run([*command, "--level", "bytes", "--epochs", "2"], check=True, timeout=120)
    for texts in ({"sources": corpus}, {"texts": iter(LINES)}):
        saved = tmp_path / "saved.volt"
        volt.train(**texts, level="bytes", epochs=2).save(saved)
        assert saved.read_bytes() == out.read_bytes()


def test_warnings_of_the_search_are_warned_of():
    """A warning of `volt search` is a VoltWarning in Python."""
    with pytest.warns(VoltWarning, match="5 words are a tiny corpus"):
        volt.train(["low low lower lower lowest"])


BAD = [
    ("size is 900,000, but this text gives only 5 tokens; lower size", ["low low"] * 3, {"size": 900_000}),
    ("size 2 is below the 3 atoms", ["low low"], {"size": 2}),
    ("nothing to merge", ["a b"], {"size": 2}),
    ("nothing to merge", ["a b"], {}),
    ("size is 'big' (str); give a number of tokens, such as 8000, or \"auto\"", ["a"], {"size": "big"}),
    ("size is None; give a number", ["a"], {"size": None}),
    ("texts is 'corpus.txt' (str); did you mean texts=[text], or sources=path?", "corpus.txt", {}),
    ("texts contains names of files", [__file__], {}),
    ("texts[1] is None", ["a", None], {}),
    ("texts exclude sources, fields", ["a"], {"sources": "a.txt"}),
    ("size is 9, but epochs or read would choose it; remove one", ["a"], {"size": 9, "epochs": 2}),
    ("epochs and read both give", ["a"], {"epochs": 2, "read": 3}),
    ("no such file; check the path; did you mean texts=?", None, {"sources": ["low lower"]}),
    ("sources is None; give a path, or a list of paths; did you mean texts=?", None, {}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "texts", "options"), BAD)
def test_wrong_calls_say_what_to_do(message, texts, options):
    """A wrong call is refused with the reason and a remedy."""
    warnings.simplefilter("ignore", VoltWarning)  # pytest restores the filters
    with pytest.raises(VoltError) as caught:
        volt.train(texts, **options)
    assert message in str(caught.value)


def test_the_module_is_lazy():
    """The function is public, and its module is imported at its first use."""
    assert volt.train.__module__ == "volt.choose.train"
    assert Path(sys.modules["volt.choose.train"].__file__).name == "train.py"


def test_an_unknown_argument_is_named():
    """train names itself in the error for an argument that it does not have."""
    with pytest.raises(TypeError, match=r"train\(\) got an unexpected keyword argument 'select'"):
        volt.train(["low"], select="knee")
