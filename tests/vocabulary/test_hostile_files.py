"""Laws of vocabulary files that mean harm: each is refused, in one short message that a terminal can print."""

from __future__ import annotations

import json
import pickle

import pytest

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.text.special_tokens import LONGEST, MOST_USER, SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.file_format import dump

HEAD = {
    "fingerprint": "0",
    "marker": "suffix",
    "normalizer": "none",
    "pretokenizer": "whitespace",
    "special": {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>", "user": []},
    "byte_fallback": False,
    "provenance": {},
}


def text(tokens=(("a",),), merges=(), user=(), **head) -> str:
    """A vocabulary file with these parts, and no fingerprint."""
    named = {**HEAD, "special": {**HEAD["special"], "user": list(user)}, **head}
    del named["fingerprint"]
    return dump(named, tokens=tokens, merges=merges)


MANY = [f"<{i}>" for i in range(MOST_USER + 1)]
DOUBLED = [("a" * 2**i, "a" * 2 ** (i + 1)) for i in range(12)]
HOSTILE = {
    "a long token": (
        text([("a",), ("x" * 1_000_000,)]),
        r":\d+: no merge makes 'x+'… \(1,000,000 characters\); ",
    ),
    "a long part": (
        text(merges=[("x" * 1_000_000, "a")]),
        r":\d+: 'x+'….* is neither a character nor made by an earlier merge",
    ),
    "a long row": (
        text([["y" * 1_000_000, "z"]]),
        r":\d+: found \[\"y+… \(1,000,009 characters\) instead of \[str, int\]",
    ),
    "escapes": (
        text([("a",), ("\x1b]0;x\x07\u202e",)]),
        r"no merge makes '\\x1b\]0;x\\x07\\u202e'",
    ),
    "a long special token": (
        text(user=["u" * 1_001]),
        r"'u{60}'… \(1,001 characters\) has more than 1,000",
    ),
    "many special tokens": (text(user=MANY), "16,382 user tokens, but the limit is 16,381"),
    "an unknown normaliser": (text(normalizer="\x1b[2J" * 100_000), r"unknown normalizer"),
    "a regex": (text(pretokenizer="regex:" + "(a{1000}){1000}"), "invalid pre-tokenizer regex"),
    "nested": ('{"volt": 1, "x": ' + "[" * 100_000 + "}", "damaged or cut short here"),
    "a huge number": (text([("a", 7)]).replace("7", "9" * 5_000), "damaged or cut short here"),
    "a huge version": (
        '{"volt": ' + "9" * 4_000 + "}",
        r"only a newer VOLT reads format 9{60}… \(4,000 characters\)",
    ),
    "keys twice": (
        text().replace('"marker"', '"tokens": [], "marker"'),
        "here .key 'tokens' occurs twice",
    ),
    "cut short": (text()[:-20], "damaged or cut short here"),
    "NaN": (text([("a", 7)]).replace("7", "NaN"), r"found \[\"a\", NaN\] instead of \[str, int\]"),
    "a doubling chain": (
        text(merges=DOUBLED),
        "'aa' is neither a character nor made by an earlier merge",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_a_short_message(tmp_path, name):
    """The error says what is wrong in less than 2,100 characters, all of which can be printed."""
    content, message = HOSTILE[name]
    path = tmp_path / "a\x1b[31m\n.volt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(VocabularyError, match=message) as caught:
        Vocabulary.load(path)
    error_text = str(caught.value)
    assert error_text.isprintable()
    assert len(error_text) < 2_100
    assert r"a\x1b[31m\n.volt" in error_text
    assert str(pickle.loads(pickle.dumps(caught.value))) == error_text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "MOST_BYTES",
            text([("a",)] * 50),
            "more than 400 bytes, too many for such a file; check the path",
        ),
        (
            "_MOST_MARKS",
            '{"volt": 1, "x": [' + "[]," * 400 + "0]}",
            "more than 1,048,576 tokens or merges",
        ),
    ],
)
def test_files_are_measured_before_they_are_parsed(tmp_path, monkeypatch, name, content, message):
    """Too many bytes or values are reported before anything is made of them."""
    path = tmp_path / "a.volt"
    path.write_text(content)
    monkeypatch.setattr(f"volt.vocabulary.file_format.{name}", 400)
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(VocabularyError, match=f"a.volt: {message}"):
        Vocabulary.load(path)


def test_what_could_not_be_read_is_not_saved(tmp_path, monkeypatch):
    """A vocabulary with more tokens than can be read is not written."""
    monkeypatch.setattr("volt.vocabulary.file_format.MOST_ROWS", 2)
    Vocabulary((), ("a", "b")).save(tmp_path / "a")
    with pytest.raises(VocabularyError, match="3 tokens: at most 2 can be saved"):
        Vocabulary((), ("a", "b", "c")).save(tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_provenance_that_is_no_text_is_not_saved(tmp_path):
    """A lone surrogate among it is refused, as it is in tokens, and no file appears."""
    with pytest.raises(VocabularyError, match="the provenance contains a lone surrogate"):
        Vocabulary((), ("a",), provenance={"by": "\ud800"}).save(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_the_most_and_the_longest_user_tokens_work():
    """So many user tokens of the most characters are taken, and found in a text."""
    user = (*(f"<{i}>" for i in range(MOST_USER - 1)), "x" * LONGEST)
    special = SpecialTokens(user=user)
    hidden = special.hide_text("a<7>" + user[-1])
    assert [special.revealed(ord(char)) for char in hidden] == [None, "<7>", user[-1]]
    with pytest.raises(ConfigError, match="1,000,000 user tokens, but the limit is 16,381"):
        SpecialTokens(user=("x",) * 1_000_000)


def test_nul_is_a_character_of_tokens(tmp_path):
    """A NUL in tokens and merges comes back from the file, and a text with NULs is encoded and decoded exactly."""
    vocabulary = Vocabulary(
        (("a", "\0"), ("a\0", "b</w>")), ("a", "\0", "b</w>", "a\0b</w>", "\0</w>")
    )
    vocabulary.save(tmp_path / "a.volt")
    encoder = Encoder(loaded := Vocabulary.load(tmp_path / "a.volt"))
    assert loaded == vocabulary
    assert encoder.encode("a\0b \0") == ["a\0b</w>", "\0</w>"]
    (tmp_path / "text").write_bytes(text := b"a\0b \0\n\0\na\0b\n")
    for encoded in (
        encoder.encode_file(tmp_path / "text"),
        encoder.encode_file(tmp_path / "text", errors="replace"),
    ):
        assert encoder.decode_bytes(encoded) == text
