"""Trials, and how much time there is → results, appended as they come.

Each trial is a process of its own, `jobs` of them at a time, which lets others go first. A trial is begun only if it
can be expected to end in time, by what trials of its kind and of the nearest sizes took so far. What is killed on the
way, or ends with an error, leaves no result, and is run by the next call.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

from experiments.evidence.grid import Trial
from experiments.evidence.results import Results

_ENDS_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Runner:
    """Runs trials in processes, which end when it does.

    nice: how far they let other processes go first
    """

    def __init__(self, data: Path, work: Path, *, device: str, told: Callable[[str], object], nice: int = 10) -> None:
        self.data, self.work, self.device, self.told, self.nice = data, work, device, told, nice
        self.n_failed = 0
        self._processes, self._lock, self._is_over = set[subprocess.Popen[str]](), Lock(), False

    def run(
        self, trials: Sequence[Trial], keys: Mapping[Trial, str], results: Mapping[str, Results], *, until: float,
        jobs: int,
    ) -> str:  # fmt: skip
        """Run what is not there yet, and return how many results came, and how many did not, and why.

        keys: of the trials
        results: of each kind
        until: the time.monotonic() at which the last trial should have ended
        """
        waiting = [one for one in trials if keys[one] not in results[one.kind]]
        running, n_new, n_late = dict[Future[dict[str, Any] | None], Trial](), 0, 0
        prompt_signals()
        with ThreadPoolExecutor(jobs) as pool:
            try:
                while waiting or running:
                    while waiting and len(running) < jobs:
                        trial = waiting.pop(0)
                        if time.monotonic() + expected(trial, keys[trial], results[trial.kind].rows) < until:
                            running[pool.submit(self._one, trial, keys[trial])] = trial
                        else:
                            n_late += 1
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        trial, found = running.pop(future), future.result()
                        self.n_failed += found is None
                        if found is not None:
                            told = {"kind": trial.kind, "corpus": trial.corpus, "size": trial.size, "seed": trial.seed}
                            results[trial.kind].add(
                                {"key": keys[trial], **told, **found, "device": self.device, **versions()}
                            )
                            n_new += 1
            finally:
                self._end()
        failed = f"; {self.n_failed} failed" if self.n_failed else ""
        late = f"; {n_late} were not begun, as they would end later: give more hours" if n_late else ""
        return f"{n_new} new results{failed}{late}"

    def _one(self, trial: Trial, key: str) -> dict[str, Any] | None:
        """The result of a trial, or None if it failed, which is told."""
        name = f"{trial.kind} {trial.corpus} {trial.size:,} seed {trial.seed}"
        with self._lock:
            if self._is_over:
                return None
            process = subprocess.Popen(
                trial.command(self.data, self.work, device=self.device), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, preexec_fn=partial(_behave, self.nice),
            )  # fmt: skip
            self._processes.add(process)
        self.told(f"{name}: begun")
        output, errors = process.communicate()
        with self._lock:
            self._processes.discard(process)
        if process.returncode:
            if not self._is_over:
                self.told(f"{name}: {why(process.returncode, errors)}")
            return None
        found: dict[str, Any] = json.loads(output)
        if f"text:{found.pop('text')}" not in key.split("|"):
            self.told(f"{name}: its texts changed after this run had begun; no result")
            return None
        self.told(f"{name}: {found['seconds']:.0f} s, {judged(found)}")
        return found

    def _end(self) -> None:
        """End all processes."""
        with self._lock:
            self._is_over = True
            for process in self._processes:
                process.terminate()


def _behave(nice: int) -> None:
    """Let others go first, and end when the runner does, however that ends: on Linux by a signal of the kernel.

    Ctrl-C is for the runner, which then ends its trials.
    """
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ENDS_WITH_PARENT, signal.SIGTERM)


def prompt_signals() -> None:
    """Let Ctrl-C end a wait at once: libraries that were imported may have asked for it to go on."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.siginterrupt(signal.SIGINT, True)


def judged(found: Mapping[str, Any]) -> str:
    """What a result says, in a few words."""
    best = min(range(len(found["dev"])), key=found["dev"].__getitem__)
    if "BLEU" in found:
        return f"BLEU {found['BLEU']:.2f}, chrF2 {found['chrF2']:.2f}, {found['test']:.4f} bits per character"
    return f"{found['test'][best]:.4f} bits per character at reading {best + 1} of {len(found['dev'])}"


def expected(trial: Trial, key: str, rows: Sequence[Mapping[str, Any]]) -> float:
    """How many seconds a trial may take: as long as the longest of the nearest size; 0 if nothing is known.

    rows: of which those count that are of the same recipe

    >>> key = "lm|ted-fi|text:a|size:2000|seed:1|rows:4"
    >>> rows = [{"key": key, "size": 1000, "seconds": 90.0}, {"key": key, "size": 4000, "seconds": 120.0}]
    >>> trial = Trial("lm", "ted-fi", 2000, 1)
    >>> expected(trial, key, rows), expected(trial, key + "|lr:1", rows)
    (120.0, 0.0)
    """
    alike = [row for row in rows if recipe_of(row["key"]) == recipe_of(key)]
    nearest = min((abs(row["size"] - trial.size) for row in alike), default=0)
    return max((row["seconds"] for row in alike if abs(row["size"] - trial.size) <= 2 * nearest), default=0.0)


def recipe_of(key: str) -> tuple[str, ...]:
    """The kind and the recipe in a key, without the corpus, its text, the size and the seed.

    >>> recipe_of("lm|ted-fi|text:a|size:2000|seed:1|rows:4|width:128")
    ('lm', 'rows:4', 'width:128')
    """
    kind, *rest = key.split("|")
    return (kind, *rest[4:])


def why(status: int, text: str) -> str:
    """Why a process ended with an error: the signal, or the last line of what it said.

    >>> why(1, "Traceback …\\nerror: no such file\\n"), why(-9, "reading 3")
    ('error: no such file', 'ended by signal 9')
    """
    if status < 0:
        return f"ended by signal {-status}"
    return (text.strip().splitlines() or ["it ended without a word"])[-1]


def versions() -> dict[str, str]:
    """Of what the results follow from besides."""
    names = {"volt": "volt-vocab", "torch": "torch", "numpy": "numpy"}
    found = {f"{name}_version": version(package) for name, package in names.items()}
    return found | {"python_version": platform.python_version(), "machine": platform.machine()}


def note(line: str) -> None:
    """Tell a line to people."""
    print(line, file=sys.stderr, flush=True)
