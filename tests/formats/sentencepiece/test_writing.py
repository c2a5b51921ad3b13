"""Laws of exported sentencepiece models: the library encodes as VOLT does, models read back, losses
have notes.
"""

import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.exports import CORPORA, keep_half

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.encode.pretokens import split_lines
from volt.errors import VocabularyError
from volt.formats.check import check
from volt.formats.sentencepiece import model_file as module
from volt.formats.sentencepiece import writing
from volt.learn.bpe import learn_bpe
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.text.white_space import SPLIT_SPACE
from volt.vocabulary import Vocabulary

sentencepiece = pytest.importorskip("sentencepiece")
pytest.importorskip("google.protobuf")

FEW = settings(deadline=None, max_examples=examples(40))
USER = ("<url>", "ab", "abc", "🦙")
SCHEMES = [
    ("whitespace", "prefix"),
    ("metaspace", "none"),
    ("whitespace", "suffix"),
    ("metaspace-line", "none"),  # superwords
]
KINDS = ["full", "pruned", "closed", "user", "bytes", "bytes only"]
CORPUS = [
    "the lower the newest, the widest lowest low aaaaaaaa abababab",
    "zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich",
    "см. ниже: нижний, нижнего שלום עולם שלום مرحبا بالعالم",
    "東京都に行く 東京 京都 👩\u200d👩\u200d👧 👩🏽 e\u0301tude ne\u0301e ÉTÉ 각 한국어",
    "<url> see <url>! <unk> </s> <0x41> ab \ufeffbom zero\u200bwidth con\x07trol",
]
KNOWN = {*"".join(CORPUS), *SPLIT_SPACE}
FRAGMENTS = """the lowest ab abc abab aaaa <unk> </s> </w> ▁ @@ <url> <0xE2> ▁▁ е 中中
    👩\u200d👩\u200d👧 нижн 東京 שלו e\u0301 é \ufeff \x07 \x01 \u200b \U0010f000 \U0010fffd"""
texts = st.lists(
    st.sampled_from([*FRAGMENTS.split(), " ", "  ", *SPLIT_SPACE]) | st.characters(codec="utf-8"),
    max_size=14,
).map("".join)


def learned(lines, scheme, kind, *, n_merges=300, normalizer="none"):
    """Learn a vocabulary; for "pruned" and "closed", only a random half of the merges' results are
    tokens.

    A character that is a token is also a token at the end of a word. Roles are missing, or share a
    token.
    """
    cut, marker = scheme
    users = USER * (kind in ("user", "bytes"))
    bos, control = ("</s>", ("[INST]",)) if kind == "pruned" else (None, ())
    special = SpecialTokens("[UNK]", bos, "</s>", None, users, control)
    base = Vocabulary(
        (), (), marker=marker, special=special, pretokenizer=cut, normalizer=normalizer
    )
    words = Counter(chain.from_iterable(split_lines(base, [*lines, *map(" ".join, lines)])))
    options = {"normalizer": base.normalizer, "pretokenizer": base.pretokenizer}
    candidates = learn_bpe(WordCounts.from_pairs(words, **options), n_merges, marker=marker)
    reserved = {*special.all, *BYTE_TOKENS, "</w>"}
    vocabulary = replace(
        base,
        merges=tuple(candidates.merges),
        tokens=tuple(token for token in candidates.tokens if token not in reserved),
        byte_fallback=kind.startswith("bytes"),
        fuse_unk=not kind.startswith("bytes"),
    )
    if kind in ("pruned", "closed"):
        vocabulary = keep_half(vocabulary)
    if marker == "suffix":
        ends = (f"{token}</w>" for token in vocabulary.tokens if len(token) == 1)
        vocabulary = replace(vocabulary, tokens=tuple(dict.fromkeys((*vocabulary.tokens, *ends))))
    return vocabulary.closed() if kind == "closed" else vocabulary


def written(vocabulary):
    """Return the notes of writing a vocabulary, the vocabulary read back, and the library with the
    file.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        return module.write(vocabulary, path), module.read(path), module.peer(path, vocabulary)


@cache
def case(scheme, kind):
    vocabulary = learned(CORPUS, scheme, kind)
    return vocabulary, *written(vocabulary)


def assert_agree(vocabulary, notes, peer, lines):
    """Check that pieces and ids are equal, on lines without text that the notes except."""
    if vocabulary.marker == "prefix":
        lines = [" ".join(line.split()).rstrip("▁ ") for line in lines]
    if any(note.startswith(("An unknown character at the end", "Unknown words")) for note in notes):
        lines = ["".join(char for char in line if char in KNOWN) for line in lines]
    if vocabulary.marker == "suffix":
        lines = [line.replace("▁", "") for line in lines]
    encoder = Encoder(vocabulary)
    pieces = encoder.encode_lines(lines)
    assert peer.pieces(lines) == pieces
    assert peer.ids(lines) == [encoder.ids(line).tolist() for line in pieces]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
@FEW
@given(lines=st.lists(texts, max_size=4))
@example(
    lines=["", " ", "aaaaaaa", *CORPUS, *SPLIT_SPACE, "low\u3000low\x1clow", "<url>low<url> <url>"]
)
def test_sentencepiece_encodes_alike(scheme, kind, lines):
    """For any text, with unknown, combining and control characters and all kinds of spaces,
    sentencepiece's pieces and ids with the written model are VOLT's.
    """
    vocabulary, notes, _, peer = case(scheme, kind)
    assert_agree(vocabulary, notes, peer, lines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_model_reads_back(scheme, kind):
    """A written model reads back to a vocabulary with the same fingerprint."""
    vocabulary, _, again, _ = case(scheme, kind)
    assert again.fingerprint == vocabulary.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_real_text_encodes_alike(lines, corpus):
    """On each corpus, models of vocabularies that were learned on half of the lines give VOLT's
    pieces and ids on all lines.
    """
    text = lines(corpus, 1_000 if "train" in corpus else 600)
    scheme = SCHEMES[CORPORA.index(corpus) // 2 % 2]
    for kind in KINDS:
        vocabulary = learned(text[::2], scheme, kind, n_merges=1_000)
        notes, again, peer = written(vocabulary)
        assert again.fingerprint == vocabulary.fingerprint
        if not any(note.startswith("Unknown words") for note in notes):
            assert_agree(vocabulary, notes, peer, text)


@pytest.mark.parametrize("marker", ["suffix", "prefix"])
@pytest.mark.parametrize("normalizer", ["nfc", "lowercase", "nfc+lowercase"])
def test_normal_forms_are_written(marker, normalizer):
    """With the written table of replacements, sentencepiece normalises letters with marks, and
    capitals, as VOLT does; the normalizer reads back.
    """
    vocabulary = learned(CORPUS, ("whitespace", marker), "full", normalizer=normalizer)
    _, again, peer = written(vocabulary)
    assert again.fingerprint == vocabulary.fingerprint
    lines = ["e\u0301te\u0301 E\u0301TE\u0301 É", "LOWEST Lower\u3000zwo\u0308lf", "İSTANBUL ΑΒ"]
    if marker == "suffix":  # unknown words in a row have a note
        lines = [word for line in lines for word in line.split()]
    assert peer.ids(lines) == [ids.tolist() for ids in Encoder(vocabulary).encode_batch(lines)]


def test_a_mark_in_text_ends_no_word():
    """If "▁" ends words, a "▁" in text is an unknown character in sentencepiece, as in VOLT."""
    vocabulary, _, _, peer = case(SCHEMES[2], "full")
    lines = ["low▁est", "▁", "low ▁", "▁low"]
    assert peer.ids(lines) == [ids.tolist() for ids in Encoder(vocabulary).encode_batch(lines)]


def test_characters_that_end_no_token_have_a_note():
    """If a character is a token only inside words, sentencepiece also knows it at the end of a
    word. A note says so.
    """
    vocabulary = Vocabulary((), ("a", "b", "b</w>"))
    notes, _, peer = written(vocabulary)
    assert any(note.startswith("'a' ends no word") for note in notes)
    assert peer.ids(["ba"]) != [Encoder(vocabulary).encode_ids("ba").tolist()]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8),
    st.lists(st.text("▁abc", max_size=9)),
    st.data(),
)
@settings(deadline=None, max_examples=examples(100))
def test_any_merges_agree_or_have_a_note(choices, lines, data):
    """For arbitrary merges, some of which make a token twice, sentencepiece's pieces are VOLT's, or
    a note says that other parts join. The vocabulary that is read back always agrees.
    """
    strings = ["a", "b", "c"]
    merges = []
    for i, j in choices:
        merges.append((strings[i % len(strings)], strings[j % len(strings)]))
        strings = list(dict.fromkeys([*strings, "".join(merges[-1])]))
    tokens = data.draw(st.permutations(strings))[: data.draw(st.integers(0, len(strings)))]
    # Runs of characters that only merges contain are not fused.
    tokens = tuple(dict.fromkeys([*tokens, *sorted(set("".join(map("".join, merges))))]))
    options = {"marker": "none", "pretokenizer": "metaspace", "fuse_unk": True}
    vocabulary = Vocabulary(tuple(merges), tokens, **options)
    notes, again, peer = written(vocabulary)
    if any(note.startswith("Unknown words") for note in notes):
        lines = [line for line in lines if "▁" not in line]
    if not any("joins other parts" in note for note in notes):
        assert Encoder(vocabulary).encode_lines(lines) == peer.pieces(lines)
    assert Encoder(again).encode_lines(lines) == peer.pieces(lines)


BASE = Vocabulary(merges=(("▁", "l"), ("▁l", "o")), tokens=("l", "o", "▁", "▁lo"), marker="prefix")
METASPACE = {"marker": "none", "pretokenizer": PreTokenizer("metaspace")}


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"normalizer": Normalizer("nfc")}, "NFC"),
        ({"normalizer": Normalizer("nfkc")}, "NFKC"),
        ({"normalizer": Normalizer("none", lowercase=True)}, "sigma"),
        ({}, "or to an end of the line"),
        ({}, "run of unknown characters"),
        ({"counts": (1, 2, 3, 4)}, "counts"),
        ({**METASPACE, "merges": (("l", "▁"),), "tokens": ("l▁",)}, "a '▁' inside"),
        ({"merges": (("o", "o"), ("l", "oo"), ("l", "o"), ("lo", "o")), "tokens": ("loo",)}, None),
        ({"merges": (("o", "l"), ("l", "o"), ("l", "ol"), ("lo", "l")), "tokens": ("lol",)}, None),
        (
            {"merges": (("l", "o"), ("o", "l"), ("l", "ol")), "tokens": ("lol",)},
            "joins other parts",
        ),
    ],
)
def test_each_loss_has_a_note(change, note):
    """Writing a vocabulary with a property that a model lacks, or that sentencepiece handles
    differently, returns a note on this property.
    """
    vocabulary = replace(BASE, **change)
    notes, again, _ = written(vocabulary)
    assert any((note or "joins") in each for each in notes) == bool(note)
    assert again.tokens == vocabulary.tokens


def test_a_run_of_unknown_characters_is_one_piece(tmp_path):
    """sentencepiece encodes a run of unknown characters as one id, and VOLT as one id each. A note
    and `check` report it; the vocabulary that is read from the model agrees.
    """
    path = tmp_path / "a.model"
    module.write(BASE, path)
    library = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert library.encode("loéüo") == [BASE.ids["▁lo"], 0, BASE.ids["o"]]
    assert Encoder(BASE).encode_ids("loéüo").tolist() == [BASE.ids["▁lo"], 0, 0, BASE.ids["o"]]
    assert not any("run of" in note for note in written(replace(BASE, byte_fallback=True))[0])
    assert not check(BASE, path, "sentencepiece", ["loéüo"]).is_complete
    assert check(module.read(path), path, "sentencepiece", ["loéüo"]).is_complete


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"marker": "suffix", "pretokenizer": PreTokenizer("unicode")}, "the marker prefix"),
        ({"marker": "suffix", "merges": (), "tokens": ("▁",)}, "which ends words"),
        ({"merges": (), "tokens": ("lo",), "whole_words": True}, "does not look words up"),
        ({"pretokenizer": PreTokenizer("metaspace")}, "the marker none"),
        ({"pretokenizer": PreTokenizer("gpt2"), "marker": "none"}, "metaspace and the marker none"),
        ({"special": SpecialTokens(user=("a▁b",))}, "rename it"),
        ({"merges": (("<", "s"), ("<s", ">")), "tokens": ("<",)}, "rename the special token"),
        ({"merges": (), "tokens": ("\0",)}, r"U\+0000"),
    ],
)
def test_other_vocabularies_are_refused(tmp_path, change, message):
    """A vocabulary that sentencepiece cannot encode with is refused with a remedy, and no file is
    written.
    """
    with pytest.raises(VocabularyError, match=message):
        module.write(replace(BASE, **change), tmp_path / "a.model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_normal_forms_change_no_other_characters():
    """NFKC with lowercase changes no character outside the ranges of `CHANGED`, from which the
    table is made.
    """
    tried = set(chain.from_iterable(writing.CHANGED))
    codes = chain(range(1, 0xD800), range(0xE000, 0x110000))
    others = "".join(chr(code) for code in codes if code not in tried)
    assert Normalizer("nfkc", lowercase=True).normalize(others) == others
