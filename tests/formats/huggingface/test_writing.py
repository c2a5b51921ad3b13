"""Laws of exports to Hugging Face: `tokenizers` and transformers encode as VOLT does, files read
back, losses have notes.
"""

import json
import tempfile
import warnings
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from formats.support import level, library_of, split
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples, in_turns
from support.exports import LINES, assert_agree, beyond, corpora, fragments, learn, texts

from volt.encode.encoder import Encoder
from volt.errors import OutputError, VocabularyError
from volt.formats import huggingface
from volt.formats.check import check, encode_as_library
from volt.formats.huggingface.split_patterns import name_pretokenizer
from volt.text.byte_alphabet import ALPHABET, to_bytes
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import declared
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
    **{name: ("none", declared(name)) for name in ("cl100k", "o200k", "deepseek3")},
    "cl100k bytes": ("none", declared("cl100k", is_bytes=True)),
    "superwords": ("none", declared("superbpe", is_bytes=True)),
    "digits from the right": (
        "none",
        name_pretokenizer(
            [split(r"[\p{N}]+"), split(r"(?=(\d{3})+(?!\d))"), level(use_regex=False)]
        ),
    ),
}
USUAL = ("suffix", "prefix", "metaspace", "bytes")
NORMALIZERS = ["none", "nfc", "nfkc", "lowercase", "nfc+lowercase", "nfkc+lowercase"]
PRIVATE = st.sampled_from("\U0010f000\U0010f001\U0010f002\U0010fffc\U0010fffd\U00100000")


@cache
def case(kind, normalizer="none", user=(), byte_fallback=False):
    """Return a vocabulary, its encoder, the notes of its export, the library with the file, the
    vocabulary that is read back, and the file's text.
    """
    vocabulary = learn(LINES, *KINDS[kind], normalizer, user=user, byte_fallback=byte_fallback)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        notes = beyond(huggingface.write(vocabulary, path))
        peer = huggingface.peer(path, vocabulary)
        return (
            vocabulary,
            Encoder(vocabulary),
            notes,
            peer,
            huggingface.read(path),
            path.read_text(),
        )


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.lists(texts, min_size=1, max_size=8),
    st.sampled_from(["none", "nfc", "lowercase", "nfc+lowercase"]),
    st.booleans(),
)
@example(["", " ", "  a", "▁a ▁", "<s> </s> <unk>", "low\x1clow", "ΑΣ Σ ΑΣ.Α"], "lowercase", False)
@example(["  a\n\n b", "It'S 12345 o'clock!!\r\n", "漢字かなABc\t"], "none", False)
@settings(deadline=None, max_examples=examples(25))
def test_tokenizers_encodes_alike(kind, lines, normalizer, byte_fallback):
    """For any text, with unknown characters and spelled-out special tokens, the pieces and ids of
    `tokenizers` with the exported file are VOLT's.
    """
    _, encoder, notes, peer, *_ = case(kind, normalizer, (), byte_fallback)
    assert all("another engine" in note or "help to make it" in note for note in notes)
    assert_agree(encoder, peer, lines)


@pytest.mark.parametrize("normalizer", ["nfkc", "nfkc+lowercase"])
@given(st.lists(texts, min_size=1, max_size=8))
@FEW
def test_nfkc_differs_only_as_the_note_says(normalizer, lines):
    """With NFKC, `tokenizers` encodes as VOLT does if it knows the normal form of all characters. A
    note says that it does not know newer characters.
    """
    _, encoder, notes, peer, *_ = case("suffix", normalizer)
    assert any("the Unicode version of tokenizers" in note for note in notes)
    known = tokenizers.normalizers.NFKC().normalize_str
    form = Normalizer("nfkc").normalize
    usual = [line for line in lines if all(known(char) == form(char) for char in set(line))]
    assert_agree(encoder, peer, usual)


@pytest.mark.parametrize("kind", ["bytes", "metaspace", "prefix"])
@given(
    st.lists(
        texts
        | st.lists(fragments | PRIVATE, max_size=9).map("".join)
        | st.sampled_from(["<url>", "x<url>y", "<url><url>", "<u"]),
        min_size=1,
        max_size=6,
    )
)
@example(["a <url> b", "a  <url>  b", "<url>\u0301", "a<url>'s"])
@FEW
def test_user_tokens_encode_alike(kind, parts):
    """Text with user tokens in any place has VOLT's pieces and ids in `tokenizers`, except for
    roles and lines of one user token, as a note says.
    """
    vocabulary, encoder, notes, peer, *_ = case(kind, "none", ("<url>", "<u", "é!"))
    lines = [" ".join(["a", *parts]), "".join(parts), *parts]
    if kind == "bytes":
        assert_agree(encoder, peer, lines)
        return
    assert "just <url> gets no '▁'" in notes[0]
    special = vocabulary.special
    lines = [line for line in lines if line not in special.user]
    lines = [line for line in lines if not any(role in line for role in special.all[:4])]
    lines = [line for line in lines if max(line, default="") < "\U0010c000"]
    assert_agree(encoder, peer, lines)


@pytest.mark.parametrize("normalizer", ["none", "nfc", "lowercase"])
@given(st.lists(texts | st.sampled_from(["<url>", "<url>y", "<url><num>"]), min_size=2, max_size=6))
@example(["<url>", "<num>", "low", "<URL>", "</w>"])
@FEW
def test_user_tokens_that_end_words_encode_alike(normalizer, lines):
    """With the marker "suffix", user tokens alone and before text have VOLT's pieces and ids in
    `tokenizers`, with the lone "</w>". A note names the rest.
    """
    users = ("<url>", "<num>")
    vocabulary, encoder, notes, peer, _, text = case("suffix", normalizer, users)
    assert "right before a user token" in notes[0]
    words = [word for line in lines for word in line.split()]
    words = [
        word for word in words if word == word.lower() or not any(u in word.lower() for u in users)
    ]
    words = [
        word for word in words if word == "<url><num>" or not any(u in word[1:] for u in users)
    ]
    if len(words) > 1:
        assert_agree(encoder, peer, [" ".join(words)])
    assert_agree(encoder, peer, ["<url> <num> low <url>", " <url>lower <url><num> ", *LINES])
    line = "low <url> <num>lower"
    real = tokenizers.Tokenizer.from_str(text)
    assert real.decode(encoder.encode_ids(line).tolist()) == line
    assert vocabulary.ids["</w>"] == 6


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("kind", ["prefix", "metaspace"])
def test_user_tokens_are_not_normalised(kind, normalizer):
    """A user token that the normalizer would change is found in text, alone and next to other text,
    by `tokenizers` as by VOLT.
    """
    _, encoder, _, peer, *_ = case(kind, normalizer, ("<URL>", "cafe\u0301"))
    lines = ["see <URL>! x<URL>y", "a <URL>", "  cafe\u0301s <url>", "low cafe\u0301", ""]
    assert_agree(encoder, peer, lines)


@pytest.mark.parametrize("level", ["metaspace", "unicode"])
def test_lines_begin_with_a_mark_beside_user_tokens(level, tmp_path):
    """With "</w>" and "▁", lines and user tokens get their "▁" in `tokenizers` as in VOLT, except a
    line that is one user token, as a note says. The export reads back.
    """
    vocabulary = learn(LINES, "suffix", level, user=("<url>",))
    notes = huggingface.write(vocabulary, tmp_path / "m")
    assert any("just <url> gets no '▁'" in note for note in notes)
    lines = ["the lower", "größe naïve", "x", " the  <url> lower", "<url> the", "<url><url>", "  "]
    assert_agree(Encoder(vocabulary), huggingface.peer(tmp_path / "m", vocabulary), lines)
    assert huggingface.read(tmp_path / "m").fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize("kind", ["cl100k", "cl100k bytes"])
def test_patterns_cut_text_between_user_tokens(kind):
    """With a published pattern, the text between user tokens is cut by itself, in `tokenizers` as
    in VOLT.
    """
    _, encoder, _, peer, *_ = case(kind, user=("<url>",))
    assert_agree(encoder, peer, ["see <url>", "a<url>b 12345<url><url>6", " <url> \n<url>"])


def test_an_unknown_end_of_a_word_becomes_bytes():
    """With "</w>" and byte fallback, `tokenizers` encodes an unknown last character as VOLT does,
    with two helper tokens. If "w" is not a token, a note says that there are more bytes. The
    exports read back.
    """
    vocabulary, encoder, notes, peer, *_ = case("suffix", "none", (), True)
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
    in_turns(product(KINDS, NORMALIZERS, [(), ("<url>", "x!")], [False, True]), 4),
)
def test_an_export_reads_back(kind, normalizer, user, byte_fallback):
    """An export reads back to the fingerprint of the vocabulary, without notes."""
    vocabulary, _, _, _, again, _ = case(kind, normalizer, user, byte_fallback)
    assert again.fingerprint == vocabulary.fingerprint
    assert again.notes == ()


@pytest.mark.parametrize("name", ["metaspace-runs", "metaspace-line"])
def test_runs_of_spaces_and_lines_read_back(tmp_path, name):
    """A vocabulary with tokens of several spaces, or of several words, is read back from its
    folder.
    """
    learned = learn(LINES, "none", name)
    vocabulary = replace(learned, special=SpecialTokens(user=("<url>",)), byte_fallback=True)
    huggingface.write(vocabulary.closed(), tmp_path / "m")
    again = huggingface.read(tmp_path / "m")
    assert (again.pretokenizer, again.ids) == (vocabulary.pretokenizer, vocabulary.closed().ids)


def test_counts_are_lost_and_roles_read_back(tmp_path):
    """Roles with other names are read back from a folder and from a file; a note says that counts
    are lost.
    """
    special = SpecialTokens("[UNK]", "[B]", "[E]", "[P]", ("[X]",))
    vocabulary = replace(learn(LINES, "suffix", "whitespace", counts=True), special=special)
    for path in (tmp_path / "folder", tmp_path / "one.json"):
        assert "counts" in huggingface.write(vocabulary, path)[0]
        assert huggingface.read(path) == replace(
            vocabulary, counts=(), provenance={"format": "huggingface", "lost": []}
        )
        assert huggingface.recognises(path, b"" if path.is_dir() else path.read_bytes()[:4096])


@pytest.mark.parametrize("kind", USUAL)
def test_the_library_decodes_alike(kind):
    """`tokenizers` decodes ids to VOLT's text."""
    _, encoder, *_, text = case(kind)
    real = tokenizers.Tokenizer.from_str(text)
    for line in [*LINES, "a", " a  b ", "▁", ""]:
        ids = encoder.encode_ids(line).tolist()
        if 0 not in ids:
            assert real.decode(ids, skip_special_tokens=False) == encoder.decode_ids(ids)


def test_a_pruned_vocabulary_is_closed(tmp_path):
    """The export of a pruned vocabulary is its closed vocabulary, with a note on the added tokens.
    `check` agrees with the closed one, and finds differences from the pruned one.
    """
    full = learn(LINES, "suffix", "whitespace")
    pruned = replace(full, tokens=tuple(dict.fromkeys([*full.atoms, *full.tokens[::3]])))
    closed = pruned.closed()
    path = tmp_path / "out"
    note, *notes = huggingface.write(pruned, path)
    assert note.startswith(
        f"{len(pruned.scaffolding):,} tokens are added, with ids from {len(pruned):,}:"
    )
    assert f"needs {len(closed):,} rows" in note
    assert notes == huggingface.write(closed, tmp_path / "closed")
    assert_agree(Encoder(closed), huggingface.peer(path, closed), LINES)
    assert check(closed, path, "huggingface", LINES).is_complete
    assert not check(pruned, path, "huggingface", LINES).is_complete
    assert huggingface.read(path).fingerprint == closed.fingerprint


BYTES = {"marker": "none", "pretokenizer": "bytes"}
NONE = SpecialTokens(None, None, None, None)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (Vocabulary((("a", "b"),), ("a", "ab")), "'b', which is not a token"),
        (Vocabulary((), ("▁",), marker="prefix", pretokenizer="gpt2"), "marker='none'"),
        (learn(LINES, "none", "regex:(?s)."), r"cannot read the regex '\(\?s\)\.'.*Oniguruma"),
        (
            learn(LINES, "none", PreTokenizer.of_pattern("digits3-right", level="bytes").name),
            r"reads text from its end, which tokenizers cannot.*digits3",
        ),
        (learn(LINES, "suffix", "bytes"), "bytes that end words"),
        (Vocabulary((), ("l", "low"), whole_words=True), "whole_words"),
        (
            Vocabulary(
                (("<", "s"), ("<s", ">"), ("<s>", "x")),
                ("<", "s", ">", "x", "<s", "<s>x"),
                marker="none",
            ),
            r"'<s>', made by merges, is a special token, too; rename",
        ),
    ],
)
def test_other_vocabularies_are_refused(vocabulary, message, tmp_path):
    """A vocabulary that `tokenizers` cannot encode with is refused with a remedy, and no file is
    written.
    """
    with pytest.raises(VocabularyError, match=message):
        huggingface.write(vocabulary, tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    """The error for a path in a missing folder names the folder."""
    with pytest.raises(OutputError, match="missing"):
        huggingface.write(learn(LINES, "suffix", "whitespace"), tmp_path / "missing" / "out")


CUTS = {name: name for name in ("whitespace", "metaspace", "unicode", "gpt2", "bytes")}
CUTS |= {"split": declared("cl100k"), "bytes+split": declared("cl100k", is_bytes=True)}
PLAIN = [*LINES[:4], "  two  spaces ▁ here</w> ", "1234567 Ωμέγα", " ", ""]
ALONE = ["low <url> lower <nUM>", "<url> wide", " <nUM>  <url> newest", "größer <url>"]
# tokenizers cannot write two marks; and in so little text, not all bytes end words.
REFUSED = {*product(["prefix"], ["metaspace", "unicode", "gpt2", "split"])}
REFUSED |= {*product(["suffix"], ["bytes", "bytes+split"])}


@pytest.mark.parametrize("marker", ["suffix", "prefix", "none"])
@pytest.mark.parametrize("cut", CUTS)
def test_every_combination_is_exact_or_refused(marker, cut, tmp_path):
    """For each marker and pre-tokenizer, with byte fallback, normalised, with user tokens and
    pruned, `tokenizers` encodes as VOLT does, or the export is refused.
    """
    full = learn(LINES, marker, CUTS[cut], n_merges=60)
    path = tmp_path / "t.json"
    if (marker, cut) in REFUSED:
        with pytest.raises(VocabularyError):
            huggingface.write(full, path)
        return
    for user, fallback in product(((), ("<n", "<url>", "<nUM>")), (False, True)):
        vocabulary = replace(
            full,
            special=SpecialTokens(user=user),
            byte_fallback=fallback,
            normalizer="nfc+lowercase" if user else "none",
        )
        huggingface.write(vocabulary, path)
        # White space before a user token ends a word, or lacks the mark, in marked words of bytes.
        lines = PLAIN + ALONE if user and not (marker == "prefix" and "bytes" in cut) else PLAIN
        assert_agree(Encoder(vocabulary), huggingface.peer(path, vocabulary), lines)
    inner = {part for pair in full.merges for part in pair}.intersection(full.made)
    pruned = replace(full, tokens=tuple(token for token in full.tokens if token != min(inner)))
    assert "1 token is added" in huggingface.write(pruned, path)[0]
    assert check(pruned.closed(), path, "huggingface", PLAIN).is_complete
    pieces = [Encoder(each).encode_lines(PLAIN) for each in (pruned, pruned.closed())]
    assert check(pruned, path, "huggingface", PLAIN).is_complete == (pieces[0] == pieces[1])


TOKENS = ("o", "l", "lo", "w")
PLAIN_TOKENS = {"merges": (("l", "o"),), "tokens": TOKENS, "marker": "none"}


def test_ids_of_the_vocabulary_are_those_of_the_file(tmp_path):
    """The exported file has the vocabulary's ids, with gaps. Without unk, an unknown character
    leaves no id. The library finds control tokens in text.
    """
    special = SpecialTokens(None, "<|end|>", "<|end|>", None, user=("<url>",), control=("[A]",))
    order = ("o", "", "[A]", "l", "<url>", "lo", "w", "<|end|>")
    vocabulary = Vocabulary(**PLAIN_TOKENS, special=special, order=order)
    huggingface.write(vocabulary, tmp_path / "m.json")
    library = library_of(tmp_path / "m.json")
    assert library.get_vocab() == vocabulary.ids
    assert library.encode("low").ids == Encoder(vocabulary).encode_ids("low").tolist() == [5, 6]
    assert library.encode("lo [A] x<url>low").ids == [5, 2, 4, 5, 6]
    assert library.encode("<|end|> wol").ids == [7, 6, 0, 3]


@given(drawn=st.data())
@settings(deadline=None, max_examples=examples(60))
def test_ranks_become_pairs(drawn, tmp_path_factory):
    """If merging is "ranks", `tokenizers` with the exported merges encodes words as tiktoken does
    with the ranks.
    """
    tiktoken = pytest.importorskip("tiktoken")
    known = ["a", "b", "c"]
    merges = []
    for _ in range(drawn.draw(st.integers(1, 10))):
        left = drawn.draw(st.sampled_from(known))
        right = drawn.draw(st.sampled_from(known))
        if left + right not in known and len(left + right) < 8:
            merges.append((left, right))
            known.append(left + right)
    tokens = (*ALPHABET, *map("".join, merges))
    path = tmp_path_factory.mktemp("m") / "m.json"
    huggingface.write(
        Vocabulary(tuple(merges), tokens, **BYTES, special=NONE, merging="ranks"), path
    )
    library = library_of(path)
    ranks = {to_bytes(token): rank for rank, token in enumerate(tokens)}
    real = tiktoken.Encoding("m", pat_str="(?s).+", mergeable_ranks=ranks, special_tokens={})
    for text in drawn.draw(st.lists(st.text("aabc", min_size=1, max_size=14), max_size=8)):
        if text not in tokens:  # tiktoken takes it whole
            assert library.encode(text).ids == real.encode(text)


def test_whole_words_are_not_split(tmp_path):
    """If whole_words is true, the exported file has ignore_merges, and `tokenizers` does not split
    words that are tokens.
    """
    path = tmp_path / "m.json"
    tokens = (*ALPHABET, "lo", "low")
    huggingface.write(
        Vocabulary((("l", "o"),), tokens, **BYTES, special=NONE, whole_words=True), path
    )
    assert library_of(path).encode("low lower").tokens == ["low", "Ġ", "lo", "w", "e", "r"]
    assert json.loads(path.read_text())["model"]["ignore_merges"] is True


def test_merging_by_steps_needs_no_note(tmp_path):
    """A vocabulary that merges by "steps", as `tokenizers` does, is exported without a note."""
    merges = (("a", "b"), ("ab", "a"), ("aba", "b"), ("ab", "ab"))
    vocabulary = Vocabulary(merges, ("a", "b", "ab", "aba", "abab"), marker="none", merging="steps")
    assert beyond(huggingface.write(vocabulary, tmp_path / "m")) == []


@pytest.mark.parametrize("marker", ["suffix", "prefix"])
def test_words_of_bytes_may_be_marked(marker, tmp_path):
    """Words of bytes with "</w>" after them, or "▁" before them, encode and decode in `tokenizers`
    as in VOLT, if all bytes are tokens.
    """
    learned = learn(LINES, marker, "bytes")
    ends = [f"{byte}</w>" for byte in ALPHABET] if marker == "suffix" else []
    tokens = tuple(dict.fromkeys((*learned.tokens, *ALPHABET, *ends)))
    vocabulary = Vocabulary(learned.merges, tokens, marker=marker, pretokenizer="bytes")
    assert beyond(huggingface.write(vocabulary, tmp_path / "m")) == []
    peer = huggingface.peer(tmp_path / "m", vocabulary)
    assert_agree(Encoder(vocabulary), peer, [*LINES, " 私は  x\t", "▁ </w> low"])
    real = library_of(tmp_path / "m" / "tokenizer.json")
    assert real.decode(real.encode("größer 私は, low").ids) == "größer 私は, low"


def auto_tokenizer(path):
    """Load a folder in transformers, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        return transformers.AutoTokenizer.from_pretrained(str(path))


@pytest.mark.parametrize("kind", USUAL)
def test_transformers_encodes_alike(kind, tmp_path):
    """AutoTokenizer loads the exported folder with VOLT's ids and roles."""
    vocabulary = case(kind)[0]
    huggingface.write(vocabulary, tmp_path / "m")
    real = auto_tokenizer(tmp_path / "m")
    assert [real.unk_token_id, real.bos_token_id, real.eos_token_id, real.pad_token_id] == [
        0,
        1,
        2,
        3,
    ]
    encoder = Encoder(vocabulary)
    pieces = encode_as_library(encoder, LINES, vocabulary.special.all)
    ids = real(LINES, add_special_tokens=False)["input_ids"]
    assert ids == [encoder.ids(line).tolist() for line in pieces]


def test_transformers_knows_roles_and_control_tokens(tmp_path):
    """In transformers, a role without a token is None, and control tokens are special: decoding
    skips them, and they are found in text.
    """
    special = SpecialTokens(None, "<|e|>", "<|e|>", None, user=("<url>",), control=("[A]", "[B]"))
    order = ("o", "l", "lo", "w", "[A]", "<url>", "<|e|>", "[B]")
    vocabulary = Vocabulary(**PLAIN_TOKENS, special=special, order=order)
    notes = huggingface.write(vocabulary, tmp_path / "m")
    assert "special tokens, such as <|e|>, [A], [B], in text" in notes[0]
    real = auto_tokenizer(tmp_path / "m")
    assert len(real) == len(vocabulary)
    roles = (real.bos_token_id, real.eos_token_id, real.unk_token, real.pad_token)
    assert roles == (6, 6, None, None)
    assert {*real.all_special_ids} == {4, 6, 7}
    ids = real.encode("[A]low <url> [B]lo<|e|>", add_special_tokens=False)
    assert ids == [4, 2, 3, 5, 7, 2, 6]
    assert real.decode([4, 2, 3, 7], skip_special_tokens=True) == "low"


@pytest.mark.parametrize("kind", USUAL)
def test_real_text_encodes_alike(kind, lines, tmp_path):
    """For a vocabulary learned on Multi30k, TED and the Bible, the pieces and ids of `tokenizers`
    are VOLT's on all lines.
    """
    found = dict(corpora(lines))
    sample = [line for text in found.values() for line in text[::23]]
    vocabulary = learn(sample, *KINDS[kind], n_merges=4000)
    huggingface.write(vocabulary, tmp_path / "m")
    peer = huggingface.peer(tmp_path / "m", vocabulary)
    for text in found.values():
        assert_agree(Encoder(vocabulary), peer, text)
