"""Kill the cluster of Ray that a process started, after that process has ended. This program needs only Python.

    python ray_cleanup.py FOLDER

When stdin closes, it kills the processes whose commands contain FOLDER, and their descendants. Some of them would
otherwise search for their dead cluster for a minute. Without /proc, it does nothing.
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
def watched(folder: str) -> Iterator[None]:
    """When the block or this process ends, kill the remaining processes of the cluster in a folder."""
    command = [sys.executable, "-I", __file__, folder]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        watcher.communicate()


def cluster_of(folder: str) -> set[Process]:
    """Return the processes whose command contains a folder, and their descendants, except this process."""
    parents, starts, result = dict[int, int](), dict[int, str](), set[int]()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            number, values = (
                int(place.name),
                (place / "stat").read_text(errors="replace").rpartition(")")[2].split(),
            )
            parents[number], starts[number] = int(values[1]), values[19]
            if folder.encode() in (place / "cmdline").read_bytes():
                result.add(number)
    result.discard(os.getpid())
    while more := {number for number, parent in parents.items() if parent in result} - result:
        result |= more
    return {(number, starts[number]) for number in result - {os.getpid()}}


def main() -> None:
    folder, known = sys.argv[1], set[Process]()
    while not select.select([sys.stdin], [], [], _STEP)[0]:
        known |= cluster_of(folder)
    known |= cluster_of(folder)
    for number, start in known:
        with suppress(OSError, IndexError):
            if (
                Path(f"/proc/{number}/stat")
                .read_text(errors="replace")
                .rpartition(")")[2]
                .split()[19]
                == start
            ):
                os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main()
