"""A configuration, its lines from Python, and the output of a running command."""

import subprocess
import time
from collections.abc import Callable
from itertools import islice

from support.commands import Done

DEADLINE = 60  # seconds for a process; only a process that hangs comes near
CONFIG = """\
seed: 5
sources:
  one:
    path: one.tsv
    block_lines: 50
    transforms:
      - regex: "7$"
      - choice: [{weight: 2}, {weight: 1, transforms: [upper]}]
      - repeat: 2
  two:
    path: two.tsv.gz
    weight: {kind: linear, points: [[0, 0.3], [500, 1]]}
    block_lines: 37
    transforms: [tag: "[BT]"]
"""
Process = subprocess.Popen[bytes]
Start = Callable[..., Process]


def expected(n, **options):
    """Return the first n lines of the configuration, from Python."""
    from volt.stream.running.stream import Stream

    with Stream.from_config("stream.yaml", **options) as stream:
        return list(islice(stream, n))


def read_lines(process, n):
    """Return the next lines."""
    assert process.stdout is not None
    return [process.stdout.readline().decode().removesuffix("\n") for _ in range(n)]


def finish(process):
    """Return the rest of the output of a process that ends."""
    assert process.stdout is not None
    assert process.stderr is not None
    done = Done(process.stdout.read(), process.stderr.read())
    process.wait(DEADLINE)
    return done


def wait_for(condition):
    """Wait for a condition; fail at the deadline."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "nothing happened before the deadline"
        time.sleep(0.02)
