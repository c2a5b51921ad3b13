"""Do language models with optimal tokens need fewer bits than with BPE, at equal size? Trainings and tables.

    python -m experiments.optimal.pieces run --data $VOLT_DATA        writes the vocabularies
    python -m experiments.optimal.trainings run --minutes 100 --jobs 1
    python -m experiments.optimal.trainings report

`run` trains the model of `volt.trial` on each corpus, with each size, seed and system (vocabularies.py), the most
informative trainings first, and appends results to lm.jsonl. Finished trainings are skipped, and a kill loses only the
running ones. Of one corpus, size and seed, all systems read the same lines in the same order, and have as many ids.
The predictions in predictions.json were stored before the first training.

`report` prints the change of bits per character against BPE with ranked merges, at the same text (all readings), and at
the same operations (up to those of the cheapest system). An interval is Student's, over the means of corpora.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from scipy.stats import t as student

from experiments.lm.data import prepared
from experiments.optimal.pieces import CORPORA, path_of
from volt.errors import VoltError
from volt.trial.processes import ChildProcesses, run_each
from volt.trial.results import Results, Row, parse, score
from volt.trial.texts import Texts
from volt.trial.training import Reading, Trainer, TrainingRecipe
from volt.vocabulary import Vocabulary

FOLDER = Path(__file__).parent
FILE = FOLDER / "lm.jsonl"
PREDICTIONS = FOLDER / "predictions.json"
RECIPE = TrainingRecipe(characters=2_000_000, readings=5, products="float32")
BASE = "ranked"
# (sizes, systems, seeds), the first tell most
ROUNDS = (
    ((2_000, 4_000), (BASE, "optimal"), (1,)),
    ((2_000, 4_000), (BASE, "optimal"), (2,)),
    ((2_000, 4_000), ("fewest",), (1, 2)),
    ((8_000, 1_000, 16_000), (BASE, "optimal"), (1,)),
    ((8_000, 1_000, 16_000), (BASE, "optimal"), (2,)),
    ((8_000, 1_000, 16_000), ("fewest",), (1, 2)),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A training. size: tokens;  system: of SYSTEMS"""

    corpus: str
    size: int
    system: str
    seed: int

    def key(self, text: str) -> str:
        """Name everything that the result follows from. text: the fingerprint of the texts"""
        parts = {**asdict(self), "text": text, **asdict(RECIPE)}
        return "|".join(f"{name}:{value}" for name, value in parts.items())


def plans() -> list[Plan]:
    """Return all trainings in their order.

    >>> [str(plan.size) + " " + plan.system for plan in plans()[:3]], len(plans())
    (['2000 ranked', '2000 optimal', '2000 ranked'], 150)
    """
    result = []
    for sizes, systems, seeds in ROUNDS:
        for size in sizes:
            for corpus in CORPORA:
                for seed in seeds:
                    result += [Plan(corpus, size, system, seed) for system in systems]
    return result


def train(path: Path, folder: Path, seed: int) -> dict[str, Any]:
    """Train with a vocabulary on the texts in a folder, and return the result as JSON data."""
    began = time.process_time()
    vocabulary = Vocabulary.load(path)
    trainer = Trainer(Texts.read(folder), {"txt": vocabulary}, RECIPE, seed=seed, device="cpu")
    readings = list[Reading](trainer.train())
    return {
        "vocabulary": vocabulary.fingerprint,
        "ids": len(vocabulary),
        "tokens": trainer.n_tokens,
        "millions": [round(reading.millions, 4) for reading in readings],
        "operations": [reading.operations for reading in readings],
        "dev": [round(reading.dev, 5) for reading in readings],
        "test": [round(reading.test, 5) for reading in readings],
        "seconds": round(time.process_time() - began, 1),
    }


def run(given: argparse.Namespace) -> None:
    deadline = time.monotonic() + 60 * given.minutes
    texts = {corpus: prepared(given.data, corpus, given.work) for corpus in CORPORA}
    processes = ChildProcesses()

    def command(plan: Plan) -> list[str]:
        folder = texts[plan.corpus].folder
        path = path_of(texts[plan.corpus], plan.size, plan.system)
        arguments = [str(path), str(folder), str(plan.seed)]
        return [sys.executable, "-m", "experiments.optimal.trainings", "train", *arguments]

    def key_of(plan: Plan) -> str:
        return plan.key(texts[plan.corpus].fingerprint)

    def upcoming(results: Results, running: Collection[Plan]) -> Iterator[Plan]:
        for plan in plans():
            has_file = path_of(texts[plan.corpus], plan.size, plan.system).exists()
            is_new = plan not in running and key_of(plan) not in results
            if has_file and is_new and time.monotonic() < deadline:
                yield plan

    def work(plan: Plan) -> dict[str, Any]:
        ended = processes.run(command(plan))
        if ended.status and not processes.is_over:
            raise VoltError(f"{plan} failed: {ended.error}")
        return dict(json.loads(ended.line or "{}"))

    def done(results: Results, plan: Plan, result: dict[str, Any]) -> None:
        results.add({"key": key_of(plan), **asdict(plan), **asdict(RECIPE), **result})
        print(f"{plan}: {score(result):.4f} bits, {result['seconds']:.0f} CPU s", flush=True)

    with Results.open(given.out) as results:
        run_each(
            partial(upcoming, results),
            work,
            partial(done, results),
            jobs=given.jobs,
            processes=processes,
        )


def changes(rows: Sequence[Row], *, by_operations: bool) -> dict[tuple[str, str, int], list[float]]:
    """Return (system, corpus, size) → the change of bits against BPE in per cent, of each seed."""
    groups = defaultdict[tuple[str, int, int], dict[str, Row]](dict)
    for row in rows:
        groups[row["corpus"], row["size"], row["seed"]][row["system"]] = row
    result = defaultdict[tuple[str, str, int], list[float]](list)
    for (corpus, size, _), by_system in groups.items():
        if BASE not in by_system:
            continue
        for system, row in by_system.items():
            most = float("inf")
            if by_operations:
                most = min(row["operations"][-1], by_system[BASE]["operations"][-1])
            bits = score(row, most, along="operations")
            base = score(by_system[BASE], most, along="operations")
            if system != BASE:
                result[system, corpus, size].append(100 * (bits / base - 1))
    return result


def interval(by_corpus: Mapping[str, Sequence[float]]) -> str:
    """Return the mean over corpora, and its interval of 95 %.

    >>> interval({"a": [1.0, 2.0], "b": [2.5]})
    '+2.00 (−4.35 to +8.35), 3 pairs'
    """
    means = [fmean(values) for values in by_corpus.values()]
    n_pairs = sum(map(len, by_corpus.values()))
    half = float("inf")
    if len(means) > 1:
        half = float(student.ppf(0.975, len(means) - 1)) * stdev(means) / len(means) ** 0.5
    mean = fmean(means)
    text = f"{mean:+.2f} ({mean - half:+.2f} to {mean + half:+.2f}), {n_pairs} pairs"
    return text.replace("-", "−")


def report(path: Path) -> None:
    """Print the changes of bits, for each system, size and corpus."""
    rows = parse(path.read_bytes(), path)
    seconds = sum(row["seconds"] for row in rows)
    predictions = json.loads(PREDICTIONS.read_text())
    print(f"{len(rows)} trainings, {seconds / 60:.0f} CPU minutes")
    for by_operations in (False, True):
        measure = "same operations" if by_operations else "same text"
        print(measure)
        found = changes(rows, by_operations=by_operations)
        for system in sorted({system for system, _, _ in found}):
            total = defaultdict[str, list[float]](list)
            for size in sorted({size for name, _, size in found if name == system}):
                by_corpus = {}
                for (name, corpus, other), values in found.items():
                    if (name, other) == (system, size):
                        by_corpus[corpus] = values
                        total[corpus] += values
                predicted = f"{predictions[measure][system][str(size)]:+.1f}".replace("-", "−")
                print(f"  {system} {size:,}: {interval(by_corpus)}, predicted {predicted}")
                for corpus, values in sorted(by_corpus.items()):
                    listed = ", ".join(f"{value:+.2f}" for value in values).replace("-", "−")
                    print(f"    {corpus}: {listed}")
            print(f"  {system}, all sizes: {interval(total)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="train, and append results")
    running.add_argument("--data", type=Path, required=True, help="holds multi30k, ted and bible")
    running.add_argument(
        "--work", type=Path, default=Path("build/trials"), help="holds texts and vocabularies"
    )
    running.add_argument("--minutes", type=float, required=True, help="after which none starts")
    running.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    reporting = commands.add_parser("report", help="print the changes of bits")
    for command in (running, reporting):
        command.add_argument("--out", type=Path, default=FILE, help="holds the results")
    training = commands.add_parser("train", help="train once, and print the result as JSON")
    training.add_argument("vocabulary", type=Path)
    training.add_argument("folder", type=Path, help="holds the texts")
    training.add_argument("seed", type=int)
    given = parser.parse_args()
    if given.command == "run":
        try:
            run(given)
        except VoltError as error:
            sys.exit(f"error: {error}")
    elif given.command == "report":
        report(given.out)
    else:
        torch.set_num_threads(1)
        print(json.dumps(train(given.vocabulary, given.folder, given.seed)))


if __name__ == "__main__":
    main()
