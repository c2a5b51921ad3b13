"""Weights and virtual epochs that follow from the sizes of sources, against the formula written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.stream import Sampling
from volt.stream.mixing.mixture import virtual_size

SIZES = st.lists(st.integers(1, 10**6), min_size=1, max_size=6)


TEMPERATURES = st.sampled_from([0.5, 1.0, 1.5, 2.0, 5.0, 100.0])


def naive_ratios(sizes: list[int], temperature: float) -> list[float]:
    """r_i = (s_i / Σs)^(1/T), normalised."""
    ratios = [(size / sum(sizes)) ** (1 / temperature) for size in sizes]
    return [ratio / sum(ratios) for ratio in ratios]


def naive_size(sizes: list[int], ratios: list[float]) -> float:
    """V = min(Σ (r_i / r_max) · s_max, 1.5 · Σs), before it is rounded down."""
    place = max(range(len(sizes)), key=lambda i: (sizes[i], ratios[i]))
    return min(
        math.fsum(ratio / ratios[place] * sizes[place] for ratio in ratios), 1.5 * sum(sizes)
    )


def is_rounded_down(found: int, exact: float) -> bool:
    """Whether a number is another rounded down, as far as floating point can tell."""
    slack = 1e-10 * exact
    return exact - slack - 1 < found <= exact + slack


def weights_of(sampling: Sampling, sizes: list[int]) -> list[float]:
    return [*sampling.weights({str(place): size for place, size in enumerate(sizes)}).values()]


@given(SIZES, TEMPERATURES)
def test_shares_and_virtual_epochs_follow_the_formula(sizes: list[int], temperature: float) -> None:
    """Shares are s^(1/T), normalised; V is Σ (r / r_max) · s_max, at most 1.5 times all lines, rounded down."""
    weights = weights_of(Sampling(temperature=temperature), sizes)
    ratios = naive_ratios(sizes, temperature)
    assert np.allclose(np.array(weights) / sum(weights), ratios, rtol=1e-9)
    found = virtual_size(sizes, weights)
    assert is_rounded_down(found, naive_size(sizes, ratios))
    assert min(max(sizes), sum(sizes)) <= found <= 1.5 * sum(sizes)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 1000)), min_size=1, max_size=6))
def test_explicit_weights_have_virtual_epochs_by_the_same_formula(
    message: list[tuple[int, int]],
) -> None:
    """r_max is the share of the largest source, which need not be the largest share; the order plays no part."""
    sizes, weights = [size for size, _ in message], [float(weight) for _, weight in message]
    found = virtual_size(sizes, weights)
    assert is_rounded_down(found, naive_size(sizes, weights))
    assert found == virtual_size(sizes[::-1], weights[::-1])


@given(SIZES)
def test_temperature_one_is_concatenation_and_a_huge_one_is_uniform(sizes: list[int]) -> None:
    """At T = 1 a virtual epoch is all lines once; as T grows, shares and V become those of equal shares."""
    assert weights_of(Sampling(temperature=1), sizes) == weights_of(
        Sampling("concatenation"), sizes
    )
    assert virtual_size(sizes, weights_of(Sampling("concatenation"), sizes)) == sum(sizes)
    hot = weights_of(Sampling(temperature=1e12), sizes)
    assert np.allclose(hot, 1 / len(sizes), rtol=1e-9)
    uniform = virtual_size(sizes, weights_of(Sampling("uniform"), sizes))
    assert uniform == min(max(sizes) * len(sizes), sum(sizes) * 3 // 2)
    assert abs(virtual_size(sizes, hot) - uniform) <= 1e-9 * uniform + 1


@given(SIZES)
def test_rounded_shares_lose_no_line(sizes: list[int]) -> None:
    """Shares in proportion to the lines that are reported to twelve digits still give all lines."""
    shares = [float(f"{size / sum(sizes):.12g}") for size in sizes]
    assert virtual_size(sizes, shares) == sum(sizes)


@pytest.mark.parametrize(
    ("sizes", "weights", "lines"),
    [
        ([7], [0.1], 7),  # one source
        ([5, 5, 5], [1.0, 1.0, 1.0], 15),  # equal sizes
        ([9, 1], [3.0, 1.0], 12),  # (1/9)^(1/2) = 1/3, in which no line is lost
        ([100, 1], [1.0, 1.0], 151),  # the bound, 151.5, rounded down
        ([100, 1], [0.0, 1.0], 1),  # what has no weight is not there
        ([100, 1], [1.0, 1000.0], 151),  # drawn out without bound
        ([10, 10], [1.0, 3.0], 13),  # of equal sizes, the one with the greater weight is read once
    ],
)
def test_virtual_epochs_at_their_edges(sizes: list[int], weights: list[float], lines: int) -> None:
    """One source, equal sizes, whole thirds, the bound, sources without weight, ties."""
    assert virtual_size(sizes, weights) == lines
