"""Loaders that are killed and resumed: VOLT loses and repeats nothing, and the campaign notices loaders that do."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.places import ROOT

from experiments.resume.__main__ import CHANGES, Round


def campaign(folder, loader, change):
    """Play a round whose ranks are killed by SIGKILL; return the exit status and the outcomes."""
    path = folder / "outcomes.json"
    command = [
        sys.executable,
        "-m",
        "experiments.resume",
        "--loaders",
        loader,
        "--rounds",
        "1",
        "--changes",
        change,
    ]
    done = subprocess.run(
        [*command, "--n", "240", "--json", str(path)], cwd=ROOT, timeout=120, check=False
    )
    return done.returncode, json.loads(path.read_text())[loader]


def test_killed_steps_resume_with_other_ranks_and_workers(tmp_path):
    """After kills, the steps of a training continue with other ranks and workers, and each sample
    is delivered exactly once."""
    assert campaign(tmp_path, "volt", "both") == (0, [["both", "counted", 0, 0, ""]])


@pytest.mark.parametrize("loader", ["planted", "plantedearly"])
def test_planted_faults_are_counted(tmp_path, loader):
    """The count of delivered samples detects a state that is too late, which repeats a batch on
    each rank, and one that is too early, which loses one."""
    made = Round.draw("1/nothing/0", "nothing", n=240)
    _, [[_, kind, lost, repeated, _]] = campaign(tmp_path, loader, "nothing")
    n = made.batches[0] * made.legs[0][0]
    assert (kind, lost, repeated) == ("counted", *((0, n) if loader == "planted" else (n, 0)))


@settings(deadline=None, max_examples=examples(25))
@given(st.integers(0).map(str), st.sampled_from(CHANGES))
def test_a_round_changes_what_it_names(name, change):
    """Rounds change workers, ranks, both or neither; the kill follows a saved state."""
    made = Round.draw(name, change, n=2400)
    (world, workers), (new_world, new_workers) = made.legs
    assert (world != new_world) == (change in ("world", "both"))
    assert (workers != new_workers) == (change in ("workers", "both"))
    assert made.every <= made.kill < 2400 // (world * made.batches[0])
