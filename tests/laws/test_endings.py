"""No object of volt prevents Python from ending: the cells of `tests/support/endings.py`, with many objects in each."""

import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec

import pytest
from support.places import ROOT, TESTS

SECONDS = 200  # that no program may take
campaign = partial(pytest.param, marks=pytest.mark.campaign)


@pytest.mark.parametrize(
    ("groups", "endings"),
    [
        ("streams steps threads", ["SIGTERM, handled", "fork"]),
        campaign("streams steps threads", ["exception", "end", "exit in a thread", "SIGINT"]),
        campaign("processes", ["exception"]),
        ("datasets", ["end"]),
        campaign("datasets", ["exception", "fork"]),
        campaign("loaders", ["end"]),
    ],
)
def test_no_object_keeps_an_interpreter_from_ending(groups, endings):
    """Processes with live objects in a global variable, an object, a cycle, a generator or a thread end as expected."""
    if groups in ("datasets", "loaders") and not find_spec("torchdata"):
        pytest.skip("torchdata is not installed")
    command = [
        sys.executable,
        TESTS / "support/endings.py",
        *groups.split(),
        "--together",
        *endings,
    ]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
    )
    assert (done.returncode, done.stdout.count(" ends\n")) == (0, len(endings)), (
        done.stdout + done.stderr
    )
