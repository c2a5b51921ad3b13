"""The ways in which a vocabulary may merge, each against its definition, and against the libraries that merge so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import get_args

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from merging_modes import LETTERS, Pair, dropped, encoded, merge_lists, vocabularies

from volt.encode.encoder import Encoder
from volt.formats.sentencepiece.writing import model_class
from volt.kernels.apply_bpe import LONG
from volt.vocabulary import Vocabulary
from volt.vocabulary.vocabulary import Merging

MANY, SOME = (
    settings(max_examples=examples(60), deadline=None),
    settings(max_examples=examples(15), deadline=None),
)
words_of_few = st.lists(st.text(LETTERS + "x", min_size=1, max_size=12), min_size=1, max_size=6)


@MANY
@given(vocabularies(), words_of_few)
def test_words_are_merged_as_defined(vocabulary: Vocabulary, words: list[str]) -> None:
    """Each way of merging, pruned or not, with whole words or without, gives the pieces of its definition."""
    words += [token.removesuffix("</w>").removeprefix("▁") or "a" for token in vocabulary.tokens]
    expected = [encoded(word, vocabulary) for word in words]
    encoder = Encoder(vocabulary)
    assert [list(pieces) for pieces in encoder.encode_words(words)] == expected


@SOME
@given(vocabularies(), st.randoms(use_true_random=False), st.integers(LONG - 2, LONG + 40))
def test_long_words_are_merged_as_defined(vocabulary: Vocabulary, rng: Random, length: int) -> None:
    """The same on either side of the length from which a heap is used."""
    word = "".join(rng.choices(LETTERS * 5 + "x", k=length))
    assert list(Encoder(vocabulary).encode_words([word])[0]) == encoded(word, vocabulary)


@SOME
@given(vocabularies(), st.lists(words_of_few, min_size=1, max_size=3))
def test_every_way_of_encoding_gives_the_same(
    vocabulary: Vocabulary, lines: list[list[str]]
) -> None:
    """Lines, many lines at once, text and ids have the pieces of the words, with offsets that cover them."""
    lines = [
        [*words, *(t.removesuffix("</w>").removeprefix("▁") or "a" for t in vocabulary.tokens)]
        for words in lines
    ]
    if vocabulary.marker == "prefix":
        lines = [[word for word in words if "▁" not in word] for words in lines]
    encoder, texts = Encoder(vocabulary), [" ".join(words) for words in lines]
    expected = [[piece for word in words for piece in encoded(word, vocabulary)] for words in lines]
    assert encoder.encode_lines(texts) == expected
    assert encoder.encode_text("".join(f"{text}\n" for text in texts).encode()).decode().split(
        "\n"
    )[:-1] == [" ".join(pieces) for pieces in expected]
    assert [ids.tolist() for ids in encoder.encode_batch(texts)] == [
        encoder.ids(pieces).tolist() for pieces in expected
    ]
    for text, pieces in zip(texts, expected, strict=True):
        assert [piece for piece, *_ in encoder.encode_offsets(text)] == pieces
        assert encoder.decode(pieces) == (
            text if vocabulary.marker != "none" else text.replace(" ", "")
        )


def test_the_ways_differ() -> None:
    """Each way of merging cuts one of two words as no other does, a long one too, and a whole word is not merged."""
    merges = (
        ("b", "c"),
        ("a", "b"),
        ("ab", "c"),
        ("abc", "a"),
        ("a", "bc"),
        ("a", "a"),
        ("aa", "b"),
    )
    ways: dict[Merging, list[tuple[str, ...]]] = {
        "pairs": [("abc", "abc"), ("a", "ab")],
        "steps": [("abca", "bc"), ("a", "ab")],
        "ranks": [("abc", "abc"), ("aab",)],
    }
    for merging, expected in ways.items():
        tokens = ("a", "b", "c", "bc", "ab", "abc", "abca", "aa", "aab")
        made = Vocabulary(merges, tokens, marker="none", merging=merging)
        assert Encoder(made).encode_words(["abcabc", "aab"]) == expected
        assert Encoder(made).encode_words(["abcabc" + "x" * LONG]) == [(*expected[0], *"x" * LONG)]
        whole = replace(made, tokens=(*made.tokens, "abcabc"), whole_words=True)
        assert Encoder(whole).encode_words(["abcabc", "aab"]) == [("abcabc",), ("aab",)]


@SOME
@given(st.data())
def test_steps_are_those_of_tokenizers(data: st.DataObject) -> None:
    """The BPE model of `tokenizers` gives the same pieces; with `ignore_merges`, those of whole words."""
    models = pytest.importorskip("tokenizers.models")
    atoms, merges = data.draw(merge_lists())
    merges, whole_words = list(dict.fromkeys(merges)), data.draw(st.booleans())
    more = (
        data.draw(st.lists(st.text(LETTERS, min_size=2, max_size=5), max_size=5))
        if whole_words
        else []
    )
    tokens = tuple(dict.fromkeys([*atoms, *map("".join, merges), *more]))
    vocabulary = Vocabulary(
        tuple(merges), tokens, marker="none", merging="steps", whole_words=whole_words
    )
    model = models.BPE(
        {token: i for i, token in enumerate(tokens)}, merges, ignore_merges=whole_words
    )
    words = data.draw(
        st.lists(st.text(LETTERS, min_size=1, max_size=130), min_size=1, max_size=5)
    ) + list(tokens)
    found = Encoder(vocabulary).encode_words(words)
    assert [list(pieces) for pieces in found] == [
        [token.value for token in model.tokenize(word)] for word in words
    ]


def joined(tokens: Sequence[str]) -> tuple[Pair, ...]:
    """Tokens by rank → a merge for each that two others spell which can be made themselves."""
    found = dict[str, Pair]()
    for token in sorted(tokens, key=len):
        for left, right in ((token[:i], token[i:]) for i in range(1, len(token))):
            if {left, right} <= {*LETTERS, *found}:
                found[token] = left, right
    return tuple(found[token] for token in tokens if token in found)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.text(LETTERS, min_size=2, max_size=7), max_size=25, unique=True),
    st.randoms(use_true_random=False),
)
def test_ranks_are_those_of_tiktoken(more: list[str], rng: Random) -> None:
    """Any ranks of any tokens: tiktoken cuts words into the same, whole words and words of hundreds of bytes too."""
    tiktoken = pytest.importorskip("tiktoken")
    tokens = (*LETTERS, *more)
    made = tiktoken.Encoding(
        "made",
        pat_str="[a-z]+",
        mergeable_ranks={t.encode(): i for i, t in enumerate(tokens)},
        special_tokens={},
    )
    vocabulary = Vocabulary(
        joined(tokens), tokens, marker="none", merging="ranks", whole_words=True
    )
    words = [
        "".join(rng.choices(LETTERS, k=rng.choice([3, 5, 8, 13, 120, 600]))) for _ in range(20)
    ] + more
    found = Encoder(vocabulary).encode_words(words)
    assert [[*pieces] for pieces in found] == [
        [tokens[i] for i in made.encode_ordinary(word)] for word in words
    ]


@SOME
@given(
    st.lists(st.text(LETTERS, min_size=2, max_size=7), max_size=25, unique=True),
    st.randoms(use_true_random=False),
)
def test_ranks_are_those_of_sentencepiece(more: list[str], rng: Random) -> None:
    """Any order of any pieces: a BPE model of sentencepiece, whose scores all differ, cuts words into the same."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model, tokens = model_class()(), (*LETTERS, *more)
    model.trainer_spec.model_type = 2  # BPE
    model.normalizer_spec.add_dummy_prefix = False
    model.pieces.add(piece="<unk>", score=0, type=2)
    for rank, token in enumerate(tokens):
        model.pieces.add(piece=token, score=-rank, type=1)
    library = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    merges = joined(tokens)
    vocabulary = Vocabulary(
        merges, (*LETTERS, *map("".join, merges)), marker="none", merging="ranks"
    )
    words = [
        "".join(rng.choices(LETTERS, k=rng.choice([3, 5, 8, 13, 120, 300]))) for _ in range(20)
    ] + more
    found = Encoder(vocabulary).encode_words(words)
    assert [[*pieces] for pieces in found] == [library.encode(word, out_type=str) for word in words]


@pytest.mark.parametrize("merging", get_args(Merging))
@pytest.mark.parametrize(("word", "dropout"), [("abcabc", 0.4), ("aabaabaab", 0.2)])
def test_dropout_has_its_defined_distribution(merging: Merging, word: str, dropout: float) -> None:
    """Pieces are as frequent as where each pair that could be merged is passed over at random, anew at every step; that
    a word is a token does not matter then."""
    merges = (
        ("b", "c"),
        ("a", "b"),
        ("ab", "c"),
        ("abc", "a"),
        ("a", "bc"),
        ("a", "a"),
        ("aa", "b"),
    )
    tokens = ("a", "b", "c", "bc", "ab", "abc", "abca", "aa", "aab", "abcabc")
    made = Encoder(Vocabulary(merges, tokens, marker="none", merging=merging, whole_words=True))
    rng, n = Random(5), 1_500
    found = Counter(map(tuple, made.encode_lines([word] * n, dropout=dropout, seed=3)))
    expected = Counter(tuple(dropped(word, merges, merging, dropout, rng)) for _ in range(n))
    for pieces in found.keys() | expected.keys():
        assert (
            abs(found[pieces] - expected[pieces])
            < 6 * (found[pieces] + expected[pieces] + 1) ** 0.5
        )
    assert made.encode(word, dropout=1.0, seed=1) == list(word)
    batch = made.encode_batch([word] * n, dropout=dropout, seed=3)
    assert [ids.tolist() for ids in batch] == [
        made.ids(pieces).tolist()
        for pieces in made.encode_lines([word] * n, dropout=dropout, seed=3)
    ]
