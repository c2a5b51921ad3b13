"""Does a training wait for its data? Lines a second that the stream delivers, and that a training consumes.

    python -m experiments.evidence.delivery --data $VOLT_DATA

For both kinds of trials, in the process of the training, with the vocabulary, the batches and the model of the trials:
the stream alone, read as fast as it goes, and a training, whose time is divided into what it waits for the next batch
and what it learns. The first updates, which open files and compile, do not count.

>>> slow = Share(lines=30, seconds=2.0, waited=0.5)
>>> slow.lines_per_second, slow.waited_share
(15.0, 0.25)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from experiments.lm import train as lm
from experiments.lm.data import prepared
from experiments.nmt import trial as nmt
from experiments.nmt.options import at_least
from volt.batches import Steps
from volt.errors import VoltError

FIRST = 20  # updates that do not count
Learn = Callable[[dict[str, Any]], object]


class Training(NamedTuple):
    """What gives batches without end, from the first one on, and what learns from one."""

    steps: Callable[[], Steps]
    learn: Learn


@dataclass(frozen=True, slots=True)
class Share:
    """What became of some time.

    lines: that came; a pair is one
    seconds: in all
    waited: seconds until batches were there
    """

    lines: int
    seconds: float
    waited: float

    @property
    def lines_per_second(self) -> float:
        """Of all the time."""
        return self.lines / self.seconds

    @property
    def waited_share(self) -> float:
        """Of all the time."""
        return self.waited / self.seconds


def measured(steps: Steps, learn: Learn, updates: int) -> Share:
    """What becomes of the time of so many updates, behind the first ones."""
    lines, waited = 0, 0.0
    with steps:
        batches = iter(steps)
        for arrays in islice(batches, FIRST):
            learn(arrays)
        began = before = time.perf_counter()
        for arrays in islice(batches, updates):
            waited += time.perf_counter() - before
            lines += int(arrays["nsentences"])
            learn(arrays)
            before = time.perf_counter()
    return Share(lines, before - began, waited)


def language_model(data: Path, folder: Path, size: int) -> Training:
    """The steps and the learning of a language model's trial."""
    texts = prepared(data, "ted-fi", folder)
    judge = lm.Judge(texts, lm.vocabulary_of(texts, size), lm.Recipe(), seed=1, device="cpu")
    return Training(lambda: judge.steps("train"), judge.learn)


def translation(data: Path, folder: Path, size: int) -> Training:
    """The steps and the learning of a translation's trial."""
    recipe = replace(nmt.MODEL, source="de", target="en", vocabulary=str(size))
    trial = nmt.Trial(data / "multi30k", folder, recipe, nmt.Plan(), device="cpu")
    updates = count(1)
    return Training(trial.steps, lambda arrays: trial.learner.learn(arrays, next(updates)))


KINDS = {"lm ted-fi": language_model, "nmt de-en": translation}


def main() -> None:
    """Measure, and tell a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds multi30k, ted and bible")
    parser.add_argument("--size", type=at_least(1), default=4_000)
    parser.add_argument("--updates", type=at_least(1), default=300, help="that count")
    given = parser.parse_args()
    torch.set_num_threads(1)
    try:
        for name, kind in KINDS.items():
            with tempfile.TemporaryDirectory(prefix="volt-delivery-") as folder:
                training = kind(given.data, Path(folder), given.size)
                alone = measured(training.steps(), lambda arrays: None, given.updates)
                both = measured(training.steps(), training.learn, given.updates)
            told = f"delivers {alone.lines_per_second:,.0f} lines/s, the training takes {both.lines_per_second:,.0f}"
            print(f"{name} {given.size:,}: {told} and waits {both.waited_share:.2%} of its time", flush=True)
    except VoltError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
