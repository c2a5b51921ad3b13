"""Check that a training that is killed again and again has the losses of an undisturbed one, bit for bit.

    python -m experiments.nmt.resume_check --data $VOLT_DATA/multi30k --steps 60 --kills 3

A small translation model trains once undisturbed. A second training is killed by SIGKILL at random moments and each
time resumed from its checkpoint with another number of workers of the stream. A checkpoint holds model, optimizer,
random state and the state of `volt.batches.Steps`. Losses are compared as hexadecimal floats; the exit status is 1 if
they differ.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

import volt
from experiments.lm.options import at_least
from experiments.nmt.data import file_of, vocabulary_of
from experiments.nmt.learner import Learner, Recipe
from volt.batches import ByTokens, SampleFormat, Steps
from volt.files.atomic import write_atomic
from volt.stream import Policy, Source, Stream

SMALL = Recipe(width=64, inner=128, layers=2, warmup=40, max_tokens=1024)
EVERY = 7  # steps between two checkpoints
CHECKPOINT, LOG, VOCABULARY = "checkpoint.pt", "losses.txt", "joint.volt"


def train(data: Path, run: Path, *, n_steps: int, workers: int) -> None:
    """Train to a step, from the checkpoint if there is one; log the loss of each step."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    vocabulary = volt.Vocabulary.load(run.parent / VOCABULARY)
    paths = tuple(str(file_of(data, "train", language)) for language in (SMALL.source, SMALL.target))
    lines = Stream(
        [Source("train", paths, names=("src", "tgt"))], seed=SMALL.seed, n_workers=workers,
        policy=Policy(on_fault="skip"), cache=run / "cache",
    )  # fmt: skip
    samples, rule = SampleFormat({"src": vocabulary, "tgt": vocabulary}), ByTokens(max_tokens=SMALL.max_tokens)
    learner, log = Learner(SMALL, len(vocabulary), device=torch.device("cpu")), list[str]()
    with Steps(lines, samples, rule, window=SMALL.window) as steps:
        if (run / CHECKPOINT).exists():
            stored = torch.load(run / CHECKPOINT, weights_only=True)
            learner.model.load_state_dict(stored["model"])
            learner.optimizer.load_state_dict(stored["optimizer"])
            torch.set_rng_state(stored["random"])
            steps.restore(stored["steps"])
            log = (run / LOG).read_text().splitlines()[: steps.n]
        with (run / LOG).open("w") as file:
            file.writelines(f"{line}\n" for line in log)
            for arrays in steps:
                print(learner.learn(arrays, steps.n)[0].hex(), file=file, flush=True)
                if steps.n % EVERY == 0:
                    parts = {"model": learner.model.state_dict(), "optimizer": learner.optimizer.state_dict()}
                    parts |= {"random": torch.get_rng_state(), "steps": steps.state()}
                    with write_atomic(run / CHECKPOINT) as checkpoint:
                        torch.save(parts, checkpoint)
                if steps.n >= n_steps:
                    return


def losses(run: Path) -> list[str]:
    """Return the whole lines of the log."""
    path = run / LOG
    return path.read_text().split("\n")[:-1] if path.exists() else []


def run_until(data: Path, run: Path, *, n_steps: int, workers: int, kill_at: int = 0) -> int:
    """Run a training in a process; kill it once a step is logged. Return its status."""
    command = [sys.executable, "-m", "experiments.nmt.resume_check", "--data", str(data), "--steps", str(n_steps)]
    run.mkdir(exist_ok=True)
    with subprocess.Popen([*command, "--run", str(run), "--workers", str(workers)]) as process:
        while kill_at and process.poll() is None and len(losses(run)) < kill_at:
            time.sleep(0.002)
        if kill_at:
            time.sleep(random.random() * 0.2)
            process.kill()
    return process.returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, and print the verdict; 1 if losses differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds train.en, train.de and so on")
    parser.add_argument("--steps", type=at_least(1), default=60)
    parser.add_argument("--kills", type=at_least(0), default=3)
    parser.add_argument("--size", type=at_least(1), default=4000, help="of the vocabulary")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=at_least(0), default=0, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.run:
        train(given.data, given.run, n_steps=given.steps, workers=given.workers)
        return 0
    with tempfile.TemporaryDirectory(prefix="volt-resume-") as name:
        whole, killed = Path(name, "whole"), Path(name, "killed")
        vocabulary_of(given.data, (SMALL.source, SMALL.target), given.size).save(Path(name, VOCABULARY))
        if run_until(given.data, whole, n_steps=given.steps, workers=0):
            return 1
        for number in range(given.kills):
            at = max(1, given.steps * (number + 1) // (given.kills + 1))
            run_until(given.data, killed, n_steps=given.steps, workers=number + 1, kill_at=at)
            print(f"{number + 1} workers: killed after {len(losses(killed))} steps", flush=True)
        if run_until(given.data, killed, n_steps=given.steps, workers=0):
            return 1
        same = sum(one == other for one, other in zip(losses(whole), losses(killed), strict=False))
        print(f"{same} of {given.steps} losses are equal, bit for bit")
        return int(not same == given.steps == len(losses(killed)))


if __name__ == "__main__":
    sys.exit(main())
