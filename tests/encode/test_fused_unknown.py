"""Laws of runs of unknown characters that are one piece: every way of encoding gives the same, as does tokenizers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.encode.offsets import encode_offsets
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


def fused(vocabulary: Vocabulary, line: str) -> list[str]:
    """Return the pieces of a line, with each run of unknown ones in a word joined."""
    plain, result, last = Encoder(replace(vocabulary, fuse_unk=False)), [], None
    for piece, _, _, word in encode_offsets(vocabulary, line, encode_words=plain._tables.pieces):
        is_unknown = piece not in vocabulary.ids
        result.append(piece) if not is_unknown or last != word else result.append(
            result.pop() + piece
        )
        last = word if is_unknown else None
    return result


@pytest.mark.parametrize("kind", VOCABULARIES)
@given(lines=lines_of_text)
@example(lines=["xyz low éx", "lxxo", "x", "xlx <url>x", "é\U0010c000x"])
def test_runs_are_joined_in_words(kind: str, lines: list[str]) -> None:
    """Pieces, ids, ids as text, spans and sampled ids of a line are those of the joined pieces."""
    vocabulary = VOCABULARIES[kind]
    encoder = Encoder(vocabulary)
    expected = [encoder.encode(line) for line in lines]
    assert expected == [fused(vocabulary, line) for line in lines]
    ids = [encoder.ids(pieces).tolist() for pieces in expected]
    assert [row.tolist() for row in encoder.encode_batch(lines)] == ids
    assert [row.tolist() for row in encoder.encode_batch(lines, dropout=1e-12, seed=1)] == ids
    assert encoder.encode_lines(lines, dropout=1e-12, seed=1) == expected
    spans = encoder.encode_spans(lines)
    assert [
        spans.ids[a:b].tolist() for a, b in zip(spans.offsets, spans.offsets[1:], strict=False)
    ] == ids
    text = "".join(f"{line}\n" for line in lines).encode()
    assert encoder.encode_text(text).decode().split("\n")[:-1] == [
        " ".join(pieces) for pieces in expected
    ]
    assert encoder.encode_text(text, dropout=1e-12, seed=1) == encoder.encode_text(text)
    rows = encoder.encode_text(text, form="ids").decode().split("\n")[:-1]
    assert rows == [" ".join(map(str, row)) for row in ids]


def test_separators_mark_the_ends_of_fused_pieces() -> None:
    """subword-nmt's spelling has one mark after a run inside a word, and none after a run that ends it."""
    text = Encoder(VOCABULARIES["suffix"]).encode_text(b"xylow lowxy\n", separator="@@")
    assert text == b"xy@@ lo@@ w low@@ xy\n"


def test_the_property_is_saved(tmp_path: Path) -> None:
    """A file keeps it, and vocabularies with and without it have different fingerprints."""
    vocabulary = VOCABULARIES["suffix"]
    vocabulary.save(tmp_path / "a.volt")
    assert Vocabulary.load(tmp_path / "a.volt") == vocabulary
    assert replace(vocabulary, fuse_unk=False).fingerprint != vocabulary.fingerprint


@pytest.mark.parametrize("cut", ["whitespace", "metaspace"])
def test_tokenizers_fuses_alike(cut: str, tmp_path: Path) -> None:
    """A tokenizer.json with fuse_unk has the ids of the library, and keeps the property when it is written again."""
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = replace(
        VOCABULARIES["metaspace"], pretokenizer=PreTokenizer(cut), special=SpecialTokens()
    )
    huggingface.write(vocabulary, tmp_path / "tokenizer.json")
    again, real = (
        huggingface.read(tmp_path / "tokenizer.json"),
        tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")),
    )
    assert json.loads((tmp_path / "tokenizer.json").read_text())["model"]["fuse_unk"]
    lines = ["xyz low éx", "lxxo", "x", "xlx  xé low", "", "ééx lowé é"]
    assert again.fuse_unk
    assert [row.tolist() for row in Encoder(again).encode_batch(lines)] == [
        one.ids for one in real.encode_batch(lines, add_special_tokens=False)
    ]


@pytest.mark.parametrize(
    "special",
    [SpecialTokens(bos="xy"), SpecialTokens(control=("xy",)), SpecialTokens(user=("xy",))],
)
def test_unknown_text_is_no_special_token_that_it_spells(special: SpecialTokens) -> None:
    """A run of unknown characters has the id of <unk> in single calls as in batches, whatever it spells."""
    vocabulary = replace(VOCABULARIES["metaspace"], special=special)
    encoder = Encoder(vocabulary)
    expected = encoder.encode_batch(["lo xy"], allowed_special=()).ids.tolist()
    assert vocabulary.ids["xy"] not in expected
    assert encoder.encode_ids("lo xy", allowed_special=()).tolist() == expected
    assert (
        encoder.encode_ids("lo xy", allowed_special=(), dropout=0.5, seed=1)[-1]
        == vocabulary.ids["<unk>"]
    )
