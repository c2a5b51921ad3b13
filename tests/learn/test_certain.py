"""Laws of the merges that no word that is left out could have changed, against a naive learner over all words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import naive
import polars as pl
import pytest
from commands import Run
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from merges import MARKERS, markers, word_counts

import volt
from volt.choose.report import as_data
from volt.count import left_out
from volt.count.budget import Budget, approximate_sum, bounded_sum
from volt.count.left_out import NOTHING, UNKNOWN, LeftOutPairs, left_out_pairs
from volt.count.word_counts import CountedPart, WordCounts
from volt.learn.bpe import learn_bpe, replay_bpe
from volt.learn.certain import certain_merges
from volt.text.characters import Marker, atom_text
from volt.text.special_tokens import SpecialTokens

MOST = 40
COUNTS = st.integers(1, 4) | st.integers(3, 60)
WORDS = st.dictionaries(st.text("aabcd", min_size=1, max_size=6), COUNTS, min_size=1, max_size=12)


def table_of(words: Mapping[str, int]) -> pl.DataFrame:
    return pl.DataFrame([*words.items()], schema={"word": pl.String, "count": pl.Int64}, orient="row")


def parts_of(parts: list[dict[str, int]]) -> list[CountedPart]:
    return [CountedPart(table_of(words), 1, 1, 0) for words in parts]


def total_of(parts: list[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for words in parts:
        total.update(words)
    return total


def seams_of(pairs: LeftOutPairs, marker: Marker) -> tuple[dict[naive.Pair, int], int]:
    """The count of each pair of atoms, and the rest."""
    keys, counts, rest = pairs.seams(marker)
    atoms = [(chr(key >> 22), atom_text(key & (1 << 22) - 1)) for key in keys.tolist()]
    return dict(zip(atoms, counts.tolist(), strict=True)), rest


def same_at_first(one: list[naive.Pair], other: list[naive.Pair]) -> int:
    """How many merges of two lists are the same before the first that differs."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def assert_certain(counts: WordCounts, words: Mapping[str, int], marker: str, *, is_exact: bool = True) -> None:
    """The first merges are those of all words, and as many as the definition gives."""
    candidates = learn_bpe(counts, MOST, marker=marker, min_pair_count=1)
    n_certain = certain_merges(candidates)
    assert n_certain is not None
    assert same_at_first(naive.learn(words, MOST, marker, 1), candidates.merges) >= n_certain
    kept = dict(counts.table.rows())
    gone = {word: count - kept.get(word, 0) for word, count in words.items() if count > kept.get(word, 0)}
    if counts.n_left_out and is_exact:
        assert n_certain == naive.certain(kept, gone, candidates.merges, marker)


@given(word_counts() | WORDS, markers, st.integers(1, 5))
@settings(deadline=None, max_examples=examples(600))
def test_the_first_merges_are_those_of_all_words(words, marker, min_count):
    """Whatever was left out, ties, overlaps, markers in text and characters that only rare words hold included."""
    assert_certain(WordCounts.from_pairs(words).min_count(min_count), words, marker)


@given(st.lists(WORDS, min_size=1, max_size=6), markers, st.integers(1, 12))
@settings(deadline=None, max_examples=examples(300))
def test_they_are_where_words_were_forgotten(parts, marker, n_words):
    """In part or altogether, as often as they came and were forgotten."""
    found = approximate_sum(parts_of(parts), n_words=n_words)
    counts = WordCounts(
        *found.part, bound=found.bound, n_left_out=found.n_left_out, left_out_pairs=found.left_out_pairs
    )
    assert_certain(counts, total_of(parts), marker)
    assert_certain(counts.min_count(3), total_of(parts), marker)


@given(st.lists(WORDS, max_size=6), st.integers(1, 5), st.randoms(use_true_random=False))
def test_spilled_words_leave_out_the_same_pairs_in_any_order(parts, min_count, rng):
    """What is left out is told alike with words on the disk, without, and whichever part comes first."""
    shuffled = rng.sample(parts, len(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "pending", 200)
        patch.setattr(Budget, "table", 10**9)
        found = bounded_sum(parts_of(shuffled), Budget.of("1G"), min_count=min_count)
    rare = {word: count for word, count in total_of(parts).items() if count < min_count}
    assert found.left_out_pairs == left_out_pairs(table_of(rare))
    assert found.left_out_pairs == WordCounts.from_pairs(total_of(parts)).min_count(min_count).left_out_pairs


@given(st.lists(WORDS, min_size=1, max_size=4), markers, st.integers(1, 4))
@settings(deadline=None, max_examples=examples(200))
def test_folded_pairs_are_never_too_few(parts, marker, most):
    """Beyond as many pairs as are held, none comes more often than is told, in sums as well, and the law holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(left_out, "_MOST_PAIRS", most)
        patch.setattr(left_out, "_ROWS", 3)
        counts = WordCounts.empty()
        for words in parts:
            counts += WordCounts.from_pairs(words).min_count(4)
    gone = total_of([{word: count for word, count in words.items() if count < 4} for words in parts])
    pairs = counts.left_out_pairs
    assert pairs.table.height <= most
    found, rest = seams_of(pairs, marker)
    expected = naive.pair_counts(gone, {word: naive.atoms(word, marker) for word in gone})
    assert all(found.get(pair, rest) >= count for pair, count in expected.items())
    if counts.n_words:
        assert_certain(counts, total_of(parts), marker, is_exact=not pairs.rest)


@pytest.mark.parametrize("marker", MARKERS)
def test_no_more_is_told_of_a_pair_than_came(marker: Marker) -> None:
    """Unless pairs were folded."""
    words = {"ab": 3, "bab": 2, "c": 9, "▁ab": 4}
    pairs = left_out_pairs(table_of(words))
    expected = naive.pair_counts(words, {word: naive.atoms(word, marker) for word in words})
    assert seams_of(pairs, marker) == (expected, 0)
    assert (pairs.most, pairs.rest) == (9, 0)
    assert pairs + NOTHING == pairs == NOTHING + pairs
    assert pairs + pairs == left_out_pairs(table_of({word: 2 * count for word, count in words.items()}))


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("n_rare", [0, 1, 30])
def test_longer_words(marker: str, n_rare: int) -> None:
    """The same, where pair lists, heap and pool outgrow their first size; nothing rare, nothing uncertain."""
    rng = Random(7)
    words = {"".join(rng.choices("abcdefgh", k=rng.randint(20, 60))): rng.randint(300, 90_000) for _ in range(60)}
    rare = {"".join(rng.choices("abcdefghij", k=9)): 1 for _ in range(n_rare)}
    candidates = learn_bpe(WordCounts.from_pairs(words | rare).min_count(2), 150, marker=marker)
    expected = naive.certain(words, rare, candidates.merges, marker)
    assert certain_merges(candidates) == expected
    assert expected >= 20
    assert same_at_first(naive.learn(words | rare, 150, marker), candidates.merges) >= expected


def test_user_tokens_and_characters_left_out() -> None:
    """Words that user tokens cut, and words without their rare characters, are certain of what all of them give."""
    hidden = SpecialTokens(user=("<url>",)).hide_text("ab<url>ab")
    counts = WordCounts.from_pairs({hidden: 9, "abc": 7, "cd": 5, "bcd": 1, f"{hidden}b": 1})
    everything, kept = learn_bpe(counts, 4), learn_bpe(counts.min_count(2), 4)
    assert kept.merges == [("a", "b"), ("a", "b</w>"), ("ab", "c</w>"), ("c", "d</w>")]
    assert (same_at_first(everything.merges, kept.merges), certain_merges(kept)) == (4, 4)
    counts = WordCounts.from_pairs({"abc": 9, "abx": 4, "bca": 1})
    everything, kept = (learn_bpe(some, 9, coverage=0.9) for some in (counts, counts.min_count(2)))
    assert [one.coverage.left_out for one in (everything, kept) if one.coverage] == ["x", "x"]
    assert everything.merges[:2] == kept.merges == [("a", "b"), ("ab", "c</w>")]
    assert certain_merges(kept) == 2


@pytest.mark.parametrize("pretokenizer", ["whitespace", "bytes", "gpt2", "metaspace"])
@pytest.mark.parametrize("min_count", [2, 4])
def test_files_tell_alike_however_they_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretokenizer: str, min_count: int
) -> None:
    """In any order, by several workers, within a memory and through a pipe."""
    rng = Random(3)
    lines = [
        " ".join("".join(rng.choices("abcdé", [80, 20, 9, 3, 1], k=rng.randint(1, 4))) for _ in range(9)) + "\n"
        for _ in range(400)
    ]
    paths = [tmp_path / f"{n}.txt" for n in range(4)]
    for n, path in enumerate(paths):
        path.write_text("".join(lines[n::4]), "utf-8")
    options = {"pretokenizer": pretokenizer, "min_count": min_count}
    expected = volt.count_words(paths, **options)
    n_certain = certain_merges(learn_bpe(expected, 60))
    with ThreadPoolExecutor(3) as pool:
        found = [volt.count_words(paths[::-1], map=pool.map, **options)]
    monkeypatch.setattr(Budget, "pending", 2_000)
    found += [volt.count_words(paths[::-1], memory="1G", **options)]
    script = f"import sys\nfor path in {[*map(str, paths)]!r}: sys.stdout.write(open(path, encoding='utf-8').read())"
    with subprocess.Popen([sys.executable, "-X", "utf8", "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout
        found += [volt.count_words(f"/dev/fd/{child.stdout.fileno()}", **options)]
    assert found == [expected] * 3
    assert [certain_merges(learn_bpe(counts, 60)) for counts in found] == [n_certain] * 3
    everything = learn_bpe(volt.count_words(paths, pretokenizer=pretokenizer), 60)
    assert same_at_first(everything.merges, learn_bpe(expected, 60).merges) >= n_certain > 0


def test_what_is_not_known_is_not_told() -> None:
    """Of counts that were rescaled, or given without what was left out of them, and of merges learned otherwise."""
    counts = WordCounts.from_pairs({"low": 9, "lower": 6, "er": 1})
    rare = counts.min_count(2)
    assert certain_merges(learn_bpe(counts, 4)) == 4
    assert certain_merges(learn_bpe(rare.rescale(90), 4)) is None
    assert certain_merges(learn_bpe(counts.rescale(90), 4)) == 4
    mixed = volt.mix({"a": rare, "b": {"low": 100}}, temperature=2)
    assert certain_merges(learn_bpe(mixed, 4)) is None
    assert certain_merges(learn_bpe(volt.mix({"a": rare, "b": {"low": 100}}), 1)) == 1
    given_so = WordCounts(rare.table, n_left_out=1)
    assert given_so.left_out_pairs == given_so.min_count(7).left_out_pairs == UNKNOWN
    assert certain_merges(learn_bpe(given_so, 4)) is None
    assert WordCounts(counts.table, bound=1).left_out_pairs == UNKNOWN
    assert certain_merges(replay_bpe(rare, [("l", "o")])) is None
    assert certain_merges(volt.learn_parity({"a": rare, "b": {"low": 2}}, 2)) is None
    vocabulary = volt.search(learn_bpe(counts, 2), select=8).vocabulary
    assert certain_merges(volt.extend_bpe(vocabulary, rare, n_merges=2)) is None


def test_counts_that_may_leave_64_bits_are_not_told() -> None:
    """Nothing wraps around, however often words come."""
    huge = left_out_pairs(table_of({"ab": 2**59}))
    assert huge == UNKNOWN == UNKNOWN + huge
    half = left_out_pairs(table_of({"a": 2**58 + 1}))
    assert half + half == UNKNOWN
    assert half.most == 2**58 + 1
    kept = WordCounts(table_of({"ab" * 3: 2**60}), n_left_out=1, left_out_pairs=left_out_pairs(table_of({"c": 1})))
    assert certain_merges(learn_bpe(kept, 2)) == 0
    assert hash(half) == hash(LeftOutPairs(half.table, 0))


def test_words_that_nothing_is_left_of_still_count() -> None:
    """Counts of which all words were left out add what they left out."""
    gone = WordCounts.from_pairs({"ab": 1}).min_count(2)
    both = gone + WordCounts.from_pairs({"cd": 5})
    assert (both.n_left_out, both.left_out_pairs) == (1, left_out_pairs(table_of({"ab": 1})))
    assert both == WordCounts.from_pairs({"cd": 5}) + gone


@pytest.mark.parametrize(
    ("rare", "sentence"),
    [
        ({"ac": 1}, "words that occur too rarely were left out, 0.8 % of all. All 3 merges are those of all words"),
        ({"cd": 1}, ". The first 2 of 3 merges are those of all words; later ones could differ"),
        ({"ac": 5, "xac": 1}, ". The first merge is that of all words; later ones could differ"),
        ({"ac": 29, "xac": 29}, ". With them each of the 3 merges could be another"),
    ],
)
def test_a_search_tells_what_is_certain(rare: dict[str, int], sentence: str) -> None:
    """In a sentence, as a number, and in the data of its report; of all words there is nothing to tell."""
    words = {"abab": 45, "ac": 40, "cd": 39}
    counts = WordCounts.from_pairs(words) + WordCounts.from_pairs(rare).min_count(30)
    candidates = learn_bpe(counts, 3, marker="none")
    result = volt.search(candidates)
    assert sentence in " ".join(result.warnings)
    assert as_data(result)["counts"]["certain_merges"] == result.n_certain == certain_merges(candidates)


def test_a_search_of_all_words_tells_nothing() -> None:
    """All merges are certain, and there is no sentence on it; what is not known is no sentence either."""
    counts = WordCounts.from_pairs({"low": 9, "lower": 6, "er": 1})
    result = volt.search(learn_bpe(counts, 3))
    assert result.n_certain == 3
    assert "left out" not in " ".join(result.warnings)
    approximate = WordCounts(counts.table, bound=2)
    told = " ".join(volt.search(learn_bpe(approximate, 3)).warnings)
    assert told.endswith(
        "counts are approximate: none is too low by more than 2, and none was when words were left out, 0 % of all"
    )
    result = volt.search(learn_bpe(counts.min_count(2).rescale(90), 3))
    assert result.n_certain is None
    assert "words that occur too rarely were left out, 1.1 % of all" in result.warnings


def test_the_command_tells_what_is_certain(run: Run, tmp_path: Path) -> None:
    """With words left out, and with words forgotten, in the report and as a number."""
    path = tmp_path / "a.txt"
    path.write_text("the cat sat on the mat\n" * 40 + "a rat\n")
    for options in (["--min-count", "2"], ["--memory", "1G", "--approximate", "--min-count", "2"]):
        done = run("search", path, *options, "-o", tmp_path / "a.volt", "--force")
        told = " ".join(done.stdout.decode().split())
        assert (
            "warning words that occur too rarely were left out, 0.826 % of all. All 7 merges are those of all words"
            in told
        )
        data = json.loads(run("search", path, *options, "--json", "-o", tmp_path / "b.volt", "--force").stdout)
        assert data["counts"]["certain_merges"] == 7
