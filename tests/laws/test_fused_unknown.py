"""Laws of fuse_unk: a run of unknown characters in a word is one piece, in every call and in tokenizers."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.batches import ids_of
from support.slow_spans import slow_offsets

from volt.encode.batch_encoder import Encoded
from volt.encode.encoder import Encoder
from volt.formats import huggingface
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

SPECIAL = SpecialTokens(user=("<url>",))
MERGES = (("l", "o"), ("lo", "w"))
VOCABULARIES = {
    "suffix": Vocabulary(
        MERGES, ("l", "o", "w", "lo", "low", "w</w>"), special=SPECIAL, fuse_unk=True
    ),
    "metaspace": Vocabulary(
        MERGES,
        ("l", "o", "w", "lo", "low", "▁"),
        marker="none",
        pretokenizer=PreTokenizer("metaspace"),
        special=SPECIAL,
        fuse_unk=True,
    ),
}
lines_of_text = st.lists(
    st.text("low xyé😀\U0010c000", max_size=12) | st.just("xy<url>é low"), max_size=5
)


def fused(vocabulary, line):
    """Return the pieces of a line, with each run of unknown ones in a word joined."""
    plain = Encoder(replace(vocabulary, fuse_unk=False))
    pieces = []
    last = None  # the word of the last piece, if it is unknown
    for piece, _, _, word in slow_offsets(vocabulary, line, plain._tables.pieces):
        is_unknown = piece not in vocabulary.ids
        if is_unknown and last == word:
            pieces[-1] += piece
        else:
            pieces.append(piece)
        last = word if is_unknown else None
    return pieces


@pytest.mark.parametrize("kind", VOCABULARIES)
@given(lines=lines_of_text)
@example(lines=["xyz low éx", "lxxo", "x", "xlx <url>x", "é\U0010c000x"])
def test_every_call_has_the_joined_pieces(kind, lines):
    """With `fuse_unk`, every call of the encoder joins a run of unknown characters into one piece."""
    vocabulary = VOCABULARIES[kind]
    encoder = Encoder(vocabulary)
    drops = {"dropout": 1e-12, "seed": 1}
    expected = [fused(vocabulary, line) for line in lines]
    ids = [encoder.ids(pieces).tolist() for pieces in expected]
    text = "".join(f"{line}\n" for line in lines).encode()
    as_text = "".join(" ".join(pieces) + "\n" for pieces in expected)
    ids_as_text = "".join(" ".join(map(str, row)) + "\n" for row in ids)
    spans = encoder.encode_spans(lines)
    assert [encoder.encode(line) for line in lines] == expected
    assert encoder.encode_lines(lines, **drops) == expected
    assert ids_of(encoder.encode_batch(lines)) == ids
    assert ids_of(encoder.encode_batch(lines, **drops)) == ids
    assert ids_of(Encoded(spans.ids, spans.offsets)) == ids
    assert encoder.encode_text(text).decode() == as_text
    assert encoder.encode_text(text, **drops).decode() == as_text
    assert encoder.encode_text(text, form="ids").decode() == ids_as_text


def test_separators_mark_the_ends_of_fused_pieces():
    """In subword-nmt's spelling, one mark follows a run inside a word, and none follows a run that ends it."""
    text = Encoder(VOCABULARIES["suffix"]).encode_text(b"xylow lowxy\n", separator="@@")
    assert text == b"xy@@ lo@@ w low@@ xy\n"


def test_fuse_unk_is_saved(tmp_path):
    """A vocabulary file stores `fuse_unk`, and the fingerprint depends on it."""
    vocabulary = VOCABULARIES["suffix"]
    vocabulary.save(tmp_path / "a.volt")
    assert Vocabulary.load(tmp_path / "a.volt") == vocabulary
    assert replace(vocabulary, fuse_unk=False).fingerprint != vocabulary.fingerprint


@pytest.mark.parametrize("cut", ["whitespace", "metaspace"])
def test_ids_equal_those_of_tokenizers(cut, tmp_path):
    """A tokenizer.json with fuse_unk has the ids of the library, and VOLT reads the option back."""
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = replace(
        VOCABULARIES["metaspace"], pretokenizer=PreTokenizer(cut), special=SpecialTokens()
    )
    huggingface.write(vocabulary, tmp_path / "tokenizer.json")
    loaded = huggingface.read(tmp_path / "tokenizer.json")
    real = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert json.loads((tmp_path / "tokenizer.json").read_text())["model"]["fuse_unk"]
    lines = ["xyz low éx", "lxxo", "x", "xlx  xé low", "", "ééx lowé é"]
    assert loaded.fuse_unk
    expected = [line.ids for line in real.encode_batch(lines, add_special_tokens=False)]
    assert ids_of(Encoder(loaded).encode_batch(lines)) == expected


@pytest.mark.parametrize(
    "special",
    [SpecialTokens(bos="xy"), SpecialTokens(control=("xy",)), SpecialTokens(user=("xy",))],
)
def test_unknown_text_never_becomes_a_special_token(special):
    """A run of unknown characters has the id of <unk> in single calls and in batches, also if it spells a token."""
    vocabulary = replace(VOCABULARIES["metaspace"], special=special)
    encoder = Encoder(vocabulary)
    expected = encoder.encode_batch(["lo xy"], allowed_special=()).ids.tolist()
    assert vocabulary.ids["xy"] not in expected
    assert encoder.encode_ids("lo xy", allowed_special=()).tolist() == expected
    sampled = encoder.encode_ids("lo xy", allowed_special=(), dropout=0.5, seed=1)
    assert sampled[-1] == vocabulary.ids["<unk>"]
