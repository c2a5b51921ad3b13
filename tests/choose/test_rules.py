"""Laws of the rules that pick among size steps."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.choose.rules import (
    AMONG_STEPS,
    EXACT,
    TRAINED,
    CurvePick,
    all_picks,
    parse_rule,
    rules,
)
from volt.choose.search import search
from volt.choose.size_steps import SizeStep
from volt.count.word_counts import WordCounts
from volt.errors import ConfigError
from volt.learn.bpe import learn_bpe

FEW = settings(deadline=None, max_examples=examples(100))


def make_steps(entropies, *, renyis=None, n_pieces=None):
    """Return steps of 100, 200, … tokens with these measures."""
    columns = zip(
        entropies,
        renyis or [0.5] * len(entropies),
        n_pieces or [*range(len(entropies), 0, -1)],
        strict=True,
    )
    return [
        SizeStep(
            size=100 * n,
            n_kept=100 * n,
            entropy=entropy,
            transport_entropy=entropy,
            muv=None,
            transport_muv=None,
            n_pieces=pieces,
            f95=50,
            renyi=renyi,
            n_iters=1,
            converged=True,
            row_residual=0.0,
            column_residual=0.0,
            remedy="",
            kept=np.ones(100 * n, bool),
        )
        for n, (entropy, renyi, pieces) in enumerate(columns, 1)
    ]


def picked(steps, **options):
    """Return the picks of the rules that pick among steps."""
    return all_picks(steps, {}, searched=[step.size for step in steps], **options)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 10), st.sampled_from([0.1, 0.5, 0.9]), st.integers(1, 3)),
        min_size=1,
    )
)
@FEW
def test_each_rule_picks_its_best_step_and_says_why(rows):
    """`muv`, `renyi` and `tokens` pick the first step with the best value.

    A pick of the first or last step that the rule could pick is marked as an edge."""
    entropies, renyis, n_pieces = map(list, zip(*rows, strict=True))
    picks = picked(steps := make_steps(entropies, renyis=renyis, n_pieces=n_pieces))
    falls = [(before - after) / 100 for before, after in pairwise(entropies)]
    best = {"muv": falls.index(max(falls)) + 1 if falls else 0, "renyi": renyis.index(max(renyis))}
    assert {rule: pick.index for rule, pick in picks.items()} == best | {
        "tokens": n_pieces.index(min(n_pieces))
    }
    assert list(picks) == list(AMONG_STEPS)
    for rule, pick in picks.items():
        assert (pick.rule, pick.size) == (rule, steps[pick.index].size)
        assert (f"the {len(rows)} size" in pick.why) or pick.why == "the only size"
        assert pick.on_edge == (
            pick.index in (1 if rule == "muv" and len(steps) > 1 else 0, len(steps) - 1)
        )


@given(st.lists(st.floats(0.01, 10), min_size=3, max_size=12), st.data())
@FEW
def test_rules_compare_searched_sizes_only(entropies, data):
    """The picks of `muv`, `renyi` and `tokens` do not depend on steps that were not searched."""
    steps = make_steps(entropies)
    searched = data.draw(
        st.lists(st.sampled_from(steps), min_size=1, unique_by=lambda step: step.size)
    )
    sizes = sorted(step.size for step in searched)
    alone = picked([step for step in steps if step.size in sizes])
    readings = dict.fromkeys((TRAINED, *EXACT), CurvePick(steps[0].size, "as read"))
    beside = all_picks(steps, readings, searched=sizes)
    assert list(beside) == list(rules())
    for rule, pick in alone.items():
        assert replace(beside[rule], index=pick.index) == pick
        assert steps[beside[rule].index].size == pick.size


def test_a_fixed_size_is_not_on_an_edge():
    """The rule fixed:N picks N tokens, and is never marked as an edge, even at the first size."""
    picks = picked(make_steps([4.0, 3.0, 2.5]), fixed=100)
    assert list(picks) == [*AMONG_STEPS, "fixed:100"]
    fixed = picks["fixed:100"]
    assert (fixed.index, fixed.size, fixed.on_edge) == (0, 100, False)


def test_rules_are_parsed():
    """`parse_rule` returns N for fixed:N and None for other rules; an unknown rule raises
    ConfigError.
    """
    assert [parse_rule(rule) for rule in rules()] == [None] * len(rules())
    assert parse_rule("fixed:8000") == 8_000
    for rule in ("", "Knee", "fixed", "fixed:", "fixed:-1", "fixed:²", "fixed: 8", "knee:3"):
        with pytest.raises(ConfigError, match="fixed:N"):
            parse_rule(rule)


@pytest.mark.parametrize(
    ("rare", "sentence"),
    [
        ({}, None),
        ({"cd": 1}, "words that occur too rarely were left out (0.8 % of all)"),
        ({"ac": 29, "xac": 29}, "words that occur too rarely were left out (31.9 % of all)"),
    ],
)
def test_left_out_words_are_a_warning(rare, sentence):
    """A search of counts without rare words warns of the share of occurrences that was left out."""
    counts = WordCounts.from_pairs({"abab": 45, "ac": 40, "cd": 39})
    if rare:
        counts += WordCounts.from_pairs(rare).min_count(30)
    warnings = search(learn_bpe(counts, 3)).warnings
    assert [text for text in warnings if "left out" in text] == ([sentence] if sentence else [])


def test_approximate_counts_are_a_warning():
    """A search of approximate counts warns of the bound."""
    counts = WordCounts(WordCounts.from_pairs({"low": 9, "lower": 6}).table, bound=2)
    warning = "counts are approximate: up to 2 too low, because words were left out (0 % of all)"
    assert warning in search(learn_bpe(counts, 3)).warnings
