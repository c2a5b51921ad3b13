"""Tokens that are left out or change their order: what naive twins make, laws, and the probabilities."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from splitmix import Drawn
from token_lines import (
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

from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.noise import Drop, Punctuation, Reorder, Typos, truncated_geometric
from volt.stream.transforms.transform import LineFault, Transform

Amount = tuple[float | None, float | None]
DISTANCES = st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0, 7.5, 1000.0])
LEAST_LIKELY = {4: 23.5, 9: 33.7}  # χ² by degrees of freedom: one of 10,000 draws is beyond


def chi_squared(found: Counter[object], probabilities: dict[object, float]) -> float:
    """How far counts are from what probabilities say."""
    n = sum(found.values())
    assert set(found) <= set(probabilities)
    return sum((found[key] - n * p) ** 2 / (n * p) for key, p in probabilities.items())


# Drop


@given(LINES, AMOUNTS, SEEDS)
def test_drop_is_that_of_plain_python(values: list[str], amount: Amount, seed: int) -> None:
    """The tokens that are hit go; a line of which none is hit stays as it is, spaces and all."""
    chance, tokens = LineRng.of(seed), list(map(tokens_of, values))
    hits = hit_lines(list(map(len, tokens)), amount, chance, spared=1)
    left = [
        [token for token, hit in zip(*line, strict=True) if hit is None]
        for line in zip(tokens, hits, strict=True)
    ]
    twin = [
        " ".join(few) if len(few) < len(all_) else value
        for few, all_, value in zip(left, tokens, values, strict=True)
    ]
    assert noisy_text(Drop(*amount), values, chance) == twin
    assert all(few or not all_ for few, all_ in zip(left, tokens, strict=True))


@given(ID_LINES, AMOUNTS, SEEDS)
def test_drop_leaves_out_ids(lines: list[list[int]], amount: Amount, seed: int) -> None:
    """The same tokens go where they are ids."""
    chance = LineRng.of(seed)
    hits = hit_lines(list(map(len, lines)), amount, chance, spared=1)
    left = [
        [token for token, hit in zip(*line, strict=True) if hit is None]
        for line in zip(lines, hits, strict=True)
    ]
    assert ids_of(Drop(*amount)(id_batch(lines), chance).column(1)) == left


# Reorder


def reordered(tokens: list[str], distance: float, seed: int) -> list[str]:
    """The naive twin."""
    drawn = Drawn(seed)
    keys = [place + distance * drawn.fraction() for place in range(len(tokens))]
    return [tokens[place] for place in sorted(range(len(tokens)), key=keys.__getitem__)]


@given(LINES, DISTANCES, SEEDS)
def test_reorder_is_that_of_plain_python(values: list[str], distance: float, seed: int) -> None:
    """Tokens come in the order of a stable sort; a line of one or none stays as it is."""
    chance = LineRng.of(seed)
    seeds = chance.at(1).words(np.arange(len(values)))
    twin = [
        " ".join(reordered(tokens, distance, int(seed)))
        if len(tokens := tokens_of(value)) > 1
        else value
        for value, seed in zip(values, seeds, strict=True)
    ]
    assert noisy_text(Reorder(distance), values, chance) == (values if distance <= 1 else twin)


@given(st.lists(st.integers(0, 40), max_size=5), DISTANCES, SEEDS)
def test_reorder_moves_no_token_far(sizes: list[int], distance: float, seed: int) -> None:
    """Each line stays a permutation of itself, and no token moves as far as the distance."""
    done = ids_of(
        Reorder(distance)(id_batch([range(n) for n in sizes]), LineRng.of(seed)).column(1)
    )
    for n, line in zip(sizes, done, strict=True):
        assert sorted(line) == list(range(n))
        assert all(abs(place - token) < max(distance, 1) for place, token in enumerate(line))


# How much


@pytest.mark.parametrize("temperature", [0.0, 0.5, 2.0])
def test_the_number_of_tokens_follows_the_temperature(temperature: float) -> None:
    """Of 5,000 lines of five tokens, as many lose k as the law says (χ², p > 0.0001)."""
    done = Drop(temperature)(id_batch([range(5)] * 5_000), LineRng(1, 2)).column(1)
    weights = {k: exp(-temperature * k) for k in range(5)}
    law: dict[object, float] = {k: weight / sum(weights.values()) for k, weight in weights.items()}
    assert chi_squared(Counter((5 - done.sizes).tolist()), law) < LEAST_LIKELY[4]


def test_every_set_of_tokens_is_as_likely() -> None:
    """Of lines that lose two tokens of five, each pair goes equally often (χ², p > 0.0001)."""
    done = ids_of(Drop(temperature=0.0)(id_batch([range(5)] * 5_000), LineRng(3, 4)).column(1))
    found = Counter[object](tuple(line) for line in done if len(line) == 3)
    assert chi_squared(found, dict.fromkeys(combinations(range(5), 3), 0.1)) < LEAST_LIKELY[9]


def test_the_rate_is_that_of_each_token() -> None:
    """Of 20,000 tokens, as many go as the rate says, at each place, within five standard deviations."""
    n, rate = 2_000, 0.1
    done = ids_of(Drop(rate=rate)(id_batch([range(10)] * n), LineRng(1, 2)).column(1))
    left = Counter(token for line in done for token in line)
    assert all(
        abs(n - left[token] - n * rate) < 5 * (n * rate * (1 - rate)) ** 0.5 for token in range(10)
    )


@given(
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 1 << 40),
    st.floats(0, allow_infinity=False, allow_nan=False),
)
def test_any_temperature_gives_a_number(uniform: float, n: int, temperature: float) -> None:
    """From the least to the greatest temperature, k is from 0 to n − 1, and 0 where n is at most 1."""
    (k,) = truncated_geometric(np.array([uniform]), np.array([n]), temperature=temperature)
    assert 0 <= k < max(n, 1)
    assert k == 0 or temperature < 40


# Both


@given(LINES, SEEDS, st.sampled_from([Drop(0.5), Drop(rate=0.4), Reorder()]))
def test_a_line_is_the_same_alone(values: list[str], seed: int, noise: Drop | Reorder) -> None:
    """What becomes of a line does not depend on the lines beside it, or on how often it was cut before."""
    batch, chance = Batch.of([f"{value}\tb" for value in values]), LineRng.of(seed)
    whole = noise(batch, chance).lines
    assert [noise(batch.take([k]), chance).lines[0] for k in range(len(values))] == whole
    assert noise(batch.split(2).take(np.arange(len(values))[::-1]), chance).lines[::-1] == whole


SIDES = (2, 1)
NOISE = [
    Drop(0.1, fields=SIDES),
    Reorder(fields=SIDES),
    Typos(rate=0.5, fields=SIDES),
    Punctuation(0.5, 0.5, SIDES),
]


@pytest.mark.parametrize("noise", NOISE)
def test_noise_of_a_field_is_its_own(noise: Transform) -> None:
    """Two equal fields get noise that differs; other fields stay; a line without the field is unfit."""
    text = ", ".join(map(str, range(40)))
    done = noise(Batch.of([f"{text}\t{text}\t{text}"]), LineRng(1, 2)).rows[0]
    assert done[2] == text
    assert len(set(done)) == 3
    with pytest.raises(LineFault, match="field 2 is missing"):
        noise(Batch.of(["a"]), LineRng(1, 2))
    assert len(noise(Batch.of([]), LineRng(1, 2))) == 0


def test_a_column_without_noise_is_the_same_object() -> None:
    """Where nothing is drawn, or could be, no bytes are copied."""
    batch = Batch.of(["a b c\td", "e"]).split(2)
    for noise in (Drop(temperature=1e6), Drop(rate=0.0), Reorder(1.0), Reorder(0)):
        assert noise(batch, LineRng(1, 2)).columns[0] is batch.columns[0]


def test_drop_keeps_one_token() -> None:
    """Where each would go, one stays, any of them."""
    done = noisy_text(Drop(rate=1.0), ["a b c", "d", " ", ""] * 50, LineRng(1, 2))
    assert set(done[::4]) == {"a", "b", "c"}
    assert set(done[1::4]) == {"d"}
    assert done[2:4] == [" ", ""]


def test_reorder_moves_as_far_as_it_may() -> None:
    """At the distance 3, some tokens move by two in each direction."""
    done = ids_of(Reorder()(id_batch([range(10)] * 200), LineRng(1, 2)).column(1))
    moved = {place - token for line in done for place, token in enumerate(line)}
    assert moved == {-2, -1, 0, 1, 2}


def test_copies_of_a_line_differ() -> None:
    """Lines that were made from one line draw numbers of their own."""
    batch = Batch.of([" ".join(map(str, range(40)))]).take([0] * 5)
    assert len(set(Reorder()(batch, LineRng(1, 2)).lines)) == 5
