"""Laws of Hugging Face exports: they encode alike in tokenizers and transformers, come back, and name what is lost."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from drawn import examples, in_turns
from exports import LINES, assert_agree, beyond, corpora, learn, texts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import OutputError, VocabularyError
from volt.formats import huggingface
from volt.formats.check import check, encoded
from volt.formats.huggingface.pipeline_reading import remade
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

tokenizers = pytest.importorskip("tokenizers")

FEW = settings(deadline=None, max_examples=examples(40))
KINDS = {
    "suffix": ("suffix", "whitespace"),
    "prefix": ("prefix", "whitespace"),
    "metaspace": ("none", "metaspace"),
    "unicode": ("none", "unicode"),
    "gpt2": ("none", "gpt2"),
    "gpt2 suffix": ("suffix", "gpt2"),
    "regex": ("suffix", r"regex:[\p{L}\p{M}]+|[^\s\p{L}\p{M}]+"),
    "regex spaces": ("none", r"regex: ?[\p{L}\p{M}]+|[^\s\p{L}\p{M}]+|\s+"),
    "bytes": ("none", "bytes"),
}
NORMALIZERS = ["none", "nfc", "nfkc", "lowercase", "nfc+lowercase", "nfkc+lowercase"]
NEWER = "the Unicode version of tokenizers"


@cache
def case(kind, normalizer="none", user=(), byte_fallback=False):
    """A vocabulary, its encoder, what writing it returns, the library with it, and what is read back."""
    vocabulary = learn(LINES, *KINDS[kind], normalizer, user=user, byte_fallback=byte_fallback)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        notes = beyond(huggingface.write(vocabulary, path))
        return (
            vocabulary,
            Encoder(vocabulary),
            notes,
            huggingface.peer(path, vocabulary),
            huggingface.read(path),
            path.read_text(),
        )


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.lists(texts, min_size=1, max_size=8),
    st.sampled_from(NORMALIZERS[:2] + NORMALIZERS[3:5]),
    st.booleans(),
)
@example(
    ["", " ", "  a", "▁a ▁", "<s> </s> <unk> <pad>", "low\x1clow", "ΑΣ Σ ΑΣ.Α"], "lowercase", False
)
@settings(deadline=None, max_examples=examples(25))
def test_the_export_encodes_alike(kind, lines, normalizer, byte_fallback):
    """Any text gives the same pieces and ids in tokenizers, unknown characters and spelled-out special tokens included.
    (nfkc: below.)"""
    _, encoder, notes, peer, *_ = case(kind, normalizer, (), byte_fallback)
    assert all("another engine" in note or "help to make it" in note for note in notes)
    assert_agree(encoder, peer, lines)


@pytest.mark.parametrize("normalizer", ["nfkc", "nfkc+lowercase"])
@given(st.lists(texts, min_size=1, max_size=8))
@FEW
def test_nfkc_differs_only_where_the_note_says(normalizer, lines):
    """With NFKC the same holds of text whose normal form the library knows; that it knows fewer is named."""
    _, encoder, notes, peer, *_ = case("suffix", normalizer)
    assert [note for note in notes if NEWER in note]
    known = tokenizers.normalizers.NFKC()
    fine = [
        line
        for line in lines
        if all(
            known.normalize_str(char) == Normalizer("nfkc").normalize(char) for char in set(line)
        )
    ]
    assert_agree(encoder, peer, fine)


@pytest.mark.parametrize("kind", ["bytes", "metaspace", "prefix"])
@given(
    st.lists(
        texts | st.sampled_from(["<url>", "x<url>y", "<url><url>", "<u"]), min_size=1, max_size=6
    )
)
@example(["a <url> b", "a  <url>  b", "<url>\u0301", "a<url>'s"])
@FEW
def test_user_tokens_survive(kind, parts):
    """Text with user tokens encodes alike, wherever they stand; but for spelled-out roles right behind one, which the
    note excludes where they are words of their own."""
    vocabulary, encoder, notes, peer, *_ = case(kind, "none", ("<url>", "<u", "é!"))
    assert [note for note in notes if "just <url> gets no '▁'" in note] == notes[: kind != "bytes"]
    lines = [" ".join(["a", *parts]), "".join(parts), *parts]
    roles = vocabulary.special.all[:4] if kind != "bytes" else ()
    lines = (
        lines
        if kind == "bytes"
        else [line for line in lines if line not in vocabulary.special.user]
    )
    assert_agree(encoder, peer, [line for line in lines if not any(role in line for role in roles)])


@pytest.mark.parametrize("normalizer", ["none", "nfc", "lowercase"])
@given(st.lists(texts | st.sampled_from(["<url>", "<url>y", "<url><num>"]), min_size=2, max_size=6))
@example(["<url>", "<num>", "low", "<URL>", "</w>"])
@FEW
def test_user_tokens_that_end_words(normalizer, words):
    """Suffix: alone and before text user tokens encode alike, with the lone "</w>"; the note names the rest."""
    vocabulary, encoder, notes, peer, *_ = case("suffix", normalizer, ("<url>", "<num>"))
    assert "right before a user token" in notes[0]
    words = [word for text in words for word in text.split()]
    users = {"<url>", "<num>", "<url><num>"}
    hidden_by_case = [
        word
        for word in words
        if word != word.lower() and any(user in word.lower() for user in users)
    ]
    words = [word for word in words if word not in hidden_by_case]  # named in the notes
    fine = [word for word in words if word in users or not any(user in word[1:] for user in users)]
    if len(fine) > 1:
        assert_agree(encoder, peer, [" ".join(fine)])
    assert_agree(encoder, peer, ["<url> <num> low <url>", " <url>lower <url><num> ", *LINES])
    real = tokenizers.Tokenizer.from_str(case("suffix", normalizer, ("<url>", "<num>"))[-1])
    assert (
        real.decode(encoder.encode_ids("low <url> <num>lower").tolist()) == "low <url> <num>lower"
    )
    assert vocabulary.ids["</w>"] == 6


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_user_tokens_outlive_normalisation(normalizer):
    """Prefix and metaspace: user tokens that the normaliser would change are found in raw text, glued or alone."""
    for kind in ("prefix", "metaspace"):
        _, encoder, _, peer, *_ = case(kind, normalizer, ("<URL>", "cafe\u0301"))
        assert_agree(
            encoder,
            peer,
            ["see <URL>! x<URL>y", "a <URL>", "  cafe\u0301s <url>", "low cafe\u0301", ""],
        )


def test_byte_fallback_at_a_word_s_end():
    """Suffix and byte fallback: an unknown character that ends a word is its bytes and "</w>" in the library, too; only
    without a "w", which the merges for it need, it is more bytes, and named."""
    vocabulary, encoder, notes, peer, *_ = case("suffix", "none", (), True)
    assert len(notes) == 1
    assert "two more tokens" in notes[0]
    assert_agree(encoder, peer, ["Ж§low§", "low Ж§low Ж </w> <0x77>", "w> /w> w w/", *LINES])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.json")
        other = Vocabulary((), ("l", "l</w>"), special=vocabulary.special, byte_fallback=True)
        assert "'w' is not a token" in beyond(huggingface.write(other, path))[0]
        assert huggingface.read(path) == other
        assert_agree(Encoder(other), huggingface.peer(path, other), ["wl ll l"])


@pytest.mark.parametrize(
    ("kind", "normalizer", "user", "byte_fallback"),
    in_turns(product(KINDS, NORMALIZERS, [(), ("<url>", "é!")], [False, True]), 4),
)
def test_export_and_read_give_an_equal_fingerprint(kind, normalizer, user, byte_fallback):
    """The format carries all but the counts."""
    vocabulary, *_, again, _ = case(kind, normalizer, user, byte_fallback)
    assert again.fingerprint == vocabulary.fingerprint


def test_counts_and_role_names(tmp_path):
    """Counts are lost, and named; roles with other names are read from the folder and from the file alone."""
    vocabulary = learn(LINES, "suffix", "whitespace", counts=True)
    special = SpecialTokens("[UNK]", "[B]", "[E]", "[P]", ("[X]",))
    vocabulary = replace(vocabulary, special=special)
    for path in (tmp_path / "folder", tmp_path / "one.json"):
        notes = huggingface.write(vocabulary, path)
        assert "counts" in notes[0]
        again = huggingface.read(path)
        assert again.special == special
        assert (again.merges, again.tokens, again.counts) == (
            vocabulary.merges,
            vocabulary.tokens,
            (),
        )
        assert huggingface.recognises(path, b"" if path.is_dir() else path.read_bytes()[:4096])


@pytest.mark.parametrize("kind", ["suffix", "prefix", "metaspace", "bytes"])
def test_decoding_in_the_library_gives_the_same_line(kind):
    """Ids decode in tokenizers to what they decode to in VOLT."""
    _, encoder, *_, text = case(kind)
    real = tokenizers.Tokenizer.from_str(text)
    for line in [*LINES, "a", " a  b ", "▁", ""]:
        ids = encoder.encode_ids(line).tolist()
        if 0 not in ids:
            assert real.decode(ids, skip_special_tokens=False) == encoder.decode_ids(ids)


def test_a_pruned_vocabulary_is_closed(tmp_path):
    """Tokens that VOLT splits back get the next ids, a note counts them, and the closed vocabulary agrees exactly."""
    full = learn(LINES, "suffix", "whitespace")
    pruned = replace(full, tokens=tuple(dict.fromkeys([*full.atoms, *full.tokens[::3]])))
    note, *_ = notes = huggingface.write(pruned, tmp_path / "out")
    assert note.startswith(
        f"{len(pruned.scaffolding):,} tokens are added, with ids from {len(pruned):,}:"
    )
    assert notes[1:] == huggingface.write(pruned.closed(), tmp_path / "closed")
    assert_agree(
        Encoder(pruned.closed()), huggingface.peer(tmp_path / "out", pruned.closed()), LINES
    )
    assert check(pruned.closed(), tmp_path / "out", "huggingface", LINES).is_complete
    assert not check(pruned, tmp_path / "out", "huggingface", LINES).is_complete
    assert f"needs {len(pruned.closed()):,} rows" in note
    assert huggingface.read(tmp_path / "out").fingerprint == pruned.closed().fingerprint


@pytest.mark.parametrize(
    ("vocabulary", "text"),
    [
        (Vocabulary((("a", "b"),), ("a", "ab")), "'b', which is not a token"),
        (
            Vocabulary((), ("▁a"[0],), marker="prefix", pretokenizer=PreTokenizer("gpt2")),
            "marker='none'",
        ),
    ],
)
def test_what_cannot_be_held_is_refused(vocabulary, text, tmp_path):
    """The error says what and what to do, and nothing is written."""
    with pytest.raises(VocabularyError, match=text):
        huggingface.write(vocabulary, tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_merges_that_make_a_token_again_are_named(tmp_path):
    """VOLT merges all occurrences of a pair first, tokenizers one at a time: where that shows, a note says so."""
    merges = (("y", "z"), ("x", "yz"), ("xyz", "xy"), ("x", "y"), ("xy", "z"))
    tokens = ("x", "y", "z", "yz", "xyz", "xy", "xyzxy")
    assert not list(remade([("a", "b"), ("ab", "c"), ("b", "c"), ("a", "bc")]))
    assert list(remade([("a", "b"), ("x", "y"), ("xy", "x"), ("a", "b")])) == []
    with pytest.raises(VocabularyError):
        Vocabulary(merges, tokens, marker="none")
    assert list(remade([("b", "c"), ("a", "bc"), ("a", "b"), ("abc", "ab"), ("ab", "c")])) == [
        ("ab", "c")
    ]


def test_a_place_that_cannot_be_written(tmp_path):
    """A folder that cannot be made is an OutputError that names it."""
    with pytest.raises(OutputError, match="missing"):
        huggingface.write(learn(LINES, "suffix", "whitespace"), tmp_path / "missing" / "out")


@pytest.mark.parametrize("kind", ["suffix", "prefix", "metaspace", "bytes"])
def test_auto_tokenizer_agrees(kind, tmp_path):
    """AutoTokenizer.from_pretrained(folder) gives the same ids, and the special tokens their roles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers warns of what it misses when it is imported
        transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    vocabulary = case(kind)[0]
    huggingface.write(vocabulary, tmp_path / "m")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        real = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "m"))
        found = real(LINES, add_special_tokens=False)["input_ids"]
    assert isinstance(real, transformers.PreTrainedTokenizerFast)
    assert (real.unk_token_id, real.bos_token_id, real.eos_token_id, real.pad_token_id) == (
        0,
        1,
        2,
        3,
    )
    encoder = Encoder(vocabulary)
    ours = encoded(encoder, LINES, vocabulary.special.all)
    assert found == [encoder.ids(pieces).tolist() for pieces in ours]


@pytest.mark.parametrize("kind", ["suffix", "prefix", "metaspace", "bytes"])
def test_real_text_encodes_alike(kind, lines, tmp_path):
    """Multi30k, TED, Bible: every piece and id agrees; the vocabulary is learned from a part of the lines."""
    texts = dict(corpora(lines))
    vocabulary = learn(
        [line for text in texts.values() for line in text[::23]], *KINDS[kind], n_merges=4000
    )
    huggingface.write(vocabulary, tmp_path / "m")
    encoder, peer = Encoder(vocabulary), huggingface.peer(tmp_path / "m", vocabulary)
    for text in texts.values():
        assert_agree(encoder, peer, text)
