"""The law of the table of formats: every pre-tokeniser, marker and addition is exact in the library, or refused.

experiments/LOG.md (2026-11-22) holds the same table on real text, for every format.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from exports import LINES, assert_agree, learn

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface, subword_nmt, tiktoken
from volt.formats.check import check
from volt.formats.sentencepiece import model_file as sentencepiece
from volt.text.byte_alphabet import ALPHABET
from volt.text.patterns.published import declared
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

CUTS = {name: name for name in ("whitespace", "metaspace", "unicode", "gpt2", "bytes")}
CUTS |= {"split": declared("cl100k"), "bytes+split": declared("cl100k", is_bytes=True)}
PLAIN = [*LINES[:4], "  two  spaces ▁ here</w> ", "1234567 Ωμέγα", " ", ""]
USER = ("<n", "<url>", "<nUM>")  # one begins with another, which stands before it
ALONE = ["low <url> lower <nUM>", "<url> wide", " <nUM>  <url> newest", "größer <url>"]
# Marked words that keep their spaces would begin with two marks, which tokenizers cannot write.
REFUSED = {("prefix", "metaspace"), ("prefix", "unicode"), ("prefix", "gpt2"), ("prefix", "split")}
NO_BYTES = {
    ("suffix", "bytes"),
    ("suffix", "bytes+split"),
}  # not all bytes end words in so little text
# White space before a user token ends a word there, or lacks the mark in front of the token.
NOT_ALONE = {("prefix", "bytes"), ("prefix", "bytes+split")}


@cache
def vocabulary(marker, cut):
    """A vocabulary of all that is learned."""
    return learn(LINES, marker, CUTS[cut], n_merges=60)


@pytest.mark.parametrize(("marker", "cut"), list(product(("suffix", "prefix", "none"), CUTS)))
def test_hugging_face_is_exact_or_refuses(marker, cut):
    """Pieces and ids are equal, with byte fallback or not, and normalised with user tokens that stand alone; what
    the format cannot hold is refused, and nothing else is."""
    for user, fallback in product(((), USER), (False, True)):
        form = "nfc+lowercase" if user else "none"
        special = SpecialTokens(user=user)
        found = replace(
            vocabulary(marker, cut), special=special, byte_fallback=fallback, normalizer=form
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "t.json")
            if (marker, cut) in REFUSED | NO_BYTES:
                with pytest.raises(VocabularyError):
                    huggingface.write(found, path)
                continue
            huggingface.write(found, path)
            peer, encoder = huggingface.peer(path, found), Encoder(found)
            lines = PLAIN + (ALONE if user and (marker, cut) not in NOT_ALONE else [])
            assert_agree(encoder, peer, lines)


@pytest.mark.parametrize(("marker", "cut"), list(product(("suffix", "prefix", "none"), CUTS)))
def test_pruned_vocabularies_are_refused_or_closed(marker, cut):
    """tiktoken refuses a pruned vocabulary; an export to Hugging Face closes it, and the check compares both."""
    full = vocabulary(marker, cut)
    inner = {part for pair in full.merges for part in pair} & set(map("".join, full.merges))
    pruned = replace(full, tokens=tuple(token for token in full.tokens if token != min(inner)))
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(VocabularyError):
            tiktoken.write(pruned, Path(folder, "t.json"))
        if (marker, cut) not in REFUSED | NO_BYTES:
            assert "1 token is added" in huggingface.write(pruned, Path(folder, "t.json"))[0]
            assert check(pruned.closed(), Path(folder, "t.json"), "huggingface", PLAIN).is_complete
            pieces = [Encoder(used).encode_lines(PLAIN) for used in (pruned, pruned.closed())]
            agreement = check(pruned, Path(folder, "t.json"), "huggingface", PLAIN)
            assert agreement.is_complete == (pieces[0] == pieces[1])


TWICE = (
    ("a", "b"),
    ("b", "c"),
    ("ab", "c"),
    ("c", "d"),
    ("a", "bc"),
)  # "abc" is made before and after "cd"
WORDS = list(map("".join, product("abcd", repeat=4)))


@pytest.mark.parametrize(
    ("format", "marker", "cut"),
    [
        (huggingface, "none", "metaspace"),
        (sentencepiece, "none", "metaspace"),
        (sentencepiece, "prefix", "whitespace"),
        (subword_nmt, "suffix", "whitespace"),
        (tiktoken, "none", "bytes"),
    ],
)
@pytest.mark.parametrize("order", ["ids", "merges"])
def test_a_token_that_two_merges_make_has_the_rank_of_the_first(
    format, marker, cut, order, tmp_path
):
    """Ids against the order of merges, or closed in this order: every library joins "abc" before "cd"."""
    atoms = (
        *(ALPHABET if cut == "bytes" else "▁abcd"),
        *(f"{letter}</w>" for letter in "abcd" * (marker == "suffix")),
    )
    found = Vocabulary(TWICE, (*atoms, "cd", "abc", "bc", "ab"), marker=marker, pretokenizer=cut)
    if order == "merges":
        found = replace(found, tokens=atoms).closed(order="merges")
        assert found.tokens == (*atoms, "ab", "bc", "abc", "cd")
    format.write(found, tmp_path / "t.model")
    ours = Encoder(found).encode_lines(WORDS)
    assert format.peer(tmp_path / "t.model", found).pieces(WORDS) == ours
    assert ours[WORDS.index("abcd")][-2:] == (
        ["abc", "d</w>"] if marker == "suffix" else ["abc", "d"]
    )
