"""A call → its `Cost`: wall-clock seconds and peak memory. `PhaseLog` sums the seconds of phases.

Only Linux can reset the peak that it reports, so memory is None elsewhere. Memory that was freed
before the call, and is used again by the call, is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from volt.errors import VoltError

Report = Callable[[str], object]
P = ParamSpec("P")
T = TypeVar("T")
_PROCESS = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall time, and peak memory above the memory at the start, in 10⁶ bytes (None if unknown)."""

    seconds: float
    memory_mb: float | None

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of one call after the other: all seconds, and the greater peak."""
        peaks = [memory for memory in (self.memory_mb, other.memory_mb) if memory is not None]
        return Cost(self.seconds + other.seconds, max(peaks, default=None))


def measure_cost(call: Callable[P, T], *values: P.args, **options: P.kwargs) -> tuple[T, Cost]:
    """Call a function; return its result and its cost."""
    bytes_before = _reset_peak_memory()
    start = time.perf_counter()
    result = call(*values, **options)
    seconds = time.perf_counter() - start
    if bytes_before is None:
        return result, Cost(seconds, None)
    n_bytes = max(0, _read_status("VmHWM") - bytes_before)
    return result, Cost(seconds, n_bytes / 1e6)


def _reset_peak_memory() -> int | None:
    """Set the peak to the current memory.

    Return the current memory in bytes; None if this is impossible.
    """
    try:
        (_PROCESS / "clear_refs").write_text("5")  # see proc(5)
        return _read_status("VmRSS")
    except OSError:
        return None


def _read_status(name: str) -> int:
    rows = dict(line.split(":", 1) for line in (_PROCESS / "status").read_text().splitlines())
    return int(rows[name].split()[0]) * 1024


class PhaseLog:
    """The log of a running comparison.

    phases: phase → its seconds
    problems: sentences on the parts that failed
    report: called with the name of each phase when it starts
    """

    def __init__(self, report: Report | None) -> None:
        self.phases: dict[str, float] = {}
        self.problems: list[str] = []
        self._report = report or (lambda _: None)
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the log was opened."""
        return time.perf_counter() - self._start

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Time the block, as a part of the phase."""
        self._report(f"{name} {detail}".strip())
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def continue_after_errors(self, part: str) -> Iterator[None]:
        """Record a `VoltError` in the block as a problem, and continue after the block."""
        try:
            yield
        except VoltError as error:
            self.problems.append(f"{part}: {error}")
