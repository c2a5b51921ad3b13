"""Laws of byte level: 256 atoms spell any text, cut as GPT-2 cuts it, and give it back."""

from __future__ import annotations

from functools import cache

import pytest
from exports import LINES, learn, texts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.text.byte_alphabet import ALPHABET, to_bytes, to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

MANY = settings(deadline=None, max_examples=150)
CUT = PreTokenizer("bytes")
USER = ("<url>", "é!")


@cache
def encoder(user=()):
    return Encoder(learn(LINES, "none", "bytes", user=user))


def test_the_alphabet_is_gpt_2_s():
    """256 different printable characters, those of tokenizers."""
    tokenizers = pytest.importorskip("tokenizers")
    assert len(set(ALPHABET)) == 256
    assert all(char.isprintable() and not char.isspace() for char in ALPHABET)
    assert set(ALPHABET) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())


@given(st.binary())
def test_bytes_and_characters_are_inverse(data):
    """Any bytes, text or not, have characters, one each, that stand for them alone."""
    assert to_bytes(to_characters(data)) == data
    assert len(to_characters(data)) == len(data)


@given(texts)
@example("▁ a▁  b\U0010effe")
@example("don't  \n\n 42 \u2028x")
@MANY
def test_text_is_cut_as_gpt_2_cuts_it(text):
    """Pre-tokens are those of tokenizers' ByteLevel, and together they are the text."""
    tokenizers = pytest.importorskip("tokenizers")
    real = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    found = CUT.split(text)
    assert found == [word for word, _ in real.pre_tokenize_str(text)]
    assert to_bytes("".join(found)).decode() == text


@given(texts)
@MANY
def test_nothing_is_unknown_and_nothing_is_lost(text):
    """Every piece of any text has an id that is not unk's, and ids decode to the text."""
    ids = encoder().encode_ids(text)
    assert 0 not in ids
    assert encoder().decode_ids(ids) == text


def test_a_vocabulary_holds_every_byte():
    """256 atoms, however little the corpus holds; without merges they encode any text byte by byte."""
    assert set(ALPHABET) <= set(learn(["a"], "none", "bytes").tokens)
    bare = Encoder(Vocabulary((), ALPHABET, marker="none", pretokenizer=CUT))
    assert bare.encode("é ") == ["Ã", "©", "Ġ"]


@given(st.lists(texts | st.sampled_from(USER), max_size=8))
@example(["<url>", "<url>", "\u0301", "  ", "<url>"])
@MANY
def test_user_tokens_survive(parts):
    """User tokens are pieces of their own wherever they stand, and the line comes back."""
    line = "".join(parts)
    pieces = encoder(USER).encode(line)
    assert sum(piece in USER for piece in pieces) == line.count("<url>") + line.count("é!")
    assert encoder(USER).decode(pieces) == line


@given(st.lists(texts | st.sampled_from(USER), max_size=8), st.booleans())
@MANY
def test_offsets_cover_the_text(parts, hides):
    """Spans go through the line without a gap; a character of several pieces belongs to each."""
    line, end = "".join(parts), 0
    for piece, start, stop in encoder(USER if hides else ()).encode_offsets(line):
        assert start in (end, end - 1)
        assert (piece.encode() if piece in USER and hides else to_bytes(piece)) in line[start:stop].encode()
        assert stop >= max(end, start + 1)
        end = stop
    assert end == len(line)
