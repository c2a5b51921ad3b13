"""Kill the cluster of Ray that a process started, after that process has ended. This program needs
only Python.

    python ray_cleanup.py FOLDER

When stdin closes, it kills the processes whose commands contain FOLDER, and their descendants. Some
of them would otherwise search for their dead cluster for a minute. Without /proc, it does nothing.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STEP = 0.5  # seconds between two scans of processes
Process = tuple[int, str]  # its id and start time, as ids are reused


@contextmanager
def kill_at_end(folder: str) -> Iterator[None]:
    """When the block or this process ends, kill the remaining processes of the cluster in a
    folder."""
    command = [sys.executable, "-I", __file__, folder]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        watcher.communicate()


def find_processes(folder: str) -> set[Process]:
    """Return the processes whose command contains a folder, and their descendants, except this
    process."""
    parents = dict[int, int]()
    starts = dict[int, str]()
    numbers = set[int]()
    for process_folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            number = int(process_folder.name)
            parents[number], starts[number] = _parent_and_start(number)
            if folder.encode() in (process_folder / "cmdline").read_bytes():
                numbers.add(number)
    numbers.discard(os.getpid())
    while children := {number for number, parent in parents.items() if parent in numbers} - numbers:
        numbers |= children
    return {(number, starts[number]) for number in numbers - {os.getpid()}}


def _parent_and_start(number: int) -> tuple[int, str]:
    """Return the parent and the start time of a process. Raises OSError if it has ended."""
    stat = Path(f"/proc/{number}/stat").read_text(errors="replace")
    values = stat.rpartition(")")[2].split()
    return int(values[1]), values[19]


def main() -> None:
    folder = sys.argv[1]
    known = set[Process]()
    is_closed: list[object] = []
    while not is_closed:
        is_closed = select.select([sys.stdin], [], [], _STEP)[0]
        known |= find_processes(folder)
    for number, start in known:
        with suppress(OSError, IndexError):
            if _parent_and_start(number)[1] == start:
                os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main()
