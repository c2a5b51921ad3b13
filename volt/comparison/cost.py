"""What a piece of work costs: wall-clock seconds, and how far it raised the memory of this process.

Memory is the greatest resident size during the work, less the resident size before the work. Linux reports the greatest
size and lets a process reset it; on other systems memory is unknown (None). Work may reuse memory that earlier work
left free: then the memory measured is less than the work would take in a process of its own.

>>> with measured() as costs:
...     _ = sum(range(1000))
>>> costs[0].seconds > 0
True

A comparison under way: how long each phase takes, and what could not be made.

>>> work = PhaseLog(None)
>>> with work.phase("learn"), work.tolerated("bpe:9000"):
...     raise VoltError("the corpus gives only 223 tokens")
>>> list(work.phases), work.problems
(['learn'], ['bpe:9000: the corpus gives only 223 tokens'])
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from volt.errors import VoltError

Report = Callable[[str], object]


class PhaseLog:
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


_PROCESS = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a piece of work cost.

    seconds: wall time
    memory_mb: by how many 10⁶ bytes the resident size rose at most, None if unknown
    """

    seconds: float
    memory_mb: float | None

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both pieces, one after the other: the sum of the seconds, the greater of the two sizes.

        >>> Cost(1.0, 30.0) + Cost(2.0, 20.0)
        Cost(seconds=3.0, memory_mb=30.0)
        """
        known = [memory for memory in (self.memory_mb, other.memory_mb) if memory is not None]
        return Cost(self.seconds + other.seconds, max(known, default=None))


@contextmanager
def measured() -> Iterator[list[Cost]]:
    """A list that holds the cost of the block once it has ended."""
    costs: list[Cost] = []
    before = _restarted_peak()
    start = time.perf_counter()
    yield costs
    seconds = time.perf_counter() - start
    costs.append(Cost(seconds, None if before is None else max(0, _status("VmHWM") - before) / 1e6))


def _restarted_peak() -> int | None:
    """Reset the greatest resident size. Returns the size now, in bytes, or None where the system offers no reset."""
    try:
        (_PROCESS / "clear_refs").write_text("5")  # see proc(5): resets VmHWM to the current resident size
        return _status("VmRSS")
    except OSError:
        return None


def _status(name: str) -> int:
    rows = dict(line.split(":", 1) for line in (_PROCESS / "status").read_text().splitlines())
    return int(rows[name].split()[0]) * 1024
