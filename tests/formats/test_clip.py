"""CLIP's tokenizer.json: lowered text, words of bytes that end in "</w>"; offsets and decoding of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from volt.encode.decoder import decode
from volt.encode.encoder import Encoder
from volt.formats.registry import read_vocabulary
from volt.text.byte_alphabet import ALPHABET

PATTERN = r"<\|endoftext\|>|'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
MERGES = ["t h", "th e</w>", "c a", "ca t</w>", "Ã ©</w>", "1 2</w>", "! !</w>"]
LINES = [
    "The CAT  sat",
    "the caté, café!! 12's",
    "<|endoftext|>the cat<|endoftext|>",
    "我们 😀",
    " ",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file of this kind."""
    pieces = [
        *ALPHABET,
        *(letter + "</w>" for letter in ALPHABET),
        *(merge.replace(" ", "") for merge in MERGES),
    ]
    end = {"id": len(pieces), "content": "<|endoftext|>", "special": True, "normalized": False}
    data = {
        "version": "1.0",
        "added_tokens": [{**end, "single_word": False, "lstrip": False, "rstrip": False}],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "NFC"},
                {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
                {"type": "Lowercase"},
            ],
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": PATTERN},
                    "behavior": "Removed",
                    "invert": True,
                },
                {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": True,
                },
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<|endoftext|>",
            "end_of_word_suffix": "</w>",
            "continuing_subword_prefix": "",
            "vocab": {piece: number for number, piece in enumerate([*pieces, "<|endoftext|>"])},
            "merges": MERGES,
        },
    }
    place = tmp_path_factory.mktemp("clip") / "tokenizer.json"
    place.write_text(json.dumps(data), encoding="utf-8")
    return place


def lines() -> list[str]:
    """Lines of the parts of some, put together at random."""
    chance, parts = random.Random(3), [part for line in LINES for part in (*line.split(" "), " ")]
    return [*LINES, *("".join(chance.choices(parts, k=6)) for _ in range(60))]


def test_ids_are_those_of_the_library(path: Path) -> None:
    """Every line has tokenizers' ids."""
    tokenizers = pytest.importorskip("tokenizers")
    theirs, encoder = tokenizers.Tokenizer.from_file(str(path)), Encoder(read_vocabulary(path))
    for line in lines():
        assert (
            encoder.ids(encoder.encode(line)).tolist()
            == theirs.encode(line, add_special_tokens=False).ids
        ), line


def test_pieces_spell_their_words_with_a_space_between(path: Path) -> None:
    """Decoded, a line is its words as they were normalised; encoding that gives the same pieces."""
    vocabulary = read_vocabulary(path)
    encoder = Encoder(vocabulary)
    assert decode(vocabulary, encoder.encode("The CAT  caté!!")).split() == [
        "the",
        "cat",
        "caté",
        "!!",
    ]
    for line in lines():
        pieces = encoder.encode(line)
        assert encoder.encode(decode(vocabulary, pieces)) == pieces, line


def test_offsets_are_where_pieces_stand(path: Path) -> None:
    """Pieces with offsets are those without; on ASCII lines they stand where tokenizers says."""
    tokenizers = pytest.importorskip("tokenizers")
    theirs, encoder = tokenizers.Tokenizer.from_file(str(path)), Encoder(read_vocabulary(path))
    for line in lines():
        found = encoder.encode_offsets(line)
        assert [piece for piece, _, _ in found] == encoder.encode(line)
        if line.isascii():
            assert [(start, end) for _, start, end in found] == theirs.encode(
                line, add_special_tokens=False
            ).offsets


@pytest.mark.parametrize(
    ("late", "note"),
    [
        (False, "that the pattern names is cut otherwise there"),
        (True, "found in normalised text there"),
    ],
)
def test_capitals_that_spell_a_lowered_token_are_announced(
    path: Path, tmp_path: Path, late: bool, note: str
) -> None:
    """<|ENDOFTEXT|> is lowered to the token's name: the library finds the token, or cuts its text; a note says so."""
    tokenizers = pytest.importorskip("tokenizers")
    data = json.loads(path.read_text())
    data["added_tokens"][0]["normalized"] = late
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    theirs, found = (
        tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")),
        read_vocabulary(tmp_path),
    )
    encoder, text = Encoder(found), "the <|ENDOFTEXT|>"
    assert encoder.encode_ids(text).tolist() != theirs.encode(text).ids
    assert any(note in one for one in found.provenance["lost"])
    for line in LINES:
        assert encoder.encode_ids(line).tolist() == theirs.encode(line).ids
