"""Laws of merges that treat sources alike: a naive twin, plain BPE where it must be equal, and exact counts."""

from __future__ import annotations

import cProfile
from dataclasses import replace
from random import Random

import naive
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from merges import assert_exact_at_every_size, learned, markers, word_counts

import volt
from volt.count import word_counts as word_counts_module
from volt.count.word_counts import WordCounts
from volt.errors import CandidateError, ConfigError, CorpusError
from volt.learn.parity import learn_parity, measure_parity, n_units
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, SpecialTokens

FEW = settings(deadline=None, max_examples=examples(25))
UNITS = ["character", "byte", "line"]
units = st.sampled_from(UNITS)
sources_ = st.lists(word_counts(), min_size=2, max_size=3).map(
    lambda rows: dict(zip("bac", rows, strict=False))
)


def counted(sources, *, n_lines=7):
    """The counts of each source, of equally many lines."""
    return {
        name: replace(WordCounts.from_pairs(words), n_lines=n_lines)
        for name, words in sources.items()
    }


def lengths(sources, unit, *, n_lines=7):
    """The length of each source, word by word."""
    measure = {"character": len, "byte": lambda word: len(word.encode()), "line": None}[unit]
    if measure is None:
        return dict.fromkeys(sources, n_lines)
    return {
        name: sum(measure(word) * count for word, count in words.items())
        for name, words in sources.items()
    }


def in_order(sources: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """The sources as they choose where they are equally bad: the one with most words first, then by fingerprint."""
    found = counted(sources)
    return {
        name: sources[name]
        for name in sorted(found, key=lambda name: (-found[name].total, found[name].fingerprint))
    }


@given(sources_, units, markers, st.integers(0, 30), st.integers(1, 4))
@settings(deadline=None, max_examples=examples(80))
def test_merges_equal_the_naive_learner(sources, unit, marker, n_merges, min_pair_count):
    """Merges are those of encoding all words anew after every merge, to see which source is the worst and what its
    pairs are."""
    found = learn_parity(
        counted(sources), n_merges, unit=unit, marker=marker, min_pair_count=min_pair_count
    )
    assert found.merges == naive.learn_parity(
        in_order(sources), lengths(sources, unit), n_merges, marker, min_pair_count
    )


def test_merges_equal_the_naive_learner_on_longer_words():
    """The same, where heaps, pair lists and the pool outgrow their first size, and one source has most of the text."""
    rng = Random(5)
    sources = {
        name: {
            "".join(rng.choices(letters, k=rng.randint(9, 40))): rng.randint(1, most)
            for _ in range(15)
        }
        for name, letters, most in (
            ("a", "abcdefgh", 9_000),
            ("b", "cdefghij", 9),
            ("c", "αβγδcde", 3),
        )
    }
    for unit in UNITS:
        found = learn_parity(counted(sources), 90, unit=unit, min_pair_count=1)
        assert found.merges == naive.learn_parity(
            in_order(sources), lengths(sources, unit), 90, min_pair_count=1
        )


@given(word_counts(), st.integers(1, 3))
@FEW
def test_a_source_without_a_pair_leaves_the_choice_to_the_others(words, min_pair_count):
    """Sources of single characters have nothing to merge, however badly they are compressed: the third chooses."""
    sources = counted({"a": {"x": 1}, "b": {"y": 1}, "w": words})
    found = learn_parity(sources, 30, unit="line", marker="none", min_pair_count=min_pair_count)
    assert found.merges == learned(words, 30, marker="none", min_pair_count=min_pair_count).merges


@given(sources_, units, st.randoms(use_true_random=False))
@FEW
def test_names_of_sources_change_no_merge(sources, unit, rng):
    """Whoever is called what, the same merges come out: ties are decided by the texts."""
    names = rng.sample("zyxwv", len(sources))
    renamed = dict(zip(names, sources.values(), strict=True))
    assert (
        learn_parity(counted(sources), 20, unit=unit).merges
        == learn_parity(counted(renamed), 20, unit=unit).merges
    )


@given(sources_, units, st.randoms(use_true_random=False))
@FEW
def test_the_order_of_sources_changes_nothing(sources, unit, rng):
    """Candidates are equal whatever the order, atoms and counts too."""
    found, other = (
        learn_parity(counted(given), 20, unit=unit, temperature=3)
        for given in (sources, dict(rng.sample([*sources.items()], len(sources))))
    )
    assert (found.tokens, found.merges, found.origin) == (other.tokens, other.merges, other.origin)
    assert found.counts_at(found.n_tokens).tolist() == other.counts_at(other.n_tokens).tolist()


@given(sources_, st.sampled_from([1.0, 5.0]))
@FEW
def test_counts_are_those_of_the_mixture(sources, temperature):
    """At every size, counts are those of the mixture's words, encoded with the merges; the search says where they are
    from."""
    mixture = volt.mix(counted(sources), temperature=temperature)
    found = learn_parity(counted(sources), 12, temperature=temperature, min_pair_count=1)
    assert found.counts == mixture
    assert_exact_at_every_size(found, dict(mixture.table.rows()))
    names = ",".join(sorted(sources))
    assert found.origin == f"|sources:{names}|temperature:{temperature:g}|parity:character"


@given(sources_, units, markers)
@FEW
def test_measures_equal_a_naive_encoding(sources, unit, marker):
    """Units and pieces of each source are those of its own text, under both lists of merges."""
    fair = learn_parity(counted(sources), 12, unit=unit, marker=marker, min_pair_count=1)
    parity = measure_parity(counted(sources), fair, size=fair.n_tokens, unit=unit)
    plain = learned(dict(fair.counts.table.rows()), fair.n_merges, marker=marker).merges
    for row in parity.sources:
        words = sources[row.name]
        assert row.n_units == lengths(sources, unit)[row.name]
        assert row.plain == naive.token_counts(words, plain, marker).total()
        assert row.fair == naive.token_counts(words, fair.merges, marker).total()
    rates = [row.fair / row.n_units for row in parity.sources]
    assert parity.ratios[1] == pytest.approx(max(rates) / min(rates))
    pieces = [sum(row.fair for row in parity.sources), sum(row.plain for row in parity.sources)]
    assert parity.cost == pytest.approx(pieces[0] / pieces[1] - 1, abs=1e-12)


def test_a_small_source_in_another_script_is_heard():
    """Where plain BPE merges only what is frequent, parity brings the two within a tenth of each other."""
    rng = Random(1)
    syllables = {"en": ["lo", "wer", "new", "est"], "ka": ["ერ", "თი", "ორი", "სა"]}
    words = {
        name: ["".join(rng.choices(parts, k=3)) for _ in range(40)]
        for name, parts in syllables.items()
    }
    sources = {"en": dict.fromkeys(words["en"], 1000), "ka": dict.fromkeys(words["ka"], 2)}
    parity = measure_parity(sources, fair := learn_parity(sources, 20), size=fair.n_tokens)
    assert parity.ratios[0] > 1.5
    assert parity.ratios[1] < 1.1
    assert parity.cost > 0


def test_lengths_are_of_the_text_alone():
    """User tokens are no text, and words of bytes have the characters that the bytes spell."""
    of_bytes = PreTokenizer.parse("bytes")
    for counts, n_each in (
        *(
            (WordCounts.from_pairs({f"né{chr(code)}e": 2}), [6, 8])
            for code in (FIRST_HIDDEN, LAST_HIDDEN)
        ),
        *(
            (WordCounts.from_pairs({f"né{chr(code)}e": 2}), [8, 16])
            for code in (FIRST_HIDDEN - 1, LAST_HIDDEN + 1)
        ),
        (WordCounts.from_pairs({of_bytes.split("né")[0]: 2}, pretokenizer=of_bytes), [4, 6]),
    ):
        assert [n_units({"a": counts}, unit)["a"] for unit in ("character", "byte")] == n_each
    with pytest.raises(CorpusError, match="source 'a' has no text except user tokens; remove it"):
        n_units(
            {"a": WordCounts.from_pairs({SpecialTokens(user=("<url>",)).hide_text("<url>"): 2})},
            "byte",
        )


@pytest.mark.parametrize(
    ("sources", "options", "kind", "message"),
    [
        (
            {"a": {"low": 1}},
            {},
            ConfigError,
            "parity compares sources, but there is only 'a'; give two or more",
        ),
        ({}, {}, ConfigError, "0 sources"),
        (
            [{"low": 1}],
            {},
            ConfigError,
            "sources is a list; give the counts of each source by its name",
        ),
        (
            {1: {"low": 1}, 2: {"low": 1}},
            {},
            ConfigError,
            "the name of a source is 1 (int); give a str",
        ),
        ({"a": {"low": 1}, "b": {}}, {}, CorpusError, "source 'b' has no words; leave it out"),
        (
            {"a": {"low": 1}, "b": "b.txt"},
            {},
            ConfigError,
            "sources['b'] is 'b.txt' (str); give a volt.WordCounts",
        ),
        (
            {"a": {"low": 1}, "b": {"a": 1}},
            {"unit": "word"},
            ConfigError,
            "unknown unit 'word'; choose from character,",
        ),
        (
            {"a": {"low": 1}, "b": {"a": 1}},
            {"unit": "line"},
            ConfigError,
            "the counts contain no number of lines",
        ),
        (
            {"a": {"low": 1}, "b": {"a": 1}},
            {"temperature": 0},
            ConfigError,
            "2 sources, temperature 0",
        ),
        (
            {"a": {"low": 1}, "b": {"a": 1}},
            {"n_merges": -1},
            CandidateError,
            "n_merges is -1; give 0 or more",
        ),
        (
            {"a": {"low": 1}, "b": {"a": 1}},
            {"min_pair_count": 0},
            CandidateError,
            "min_pair_count is 0; give 1 or",
        ),
    ],
)
def test_what_cannot_be_is_reported(sources, options, kind, message):
    """One source, no source, no names, no words, and numbers out of range are refused before anything is learned."""
    with pytest.raises(kind) as found:
        learn_parity(sources, **options)
    assert str(found.value).startswith(message)


def test_unequal_lines_are_reported_with_both_numbers():
    """Texts that are no translations line by line have no pieces per line to compare."""
    sources = {**counted({"b": {"low": 1}}, n_lines=1200), **counted({"a": {"low": 1}})}
    with pytest.raises(
        ConfigError, match=r"source 'a' has 7 lines but 'b' has 1,200; give texts of equally"
    ):
        learn_parity(sources, unit="line")


@given(word_counts(), units, markers)
@FEW
def test_equal_sources_give_plain_merges(words, unit, marker):
    """Where all sources are the same text, all are equally badly compressed, and its own plain merges come out."""
    found = learn_parity(
        counted(dict.fromkeys("ab", words)), 30, unit=unit, marker=marker, min_pair_count=1
    )
    assert found.merges == learned(words, 30, marker=marker).merges


def test_a_source_costs_no_pass_over_the_merges():
    """Measuring more sources calls few more functions for each: merges are prepared once for all of them."""
    rng = Random(2)
    texts = [{"".join(rng.choices("abcdefgh", k=9)): 3 for _ in range(40)} for _ in range(12)]
    sources = {f"s{number:02}": WordCounts.from_pairs(words) for number, words in enumerate(texts)}
    candidates = learn_parity(sources, 600, min_pair_count=1)
    calls = []
    for n in (2, 12):
        few = dict([*sources.items()][:n])
        profile = cProfile.Profile()
        profile.runcall(measure_parity, few, candidates, size=candidates.n_tokens)
        calls.append(sum(row.callcount for row in profile.getstats()))
    assert candidates.n_merges > 500
    assert calls[1] - calls[0] < 10 * 1_500


def test_sources_are_added_up_together(monkeypatch):
    """A mixture adds up all sources at once: each addition passes over all words."""
    calls = []
    added = word_counts_module.added
    monkeypatch.setattr(
        word_counts_module, "added", lambda parts: calls.append(len(parts)) or added(parts)
    )
    sources = {
        f"s{number}": WordCounts.from_pairs({"low": number + 1, f"w{number}": 1})
        for number in range(9)
    }
    assert dict(volt.mix(sources).table.rows()) == {
        "low": 45,
        **{f"w{number}": 1 for number in range(9)},
    }
    assert [n_parts for n_parts in calls if n_parts > 1] == [9]
