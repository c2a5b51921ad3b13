"""A call → its `Cost`: wall-clock seconds and peak memory.

`PhaseLog` sums phases and records failures. Memory is None except on Linux, as only Linux can reset
the peak. Memory that a call reuses is not counted.
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


class PhaseLog:
    """The seconds of each phase of a running comparison, and sentences on the parts that failed."""

    def __init__(self, report: Report | None) -> None:
        self.phases: dict[str, float] = {}
        self.problems: list[str] = []
        self._report = report or (lambda _: None)
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        self._report(f"{name} {detail}".strip())
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def tolerated(self, what: str) -> Iterator[None]:
        """Record a `VoltError` in the block as a problem and continue after the block."""
        try:
            yield
        except VoltError as error:
            self.problems.append(f"{what}: {error}")


_PROCESS = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall time, and peak memory above the memory at the start, in 10⁶ bytes (None if unknown)."""

    seconds: float
    memory_mb: float | None

    def __add__(self, other: Cost) -> Cost:
        known = [memory for memory in (self.memory_mb, other.memory_mb) if memory is not None]
        return Cost(self.seconds + other.seconds, max(known, default=None))


def measured(call: Callable[P, T], *values: P.args, **options: P.kwargs) -> tuple[T, Cost]:
    before = _restarted_peak()
    start = time.perf_counter()
    result = call(*values, **options)
    seconds = time.perf_counter() - start
    if before is None:
        return result, Cost(seconds, None)
    return result, Cost(seconds, max(0, _status("VmHWM") - before) / 1e6)


def _restarted_peak() -> int | None:
    """Reset the peak resident size. Return the current size in bytes; None if this is impossible."""
    try:
        # See proc(5): this sets VmHWM to the current resident size.
        (_PROCESS / "clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return None


def _status(name: str) -> int:
    rows = dict(line.split(":", 1) for line in (_PROCESS / "status").read_text().splitlines())
    return int(rows[name].split()[0]) * 1024
