"""A named pipe, for tests of functions that write to one."""

import os
from contextlib import contextmanager


@contextmanager
def pipe(path):
    """Make a named pipe, and yield a descriptor that reads from it without waiting."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)
        os.unlink(path)
