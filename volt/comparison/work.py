"""A comparison under way: how long each phase takes, and what could not be made.

>>> work = Work(None)
>>> with work.phase("learn"), work.tolerated("bpe:9000"):
...     raise VoltError("the corpus gives only 223 tokens")
>>> list(work.phases), work.problems
(['learn'], ['bpe:9000: the corpus gives only 223 tokens'])
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from volt.errors import VoltError

Report = Callable[[str], object]


class Work:
    """The record of a comparison under way: the seconds of each phase, and what could not be made."""

    def __init__(self, report: Report | None) -> None:
        self.phases: dict[str, float] = {}
        self.problems: list[str] = []
        self._report, self._start = report or (lambda _: None), time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Time the block, and add its seconds to those of the phase."""
        self._report(f"{name} {detail}".strip())
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def tolerated(self, what: str) -> Iterator[None]:
        """Record an error of VOLT in the block as a problem, and go on behind the block."""
        try:
            yield
        except VoltError as error:
            self.problems.append(f"{what}: {error}")
