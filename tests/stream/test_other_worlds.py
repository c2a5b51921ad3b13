"""Streams that are killed and go on with other ranks: experiments/stream/checker.py, a few rounds, and what it sees."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "stream"


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(FOLDER)
    return runpy.run_path(str(FOLDER / "checker.py"))


@pytest.mark.parametrize("n_rounds", [2, pytest.param(8, marks=[pytest.mark.slow, pytest.mark.campaign])])
def test_killed_at_chance_places_and_resumed_in_other_worlds_every_line_is_used_once(n_rounds: int) -> None:
    """SIGKILL of all ranks, other worlds, other workers: an exact cover, and within a world an undisturbed run."""
    command = [sys.executable, str(FOLDER / "checker.py"), "--rounds", str(n_rounds), "--seed", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 * n_rounds)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([0, 1, 2, 0, 2, 1], []),
        ([0, 1, 2, 0, 2], ["1 number came 1 times instead of 2, as 1"]),
        ([0, 1, 2, 2, 0, 2, 1], ["1 number came 3 times instead of 2, as 2"]),
        ([0, 1, 2, 0, 2, 1, 9], ["numbers that no source has, as 9"]),
    ],
)
def test_the_checker_sees_what_is_lost_repeated_or_foreign(
    checker: dict[str, Any], lines: list[int], told: list[str]
) -> None:
    """One line lost, given again or from nowhere, among those of two ranks, is told."""
    case = checker["Case"]((3,), 2, "")
    used = [[b"%d\n" % line for line in part] for part in (lines[:2], lines[2:])]
    assert list(checker["faults_of_cover"](case, used)) == [f"cover: {one}" for one in told]


def test_the_checker_sees_an_epoch_that_begins_before_the_last_has_ended(checker: dict[str, Any]) -> None:
    """0 0 1 1 is not two epochs of a source of two lines, though each line comes twice."""
    runs = [[b"%d\n" % line for line in lines] for lines in ([0, 1, 1, 0], [0, 0, 1, 1])]
    assert [list(checker["faults_of_epochs"](lines, 2)) for lines in runs] == [
        [],
        ["s0 makes 3 runs without repetition in 2 epochs"],
    ]


def test_the_checker_sees_shares_that_differ_by_two_lines(checker: dict[str, Any]) -> None:
    """Within one, ranks are alike; beyond it, they are not."""
    assert list(checker["faults_of_shares"]([[b"0\n", b"1\n"], [b"2\n"]])) == []
    assert list(checker["faults_of_shares"]([[b"0\n", b"1\n", b"3\n"], [b"2\n"]])) == [
        "shares: ranks get [3, 1] lines of s0"
    ]
