"""Laws of encoding and decoding, against a naive twin, and against subword-nmt on real text."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from random import Random

import naive
import numpy as np
import pytest
from drawn import examples
from encoders import (
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
from hypothesis import example, given, settings
from hypothesis import strategies as st
from merges import LINES

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.errors import CorpusError, VoltError
from volt.kernels.apply_bpe import LONG
from volt.learn.bpe import learn_bpe
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

MANY = settings(deadline=None, max_examples=examples(200))


@given(vocabularies(), st.lists(st.text("abc<>/w▁é😀", min_size=1, max_size=9), max_size=4))
@MANY
def test_pieces_equal_the_naive_encoder(case, others):
    """Lowest rank first, left to right, then split back to kept tokens: for any merges, kept tokens and marker, of its
    own words and of others; a line is its words."""
    words, vocabulary = [*case[0], *others], case[1]
    made = Encoder(vocabulary)
    found = made.encode_words(words)
    for word, pieces in zip(words, found, strict=True):
        assert [*pieces] == naive.encode(
            word, vocabulary.merges, vocabulary.tokens, vocabulary.marker
        )
    assert made.encode(" ".join(words)) == [*chain.from_iterable(found)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["ab" * 50_000, "".join(Random(1).choices("abcdefghijklmnop", k=100_000))]
)
def test_a_word_of_100_000_characters(word):
    """One very long word is encoded like any other."""
    candidates = learn_bpe(WordCounts.from_pairs({word: 1}), 20)
    made = Encoder(Vocabulary(tuple(candidates.merges), candidates.tokens))
    pieces = made.encode(word)
    assert pieces == naive.merged(naive.atoms(word), candidates.merges)
    assert made.decode(pieces) == word
    assert made.decode(made.encode(word, dropout=0.1, seed=1)) == word


@given(texts, schemes, st.sampled_from(NORMALIZERS))
@settings(deadline=None, max_examples=examples(400))
def test_decode_undoes_encode(text, scheme, normalizer):
    """decode(encode(x)) is x as normalised, for any text, every scheme, and text that looks like markup of ours."""
    made = encoder(*scheme, normalizer)
    assert made.decode(made.encode(text)) == spelled(text, normalizer, scheme[1], scheme[0])


@given(texts, schemes, st.sampled_from(NORMALIZERS))
@settings(deadline=None, max_examples=examples(400))
@example("abc", SCHEMES[0], "none")
@example("xabc ab", SCHEMES[0], "none")
@example("x<url>y <url> abcab@@ é▁!", SCHEMES[1], "none")
def test_decode_undoes_encode_with_user_tokens(text, scheme, normalizer):
    """The same with user tokens, which neither normaliser nor merges touch; of two that fit, the longer."""
    made = encoder(*scheme, normalizer, user=USER)
    pieces = made.encode(text)
    assert made.decode(pieces) == spelled(text, normalizer, scheme[1], scheme[0], USER)
    assert [piece for piece in pieces if piece in USER] == re.findall(
        "|".join(map(re.escape, USER)), text
    )


@given(texts, schemes, st.sampled_from(NORMALIZERS), st.booleans())
@settings(deadline=None, max_examples=examples(400))
def test_decode_undoes_encode_through_ids(text, scheme, normalizer, with_user):
    """With byte_fallback the same holds for ids: no text is unknown."""
    user = USER * with_user
    made = encoder(*scheme, normalizer, user=user, byte_fallback=True)
    ids = made.encode_ids(text)
    assert ids.dtype == np.int32
    assert (
        made.decode(made.encode(text))
        == made.decode_ids(ids)
        == spelled(text, normalizer, *scheme[::-1], user)
    )
    assert not set(ids.tolist()) & {0, 1, 2, 3}


@given(vocabularies(), st.data())
@settings(deadline=None, max_examples=examples(30))
def test_byte_fallback_spells_atoms_that_are_not_kept(case, data):
    """Also a character that merges mention, but the vocabulary does not keep, is spelled by bytes, never `<unk>`."""
    words, small = case
    made = Encoder(Vocabulary(small.merges, small.tokens, marker=small.marker, byte_fallback=True))
    line = " ".join(data.draw(st.lists(st.sampled_from(words), max_size=4)))
    ids = made.encode_ids(line)
    assert 0 not in ids
    assert made.decode_ids(ids) == (
        line.replace("▁", " ") if small.marker == "prefix" else line
    ).replace(" ", " " if small.marker != "none" else "")


@given(texts, schemes, st.booleans(), st.booleans())
@FEW
def test_pieces_are_in_the_vocabulary_or_one_character(text, scheme, with_user, byte_fallback):
    """ids(pieces) is `<unk>` for unknown characters alone; without any, pieces and ids name each other."""
    made = encoder(*scheme, user=USER * with_user, byte_fallback=byte_fallback)
    pieces, ids = made.encode(text), made.encode_ids(text)
    for piece, number in zip(pieces, ids.tolist(), strict=True):
        if number == 0:
            assert not byte_fallback
            assert len(piece.removesuffix("</w>") if scheme[0] == "suffix" else piece) == 1
        else:
            assert made.vocabulary.pieces[number] == piece


@pytest.mark.parametrize("token", ["<unk>", "<s>", "</s>", "<pad>"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_never_becomes_a_special_token(token, scheme):
    """Text that spells a token with a role is text: however often the corpus holds it, its id stays unused."""
    marker, pretokenizer = scheme
    counts = WordCounts.from_pairs({token: 9, token + "x": 9}, pretokenizer=pretokenizer)
    candidates = learn_bpe(counts, 30, marker=marker)
    kept = tuple(piece for piece in candidates.tokens if piece not in SpecialTokens().all)
    made = Encoder(
        Vocabulary(
            tuple(candidates.merges), kept, marker=marker, pretokenizer=PreTokenizer(pretokenizer)
        )
    )
    line = f"{token} {token}x{token}"
    assert not set(made.encode(line)) & set(SpecialTokens().all)
    assert not set(made.encode_ids(line.replace(" ", "")).tolist()) & {1, 2, 3}
    assert made.decode(made.encode(line)) == line


@given(st.lists(texts, max_size=5), schemes)
@FEW
def test_lines_are_encoded_one_by_one(lines, scheme):
    """encode_lines is encode of each line; the empty line has no pieces."""
    made = encoder(*scheme, "nfc", USER)
    assert made.encode_lines(lines) == [made.encode(line) for line in lines]
    assert made.encode("") == []
    assert made.encode_ids("").shape == (0,)
    assert made.decode([]) == made.decode_ids([]) == ""


def test_the_cache_changes_nothing():
    """Words come out the same before, after and while the cache is emptied."""
    made = Encoder(vocabulary(), cache_words=7)
    expected = [encoder().encode(line) for line in CORPUS]
    assert [made.encode(line) for line in CORPUS * 3] == expected * 3
    assert made.encode_lines(CORPUS) == expected


# ---- sharing, copying, refusing


def test_threads_share_an_encoder():
    """16 threads that share one encoder, with a small cache too, give what one thread gives."""
    made, rng = Encoder(vocabulary()), Random(3)
    lines = [
        " ".join("".join(rng.choices("abcdehlotw", k=rng.randint(1, 9))) for _ in range(20))
        for _ in range(400)
    ]
    expected = [Encoder(vocabulary()).encode(line) for line in lines]
    dropped = Encoder(vocabulary()).encode_lines(lines, dropout=0.3, seed=1)
    with ThreadPoolExecutor(16) as pool:
        assert [*pool.map(made.encode, lines)] == expected
        assert [*pool.map(made.encode, reversed(lines))] == expected[::-1]
        found = pool.map(
            lambda i: made.encode_lines([lines[i]], dropout=0.3, seed=1, first=i)[0],
            range(len(lines)),
        )
        assert [*found] == dropped


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lone_surrogates_are_no_text(scheme):
    """A lone surrogate is a CorpusError that says where it stands, in every way of encoding."""
    made = encoder(*scheme, user=USER)
    several = (
        (lambda line: made.encode_lines(["a", line])),
        (lambda line: made.encode_batch(["a", line])),
    )
    for call in (made.encode, made.encode_ids, made.encode_offsets, *several):
        with pytest.raises(CorpusError, match=r"U\+D800 at character 2"):
            call("ab\ud800")


# ---- subword-nmt


def assert_pieces_equal_subword_nmt(oracle, train, lines, n_merges) -> None:
    """VOLT's pieces are subword-nmt's, without and with a vocabulary filter that prunes half of the tokens."""
    counts = WordCounts.from_pairs(Counter(word for line in train for word in line.split()))
    candidates = learn_bpe(counts, n_merges)
    order = Random(1).sample(candidates.tokens, candidates.n_tokens)
    lines = [" ".join(line.split()) for line in lines]
    for kept in (None, sorted(order[: candidates.n_tokens // 2])):
        made = Encoder(
            Vocabulary(tuple(candidates.merges), candidates.tokens if kept is None else tuple(kept))
        )
        bpe = oracle.bpe(candidates.merges, kept=kept)
        assert made.encode_lines(lines) == [oracle.pieces(bpe, line) for line in lines]


def test_pieces_equal_subword_nmt(subword_nmt):
    """On a few lines, half of which the merges were not learned on."""
    assert_pieces_equal_subword_nmt(
        subword_nmt, LINES * 2, [*LINES, *CORPUS, "unseen ÄÖÜ words, aaaaaaa"], 150
    )


TED = [
    f"ted/{name}"
    for name in [
        "Cantonese",
        "Catalan",
        "Estonian",
        "Finnish",
        "Georgian",
        "Latvian",
        "Marathi",
        "Urdu",
    ]
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*(f"multi30k/train.{language}" for language in ("en", "de", "fr", "cs")), *TED]
)
def test_pieces_equal_subword_nmt_on_real_text(subword_nmt, lines, name):
    """On twelve languages and five scripts; merges are learned on the first half of the text."""
    text = lines(f"{name}.txt.gz" if name in TED else f"{name}.gz", 2_000 if name in TED else 6_000)
    assert_pieces_equal_subword_nmt(
        subword_nmt, text[: len(text) // 2], text, 2_000 if name in TED else 4_000
    )


@given(vocabularies(), st.lists(st.text("abc<>/w▁é😀", min_size=1, max_size=9), max_size=4))
@FEW
def test_pieces_of_other_words_equal_the_naive_encoder(case, words):
    """The same for words with characters that the vocabulary has never seen; they stay as they are."""
    _, vocabulary = case
    found = Encoder(vocabulary).encode_words(words)
    assert [[*pieces] for pieces in found] == [
        naive.encode(word, vocabulary.merges, vocabulary.tokens, vocabulary.marker)
        for word in words
    ]


@pytest.mark.parametrize("user", [("ab", "abc"), ("abc", "ab")])
def test_the_longer_user_token_wins(user):
    """Of two user tokens that begin at the same place the longer is taken, whichever was declared first."""
    made = encoder("suffix", "whitespace", user=user)
    assert made.encode("xabc ab") == ["x", "abc", "</w>", "ab", "</w>"]
    assert [piece for piece, *_ in made.encode_offsets("xabc ab")] == made.encode("xabc ab")


@pytest.mark.parametrize(
    ("merges", "tokens"), [((), ("a", "b", "c</w>")), ((("a", "_"),), ("a", "b", "c</w>"))]
)
def test_a_role_token_of_one_character_is_refused_or_safe(merges, tokens):
    """A role token of one character, which text may hold, is refused, or text is never encoded to it."""
    try:
        made = Encoder(Vocabulary(merges, tokens, special=SpecialTokens(pad="_")))
    except VoltError:
        return
    for line in ("a_b_c", "_", "_c", "b_ c"):
        assert 3 not in made.encode_ids(line)


def test_a_user_token_that_looks_like_the_end_of_a_word():
    """A user token spelled "</w>" or "x</w>" is refused, or survives encoding and decoding like any other."""
    for token in ("</w>", "x</w>"):
        for byte_fallback in (False, True):
            try:
                made = Encoder(
                    Vocabulary(
                        (),
                        ("a", "b</w>"),
                        special=SpecialTokens(user=(token,)),
                        byte_fallback=byte_fallback,
                    )
                )
            except VoltError:
                continue
            for line in (f"a{token}a b", f"{token} b", f"a{token}"):
                assert made.decode(made.encode(line)) == line, (token, byte_fallback)


@pytest.mark.parametrize("n", [LONG - 1, LONG, LONG + 1, 3 * LONG])
def test_long_words_are_merged_as_short_ones_are(n):
    """On either side of the length at which the loop changes, pieces are those of the naive twin."""
    rng = Random(n)
    merges = [
        ("a", "b"),
        ("a", "a"),
        ("ab", "ab"),
        ("b", "b"),
        ("aa", "ab"),
        ("bb", "a"),
        ("ab", "b</w>"),
    ]
    tokens = tuple(dict.fromkeys(["a", "b", "a</w>", "b</w>", *map("".join, merges)]))
    made = Encoder(Vocabulary(tuple(merges), tokens))
    for _ in range(20):
        word = "".join(rng.choices("ab", k=n))
        assert made.encode(word) == naive.encode(word, merges)


@given(texts)
@FEW
def test_pickling_changes_nothing(text):
    """An encoder that went through pickle encodes alike."""
    made = encoder("none", "gpt2", user=USER)
    assert pickle.loads(pickle.dumps(made)).encode(text) == made.encode(text)


def test_any_ids_decode():
    """Any sequence of ids that exist decodes, bytes that are no UTF-8 included."""
    for scheme in SCHEMES:
        made = encoder(*scheme, user=USER, byte_fallback=True)
        ids = Random(2).choices(range(len(made.vocabulary.pieces)), k=2_000)
        assert isinstance(made.decode_ids(ids), str)
        assert made.decode_ids(np.array(ids, np.int32)) == made.decode_ids(ids)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "de", "fr", "cs"])
def test_pieces_equal_subword_nmt_on_multi30k(subword_nmt, lines, language):
    """On training text that merges were learned on, and validation text that they were not."""
    train = lines(f"multi30k/train.{language}.gz", 3_000)
    assert_pieces_equal_subword_nmt(
        subword_nmt, train, train + lines(f"multi30k/val.{language}.gz"), 4_000
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "language",
    ["Cantonese", "Catalan", "Estonian", "Finnish", "Georgian", "Latvian", "Marathi", "Urdu"],
)
def test_pieces_equal_subword_nmt_on_ted(subword_nmt, lines, language):
    """On eight more languages and five scripts; merges learned on the first half."""
    text = lines(f"ted/{language}.txt.gz", 2_000)
    assert_pieces_equal_subword_nmt(subword_nmt, text[:1_000], text, 2_000)
