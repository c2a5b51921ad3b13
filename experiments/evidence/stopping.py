"""Rules that stop a training early → how often each would have dropped the best size, and the time that it saves.

    python -m experiments.evidence.stopping

Replays all stored trainings of corpora with three or more sizes. A training of ten readings also stands for trainings
of two, four, six and eight readings, so each corpus gives five *lengths*. Two replays:

- *all known*: every training is compared at each reading with the best of all others, which is the most that a rule can
  stop. A best size is dropped if one of its trainings is stopped. Time: seconds of all trainings.
- *trials*: the schedule of `volt trial`, one training at a time, with the curves of sizes between the stored ones
  interpolated. A rule changes the answer if another size has the best mean of the trainings that were not stopped.

`volt trial` had the rule "3 % behind at half" before trainings were no longer stopped.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from experiments.evidence.law import stored_rows
from experiments.evidence.tables import table
from volt.choose.training_law import Training
from volt.trial.schedule import Sizes, wanted

LENGTHS = (2, 4, 6, 8, 10)  # readings
NEAR = 2.01  # a size within this factor of the best one is never stopped

Rule = Callable[
    ["Run", "Run", int, int], bool
]  # a training, the best other one, readings done, readings in all


class Run(NamedTuple):
    """A training. seconds: for each reading"""

    size: int
    dev: Sequence[float]
    test: Sequence[float]
    seconds: float

    @property
    def score(self) -> float:
        return self.test[int(np.argmin(self.dev))]

    def best(self, n: float) -> float:
        """Return the best dev score of n readings; between two readings, interpolated over log n."""
        at_end = np.interp(math.log(n), np.log(np.arange(1, len(self.dev) + 1)), self.dev)
        return min([*self.dev[: int(n)], float(at_end)])


@dataclass(frozen=True, slots=True)
class Behind:
    """Stop a training that is behind the best other one by a margin, from a share of the readings on.

    closing: how often the gap may close again as it did since half of the readings, before it is compared;
    only_larger: whether sizes below the best one are never stopped
    """

    margin: float
    share: float
    closing: float = 0.0
    only_larger: bool = False

    def __call__(self, run: Run, best: Run, n: int, n_readings: int) -> bool:
        is_near = max(run.size, best.size) <= NEAR * min(run.size, best.size)
        is_spared = self.only_larger and run.size < best.size
        if n < self.share * n_readings or is_near or is_spared:
            return False
        gap = run.best(n) / best.best(n) - 1
        earlier = max(n / 2, 1)
        closed = max(run.best(earlier) / best.best(earlier) - 1 - gap, 0)
        return gap - self.closing * closed * math.log2(n_readings / n) > self.margin


RULES: Mapping[str, Rule] = {
    "3 % behind at half (before)": Behind(0.03, 0.5),
    "5 % behind at half": Behind(0.05, 0.5),
    "8 % behind at half": Behind(0.08, 0.5),
    "3 % behind at half, if the gap closes as before": Behind(0.03, 0.5, closing=1),
    "3 % behind at half, if the gap closes twice as fast": Behind(0.03, 0.5, closing=2),
    "3 % behind at 0.7": Behind(0.03, 0.7),
    "3 % behind at 0.8": Behind(0.03, 0.8),
    "only sizes above the best, 3 % behind at half": Behind(0.03, 0.5, only_larger=True),
    "no stopping (now)": lambda run, best, n, n_readings: False,
}


def stop(run: Run, others: Sequence[Run], rule: Rule, n_readings: int) -> int:
    """Return the readings after which a rule stops a training, or all of its readings."""
    for n in range(1, len(run.dev)):
        best = min(others, key=lambda other: other.best(min(n, len(other.dev))), default=run)
        if best is not run and rule(run, best, n, n_readings):
            return n
    return len(run.dev)


@dataclass(frozen=True, slots=True)
class Bed:
    """The trainings of a corpus, cut to a length. runs: size → trainings by seed"""

    runs: Mapping[int, Sequence[Run]]
    n_characters: int
    n_read: float
    n_readings: int

    def between(self, size: int, seed: int) -> Run:
        """Return a training of any size within the stored ones, interpolated over log size."""
        low = max(one for one in self.runs if one <= size)
        high = min(one for one in self.runs if one >= size)
        share = 0.0 if low == high else math.log(size / low) / math.log(high / low)
        below, above = (self.runs[one][min(seed, len(self.runs[one])) - 1] for one in (low, high))
        n = min(len(below.dev), len(above.dev))

        def mix(one: Any, other: Any) -> Any:
            return (1 - share) * np.array(one) + share * np.array(other)

        dev, test = mix(below.dev[:n], above.dev[:n]), mix(below.test[:n], above.test[:n])
        return Run(size, dev.tolist(), test.tolist(), float(mix(below.seconds, above.seconds)))


def beds(rows: Sequence[Mapping[str, Any]]) -> Iterator[Bed]:
    by_corpus = defaultdict[tuple[str, int], list[Mapping[str, Any]]](list)
    for row in rows:
        by_corpus[row["corpus"], row["characters"]].append(row)
    for (_, n_read), alike in by_corpus.items():
        if len({row["size"] for row in alike}) < 3:
            continue
        for n in LENGTHS:
            runs = defaultdict[int, list[Run]](list)
            for row in sorted(alike, key=lambda row: (row["size"], row["seed"])):
                seconds = row["seconds"] / len(row["dev"])
                runs[row["size"]].append(Run(row["size"], row["dev"][:n], row["test"][:n], seconds))
            yield Bed(runs, alike[0]["text_characters"]["train"], n_read * n / max(LENGTHS), n)


def best_of(runs: Mapping[int, Sequence[Run]]) -> int:
    return min(runs, key=lambda size: float(np.mean([run.score for run in runs[size]])))


def all_known(bed: Bed, rule: Rule) -> tuple[bool, float, float]:
    """Return whether the best size is dropped, the seconds of all trainings, and those that the rule needs."""
    runs = [run for alike in bed.runs.values() for run in alike]
    ends = {
        id(run): stop(run, [one for one in runs if one is not run], rule, bed.n_readings)
        for run in runs
    }
    is_dropped = any(ends[id(run)] < len(run.dev) for run in bed.runs[best_of(bed.runs)])
    spent = sum(run.seconds * ends[id(run)] for run in runs)
    return is_dropped, sum(run.seconds * len(run.dev) for run in runs), spent


def trial(bed: Bed, rule: Rule) -> tuple[int, float, bool]:
    """Return the answer of a trial, its seconds, and whether a training of the answer was stopped."""
    tried = sorted(bed.runs)
    sizes = Sizes.around(
        Training(read=bed.n_read).size(bed.n_characters), low=tried[0], high=tried[-1]
    )
    cut, whole = dict[tuple[int, int], Run](), defaultdict[int, list[Run]](list)
    stopped, seconds = set[int](), 0.0
    while ahead := wanted(
        {((size,), seed): run.score for (size, seed), run in cut.items()}, [sizes]
    ):
        (size,), seed = ahead[0]
        run = bed.between(size, seed)
        n = stop(run, [*cut.values()], rule, bed.n_readings)
        cut[size, seed] = run._replace(dev=run.dev[:n], test=run.test[:n])
        seconds += run.seconds * n
        if n < len(run.dev):
            stopped.add(size)
        else:
            whole[size].append(run)
    return best_of(whole), seconds, best_of(whole) in stopped


def replayed(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return, for each rule, the numbers of the columns of the table that `main` prints."""
    lengths = [*beds(rows)]
    expected = [trial(bed, RULES["no stopping (now)"]) for bed in lengths]
    result = dict[str, list[float]]()
    for name, rule in RULES.items():
        known, trials = (
            [all_known(bed, rule) for bed in lengths],
            [trial(bed, rule) for bed in lengths],
        )
        n_dropped = sum(is_dropped for is_dropped, _, _ in known)
        saved = 100 * (
            1 - sum(spent for _, _, spent in known) / sum(seconds for _, seconds, _ in known)
        )
        n_changed = sum(one[0] != other[0] for one, other in zip(trials, expected, strict=True))
        n_stopped = sum(is_stopped for _, _, is_stopped in trials)
        in_trials = 100 * (1 - sum(one[1] for one in trials) / sum(one[1] for one in expected))
        result[name] = [n_dropped, round(saved, 1), n_changed, n_stopped, round(in_trials, 1)]
    return result


def main() -> None:
    rows = stored_rows()
    heads = [
        "rule",
        "best sizes dropped",
        "time saved, %",
        "answers changed",
        "answers stopped",
        "time saved, %",
    ]
    print(f"{len([*beds(rows)])} lengths; columns 2 and 3: all known, columns 4 to 6: trials\n")
    print(table(heads, [[name, *map(str, values)] for name, values in replayed(rows).items()]))


if __name__ == "__main__":
    main()
