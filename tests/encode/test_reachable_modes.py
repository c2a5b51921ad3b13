"""What text can produce, however merges go, and where words are looked up whole."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from merging_modes import vocabularies

from volt.encode.encoder import Encoder
from volt.encode.reachable import reach
from volt.vocabulary import Vocabulary

WORDS = ["".join(letters) for n in range(1, 6) for letters in product("abcx", repeat=n)]


@settings(max_examples=8, deadline=None)
@given(vocabularies(longest=4))
def test_tokens_that_brute_force_finds_are_those_that_text_can_produce(
    vocabulary: Vocabulary,
) -> None:
    """Of all words of up to five letters, one of them unknown, and the tokens themselves, the pieces are exactly the
    tokens said to be reached, and each text shown gives its token."""
    found, encoder = reach(vocabulary), Encoder(vocabulary)
    spelled = [
        word
        for token in vocabulary.tokens
        if (word := token.removesuffix("</w>").removeprefix("▁"))
    ]
    words = [*WORDS, *(word for text in spelled for word in (text, f"x{text}", f"{text}x"))]
    pieces = {piece for pieces in encoder.encode_words(words) for piece in pieces}
    assert set(found.texts) == pieces & set(vocabulary.tokens)
    assert set(found.never.values()) <= {"merges"}
    assert not found.undecided
    lines = encoder.encode_lines(found.texts.values())
    assert [
        token for token, line in zip(found.texts, lines, strict=True) if token not in line
    ] == []


def test_a_word_that_text_never_holds() -> None:
    """A token that only a whole word can be is reached, with its marker, unless words are cut inside it."""
    tokens = ("a", "b", "ab", "a b", "b!", "一", "一ab")
    found = reach(Vocabulary((), tokens, marker="none", pretokenizer="unicode", whole_words=True))
    assert set(found.texts) == {"a", "b", "ab", "一", "一ab"}
    assert found.never == {"a b": "pretokenizer", "b!": "pretokenizer"}
    for marker, token in (("suffix", "ab</w>"), ("prefix", "▁ab")):
        found = reach(Vocabulary((), ("ab", token), marker=marker, whole_words=True))
        assert (found.texts, found.never) == ({token: "ab"}, {"ab": "merges"})
    bytes_ = Vocabulary((), ("a", "Ã", "Ã©"), marker="none", pretokenizer="bytes", whole_words=True)
    assert (reach(bytes_).texts["Ã©"], reach(bytes_).never) == ("é", {})
