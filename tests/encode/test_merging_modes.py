"""The ways in which a vocabulary may merge, each against its definition, and against the libraries that merge so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.kernels.merging import LONG
from volt.vocabulary import Vocabulary
from volt.vocabulary.vocabulary import Merging

Pair = tuple[str, str]
MANY, SOME = settings(max_examples=120, deadline=None), settings(max_examples=40, deadline=None)
LETTERS = "abc"
words_of_few = st.lists(st.text(LETTERS + "x", min_size=1, max_size=12), min_size=1, max_size=6)


def rank_finder(merges: Sequence[Pair], merging: str) -> Callable[[str, str], int | None]:
    """The rank at which two neighbours join, or None."""
    if merging == "ranks":
        of_results = {"".join(merge): rank for rank, merge in reversed(list(enumerate(merges)))}
        return lambda left, right: of_results.get(left + right)
    of_pairs = naive.first_ranks(merges)
    return lambda left, right: of_pairs.get((left, right))


def one_by_one(symbols: Sequence[str], merges: Sequence[Pair], merging: str) -> list[str]:
    """Join the leftmost neighbours of the lowest rank, until no two join."""
    rank, parts = rank_finder(merges, merging), list(symbols)
    while found := [(at, place) for place, pair in enumerate(pairwise(parts)) if (at := rank(*pair)) is not None]:
        place = min(found)[1]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts


def encoded(word: str, vocabulary: Vocabulary) -> list[str]:
    """The pieces of a word, by definition."""
    atoms = naive.atoms(word, vocabulary.marker)
    if vocabulary.whole_words and (whole := "".join(atoms)) in vocabulary.tokens:
        return [whole]
    if vocabulary.merging == "pairs":
        parts = naive.merged(atoms, vocabulary.merges)
    else:
        parts = one_by_one(atoms, vocabulary.merges, vocabulary.merging)
    return [piece for part in parts for piece in naive.split_back(part, vocabulary.merges, vocabulary.tokens)]


@st.composite
def merge_lists(draw: st.DrawFn, *, marker: str = "none", later: bool = False) -> tuple[list[str], list[Pair]]:
    """Atoms, and merges that nobody learned: several make the same, some are never used.

    later: whether a merge may need what only a later one makes
    """
    atoms = (
        list(LETTERS) + [f"{letter}</w>" for letter in LETTERS * (marker == "suffix")] + ["▁"] * (marker == "prefix")
    )
    tokens, merges = list(atoms), list[Pair]()
    for _ in range(draw(st.integers(0, 14))):
        left = draw(st.sampled_from([token for token in tokens if not token.endswith("</w>")]))
        right = draw(st.sampled_from([token for token in tokens if not token.startswith("▁")]))
        if len(left) + len(right) < 12:
            merges.append((left, right))
            tokens.append(left + right)
    return atoms, draw(st.permutations(merges)) if later else merges


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Any way to merge, any marker, some of the tokens, and with whole words some more that no merge makes."""
    merging, marker = (
        draw(st.sampled_from(["pairs", "steps", "ranks"])),
        draw(st.sampled_from(["suffix", "prefix", "none"])),
    )
    atoms, merges = draw(merge_lists(marker=marker, later=merging == "ranks"))
    tokens, whole_words = [*atoms, *map("".join, merges)], draw(st.booleans())
    if whole_words:
        more = draw(st.lists(st.text(LETTERS + "y", min_size=1, max_size=5), max_size=9))
        tokens += ["".join(naive.atoms(word, marker)) for word in more] + more
    tokens = draw(st.permutations(list(dict.fromkeys(tokens))))
    return Vocabulary(
        tuple(merges), tuple(tokens[: draw(st.integers(0, len(tokens)))]), marker=marker, merging=merging,
        whole_words=whole_words,
    )  # fmt: skip


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
def test_every_way_of_encoding_gives_the_same(vocabulary: Vocabulary, lines: list[list[str]]) -> None:
    """Lines, many lines at once, text and ids have the pieces of the words, with offsets that cover them."""
    lines = [[*words, *(t.removesuffix("</w>").removeprefix("▁") or "a" for t in vocabulary.tokens)] for words in lines]
    if vocabulary.marker == "prefix":
        lines = [[word for word in words if "▁" not in word] for words in lines]
    encoder, texts = Encoder(vocabulary), [" ".join(words) for words in lines]
    expected = [[piece for word in words for piece in encoded(word, vocabulary)] for words in lines]
    assert encoder.encode_lines(texts) == expected
    assert encoder.encode_text("".join(f"{text}\n" for text in texts).encode()).decode().split("\n")[:-1] == [
        " ".join(pieces) for pieces in expected
    ]
    assert [ids.tolist() for ids in encoder.encode_batch(texts)] == [
        encoder.ids(pieces).tolist() for pieces in expected
    ]
    for text, pieces in zip(texts, expected, strict=True):
        assert [piece for piece, *_ in encoder.encode_offsets(text)] == pieces
        assert encoder.decode(pieces) == (text if vocabulary.marker != "none" else text.replace(" ", ""))


def test_the_ways_differ() -> None:
    """Each way of merging cuts one of two words as no other does, and a whole word is not merged at all."""
    merges = (("b", "c"), ("a", "b"), ("ab", "c"), ("abc", "a"), ("a", "bc"), ("a", "a"), ("aa", "b"))
    ways: dict[Merging, list[tuple[str, ...]]] = {
        "pairs": [("abc", "abc"), ("a", "ab")],
        "steps": [("abca", "bc"), ("a", "ab")],
        "ranks": [("abc", "abc"), ("aab",)],
    }
    for merging, expected in ways.items():
        tokens = ("a", "b", "c", "bc", "ab", "abc", "abca", "aa", "aab")
        made = Vocabulary(merges, tokens, marker="none", merging=merging)
        assert Encoder(made).encode_words(["abcabc", "aab"]) == expected
        whole = replace(made, tokens=(*made.tokens, "abcabc"), whole_words=True)
        assert Encoder(whole).encode_words(["abcabc", "aab"]) == [("abcabc",), ("aab",)]


@SOME
@given(st.data())
def test_steps_are_those_of_tokenizers(data: st.DataObject) -> None:
    """The BPE model of `tokenizers` gives the same pieces; with `ignore_merges`, those of whole words."""
    models = pytest.importorskip("tokenizers.models")
    atoms, merges = data.draw(merge_lists())
    merges, whole_words = list(dict.fromkeys(merges)), data.draw(st.booleans())
    more = data.draw(st.lists(st.text(LETTERS, min_size=2, max_size=5), max_size=5)) if whole_words else []
    tokens = tuple(dict.fromkeys([*atoms, *map("".join, merges), *more]))
    vocabulary = Vocabulary(tuple(merges), tokens, marker="none", merging="steps", whole_words=whole_words)
    model = models.BPE({token: i for i, token in enumerate(tokens)}, merges, ignore_merges=whole_words)
    words = data.draw(st.lists(st.text(LETTERS, min_size=1, max_size=130), min_size=1, max_size=5)) + list(tokens)
    found = Encoder(vocabulary).encode_words(words)
    assert [list(pieces) for pieces in found] == [[token.value for token in model.tokenize(word)] for word in words]


def joined(tokens: Sequence[str]) -> tuple[Pair, ...]:
    """Tokens by rank → a merge for each that two others spell which can be made themselves."""
    found = dict[str, Pair]()
    for token in sorted(tokens, key=len):
        for left, right in ((token[:i], token[i:]) for i in range(1, len(token))):
            if {left, right} <= {*LETTERS, *found}:
                found[token] = left, right
    return tuple(found[token] for token in tokens if token in found)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.text(LETTERS, min_size=2, max_size=7), max_size=25, unique=True), st.randoms(use_true_random=False))
def test_ranks_are_those_of_tiktoken(more: list[str], rng: Random) -> None:
    """Any ranks of any tokens: tiktoken cuts words into the same, whole words and words of hundreds of bytes too."""
    tiktoken = pytest.importorskip("tiktoken")
    tokens = (*LETTERS, *more)
    made = tiktoken.Encoding("made", pat_str="[a-z]+", mergeable_ranks={t.encode(): i for i, t in enumerate(tokens)},
                             special_tokens={})  # fmt: skip
    vocabulary = Vocabulary(joined(tokens), tokens, marker="none", merging="ranks", whole_words=True)
    words = ["".join(rng.choices(LETTERS, k=rng.choice([3, 5, 8, 13, 120, 600]))) for _ in range(20)] + more
    found = Encoder(vocabulary).encode_words(words)
    assert [[*pieces] for pieces in found] == [[tokens[i] for i in made.encode_ordinary(word)] for word in words]
