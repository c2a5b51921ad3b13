"""Laws of `WordCounts` and `mix`: sums are exact, order does not matter, and overflow is an
error.
"""

from collections import Counter
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counting import pairs

from volt.count import word_counts
from volt.count.word_counts import CountedPart, WordCounts, mix, sum_parts
from volt.errors import ConfigError, CorpusError
from volt.text import Normalizer, PreTokenizer

table = st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 2**40), max_size=6)
counts_ = table.map(WordCounts.from_pairs)


@given(counts_, counts_, counts_)
def test_addition_is_a_commutative_monoid(a, b, c):
    """Adding word counts is associative and commutative, `WordCounts.empty()` adds nothing, words
    add up.
    """
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + WordCounts.empty() == a == WordCounts.empty() + a
    assert pairs(a + b) == Counter(pairs(a)) + Counter(pairs(b))
    assert (a + b).total == a.total + b.total


def test_counts_are_equal_if_all_but_their_sources_are():
    """Word counts are unequal if one attribute differs, other than sources and temperature."""
    counts = WordCounts.from_pairs({"a": 1, "b": 2})
    others = {
        "n_lines": 1,
        "n_bytes": 1,
        "n_bad_lines": 1,
        "bound": 1,
        "n_left_out": 1,
        "normalizer": Normalizer("nfc"),
        "pretokenizer": PreTokenizer("gpt2"),
        "table": WordCounts.from_pairs({"a": 1, "b": 3}).table,
    }
    assert replace(counts, sources=("x", "y"), temperature=2.0) == counts
    for name, value in others.items():
        assert replace(counts, **{name: value}) != counts, name
    assert counts != {"a": 1, "b": 2}


@given(table)
def test_counts_are_sorted_and_fingerprinted(words):
    """Words are sorted by bytes; the fingerprint depends on words and counts, but not on their
    order.
    """
    counts = WordCounts.from_pairs(words)
    assert counts.words == sorted(words, key=str.encode)
    assert counts.fingerprint == WordCounts.from_pairs(reversed(words.items())).fingerprint
    assert len(counts.fingerprint) == 16
    assert (counts + WordCounts.from_pairs({"x": 1})).fingerprint != counts.fingerprint


def test_fingerprint_keeps_words_apart():
    """The fingerprint changes if a letter moves to the next word, and stays the same in all
    versions.
    """
    counts = WordCounts.from_pairs({"ab": 1, "c": 1})
    assert counts.fingerprint == "3e30ac7ed20f4175"
    assert WordCounts.from_pairs({"a": 1, "bc": 1}).fingerprint != counts.fingerprint


def test_mixing_follows_the_temperature():
    """`mix` makes totals proportional to n^(1/T): unchanged for T = 1, equal for T = inf.

    A temperature that is not positive, no source, or a source without words raises an error."""
    named = {
        "a": WordCounts.from_pairs({"x": 10_000}),
        "b": WordCounts.from_pairs({"y": 75, "z": 25}),
    }
    assert pairs(mix(named)) == {"x": 10_000, "y": 75, "z": 25}
    assert pairs(mix(named, temperature=2)) == {"x": 9_182, "y": 689, "z": 230}
    assert pairs(mix(named, temperature=float("inf"))) == {"x": 5_050, "y": 3_788, "z": 1_263}
    assert pairs(mix(named, temperature=0.5)) == {"x": 10_099, "y": 1, "z": 1}
    for temperature in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match="positive temperature"):
            mix(named, temperature=temperature)
    with pytest.raises(ConfigError, match="0 sources"):
        mix({})
    with pytest.raises(CorpusError, match="source 'c' has no words"):
        mix({**named, "c": WordCounts.empty()})


@given(
    st.lists(table.filter(bool), min_size=1, max_size=4),
    st.floats(1, 100),
    st.randoms(use_true_random=False),
)
def test_a_mixture_keeps_the_total_and_every_word(tables, temperature, rng):
    """`mix` gives each word about its share of the total, at least 1, in any order of the
    sources.
    """
    named = {
        name: WordCounts.from_pairs(words) for name, words in zip("badc", tables, strict=False)
    }
    totals = [sum(words.values()) for words in tables]
    weights = [total ** (1 / temperature) for total in totals]
    shares = Counter()
    for words, total, weight in zip(tables, totals, weights, strict=True):
        shares.update(
            {
                word: count * sum(totals) * weight / sum(weights) / total
                for word, count in words.items()
            }
        )
    mixed = mix(named, temperature=temperature)
    found = pairs(mixed)
    assert found.keys() == shares.keys()
    assert all(
        abs(found[word] - share) <= len(tables) + 1e-9 * share for word, share in shares.items()
    )
    assert min(found.values()) >= 1
    assert mix(dict(rng.sample([*named.items()], len(named))), temperature=temperature) == mixed
    assert mixed.origin == f"|sources:{','.join(sorted(named))}|temperature:{temperature:g}"


def test_counts_that_do_not_fit_are_reported():
    """A sum beyond 64 bits raises an error, and so does adding counts with different settings."""
    large = WordCounts.from_pairs({"a": 2**62})
    for overflow in (
        lambda: large + large,
        lambda: WordCounts.from_pairs([("a", 2**62), ("a", 2**62)]),
        lambda: WordCounts.from_pairs({"a": 2**63}),
    ):
        with pytest.raises(CorpusError, match="more than 64 bits can store"):
            overflow()
    largest = pl.DataFrame({"word": ["a", "b"], "count": [2**62, 2**62 - 1]})
    assert WordCounts(largest).total == 2**63 - 1
    with pytest.raises(TypeError):
        _ = large + 1
    assert large != 1
    with pytest.raises(CorpusError, match="none/whitespace and none/gpt2 do not add up"):
        _ = large + WordCounts.from_pairs({"a": 1}, pretokenizer="gpt2")


@pytest.mark.parametrize(
    "bad", [{"": 1}, {"a": 0}, {"a": -1}, {"a": 1.5}, {"a": "2"}, {"\ud800": 1}]
)
def test_pairs_are_checked(bad):
    """`WordCounts.from_pairs` refuses empty words, counts that are not positive integers, and
    surrogates.
    """
    with pytest.raises(CorpusError, match=r"word '(a|\\ud800|)'"):
        WordCounts.from_pairs(bad)


@pytest.mark.parametrize(
    ("table", "numbers", "error", "message"),
    [
        (
            {"word": ["a", "b"], "count": [2**62, 2**62]},
            {},
            CorpusError,
            "add up to 9223372036854775808, more than 64",
        ),
        (
            {"word": ["a"], "count": [2**63 - 1]},
            {"bound": -1},
            ConfigError,
            "bound is -1; give 0 or more",
        ),
        (
            {"word": ["a"], "count": [1]},
            {"n_left_out": 0.5},
            ConfigError,
            "n_left_out is 0.5 .*; give a whole number",
        ),
        (
            {"word": ["a"], "count": [1]},
            {"n_lines": -2},
            ConfigError,
            "n_lines is -2; give 0 or more",
        ),
        (
            {"word": ["a"], "count": ["1"]},
            {},
            ConfigError,
            "columns of table are word String, count String; give word",
        ),
        ({}, {}, ConfigError, "the columns of table are none; give word String and count Int64"),
    ],
)
def test_tables_and_numbers_are_checked(table, numbers, error, message):
    """`WordCounts` refuses a table with other columns or a sum beyond 64 bits, and negative
    numbers.
    """
    with pytest.raises(error, match=message):
        WordCounts(pl.DataFrame(table), **numbers)


@given(st.lists(table, max_size=9))
def test_sums_of_parts_are_exact(tables):
    """`sum_parts` is exact, however few rows or parts wait to be added up."""
    parts = [CountedPart(WordCounts.from_pairs(words).table, 1, 2, 3) for words in tables]
    expected = sum(map(Counter, tables), Counter())
    for rows, n_parts in ((2, 256), (1 << 22, 2), (1 << 22, 256)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(word_counts, "_MAX_WAITING_ROWS", rows)
            patch.setattr(word_counts, "_MAX_WAITING_PARTS", n_parts)
            found = sum_parts(parts)
        assert dict(found.table.rows()) == expected
        assert found[1:] == (len(tables), 2 * len(tables), 3 * len(tables))


def test_the_numbers_of_counts_add_up():
    """Sums of word counts add lines, bytes, bad lines, bounds and left-out occurrences.

    `min_count` adds the occurrences that it removes to those left out."""
    words = WordCounts.from_pairs({"a": 4, "b": 2}).table
    one = WordCounts(words, 1, 2, 3, bound=4, n_left_out=5)
    both = one + WordCounts(words, 10, 20, 30, bound=40, n_left_out=50)
    assert (*both.part[1:], both.bound, both.n_left_out) == (11, 22, 33, 44, 55)
    assert both.origin == "|bound:44"
    empty = WordCounts.empty()
    assert (empty + one) is (one + empty) is one
    assert (one + replace(empty, n_lines=1)).n_lines == 2
    assert (one + replace(empty, n_left_out=1)).n_left_out == 6
    assert [pairs(one.min_count(n)) for n in (4, 5, 2**70)] == [{"a": 4}, {}, {}]
    assert [one.min_count(n).n_left_out for n in (-1, 2, 4, 5)] == [5, 5, 7, 11]
    mixed = mix({"x": one, "y": {"c": 1}}, temperature=3)
    assert (pairs(mixed), mixed.bound, mixed.sources) == ({"a": 3, "b": 2, "c": 2}, 5, ("x", "y"))
