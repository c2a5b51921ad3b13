"""Laws of the tiktoken format: ranks that are ids, the same pieces in the real library, merges that come back."""

from __future__ import annotations

import base64
import tempfile
import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from drawn import examples
from exports import LINES, assert_agree, corpora, learn, texts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.formats import tiktoken as format_
from volt.formats.tiktoken.ranks import recovered
from volt.text.byte_alphabet import to_bytes, to_characters
from volt.text.patterns.cut_tokens import cut_tokens
from volt.text.patterns.published import GPT2, NAMED
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

tiktoken = pytest.importorskip("tiktoken")

FEW = settings(deadline=None, max_examples=examples(80))
PAT = format_.GPT2_PATTERN


@cache
def case():
    """A byte-level vocabulary, its encoder, what writing returns, the library with the file, the file's bytes."""
    vocabulary = learn(LINES, "none", "bytes")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ranks.tiktoken")
        notes = format_.write(vocabulary, path)
        return (
            vocabulary,
            Encoder(vocabulary),
            notes,
            format_.peer(path, vocabulary),
            path.read_bytes(),
        )


@given(st.lists(texts, min_size=1, max_size=8))
@example(["", " ", "  a", "<|endoftext|> <s> </s> <unk>", "x \u2028\n\n y", "don't 42!"])
@FEW
def test_the_export_encodes_alike(lines):
    """Any text gives the same pieces and ids in tiktoken, spelled-out special tokens included."""
    _, encoder, notes, peer, _ = case()
    assert len(notes) == 1
    assert_agree(encoder, peer, lines)


def test_the_snippet_loads_the_file(tmp_path):
    """The lines that the note gives build an Encoding that has the special tokens and VOLT's ids."""
    vocabulary = learn(LINES, "none", "bytes", user=("<url>",))
    notes = format_.write(vocabulary, tmp_path / "r.tiktoken")
    code = "\n".join(line.strip() for line in notes[0].split("\n")[1:]).replace(
        "\nEncoding", "\nfound = Encoding"
    )
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            exec(code, names)
        except ImportError as error:
            pytest.skip(f"tiktoken's own loader needs another library: {error}")
    line = "see <url>, the <url>lower  <url>"
    found = names["found"].encode(line, allowed_special={"<url>"}, disallowed_special=())
    assert found == Encoder(vocabulary).encode_ids(line).tolist()
    assert "<url>" in notes[1]


def test_the_file_reads_back_to_the_same_ids(tmp_path):
    """Every token has its id again, and text the same ids, from ranks alone; no special token is invented; with
    counts, other special tokens, a normaliser, the loss is named."""
    vocabulary, encoder, _, _, data = case()
    path = tmp_path / "r.tiktoken"
    path.write_bytes(data)
    assert format_.recognises(path, data[:4096])
    found = format_.read(path)
    assert found.ids == {
        token: number for token, number in vocabulary.ids.items() if token in set(vocabulary.tokens)
    }
    assert (found.special.all, found.merging, found.pieces[:4]) == ((), "ranks", ("",) * 4)
    assert [row.tolist() for row in map(Encoder(found).encode_ids, LINES)] == [
        row.tolist() for row in map(encoder.encode_ids, LINES)
    ]
    other = learn(LINES, "none", "bytes", "nfc", user=("<url>",), byte_fallback=True, counts=True)
    notes = " ".join(format_.write(other, path))
    again = format_.read(path)
    assert (set(map("".join, again.merges)), again.tokens) == (
        set(map("".join, other.merges)),
        other.tokens,
    )
    for lost in ("counts", "special and user tokens (<url>)", "nfc", "Byte fallback"):
        assert lost in notes


def pruned():
    """A vocabulary without some of its tokens in the middle."""
    full = learn(LINES, "none", "bytes")
    tokens = tuple(token for number, token in enumerate(full.tokens) if number < 256 or number % 7)
    return replace(full, tokens=tokens)


def test_a_pruned_vocabulary_is_refused_and_its_closure_agrees(tmp_path):
    """Nothing is written; the closure has the same pieces, and that its ids are numbered anew is named."""
    with pytest.raises(VocabularyError, match=r"pruned.*export it closed"):
        format_.write(pruned(), tmp_path / "r")
    assert not [*tmp_path.iterdir()]
    closed = pruned().closed()
    assert "Ids differ" in format_.write(closed, tmp_path / "r")[1]
    peer = format_.peer(tmp_path / "r", closed)
    assert peer.ids is None
    assert peer.pieces(LINES) == Encoder(closed).encode_lines(LINES)
    assert set(format_.read(tmp_path / "r").tokens) == set(closed.tokens)


def test_a_closure_in_merge_order_keeps_its_ids(tmp_path):
    """closed(order="merges"): pieces and ids agree with tiktoken's, and the file reads back to the same ids."""
    closed = pruned().closed(order="merges")
    assert not any("Ids differ" in note for note in format_.write(closed, tmp_path / "r"))
    assert_agree(Encoder(closed), format_.peer(tmp_path / "r", closed), LINES)
    assert format_.read(tmp_path / "r").ids == {token: closed.ids[token] for token in closed.tokens}
    assert set(closed.tokens) == set(pruned().closed().tokens)


def test_closing_keeps_counts_with_their_tokens():
    """In either order each token keeps its count, scaffolding has 0; another order is refused."""
    counted = replace(pruned(), counts=tuple(range(len(pruned().tokens))))
    for order in ("ids", "merges"):
        closed = counted.closed(order=order)
        found = dict(zip(closed.tokens, closed.counts, strict=True))
        assert {token: found.pop(token) for token in counted.tokens} == dict(
            zip(counted.tokens, counted.counts, strict=True)
        )
        assert set(found.values()) == {0}
    with pytest.raises(ConfigError, match="choose from ids, merges"):
        counted.closed(order="rank")


def test_scaffolding_spelled_like_a_special_token_is_refused():
    """It cannot be kept as a token beside it; the error names it."""
    vocabulary = Vocabulary(
        (("<", "u"), ("<u", ">")), ("<", "u", ">"), special=SpecialTokens(user=("<u>",))
    )
    with pytest.raises(VocabularyError, match=r"'<u>', made by merges, is a special token"):
        vocabulary.closed()


@given(
    st.lists(
        texts | st.sampled_from(["<url>", "x<url>y", "<url><url>", "é!", " <url> "]), max_size=6
    )
)
@example(["a <url> b", "a  <url>  b", "<url>\u0301", "a<url>'s", "<s>", "</s>"])
@FEW
def test_user_tokens_encode_alike(parts):
    """tiktoken, given the special tokens, has the same pieces and ids wherever user tokens stand."""
    encoder, peer = user_case()
    assert_agree(encoder, peer, ["".join(parts), " ".join(parts), *parts])


@cache
def user_case():
    """Encoder and library of a vocabulary with user tokens."""
    vocabulary = learn(LINES, "none", "bytes", user=("<url>", "é!"))
    with tempfile.TemporaryDirectory() as folder:
        notes = format_.write(vocabulary, Path(folder, "r"))
        assert any("allowed_special=" in note for note in notes)
        return Encoder(vocabulary), format_.peer(Path(folder, "r"), vocabulary)


@pytest.mark.parametrize(
    ("vocabulary", "text"),
    [
        (learn(LINES, "suffix", "whitespace"), "pretokenizer='bytes'"),
        (Vocabulary((), ("a",), marker="none", pretokenizer=case()[0].pretokenizer), "every byte"),
    ],
)
def test_what_tiktoken_cannot_hold_is_refused(vocabulary, text, tmp_path):
    """Characters as atoms, or bytes without a token: the error says what to do, and nothing is written."""
    with pytest.raises(VocabularyError, match=text):
        format_.write(vocabulary, tmp_path / "r")
    assert not [*tmp_path.iterdir()]


def test_merges_that_ranks_cannot_tell_are_named(tmp_path):
    """A merge that earlier merges starve, or that makes a token again, differs in tiktoken: notes say so."""
    full = case()[0]
    starved = (("b", "c"), ("a", "b"), ("ab", "c"))
    vocabulary = Vocabulary(
        starved, (*full.atoms, "bc", "ab", "abc"), marker="none", pretokenizer=full.pretokenizer
    )
    assert "'abc'" in format_.write(vocabulary, tmp_path / "r")[-1]
    twice = (("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc"))
    vocabulary = Vocabulary(
        twice, (*full.atoms, "ab", "bc", "abc"), marker="none", pretokenizer=full.pretokenizer
    )
    assert any("again" in note for note in format_.write(vocabulary, tmp_path / "r"))


@given(st.lists(st.text("abc", min_size=2, max_size=12), min_size=1, max_size=12))
@FEW
def test_merges_come_back_from_ranks(words):
    """For any corpus: first merges of learned tokens are what their bytes fall into by the ranks below."""
    full = learn(words, "none", "bytes", n_merges=40)
    first: dict = {}
    for left, right in full.merges:
        first.setdefault(left + right, (left, right))
    tokens = [token.encode("latin-1") for token in dict.fromkeys([*"abc", *first])]
    found = {token.decode("latin-1"): parts for token, parts in recovered(tokens)}
    assert found == {
        token: tuple(part.encode() for part in parts) for token, parts in first.items()
    }


def test_ranks_that_tiktoken_trains_are_read_and_agree(tmp_path):
    """A file made by tiktoken's own trainer encodes in VOLT to the same pieces."""
    educational = pytest.importorskip("tiktoken._educational")
    ranks = educational.bpe_train(
        data="\n".join(LINES[:3]), vocab_size=330, pat_str=PAT, visualise=None
    )
    path = tmp_path / "r"
    path.write_bytes(
        b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    )
    vocabulary = format_.read(path)
    peer = format_.peer(path, vocabulary)
    assert vocabulary.ids == {to_characters(token): rank for token, rank in ranks.items()}
    assert Encoder(vocabulary).encode_lines(LINES) == peer.pieces(LINES)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda rows: rows[:200], "no token for the byte"),
        (lambda rows: [*rows, b"IQ== 999"], r":\d+: repeats the token"),
        (lambda rows: [*rows, b"IUFC 20"], r":\d+: repeats the rank 20"),
        (lambda rows: [rows[0], b"!!! 5", *rows[2:]], ":2: found '!!! 5'"),
        (lambda rows: [rows[0], b"IQ", *rows[2:]], ":2: found 'IQ'"),
        (lambda rows: [rows[0], b"IQ== -3", *rows[2:]], ":2: found 'IQ== -3'"),
        (lambda rows: [rows[0], b"\xff\xfe", *rows[2:]], ":2: found"),
        (lambda rows: [rows[0], b"IQ== " + b"9" * 5000, *rows[2:]], ":2: found"),
        (
            lambda rows: [*rows, base64.b64encode(b"qxqzv") + b" 9999999"],
            "the rank 9999999 is not an id",
        ),
    ],
)
def test_damaged_files_are_refused(change, text, tmp_path):
    """Each fault gives an error that names file and line, where there is one."""
    path = tmp_path / "r.tiktoken"
    path.write_bytes(b"\n".join(change(case()[-1].splitlines())) + b"\n")
    with pytest.raises(VocabularyError, match=rf"r.tiktoken:.*{text.lstrip(':')}"):
        format_.read(path)


CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)


def trained(pattern, lines):
    """The rows of a ranks file that tokenizers trains on lines that this pattern cuts."""
    tokenizers = pytest.importorskip("tokenizers")
    cut = tokenizers.pre_tokenizers
    real = tokenizers.Tokenizer(tokenizers.models.BPE())
    split = cut.Split(tokenizers.Regex(pattern), "isolated")
    real.pre_tokenizer = cut.Sequence(
        [split, cut.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    alphabet = cut.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, show_progress=False
    )
    real.train_from_iterator(lines, trainer)
    ids = sorted(real.get_vocab().items(), key=lambda item: item[1])
    return [base64.b64encode(to_bytes(token)) + b" %d" % rank for token, rank in ids]


def test_ranks_of_another_pattern_are_refused(tmp_path):
    """A file whose tokens GPT-2's pattern cuts is refused by reader and library alike, with how many, one of them and
    what to do; the same text cut by GPT-2's pattern is read and agrees."""
    path, lines = (
        tmp_path / "r.tiktoken",
        [*LINES, *["(lower) [newest] _the I'LL it's don't we've 'vex (lower)\n\n"] * 20],
    )
    path.write_bytes(b"\n".join(trained(CL100K, lines)) + b"\n")
    with pytest.raises(
        VocabularyError,
        match=r"r\.tiktoken: .*GPT-2's splits \d+ of its 400 tokens, such as .+: cl100k 0.*pattern='NAME",
    ):
        format_.read(path)
    path.write_bytes(b"\n".join(trained(GPT2, lines)) + b"\n")
    vocabulary = format_.read(path)
    theirs = format_.peer(path, vocabulary).pieces(lines)
    assert Encoder(vocabulary).encode_lines(lines) == theirs
    assert any("no pattern" in lost for lost in vocabulary.provenance["lost"])


@given(
    st.lists(texts | st.sampled_from(["'ve", "'ll", "'LL", " \n", "4!"]), max_size=6).map("".join)
)
@FEW
def test_what_the_pattern_leaves_whole_is_no_sign_of_another(text):
    """No string of bytes inside a pre-token counts as cut, wherever it starts and ends in characters; a word and the
    next one, glued, do, where the pattern cuts them again."""
    words = [to_bytes(word) for word in PreTokenizer("bytes").split(text)]
    parts = {
        word[i:j]
        for word in words
        for i in range(len(word))
        for j in range(i + 1, min(len(word), i + 9) + 1)
    }
    assert cut_tokens(sorted(parts), NAMED["gpt2"]) == []
    glued = [
        (left + right).decode()
        for left, right in pairwise(words)
        if left.decode()[-1].isalpha() and right[0] < 128
    ]
    assert cut_tokens([word.encode() for word in glued], NAMED["gpt2"]) == [
        word.encode() for word in glued
    ]


@pytest.mark.parametrize(("first", "last"), [(4, 260), (0, 256), (4, 500)])
def test_ranks_are_ids(first, last, tmp_path):
    """Wherever they begin, and whatever numbers they leave out, which are ids that nothing has."""
    rows = [(bytes([byte]), first + byte) for byte in range(256)] + [(b"ab", last)]
    (tmp_path / "r").write_bytes(
        b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in rows)
    )
    found = format_.read(tmp_path / "r")
    assert found.ids == {to_characters(token): rank for token, rank in rows}
    assert (len(found), found.kinds.count("unused")) == (last + 1, last - 256)
    assert Encoder(found).encode_ids("ab").tolist() == [last]


def test_what_is_exported_is_imported(tmp_path):
    """Contractions, runs of spaces, user tokens and signs make tokens that pass; a vocabulary with a token that never
    occurs, because the pattern cuts it, is refused before anything is written."""
    lines = [
        "they've we'll you're 'v 'l <url>'ve  <url>   \t\n  x ' '' 12 1,2 \u3000\u3000a ½² e\u0301\u0327 ▁▁x"
    ] * 9
    vocabulary = learn(lines, "none", "bytes", n_merges=400, user=("<url>",))
    assert {"'ve", "'ll", "ĠĠĠĉĊ", "ĠÂ½Â²"} <= set(vocabulary.tokens)
    format_.write(vocabulary, tmp_path / "r")
    assert format_.read(tmp_path / "r").tokens == vocabulary.tokens
    merges, tokens = (*vocabulary.merges, ("x", "!")), (*vocabulary.tokens, "x!")
    with pytest.raises(VocabularyError, match=r"splits 1 of the tokens, such as 'x!'.*remove"):
        format_.write(replace(vocabulary, merges=merges, tokens=tokens), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_other_files_are_not_recognised(tmp_path):
    """Counts that fall, text, and nothing are no ranks."""
    for head in (b"", b"the 100\nofof 90\n", b"#version: 0.2\nt h\n", b"{\n", b"IQ== x\n"):
        assert not format_.recognises(tmp_path / "x", head)
    with pytest.raises(VocabularyError, match="cannot be read"):
        format_.read(tmp_path / "none")


def test_real_text_encodes_alike(lines, tmp_path):
    """Multi30k, TED, Bible: every piece and id agrees."""
    found = dict(corpora(lines))
    vocabulary = learn(
        [line for text in found.values() for line in text[::23]], "none", "bytes", n_merges=4000
    )
    format_.write(vocabulary, tmp_path / "r")
    encoder, peer = Encoder(vocabulary), format_.peer(tmp_path / "r", vocabulary)
    for text in found.values():
        assert_agree(encoder, peer, text)
