"""Laws of word counts: a commutative monoid with a fingerprint, rescaled and mixed without silent overflow."""

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
    """+ is associative and commutative with the empty counts as its unit, and adds word by word."""
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + WordCounts.empty() == a == WordCounts.empty() + a
    assert pairs(a + b) == Counter(pairs(a)) + Counter(pairs(b))
    assert (a + b).total == a.total + b.total


def test_counts_are_equal_if_all_but_their_sources_are():
    """A difference in one attribute is enough; sources and the temperature of a mixture are not compared."""
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
    """Words are in byte order; the fingerprint depends on words and counts alone."""
    counts = WordCounts.from_pairs(words)
    assert counts.words == sorted(words, key=str.encode)
    assert counts.fingerprint == WordCounts.from_pairs(reversed(words.items())).fingerprint
    assert len(counts.fingerprint) == 16
    assert (counts + WordCounts.from_pairs({"x": 1})).fingerprint != counts.fingerprint


def test_fingerprint_keeps_words_apart():
    """Moving a letter from one word to the next changes the fingerprint; its value never changes."""
    left, right = WordCounts.from_pairs({"ab": 1, "c": 1}), WordCounts.from_pairs({"a": 1, "bc": 1})
    assert left.fingerprint != right.fingerprint
    assert left.fingerprint == "3e30ac7ed20f4175"


def test_mixing_follows_the_temperature():
    """Totals become proportional to n^(1/T); T = 1 leaves them, T = inf makes them equal."""
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
    """Each count is near its share of the total, no word is lost, and the order of sources does not matter."""
    named = {
        name: WordCounts.from_pairs(words) for name, words in zip("badc", tables, strict=False)
    }
    totals = [sum(words.values()) for words in tables]
    weights = [total ** (1 / temperature) for total in totals]
    shares = Counter[str]()
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
    """No sum exceeds 64 bits silently; counts with different settings do not add up."""
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
    """Empty words, counts that are not positive integers and lone surrogates are refused."""
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
def test_what_is_made_of_a_table_is_checked(table, numbers, error, message):
    """A sum beyond 64 bits does not wrap, and no number is negative."""
    with pytest.raises(error, match=message):
        WordCounts(pl.DataFrame(table), **numbers)


@given(st.lists(table, max_size=9))
def test_parts_are_compacted_without_a_trace(tables):
    """However few rows or parts are held at once, the sum of words, lines, bytes and bad lines is exact."""
    parts = [CountedPart(WordCounts.from_pairs(words).table, 1, 2, 3) for words in tables]
    expected = sum(map(Counter, tables), Counter[str]())
    for rows, n_parts in ((2, 256), (1 << 22, 2), (1 << 22, 256)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(word_counts, "_MAX_WAITING_ROWS", rows)
            patch.setattr(word_counts, "_MAX_WAITING_PARTS", n_parts)
            found = sum_parts(parts)
        assert dict(found.table.rows()) == expected
        assert found[1:] == (len(tables), 2 * len(tables), 3 * len(tables))


def test_the_numbers_of_counts_add_up():
    """Sums add lines, bytes, bad lines, bounds and omitted occurrences; min_count adds what it omits."""
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
