"""A text and a time limit → trainings of several vocabulary sizes in processes → `TrialResult`.

    run → split the text into train, dev and test
        → if trainings are long: a short one, to measure which length the time allows
        → trainings (`volt.trial.training`) in the order of `volt.trial.schedule`, `jobs` at a time
        → the result, with the sizes that the rules pick

    run_superwords → the same for one size and several numbers of superwords
    run_sides → the same for two files of a translation, with a size for each side

A training starts only if it is expected to end in time, judging by the duration of finished ones of
the nearest size. Results are appended to `trial.jsonl` as trainings end, so a trial that was
interrupted continues from there.

Repetition 1 of every size has the trial's first seed, repetition 2 the next one. Only this module
converts repetitions to seeds.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any

from volt import arguments
from volt.arguments import MAX_LINE
from volt.choose.learning import learn_enough
from volt.choose.rules import TRAINED, checked_training
from volt.choose.search import search
from volt.choose.size_steps import superword_numbers
from volt.choose.training_law import Training
from volt.count.corpus import checked_sources, count_words
from volt.display import counted
from volt.errors import ConfigError, VoltError
from volt.files.atomic import make_folder
from volt.files.blocks import Errors
from volt.files.paths import Sources, expand
from volt.files.threads import available_cores
from volt.trial.processes import ChildProcesses, run_each
from volt.trial.report import TrialResult
from volt.trial.results import ENOUGH, Results, Row, TrainingChoice, amount, check_types, score
from volt.trial.schedule import REPETITIONS, Point, Sizes, wanted
from volt.trial.sides import SidesResult, score_translations
from volt.trial.superwords import SuperwordResult
from volt.trial.texts import Texts, fingerprint, read_pairs, read_texts, write_texts
from volt.trial.training import TrainingRecipe, translated, usable_device

AFFORDED = 5  # trainings that the time of a trial must suffice for
AFFORDED_PAIRS = 8  # trainings of a translation, whose sides both have several sizes
PAIRS = 32  # of a batch
PROBE = 200_000  # characters of a short training that measures the speed
LONGEST = 10_000  # hours
_SPEED = 10_000.0  # characters per second, assumed before any training
_START = 10.0  # seconds until a process trains, assumed before any training
_SHARE_OF_TIME = 0.8  # for the trainings; the rest is for what was estimated wrongly
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
_SUPERWORD_TYPES = {"superwords": int, "crossing": int, "tokens": int, "operations": list}
_TRANSLATION_TYPES = {"source": int, "translations": list}


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
    fields: str | int | Iterable[int] | None = None,
    column: str | None = None,
    errors: Errors = "strict",
    max_line: int | None = MAX_LINE,
    report: Callable[[str], object] | None = None,
) -> TrialResult:
    """Compare the bits per character of language models with vocabularies of several sizes.

    sources: files, globs, folders or "-", as in `count_words`
    folder: for texts and results, from which a second call continues
    hours: the time of the trial
    training: how long a training reads; by default 5 epochs. If the time is short, all read less
    jobs: the number of trainings at a time; by default one per core, at most 8, or 1 on a GPU
    device: auto, cpu, cuda or cuda:N
    seed: the seed of the first training of each size; a second training has the next seed
    recipe: the model and how it is trained
    fields, column, errors, max_line: as in `count_words`
    report: called with a line of progress
    Raises CorpusError for a small text, ConfigError for options out of range, or too little time.

    >>> run("corpus.txt", "corpus.trial", hours=0.5)  # doctest: +SKIP
    <TrialResult: 2,118 tokens are best, 1.2975 bits per character, 9 trainings>
    """
    opened = _opened(
        partial(_read_corpus, sources),
        folder,
        hours=hours,
        training=training,
        jobs=jobs,
        device=device,
        seed=seed,
        recipe=recipe,
        fields=fields,
        column=column,
        errors=errors,
        max_line=max_line,
        report=report,
    )
    with opened as trainings:
        return _run_trial(trainings)


def run_superwords(
    sources: Sources,
    folder: str | os.PathLike[str],
    superwords: Iterable[int | float] = (0.05, 0.1, 0.2),
    *,
    select: str | int = TRAINED,
    **options: Any,
) -> SuperwordResult:
    """Compare the bits per character of language models with and without superwords.

    All vocabularies have the same number of tokens, and split text into words that contain their
    spaces (level="bytes"). Superwords are learned from the joined lines in train.txt, so they may
    cross the ends of lines.

    sources, folder: as in `run`
    superwords: how many of the tokens are learned across spaces, or their shares, below 1; those
        that do not fit into the vocabulary are left out
    select: the rule that picks the number of tokens, or a number such as 4000
    options: hours and the other options of `run`
    Raises VoltError if superwords cannot be learned, and the errors of `run`.

    >>> run_superwords("corpus.txt", "corpus.trial", [0.1], hours=0.5)  # doctest: +SKIP
    <SuperwordResult: 400 superwords among 4,000 tokens save 25.3% of the pieces. ...>
    """
    signature(run).bind(sources, folder, **options)  # raises TypeError for wrong options
    amounts = arguments.several(superwords, "superwords", remedy="give a list such as [0.1]")
    with _opened(partial(_read_corpus, sources), folder, **options) as trainings:
        return _run_superwords(replace(trainings, joins=True), amounts, select)


def run_sides(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    recipe: TrainingRecipe | None = None,
    **options: Any,
) -> SidesResult:
    """Compare the bits per character of translation models with sizes for source and target.

    source, target: files with equally many lines, each line a translation of the other's
    folder, recipe: as in `run`; by default, a batch has 32 pairs
    options: hours and the other options of `run`; lengths are in characters of the target
    Raises CorpusError if the files have different lengths, and the errors of `run`.

    >>> run_sides("text.de", "text.en", "text.trial", hours=0.5)  # doctest: +SKIP
    <SidesResult: source 4,000, target 1,000: 0.7521 bits per character of unseen ...>
    """
    signature(run).bind(source, folder, **options)  # raises TypeError for wrong options
    paths = (arguments.path(source, "source"), arguments.path(target, "target"))
    opened = _opened(partial(read_pairs, *paths), folder, recipe=recipe, **options)
    with opened as trainings:
        if recipe is None:
            trainings = trainings.with_recipe(rows=PAIRS)
        return _run_sides(trainings)


def _read_corpus(sources: Sources, *, report: object, **reading: Any) -> dict[str, bytes]:
    return read_texts(expand(checked_sources(sources)), **reading)


@contextmanager
def _opened(
    read: Callable[..., dict[str, bytes]],
    folder: str | os.PathLike[str],
    *,
    hours: float,
    training: Training | None = None,
    jobs: int | None = None,
    device: str = "auto",
    seed: int = 1,
    recipe: TrainingRecipe | None = None,
    report: Callable[[str], object] | None = None,
    **reading: Any,
) -> Iterator[Trainings]:
    """Check options, write the texts into the folder, and lock its results.

    read: returns the content of the texts, given `report` and `reading`
    Yields trainings that read as many characters as `training` does.
    """
    began = time.monotonic()
    seconds = check_hours(hours)
    training = checked_training(training)
    report = arguments.function(report, "report") or (lambda line: None)
    device = usable_device(device)
    is_gpu = device.startswith("cuda")
    if jobs is None:
        jobs = 1 if is_gpu else min(available_cores(), 8)
    jobs = arguments.whole(jobs, "jobs", low=1, high=256)
    seed = arguments.whole(seed, "seed", low=0, high=(1 << 31) - 1)
    if recipe is None:  # most CPUs emulate bfloat16 slowly
        recipe = TrainingRecipe(products="bfloat16" if is_gpu else "float32")
    recipe = arguments.instance(recipe, TrainingRecipe, "recipe")
    folder = Path(arguments.path(folder, "folder"))
    encoded = read(report=report, **reading)
    make_folder(folder)
    with Results.open(folder / "trial.jsonl", is_complete) as results:
        if any(row["text"] != fingerprint(encoded) for row in results.rows):
            raise ConfigError(
                f"{folder}: contains trainings on another text; choose another folder"
            )
        texts = write_texts(encoded, folder)
        n_characters = texts.characters["train"]
        requested = max(round(training.of(n_characters) * n_characters), 1)
        yield Trainings(
            texts=texts,
            results=results,
            recipe=replace(recipe, characters=requested),
            first_seed=seed,
            device=device,
            seconds=seconds,
            deadline=began + seconds,
            jobs=jobs,
            report=report,
        )


def check_hours(hours: float) -> float:
    """Return the seconds of the hours. Raises ConfigError if they are out of range."""
    hours = arguments.number(hours, "hours")
    if not 0 < hours <= LONGEST:
        raise ConfigError(f"hours is {hours:g}; give a number above 0 and at most {LONGEST:,}")
    return 3600 * hours


def _run_trial(trainings: Trainings) -> TrialResult:
    """Choose the length of all trainings, train several sizes, and return the result."""
    texts = trainings.texts
    n_characters = texts.characters["train"]
    requested = trainings.recipe.characters
    training = Training(read=requested)
    candidates = learn_enough(count_words([str(texts.path("train"))]), training=training)
    low = candidates.smallest
    high = candidates.n_tokens
    size = min(max(training.size(n_characters), low), high)
    trainings = _limited(trainings, trainings.at((size,)), AFFORDED)

    length = Training(read=trainings.recipe.characters)
    sizes = Sizes.around(length.size(n_characters), low=low, high=high)
    first = trainings.at((sizes.start,))
    _train(trainings, lambda: trainings.wanted([sizes]), first, AFFORDED)
    picks = search(candidates, training=length).picks
    return TrialResult(
        rows=tuple(trainings.rows),
        sizes=sizes,
        n_characters=n_characters,
        requested=requested,
        characters=trainings.characters,
        picks={rule: pick.size for rule, pick in picks.items()},
        left=tuple(trainings.wanted([sizes])),
    )


def _run_sides(trainings: Trainings) -> SidesResult:
    """Choose the length of all trainings, train pairs of sizes, and return the result."""
    texts = trainings.texts
    requested = trainings.recipe.characters
    lengths = (texts.characters["train.src"], texts.characters["train"])
    training = Training(epochs=requested / lengths[1])
    counts = [count_words([str(path)]) for path in texts.paths("train")]
    sides = [learn_enough(each, training=training) for each in counts]

    def axes_for(characters: int) -> list[Sizes]:
        length = Training(epochs=characters / lengths[1])
        return [
            Sizes.near(length.size(n_characters), low=side.smallest, high=side.n_tokens)
            for n_characters, side in zip(lengths, sides, strict=True)
        ]

    first = tuple(axis.start for axis in axes_for(requested))
    trainings = _limited(trainings, trainings.at(first), AFFORDED_PAIRS)
    axes = axes_for(trainings.recipe.characters)
    first = tuple(axis.start for axis in axes)
    _train(trainings, lambda: trainings.wanted(axes), trainings.at(first), AFFORDED_PAIRS)

    references = texts.path("test").read_text(encoding="utf-8").splitlines()
    chosen = [references[number] for number in translated(texts)]
    rows, signatures = score_translations(trainings.rows, chosen)
    length = Training(epochs=trainings.recipe.characters / lengths[1])
    return SidesResult(
        rows=tuple(rows),
        picks=tuple(map(length.size, lengths)),
        first=first,
        requested=requested,
        characters=trainings.characters,
        signatures=signatures,
        left=tuple(trainings.wanted(axes)),
    )


def _run_superwords(
    trainings: Trainings, amounts: Sequence[int | float], select: str | int
) -> SuperwordResult:
    """Choose the size and the length of all trainings, train, and return the result."""
    texts = trainings.texts
    requested = trainings.recipe.characters
    training = Training(read=requested)
    counts = count_words([str(texts.path("train"))], level="bytes")
    candidates = learn_enough(counts, training=training)
    size = search(candidates, select=select, training=training).best.size
    numbers = superword_numbers(amounts, size, candidates.smallest)
    # The most superwords come first, because a text may be too small for them.
    numbers = [*dict.fromkeys([max(numbers), 0, *numbers])]
    choices = []
    for repetition in range(1, REPETITIONS + 1):
        choices += [trainings.at((size,), repetition, number) for number in numbers]
    trainings = _limited(trainings, choices[0], len(choices))
    _train(trainings, lambda: choices, trainings.at((size,), 1, 0), len(choices))
    rows = {TrainingChoice.of(row): row for row in trainings.rows if row["size"] == size}
    return SuperwordResult(
        rows=tuple(row for choice, row in rows.items() if replace(choice, superwords=0) in rows),
        requested=requested,
        characters=trainings.characters,
        left=tuple(choice for choice in choices if choice not in rows),
        size=size,
        n_characters=texts.characters["train"],
    )


def _limited(trainings: Trainings, choice: TrainingChoice, n_trainings: int) -> Trainings:
    """Return the trainings, which read fewer characters if the time is short.

    choice: a training whose speed is measured, if trainings are long
    n_trainings: the number of trainings that the time must suffice for
    """
    requested = trainings.recipe.characters
    if requested <= 2 * PROBE:
        return trainings
    probe = replace(trainings.with_recipe(characters=PROBE, readings=1), jobs=1)
    probe.report("measuring the speed")
    probe.run(lambda: [choice])
    characters = min(ENOUGH, requested)
    for row in probe.rows:
        characters = affordable_characters(
            row,
            trainings.recipe,
            seconds=trainings.seconds,
            jobs=trainings.jobs,
            n_trainings=n_trainings,
        )
    return trainings.with_recipe(characters=characters)


def _train(
    trainings: Trainings,
    next_choices: Callable[[], Iterable[TrainingChoice]],
    first: TrainingChoice,
    n_trainings: int,
) -> None:
    """Run trainings, and report their length. Raises ConfigError if the first was not finished.

    n_trainings: the number of trainings for which an error proposes the time
    """
    minutes = trainings.estimate_seconds(first) / 60
    characters = trainings.characters
    epochs = characters / trainings.texts.characters["train"]
    trainings.report(
        f"each training reads {amount(characters)} characters, {epochs:.3g} × the text, "
        f"in about {minutes:.2g} minutes; {trainings.jobs} at a time"
    )
    trainings.run(next_choices)
    if first not in map(TrainingChoice.of, trainings.rows):
        hours = count_rounds(trainings.jobs, n_trainings) * minutes / 60
        raise ConfigError(
            f"too little time for one training: about {minutes:.1f} minutes are needed; "
            f"for {n_trainings}, pass",
            hint={"hours": math.ceil(100 * hours) / 100},
        )


def affordable_characters(
    row: Row, recipe: TrainingRecipe, *, seconds: float, jobs: int, n_trainings: int = AFFORDED
) -> int:
    """Return how many characters each training can read if some trainings must fit into the time.

    The result is at least a million, and at most the recipe's characters.

    row: the result of a training, which shows the speed
    jobs: the number of trainings at a time
    n_trainings: the number of trainings that must fit

    >>> row = {"seconds": 20, "learning_seconds": 10, "reading_seconds": 5}
    >>> row |= {"millions": [0.2], "dev": [3.0]}
    >>> recipe = TrainingRecipe(characters=50_000_000)
    >>> affordable_characters(row, recipe, seconds=1_800, jobs=1)
    4660000
    """
    learning, reading, rest = estimate_durations(row, recipe)
    available = _SHARE_OF_TIME * seconds / count_rounds(jobs, n_trainings) - reading - rest
    characters = 10_000 * int(available / learning * recipe.characters / 10_000)
    return min(max(characters, ENOUGH), recipe.characters)


def count_rounds(jobs: int, n_trainings: int) -> int:
    """Return how many trainings run one after the other, if `jobs` run at a time.

    There are at least two, because later trainings depend on the results of earlier ones.
    """
    return max(math.ceil(n_trainings / jobs), 2)


def estimate_durations(row: Row, recipe: TrainingRecipe) -> tuple[float, float, float]:
    """Estimate the seconds of a training by the result of one of another length.

    Return the seconds of learning, of reading dev and test, and of the rest, such as starting.
    """
    rest = row["seconds"] - row["learning_seconds"] - row["reading_seconds"]
    per_character = row["learning_seconds"] / (1e6 * row["millions"][-1])
    per_reading = row["reading_seconds"] / len(row["dev"])
    return per_character * recipe.characters, per_reading * recipe.readings, rest


def is_complete(row: Row) -> bool:
    """Check whether a training reached its end: all readings, or `patience` without a better one.

    Earlier versions of VOLT stopped trainings that were worse than others; these do not count, and
    run again. Raises ValueError for a row that is not the result of a training.
    """
    check_types(row, _TYPES)
    if "superwords" in row:
        check_types(row, _SUPERWORD_TYPES)
    if "source" in row:
        check_types(row, _TRANSLATION_TYPES)
    readings = [row[name] for name in ("millions", "dev", "test")]
    n_readings = len(row["dev"])
    are_numbers = all(
        isinstance(value, float) and math.isfinite(value) for value in chain(*readings)
    )
    if not n_readings or {*map(len, readings)} != {n_readings} or not are_numbers:
        raise ValueError("millions, dev and test must be lists of as many numbers")
    n_since_best = n_readings - row["dev"].index(min(row["dev"]))
    return bool(n_readings == row["readings"] or n_since_best > row["patience"])


@dataclass(frozen=True, slots=True)
class Trainings:
    """The trainings of one text with one recipe: results in a file, running ones in processes.

    first_seed: the seed of repetition 1
    seconds: the time of the trial
    deadline: the time.monotonic() at which the last training should end
    jobs: the number of trainings at a time
    report: called with a line of progress
    joins: whether the trial compares numbers of superwords, not sizes
    """

    texts: Texts
    results: Results
    recipe: TrainingRecipe
    first_seed: int
    device: str
    seconds: float
    deadline: float
    jobs: int
    report: Callable[[str], object]
    joins: bool = False

    def with_recipe(self, **changes: Any) -> Trainings:
        """Return the trainings of the same text with a changed recipe."""
        return replace(self, recipe=replace(self.recipe, **changes))

    @property
    def characters(self) -> int:
        """The characters that a training reads: at least a batch for each reading."""
        characters = self.texts.characters["train"]
        n_rows = self.texts.path("train").read_bytes().count(b"\n")
        least = self.recipe.readings * self.recipe.rows * characters / n_rows
        return max(self.recipe.characters, round(least))

    def at(
        self, point: Point, repetition: int = 1, superwords: int | None = None
    ) -> TrainingChoice:
        """Return a training of a size, or of the sizes of source and target."""
        *source, size = point
        return TrainingChoice(size, self.first_seed + repetition - 1, superwords, *source)

    def wanted(self, axes: Sequence[Sizes]) -> list[TrainingChoice]:
        """Return the trainings that have no result yet, the next one first."""
        return [self.at(*training) for training in wanted(self.scores, axes)]

    def key(self, choice: TrainingChoice) -> str:
        """Name everything that a result follows from."""
        labels = {"text": self.texts.fingerprint, **choice.labels, "device": self.device}
        return "|".join(f"{name}:{value}" for name, value in (labels | asdict(self.recipe)).items())

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The results of the recipe with the seeds of this trial, with superwords if it `joins`."""
        seeds = range(self.first_seed, self.first_seed + REPETITIONS)
        rows = []
        for row in self.results.rows:
            is_of_trial = row["seed"] in seeds and ("superwords" in row) == self.joins
            if is_of_trial and row["key"] == self.key(TrainingChoice.of(row)):
                rows.append(row)
        return rows

    @property
    def scores(self) -> dict[tuple[Point, int], float]:
        """(point, repetition) → bits per character of test."""
        scores = {}
        for row in self.rows:
            scores[TrainingChoice.of(row).point, row["seed"] - self.first_seed + 1] = score(row)
        return scores

    def estimate_seconds(self, choice: TrainingChoice) -> float:
        """Estimate the seconds of a training by the longest finished one of the nearest sizes."""
        estimates = []  # how near the sizes are, and the seconds
        for row in self.rows or self.results.rows:
            sizes = zip(TrainingChoice.of(row).point, choice.point, strict=True)
            nearness = -round(sum(abs(math.log(size / other)) for size, other in sizes), 9)
            estimates.append((nearness, sum(estimate_durations(row, self.recipe))))
        if not estimates:
            return _START + self.recipe.characters / _SPEED
        _, seconds = max(estimates)
        return seconds

    def run(self, next_choices: Callable[[], Iterable[TrainingChoice]]) -> None:
        """Run the next trainings that have no result and are expected to end in time."""
        processes = ChildProcesses()

        def startable(running: Collection[TrainingChoice]) -> Iterator[TrainingChoice]:
            excluded = {*running, *map(TrainingChoice.of, self.rows)}
            for choice in next_choices():
                seconds = self.estimate_seconds(choice)
                if time.monotonic() + seconds < self.deadline and choice not in excluded:
                    yield choice

        work = partial(self._train, processes)
        run_each(startable, work, self._add_result, jobs=self.jobs, processes=processes)

    def _train(self, processes: ChildProcesses, choice: TrainingChoice) -> dict[str, Any]:
        self.report(f"training with {choice}")
        ended = processes.run(self.command(choice))
        if ended.status and not processes.is_over:
            raise VoltError(
                f"the training with {choice} failed: {ended.error}; run again to continue the trial"
            )
        return dict(json.loads(ended.line or "{}"))

    def command(self, choice: TrainingChoice) -> list[str]:
        """Return the command of the process that trains."""
        options = {
            "folder": str(self.texts.folder),
            **choice.labels,
            "recipe": asdict(self.recipe),
            "device": self.device,
        }
        return [sys.executable, "-P", "-m", "volt.trial.training", json.dumps(options)]

    def _add_result(self, choice: TrainingChoice, result: Mapping[str, Any]) -> None:
        self.results.add(
            {
                "key": self.key(choice),
                **choice.labels,
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
        self.report(f"{choice}: {bits}; {read}")
