"""Laws of encoding by declared patterns: all paths agree, text comes back, and a file keeps the declaration."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from batches import any_lines, plain_ids
from drawn import examples
from exports import LINES, learn
from hypothesis import example, given, settings

import volt
from volt.encode.encoder import Encoder
from volt.text.byte_alphabet import ALPHABET
from volt.text.pretokenizer import PreTokenizer

CUTS = [
    ("cl100k", "characters"),
    ("o200k", "bytes"),
    ("deepseek3", "bytes"),
    (r" ?\w+", "characters"),
]


@cache
def encoder(
    pattern: str, level: str, normalizer: str = "none", user: tuple[str, ...] = ()
) -> Encoder:
    return Encoder(
        learn(
            LINES, "none", PreTokenizer.of_pattern(pattern, level=level).name, normalizer, user=user
        )
    )


@pytest.mark.parametrize(("pattern", "level"), CUTS)
@given(lines=any_lines)
@example(lines=["low\r", "", "\n", "a<url>b", "\U0010f000"])
@settings(max_examples=examples(20), deadline=None)
def test_batches_are_what_lines_give(pattern: str, level: str, lines: list[str]) -> None:
    """Whole texts and lines one by one have the same ids, with user tokens and normal forms too."""
    for one in (encoder(pattern, level), encoder(pattern, level, "nfkc", ("<url>",))):
        found = one.encode_batch(lines)
        assert [ids.tolist() for ids in found] == plain_ids(one, lines)
        for line in lines:
            assert [piece for piece, *_ in one.encode_offsets(line)] == one.encode(line)


@pytest.mark.parametrize("pattern", ["cl100k", "o200k", "digits3-right"])
@given(lines=any_lines)
@settings(max_examples=examples(20), deadline=None)
def test_bytes_give_the_text_back(pattern: str, lines: list[str]) -> None:
    """Encoding and decoding any text is no change, for there is nothing unknown."""
    one = encoder(pattern, "bytes")
    tokens = tuple(dict.fromkeys([*ALPHABET, *one.vocabulary.tokens]))
    known = Encoder(replace(one.vocabulary, tokens=tokens))
    assert known.decode_batch(known.encode_batch(lines)) == lines


def test_files_keep_the_declaration(tmp_path: Path) -> None:
    """A saved vocabulary holds the splits themselves, and encodes as before."""
    for pattern, level in CUTS:
        one = encoder(pattern, level)
        one.vocabulary.save(tmp_path / "v.volt")
        again = volt.Vocabulary.load(tmp_path / "v.volt")
        assert again.pretokenizer.splits == one.vocabulary.pretokenizer.splits != ()
        assert again.fingerprint == one.vocabulary.fingerprint
        assert (Encoder(again).encode_batch(LINES).ids == one.encode_batch(LINES).ids).all()


def test_dropout_cuts_into_the_same_words() -> None:
    """With every merge passed over, the pieces are the atoms of the words."""
    one = encoder("cl100k", "characters")
    drawn = one.encode_batch(LINES, dropout=1.0, seed=1)
    atoms = [
        one.ids(list("".join(one.vocabulary.pretokenizer.split(line)))).tolist() for line in LINES
    ]
    assert [ids.tolist() for ids in drawn] == atoms
