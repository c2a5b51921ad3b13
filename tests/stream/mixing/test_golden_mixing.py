"""Turns, shares and virtual sizes of a few mixtures, which must not change, and the limits of their arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from golden import check

from volt.errors import ConfigError, StreamError, VoltError
from volt.stream import Mixture, Sampling, Schedule
from volt.stream.mixing import mixture as mixing
from volt.stream.mixing import schedule as scheduling
from volt.stream.mixing.mixture import shares, virtual_size
from volt.stream.mixing.schedule import FOREVER, UNIT, Weight, shares_of

STEPS = Schedule(((0, 1.0), (6, 0.0), (12, 3.0)))
LINE = Schedule(((0, 1.0), (10, 3.0), (20, 0.0)), "linear")
LATE = Schedule(((0, 0.0), (8, 1.0)), "linear")
MIXTURES: dict[str, tuple[Weight, ...]] = {
    "one": (0.3,),
    "equal": (1.0, 1.0, 1.0),
    "weights": (3.0, 1.0, 0.0, 0.1),
    "steps": (STEPS, 1.0),
    "line": (LINE, 1.0, 0.5),
    "late": (1.0, LATE),
    "alone": (Schedule(((0, 1.0), (5, 0.0), (9, 2.0))), Schedule(((0, 0.0), (5, 1.0), (9, 0.0)))),
    "from nothing": (
        Schedule(((0, 2.0), (10, 0.0)), "linear"),
        Schedule(((0, 0.0), (10, 1.0)), "linear"),
    ),
    "stairs": (Schedule(((0, 1.0), (400, 9.0)), "linear"), 5.0),
    "constant": (Schedule(((0, 2.0), (9, 2.0)), "linear"), 1.0),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_turns_of_mixtures(name: str) -> None:
    """Turns, shares and debts along the way, and what follows when the first source ends."""
    mixture = Mixture(MIXTURES[name])
    text = "".join(map(str, mixture.turns(24).tolist()))
    text += f" {np.round(mixture.shares(), 9).tolist()} {np.round(mixture.owed(), 6).tolist()} {mixture.left}"
    text += f" {np.round(mixture.owed(7), 6).tolist()} {mixture.counts_at(7).tolist()} {mixture!r}"
    assert mixture.counts_at(24).tolist() == mixture.counts.tolist()
    assert mixture.owed(24) == mixture.owed()
    left = mixture.end(0)
    if left is not None:
        assert (left.n, left.since, left.base.tolist()) == (24, 24, mixture.counts.tolist())
        text += f" | {''.join(map(str, left.turns(9).tolist()))} {np.round(left.owed(), 6).tolist()} {left.left}"
        text += f" {left.counts_at(27).tolist()} {left!r}"
    check(f"mixing turns {name}", text)


@pytest.mark.parametrize("name", MIXTURES)
def test_shares_of_mixtures(name: str) -> None:
    """The stretches of a schedule, and their shares in units of 2⁻⁶⁰."""
    result = shares_of(MIXTURES[name], may_end=False)
    rows = [
        f"{start} {units}"
        for start, units in zip(result.starts, result.units.tolist(), strict=True)
    ]
    text = f"{len(rows)}: {' | '.join(rows[:9])} … {rows[-1]}"
    text += f" {result.lengths(11)[0]} {result.lengths(11)[1][:3].tolist()} {result.owed(11).tolist()} {result.until(3)}"
    ended = shares_of((0.0, *MIXTURES[name][1:]), may_end=True)
    text += f" | {ended.starts[:9]} {ended.units[0].tolist()} {ended.until(3)} {ended.until(15)}"
    check(f"mixing shares {name}", text)


def test_a_mixture_ends_with_its_first_stretch_without_shares() -> None:
    """If all weights are 0 at several last points, the first of these counts; pauses before other points do not."""
    result = shares_of([Schedule(((0, 1.0), (3, 0.0), (5, 1.0), (7, 0.0), (9, 0.0)))], may_end=True)
    assert [result.until(sample) for sample in (0, 6, 7, 8, 9, 10)] == [7, 7, 7, 8, 9, 10]


def test_weights_and_virtual_sizes() -> None:
    """Weights that sizes give, with the usual temperature too, and lines of a virtual epoch."""
    sizes = {"a": 1000, "b": 100, "c": 1}
    rows = dict[str, Any]()
    by_temperature = [Sampling(), Sampling(temperature=5), Sampling(temperature=1)]
    for one in (*by_temperature, Sampling("uniform"), Sampling("concatenation")):
        weights = one.weights(sizes)
        assert Sampling(one.by, 1.5 if one == Sampling() else one.temperature) == one
        rows[repr(one)] = f"{one} {weights} {virtual_size([*sizes.values()], [*weights.values()])}"
    check("mixing weights", rows)
    assert shares([], temperature=2.0) == []
    assert shares([0, 0], temperature=2.0) == [0.0, 0.0]
    assert (
        virtual_size([3, 3], [0.1, 0.2]) == virtual_size([3, 3], [0.2, 0.1]) == 4
    )  # of equals, the heavier
    assert (
        virtual_size([7, 2], [7 / 9 - 1e-12, 2 / 9]) == 9
    )  # a hair below a whole number, by rounding
    assert virtual_size([1, 1], [1, 1]) == 2
    assert virtual_size([1, 1, 1], [1e-9, 1, 0]) == 1


def test_limits_of_weights() -> None:
    """A share of one unit is the least; a mixture's counts follow from its weights to within one sample."""
    assert shares_of([1.152921504606846e18, 1.0]).units.tolist() == [[UNIT - 1, 1]]
    with pytest.raises(
        ConfigError, match=r"^weight 1\.0 of 1\.15\d+e\+18 at sample 0 rounds to 0; raise it"
    ):
        shares_of([1.152921504606847e18, 1.0])
    assert Sampling(temperature=0.1).weights({"a": 63, "b": 1})["b"] == pytest.approx(63.0**-10)
    with pytest.raises(
        ConfigError,
        match=r"^ratio: temperature 0\.1 leaves nothing to source 'b' \(1 lines against 64\)",
    ):
        Sampling(temperature=0.1, where="ratio").weights({"a": 64, "b": 1})
    assert Mixture((1.0, 1.0), np.array([1, 0])).turns(3).tolist() == [1, 0, 1]
    assert Mixture((1.0, 1.0), np.array([2, 0])).turns(3).tolist() == [1, 1, 0]
    for counts in (
        [3, 0],
        [3, 0, 0],
        [2, 2, 0],
    ):  # one source is too far ahead, or too far behind, or both
        with pytest.raises(
            StreamError,
            match=rf"counts \{counts} do not follow from the weights; use another state",
        ):
            Mixture([1.0] * len(counts), np.array(counts)).turns(1)
    assert Mixture((1.0,)).left == FOREVER
    assert Schedule(((0, 1.0), (5, 3.0))).at(5) == Schedule(((0, 1.0), (5, 3.0))).at(9) == 3.0
    assert [Schedule(((0, 1.0), (5, 3.0)), "linear").at(n) for n in (0, 4, 5, 6)] == [
        1.0,
        2.6,
        3.0,
        3.0,
    ]


def test_counts_are_dealt_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many turns are dealt at once, the counts among the first n are the same, also of earlier n."""
    counts = [Mixture(MIXTURES["weights"]).counts_at(n).tolist() for n in range(12)]
    monkeypatch.setattr(mixing, "_AT_ONCE", 3)
    mixture = Mixture(MIXTURES["weights"])
    assert [mixture.counts_at(n).tolist() for n in (0, 5, 5, 11, 2)] == [
        counts[n] for n in (0, 5, 5, 11, 2)
    ]
    monkeypatch.setattr(scheduling, "_MAX_STAIRS", 2)
    assert shares_of(MIXTURES["stairs"]).starts == (0, 200, 400)


FAULTS: list[tuple[Any, str]] = [
    (lambda: Schedule(()), "schedule (): samples must start at 0 and rise"),
    (lambda: Schedule(((1, 1.0),)), "schedule ((1, 1.0),): samples must start at 0 and rise"),
    (lambda: Schedule(((0, 1.0), (0, 2.0))), "schedule ((0, 1.0), (0, 2.0)): samples must"),
    (
        lambda: Schedule(((0, 1.0), (5, 1.0), (3, 1.0))),
        "schedule ((0, 1.0), (5, 1.0), (3, 1.0)): samples must",
    ),
    (lambda: Schedule(((0, 1.0), (5,))), "points[1] has 1 parts; give a sample and a weight"),  # type: ignore[arg-type]
    (lambda: Schedule(((0, 1.0), 5)), "points[1] is 5 (int); give a sample and a weight"),  # type: ignore[arg-type]
    (lambda: Schedule(((0, "a"),)), "points[0][1] is 'a' (str); give a number"),  # type: ignore[arg-type]
    (lambda: Schedule(((0, 1.0), (1.5, 1.0))), "points[1][0] is 1.5"),  # type: ignore[arg-type]
    (lambda: Schedule(((0, 1.0),), "curve"), "unknown kind 'curve'; choose from steps, linear"),  # type: ignore[arg-type]
    (lambda: Mixture(3), "weights is 3 (int); give a list of numbers or schedules"),  # type: ignore[arg-type]
    (lambda: Mixture((1.0, -0.5)), "source '1': weight -0.5 must be 0 or more, and finite"),
    (lambda: Mixture((math.inf, 1.0)), "source '0': weight inf must be 0 or more, and finite"),
    (
        lambda: Mixture((1.0, Schedule(((0, 1.0), (2, -1.0))))),
        "source '1': weight -1.0 must be 0 or more",
    ),
    (
        lambda: Mixture((0.0, 0.0)),
        "all weights are 0 at sample 0; give one source a weight above 0",
    ),
    (
        lambda: Mixture((Schedule(((0, 1.0), (5, 0.0))),)),
        "all weights are 0 at sample 5; give one source",
    ),
    (lambda: virtual_size([1], [-1.0]), "source '0': weight -1.0 must be 0 or more, and finite"),
    (
        lambda: virtual_size([1, 2], [0.0, 0.0]),
        "all weights are 0; give one source a weight above 0",
    ),
    (
        lambda: Sampling("size"),
        "unknown by 'size'; choose from temperature, uniform, concatenation",
    ),  # type: ignore[arg-type]
    (lambda: Sampling(temperature=0), "temperature 0: give a number above 0, such as 1.5"),
    (lambda: Sampling(temperature=math.nan), "temperature nan: give a number above 0, such as 1.5"),
    (lambda: Sampling(temperature=math.inf), "temperature inf: give a number above 0"),
]


@pytest.mark.parametrize(("make", "message"), FAULTS)
def test_faults_of_mixtures(make: Any, message: str) -> None:
    """Errors name the place, the value and the remedy."""
    with pytest.raises(VoltError) as error:
        make()
    assert str(error.value).startswith(message)
