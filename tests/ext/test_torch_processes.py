"""Loaders of `StreamDataset` in separate processes: states at the end of an iteration, and workers that die."""

import os
import subprocess
import sys

import pytest
from support.drawn import DRAWS_ALL
from support.places import ROOT

pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
SECONDS = 240  # that no program may take

LAW = """
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from support.steps_of_streams import given, steps_of
from torchdata.stateful_dataloader import StatefulDataLoader
from volt.ext.torch import StreamDataset

folder = Path(sys.argv[1])

def loader_of(n_workers, epochs, persistent, epoch=4):
    dataset = StreamDataset(partial(steps_of, folder, 60, epochs=epochs), rank=0, world=1, epoch=epoch)
    return StatefulDataLoader(
        dataset, batch_size=None, num_workers=n_workers, persistent_workers=persistent and n_workers > 0
    )

def lines(batches):
    return [batch["id"].tolist() for batch in batches]

endless, whole = given(steps_of(folder, 60, epochs=None), 12), given(steps_of(folder, 60))
for n_workers, persistent in ((0, False), (1, False), (2, True), (4, False)):
    first = loader_of(n_workers, None, persistent)
    assert lines(first) == endless[:4]
    state = first.state_dict()
    again = loader_of(n_workers, None, persistent)
    again.load_state_dict(state)
    assert lines(again) == endless[4:8], (n_workers, persistent)
    if n_workers == 0 or persistent:
        assert lines(again) == endless[8:12]
    elsewhere = loader_of(1, None, False)
    elsewhere.dataset.load_state_dict(StreamDataset.state_of(state))
    assert lines(elsewhere) == endless[4:8]

behind = iter(loader := loader_of(2, None, False))
assert lines(islice(behind, 4)) == endless[:4]
again = loader_of(2, None, False)
again.load_state_dict(loader.state_dict())
assert (lines(again), lines(again)) == ([], endless[4:8])
try:
    lines(again)
except Exception as error:
    assert "workers that read this dataset have ended" in str(error) and "StreamDataset.state_of" in str(error), error
else:
    raise AssertionError("steps were given twice")

for n_workers in (0, 2):
    first = loader_of(n_workers, 1, False, epoch=None)
    assert lines(first) == whole
    again = loader_of(n_workers, 1, False, epoch=None)
    again.load_state_dict(first.state_dict())
    assert lines(again) == [], n_workers
print("held")
"""

DYING = """
import os, signal, sys, time
from functools import partial
from itertools import islice
from pathlib import Path
from support.steps_of_streams import steps_of, written
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from volt.ext.torch import StreamDataset

written(Path(sys.argv[1]), 60)  # before workers are there, which would write it at once
for kind in (StatefulDataLoader, DataLoader)[: int(sys.argv[2])]:
    dataset = StreamDataset(partial(steps_of, Path(sys.argv[1]), 60, epochs=None), rank=0, world=1)
    batches = iter(kind(dataset, batch_size=None, num_workers=2))
    next(batches)
    outcome = "fewer steps, and no error"
    try:  # torch raises it from the handler of a signal, wherever this process is
        try:
            os.kill(batches._workers[1].pid, signal.SIGKILL)
            list(islice(batches, 1000))
        except (RuntimeError, OSError, EOFError):  # the latter two where it died while it sent a batch
            outcome = "an error"
        time.sleep(1)  # the signal is handled by then
    except RuntimeError:
        outcome = "an error"
    print(outcome)
    try:
        batches._shutdown_workers()
    except RuntimeError:
        batches._shutdown_workers()
"""


def run(law, *arguments):
    """Return what a program prints. In this process, torch would raise errors about workers anywhere."""
    places = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "cli")))
    environment = {
        name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", law, *map(str, arguments)],
        env=environment | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.campaign
def test_a_state_at_the_end_of_an_iteration_resumes_with_the_next(tmp_path):
    """A state at the end of an iteration resumes with the next iteration, for any number of
    workers, persistent or not. No step is repeated, and none follows the last."""
    assert run(LAW, tmp_path) == "held"


def test_a_worker_that_dies_is_an_error(tmp_path):
    """If a worker is killed, the iteration ends with an error instead of a hang or fewer steps."""
    n_kinds = 2 if DRAWS_ALL else 1
    assert run(DYING, tmp_path, n_kinds).splitlines() == ["an error"] * n_kinds
