"""`plan`: estimate, before a run, the epochs of each source up to line N, and the stream's memory
and speed.

The first chunk of each source is computed, which shows its yield (output lines per line read) and
its memory; then the stream is read for some seconds, which shows its speed:

    epochs of a source = lines of the stream · share of the source / yield / lines of the source
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from volt import arguments
from volt.display import counted
from volt.errors import StreamError
from volt.stream.mixing.schedule import UNIT, compute_shares
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import Address, compute_chunk
from volt.stream.running.stream import Stream

_INTERVAL = 0.003  # seconds between two measurements
_STATM = Path("/proc/self/statm")  # numbers of pages: all, resident, shared, …
_FEW = 1 << 6  # lines that load a source's code and models
_GROWTH = 1.1  # peaks rise a little for a while, as free memory is fragmented


def measure_resident() -> int:
    """Return the bytes of this process's own memory, without shared pages; 0 if unknown."""
    try:
        _, present, shared, *_ = _STATM.read_bytes().split()
    except OSError:
        return 0
    return (int(present) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Memory:
    """The memory of this process at the start, and its largest increase, in bytes."""

    first: int = field(default_factory=measure_resident)
    peak: int = 0

    def measure(self) -> None:
        self.peak = max(self.peak, measure_resident() - self.first)


@contextmanager
def watch_memory() -> Iterator[Memory]:
    memory = Memory()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_INTERVAL):
            memory.measure()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield memory
    finally:
        over.set()
        watcher.join()
        memory.measure()


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The plan of one source up to line N, and in a virtual epoch.

    lines: lines of the stream up to N that come from this source.
    n_lines: lines in the source's files.
    yield_: output lines per line read, estimated from the source's first block.
    epochs: how often the source's files are read up to N.
    block_lines: lines per block.
    share: the source's share of the stream's lines up to N, from 0 to 1.
    epoch_lines, epoch_passes: `lines` and `epochs` of a virtual epoch; None without virtual epochs.
    """

    lines: float
    n_lines: int
    yield_: float
    epochs: float
    block_lines: int
    share: float
    epoch_lines: float | None = None
    epoch_passes: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a stream up to line N.

    at: the line number N.
    sources: source name → its plan.
    memory: estimated maximum bytes of data in all processes.
    lines_per_second: measured on this machine; None if the stream ended at once.
    epoch_lines: lines of a virtual epoch; see `Stream.epoch_lines`.

    >>> Plan(at=12, sources={}, memory=1_000_000, lines_per_second=50_000.0)
    <Plan: 0 sources up to line 12, 1 MB, 50,000 lines per second>
    """

    at: int
    sources: dict[str, SourcePlan]
    memory: int
    lines_per_second: float | None
    epoch_lines: int | None = None

    def __repr__(self) -> str:
        scope = f"{counted(len(self.sources), 'source')} up to line {self.at:,}"
        text = f"{scope}, {self.memory / 1e6:,.0f} MB"
        if self.lines_per_second is not None:
            text += f", {self.lines_per_second:,.0f} lines per second"
        return f"<Plan: {text}>"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)


def plan(stream: Stream, *, at: int, seconds: float = 2.0) -> Plan:
    r"""Plan a stream up to a line, and measure its speed.

    Raises StreamError if a source's first block fails.

    stream: the stream to plan; its position does not change
    at: the number of the line, 0 or more
    seconds: how long to measure the speed

    >>> import tempfile
    >>> from volt.stream.reading.source_definition import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\nb\nc\n") and file.flush()
    ...     plan(Stream([Source("letters", (file.name,))]), at=12, seconds=0.01).sources["letters"].epochs
    4.0
    """
    arguments.instance(stream, Stream, "stream")
    at = arguments.whole(at, "at", low=0)
    seconds = arguments.number(seconds, "seconds")
    for source in stream.sources:  # code and models are loaded before memory is measured
        few = LineBlock(0, 0, min(_FEW, source.n_lines))
        compute_chunk(copy(source), Address(few, 0), stream.policy)
    gc.collect()
    with suppress(OSError, AttributeError):  # return free memory to the system, if this is glibc
        ctypes.CDLL(None).malloc_trim(0)
    with watch_memory() as memory:
        chunks = [_compute_first_chunk(source, stream) for source in stream.sources]
        speed = _measure_speed(stream, seconds=seconds)

    owed = compute_shares([source.source.weight for source in stream.sources]).units_owed
    n_lines = max(1, at)
    shares = [units / UNIT / n_lines for units in owed(n_lines)]
    sources = {
        source.name: _plan_source(source, chunk, units / UNIT, share, stream.epoch_lines)
        for source, chunk, units, share in zip(
            stream.sources, chunks, owed(at), shares, strict=True
        )
    }
    most = max(int(_GROWTH * memory.peak), _memory_bound(stream, chunks))
    return Plan(at, sources, most, speed, stream.epoch_lines)


class _Chunk(NamedTuple):
    """The first chunk of a source.

    n_lines, n_read: lines of output, and lines read.
    n_bytes: bytes of output.
    peak: bytes of memory to compute the chunk.
    """

    n_lines: int
    n_read: int
    n_bytes: int
    peak: int


def _compute_first_chunk(source: OpenSource, stream: Stream) -> _Chunk:
    n_lines = source.block_lines
    with watch_memory() as memory:
        # a block of several chunks is cached until the next block is read
        if source.chunk_lines < n_lines < source.n_lines:
            second = LineBlock(0, n_lines, min(n_lines, source.n_lines - n_lines))
            compute_chunk(source, Address(second, 0), stream.policy)
        first = LineBlock(0, 0, min(n_lines, source.n_lines))
        chunk = compute_chunk(source, Address(first, 0), stream.policy)
    if chunk.error:
        raise StreamError(chunk.error)
    n_bytes = chunk.data.nbytes + chunk.ends.nbytes
    return _Chunk(chunk.n_lines, chunk.n_read, n_bytes, max(memory.peak, n_bytes))


def _plan_source(
    source: OpenSource, chunk: _Chunk, lines: float, share: float, epoch_lines: int | None
) -> SourcePlan:
    yield_ = chunk.n_lines / chunk.n_read

    def count_epochs(lines: float) -> float:
        return lines / yield_ / source.n_lines if yield_ else float("inf")

    result = SourcePlan(
        lines=lines,
        n_lines=source.n_lines,
        yield_=yield_,
        epochs=count_epochs(lines),
        block_lines=source.block_lines,
        share=share,
    )
    if epoch_lines is None:
        return result
    lines_in_epoch = epoch_lines * share
    return replace(result, epoch_lines=lines_in_epoch, epoch_passes=count_epochs(lines_in_epoch))


def _memory_bound(stream: Stream, chunks: Sequence[_Chunk]) -> int:
    """Return the most bytes that chunks may take.

    Each source has a chunk in use and, with workers, a ready one. Each worker has a finished chunk,
    and computes another.
    """
    sizes = [chunk.n_bytes for chunk in chunks]
    largest_peak = max(chunk.peak for chunk in chunks)
    n_workers = stream.workers.n
    if not n_workers:
        return sum(sizes) + largest_peak
    return 2 * sum(sizes) + n_workers * (max(sizes) + largest_peak)


def _measure_speed(stream: Stream, *, seconds: float) -> float | None:
    """Return how many lines per second the stream delivers; None if it delivers no line.

    Three stages are timed: the first block, the blocks that workers have computed ahead, and all
    blocks after these. The last stage with lines gives the speed.
    """
    block_lines = [source.block_lines for source in stream.sources]
    ahead = sum(block_lines) + 2 * stream.workers.n * max(block_lines)
    with stream.rehearsal() as rehearsal:
        place = rehearsal.place()
        marks = list[tuple[int, float]]()  # after each stage, the lines so far and the time
        first = rehearsal.blocks(limit=place[1].block.n_lines if place else 1)
        rest = rehearsal.blocks()
        stages = [(first, 1, 0.0), (rest, ahead, seconds), (rest, None, seconds)]
        for blocks, n_lines, limit in stages:
            _read_blocks(blocks, rehearsal, n_lines=n_lines, seconds=limit)
            marks.append((rehearsal.n, time.perf_counter()))
    result = None
    for (before, start), (n, end) in pairwise(marks):
        if n > before:
            result = (n - before) / (end - start)
    return result


def _read_blocks(
    blocks: Iterator[bytes], stream: Stream, *, n_lines: int | None, seconds: float
) -> None:
    """Read blocks until the stream has delivered `n_lines` lines in all, or for some seconds."""
    deadline = time.perf_counter() + seconds
    for data in blocks:
        data.count(b"\n")  # as `volt stream run` counts lines that it has written
        if n_lines is not None and stream.n >= n_lines:
            return
        if time.perf_counter() >= deadline:
            return
