"""Laws of byte level: 256 atoms spell any text, which is split as by GPT-2, and restored."""

import re
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.exports import LINES, learn, texts

from volt.encode.encoder import Encoder
from volt.text.byte_alphabet import ALPHABET, readable, to_bytes, to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN
from volt.vocabulary import Vocabulary

MANY = settings(deadline=None, max_examples=examples(150))
CUT = PreTokenizer("bytes")
USER = ("<url>", "é!")


@cache
def encoder(user=()):
    return Encoder(learn(LINES, "none", "bytes", user=user))


def test_the_alphabet_is_from_gpt2():
    """The alphabet has 256 different printable characters, as in `tokenizers`."""
    tokenizers = pytest.importorskip("tokenizers")
    assert len(set(ALPHABET)) == 256
    assert all(char.isprintable() and not char.isspace() for char in ALPHABET)
    assert set(ALPHABET) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())


@given(st.binary())
def test_bytes_and_characters_are_inverse(data):
    """`to_bytes(to_characters(data))` is the data, and each byte has one character, for any bytes."""
    assert to_bytes(to_characters(data)) == data
    assert len(to_characters(data)) == len(data)


@given(texts)
@example("▁ a▁  b\U0010bffe")
@example("\U0010ffff\U0010ffff?▁! \U0010ffff!  ▁?")
@example("don't  \n\n 42 \u2028x")
@MANY
def test_text_is_cut_as_gpt_2_cuts_it(text):
    """The pre-tokenizer "bytes" splits as ByteLevel of `tokenizers`, and its words join to the
    text.
    """
    tokenizers = pytest.importorskip("tokenizers")
    real = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    found = CUT.split(text)
    assert found == [word for word, _ in real.pre_tokenize_str(text)]
    assert to_bytes("".join(found)).decode() == text


def test_no_character_is_lost():
    """The words of a text of all 1,112,064 characters, in the byte alphabet, spell that text."""
    text = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    private = {
        code: chr(code).encode().decode("latin-1") for code in range(FIRST_HIDDEN, LAST_HIDDEN + 1)
    }
    byte_of = {ord(character): byte for byte, character in enumerate(ALPHABET)}
    found = "".join(CUT.split(text)).translate(byte_of | private).encode("latin-1")
    assert found.decode() == text


@pytest.mark.parametrize("level", ["whitespace", "unicode", "gpt2", "metaspace", "bytes"])
@pytest.mark.parametrize("marker", ["none", "suffix"])
def test_characters_with_other_meanings_are_restored(level, marker):
    """Encoding restores noncharacters, private characters, and text that spells byte tokens or
    markers.

    Only "▁" becomes a space, where pre-tokens show spaces as "▁".
    """
    if level == "bytes" and marker == "suffix":
        pytest.skip("bytes need no marker")
    shown = "\U0010ffff \U0010ffff! \U0010ffff? \ufffe \U000fffff \U0010f000 \U0010fffd <0x0A> Ġ ĊĠ â a</w>b </w> \0 \ue000"
    atoms = ALPHABET if level == "bytes" else (*sorted({*shown} - {" "}), "▁")
    made = Vocabulary(
        (), atoms, marker=marker, pretokenizer=PreTokenizer(level), byte_fallback=True
    )
    for text, expected in (
        (shown, shown),
        ("x▁y", "x▁y" if level in ("bytes", "whitespace") else "x y"),
    ):
        if level == "whitespace" and marker == "none":
            text, expected = text.replace(" ", ""), expected.replace(" ", "")
        ids = Encoder(made).encode_ids(text)
        assert (0 in ids, Encoder(made).decode_ids(ids)) == (False, expected)
        assert Encoder(made).decode(Encoder(made).encode(text)) == expected


@given(texts)
@MANY
def test_every_text_has_known_ids(text):
    """In the byte alphabet, every text is encoded without `<unk>`, and its ids decode to the text."""
    ids = encoder().encode_ids(text)
    assert 0 not in ids
    assert encoder().decode_ids(ids) == text


def test_a_vocabulary_contains_every_byte():
    """Even a tiny corpus has 256 atoms, which without merges encode any text byte by byte."""
    assert set(ALPHABET) <= set(learn(["a"], "none", "bytes").tokens)
    bare = Encoder(Vocabulary((), ALPHABET, marker="none", pretokenizer=CUT))
    assert bare.encode("é ") == ["Ã", "©", "Ġ"]


@given(st.lists(texts | st.sampled_from(USER), max_size=8))
@example(["<url>", "<url>", "\u0301", "  ", "<url>"])
@MANY
def test_user_tokens_are_pieces(parts):
    """Each user token is one piece, anywhere in a line, and the line is restored."""
    line = "".join(parts)
    pieces = encoder(USER).encode(line)
    assert sum(piece in USER for piece in pieces) == line.count("<url>") + line.count("é!")
    assert encoder(USER).decode(pieces) == line


@given(st.lists(texts | st.sampled_from(USER), max_size=8), st.booleans())
@MANY
def test_offsets_cover_the_text(parts, hides):
    """In the byte alphabet, the spans of the pieces cover the line without gaps. Spans overlap only in
    a character whose bytes are split between pieces."""
    line = "".join(parts)
    user = USER if hides else ()
    end = 0
    for piece, start, stop in encoder(user).encode_offsets(line):
        spelled = piece.encode() if piece in user else to_bytes(piece)
        assert start in (end, end - 1)
        assert spelled in line[start:stop].encode()
        assert stop >= max(end, start + 1)
        end = stop
    assert end == len(line)


@given(st.binary() | st.text().map(str.encode))
def test_invalid_bytes_are_escaped(data):
    """`readable` shows bytes that are not UTF-8 as <0xNN>, and other bytes as their text."""
    parts = re.split(r"(<0x[0-9A-F]{2}>)", readable(to_characters(data)))
    back = b"".join(
        bytes([int(part[3:5], 16)]) if place % 2 else part.encode()
        for place, part in enumerate(parts)
    )
    assert back == data or b"<0x" in data
