"""Laws of `TrialResult`, with made-up scores: its warnings, and the sizes close to the best."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from volt.trial.report import TrialResult
from volt.trial.results import Curve
from volt.trial.schedule import Sizes

N_CHARACTERS = 1_000_000
SCORES = {1000: 2.02, 2000: 2.0, 4000: 2.05}
RESULT = TrialResult(
    rows=tuple(
        {"size": size, "seed": 1, "millions": [5.0], "dev": [bits], "test": [bits]}
        for size, bits in SCORES.items()
    ),
    sizes=Sizes.around(2000, low=100, high=30_000),
    n_characters=N_CHARACTERS,
    requested=5 * N_CHARACTERS,
    characters=5 * N_CHARACTERS,
    picks={"knee": 1000},
    left=(),
)


def test_a_missing_seed_of_the_best_size_is_reported():
    """A warning counts the trainings that the time did not allow.

    It mentions a second seed of the best size only if that is among them."""
    for size in SCORES:
        [warning] = replace(RESULT, left=(SimpleNamespace(size=size),)).warnings
        assert warning.startswith("the time was over before 1 more training")
        assert ("another seed of the best size" in warning) == (size == RESULT.best == 2000)


def test_beyond_20_epochs_the_best_size_does_not_fall():
    """If trainings read less than requested, a warning names the smaller best size for the request.

    Beyond 20 epochs, the rule `trained` has no smaller size, and the warning says so."""
    for epochs in (3, 30):
        read = epochs * N_CHARACTERS
        shorter = replace(RESULT, characters=read, requested=2 * read)
        change = "the rule trained has no smaller size for"
        if epochs == 3:
            assert shorter.best_for_request < RESULT.best
            change = f"to {shorter.best_for_request:,} tokens for"
        assert change in shorter.warnings[0]


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [((2.02, 2.0, 2.02), 1000 * 2**0.5, 2000 * 2**0.5), ((2.5, 2.0, 2.5), 2000, 2000)],
)
def test_close_sizes_are_within_half_a_percent(scores, low, high):
    """`close_sizes` are the sizes around the best one whose interpolated bits are within 0.5 %."""
    curve = Curve("", np.array([*SCORES]), tuple(np.array([score]) for score in scores))
    assert curve.close_sizes == pytest.approx((low, high), rel=0.03)


def test_interpolated_values_are_marked():
    """The report marks losses and a range between the sizes tried; with one size, it has none."""
    data = replace(RESULT, picks={"knee": 1000, "f95": 1500}).data
    assert data["answer"].endswith(" within 0.5 %, interpolated between the sizes tried.")
    assert [data["rules"][rule]["interpolated"] for rule in ("knee", "f95")] == [False, True]
    _, rules, _ = replace(RESULT, picks={"f95": 1500}).tables.values()
    assert rules.rows[0][2].startswith("≈ ")
    alone = replace(RESULT, rows=RESULT.rows[:1])
    assert alone.answer.endswith("; no other size was tried.")
