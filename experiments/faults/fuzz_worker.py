"""A process that reads damaged files: limited in memory and in seconds, and nothing may come out of it but VoltError.

    python -m experiments.faults.fuzz_worker FOLDER     (started by fuzz; requests on stdin, replies on stdout)

Each example is written to FOLDER/example before it is read, so that one that ends the process is known.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SLOW = ("hung", "memory")  # findings that cost seconds
MEMORY = 1 << 30  # bytes above what the process has when it begins
SECONDS = 5  # of a processor, for an example
LONGEST = 2_000  # characters of a line of a message
TOLD = 2  # examples of a family that are kept
ENOUGH = 3  # examples of a portion that take all of their seconds or memory; the rest of the portion is left out
TRIES = 80  # for making an example smaller


class TooSlow(BaseException):
    """An example takes more than its seconds. No error, so that no code takes it for one of its own."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise TooSlow inside after so many seconds of a processor."""

    def late(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def outcome(read: Callable[[Path], object], path: Path, data: bytes) -> tuple[str, str]:
    """What reading bytes gives: what kind of finding, and what is told of it; both empty if all is well."""
    from volt.errors import VoltError

    path.write_bytes(data)
    try:
        with limited():
            read(path)
    except VoltError as error:
        return _message(str(error))
    except TooSlow as error:
        return "hung", f"more than {SECONDS} s{_place(error)}"
    except MemoryError as error:
        return "memory", f"more than 1 GB{_place(error)}"
    except RecursionError as error:
        return "traceback", f"RecursionError{_place(error)}"
    except BaseException as error:  # Polars' panics are no Exception
        return "traceback", f"{type(error).__name__}: {str(error)[:150]}{_place(error)}"
    return "", ""


def _message(text: str) -> tuple[str, str]:
    """What is wrong with a message: a line is too long, or holds what a terminal obeys."""
    longest = max(text.split("\n"), key=len)
    if len(longest) > LONGEST or len(text) > 10 * LONGEST:
        return "message", f"{len(text):,} characters: {re.sub(r'[^ -~]', '·', longest[:100])}…"
    if not all(line.isprintable() for line in text.split("\n")):
        return "message", f"control characters: {text[:200]!r}"
    return ("message", "empty") if not text.strip() else ("", "")


def _place(error: BaseException) -> str:
    """The last line of VOLT's that an error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/volt" in frame.filename]
    return f" at {frames[-1].filename.rpartition('/volt/')[2]}:{frames[-1].lineno}" if frames else ""


def smaller(data: bytes, is_same: Callable[[bytes], bool]) -> bytes:
    """Take halves, quarters, … away while the finding stays."""
    tries, step = 0, len(data) // 2
    while step and tries < TRIES:
        start = 0
        while start < len(data) and tries < TRIES:
            tries += 1
            less = data[:start] + data[start + step :]
            if is_same(less):
                data = less
            else:
                start += step
        step //= 2
    return data


class Worker:
    """Reads examples of one target at a time. tell: takes each finding when it comes, and then how many were read."""

    def __init__(self, folder: Path, tell: Callable[[dict[str, Any]], object]) -> None:
        from experiments.faults.reading import prepare, targets

        self._tell, self._until, self._n_slow = tell, 0.0, 0
        self._path, self._seen = folder / "example", Counter[tuple[str, str, str]]()
        prepare(folder)
        os.chdir(folder)
        self._targets, self._seeds = targets(folder), dict[str, Sequence[bytes]]()
        self._targets = {**self._targets, "planted": _planted()}

    def work(self, name: str, seed: int, n: int, seconds: float) -> None:
        """So many examples, begun within so many seconds. seed 0: those that are tried as they are."""
        self._until, self._n_slow = time.monotonic() + seconds, 0
        target = self._targets[name]
        seeds = self._seeds.setdefault(name, target.seeds())
        if seed:
            done = self._drawn(name, target.read, seeds, seed, n)
        else:
            done = sum(self._look(name, target.read, data) for data in [*seeds, *target.extras()])
        gc.collect()
        self._tell({"done": done})

    def _drawn(self, name: str, read: Callable[[Path], object], seeds: Sequence[bytes], seed: int, n: int) -> int:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import seed as seeded

        from experiments.faults.mutate import damaged

        done = 0

        @seeded(seed)
        @settings(
            max_examples=n, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(damaged(seeds))
        def look(data: bytes) -> None:
            nonlocal done
            done += self._look(name, read, data)

        look()
        return done

    def _look(self, name: str, read: Callable[[Path], object], data: bytes) -> bool:
        """Try an example, and tell what is found; whether there was time to try it."""
        if time.monotonic() > self._until or self._n_slow >= ENOUGH:
            return False
        kind, told = outcome(read, self._path, data)
        self._n_slow += kind in SLOW
        if kind:
            self._report(name, read, data, kind, told)
        return True

    def _report(self, name: str, read: Callable[[Path], object], data: bytes, kind: str, told: str) -> None:
        """Tell a finding; the first of a family with its example, made smaller."""
        family = name, kind, re.sub(r"\d+|'.*'", "#", told.partition(" at ")[2] or told)[:60]
        self._seen[family] += 1
        if self._seen[family] > TOLD:
            self._tell({"kind": kind, "told": told, "data": ""})
            return
        if kind not in SLOW and len(data) < 1 << 16:
            data = smaller(data, lambda less: outcome(read, self._path, less) == (kind, told))
        self._tell({"kind": kind, "told": told, "data": data.hex()})


def _planted() -> Any:
    """A reader with faults of its own, for a campaign that is to show that it finds them."""
    from experiments.faults.reading import Target

    def read(path: Path) -> None:
        data = path.read_bytes()
        if data[:1] == b"t":
            raise KeyError("planted")
        if data[:1] == b"h":
            while True:
                pass
        if data[:1] == b"m":
            bytearray(3 << 30)
        if data[:1] == b"c":
            os.abort()

    return Target(read, lambda: [b"a"], lambda: [b"t", b"h", b"m", b"c"])


def limit_memory() -> None:
    """No more memory than there is now, and 1 GB."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def digest(data: bytes) -> str:
    """A short name for an example."""
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def main() -> None:
    """Serve."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=replies, flush=True)

    worker = Worker(Path(sys.argv[1]), tell)
    import polars as pl

    pl.Series(["a"]).str.len_bytes().sum()  # its threads are there
    pl.LazyFrame({"a": ["a"]}).group_by("a").len().collect()
    limit_memory()
    tell({"ready": True})
    for line in sys.stdin:
        worker.work(*json.loads(line))


if __name__ == "__main__":
    main()
