"""Measures: counting distinct words gives the measures of the text written out."""

import math
from collections import Counter
from dataclasses import fields
from functools import partial

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.comparison import measures
from volt.comparison.measures import Cuts, Measures, TextCounts, add_parities, measure_characters
from volt.comparison.texts import NamedText
from volt.errors import CriterionError

FEW = settings(deadline=None, max_examples=examples(60))
N_TYPES = 7
measure = partial(measures.measure, always_types=np.array(True), length="type", model=None)
RANKED = [field.name for field in fields(Measures) if field.default is None]  # what ranks systems
LENGTHS = np.array([1, 1, 2, 3, 1, 4, 2])


def word_(counts, ids, most):
    return st.tuples(st.integers(*counts), st.lists(ids, min_size=1, max_size=most))


known_ = word_((50, 150), st.integers(0, N_TYPES - 1), 5)
rare_ = word_((1, 3), st.just(-1), 2)
any_ = st.lists(word_((0, 150), st.integers(-1, N_TYPES - 1), 5), min_size=1, max_size=12)
words_ = (any_ | st.tuples(rare_, known_, known_, known_).map(list)).filter(
    lambda words: any(count for count, _ in words)
)


def part(words, characters="a"):
    """Return a text and its cuts.

    words: (count, ids) of each; characters: distinct, of equal counts
    """
    ids = [number for _, cut in words for number in cut]
    ends = np.cumsum([len(cut) for _, cut in words])
    counts = np.array([count for count, _ in words], np.int64)
    n = int(counts.sum())
    text = TextCounts(counts, Counter(dict.fromkeys(characters, n)), 4 * n)
    return text, Cuts(np.array(ids, np.int64), ends)


@given(words_)
@FEW
def test_measures_equal_those_of_the_text_written_out(words):
    """Each measure equals its formula over every single piece; with more than 1 % unknown pieces,
    measures that rank systems are None."""
    result = measure([part(words, "abc")], lengths=LENGTHS)
    text = [cut for count, cut in words for _ in range(count)]
    pieces = Counter(piece for cut in text for piece in cut)
    n_pieces = pieces.total()
    n_unknown = pieces[-1]
    counts = [pieces[token] for token in range(N_TYPES)]
    lengths = LENGTHS.tolist()
    if n_unknown:
        counts.append(n_unknown)
        lengths.append(1)
    assert (result.n_words, result.n_pieces, result.n_types) == (len(text), n_pieces, N_TYPES)
    assert result.n_unknown == n_unknown
    assert result.n_used == sum(pieces[token] > 0 for token in range(N_TYPES))
    assert result.unknown_rate == pytest.approx(n_unknown / n_pieces)
    assert result.is_ranked == (n_unknown <= 0.01 * n_pieces)
    if not result.is_ranked:
        assert {getattr(result, name) for name in RANKED} == {None}
        return

    n_types = len(counts)
    ordered = sorted(counts, reverse=True)
    shares = [count / n_pieces for count in counts]
    entropy = naive.entropy(counts, lengths)
    used = [count for count in ordered if count]
    middle = used[int(0.03 * len(used)) : int(0.83 * len(used))]
    expected = {
        "tokens_per_byte": n_pieces / (4 * len(text)),
        "bits": n_pieces * math.log2(n_types),
        "fertility": n_pieces / len(text),
        "continued_word_rate": sum(len(cut) > 1 for cut in text) / len(text),
        "rare_share": sum(count < 100 for count in counts) / n_types,
        "f95": ordered[math.ceil(0.95 * n_types) - 1],
        "entropy": entropy,
        "muv_from_atoms": (math.log(3) - entropy) / (N_TYPES - 3),
        "renyi": math.log(sum(p**2.5 for p in shares)) / (-1.5 * math.log(n_types)),
        "divergence": sum(abs(p - 1 / n_types) for p in shares) / 2,
        "percentile_frequency": sum(middle) / n_pieces,
    }
    for name, value in expected.items():
        assert getattr(result, name) == pytest.approx(value, rel=1e-6, abs=1e-12), name


@given(words_, words_)
@FEW
def test_parts_measure_as_their_whole(first, second):
    """A text in two parts has the measures of the whole text."""
    together = measure([part(first + second)], lengths=LENGTHS)
    assert measure([part(first), part(second)], lengths=LENGTHS) == together


def test_muv_from_atoms_needs_more_types_than_characters():
    """`muv_from_atoms` is None for a vocabulary with no more types than the text has characters."""
    words = [(3, [0, 1])]
    for characters in ("abcdefg", "abcdefgh"):
        assert measure([part(words, characters)], lengths=LENGTHS).muv_from_atoms is None


def test_a_text_without_words_is_refused():
    """`measure` raises CriterionError for a text without words."""
    with pytest.raises(CriterionError):
        measure([part([(0, [1])])], lengths=LENGTHS)


def test_counts_beyond_doubles_stay_exact():
    """`Cuts.token_counts` is exact for counts above 2⁵³."""
    counts = np.array([2**53 + 1])
    cuts = Cuts(np.array([0, 0]), np.array([2]))
    assert cuts.token_counts(counts, 1).tolist() == [2 * (2**53 + 1)]


@given(
    st.dictionaries(
        st.text("abcé😀", min_size=1, max_size=6), st.integers(1, 50), min_size=1, max_size=8
    )
)
@FEW
def test_character_entropy_equals_a_plain_count(word_counts):
    """`measure_characters` returns Eq. 2 over the single characters of a text."""
    characters = Counter()
    for word, count in word_counts.items():
        for character in word:
            characters[character] += count
    assert NamedText("text", word_counts).characters == characters
    entropy, n_distinct = measure_characters(characters)
    assert n_distinct == len(characters)
    expected = naive.entropy(list(characters.values()), [1] * n_distinct)
    assert entropy == pytest.approx(expected, abs=1e-12)


def test_only_several_sources_have_parity():
    """`add_parities` adds parity to several sources, and the premium only if their lines are
    aligned."""
    en = measure([part([(4, [0])])], lengths=LENGTHS)
    de = measure([part([(4, [0, 1, 2])])], lengths=LENGTHS)
    both = {"en": en, "de": de}
    rows = add_parities(both, aligned=True).values()
    assert [(row.parity, row.premium) for row in rows] == [(0.5, 1), (1.5, 3)]
    assert {row.premium for row in add_parities(both, aligned=False).values()} == {None}
    assert add_parities({"en": en}, aligned=True)["en"].parity is None
