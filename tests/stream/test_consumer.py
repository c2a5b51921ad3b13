"""A trainer behind a pipe (experiments/stream/train.py): its loss falls, and however it ends it goes on exactly."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest
from places import ROOT

from volt.stream.examples.recipes import write_recipe
from volt.stream.running.stream import Stream

FOLDER = ROOT / "experiments" / "stream"
DEADLINE = 60  # seconds
BATCH, LINES = 16, 2560
Process = subprocess.Popen[bytes]


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("train", FOLDER / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train"] = module
    spec.loader.exec_module(module)
    return module


train = _module()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The recipe of subword sampling with ids."""
    write_recipe("subword-sampling", tmp_path / "run")
    return Path(shutil.copy(FOLDER / "ids.yaml", tmp_path / "run")).parent


class Training:
    """A stream and a trainer with a pipe between them."""

    def __init__(self, folder: Path, *, workers: int = 0) -> None:
        command = [sys.executable, "-m", "volt_cli", "stream", "run", folder / "ids.yaml", "--resume", "-q"]
        options = ["--state", folder / "state.json", "--ack", folder / "used.txt", "--workers", str(workers)]
        self.stream: Process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE)
        trainer = [sys.executable, FOLDER / "train.py", folder, "--lines", str(LINES)]
        speed = ["--batch-lines", str(BATCH), "--steps", "4", "--width", "16"]
        self.trainer: Process = subprocess.Popen(
            [*trainer, *speed], stdin=self.stream.stdout, stdout=subprocess.DEVNULL
        )
        assert self.stream.stdout
        self.stream.stdout.close()
        self._timers = [Timer(DEADLINE, process.kill) for process in (self.stream, self.trainer)]
        for timer in self._timers:
            timer.start()

    def ends(self) -> tuple[int, int]:
        """The exit statuses, when both have ended."""
        found = self.stream.wait(), self.trainer.wait()
        for timer in self._timers:
            timer.cancel()
        return found


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's settings."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


def used(folder: Path) -> int:
    """Lines that the trainer has said to have used."""
    path = folder / "used.txt"
    return int(path.read_text()) if path.exists() else 0


def wait_until_used(folder: Path, n: int) -> None:
    """Wait until so many lines have been used; fail at the deadline."""
    end = time.monotonic() + DEADLINE
    while used(folder) < n:
        assert time.monotonic() < end, "the training does not move"
        time.sleep(0.005)


def digest(lines: Iterator[str]) -> str:
    """What the trainer keeps of lines that it has used, in order."""
    found = ""
    while batch := "".join(f"{line}\n" for line in islice(lines, BATCH)).encode():
        found = blake2b(found.encode() + batch, digest_size=16).hexdigest()
    return found


@pytest.mark.usefixtures("environment")
def test_killed_again_and_again_the_training_is_that_of_one_run(folder: Path, tmp_path: Path) -> None:
    """Killed or interrupted at chance moments, on either side, it uses every line once, and the model is equal."""
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    assert Training(whole).ends() == (0, 0)
    for goal, part, number in [(1, "trainer", 9), (900, "stream", 9), (1600, "stream", 2)]:
        training = Training(folder, workers=goal % 2)
        wait_until_used(folder, max(goal, used(folder) + 1))
        os.kill(getattr(training, part).pid, number)
        stream, trainer = training.ends()
        assert (stream, trainer) == ((0, -number) if part == "trainer" else (-9 if number == 9 else 128 + number, 0))
        assert 0 < used(folder) <= LINES  # what is in the pipe is still used
    assert Training(folder).ends() == (0, 0)
    one, many = train.load(whole), train.load(folder)
    with Stream.from_config(folder / "ids.yaml") as stream:
        assert many.digest == one.digest == digest(islice(stream, LINES))
    assert many.n_lines == one.n_lines == LINES
    assert many.losses == one.losses
    assert np.mean(one.losses[-20:]) < 0.5 * np.mean(one.losses[:5])
    for name, value in one.parameters.items():
        np.testing.assert_array_equal(many.parameters[name], value)
    assert len(list(folder.glob("model-*.npz"))) == 1


def test_gradients_are_those_of_the_loss() -> None:
    """Against differences of the loss, in a few places of each parameter."""
    model = train.Model.new(7, width=4, seed=3)
    parameters = {name: value.astype(np.float64) for name, value in model.parameters.items()}
    lines, rng = [b"1 2 3\t4 5\n", b"6 0\t1\n"], np.random.default_rng(1)
    _, gradients = train.loss_and_gradients(parameters, lines)
    for name, value in parameters.items():
        for _ in range(5):
            place = tuple(rng.integers(0, size) for size in value.shape)
            losses = []
            for change in (1e-5, -2e-5):
                value[place] += change
                losses.append(train.loss_and_gradients(parameters, lines)[0])
            value[place] += 1e-5
            assert gradients[name][place] == pytest.approx((losses[0] - losses[1]) / 2e-5, abs=1e-7)


def test_broken_lines_and_batches_are_left_for_the_next_run(tmp_path: Path) -> None:
    """What a stream that was killed leaves behind is not used."""
    path = tmp_path / "pipe"
    for text, n in [(b"1\n2\n3\n4\n5\n", 2), (b"1\n2\n3\n4", 1), (b"1\n2", 0), (b"", 0)]:
        path.write_bytes(text)
        with path.open("rb") as pipe:
            assert len(list(train.batches(pipe, 2))) == n


def test_a_commit_that_is_cut_short_has_not_happened(tmp_path: Path) -> None:
    """A model that lies there without its number in used.txt is passed over."""
    model = train.Model.new(5, width=2, seed=1)
    assert train.load(tmp_path) is None
    train.commit(model, tmp_path)
    train.step(model, [b"1 2\n"], rate=0.1)
    (tmp_path / "used.txt").chmod(0o444)
    (tmp_path / "model-1.npz").write_bytes(b"half")
    assert train.load(tmp_path).n_lines == 0
