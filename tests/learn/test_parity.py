"""Laws of parity: merges equal a naive learner, and plain BPE where both agree; counts are those of the mixture."""

import cProfile
from dataclasses import replace
from random import Random

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.merges import assert_exact_at_every_size, learned, markers, word_counts

import volt
from volt.count import word_counts as word_counts_module
from volt.count.word_counts import WordCounts
from volt.errors import CandidateError, ConfigError, CorpusError
from volt.learn.parity import learn_parity, measure_lengths, measure_parity
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, SpecialTokens

FEW = settings(max_examples=examples(25))
UNITS = ["character", "byte", "line"]
units = st.sampled_from(UNITS)
sources_ = st.lists(word_counts(), min_size=2, max_size=3).map(
    lambda rows: dict(zip("bac", rows, strict=False))
)


def counted(sources, *, n_lines=7):
    """Return the counts of each source, of equally many lines."""
    counts = {name: WordCounts.from_pairs(words) for name, words in sources.items()}
    return {name: replace(one, n_lines=n_lines) for name, one in counts.items()}


def length(words, unit):
    if unit == "line":
        return 7
    measure = len if unit == "character" else lambda word: len(word.encode())
    return sum(measure(word) * count for word, count in words.items())


def assert_equal_to_the_naive_learner(sources, n_merges, *, unit, marker="suffix", min_pair_count):
    """Compare with encoding all words anew after every merge. Ties go to the source with most words."""
    options = {"unit": unit, "marker": marker, "min_pair_count": min_pair_count}
    counts = counted(sources)
    order = sorted(counts, key=lambda name: (-counts[name].total, counts[name].fingerprint))
    ordered = {name: sources[name] for name in order}
    lengths = {name: length(words, unit) for name, words in sources.items()}
    expected = naive.learn_parity(ordered, lengths, n_merges, marker, min_pair_count)
    assert learn_parity(counts, n_merges, **options).merges == expected


@given(sources_, units, markers, st.integers(0, 30), st.integers(1, 4))
@settings(max_examples=examples(80))
def test_learn_parity_equals_the_naive_learner(sources, unit, marker, n_merges, min_pair_count):
    """The merges of `learn_parity` equal those of a learner that counts all pairs anew after each
    merge, for random sources, units, markers and minimum counts."""
    assert_equal_to_the_naive_learner(
        sources, n_merges, unit=unit, marker=marker, min_pair_count=min_pair_count
    )


@pytest.mark.parametrize("unit", UNITS)
def test_learn_parity_equals_the_naive_learner_when_its_arrays_grow(unit):
    """On long words, `learn_parity` equals the naive learner, although its heaps and lists of pairs
    outgrow their first size, and one source has most of the text."""
    rng = Random(5)
    sources = {}
    for name, letters, most in (
        ("a", "abcdefgh", 9_000),
        ("b", "cdefghij", 9),
        ("c", "αβγδcde", 3),
    ):
        words = ["".join(rng.choices(letters, k=rng.randint(9, 40))) for _ in range(15)]
        sources[name] = {word: rng.randint(1, most) for word in words}
    assert_equal_to_the_naive_learner(sources, 90, unit=unit, min_pair_count=1)


@given(word_counts(), st.integers(1, 3))
@FEW
def test_a_source_without_a_pair_lets_others_choose(words, min_pair_count):
    """If the worst sources contain only single characters, the source with words chooses all merges
    of `learn_parity`: those of plain BPE."""
    sources = counted({"a": {"x": 1}, "b": {"y": 1}, "w": words})
    fair = learn_parity(sources, 30, unit="line", marker="none", min_pair_count=min_pair_count)
    plain = learned(words, 30, marker="none", min_pair_count=min_pair_count)
    assert fair.merges == plain.merges


@given(sources_, units, st.randoms(use_true_random=False))
@FEW
def test_learn_parity_ignores_the_names_and_order_of_sources(sources, unit, rng):
    """`learn_parity` learns equal merges if sources are renamed, and equal candidates if they are
    passed in another order."""
    names = rng.sample("zyxwv", len(sources))
    renamed = dict(zip(names, sources.values(), strict=True))
    shuffled = dict(rng.sample([*sources.items()], len(sources)))
    first, second, other = (
        learn_parity(counted(one), 20, unit=unit, temperature=3)
        for one in (sources, shuffled, renamed)
    )
    assert other.merges == first.merges
    for name in ("tokens", "merges", "origin"):
        assert getattr(first, name) == getattr(second, name)
    assert first.counts_at(first.n_tokens).tolist() == second.counts_at(second.n_tokens).tolist()


@given(sources_, st.sampled_from([1.0, 5.0]))
@FEW
def test_token_counts_of_learn_parity_are_counts_of_the_mixture(sources, temperature):
    """At every size, the token counts of `learn_parity` are those of the mixture, encoded with the
    merges; `origin` names the sources, temperature and unit."""
    mixture = volt.mix(counted(sources), temperature=temperature)
    found = learn_parity(counted(sources), 12, temperature=temperature, min_pair_count=1)
    assert found.counts == mixture
    assert_exact_at_every_size(found, dict(mixture.table.rows()))
    names = ",".join(sorted(sources))
    assert found.origin == f"|sources:{names}|temperature:{temperature:g}|parity:character"


@given(sources_, units, markers)
@FEW
def test_measure_parity_equals_a_naive_encoding(sources, unit, marker):
    """The lengths and numbers of pieces in the result of `measure_parity` equal those of a naive
    encoding of each source, with plain and with parity merges."""
    fair = learn_parity(counted(sources), 12, unit=unit, marker=marker, min_pair_count=1)
    parity = measure_parity(counted(sources), fair, size=fair.n_tokens, unit=unit)
    plain = learned(dict(fair.counts.table.rows()), fair.n_merges, marker=marker).merges
    for row in parity.sources:
        words = sources[row.name]
        assert row.n_units == length(words, unit)
        assert row.plain == naive.token_counts(words, plain, marker).total()
        assert row.fair == naive.token_counts(words, fair.merges, marker).total()
    rates = [row.fair / row.n_units for row in parity.sources]
    assert parity.ratios[1] == pytest.approx(max(rates) / min(rates))
    n_fair = sum(row.fair for row in parity.sources)
    n_plain = sum(row.plain for row in parity.sources)
    assert parity.cost == pytest.approx(n_fair / n_plain - 1, abs=1e-12)


def test_parity_helps_a_small_source_in_another_script():
    """If one source is 500 times as large, plain BPE merges only its pairs; `learn_parity` brings
    both sources within a tenth of each other."""
    rng = Random(1)
    sources = {}
    for name, syllables, count in (
        ("en", ["lo", "wer", "new", "est"], 1000),
        ("ka", ["ერ", "თი", "ორი", "სა"], 2),
    ):
        words = ["".join(rng.choices(syllables, k=3)) for _ in range(40)]
        sources[name] = dict.fromkeys(words, count)
    fair = learn_parity(sources, 20)
    parity = measure_parity(sources, fair, size=fair.n_tokens)
    plain_ratio, fair_ratio = parity.ratios
    assert plain_ratio > 1.5
    assert fair_ratio < 1.1
    assert parity.cost > 0


def test_measure_lengths_counts_the_text_without_user_tokens():
    """`measure_lengths` counts no user tokens, and counts the characters that words of bytes spell;
    a source that contains only user tokens is an error."""
    of_bytes = PreTokenizer.parse("bytes")
    rows = [(WordCounts.from_pairs({of_bytes.split("né")[0]: 2}, pretokenizer=of_bytes), 4, 6)]
    for code in (FIRST_HIDDEN, LAST_HIDDEN):
        rows.append((WordCounts.from_pairs({f"né{chr(code)}e": 2}), 6, 8))
    for code in (FIRST_HIDDEN - 1, LAST_HIDDEN + 1):
        rows.append((WordCounts.from_pairs({f"né{chr(code)}e": 2}), 8, 16))
    for counts, n_characters, n_bytes in rows:
        assert measure_lengths({"a": counts}, "character") == {"a": n_characters}
        assert measure_lengths({"a": counts}, "byte") == {"a": n_bytes}
    hidden = SpecialTokens(user=("<url>",)).hide_text("<url>")
    with pytest.raises(CorpusError, match="source 'a' has no text except user tokens; remove it"):
        measure_lengths({"a": WordCounts.from_pairs({hidden: 2})}, "byte")


TWO = {"a": {"low": 1}, "b": {"a": 1}}


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        ({"a": {"low": 1}}, {}, "parity compares sources, but there is only 'a'; give two or more"),
        ({}, {}, "0 sources"),
        ([{"low": 1}], {}, "sources is a list; give the counts of each source by its name"),
        ({1: {"low": 1}, 2: {"low": 1}}, {}, "the name of a source is 1 (int); give a str"),
        ({"a": {"low": 1}, "b": {}}, {}, "source 'b' has no words; leave it out"),
        (TWO | {"b": "b.txt"}, {}, "sources['b'] is 'b.txt' (str); give a volt.WordCounts"),
        (TWO, {"unit": "word"}, "unknown unit 'word'; choose from character,"),
        (TWO, {"unit": "line"}, "the counts contain no number of lines"),
        (TWO, {"temperature": 0}, "2 sources, temperature 0"),
        (TWO, {"n_merges": -1}, "n_merges is -1; give 0 or more"),
        (TWO, {"min_pair_count": 0}, "min_pair_count is 0; give 1 or"),
    ],
)
def test_learn_parity_refuses_wrong_arguments(sources, options, message):
    """`learn_parity` raises an error for fewer than two sources, sources without names or words,
    and numbers out of range."""
    with pytest.raises((ConfigError, CorpusError, CandidateError)) as caught:
        learn_parity(sources, **options)
    assert str(caught.value).startswith(message)


def test_unit_line_needs_equal_numbers_of_lines():
    """With unit="line", `learn_parity` raises an error if sources have different numbers of lines."""
    sources = {**counted({"b": {"low": 1}}, n_lines=1200), **counted({"a": {"low": 1}})}
    with pytest.raises(
        ConfigError, match=r"source 'a' has 7 lines but 'b' has 1,200; give texts of equally"
    ):
        learn_parity(sources, unit="line")


@given(word_counts(), units, markers)
@FEW
def test_equal_sources_have_the_merges_of_plain_bpe(words, unit, marker):
    """If all sources are equal, `learn_parity` learns the merges of `learn_bpe`."""
    sources = counted(dict.fromkeys("ab", words))
    fair = learn_parity(sources, 30, unit=unit, marker=marker, min_pair_count=1)
    assert fair.merges == learned(words, 30, marker=marker).merges


def test_measure_parity_prepares_merges_once_for_all_sources():
    """For each further source, `measure_parity` calls fewer functions than there are merges."""
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


def test_mix_adds_up_all_sources_at_once(monkeypatch):
    """`mix` adds up the counts of all sources in one call, because each addition passes over all
    words."""
    calls = []
    add_parts = word_counts_module.add_parts
    monkeypatch.setattr(
        word_counts_module, "add_parts", lambda parts: calls.append(len(parts)) or add_parts(parts)
    )
    words = [f"w{number}" for number in range(9)]
    sources = {word: WordCounts.from_pairs({"low": 5, word: 1}) for word in words}
    assert dict(volt.mix(sources).table.rows()) == {"low": 45, **dict.fromkeys(words, 1)}
    assert [n_parts for n_parts in calls if n_parts > 1] == [9]
