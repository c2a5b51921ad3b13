"""Laws of encoding and decoding single lines, against a naive twin, and against subword-nmt on real text."""

import pickle
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from random import Random

import naive
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.batches import any_lines, ids_of, plain_ids
from support.drawn import examples
from support.encoders import (
    CORPUS,
    FEW,
    NORMALIZERS,
    SCHEMES,
    USER,
    encoder,
    schemes,
    spelled,
    texts,
    vocabularies,
    vocabulary,
)
from support.exports import LINES as DECLARED_LINES
from support.exports import learn
from support.merges import LINES

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, CorpusError, VoltError
from volt.kernels.apply_bpe import LONG
from volt.learn.bpe import learn_bpe
from volt.text.byte_alphabet import ALPHABET, to_bytes
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

MANY = settings(max_examples=examples(400))


@given(vocabularies(), st.lists(st.text("abc<>/w▁é😀", min_size=1, max_size=9), max_size=4))
@settings(max_examples=examples(200))
def test_pieces_equal_the_naive_encoder(case, others):
    """For any merges, tokens and marker, `encode` and `encode_words` return the pieces of the naive
    encoder.
    """
    words, vocabulary = [*case[0], *others], case[1]
    encoder = Encoder(vocabulary)
    pieces_of_words = encoder.encode_words(words)
    for word, pieces in zip(words, pieces_of_words, strict=True):
        expected = naive.encode(word, vocabulary.merges, vocabulary.tokens, vocabulary.marker)
        assert [*pieces] == expected
    assert encoder.encode(" ".join(words)) == [*chain.from_iterable(pieces_of_words)]


@pytest.mark.parametrize("n", [LONG - 1, LONG, LONG + 1, 3 * LONG])
def test_long_words_equal_the_naive_encoder(n):
    """Words of about LONG characters, from which on another loop merges, have the pieces of the
    naive encoder.
    """
    rng = Random(n)
    pairs = "a+b a+a ab+ab b+b aa+ab bb+a ab+b</w>"
    merges = [tuple(pair.split("+")) for pair in pairs.split()]
    tokens = tuple(dict.fromkeys(["a", "b", "a</w>", "b</w>", *map("".join, merges)]))
    encoder = Encoder(Vocabulary(tuple(merges), tokens))
    for _ in range(20):
        word = "".join(rng.choices("ab", k=n))
        assert encoder.encode(word) == naive.encode(word, merges)


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["ab" * 50_000, "".join(Random(1).choices("abcdefghijklmnop", k=100_000))]
)
def test_a_word_of_100_000_characters(word):
    """A word of 100,000 characters has the pieces of the naive encoder, and decodes to itself, even
    after dropout.
    """
    candidates = learn_bpe(WordCounts.from_pairs({word: 1}), 20)
    encoder = Encoder(Vocabulary(tuple(candidates.merges), candidates.tokens))
    pieces = encoder.encode(word)
    assert pieces == naive.merged(naive.atoms(word), candidates.merges)
    assert encoder.decode(pieces) == word
    assert encoder.decode(encoder.encode(word, dropout=0.1, seed=1)) == word


@given(texts, schemes, st.sampled_from(NORMALIZERS), st.booleans())
@MANY
@example("abc", SCHEMES[0], "none", True)
@example("xabc ab", SCHEMES[0], "none", True)
@example("x<url>y <url> abcab@@ é▁!", SCHEMES[1], "none", True)
def test_decode_undoes_encode(text, scheme, normalizer, has_users):
    """`decode(encode(text))` is the normalised text, for any text and pre-tokenizer.

    Of user tokens that overlap, the longest is found.
    """
    user = USER if has_users else ()
    made = encoder(*scheme, normalizer, user=user)
    pieces = made.encode(text)
    assert made.decode(pieces) == spelled(text, normalizer, scheme[1], scheme[0], user)
    if user:
        expected = re.findall("|".join(map(re.escape, USER)), text)
        assert [piece for piece in pieces if piece in USER] == expected


@given(texts, schemes, st.sampled_from(NORMALIZERS), st.booleans())
@MANY
def test_decode_undoes_encode_through_ids(text, scheme, normalizer, has_users):
    """With `byte_fallback`, `decode_ids(encode_ids(text))` is the normalised text, and no id is
    that of `<unk>`.
    """
    user = USER if has_users else ()
    made = encoder(*scheme, normalizer, user=user, byte_fallback=True)
    ids = made.encode_ids(text)
    expected = spelled(text, normalizer, scheme[1], scheme[0], user)
    assert ids.dtype == np.int32
    assert made.decode(made.encode(text)) == made.decode_ids(ids) == expected
    assert not set(ids.tolist()) & {0, 1, 2, 3}


@given(vocabularies(), st.data())
@settings(max_examples=examples(30))
def test_byte_fallback_spells_atoms_outside_the_vocabulary(case, data):
    """With `byte_fallback`, a character that is in merges but not in the vocabulary becomes byte
    tokens, not `<unk>`.
    """
    words, small = case
    made = Encoder(replace(small, byte_fallback=True, counts=()))
    line = " ".join(data.draw(st.lists(st.sampled_from(words), max_size=4)))
    ids = made.encode_ids(line)
    expected = line.replace("▁", " ") if small.marker == "prefix" else line
    if small.marker == "none":
        expected = expected.replace(" ", "")
    assert 0 not in ids
    assert made.decode_ids(ids) == expected


@given(texts, schemes, st.booleans(), st.booleans())
@FEW
def test_pieces_are_in_the_vocabulary_or_one_character(text, scheme, has_users, byte_fallback):
    """A piece is a token with its own id, or one unknown character with the id of `<unk>`."""
    made = encoder(*scheme, user=USER if has_users else (), byte_fallback=byte_fallback)
    for piece, number in zip(made.encode(text), made.encode_ids(text).tolist(), strict=True):
        if number == 0:
            bare = piece.removesuffix("</w>") if scheme[0] == "suffix" else piece
            assert not byte_fallback
            assert len(bare) == 1
        else:
            assert made.vocabulary.pieces[number] == piece


@pytest.mark.parametrize("token", ["<unk>", "<s>", "</s>", "<pad>"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_never_becomes_a_special_token(token, scheme):
    """Text that spells a token with a role, such as `<s>`, is never encoded to it, even if the
    corpus contains it often.
    """
    marker, pretokenizer = scheme
    counts = WordCounts.from_pairs({token: 9, token + "x": 9}, pretokenizer=pretokenizer)
    candidates = learn_bpe(counts, 30, marker=marker)
    special = set(SpecialTokens().all)
    tokens = tuple(token for token in candidates.tokens if token not in special)
    cut = PreTokenizer(pretokenizer)
    made = Encoder(Vocabulary(tuple(candidates.merges), tokens, marker=marker, pretokenizer=cut))
    line = f"{token} {token}x{token}"
    assert not set(made.encode(line)) & special
    assert not set(made.encode_ids(line.replace(" ", "")).tolist()) & {1, 2, 3}
    assert made.decode(made.encode(line)) == line


@given(st.lists(texts, max_size=5), schemes)
@FEW
def test_lines_are_encoded_one_by_one(lines, scheme):
    """`encode_lines` returns the pieces of `encode` for each line; an empty line has none."""
    made = encoder(*scheme, "nfc", USER)
    assert made.encode_lines(lines) == [made.encode(line) for line in lines]
    assert made.encode("") == []
    assert made.encode_ids("").shape == (0,)
    assert made.decode([]) == made.decode_ids([]) == ""


def test_the_cache_changes_nothing():
    """An encoder with a cache of seven words returns the pieces of an encoder with a large cache."""
    made = Encoder(vocabulary(), cache_words=7)
    expected = [encoder().encode(line) for line in CORPUS]
    assert [made.encode(line) for line in CORPUS * 3] == expected * 3
    assert made.encode_lines(CORPUS) == expected


def test_a_pickled_encoder_has_the_limit_of_the_cache():
    """Pickling an encoder keeps `cache_words`: a cache of seven words is emptied at the eighth, and
    pieces are equal.
    """
    made = pickle.loads(pickle.dumps(Encoder(vocabulary(), cache_words=7)))
    assert made.encode_lines(CORPUS) == encoder().encode_lines(CORPUS)
    for other, is_full in ((made, True), (Encoder(vocabulary(), cache_words=9), False)):
        for word in [*(f"w{i}" for i in range(8)), "another"]:
            other.encode(word)
        [cache] = other._line_encoder._idle_caches
        assert (cache.n_units < 8) == is_full


def test_threads_share_an_encoder():
    """16 threads that share one encoder have the pieces of one thread, with dropout and without."""
    made = Encoder(vocabulary(), cache_words=100)
    rng = Random(3)
    words = ["".join(rng.choices("abcdehlotw", k=rng.randint(1, 9))) for _ in range(8_000)]
    lines = [" ".join(words[place::400]) for place in range(400)]
    expected = Encoder(vocabulary()).encode_lines(lines)
    sampled = Encoder(vocabulary()).encode_lines(lines, dropout=0.3, seed=1)

    def sample(number):
        return made.encode_lines([lines[number]], dropout=0.3, seed=1, first=number)[0]

    with ThreadPoolExecutor(16) as pool:
        assert [*pool.map(made.encode, lines)] == expected
        ids = [*pool.map(made.encode_ids, lines)]
        assert [row.tolist() for row in ids] == [made.ids(row).tolist() for row in expected]
        assert [*pool.map(made.decode_ids, ids)] == made.decode_batch(ids)
        assert [*pool.map(sample, range(len(lines)))] == sampled


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lone_surrogates_are_refused(scheme):
    """Every method that encodes text raises CorpusError for a lone surrogate, with its position."""
    made = encoder(*scheme, user=USER)
    ways = [made.encode, made.encode_ids, made.encode_offsets]
    ways += [
        lambda line: made.encode_lines(["a", line]),
        lambda line: made.encode_batch(["a", line]),
    ]
    for call in ways:
        with pytest.raises(CorpusError, match=r"U\+D800 at character 2"):
            call("ab\ud800")


def assert_pieces_equal_subword_nmt(oracle, train, lines, n_merges):
    """Compare pieces with subword-nmt, without a filter and with one that removes half of the tokens."""
    counts = WordCounts.from_pairs(Counter(word for line in train for word in line.split()))
    candidates = learn_bpe(counts, n_merges)
    half = Random(1).sample(candidates.tokens, candidates.n_tokens // 2)
    lines = [" ".join(line.split()) for line in lines]
    for retained in (None, sorted(half)):
        tokens = candidates.tokens if retained is None else tuple(retained)
        made = Encoder(Vocabulary(tuple(candidates.merges), tokens))
        bpe = oracle.bpe(candidates.merges, kept=retained)
        assert made.encode_lines(lines) == [oracle.pieces(bpe, line) for line in lines]


def test_pieces_equal_subword_nmt(subword_nmt):
    """`encode_lines` returns the pieces of subword-nmt on a few lines, half of which merges were
    not learned from.
    """
    lines = [*LINES, *CORPUS, "unseen ÄÖÜ words, aaaaaaa"]
    assert_pieces_equal_subword_nmt(subword_nmt, LINES * 2, lines, 150)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(f"multi30k/train.{language}.gz" for language in ("en", "de", "fr", "cs")),
        *(f"ted/{name}.txt.gz" for name in ("Cantonese", "Catalan", "Estonian", "Finnish")),
        *(f"ted/{name}.txt.gz" for name in ("Georgian", "Latvian", "Marathi", "Urdu")),
    ],
)
def test_pieces_equal_subword_nmt_on_real_text(subword_nmt, lines, name):
    """`encode_lines` returns the pieces of subword-nmt on real text in twelve languages and five
    scripts.
    """
    n_lines, n_merges = (2_000, 2_000) if name.startswith("ted") else (6_000, 4_000)
    text = lines(name, n_lines)
    assert_pieces_equal_subword_nmt(subword_nmt, text[: len(text) // 2], text, n_merges)


@pytest.mark.parametrize("merges", [(), (("a", "_"),)])
def test_a_role_token_of_one_character_is_refused_or_safe(merges):
    """A one-character token with a role is refused, or no text is encoded to it."""
    try:
        made = Encoder(Vocabulary(merges, ("a", "b", "c</w>"), special=SpecialTokens(pad="_")))
    except VoltError:
        return
    for line in ("a_b_c", "_", "_c", "b_ c"):
        assert 3 not in made.encode_ids(line)


@pytest.mark.parametrize("token", ["</w>", "x</w>"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_a_user_token_that_looks_like_the_end_of_a_word(token, byte_fallback):
    """A user token that ends in "</w>" is refused, or survives encoding and decoding."""
    try:
        special = SpecialTokens(user=(token,))
        made = Vocabulary((), ("a", "b</w>"), special=special, byte_fallback=byte_fallback)
    except VoltError:
        return
    for line in (f"a{token}a b", f"{token} b", f"a{token}"):
        assert Encoder(made).decode(Encoder(made).encode(line)) == line


def test_bad_arguments_are_refused():
    """`encode_text` refuses ids with a separator, and `Encoder` refuses `cache_words=0`."""
    with pytest.raises(ConfigError, match="choose pieces, or ids"):
        encoder().encode_text(b"low", form="ids", separator="@@")
    with pytest.raises(ConfigError, match="cache_words"):
        Encoder(vocabulary(), cache_words=0)


# ---- declared patterns

PATTERNS = [
    ("cl100k", "characters"),
    ("o200k", "bytes"),
    ("deepseek3", "bytes"),
    (r" ?\w+", "characters"),
]


def declared(pattern, level, normalizer="none", user=()):
    cut = PreTokenizer.of_pattern(pattern, level=level).name
    return Encoder(learn(DECLARED_LINES, "none", cut, normalizer, user=user))


@pytest.mark.parametrize(("pattern", "level"), PATTERNS)
@pytest.mark.parametrize(("normalizer", "user"), [("none", ()), ("nfkc", ("<url>",))])
def test_batches_equal_lines_with_declared_patterns(pattern, level, normalizer, user):
    """With published patterns, `encode_batch`, `encode_ids` and `encode_offsets` agree on any
    lines.
    """
    made = declared(pattern, level, normalizer, user)

    @given(any_lines)
    @example(["low\r", "", "\n", "a<url>b", "\U0010f000"])
    @settings(max_examples=examples(20))
    def check(lines):
        assert ids_of(made.encode_batch(lines)) == plain_ids(made, lines)
        for line in lines:
            assert [piece for piece, *_ in made.encode_offsets(line)] == made.encode(line)

    check()


@pytest.mark.parametrize("pattern", ["cl100k", "o200k", "digits3-right"])
@given(lines=any_lines)
@settings(max_examples=examples(20))
def test_bytes_decode_to_the_text(pattern, lines):
    """If all bytes are in the vocabulary, `decode_batch(encode_batch(lines))` gives the lines."""
    known = BYTE_ENCODERS[pattern]
    assert known.decode_batch(known.encode_batch(lines)) == lines


BYTE_ENCODERS = {}
for _pattern in ("cl100k", "o200k", "digits3-right"):
    _vocabulary = declared(_pattern, "bytes").vocabulary
    _tokens = tuple(dict.fromkeys([*ALPHABET, *_vocabulary.tokens]))
    BYTE_ENCODERS[_pattern] = Encoder(replace(_vocabulary, tokens=_tokens, counts=()))


@pytest.mark.parametrize(("pattern", "level"), PATTERNS)
def test_files_contain_the_declared_splits(pattern, level, tmp_path):
    """A saved and loaded vocabulary has the splits of its pattern, and encodes lines to equal ids."""
    made = declared(pattern, level)
    made.vocabulary.save(tmp_path / "v.volt")
    loaded = Vocabulary.load(tmp_path / "v.volt")
    assert loaded.pretokenizer.splits == made.vocabulary.pretokenizer.splits != ()
    assert loaded.fingerprint == made.vocabulary.fingerprint
    expected = ids_of(made.encode_batch(DECLARED_LINES))
    assert ids_of(Encoder(loaded).encode_batch(DECLARED_LINES)) == expected


# ---- unknown characters

MISSING_BYTES = "ÃbâĠ"
EDGES = "\x7f\x80 \u07ff\u0800 \ud7ff\ue000 \uffff\U00010000 \U000fffff\U0010ffff"  # of the sizes of UTF-8


def without_some_bytes(cut):
    end = "</w>" if "matches" in cut else ""
    atoms = [atom for atom in ALPHABET if atom not in MISSING_BYTES]
    tokens = dict.fromkeys([*atoms, *(atom + end for atom in atoms), "ac" + end])
    return Encoder(
        Vocabulary(
            (("a", "c" + end),),
            tuple(tokens),
            marker="suffix" if end else "none",
            pretokenizer=PreTokenizer(cut),
        )
    )


@pytest.mark.parametrize("cut", ["bytes", "bytes+split: ?[a-z]+", "bytes+matches:[^ ]+"])
def test_a_byte_that_the_vocabulary_lacks_is_one_piece(cut):
    """In GPT-2's byte alphabet, each byte that the vocabulary lacks is one piece, with the id of
    `<unk>`.
    """
    made = without_some_bytes(cut)
    known = made.vocabulary.ids

    @given(st.text(st.sampled_from("abcé中Ãâ ,\U0010f000"), max_size=12))
    @example("é")
    @example("Ã")
    @settings(max_examples=examples(25))
    def check(line):
        pieces = made.encode(line)
        bare = [piece.removesuffix("</w>") for piece in pieces]
        text = line.replace(" ", "") if "matches" in cut else line
        assert to_bytes("".join(bare)) == text.encode()
        for piece, byte in zip(pieces, bare, strict=True):
            assert piece in known or byte in MISSING_BYTES
        ids = [known.get(piece, made.vocabulary.unk_id) for piece in pieces]
        assert made.encode_batch([line], n_threads=1).ids.tolist() == ids
        assert [piece for piece, *_ in made.encode_offsets(line)] == pieces
        if "matches" not in cut:
            assert made.decode(pieces) == line

    check()


CUTS = [
    ("whitespace", "suffix"),
    ("whitespace", "prefix"),
    ("unicode", "none"),
    ("gpt2", "none"),
    ("metaspace", "none"),
    ("metaspace-runs", "none"),
    ("metaspace-line", "none"),
    (r"split: ?\w+", "none"),
]


@pytest.mark.parametrize(("cut", "marker"), CUTS)
@pytest.mark.parametrize(
    ("byte_fallback", "unk", "user"),
    [(True, "<unk>", ()), (False, "<unk>", ()), (False, None, ()), (True, "<unk>", ("<url>",))],
)
def test_unknown_characters_of_a_batch_equal_those_of_lines(cut, marker, byte_fallback, unk, user):
    """A batch and single lines encode unknown characters to equal ids.

    These are byte tokens, the id of `<unk>`, or nothing, depending on the vocabulary.
    """
    is_prefixed = marker == "none"
    made = Encoder(
        Vocabulary(
            (("l", "o"), ("▁", "lo")) if is_prefixed else (("l", "o"),),
            (*("a", "b", "lo", "w", "é"), *(("▁", "▁lo") if is_prefixed else ())),
            marker=marker,
            pretokenizer=PreTokenizer.parse(cut),
            special=SpecialTokens(unk, None, None, None, user=user),
            byte_fallback=byte_fallback,
        )
    )

    @given(any_lines)
    @example([EDGES, f"lo{EDGES}low", "low 中文 naïve 😀 <url>"])
    @settings(max_examples=examples(10))
    def check(lines):
        expected = plain_ids(made, lines)
        batch = made.encode_batch(lines, n_threads=1)
        assert ids_of(batch) == expected
        assert made.decode_batch(batch) == list(map(made.decode_ids, expected))

    check()


@pytest.mark.parametrize("marker", ["none", "suffix"])
@pytest.mark.parametrize("tokens", [("a", "b"), ALPHABET])
def test_pieces_without_ids_are_returned(marker, tokens):
    """If a vocabulary of bytes lacks unk, `encode` returns pieces that have no ids too."""
    special = SpecialTokens(unk=None)
    cut = PreTokenizer("bytes")
    made = Encoder(
        Vocabulary((), tokens, marker=marker, pretokenizer=cut, byte_fallback=True, special=special)
    )
    for line in ("abz", "ab c"):
        assert made.encode(line) == made.encode_lines([line])[0]


def test_the_memory_of_long_texts_is_freed(monkeypatch):
    """A cache is emptied when its values take much memory, and the memory of a long text is freed."""
    monkeypatch.setattr("volt.encode.unit_cache._LARGE", 1_000)
    made = Encoder(vocabulary(), cache_words=8)
    lines = ["lo" * n for n in range(1_000, 1_020)]
    assert [made.encode(line) for line in lines] == made.encode_lines(lines)
    [cache] = made._line_encoder._idle_caches
    assert cache.n_units < 8
    assert len(cache.memory.data) < 10_000
