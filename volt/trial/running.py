"""A text and a time limit → trainings in processes, their results in a file → `TrialResult`.

A training starts only if it is expected to end in time, by the seconds of earlier ones of the
nearest size. If five trainings would take too long, all of them read fewer characters. Results are
appended to `trial.jsonl` as trainings end, so a trial that was interrupted continues from there.
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
from volt.trial.results import Results, Row, check_types, score
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
_TYPES = {
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
        self.nice = nice
        self.is_over = False
        self._running = set[subprocess.Popen[str]]()
        self._lock = Lock()

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
        output, errors = process.communicate()
        with self._lock:
            self._running.discard(process)
        lines = output.strip().splitlines() or [""]
        error_lines = errors.strip().splitlines() or ["it wrote nothing"]
        return Ended(process.returncode, lines[-1], error_lines[-1])


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
    """Work on upcoming keys in threads, `jobs` at a time, until `upcoming` returns none.

    The processes end if a thread raises an error.

    upcoming: running keys → the next ones;  done: called in this thread with each result
    """
    running = dict[Future[R], K]()
    with ThreadPoolExecutor(jobs) as pool, processes:
        while True:
            for key in islice(upcoming([*running.values()]), jobs - len(running)):
                running[pool.submit(work, key)] = key
            if not running:
                return
            # Signals may not interrupt a wait: another thread may receive them, or they come
            # just before it.
            ended, _ = wait(running, timeout=SIGNAL_CHECK, return_when=FIRST_COMPLETED)
            for future in ended:
                done(running.pop(future), future.result())


@dataclass(frozen=True, slots=True)
class Trainings:
    """The trainings of one text: finished ones in a file, running ones in processes.

    seed: the first training seed of a size
    until: the time.monotonic() at which the last training should end
    jobs: trainings at a time
    """

    texts: Texts
    results: Results
    recipe: TrainingRecipe
    seed: int
    device: str
    until: float
    jobs: int
    report: Callable[[str], object]

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
        scores = {}
        for row in self.rows:
            number = row["seed"] - self.seed + 1
            scores[row["size"], number] = score(row)
        return scores

    def seconds(self, size: int) -> float:
        """Estimate the seconds of a training by the longest of the nearest size."""
        by_distance = dict[float, list[float]]()
        for row in self.rows or self.results.rows:
            distance = round(abs(math.log(row["size"] / size)), 9)
            by_distance.setdefault(distance, []).append(sum(parts(row, self.recipe)))
        if not by_distance:
            return START + self.recipe.characters / USUAL
        return max(by_distance[min(by_distance)])

    def run(self, next_ones: Callable[[], Sequence[tuple[int, int]]]) -> None:
        """Train the next ones, (size, seed), while there are any that would end in time."""
        processes = ChildProcesses()

        def upcoming(running: Collection[tuple[int, int]]) -> Iterator[tuple[int, int]]:
            for size, seed in next_ones():
                is_in_time = time.monotonic() + self.seconds(size) < self.until
                if is_in_time and (size, seed) not in running:
                    yield size, seed

        work = partial(self._train, processes)
        run_each(upcoming, work, self._add, jobs=self.jobs, processes=processes)

    def _train(self, processes: ChildProcesses, training: tuple[int, int]) -> dict[str, Any]:
        size = training[0]
        seed = self.seed + training[1] - 1
        self.report(f"training with {size:,} tokens, seed {seed}")
        ended = processes.run(self.command(size, seed))
        if ended.status and not processes.is_over:
            raise VoltError(
                f"the training of {size:,} tokens failed: {ended.error}; run again to continue "
                "the trial"
            )
        return dict(json.loads(ended.line or "{}"))

    def command(self, size: int, seed: int) -> list[str]:
        options = {
            "folder": str(self.texts.folder),
            "size": size,
            "seed": seed,
            "recipe": asdict(self.recipe),
            "device": self.device,
        }
        return [sys.executable, "-P", "-m", "volt.trial.training", json.dumps(options)]

    def _add(self, training: tuple[int, int], result: Mapping[str, Any]) -> None:
        size = training[0]
        seed = self.seed + training[1] - 1
        self.results.add(
            {
                "key": self.key(size, seed),
                "size": size,
                "seed": seed,
                **asdict(self.recipe),
                "device": self.device,
                **result,
            }
        )
        if self.recipe.readings == 1:
            return

        read = f"{amount(1e6 * result['millions'][-1])} characters in {result['seconds']:,.0f} s"
        if len(result["dev"]) < self.recipe.readings:
            read += f", until dev had not improved for {counted(self.recipe.patience, 'reading')}"
        bits = f"{score(result):.4f} bits per character"
        self.report(f"{size:,} tokens, seed {seed}: {bits}; {read}")


def parts(row: Row, recipe: TrainingRecipe) -> tuple[float, float, float]:
    """Estimate seconds of learning, of reading dev and test, and of the rest.

    row: the result of a training of another length
    """
    rest = row["seconds"] - row["learning_seconds"] - row["reading_seconds"]
    per_character = row["learning_seconds"] / (1e6 * row["millions"][-1])
    per_reading = row["reading_seconds"] / len(row["dev"])
    return per_character * recipe.characters, per_reading * recipe.readings, rest


def rounds(jobs: int) -> int:
    """Return how many trainings run one after another, as later ones depend on earlier ones."""
    return max(math.ceil(AFFORDED / jobs), 2)


def affordable(row: Row, recipe: TrainingRecipe, *, seconds: float, jobs: int) -> int:
    """Return the characters that each training can read, if five fit into the time.

    Return at most the recipe's characters.

    row: a training that shows the speed;  jobs: trainings at a time

    >>> row = {"seconds": 20, "learning_seconds": 10, "reading_seconds": 5}
    >>> row |= {"millions": [0.2], "dev": [3.0]}
    >>> affordable(row, TrainingRecipe(characters=50_000_000), seconds=1_800, jobs=1)
    4660000
    """
    learning, *others = parts(row, recipe)
    each = 0.8 * seconds / rounds(jobs) - sum(others)
    characters = 10_000 * int(each / learning * recipe.characters / 10_000)
    return min(max(characters, ENOUGH), recipe.characters)


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
    """Compare the bits per character of language models with vocabularies of several sizes.

    sources: files, globs, folders or "-", as in `count_words`
    folder: for texts and results, from which a second call continues
    hours: after which no training should run
    training: how long a training reads; by default 5 epochs. If the time is short, all read less
    jobs: trainings at a time; by default one per core, at most 8, or 1 on a GPU
    device: auto, cpu, cuda or cuda:N
    seed: of the first trainings;  recipe: the model and how it is trained
    errors: for lines that are not UTF-8: "strict", "replace" or "skip"
    report: called with a line of progress
    Raises CorpusError for a text that is too small.
    Raises ConfigError for options out of range and if the time is too short.

    >>> run("corpus.txt", "corpus.trial", hours=0.5)  # doctest: +SKIP
    <TrialResult: 2,118 tokens are best, 1.2975 bits per character, 9 trainings>
    """
    began = time.monotonic()
    hours = arguments.number(hours, "hours")
    if not 0 < hours <= LONGEST:
        raise ConfigError(f"hours is {hours:g}; give a number above 0 and at most {LONGEST:,}")
    training = checked_training(training)
    report = arguments.function(report, "report") or (lambda line: None)
    device = usable_device(device)
    if jobs is None:
        jobs = 1 if device.startswith("cuda") else min(available_cores(), 8)
    jobs = arguments.whole(jobs, "jobs", low=1, high=256)
    seed = arguments.whole(seed, "seed", low=0, high=(1 << 31) - 1)
    recipe = arguments.instance(
        usual_recipe(device) if recipe is None else recipe, TrainingRecipe, "recipe"
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
        until = began + 3600 * hours
        trainings = Trainings(texts, results, recipe, seed, device, until, jobs, report)
        return _trial(trainings, training, seconds=3600 * hours)


def _trial(trainings: Trainings, training: Training, *, seconds: float) -> TrialResult:
    """Choose the length of all trainings, train, and return the result."""
    texts = trainings.texts
    n_characters = texts.characters["train"]
    requested = max(round(training.of(n_characters) * n_characters), 1)
    candidates = learn_enough(count_words([str(texts.path("train"))]), training=training)
    low = candidates.smallest
    high = candidates.n_tokens

    recipe = replace(trainings.recipe, characters=requested)
    if requested > 2 * PROBE:
        size = min(max(training.size(n_characters), low), high)
        characters = _affordable_characters(replace(trainings, recipe=recipe), size, seconds)
        recipe = replace(recipe, characters=characters)
    trainings = replace(trainings, recipe=recipe)

    length = Training(read=recipe.characters)
    sizes = Sizes.around(length.size(n_characters), low=low, high=high)
    minutes = trainings.seconds(sizes.values[sizes.first]) / 60
    epochs = recipe.characters / n_characters
    trainings.report(
        f"each training reads {amount(recipe.characters)} characters, {epochs:.3g} epochs, "
        f"in about {minutes:.2g} minutes; {trainings.jobs} at a time"
    )
    trainings.run(lambda: wanted(trainings.scores, sizes))
    if not trainings.rows:
        hours = rounds(trainings.jobs) * minutes / 60
        raise ConfigError(
            f"too little time for one training: about {minutes:.1f} minutes are needed; "
            f"for {AFFORDED}, pass",
            hint={"hours": math.ceil(100 * hours) / 100},
        )

    picks = search(candidates, training=length).picks
    return TrialResult(
        rows=tuple(trainings.rows),
        sizes=sizes,
        n_characters=n_characters,
        requested=requested,
        characters=recipe.characters,
        picks={rule: pick.size for rule, pick in picks.items()},
        left=tuple(wanted(trainings.scores, sizes)),
    )


def _affordable_characters(trainings: Trainings, size: int, seconds: float) -> int:
    """Measure the speed by a short training, and return how much each training can read."""
    recipe = replace(trainings.recipe, characters=PROBE, readings=1)
    probe = replace(trainings, recipe=recipe, jobs=1)
    probe.report(f"measuring the speed with {size:,} tokens")
    probe.run(lambda: [] if (size, 1) in probe.scores else [(size, 1)])
    characters = min(ENOUGH, trainings.recipe.characters)
    for row in probe.rows:
        characters = affordable(row, trainings.recipe, seconds=seconds, jobs=trainings.jobs)
    return characters


def check(row: Row) -> bool:
    """Check whether a training reached its end: all readings, or `patience` without a better one.

    Earlier versions of VOLT stopped trainings that were worse than others; these do not count, and
    run again. Raises ValueError for a row that is not the result of a training.
    """
    check_types(row, _TYPES)
    lists = [row[name] for name in ("millions", "dev", "test")]
    n_readings = len(row["dev"])
    are_numbers = all(isinstance(one, float) and math.isfinite(one) for one in chain(*lists))
    if not n_readings or {*map(len, lists)} != {n_readings} or not are_numbers:
        raise ValueError("millions, dev and test must be lists of as many numbers")
    n_since_best = n_readings - row["dev"].index(min(row["dev"]))
    return bool(n_readings == row["readings"] or n_since_best > row["patience"])


def usual_recipe(device: str) -> TrainingRecipe:
    """Return the recipe of a device.

    On CPUs, matrix products are not in bfloat16, which most CPUs emulate slowly.
    """
    return TrainingRecipe(products="bfloat16" if device.startswith("cuda") else "float32")
