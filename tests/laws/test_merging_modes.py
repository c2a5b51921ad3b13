"""Laws of the ways of merging: each has the pieces of its definition, and of the libraries that merge so."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import ids_of
from support.drawn import examples
from support.merging_modes import LETTERS, dropped, encoded, merge_lists, vocabularies

from volt.encode.encoder import Encoder
from volt.formats.sentencepiece.writing import model_class
from volt.kernels.apply_bpe import LONG
from volt.vocabulary import Vocabulary
from volt.vocabulary.vocabulary import Merging

MANY = settings(max_examples=examples(60))
SOME = settings(max_examples=examples(15))
words_of_few = st.lists(st.text(LETTERS + "x", min_size=1, max_size=12), min_size=1, max_size=6)
MERGES = (("b", "c"), ("a", "b"), ("ab", "c"), ("abc", "a"), ("a", "bc"), ("a", "a"), ("aa", "b"))
TOKENS = ("a", "b", "c", "bc", "ab", "abc", "abca", "aa", "aab")


def pieces_of(vocabulary, words):
    return list(map(list, Encoder(vocabulary).encode_words(words)))


def bare(token):
    return token.removesuffix("</w>").removeprefix("▁") or "a"


@MANY
@given(vocabularies(), words_of_few)
def test_words_are_merged_as_defined(vocabulary, words):
    """For each value of `merging`, words have the pieces of a naive implementation of its
    definition.
    """
    words += map(bare, vocabulary.tokens)
    assert pieces_of(vocabulary, words) == [encoded(word, vocabulary) for word in words]


@SOME
@given(vocabularies(), st.randoms(use_true_random=False), st.integers(LONG - 2, LONG + 40))
def test_long_words_are_merged_as_defined(vocabulary, rng, length):
    """Words around the length from which on a heap is used have the pieces of the naive
    implementation.
    """
    word = "".join(rng.choices(LETTERS * 5 + "x", k=length))
    assert pieces_of(vocabulary, [word]) == [encoded(word, vocabulary)]


@SOME
@given(vocabularies(), st.lists(words_of_few, min_size=1, max_size=3))
def test_every_call_has_the_pieces_of_the_words(vocabulary, lines):
    """Lines, batches, text and offsets have the pieces of the words; decoding gives the text."""
    lines = [[*words, *map(bare, vocabulary.tokens)] for words in lines]
    if vocabulary.marker == "prefix":
        lines = [[word for word in words if "▁" not in word] for words in lines]
    encoder = Encoder(vocabulary)
    texts = list(map(" ".join, lines))
    expected = [[piece for word in words for piece in encoded(word, vocabulary)] for words in lines]
    text = "".join(f"{text}\n" for text in texts).encode()
    assert encoder.encode_lines(texts) == expected
    assert encoder.encode_text(text).decode().split("\n")[:-1] == list(map(" ".join, expected))
    assert ids_of(encoder.encode_batch(texts)) == [encoder.ids(row).tolist() for row in expected]
    for text, pieces in zip(texts, expected, strict=True):
        assert [piece for piece, *_ in encoder.encode_offsets(text)] == pieces
        decoded = text.replace(" ", "") if vocabulary.marker == "none" else text
        assert encoder.decode(pieces) == decoded


@pytest.mark.parametrize(
    ("merging", "expected"),
    [
        ("pairs", [("abc", "abc"), ("a", "ab")]),
        ("steps", [("abca", "bc"), ("a", "ab")]),
        ("ranks", [("abc", "abc"), ("aab",)]),
    ],
)
def test_the_ways_differ(merging, expected):
    """No two values of `merging` give equal pieces for these two words."""
    vocabulary = Vocabulary(MERGES, TOKENS, marker="none", merging=merging)
    whole = replace(vocabulary, tokens=(*TOKENS, "abcabc"), whole_words=True)
    long = "x" * LONG
    assert Encoder(vocabulary).encode_words(["abcabc", "aab"]) == expected
    assert Encoder(vocabulary).encode_words(["abcabc" + long]) == [(*expected[0], *long)]
    assert Encoder(whole).encode_words(["abcabc", "aab"]) == [("abcabc",), ("aab",)]


@SOME
@given(st.data())
def test_steps_equal_tokenizers(data):
    """With merging="steps", words have the same pieces as in the BPE model of `tokenizers`; with
    `whole_words`, the same as with its `ignore_merges`."""
    models = pytest.importorskip("tokenizers.models")
    atoms, merges = data.draw(merge_lists())
    merges = list(dict.fromkeys(merges))
    whole_words = data.draw(st.booleans())
    tokens = dict.fromkeys([*atoms, *map("".join, merges)])
    if whole_words:
        others = st.lists(st.text(LETTERS, min_size=2, max_size=5), max_size=5)
        tokens |= dict.fromkeys(data.draw(others))
    ids = {token: number for number, token in enumerate(tokens)}
    model = models.BPE(ids, merges, ignore_merges=whole_words)
    words = data.draw(st.lists(st.text(LETTERS, min_size=1, max_size=130), min_size=1, max_size=5))
    words += tokens
    vocabulary = Vocabulary(
        tuple(merges), tuple(tokens), marker="none", merging="steps", whole_words=whole_words
    )
    expected = [[token.value for token in model.tokenize(word)] for word in words]
    assert pieces_of(vocabulary, words) == expected


def joined(tokens):
    """Return a merge, by rank, for each token that two others spell which can be merged themselves."""
    merges = {}
    for token in sorted(tokens, key=len):
        for i in range(1, len(token)):
            if {token[:i], token[i:]} <= {*LETTERS, *merges}:
                merges[token] = token[:i], token[i:]
    return tuple(merges[token] for token in tokens if token in merges)


others_ = st.lists(st.text(LETTERS, min_size=2, max_size=7), max_size=25, unique=True)


def random_words(rng, longest):
    return [
        "".join(rng.choices(LETTERS, k=rng.choice([3, 5, 8, 13, 120, longest]))) for _ in range(20)
    ]


@settings(max_examples=8)
@given(others_, st.randoms(use_true_random=False))
def test_ranks_equal_tiktoken(others, rng):
    """For any ranks of any tokens, tiktoken has equal pieces, of whole words and long words too."""
    tiktoken = pytest.importorskip("tiktoken")
    tokens = (*LETTERS, *others)
    ranks = {token.encode(): rank for rank, token in enumerate(tokens)}
    encoding = tiktoken.Encoding("a", pat_str="[a-z]+", mergeable_ranks=ranks, special_tokens={})
    vocabulary = Vocabulary(
        joined(tokens), tokens, marker="none", merging="ranks", whole_words=True
    )
    words = random_words(rng, 600) + others
    expected = [[tokens[id_] for id_ in encoding.encode_ordinary(word)] for word in words]
    assert pieces_of(vocabulary, words) == expected


@SOME
@given(others_, st.randoms(use_true_random=False))
def test_ranks_equal_sentencepiece(others, rng):
    """For any order of any pieces, a BPE model of sentencepiece, whose scores all differ, has equal pieces."""
    sentencepiece = pytest.importorskip("sentencepiece")
    tokens = (*LETTERS, *others)
    model = model_class()()
    model.trainer_spec.model_type = 2  # BPE
    model.normalizer_spec.add_dummy_prefix = False
    model.pieces.add(piece="<unk>", score=0, type=2)
    for rank, token in enumerate(tokens):
        model.pieces.add(piece=token, score=-rank, type=1)
    library = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    merges = joined(tokens)
    made = (*LETTERS, *map("".join, merges))
    words = random_words(rng, 300) + others
    expected = [library.encode(word, out_type=str) for word in words]
    assert pieces_of(Vocabulary(merges, made, marker="none", merging="ranks"), words) == expected


@pytest.mark.parametrize("merging", get_args(Merging))
@pytest.mark.parametrize(("word", "dropout"), [("abcabc", 0.4), ("aabaabaab", 0.2)])
def test_dropout_has_its_defined_distribution(merging, word, dropout):
    """Pieces are as frequent as if each pair that could merge is skipped at random, anew at every step; whole words are
    not looked up."""
    tokens = (*TOKENS, "abcabc")
    made = Encoder(Vocabulary(MERGES, tokens, marker="none", merging=merging, whole_words=True))
    rng = Random(5)
    n = 1_500
    rows = made.encode_lines([word] * n, dropout=dropout, seed=3)
    drawn = Counter(map(tuple, rows))
    expected = Counter(tuple(dropped(word, MERGES, merging, dropout, rng)) for _ in range(n))
    for pieces in drawn.keys() | expected.keys():
        error = 6 * (drawn[pieces] + expected[pieces] + 1) ** 0.5
        assert abs(drawn[pieces] - expected[pieces]) < error
    assert made.encode(word, dropout=1.0, seed=1) == list(word)
    batch = made.encode_batch([word] * n, dropout=dropout, seed=3)
    assert ids_of(batch) == [made.ids(pieces).tolist() for pieces in rows]
