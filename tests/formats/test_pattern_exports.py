"""Laws of exports of vocabularies with a declared pattern: tokenizers cuts alike, and others refuse them by name."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from drawn import examples
from exports import LINES, assert_agree, learn, texts
from hypothesis import example, given, settings
from hypothesis import strategies as st
from patterns import any_texts

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface, tiktoken
from volt.formats.huggingface.split_patterns import spelled
from volt.text.patterns import Split, Splitter
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens

tokenizers = pytest.importorskip("tokenizers")

NAMES = ("cl100k", "o200k", "deepseek3")
LEVELS = ("characters", "bytes")


def cut_by(pattern: str, level: str) -> str:
    return PreTokenizer.of_pattern(pattern, level=level).name


@cache
def case(pattern, level, user=()):
    """An encoder, and the library with its export."""
    vocabulary = learn(LINES, "none", cut_by(pattern, level), user=user)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        huggingface.write(vocabulary, path)
        return Encoder(vocabulary), huggingface.peer(path, vocabulary)


def assert_alike(encoder, peer, lines):
    """Piece for piece, and id for id."""
    assert_agree(encoder, peer, lines)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("pattern", NAMES)
@given(lines=st.lists(texts, min_size=1, max_size=4))
@example(lines=["", " ", "  a\n\n b", "It'S 12345 o'clock!!\r\n", "▁a ▁", "漢字かなABc\t"])
@settings(deadline=None, max_examples=examples(10))
def test_the_export_encodes_alike(pattern, level, lines):
    """Any text gives the same pieces and ids in tokenizers, which cuts by the same splits."""
    assert_alike(*case(pattern, level), lines)


@pytest.mark.parametrize("level", LEVELS)
def test_user_tokens_are_cut_out_first(level):
    """What stands beside a user token is cut by itself, there as here."""
    assert_alike(
        *case("cl100k", level, ("<url>",)),
        ["see <url>", "a<url>b 12345<url><url>6", " <url> \n<url>"],
    )


@given(text=any_texts)
@example(text="12345 a\nb  \n")
@settings(deadline=None, max_examples=examples(40))
def test_patterns_are_respelled_for_the_engine_of_tokenizers(text):
    """What Oniguruma spells otherwise gives the cuts that VOLT's own loop makes."""
    for pattern in (
        r"\p{N}{1,3}+|a$|\pL{2}|[]\u0301!-#]",
        r"\s++$|[\U00000061b]{1,2}+\p{Lu}|\x{4E00}",
    ):
        split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(spelled(pattern)), "isolated")
        assert [word for word, _ in split.pre_tokenize_str(text)] == Splitter.of(
            Split(pattern)
        ).split(text), pattern


@pytest.mark.parametrize("level", LEVELS)
def test_a_folder_of_splits_is_read_back(level, tmp_path):
    """Splits come back as they were, however Oniguruma spells them."""
    for name in (*NAMES, "llama3", "r50k"):
        vocabulary = learn(LINES, "none", cut_by(name, level))
        huggingface.write(vocabulary, tmp_path / name)
        assert huggingface.read(tmp_path / name).fingerprint == vocabulary.fingerprint


def test_what_cannot_be_carried_is_refused_by_name(tmp_path):
    """tokenizers reads no text from its end; a .tiktoken file holds no pattern."""
    from_end = learn(LINES, "none", cut_by("digits3-right", "bytes"))
    with pytest.raises(
        VocabularyError, match=r"reads text from its end, which tokenizers cannot.*digits3"
    ):
        huggingface.write(from_end, tmp_path / "m")
    with pytest.raises(
        VocabularyError, match=r"cuts bytes by one pattern, so it cannot use 'bytes\+splits:"
    ):
        tiktoken.write(from_end, tmp_path / "m.tiktoken")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["metaspace-runs", "metaspace-line"])
def test_runs_and_lines_come_back(tmp_path, name):
    """A vocabulary of runs of spaces, or of whole lines, is read back from the folder as it was."""
    made = replace(
        learn(LINES, "none", name), special=SpecialTokens(user=("<url>",)), byte_fallback=True
    )
    huggingface.write(made.closed(), tmp_path / "m")
    found = huggingface.read(tmp_path / "m")
    assert (found.pretokenizer, found.ids) == (made.pretokenizer, made.closed().ids)
