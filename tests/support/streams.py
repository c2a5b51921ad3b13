"""Small sources of lines, transforms that worker processes can import, and deadlines."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from volt.stream import Stream
from volt.stream.transforms.transform import LineFault

Make = Callable[..., Stream]  # a small stream, with other options


@contextmanager
def deadline(seconds):
    """Raise TimeoutError if a block takes longer than this number of seconds."""

    def late(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def write_lines(path, lines):
    """Write lines to a file, and return its path."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def numbered(folder, name, n, *, n_shards=1):
    """Write the lines name-0 … name-(n−1), two fields each, to several shards."""
    lines = [f"{name}-{i}\t{name.upper()} {i}" for i in range(n)]
    bounds = [n * shard // n_shards for shard in range(n_shards + 1)]
    return tuple(
        write_lines(folder / f"{name}.{shard}.tsv", lines[bounds[shard] : bounds[shard + 1]])
        for shard in range(n_shards)
    )


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop each line with some probability."""

    share: float
    name: str = "drop"

    def __call__(self, batch, chance):
        return batch.take(chance.uniform(batch.origins) >= self.share)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repeat each line up to three times, and number the repeats."""

    name: str = "repeat"

    def __call__(self, batch, chance):
        times = chance.integers(batch.origins, 0, 3).tolist()
        repeated = batch.take(np.repeat(np.arange(len(batch)), times))
        lines = zip(batch.lines, times, strict=True)
        return repeated.with_lines([f"{line}\t{i}" for line, n in lines for i in range(n)])


@dataclass(frozen=True, slots=True)
class Pair:
    """Join every two lines into one."""

    joins_lines: ClassVar[bool] = True
    name: str = "pair"

    def __call__(self, batch, chance):
        firsts = batch.take(np.arange(0, len(batch), 2))
        return firsts.with_lines(
            [" ".join(batch.lines[i : i + 2]) for i in range(0, len(batch), 2)]
        )


@dataclass(frozen=True, slots=True)
class Same:
    """Leave lines unchanged, in Python code, so that processes run it."""

    name: str = "same"

    def __call__(self, batch, chance):
        return batch


@dataclass(frozen=True, slots=True)
class Refuse:
    """Raise an error that names lines with a text."""

    text: str
    name: str = "refuse"

    def __call__(self, batch, chance):
        if bad := {
            i: f"holds {self.text!r}" for i, line in enumerate(batch.lines) if self.text in line
        }:
            raise LineFault(bad)
        return batch


@dataclass(frozen=True, slots=True)
class Crash:
    """Raise another kind of error on lines with a text."""

    text: str
    name: str = "crash"

    def __call__(self, batch, chance):
        for line in batch.lines:
            if self.text in line:
                raise ZeroDivisionError(line)
        return batch


@dataclass(frozen=True, slots=True)
class Slow:
    """Sleep before lines are returned."""

    seconds: float
    name: str = "slow"

    def __call__(self, batch, chance):
        time.sleep(self.seconds)
        return batch


@dataclass(frozen=True, slots=True)
class Die:
    """End the process without a message."""

    status: int
    name: str = "die"

    def __call__(self, batch, chance):
        os._exit(self.status)
