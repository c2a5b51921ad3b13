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
from volt.formats import huggingface, tiktoken
from volt.text.patterns.published import declared
from volt.text.special_tokens import SpecialTokens

CUTS = {name: name for name in ("whitespace", "metaspace", "unicode", "gpt2", "bytes")}
CUTS |= {"split": declared("cl100k"), "bytes+split": declared("cl100k", is_bytes=True)}
PLAIN = [*LINES[:4], "  two  spaces ▁ here</w> ", "1234567 Ωμέγα", " ", ""]
ALONE = ["low <url> lower <num>", "<url> wide", " <num>  <url> newest", "größer <url>"]
# Marked words that keep their spaces would begin with two marks, which tokenizers cannot write.
REFUSED = {("prefix", "metaspace"), ("prefix", "unicode"), ("prefix", "gpt2"), ("prefix", "split")}
NO_BYTES = {("suffix", "bytes"), ("suffix", "bytes+split")}  # not all bytes end words in so little text
# White space before a user token ends a word there, or lacks the mark in front of the token.
NOT_ALONE = {("prefix", "bytes"), ("prefix", "bytes+split")}


@cache
def vocabulary(marker, cut):
    """A vocabulary of all that is learned."""
    return learn(LINES, marker, CUTS[cut], n_merges=60)


@pytest.mark.parametrize(("marker", "cut"), list(product(("suffix", "prefix", "none"), CUTS)))
def test_hugging_face_is_exact_or_refuses(marker, cut):
    """Text gives the same pieces and ids with and without byte fallback, and with user tokens that stand alone; what
    the format cannot hold is refused, and nothing else is."""
    for user, fallback in product(((), ("<url>", "<num>")), (False, True)):
        found = replace(vocabulary(marker, cut), special=SpecialTokens(user=user), byte_fallback=fallback)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "t.json")
            if (marker, cut) in REFUSED | NO_BYTES:
                with pytest.raises(VocabularyError):
                    huggingface.write(found, path)
                continue
            huggingface.write(found, path)
            peer, encoder = huggingface.peer(path), Encoder(found)
            lines = PLAIN + (ALONE if user and (marker, cut) not in NOT_ALONE else [])
            if peer.ids is None:  # what the file cuts by is not read back, so pieces alone are compared
                assert peer.pieces(lines) == encoder.encode_lines(lines)
            else:
                assert_agree(encoder, peer, lines)


@pytest.mark.parametrize(("marker", "cut"), list(product(("suffix", "prefix", "none"), CUTS)))
def test_pruned_vocabularies_are_refused(marker, cut):
    """What has to be split back is refused by the formats whose libraries cannot."""
    full = vocabulary(marker, cut)
    inner = {part for pair in full.merges for part in pair} & set(map("".join, full.merges))
    pruned = replace(full, tokens=tuple(token for token in full.tokens if token != min(inner)))
    for format in (huggingface, tiktoken):
        with tempfile.TemporaryDirectory() as folder, pytest.raises(VocabularyError):
            format.write(pruned, Path(folder, "t.json"))
