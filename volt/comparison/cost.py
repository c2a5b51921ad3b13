"""What a piece of work costs: wall-clock seconds, and how far it raised the memory of this process.

Memory is the greatest resident size during the work less the resident size before it. Linux tells the greatest size and
lets a process start it anew; elsewhere memory is unknown (None). Work that reuses memory which an earlier phase left
free raises it less than it would in a process of its own.

>>> with measured() as costs:
...     _ = sum(range(1000))
>>> costs[0].seconds > 0
True
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PROCESS = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Cost:
    """seconds: wall time;  memory_mb: 10⁶ bytes by which the peak exceeded what was there before, None if unknown."""

    seconds: float
    memory_mb: float | None

    def __add__(self, other: Cost) -> Cost:
        """One after the other: seconds add up, the greater peak counts.

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
    """Start the peak of resident memory anew and say what it is now, in bytes; None if the system cannot."""
    try:
        (_PROCESS / "clear_refs").write_text("5")  # see proc(5): resets VmHWM to the current resident size
        return _status("VmRSS")
    except OSError:
        return None


def _status(name: str) -> int:
    """A size in bytes from the process's status."""
    rows = dict(line.split(":", 1) for line in (_PROCESS / "status").read_text().splitlines())
    return int(rows[name].split()[0]) * 1024
