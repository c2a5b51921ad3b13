"""Loaders that are killed and resumed: the count finds what is lost and repeated, and steps lose and repeat nothing."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from collections import Counter
from importlib import import_module
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

from experiments.resume.rounds import WORLDS, Outcome, draw_round, tally

SAMPLES = 240
MODULES = sorted(path.stem for path in (ROOT / "experiments" / "resume").glob("[a-z]*.py"))
FEW = settings(deadline=None, max_examples=25)


def outcome_of(loader: str, change: str, *, worlds: tuple[int, ...] = WORLDS) -> Outcome:
    """What became of one round, whose ranks are processes that SIGKILL ends."""
    asked = {
        "loader": loader, "changes": [change], "rounds": 1, "first": 0, "seed": 1, "kills": 1, "n": SAMPLES,
        "shards": 12, "worlds": worlds, "workers": (0, 1, 2), "limit": 0.3 if loader == "Hanging" else 60,
        "fast": False,
    }  # fmt: skip
    command = [sys.executable, "-m", "experiments.resume.campaign", json.dumps(asked)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    _, outcome = map(json.loads, done.stdout.splitlines())
    return Outcome(*outcome)


def test_killed_steps_go_on_with_other_ranks_and_workers() -> None:
    """Ranks that SIGKILL ended are taken up by others, and each sample is given exactly once."""
    found = outcome_of("volt", "both")
    assert (found.kind, found.lost, found.repeated) == ("counted", 0, 0), found


@pytest.mark.parametrize(("loader", "lost", "repeated"), [("Exact", 0, 0), ("Late", 0, 1), ("Early", 1, 0)])
def test_planted_faults_are_counted(loader: str, lost: int, repeated: int) -> None:
    """A state that is a batch late repeats one on each rank, and one that is early loses one."""
    batch = draw_round("1/nothing/0", "nothing", n=SAMPLES, worlds=(2,)).batch
    found = outcome_of(loader, "nothing", worlds=(2,))
    assert (found.kind, found.lost, found.repeated) == ("counted", lost * batch * 2, repeated * batch * 2), found


@pytest.mark.parametrize(
    ("loader", "kind", "told"),
    [
        ("Refusing", "refused", "ValueError: this state will not do"),
        ("Failing", "error", "OSError: the disk is gone"),
        ("Hanging", "hang", "no step for 0.3 s"),
    ],
)
def test_what_does_not_go_on_is_no_exact_round(loader: str, kind: str, told: str) -> None:
    """A refusal, an error and a silence are told apart, with the loader's words."""
    found = outcome_of(loader, "nothing", worlds=(2,))
    assert (found.kind, found.told) == (kind, told)


@FEW
@given(st.lists(st.integers(0, 9)))
def test_a_tally_counts_samples(consumed: list[int]) -> None:
    """Lost are those that were never consumed, repeated those that were consumed more than once."""
    counts = Counter(consumed)
    assert tally(consumed, n=10) == (10 - len(counts), sum(count > 1 for count in counts.values()))


@FEW
@given(st.integers(0).map(str), st.sampled_from(["nothing", "workers", "world", "both"]), st.integers(1, 3))
def test_a_round_changes_what_it_says(name: str, change: str, kills: int) -> None:
    """Neighbouring legs differ in workers, in ranks, in both or in neither; all but the last are killed."""
    made = draw_round(name, change, n=2400, kills=kills)
    assert 2 <= len(made.legs) <= kills + 1
    for before, after in pairwise(made.legs):
        assert (before.world != after.world) == (change in ("world", "both"))
        assert (before.workers != after.workers) == (change in ("workers", "both"))
        assert before.kill is not None
        assert before.kill >= made.every
    assert made.legs[-1].kill is None


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str) -> None:
    """The examples in docstrings give what they say, with or without the loaders."""
    assert not doctest.testmod(import_module(f"experiments.resume.{module}")).failed
