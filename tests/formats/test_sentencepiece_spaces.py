"""Laws of what stands around pieces in sentencepiece: spaces of all kinds, marks at the ends of words, normal forms."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.encode.pretokens import split_lines
from volt.formats.sentencepiece import charsmap, model_file, writing
from volt.formats.sentencepiece import model_file as module
from volt.learn.bpe import learn_bpe
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.special_tokens import SpecialTokens
from volt.text.white_space import SPLIT_SPACE
from volt.vocabulary import Vocabulary

SentencePieceNormalizer = pytest.importorskip("sentencepiece").SentencePieceNormalizer
pytest.importorskip("google.protobuf")

FEW = settings(deadline=None, max_examples=examples(25))
CORPUS = [
    "the low lower newest lowest <url> est Est",
    "zwölf Boxkämpfer jagen Viktor",
    "e\u0301te\u0301 ÉTÉ ab abc cab",
]
USER = ("<url>", "ab")
FRAGMENTS = [
    *"elowstabcézÉE1",
    "low",
    "est",
    " ",
    "  ",
    *SPLIT_SPACE,
    "<url>",
    "<s>",
    "</w>",
    "e\u0301",
    "é",
    "中中",
    "\u200b",
]
KNOWN = {*"".join(CORPUS), *SPLIT_SPACE}
lines_of_text = st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join), max_size=4)
KINDS = ["full", "pruned", "closed", "user", "bytes", "bytes only"]


def learned(marker: str, kind: str, *, normalizer: str = "none") -> Vocabulary:
    """A vocabulary in which a character that is known is known at the end of a word, too."""
    users = USER * (kind in ("user", "bytes"))
    bos, control = ("</s>", ("[INST]",)) if kind == "pruned" else (None, ())
    special = SpecialTokens("[UNK]", bos, "</s>", None, users, control)
    base = Vocabulary((), (), marker=marker, special=special, normalizer=normalizer)
    words = Counter(
        chain.from_iterable(split_lines(base, [*CORPUS, *(" ".join(line) for line in CORPUS)]))
    )
    candidates = learn_bpe(WordCounts.from_pairs(words, normalizer=normalizer), 60, marker=marker)
    made, keep = set(map("".join, candidates.merges)), Random(1)
    tokens = [
        token
        for token in candidates.tokens
        if kind != "pruned" or token not in made or keep.random() < 0.5
    ]
    if marker == "suffix":
        tokens += [token + "</w>" for token in tokens if len(token) == 1]
    vocabulary = Vocabulary(
        tuple(candidates.merges),
        tuple(token for token in dict.fromkeys(tokens) if token not in BYTE_TOKENS),
        marker=marker,
        special=special,
        normalizer=normalizer,
        byte_fallback=kind.startswith("bytes"),
        fuse_unk=not kind.startswith("bytes"),
    )
    return vocabulary.closed() if kind == "closed" else vocabulary


def written(vocabulary: Vocabulary):
    """What write says, what read gives back, and the library with the file."""
    with TemporaryDirectory() as folder:
        said = module.write(vocabulary, Path(folder, "a"))
        return said, module.read(Path(folder, "a")), module.peer(Path(folder, "a"), vocabulary)


CASES = {
    (marker, kind): written(learned(marker, kind))
    for marker in ("suffix", "prefix")
    for kind in KINDS
}


@pytest.mark.parametrize(("marker", "kind"), CASES)
@FEW
@given(lines=lines_of_text)
@example(
    lines=[*CORPUS, "", " ", *SPLIT_SPACE, "low\u3000low\x1clow", "中low 中", "<url>low<url> <url>"]
)
def test_words_end_and_start_as_in_the_library(marker, kind, lines):
    """Pieces and ids on any text with spaces of all kinds, with user tokens, unknown characters, bytes."""
    vocabulary, (said, _, peer) = learned(marker, kind), CASES[marker, kind]
    if any(
        sentence.startswith(("An unknown character at the end", "Unknown words"))
        for sentence in said
    ):
        lines = ["".join(char for char in line if char in KNOWN) for line in lines]
    encoder = Encoder(vocabulary)
    pieces = encoder.encode_lines(lines)
    assert peer.pieces(lines) == pieces
    assert peer.ids(lines) == [encoder.ids(line).tolist() for line in pieces]


@pytest.mark.parametrize(("marker", "kind"), CASES)
def test_reading_undoes_writing(marker, kind):
    """Markers, roles that are missing or share a token, control and user tokens, ids and merges come back."""
    assert CASES[marker, kind][1].fingerprint == learned(marker, kind).fingerprint


@pytest.mark.parametrize("marker", ["suffix", "prefix"])
@pytest.mark.parametrize("normalizer", ["nfc", "lowercase", "nfc+lowercase"])
def test_normal_forms_are_written(marker, normalizer):
    """A letter and its mark, and capitals, are encoded as here; the normaliser comes back."""
    vocabulary = learned(marker, "full", normalizer=normalizer)
    _, back, peer = written(vocabulary)
    lines = [
        "e\u0301te\u0301 E\u0301TE\u0301 É",
        "LOWEST Lower\u3000zwo\u0308lf",
        "ê\u0301 E\u0302\u0301",
        "İSTANBUL ΑΒ",
    ]
    if marker == "suffix":  # unknown words in a row are announced
        lines = [word for line in lines for word in line.split()]
    assert peer.ids(lines) == [ids.tolist() for ids in Encoder(vocabulary).encode_batch(lines)]
    assert back.fingerprint == vocabulary.fingerprint


def test_a_mark_of_the_text_ends_no_word():
    """Where "▁" ends words, one of the text is an unknown character, as it is here."""
    _, _, peer = CASES["suffix", "full"]
    lines = ["low▁est", "▁", "low ▁", "▁low"]
    assert peer.ids(lines) == [
        ids.tolist() for ids in Encoder(learned("suffix", "full")).encode_batch(lines)
    ]


def test_characters_that_end_no_known_word_are_reported():
    """sentencepiece knows them at the end of a word, too; how many there are is said."""
    vocabulary = Vocabulary((), ("a", "b", "b</w>"))
    said, _, peer = written(vocabulary)
    assert any(sentence.startswith("'a' ends no word") for sentence in said)
    assert peer.ids(["ba"]) != [Encoder(vocabulary).encode_ids("ba").tolist()]


@pytest.mark.slow
def test_no_other_characters_are_changed():
    """What the table for a normal form is made from holds all that the normaliser changes."""
    looked_at = set(chain.from_iterable(writing.CHANGED))
    others = "".join(
        chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x110000)) if code not in looked_at
    )
    assert Normalizer("nfkc", lowercase=True).normalize(others) == others


strings = st.text(alphabet="abé中\U0001f600\u0301", min_size=1, max_size=4)


@settings(deadline=None, max_examples=examples(60))
@given(
    table=st.dictionaries(strings, st.text(alphabet="xyß\u3000", max_size=3), max_size=12),
    text=st.text("abé中\0", max_size=9),
)
def test_a_table_is_read_as_the_library_reads_it(table, text):
    """Unpacked, a table is what was packed; the longest string that fits is replaced, from left to right."""
    from sentencepiece.sentencepiece_model_pb2 import NormalizerSpec

    packed = charsmap.pack(table)
    assert charsmap.unpack(packed) == table
    assert all(charsmap.unpack(packed, only=[key])[key] == value for key, value in table.items())
    assert charsmap.unpack(packed, only=[text or "a"]).get(text or "a") == table.get(text or "a")
    spec = NormalizerSpec(
        precompiled_charsmap=packed,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        escape_whitespaces=False,
    )
    expected, place = "", 0
    while place < len(text):
        key = next(
            (text[place:end] for end in range(len(text), place, -1) if text[place:end] in table),
            None,
        )
        expected, place = expected + table.get(key, text[place]), place + len(key or "a")
    assert SentencePieceNormalizer(normalizer_spec=spec).normalize(text) == expected


@pytest.mark.parametrize(
    "table",
    [b"\1", b"\0\4\0\0" + bytes(9), b"\xff\xff\xff\x7f" + bytes(2000), b"\0\4\0\0" + bytes(1023)],
)
def test_a_damaged_table_is_refused(table):
    """Sizes that do not fit."""
    with pytest.raises(module.VocabularyError, match="damaged"):
        charsmap.unpack(table)


@pytest.mark.slow
@pytest.mark.parametrize("name", model_file._N_UNLIKE)
def test_normal_forms_of_the_library_differ_as_is_reported(name):
    """In how many characters below U+20000 each differs from the one that is taken for it."""
    normalizer = Normalizer.parse(model_file._NORMALIZERS[name])
    library = SentencePieceNormalizer(
        rule_name=name,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    characters = [chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x20000))]
    ours = normalizer.apply_series(pl.Series("text", characters)).to_list()
    assert (
        sum(library.normalize(a) != b for a, b in zip(characters, ours, strict=True))
        == model_file._N_UNLIKE[name]
    )
