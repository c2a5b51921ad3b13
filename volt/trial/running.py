"""A text and a time limit → trainings in processes, their results in a file → `TrialResult`.

A training starts only if it is expected to end in time, by the seconds of earlier ones of the nearest size. If five
trainings would take too long, all of them read fewer characters. Results are appended to `trial.jsonl` as trainings
end, so a trial that was interrupted continues from there.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from volt import arguments
from volt.choose.learning import learn_enough
from volt.choose.rules import checked_training
from volt.choose.search import search
from volt.choose.training_law import Training
from volt.count.corpus import checked_sources, count_words
from volt.display import counted
from volt.errors import ConfigError, VoltError
from volt.files.atomic import make_folder
from volt.files.blocks import Errors
from volt.files.paths import Sources, expand
from volt.files.threads import available_cores
from volt.trial.report import ENOUGH, TrialResult, amount
from volt.trial.results import Results, Row, score
from volt.trial.schedule import SEEDS, Sizes, wanted
from volt.trial.texts import Texts, fingerprint, read_texts, write_texts
from volt.trial.training import TrainingRecipe, usable_device

AFFORDED = 5  # trainings in the time of a trial
PROBE = 200_000  # characters of a short training that measures the speed
USUAL = 10_000.0  # characters per second, before any training
START = 10.0  # seconds until a process trains, before any training
LONGEST = 10_000  # hours
NICE = 10
SIGNAL_CHECK = 0.5  # seconds between checks for signals
_ENDS_WITH_PARENT = 1  # PR_SET_PDEATHSIG

K = TypeVar("K")
R = TypeVar("R")


class Ended(NamedTuple):
    """A process that ended. line: the last of its stdout;  error: the last line of its stderr."""

    status: int
    line: str
    error: str


class ChildProcesses:
    """Child processes of low priority, which end with this process or with the block."""

    def __init__(self, nice: int = NICE) -> None:
        self.nice, self.is_over = nice, False
        self._running, self._lock = set[subprocess.Popen[str]](), Lock()

    def __enter__(self) -> ChildProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.is_over = True
            for process in self._running:
                process.terminate()

    def run(self, command: Sequence[str]) -> Ended:
        """Run a command until it ends."""
        with self._lock:
            if self.is_over:
                return Ended(-signal.SIGTERM, "", "")
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=partial(_be_subordinate, self.nice),
            )
            self._running.add(process)
        lines, errors = (text.strip().splitlines() for text in process.communicate())
        with self._lock:
            self._running.discard(process)
        return Ended(process.returncode, (lines or [""])[-1], (errors or ["it wrote nothing"])[-1])


def _be_subordinate(nice: int) -> None:
    """Lower the priority, leave Ctrl-C to the parent, and end when the parent ends (on Linux)."""
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ENDS_WITH_PARENT, signal.SIGTERM)


def run_each(
    upcoming: Callable[[Collection[K]], Iterable[K]],
    work: Callable[[K], R],
    done: Callable[[K, R], object],
    *,
    jobs: int,
    processes: ChildProcesses,
) -> None:
    """Work on the upcoming ones in threads, `jobs` at a time, until none is upcoming; processes end with an error.

    upcoming: those that are running → the next ones;  done: called in this thread with each result
    """
    running = dict[Future[R], K]()
    with ThreadPoolExecutor(jobs) as pool, processes:
        while True:
            for key in islice(upcoming([*running.values()]), jobs - len(running)):
                running[pool.submit(work, key)] = key
            if not running:
                return
            # Signals do not always interrupt a wait: another thread may receive them, or they come just before it.
            ended, _ = wait(running, timeout=SIGNAL_CHECK, return_when=FIRST_COMPLETED)
            for future in ended:
                done(running.pop(future), future.result())


@dataclass(slots=True)
class Trainings:
    """The trainings of one text: finished ones in a file, running ones in processes.

    until: the time.monotonic() at which the last training should end
    """

    texts: Texts
    results: Results
    recipe: TrainingRecipe
    device: str
    until: float
    report: Callable[[str], object]
    seed: int

    def key(self, size: int, seed: int) -> str:
        """Name everything that a result follows from."""
        labels = {"text": self.texts.fingerprint, "size": size, "seed": seed, "device": self.device}
        return "|".join(f"{name}:{value}" for name, value in (labels | asdict(self.recipe)).items())

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The results of the recipe with this trial's seeds."""
        seeds = range(self.seed, self.seed + SEEDS)
        return [
            row
            for row in self.results.rows
            if row["seed"] in seeds and row["key"] == self.key(row["size"], row["seed"])
        ]

    @property
    def scores(self) -> dict[tuple[int, int], float]:
        return {(row["size"], row["seed"] - self.seed + 1): score(row) for row in self.rows}

    def seconds(self, size: int) -> float:
        """Estimate the seconds of a training by the longest of the nearest size."""
        rows = self.rows or self.results.rows
        nearest = min((abs(math.log(row["size"] / size)) for row in rows), default=0.0)
        alike = [row for row in rows if abs(math.log(row["size"] / size)) <= nearest + 1e-9]
        return max(
            (sum(parts(row, self.recipe)) for row in alike),
            default=START + self.recipe.characters / USUAL,
        )

    def run(self, next_ones: Callable[[], Sequence[tuple[int, int]]], *, jobs: int) -> None:
        """Train the next ones, (size, seed), while there are any that would end in time."""
        processes = ChildProcesses()

        def upcoming(running: Collection[tuple[int, int]]) -> Iterator[tuple[int, int]]:
            for size, seed in next_ones():
                if (size, seed) not in running and time.monotonic() + self.seconds(
                    size
                ) < self.until:
                    yield size, seed

        run_each(
            upcoming, partial(self._train, processes), self._add, jobs=jobs, processes=processes
        )

    def _train(self, processes: ChildProcesses, training: tuple[int, int]) -> dict[str, Any]:
        size, number = training
        self.report(f"training with {size:,} tokens, seed {self.seed + number - 1}")
        ended = processes.run(self.command(size, self.seed + number - 1))
        if ended.status and not processes.is_over:
            raise VoltError(
                f"the training of {size:,} tokens failed: {ended.error}; run again to continue the trial"
            )
        return dict(json.loads(ended.line or "{}"))

    def command(self, size: int, seed: int) -> list[str]:
        options = {
            "folder": str(self.texts.folder),
            "size": size,
            "seed": seed,
            "recipe": asdict(self.recipe),
        }
        program = [sys.executable, "-P", "-m", "volt.trial.training"]
        return [*program, json.dumps({**options, "device": self.device})]

    def _add(self, training: tuple[int, int], result: Mapping[str, Any]) -> None:
        size, seed = training[0], self.seed + training[1] - 1
        labels = {
            "key": self.key(size, seed),
            "size": size,
            "seed": seed,
            **asdict(self.recipe),
            "device": self.device,
        }
        self.results.add({**labels, **result})
        if self.recipe.readings > 1:
            read = (
                f"{amount(1e6 * result['millions'][-1])} characters in {result['seconds']:,.0f} s"
            )
            if len(result["dev"]) < self.recipe.readings:
                read += (
                    f", until dev had not improved for {counted(self.recipe.patience, 'reading')}"
                )
            self.report(
                f"{size:,} tokens, seed {seed}: {score(result):.4f} bits per character; {read}"
            )


def parts(row: Row, recipe: TrainingRecipe) -> tuple[float, float, float]:
    """Estimate the seconds of learning, of reading dev and test, and of the rest, by a training of another length."""
    rest = row["seconds"] - row["learning_seconds"] - row["reading_seconds"]
    per_character = row["learning_seconds"] / (1e6 * row["millions"][-1])
    per_reading = row["reading_seconds"] / len(row["dev"])
    return per_character * recipe.characters, per_reading * recipe.readings, rest


def rounds(jobs: int) -> int:
    """Return how many trainings run one after another in a trial; later ones depend on earlier ones."""
    return max(math.ceil(AFFORDED / jobs), 2)


def affordable(row: Row, recipe: TrainingRecipe, *, seconds: float, jobs: int) -> int:
    """Return the characters that each training can read, if five fit into the time; at most the recipe's.

    row: a training that shows the speed;  jobs: trainings at a time

    >>> row = {"seconds": 20, "learning_seconds": 10, "reading_seconds": 5, "millions": [0.2], "dev": [3.0]}
    >>> affordable(row, TrainingRecipe(characters=50_000_000), seconds=1_800, jobs=1)
    4660000
    """
    learning, *others = parts(row, recipe)
    each = 0.8 * seconds / rounds(jobs) - sum(others)
    least = min(ENOUGH, recipe.characters)
    return min(
        max(10_000 * int(each / learning * recipe.characters / 10_000), least), recipe.characters
    )


def run(
    sources: Sources,
    folder: str | os.PathLike[str],
    *,
    hours: float,
    training: Training | None = None,
    jobs: int | None = None,
    device: str = "auto",
    seed: int = 1,
    recipe: TrainingRecipe | None = None,
    errors: Errors = "strict",
    report: Callable[[str], object] | None = None,
) -> TrialResult:
    """Train language models with vocabularies of several sizes on a text, and compare their bits per character.

    sources: files, globs, folders or "-", as in `count_words`;  folder: for texts and results, from which a second
        call continues;  hours: after which no training should run
    training: how long a training reads; by default 5 epochs. If the time is short, all trainings read less
    jobs: trainings at a time; by default one per core, at most 8, or 1 on a GPU;  device: auto, cpu, cuda or cuda:N
    seed: of the first trainings;  recipe: the model and how it is trained
    errors: for lines that are not UTF-8: "strict", "replace" or "skip";  report: called with a line of progress
    Raises CorpusError for a text that is too small, ConfigError for options out of range and if the time is too short.

    >>> run("corpus.txt", "corpus.trial", hours=0.5)  # doctest: +SKIP
    <TrialResult: 2,118 tokens are best, 1.2975 bits per character, 9 trainings>
    """
    began, hours = time.monotonic(), arguments.number(hours, "hours")
    if not 0 < hours <= LONGEST:
        raise ConfigError(f"hours is {hours:g}; give a number above 0 and at most {LONGEST:,}")
    training, note = (
        checked_training(training),
        arguments.function(report, "report") or (lambda line: None),
    )
    device, jobs = (
        usable_device(device),
        None if jobs is None else arguments.whole(jobs, "jobs", low=1, high=256),
    )
    jobs = jobs or (1 if device.startswith("cuda") else min(available_cores(), 8))
    seed = arguments.whole(seed, "seed", low=0, high=(1 << 31) - 1)
    recipe = (
        usual_recipe(device)
        if recipe is None
        else arguments.instance(recipe, TrainingRecipe, "recipe")
    )
    folder = Path(arguments.path(folder, "folder"))
    encoded = read_texts(expand(checked_sources(sources)), errors=errors)
    make_folder(folder)
    with Results.open(folder / "trial.jsonl", check) as results:
        if any(row["text"] != fingerprint(encoded) for row in results.rows):
            raise ConfigError(
                f"{folder}: contains trainings on another text; choose another folder"
            )
        texts = write_texts(encoded, folder)
        n = texts.characters["train"]
        requested = max(round(training.of(n) * n), 1)
        trainings = Trainings(
            texts,
            results,
            replace(recipe, characters=PROBE, readings=1),
            device,
            began + 3600 * hours,
            note,
            seed,
        )
        candidates = learn_enough(count_words([str(texts.path("train"))]), training=training)
        low, high = candidates.smallest, candidates.n_tokens
        recipe = replace(recipe, characters=requested)
        if requested > 2 * PROBE:
            size = min(max(training.size(n), low), high)
            note(f"measuring the speed with {size:,} tokens")
            trainings.run(
                lambda: [one for one in [(size, 1)] if one not in trainings.scores], jobs=1
            )
            characters = min(ENOUGH, requested)
            for row in trainings.rows:
                characters = affordable(row, recipe, seconds=3600 * hours, jobs=jobs)
            recipe = replace(recipe, characters=characters)
        trainings.recipe = recipe
        length = Training(read=recipe.characters)
        sizes = Sizes.around(length.size(n), low=low, high=high)
        note(
            f"each training reads {amount(recipe.characters)} characters, {recipe.characters / n:.3g} epochs, "
            f"in about {trainings.seconds(sizes.values[sizes.first]) / 60:.2g} minutes; {jobs} at a time"
        )
        trainings.run(lambda: wanted(trainings.scores, sizes), jobs=jobs)
        if not trainings.rows:
            minutes = trainings.seconds(sizes.values[sizes.first]) / 60
            message = f"too little time for one training: about {minutes:.1f} minutes are needed; for {AFFORDED}, pass"
            raise ConfigError(
                message, hint={"hours": math.ceil(100 * rounds(jobs) * minutes / 60) / 100}
            )
        picks = {
            name: pick.size for name, pick in search(candidates, training=length).picks.items()
        }
        left = tuple(wanted(trainings.scores, sizes))
        return TrialResult(
            tuple(trainings.rows), sizes, n, requested, recipe.characters, picks, left
        )


def check(row: Row) -> bool:
    """Check whether a training reached its end: all readings, or no better one for `patience` readings.

    Earlier versions of VOLT stopped trainings that were worse than others; these do not count, and run again. Raises
    ValueError for a row that is not the result of a training.
    """
    needed = {
        "key": str,
        "text": str,
        "size": int,
        "seed": int,
        "millions": list,
        "dev": list,
        "test": list,
        "readings": int,
        "patience": int,
        "seconds": float,
        "learning_seconds": float,
        "reading_seconds": float,
    }
    if missing := [name for name, kind in needed.items() if not isinstance(row.get(name), kind)]:
        raise ValueError(f"{missing[0]} is missing")
    readings = [row[name] for name in ("millions", "dev", "test")]
    are_numbers = all(isinstance(one, float) and math.isfinite(one) for one in chain(*readings))
    if not readings[0] or len({*map(len, readings)}) > 1 or not are_numbers:
        raise ValueError("millions, dev and test must be lists of as many numbers")
    n = len(row["dev"])
    return bool(n == row["readings"] or n - row["dev"].index(min(row["dev"])) > row["patience"])


def usual_recipe(device: str) -> TrainingRecipe:
    """Return the recipe of a device: without matrix products in bfloat16 on CPUs, most of which emulate them slowly."""
    return TrainingRecipe(products="bfloat16" if device.startswith("cuda") else "float32")
