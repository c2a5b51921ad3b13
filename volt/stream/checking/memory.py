"""How much memory something takes: watched while it runs, where the system says how much this process has.

>>> with watched() as memory:
...     _ = bytearray(1 << 20)
>>> memory.peak >= 0
True
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_INTERVAL = 0.003  # seconds between two looks
_STATM = Path("/proc/self/statm")  # pages: all, in memory, of those shared with others


def resident() -> int:
    """Bytes of memory of this process alone; 0 where the system does not say."""
    try:
        _, present, shared, *_ = _STATM.read_bytes().split()
    except OSError:
        return 0
    return (int(present) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def give_back() -> None:
    """Give memory that is free back to the system, so that what is taken next is seen."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(slots=True)
class Memory:
    """What a process has taken since it was first looked at.

    first: bytes that it had then.
    peak: the most bytes that it has had more, at any look.
    """

    first: int = field(default_factory=resident)
    peak: int = 0

    def look(self) -> None:
        """Look once more."""
        self.peak = max(self.peak, resident() - self.first)


@contextmanager
def watched() -> Iterator[Memory]:
    """Watch this process's memory for the length of a block."""
    memory, over = Memory(), threading.Event()

    def look() -> None:
        while not over.wait(_INTERVAL):
            memory.look()

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield memory
    finally:
        over.set()
        watcher.join()
        memory.look()
