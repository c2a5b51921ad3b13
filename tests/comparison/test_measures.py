"""Laws of the measures: counting distinct words gives the measures of the text written out."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import fields
from functools import partial

import naive
import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.comparison import measures
from volt.comparison.measures import Cuts, Measures, Text, character_entropy, compared
from volt.comparison.texts import NamedText
from volt.errors import CriterionError

FEW = settings(deadline=None, max_examples=examples(60))
N_TYPES = 7
measure = partial(measures.measure, always=np.array(True), length="type", model=None)
RANKED = [field.name for field in fields(Measures) if field.default is None]  # what ranks systems
LENGTHS = np.array([1, 1, 2, 3, 1, 4, 2])
word_ = st.tuples(
    st.integers(0, 150), st.lists(st.integers(-1, N_TYPES - 1), min_size=1, max_size=5)
)
known_ = st.tuples(
    st.integers(50, 150), st.lists(st.integers(0, N_TYPES - 1), min_size=1, max_size=5)
)
rare_ = st.tuples(st.integers(1, 3), st.lists(st.just(-1), min_size=1, max_size=2))
words_ = (
    st.lists(word_, min_size=1, max_size=12) | st.tuples(rare_, known_, known_, known_).map(list)
).filter(lambda words: any(count for count, _ in words))


def part(words, characters="a"):
    """Return a text and its cuts.

    words: (count, ids) of each; characters: distinct, of equal counts
    """
    ids = [number for _, cut in words for number in cut]
    ends = np.cumsum([len(cut) for _, cut in words])
    counts = np.array([count for count, _ in words], np.int64)
    text = Text(
        counts, Counter(dict.fromkeys(characters, int(counts.sum()))), 4 * int(counts.sum())
    )
    return text, Cuts(np.array(ids, np.int64), ends)


def written_out(words):
    """Return the pieces of every word of the text."""
    return [cut for count, cut in words for _ in range(count)]


@given(words_)
@FEW
def test_measures_equal_those_of_the_text_written_out(words):
    """Each measure equals its formula over every single piece.

    If more than 1 % of the pieces are unknown, no measure ranks.
    """
    found = measure([part(words, "abc")], lengths=LENGTHS)
    text = written_out(words)
    pieces = [piece for cut in text for piece in cut]
    seen = Counter(pieces)
    n_unknown = seen[-1]
    counts = [seen[token] for token in range(N_TYPES)] + [n_unknown] * (n_unknown > 0)
    lengths = LENGTHS.tolist() + [1] * (n_unknown > 0)
    assert (found.n_words, found.n_pieces, found.n_types) == (len(text), len(pieces), N_TYPES)
    assert (found.n_used, found.n_unknown) == (len(seen) - (n_unknown > 0), n_unknown)
    assert found.unknown_rate == pytest.approx(n_unknown / len(pieces))
    assert found.is_ranked == (n_unknown <= 0.01 * len(pieces))
    if not found.is_ranked:
        assert [getattr(found, name) for name in RANKED] == [None] * len(RANKED)
        return
    total, ordered, n_types = len(pieces), sorted(counts, reverse=True), len(counts)
    assert found.tokens_per_byte == pytest.approx(len(pieces) / (4 * len(text)))
    assert found.bits == pytest.approx(len(pieces) * math.log2(n_types))
    assert found.fertility == pytest.approx(len(pieces) / len(text))
    assert found.continued_word_rate == pytest.approx(sum(len(cut) > 1 for cut in text) / len(text))
    assert found.rare_share == sum(n < 100 for n in counts) / n_types
    assert found.f95 == ordered[math.ceil(0.95 * n_types) - 1]
    entropy = naive.entropy(counts, lengths)
    shares = [n / total for n in counts]
    assert found.entropy == pytest.approx(entropy, abs=1e-12)
    assert found.muv_from_atoms == pytest.approx((math.log(3) - entropy) / (N_TYPES - 3), abs=1e-12)
    assert found.renyi == pytest.approx(
        math.log(sum(p**2.5 for p in shares)) / (-1.5 * math.log(n_types)), abs=1e-12
    )
    assert found.divergence == pytest.approx(
        sum(abs(p - 1 / n_types) for p in shares) / 2, abs=1e-12
    )
    used = [n for n in ordered if n]
    middle = used[int(0.03 * len(used)) : int(0.83 * len(used))]
    assert found.percentile_frequency == pytest.approx(sum(middle) / total)


@given(words_, words_)
@FEW
def test_parts_measure_as_their_whole(first, second):
    """A text in two parts has the measures of the whole."""
    together = measure([part(first + second)], lengths=LENGTHS)
    assert measure([part(first), part(second)], lengths=LENGTHS) == together


def test_muv_from_atoms_needs_more_types_than_characters():
    """Eq. 1 is undefined for a vocabulary that is no larger than the number of characters."""
    words = [(3, [0, 1])]
    for characters in ("abcdefg", "abcdefgh"):
        assert measure([part(words, characters)], lengths=LENGTHS).muv_from_atoms is None


def test_a_text_without_words_is_refused():
    """A text without words is an error."""
    with pytest.raises(CriterionError):
        measure([part([(0, [1])])], lengths=LENGTHS)


def test_counts_beyond_doubles_stay_exact():
    """Counts above 2⁵³ are exact."""
    counts = np.array([2**53 + 1])
    assert Cuts(np.array([0, 0]), np.array([2])).token_counts(counts, 1).tolist() == [
        2 * (2**53 + 1)
    ]


@given(
    st.dictionaries(
        st.text("abcé😀", min_size=1, max_size=6), st.integers(1, 50), min_size=1, max_size=8
    )
)
@FEW
def test_character_entropy_equals_a_plain_count(word_counts):
    """The entropy of characters equals Eq. 2 over single characters."""
    characters = Counter[str]()
    for word, count in word_counts.items():
        for character in word:
            characters[character] += count
    assert NamedText("text", word_counts).characters == characters
    found, n_distinct = character_entropy(characters)
    assert n_distinct == len(characters)
    assert found == pytest.approx(
        naive.entropy(list(characters.values()), [1] * n_distinct), abs=1e-12
    )


def test_only_several_sources_have_parity():
    """Parity needs several sources, and premium also aligned lines."""
    one = measure([part([(4, [0])])], lengths=LENGTHS)
    two = measure([part([(4, [0, 1, 2])])], lengths=LENGTHS)
    found = compared({"en": one, "de": two}, aligned=True)
    assert [(row.parity, row.premium) for row in found.values()] == [(0.5, 1), (1.5, 3)]
    assert all(
        row.premium is None for row in compared({"en": one, "de": two}, aligned=False).values()
    )
    assert compared({"en": one}, aligned=True)["en"].parity is None


def test_few_unknown_pieces_count_as_one_type():
    """Up to 1 %, unknown pieces are one more type of length 1."""
    text = Text(np.array([995, 4, 1]), Counter(dict.fromkeys("abc", 1_000)), 5_000)
    cuts = Cuts(np.array([0, 1, -1]), np.array([1, 2, 3]))
    known = Cuts(np.array([0, 1, 2]), np.array([1, 2, 3]))
    found, expected = (
        measure([(text, cuts)], lengths=np.array([4, 2])),
        measure([(text, known)], lengths=np.array([4, 2, 1])),
    )
    assert [getattr(found, name) for name in RANKED] == [getattr(expected, name) for name in RANKED]
    assert (found.n_types, found.n_used, found.unknown_rate) == (2, 2, 0.001)
    many = Text(np.array([995, 4, 11]), Counter(dict.fromkeys("abc", 1_000)), 5_000)
    assert measure([(many, cuts)], lengths=np.array([4, 2])).fertility is None
