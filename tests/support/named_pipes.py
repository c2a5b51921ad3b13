"""A named pipe, for the tests of what writes to one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def pipe(path: str | Path) -> Iterator[int]:
    """Make a named pipe, and yield a descriptor that reads from it without waiting."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)
        os.unlink(path)
