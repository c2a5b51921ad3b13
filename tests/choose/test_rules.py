"""Laws of the rules that choose among size steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.choose.rules import RULES, all_picks, parse_rule
from volt.choose.size_steps import SizeStep
from volt.errors import ConfigError

FEW = settings(deadline=None, max_examples=100)


def make_steps(entropies, *, f95s=None, renyis=None, n_pieces=None, start=100, gap=100) -> list[SizeStep]:
    """Steps with these measures; MUV follows from entropy."""
    n = len(entropies)
    columns = zip(entropies, f95s or [50] * n, renyis or [0.5] * n, n_pieces or range(n, 0, -1), strict=True)
    steps = []
    for i, (entropy, f95, renyi, pieces) in enumerate(columns):
        muv = (entropies[i - 1] - entropy) / gap if i else None
        steps.append(
            SizeStep(
                size=start + i * gap,
                n_kept=start + i * gap,
                entropy=entropy,
                sweep_entropy=entropy,
                muv=muv,
                sweep_muv=muv,
                n_pieces=pieces,
                f95=f95,
                renyi=renyi,
                n_iters=1,
                converged=True,
                row_residual=0.0,
                column_residual=0.0,
                remedy="",
                kept=np.ones(start + i * gap, bool),
            )
        )
    return steps


entropies_ = st.lists(st.floats(0.01, 10), min_size=1, max_size=12)


@given(entropies_)
@FEW
def test_each_rule_picks_a_step_and_says_why(entropies):
    """Every rule picks one of the steps, gives its size and a reason, and calls the first or last that it could pick
    an edge."""
    steps = make_steps(entropies)
    picks = all_picks(steps)
    assert list(picks) == list(RULES)
    for rule, pick in picks.items():
        assert pick.rule == rule
        assert pick.size == steps[pick.index].size
        assert pick.why
        first = 1 if rule == "muv" and len(steps) > 1 else 0
        assert pick.on_edge == (pick.index in (first, len(steps) - 1))


@given(entropies_)
@FEW
def test_muv_picks_the_steepest_step(entropies):
    """muv picks the step with the greatest fall of entropy per token; with one step, that."""
    steps = make_steps(entropies)
    pick = all_picks(steps)["muv"]
    if len(steps) == 1:
        assert pick.index == 0
    else:
        assert steps[pick.index].muv == max(step.muv for step in steps[1:])


def test_muv_on_a_convex_curve_is_on_the_edge():
    """On a curve that falls ever more slowly, muv is the first step that has one, and is said to be on the edge."""
    pick = all_picks(make_steps([5.0, 3.0, 2.0, 1.5, 1.4]))["muv"]
    assert (pick.index, pick.on_edge) == (1, True)


def test_knee_inside_the_range():
    """On a curve with a bend the knee is the bend, and no edge; on a straight line it is on an edge."""
    pick = all_picks(make_steps([5.0, 2.0, 1.9, 1.8, 1.7]))["knee"]
    assert (pick.index, pick.on_edge) == (1, False)
    assert all_picks(make_steps([5.0, 4.0, 3.0, 2.0]))["knee"].on_edge


@pytest.mark.parametrize(
    ("f95s", "index"), [([500, 200, 100, 99], 2), ([500, 99, 100, 99], 2), ([99, 50, 2, 1], 0), ([100] * 4, 3)]
)
def test_f95_picks_the_largest_size_with_100_occurrences(f95s, index):
    """f95 picks the largest size whose 95th-percentile type occurs 100 times; the first, and says so, if none does."""
    pick = all_picks(make_steps([4.0, 3.0, 2.5, 2.4], f95s=f95s))["f95"]
    assert pick.index == index
    assert ("no size reaches 100" in pick.why) == (max(f95s) < 100)
    assert pick.on_edge == (index in (0, 3))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
@FEW
def test_renyi_picks_the_greatest_efficiency(renyis):
    """renyi picks a step of the greatest efficiency."""
    pick = all_picks(make_steps([1.0] * len(renyis), renyis=renyis))["renyi"]
    assert renyis[pick.index] == max(renyis)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=9))
@FEW
def test_tokens_picks_the_fewest(n_pieces):
    """tokens picks a step with the fewest tokens."""
    pick = all_picks(make_steps([1.0] * len(n_pieces), n_pieces=n_pieces))["tokens"]
    assert n_pieces[pick.index] == min(n_pieces)


def test_fixed_is_what_was_asked():
    """fixed:N stands beside the others and is never called an edge."""
    picks = all_picks(make_steps([4.0, 3.0, 2.5]), fixed=100)
    assert list(picks) == [*RULES, "fixed:100"]
    assert (picks["fixed:100"].index, picks["fixed:100"].size, picks["fixed:100"].on_edge) == (0, 100, False)


def test_parse_rule():
    """The named rules and fixed:N; anything else is a ConfigError that lists them."""
    assert [parse_rule(rule) for rule in RULES] == [None] * len(RULES)
    assert parse_rule("fixed:8000") == 8_000
    for rule in ("", "Knee", "fixed", "fixed:", "fixed:-1", "fixed:1.5", "fixed:²", "fixed: 8", "knee:3", "best"):
        with pytest.raises(ConfigError, match="fixed:N"):
            parse_rule(rule)
