"""Byte level with a vocabulary that lacks some bytes: each of these stays one piece, and becomes one unknown token."""

from __future__ import annotations

import pytest
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.text.byte_alphabet import ALPHABET, to_bytes
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

KEPT = [char for char in ALPHABET if char not in "ÃbâĠ"]
CUTS = ["bytes", "bytes+split: ?[a-z]+", "bytes+matches:[^ ]+"]


def encoder(cut: str, *, byte_fallback: bool = False) -> Encoder:
    """Of all bytes but four, and a merge."""
    end = "</w>" * ("matches" in cut)
    tokens = [char + mark for mark in dict.fromkeys(("", end)) for char in KEPT]
    return Encoder(
        Vocabulary(
            (("a", "c" + end),),
            (*tokens, "ac" + end),
            marker="suffix" if end else "none",
            pretokenizer=PreTokenizer(cut),
            byte_fallback=byte_fallback,
        )
    )


ENCODERS = {cut: encoder(cut) for cut in CUTS}


@pytest.mark.parametrize("cut", CUTS)
@given(st.text(st.sampled_from("abcé中Ãâ ,\U0010f000"), max_size=12))
@example("é")
@example("Ã")
@settings(deadline=None, max_examples=examples(25))
def test_a_missing_byte_is_spelled_once(cut, line):
    """Pieces spell the text, of which no byte occurs twice; what the vocabulary lacks is a piece, and unknown."""
    found = ENCODERS[cut]
    pieces = found.encode(line)
    bare = [piece.removesuffix("</w>") for piece in pieces]
    text = line.replace(" ", "") if "matches" in cut else line
    assert to_bytes("".join(bare)) == text.encode()
    known = found.vocabulary.ids
    assert all(piece in known or one in "ÃbâĠ" for piece, one in zip(pieces, bare, strict=True))
    ids = [known.get(piece, found.vocabulary.unk_id) for piece in pieces]
    assert found.encode_batch([line], n_threads=1).ids.tolist() == ids
    assert [piece for piece, *_ in found.encode_offsets(line)] == pieces
    if "matches" not in cut:
        assert found.decode(pieces) == line
