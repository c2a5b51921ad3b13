"""Fuzzing: damaged files of every kind that VOLT reads; each is read, or refused by a VoltError that people can read.

A worker reads the files, in 1 GB of memory above what it begins with, and in 5 s each. Whatever else it does is a
finding: another exception, no end, more memory, a crash, or a message of long lines or control characters. Examples are
drawn by Hypothesis in portions, each from a seed of its own, so a portion can be drawn again. What was found is made
smaller where that is cheap, and kept in a folder.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.faults.child import STARTING, Child
from experiments.faults.fuzz_worker import digest
from experiments.faults.table import Finding, Row

PORTION = 250
STUCK = 150.0  # seconds for a portion, after which a worker that answers nothing hangs
TELL = 10.0


class Worker(Child):
    """A worker process, and what it has died of."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        own = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(folder)}
        super().__init__("experiments.faults.fuzz_worker", str(folder), env=own)
        if self.reply(STARTING) is None:
            raise SystemExit(f"a worker does not start: {self.last_words()}")

    def portion(self, *request: Any) -> Iterator[dict[str, Any] | None]:
        """What a portion gives: each finding, then how many examples were read; None if the process dies or hangs."""
        with suppress(OSError):
            self.ask(request)
        while True:
            reply = self.reply(STUCK)
            yield reply
            if reply is None or "done" in reply:
                return

    def death(self) -> tuple[str, str]:
        """The kind of finding that it is that the process answers nothing, and what is told of it."""
        if (status := self.status(2.0)) is None:
            return "hung", f"no answer in {STUCK:.0f} s"
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return "crash", f"the process ended with {how}: {self.last_words()[-200:]}"


def campaign(
    folder: Path, kept: Path, *, seed: int, jobs: int, until: float, most: int, only: Sequence[str] = (),
    portion: int = PORTION,
) -> Iterator[Row]:  # fmt: skip
    """A row for each target, filled afterwards. kept: where examples of findings are put;  only: names of targets."""
    from experiments.faults.reading import targets

    names = [
        name for name in [*targets(folder), *(["planted"] if "planted" in only else [])] if not only or name in only
    ]
    rows, start = {name: Row("fuzz", name) for name in names}, time.monotonic()
    n_portions = -(-most // (portion * len(names)))
    portions: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    for number in range(n_portions + 1):  # number 0: examples that are tried as they are
        for name in names:
            portions.put((name, 0 if number == 0 else seed * 100_000 + number))
    for row in rows.values():
        row.planned = n_portions * portion
    yield from rows.values()
    errors: list[BaseException] = []
    workers: list[Worker] = []
    ended = threading.Event()

    def work(number: int) -> None:
        try:
            place = folder / f"fuzz{number}"
            workers.append(worker := Worker(place))
            while not ended.is_set() and time.monotonic() < until:
                name, drawn = portions.get_nowait()
                began = time.monotonic()
                for reply in worker.portion(name, drawn, portion, max(0.0, until - began)):
                    if ended.is_set():
                        return
                    if reply is None:
                        data = (place / "example").read_bytes()
                        rows[name].findings.append(_kept(name, *worker.death(), data, kept, drawn))
                        worker.close()
                        workers.append(worker := Worker(place))
                    elif "done" in reply:
                        rows[name].done += reply["done"]
                    else:
                        rows[name].findings.append(_found(name, reply, kept, drawn))
                rows[name].seconds += time.monotonic() - began
        except queue.Empty:
            pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(jobs)]
    for thread in threads:
        thread.start()
    try:
        told = start
        while alive := [thread for thread in threads if thread.is_alive()]:
            alive[0].join(TELL)
            if time.monotonic() - told > TELL:
                told, done = time.monotonic(), sum(row.done for row in rows.values())
                print(f"fuzz: {done:,} of {most:,} after {told - start:,.0f} s", file=sys.stderr, flush=True)
    finally:
        ended.set()
        for worker in list(workers):
            worker.close()
    if errors:
        raise errors[0]


def _found(name: str, found: dict[str, str], kept: Path, seed: int) -> Finding:
    return _kept(
        name, found["kind"], found["told"], bytes.fromhex(found["data"]) if found["data"] else None, kept, seed
    )


def _kept(name: str, kind: str, told: str, data: bytes | None, kept: Path, seed: int) -> Finding:
    """A finding whose example lies in the folder."""
    if data is None:
        return Finding("fuzz", kind, name, told, f"one of seed {seed}")
    kept.mkdir(parents=True, exist_ok=True)
    path = kept / f"{name}.{digest(data)}"
    path.write_bytes(data)
    return Finding("fuzz", kind, name, told, f"python -m experiments.faults fuzz --replay {path}")


def replay(folder: Path, path: Path) -> Iterator[Row]:
    """Read one example that was kept; its name begins with that of its target."""
    from experiments.faults.fuzz_worker import outcome
    from experiments.faults.reading import prepare, targets

    name = path.name.rpartition(".")[0]
    folder.mkdir(parents=True, exist_ok=True)
    data = path.read_bytes()
    prepare(folder)
    os.chdir(folder)
    row = Row("fuzz", name, 1, 1)
    kind, told = outcome(targets(folder)[name].read, folder / "example", data)
    if kind:
        row.findings.append(Finding("fuzz", kind, name, told, f"python -m experiments.faults fuzz --replay {path}"))
    yield row
