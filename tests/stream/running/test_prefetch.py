"""`Prefetcher` and its pools: chunks are requested ahead by need, and taken in order."""

from __future__ import annotations

import gc
import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from support.streams import numbered

from volt.errors import StreamError
from volt.stream import Source, Stream
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running import engine, prefetch
from volt.stream.running.chunk_computation import (
    Address,
    ComputedChunk,
)
from volt.stream.running.prefetch import Prefetcher, ThisThread, Threads


def make_chunk(*lines, n_read=0, faults=()):
    """Return a chunk of these lines."""
    data = "".join(f"{line}\n" for line in lines).encode()
    ends = np.cumsum([len(line) + 1 for line in lines], dtype=np.int64)
    return ComputedChunk(np.frombuffer(data, np.uint8), ends, n_read or len(lines), tuple(faults))


class Idle:
    """A pool that computes jobs when they are requested, up to a number of jobs, and returns them
    only to a waiting caller."""

    def __init__(self, room):
        self.room, self.jobs, self.done, self.waits = room, [], [], []

    @property
    def has_room(self):
        return len(self.done) < self.room

    def request(self, job):
        self.jobs.append(job)
        self.done.append((*job, make_chunk("x")))

    def flush(self):
        self.n_flushed = len(self.jobs)

    def receive(self, timeout):
        self.waits.append(timeout)
        done, self.done = self.done, []
        return done if timeout else self.done.__iadd__(done)[:0]

    def close(self):
        self.room = -1


@pytest.mark.parametrize(
    ("room", "most", "shares"), [(9, 0, (1, 1)), (9, 3, (3, 1)), (2, 9, (1, 1)), (9, 4, (1, 0))]
)
def test_chunks_are_requested_by_need(room, most, shares):
    """Prefetcher requests chunks first for the source that runs out first, up to its limit, and
    takes them in order."""
    pool = Idle(room)
    sources = [SimpleNamespace(chunk_lines=lines, n_bytes=1 << 20, n_lines=1) for lines in (4, 2)]
    queues = [iter([Address(LineBlock(0, 8 * k, 8), 0) for k in range(6)]) for _ in sources]
    blocks = Prefetcher(sources, queues, [pool, pool], n_ahead=most)
    blocks.set_shares([share / sum(shares) for share in shares])
    first = [job[0] for job in pool.jobs]
    n = min(room, most + 2)
    assert len(first) == n
    ahead = [0.0, 0.0]
    expected = []
    for _ in range(n):
        source = min((ahead[k], k) for k in (0, 1) if shares[k])[1]
        ahead[source] += (4, 2)[source] / (shares[source] / sum(shares))
        expected.append(source)
    assert first == expected
    taken = blocks.take(0)
    assert taken is not None
    assert (taken[0], taken[1].n_lines, pool.waits[-1]) == (
        Address(LineBlock(0, 0, 8), 0),
        1,
        prefetch.PATIENCE,
    )
    assert [blocks.take(0) is None for _ in range(6)] == [False] * 5 + [True]
    blocks.close()
    assert pool.room == -1
    with pytest.raises(StreamError, match="the workers have ended; read the stream itself"):
        blocks.take(1)


def test_pools_compute_each_job_once():
    """Threads and ThisThread return the result of each job once; a failure in a thread is raised
    with its traceback."""
    jobs = [(0, number) for number in range(9)]
    alone, pool = (
        ThisThread(lambda job: (*job, -job[1])),
        Threads(lambda job: (*job, 1 // (job[1] - 9)), n=2),
    )  # type: ignore[arg-type, return-value]
    assert (alone.has_room, alone.receive(0.0), pool.has_room) == (False, (), True)
    for number, job in enumerate(jobs):
        alone.request(job)
        pool.request(job)
        assert pool.has_room == (number + 1 < 4)
    assert [alone.receive(0.1) for _ in jobs] == [((*job, -job[1]),) for job in jobs]
    results = []
    while len(results) < 9:
        results += pool.receive(60.0)
    assert (sorted(one[1] for one in results), pool.has_room, pool.receive(0.0)) == (
        [*range(9)],
        True,
        [],
    )
    pool.request((0, 9))
    with pytest.raises(StreamError, match=r"a worker failed:\n(.*\n)*ZeroDivisionError"):
        pool.receive(60.0)
    pool.close()


@dataclass(frozen=True)
class Collect:
    """A transform that leaves lines unchanged, and collects garbage in the thread that runs it when
    allowed."""

    name: ClassVar[str] = "collect"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    may = threading.Event()
    done = threading.Event()

    def __call__(self, batch, chance):
        if batch.origins.min() >= 10:
            self.may.wait(20)
            gc.collect()
            self.done.set()
        return batch


def test_a_worker_thread_may_collect_its_own_stream(tmp_path, monkeypatch):
    """A stream in a reference cycle that is garbage-collected by its own worker thread is closed
    without an error."""
    monkeypatch.setattr(
        engine, "_PATIENCE", 0.0
    )  # the first line comes before the block that waits
    errors = []
    hook = sys.unraisablehook
    sys.unraisablehook = errors.append
    gc.disable()
    try:
        cycle = {}
        paths = numbered(tmp_path, "a", 400)
        source = Source("a", paths, shuffle="none", block_lines=10, transforms=(Collect(),))
        cycle["stream"] = Stream([source], n_workers=1)
        cycle["lines"] = iter(cycle["stream"])
        cycle["itself"] = cycle
        next(cycle["lines"])
        del cycle
        Collect.may.set()
        assert Collect.done.wait(20)
    finally:
        gc.enable()
        sys.unraisablehook = hook
    assert not errors
