"""Trials and a time limit → results, appended as they come.

Each trial is a process of its own, with low priority, `jobs` of them at a time. A trial starts only if it is expected
to end in time, by the seconds of trials of the same recipe and the nearest sizes. A trial that is killed or fails
leaves no result, and the next call runs it again.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.evidence.grid import Trial
from volt.trial.processes import ChildProcesses, run_each
from volt.trial.results import Results


class Runner:
    """Runs trials in processes, which end when it does. note: reports a line;  nice: of the processes."""

    def __init__(
        self, data: Path, work: Path, *, device: str, note: Callable[[str], object], nice: int = 10
    ) -> None:
        self.data, self.work, self.device, self.note = data, work, device, note
        self.n_failed = 0
        self._processes = ChildProcesses(nice)

    def run(
        self,
        trials: Sequence[Trial],
        keys: Mapping[Trial, str],
        results: Results,
        *,
        until: float,
        jobs: int,
    ) -> str:
        """Run the trials without a result, and return a summary.

        keys: of the trials;  until: the time.monotonic() at which the last trial should have ended
        """
        waiting, late, n_new = (
            [one for one in trials if keys[one] not in results],
            list[Trial](),
            0,
        )

        def upcoming(_: object) -> Iterator[Trial]:
            while waiting:
                trial = waiting.pop(0)
                if time.monotonic() + expected(trial, keys[trial], results.rows) < until:
                    yield trial
                else:
                    late.append(trial)

        def done(trial: Trial, result: dict[str, Any] | None) -> None:
            nonlocal n_new
            self.n_failed += result is None
            if result is not None:
                labels = {name: getattr(trial, name) for name in ("kind", "corpus", "size", "seed")}
                row = {"key": keys[trial], **labels, **result, "device": self.device, **versions()}
                results.add(row)
                n_new += 1

        run_each(
            upcoming,
            lambda trial: self._one(trial, keys[trial]),
            done,
            jobs=jobs,
            processes=self._processes,
        )
        failed = f"; {self.n_failed} failed" if self.n_failed else ""
        too_late = f"; {len(late)} would end too late: give more hours" if late else ""
        return f"{n_new} new results{failed}{too_late}"

    def _one(self, trial: Trial, key: str) -> dict[str, Any] | None:
        name = f"{trial.kind} {trial.corpus} {trial.size:,} seed {trial.seed}"
        if not self._processes.is_over:
            self.note(f"{name}: started")
        ended = self._processes.run(trial.command(self.data, self.work, device=self.device))
        if ended.status:
            if not self._processes.is_over:
                self.note(f"{name}: ended with {ended.status}: {ended.error}")
            return None
        result: dict[str, Any] = json.loads(ended.line)
        if f"text:{result.pop('text')}" not in key.split("|"):
            self.note(f"{name}: its texts changed during the run; no result")
            return None
        self.note(f"{name}: {result['seconds']:.0f} s, dev {min(result['dev']):.4f}")
        return result


def expected(trial: Trial, key: str, rows: Sequence[Mapping[str, Any]]) -> float:
    """Estimate the seconds of a trial: the longest of the nearest size with the same recipe; 0 if there is none.

    >>> key = "lm|ted-fi|text:a|size:2000|seed:1|rows:4"
    >>> rows = [{"key": key, "size": 1000, "seconds": 90.0}, {"key": key, "size": 4000, "seconds": 120.0}]
    >>> trial = Trial("lm", "ted-fi", 2000, 1)
    >>> expected(trial, key, rows), expected(trial, key + "|lr:1", rows)
    (120.0, 0.0)
    """
    alike = [row for row in rows if recipe_of(row["key"]) == recipe_of(key)]
    nearest = min((abs(row["size"] - trial.size) for row in alike), default=0)
    return max(
        (row["seconds"] for row in alike if abs(row["size"] - trial.size) <= 2 * nearest),
        default=0.0,
    )


def recipe_of(key: str) -> tuple[str, ...]:
    """Return the kind and the recipe in a key, without corpus, text, size and seed.

    >>> recipe_of("lm|ted-fi|text:a|size:2000|seed:1|rows:4|width:128")
    ('lm', 'rows:4', 'width:128')
    """
    kind, *rest = key.split("|")
    return (kind, *rest[4:])


def versions() -> dict[str, str]:
    names = {"volt": "volt-vocab", "torch": "torch", "numpy": "numpy"}
    found = {f"{name}_version": version(package) for name, package in names.items()}
    return found | {"python_version": platform.python_version(), "machine": platform.machine()}
