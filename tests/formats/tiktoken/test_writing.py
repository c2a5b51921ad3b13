"""Laws of exported ranks: tiktoken encodes as VOLT does, files read back, losses have notes."""

import tempfile
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from formats.support import BYTES, ranks_file, ranks_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.exports import LINES, assert_agree, corpora, fragments, learn, texts

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import tiktoken as module
from volt.formats.registry import read_vocabulary
from volt.formats.tiktoken.reading import pattern_of
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.patterns.published import GPT2
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

tiktoken = pytest.importorskip("tiktoken")

FEW = settings(deadline=None, max_examples=examples(80))
PATTERNS = ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "qwen3.5", "tekken", "kimi2")
PRIVATE = st.sampled_from("\U0010f000\U0010f001\U0010f002\U0010fffc\U0010fffd\U00100000")
parts = st.sampled_from([" ", "a", "b", "c", "ab", "1", "22", "'s", "\n", "é", "中", ".", "\t"])


@cache
def case(user=()):
    """Return a vocabulary of bytes, the notes of writing it, and tiktoken with its file."""
    vocabulary = learn(LINES, "none", "bytes", user=user)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ranks.tiktoken")
        return vocabulary, module.write(vocabulary, path), module.peer(path, vocabulary)


@pytest.mark.parametrize("user", [(), ("<url>", "é!")])
@given(
    st.lists(
        texts
        | st.lists(fragments | PRIVATE, max_size=9).map("".join)
        | st.sampled_from(["<url>", "x<url>y", "<url><url>", "é!", " <url> "]),
        max_size=6,
    )
)
@example(["", " ", "  a", "<|endoftext|> <s> </s> <unk>", "x \u2028\n\n y", "don't 42!"])
@example(
    [
        "a <url> b",
        "a  <url>  b",
        "<url>\u0301",
        "a<url>'s",
        "<s>",
        "</s>",
        "\U0010f001<url>\U0010f000 b",
    ]
)
@FEW
def test_tiktoken_encodes_alike(user, lines):
    """For any text, with special, user and private characters in any place, tiktoken's pieces and
    ids with the written ranks are VOLT's.
    """
    vocabulary, notes, peer = case(user)
    assert len(notes) == 1 or user
    assert_agree(Encoder(vocabulary), peer, ["".join(lines), " ".join(lines), *lines])


def test_real_text_encodes_alike(lines, tmp_path):
    """For a vocabulary learned on Multi30k, TED and the Bible, tiktoken's pieces and ids are VOLT's
    on all lines.
    """
    found = dict(corpora(lines))
    sample = [line for text in found.values() for line in text[::23]]
    vocabulary = learn(sample, "none", "bytes", n_merges=4000)
    module.write(vocabulary, tmp_path / "r")
    peer = module.peer(tmp_path / "r", vocabulary)
    for text in found.values():
        assert_agree(Encoder(vocabulary), peer, text)


@given(
    st.lists(st.lists(parts, min_size=1, max_size=4).map("".join), max_size=30),
    st.lists(st.integers(0, 2), min_size=30, max_size=30),
    st.sampled_from(PATTERNS),
    st.lists(st.lists(parts, max_size=9).map("".join) | texts, max_size=5),
)
@settings(deadline=None, max_examples=examples(15))
def test_any_ranks_encode_alike(words, skipped, pattern, lines):
    """For arbitrary ranks (with gaps, and tokens that no two lower ranks join) and any published
    pattern, VOLT's pieces and ids are tiktoken's.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = ranks_file(Path(folder, "r.tiktoken"), ranks_of(words, skipped))
        vocabulary = module.read_with_pattern(path, pattern=pattern)
        assert_agree(Encoder(vocabulary), module.peer(path, vocabulary), [*lines, "".join(words)])


@pytest.mark.parametrize("pattern", [r"\w+", r"[a-z]+| [a-z]+", "(?:..)", r"\w+|\W"])
def test_text_outside_of_matches_is_dropped_alike(tmp_path, pattern):
    """With a pattern that does not match all text, VOLT drops the text that tiktoken drops."""
    path = ranks_file(tmp_path / "a.tiktoken", BYTES)
    vocabulary = read_vocabulary(path, pattern=pattern)
    assert_agree(
        Encoder(vocabulary), module.peer(path, vocabulary), ["/", "a b, Éc!d", "  x 1\t2", ""]
    )


@pytest.mark.parametrize("pattern", ["superbpe", "[0-9]+", r" (?!\S)|\w\W"])
def test_text_between_matches_is_kept_if_the_vocabulary_keeps_it(tmp_path, pattern):
    """If words are also the text between the matches, as in SuperBPE, tiktoken gets a pattern that
    matches this text, too: its ids are VOLT's, and VOLT reads this pattern back.
    """
    cut = PreTokenizer.of_pattern(pattern, level="bytes")
    vocabulary = learn(LINES, "none", cut.name).closed()
    path = tmp_path / "r"
    module.write(vocabulary, path)
    lines = [*LINES, "  x 12345\t2 -- low\n", "", " the lower the newest", "\r\n//?? a  \n b"]
    assert_agree(Encoder(vocabulary), module.peer(path, vocabulary), lines)
    again = read_vocabulary(path, pattern=pattern_of(cut))
    assert again.pretokenizer == cut
    assert Encoder(again).encode_lines(lines) == Encoder(vocabulary).encode_lines(lines)


def test_special_tokens_take_no_rank(tmp_path):
    """Wherever ranks have gaps, special tokens do not change tiktoken's pieces of text."""
    words = [" a", " b", " c", " ab", " abc"]
    for skipped in ([], [0, 2, 0, 0, 1], [5, 0, 1, 0, 0], [9, 9, 9, 9, 9]):
        path = ranks_file(tmp_path / "r.tiktoken", ranks_of(words, skipped))
        vocabulary = read_vocabulary(path)
        named = replace(vocabulary, special=SpecialTokens(user=("<u>",)), order=())
        for other in (vocabulary, named):
            pieces = module.peer(path, other).pieces(["abc", " a b c ab abc"])
            assert pieces == [["a", "b", "c"], [f"Ġ{word[1:]}" for word in words]]


@pytest.mark.parametrize("pattern", [GPT2, r"\p{N}{1,3}| ?\p{L}+|\s+|[^\s\p{L}\p{N}]+"])
def test_trained_ranks_encode_alike(pattern, tmp_path):
    """VOLT encodes with a file of tiktoken's own trainer as tiktoken does. The pattern is needed
    only if it is not GPT-2's.
    """
    educational = pytest.importorskip("tiktoken._educational")
    text = "\n".join(LINES[:3])
    ranks = educational.bpe_train(data=text, vocab_size=330, pat_str=pattern, visualise=None)
    path = ranks_file(tmp_path / "r", ranks)
    vocabulary = module.read_with_pattern(path, pattern=None if pattern == GPT2 else pattern)
    assert vocabulary.ids == {to_characters(token): rank for token, rank in ranks.items()}
    assert_agree(Encoder(vocabulary), module.peer(path, vocabulary), LINES)


def test_the_snippet_loads_the_file(tmp_path):
    """The Python code in the first note of `write` builds a tiktoken Encoding with the special
    tokens and VOLT's ids.
    """
    vocabulary = learn(LINES, "none", "bytes", user=("<url>",))
    notes = module.write(vocabulary, tmp_path / "r.tiktoken")
    code = "\n".join(line.strip() for line in notes[0].split("\n")[1:])
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            exec(code.replace("\nEncoding", "\nresult = Encoding"), names)
        except ImportError as error:
            pytest.skip(f"tiktoken's own loader needs another library: {error}")
    line = "see <url>, the <url>lower  <url>"
    ids = names["result"].encode(line, allowed_special={"<url>"}, disallowed_special=())
    assert ids == Encoder(vocabulary).encode_ids(line).tolist()
    assert "<url>" in notes[1]


def test_the_file_reads_back_to_the_same_ids(tmp_path):
    """Written ranks read back to the ids of all tokens and lines, without special tokens. Notes
    name all other losses.
    """
    vocabulary = case()[0]
    path = tmp_path / "r.tiktoken"
    module.write(vocabulary, path)
    assert module.recognises(path, path.read_bytes()[:4096])
    again = module.read(path)
    assert again.ids == {token: vocabulary.ids[token] for token in vocabulary.tokens}
    assert (again.special.all, again.merging, again.pieces[:4]) == ((), "ranks", ("",) * 4)
    ids = [list(map(Encoder(each).encode_ids, LINES)) for each in (again, vocabulary)]
    assert [row.tolist() for row in ids[0]] == [row.tolist() for row in ids[1]]
    other = learn(LINES, "none", "bytes", "nfc", user=("<url>",), byte_fallback=True, counts=True)
    notes = " ".join(module.write(other, path))
    again = module.read(path)
    assert (set(again.made), again.tokens) == (set(other.made), other.tokens)
    for lost in ("counts", "special and user tokens (<url>)", "nfc", "Byte fallback"):
        assert lost in notes


def test_a_pruned_vocabulary_is_refused_and_closed_ones_agree(tmp_path):
    """A pruned vocabulary is refused. Closed by ids, it gets new ids, with a note. Closed in the
    order of merges, it keeps its ids. tiktoken's pieces are VOLT's in both cases.
    """
    full = case()[0]
    tokens = tuple(t for number, t in enumerate(full.tokens) if number < 256 or number % 7)
    pruned = replace(full, tokens=tokens)
    path = tmp_path / "r"
    with pytest.raises(VocabularyError, match=r"pruned.*export it closed"):
        module.write(pruned, path)
    assert not path.exists()
    closed = pruned.closed()
    assert "Ids differ" in module.write(closed, path)[1]
    peer = module.peer(path, closed)
    assert peer.ids is None
    assert peer.pieces(LINES) == Encoder(closed).encode_lines(LINES)
    assert set(module.read(path).tokens) == set(closed.tokens)
    ordered = pruned.closed(order="merges")
    assert not any("Ids differ" in note for note in module.write(ordered, path))
    assert_agree(Encoder(ordered), module.peer(path, ordered), LINES)
    assert module.read(path).ids == {token: ordered.ids[token] for token in ordered.tokens}


def test_tokens_that_the_pattern_splits_are_refused(tmp_path):
    """Tokens with contractions, runs of spaces and signs are written. A token that GPT-2's pattern
    splits is refused.
    """
    line = (
        "they've we'll 'v <url>'ve  <url>   \t\n  x ' '' 12 1,2 \u3000\u3000a ½² e\u0301\u0327 ▁▁x"
    )
    vocabulary = learn([line] * 9, "none", "bytes", n_merges=400, user=("<url>",))
    assert {"'ve", "'ll", "ĠĠĠĉĊ", "ĠÂ½Â²"} <= set(vocabulary.tokens)
    module.write(vocabulary, tmp_path / "r")
    assert module.read(tmp_path / "r").tokens == vocabulary.tokens
    merges = (*vocabulary.merges, ("x", "!"))
    crossing = replace(vocabulary, merges=merges, tokens=(*vocabulary.tokens, "x!"))
    with pytest.raises(VocabularyError, match=r"splits 1 of the tokens, such as 'x!'.*remove"):
        module.write(crossing, tmp_path / "other")
    assert not (tmp_path / "other").exists()


BYTE_LEVEL = {"marker": "none", "pretokenizer": "bytes"}


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (learn(LINES, "suffix", "whitespace"), "pretokenizer='bytes'"),
        (Vocabulary((), ("a",), **BYTE_LEVEL), "every byte"),
        (
            learn(LINES, "none", PreTokenizer.of_pattern("digits3-right", level="bytes").name),
            r"cuts bytes by one pattern, so it cannot use 'bytes\+splits:",
        ),
    ],
)
def test_other_vocabularies_are_refused(vocabulary, message, tmp_path):
    """A vocabulary of characters, one without all bytes, and one with several patterns are refused
    with a remedy, and no file is written.
    """
    with pytest.raises(VocabularyError, match=message):
        module.write(vocabulary, tmp_path / "r")
    assert not [*tmp_path.iterdir()]


def test_merges_that_ranks_cannot_express_have_notes(tmp_path):
    """A merge that earlier merges make impossible, and a merge that makes a token again, have a
    note.
    """
    pairs = [("b", "c"), ("a", "b"), ("ab", "c")]
    starved = Vocabulary(tuple(pairs), (*ALPHABET, "bc", "ab", "abc"), **BYTE_LEVEL)
    assert "'abc'" in module.write(starved, tmp_path / "r")[-1]
    twice = replace(starved, merges=(("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")))
    assert any("again" in note for note in module.write(twice, tmp_path / "r"))
