"""Noise without a vocabulary: the same results as naive versions in plain Python, laws, and probabilities."""

from collections import Counter
from itertools import combinations
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream.transforms.support import (
    AMOUNTS,
    ID_LINES,
    LINES,
    SEEDS,
    hit_lines,
    id_batch,
    ids_of,
    noisy_text,
    tokens_of,
)
from support.splitmix import Drawn, mixed

from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.noise import (
    KINDS,
    Drop,
    Punctuation,
    Reorder,
    Typos,
    _classify_characters,
    draw_truncated_geometric,
)

RNG = LineRng(1, 2)
ANY = st.characters(exclude_characters="\t\n", exclude_categories=["Cs"])
SHORT = st.one_of(st.text(ANY, max_size=12), st.text(st.sampled_from("ab é一𐐀"), max_size=12))
VALUES = st.one_of(
    st.lists(SHORT, max_size=8), st.lists(SHORT.map(lambda text: text * 60), max_size=1)
)
SOME_KINDS = st.lists(st.sampled_from(KINDS), min_size=1, unique=True).map(tuple)
RATES = st.sampled_from([0.0, 0.003, 0.05, 0.5, 1.0])


def seeds_of(rng, n):
    """Return the seeds of field 1 of n lines."""
    return list(map(int, rng.at(1).words(np.arange(n))))


def is_near(n, expected, variance):
    """Check that a number is within five standard deviations."""
    return abs(n - expected) < 5 * variance**0.5


# Typos


def naive_typos(value, seed, rate, kinds):
    drawn = Drawn(seed)
    hits = naive_hits(drawn, rate)
    out = ""
    place = 0
    is_bare = True  # no character of the word is written yet
    while place < len(value):
        letter = value[place]
        following = value[place + 1 : place + 2]
        place += 1
        if letter <= " " or not next(hits):
            out += letter
            is_bare = letter <= " "
            continue
        kind = kinds[int(drawn.fraction() * len(kinds))]
        text = letter
        if kind == "swap" and following > " ":
            text = following + letter
            place += 1
        elif kind == "drop" and (following > " " or not is_bare):
            text = ""
        elif kind in ("insert", "replace"):
            other = naive_character(value, letter, Drawn(mixed(drawn.state)))
            text = other + letter if kind == "insert" else other
        out += text
        is_bare = is_bare and not text
    return out


def naive_hits(drawn, rate):
    """Yield whether each character is hit. A number is drawn after each hit, and after 256 characters without one."""
    while True:
        left = 1.0
        limit = drawn.fraction()
        for _ in range(256):
            left *= 1.0 - rate
            yield left <= limit
            if left <= limit:
                break


def naive_character(value, default, drawn):
    """Draw bytes until one is the first byte of a character that is not a space, at most 64 times."""
    firsts = []
    for letter in value:
        firsts += [letter, *[""] * (len(letter.encode()) - 1)]
    tries = (firsts[int(drawn.fraction() * len(firsts))] for _ in range(64))
    return next((letter for letter in tries if letter > " "), default)


@given(VALUES, RATES, SOME_KINDS, st.integers(0, 99))
def test_typos(values, rate, kinds, seed):
    """Typos equal those of a naive version; no word appears or disappears, and no value gets a
    character that it lacks."""
    rng = LineRng.of(seed)
    seeds = seeds_of(rng, len(values))
    lines = Typos(rate=rate, kinds=kinds)(Batch.of(values), rng).lines
    pairs = zip(values, seeds, strict=True)
    assert lines == [naive_typos(value, each, rate, kinds) for value, each in pairs]
    for value, line in zip(values, lines, strict=True):
        assert set(line) <= set(value)
        assert list(map(bool, line.split(" "))) == list(map(bool, value.split(" ")))


def test_the_rate_is_that_of_characters():
    """Typos hit a share of `rate` of 250,000 characters, equally at all positions of a value."""
    n, size, rate = 5_000, 50, 0.01
    longer = Typos(rate=rate, kinds=("insert",))(Batch.of(["a" * size] * n), RNG).column(1)
    assert is_near(int(longer.sizes.sum()), n * size * (1 + rate), n * size * rate)
    value = "ab" * 25
    lines = Typos(rate=rate, kinds=("replace",))(Batch.of([value] * n), RNG).lines
    expected = n * rate / 2  # half of the replaced characters are the same
    for old, column in zip(value, zip(*lines, strict=True), strict=True):
        assert is_near(n - column.count(old), expected, expected)


# Punctuation


@given(
    st.lists(st.text(st.sampled_from("ab .,!’'。一 é𐐀"), max_size=10), max_size=8),
    RATES,
    RATES,
    st.integers(0, 99),
)
def test_punctuation_changes_only_marks_and_spaces(values, drop, final, seed):
    """Punctuation changes only marks and spaces: other characters stay in order, no value becomes
    blank, and no double space appears."""

    def letters(text):
        return [letter for letter in text if letter not in " .,!’'。"]

    lines = Punctuation(drop=drop, final=final)(Batch.of(values), LineRng.of(seed)).lines
    for value, line in zip(values, lines, strict=True):
        assert letters(line) == letters(value)
        assert bool(line.strip()) == bool(value.strip())
        assert "  " in value or "  " not in line
        assert len(line) <= len(value) + 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Well , I don't know .", "Well I don't know"),
        ("“Yes,” he said: 3.5 e-mails!", "Yes he said 3.5 e-mails"),
        ("l’été, (déjà)", "l’été déjà"),
        ("你好，世界。", "你好世界"),
        ("...", "..."),
        (" . ", " . "),
    ],
)
def test_marks_are_dropped(value, expected):
    """Punctuation that drops every mark also drops a superfluous space, but no mark inside a word,
    and no value of only marks."""
    assert Punctuation(drop=1.0, final=0.0)(Batch.of([value]), RNG).lines == [expected]


ENDS = {
    "A house.": "A house",
    "A house": "A house.",
    "What, really?!": "What, really",
    "Wait ...": "Wait",
    "你好。": "你好",
    "你好": "你好。",
    "カタ": "カタ。",
    "नमस्ते।": "नमस्ते",
    "(so)": "(so)",
    "?": "?",
    "𐐀": "𐐀.",
    "": "",
}


def test_the_final_mark_is_toggled():
    """Punctuation with final: 1 removes sentence-final marks, and adds a full stop of the value's
    script to a value without a final mark."""
    _classify_characters.cache_clear()
    lines = Punctuation(drop=0.0, final=1.0)(Batch.of([*ENDS]), RNG).lines
    assert lines == [*ENDS.values()]


def test_punctuation_follows_its_probabilities():
    """Punctuation drops 5 % of 20,000 commas with drop: 0.05, and adds 10 % of 10,000 full stops
    with final: 0.1; with 0, values stay."""
    n = 10_000
    lines = Punctuation(drop=0.05, final=0.0)(Batch.of(["a, b, c"] * n), RNG).lines
    assert is_near("".join(lines).count(","), 2 * n * 0.95, 2 * n * 0.05)
    ends = Punctuation(drop=0.0, final=0.1)(Batch.of(["a"] * n), RNG).lines
    assert is_near(ends.count("a."), n * 0.1, n * 0.1)
    values = [" a , b . ", "a  ", "", "  ", "a-b ."]
    for noise in (Punctuation(drop=0.0, final=0.0), Typos(rate=0.0)):
        assert noise(Batch.of(values), RNG).lines == values


# Drop


def naive_drop(lines, amount, rng):
    hits = hit_lines(list(map(len, lines)), amount, rng, spared=1)
    result = []
    for line, hit in zip(lines, hits, strict=True):
        result.append([token for token, each in zip(line, hit, strict=True) if each is None])
    return result


@given(LINES, AMOUNTS, SEEDS)
def test_drop_in_text(values, amount, seed):
    """Drop removes the same tokens of text as a naive version, but never all of a line; a line that
    loses no token keeps its spaces."""
    rng = LineRng.of(seed)
    lines = list(map(tokens_of, values))
    left = naive_drop(lines, amount, rng)
    expected = []
    for value, line, few in zip(values, lines, left, strict=True):
        assert few or not line
        expected.append(" ".join(map(str, few)) if len(few) < len(line) else value)
    assert noisy_text(Drop(*amount), values, rng) == expected


@given(ID_LINES, AMOUNTS, SEEDS)
def test_drop_in_ids(lines, amount, seed):
    """Drop removes the same tokens of ids as a naive version."""
    rng = LineRng.of(seed)
    column = Drop(*amount)(id_batch(lines), rng).column(1)
    assert ids_of(column) == naive_drop(lines, amount, rng)


def chi_squared(counts, probabilities):
    n = sum(counts.values())
    assert set(counts) <= set(probabilities)
    return sum((counts[key] - n * p) ** 2 / (n * p) for key, p in probabilities.items())


LIMITS = {4: 23.5, 9: 33.7}  # χ² by degrees of freedom, exceeded once in 10,000 draws


@pytest.mark.parametrize("temperature", [0.0, 0.5, 2.0])
def test_the_temperature_gives_the_number_of_tokens(temperature):
    """Drop with a temperature removes k of five tokens in a share ∝ exp(−temperature k) of 5,000
    lines, by a χ² test."""
    column = Drop(temperature)(id_batch([range(5)] * 5_000), RNG).column(1)
    weights = [exp(-temperature * k) for k in range(5)]
    law = {k: weight / sum(weights) for k, weight in enumerate(weights)}
    assert chi_squared(Counter((5 - column.sizes).tolist()), law) < LIMITS[4]


def test_all_tokens_are_equally_probable():
    """Drop removes each pair of five tokens equally often from lines that lose two tokens, by a χ²
    test."""
    lines = ids_of(Drop(temperature=0.0)(id_batch([range(5)] * 5_000), LineRng(3, 4)).column(1))
    triples = Counter(tuple(line) for line in lines if len(line) == 3)
    assert chi_squared(triples, dict.fromkeys(combinations(range(5), 3), 0.1)) < LIMITS[9]


@given(
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 1 << 40),
    st.floats(0, allow_infinity=False, allow_nan=False),
)
def test_any_temperature_gives_a_number(uniform, n, temperature):
    """draw_truncated_geometric returns a number from 0 to n − 1 for any temperature, and 0 if n is
    at most 1 or the temperature is high."""
    [k] = draw_truncated_geometric(np.array([uniform]), np.array([n]), temperature=temperature)
    assert 0 <= k < max(n, 1)
    assert k == 0 or temperature < 40


# Reorder

DISTANCES = st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0, 7.5, 1000.0])


def naive_reorder(tokens, distance, seed):
    drawn = Drawn(seed)
    keys = [place + distance * drawn.fraction() for place in range(len(tokens))]
    return [tokens[place] for place in sorted(range(len(tokens)), key=keys.__getitem__)]


@given(LINES, DISTANCES, SEEDS)
def test_reorder_sorts_tokens(values, distance, seed):
    """Reorder sorts tokens as a naive version does; a line whose tokens cannot move keeps its
    spaces."""
    rng = LineRng.of(seed)
    expected = []
    for value, each in zip(values, seeds_of(rng, len(values)), strict=True):
        tokens = tokens_of(value)
        is_fixed = distance <= 1 or len(tokens) < 2
        expected.append(value if is_fixed else " ".join(naive_reorder(tokens, distance, each)))
    assert noisy_text(Reorder(distance), values, rng) == expected


# All


def test_columns_without_hits_are_not_copied():
    """Drop and Reorder return the same column object if no token changes."""
    batch = Batch.of(["a b c\td", "e"]).split(2)
    for noise in (Drop(temperature=1e6), Drop(rate=0.0), Reorder(1.0), Reorder(0)):
        assert noise(batch, RNG).columns[0] is batch.columns[0]
