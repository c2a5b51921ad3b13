"""Compiling on two cores: a second process compiles some loops while this one compiles the others; they meet on disk.

LLVM holds the interpreter's lock, so threads would wait for each other.

>>> here, there = halves([Loop("words.trace_each", 1.8), Loop("learn.learn_merges", 4.5), Loop("pair_table.fill", 0.3)])
>>> [loop.place for loop in here], [loop.place for loop in there]
(['learn.learn_merges'], ['words.trace_each', 'pair_table.fill'])
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from volt.kernels.caching import kept_in
from volt.kernels.ready import JOBS, Loop, compile_loop

START = 1.0  # seconds until a second process compiles
_THERE = "import sys; from volt.kernels import beside; beside.compile_places(sys.argv[1:])"


def halves(loops: Iterable[Loop]) -> tuple[list[Loop], list[Loop]]:
    """The loops that this process compiles, and those of a second one, which starts later, so that both end early."""
    here, there = list[Loop](), list[Loop]()
    for loop in sorted(loops, key=lambda loop: -loop.seconds):
        other = START + sum(one.seconds for one in [*there, loop])
        (there if other < sum(one.seconds for one in [*here, loop]) else here).append(loop)
    return here, there


def seconds_for(loops: Iterable[Loop]) -> int:
    """About how many seconds it takes until these loops are compiled.

    >>> seconds_for([Loop("learn.learn_merges", 4.6)])
    5
    """
    here, there = halves(loops) if _can_help() else (list(loops), [])
    return round(max(sum(loop.seconds for loop in here), START * bool(there) + sum(loop.seconds for loop in there)))


@contextmanager
def helping(loops: Iterable[Loop]) -> Iterator[list[Loop]]:
    """A second process compiles its half inside. Yields what is left to this one, which then waits for it.

    Whatever keeps the other from its work only costs time: what is not on disk in the end, this process compiles.
    """
    here, there = halves(loops) if _can_help() else (list(loops), [])
    process = _started(there) if there else None
    try:
        yield here
        if process is not None:
            process.wait()
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def compile_places(places: Sequence[str]) -> None:
    """Compile the loops at these places: what the second process does."""
    for place in dict.fromkeys(loop.place for loops in JOBS.values() for loop in loops):
        if place in places:
            compile_loop(place)


def _can_help() -> bool:
    """Whether there is a core for a second process, and a folder where it can leave what it compiles."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and bool(sys.executable) and not hasattr(sys, "frozen") and kept_in() is not None


def _started(loops: Sequence[Loop]) -> subprocess.Popen[bytes] | None:
    """A process with the modules of this one, whatever folder it runs in; it says nothing and asks for nothing."""
    command = [sys.executable, "-P", "-c", _THERE, *(loop.place for loop in loops)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:  # no memory for another, say
        return None
