"""`plan`: estimate, before a run, the epochs of each source up to line N, and the stream's memory and speed."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from volt import arguments
from volt.display import counted
from volt.errors import StreamError
from volt.stream.mixing.schedule import UNIT, shares_of
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import Address, compute_chunk
from volt.stream.running.stream import Stream

_INTERVAL = 0.003  # seconds between two measurements
_STATM = Path("/proc/self/statm")  # numbers of pages: all, resident, shared, …


def resident() -> int:
    """Return the bytes of this process's own memory, without shared pages; 0 if unknown."""
    try:
        _, present, shared, *_ = _STATM.read_bytes().split()
    except OSError:
        return 0
    return (int(present) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Memory:
    """The memory of this process at the start, and its largest increase, in bytes."""

    first: int = field(default_factory=resident)
    peak: int = 0

    def measure(self) -> None:
        self.peak = max(self.peak, resident() - self.first)


@contextmanager
def watched() -> Iterator[Memory]:
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


_FEW = 1 << 6  # lines
_GROWTH = 1.1  # peaks rise a little for a while, as free memory is fragmented


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
        speed = (
            ""
            if self.lines_per_second is None
            else f", {self.lines_per_second:,.0f} lines per second"
        )
        scope = f"{counted(len(self.sources), 'source')} up to line {self.at:,}"
        return f"<Plan: {scope}, {self.memory / 1e6:,.0f} MB{speed}>"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)


def plan(stream: Stream, *, at: int, seconds: float = 2.0) -> Plan:
    r"""Plan a stream up to a line, and measure its speed. Raises StreamError if a source's first block fails.

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
    owed = shares_of([source.source.weight for source in stream.sources]).owed
    epoch = stream.epoch_lines
    inputs = [
        (units / UNIT, more / UNIT / max(1, at))
        for units, more in zip(owed(at), owed(max(1, at)), strict=True)
    ]
    for source in stream.sources:  # code and models are loaded before memory is measured
        compute_chunk(
            copy(source), Address(LineBlock(0, 0, min(_FEW, source.n_lines)), 0), stream.policy
        )
    gc.collect()
    with suppress(
        OSError, AttributeError
    ):  # return free memory to the system; only glibc has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
    with watched() as memory:
        first = [_first_block(source, stream) for source in stream.sources]
        speed = _measure(stream, seconds=seconds)
    sources = {
        source.name: _source_plan(source, block, lines=lines, share=share, epoch=epoch)
        for source, (lines, share), block in zip(stream.sources, inputs, first, strict=True)
    }
    return Plan(
        at, sources, max(int(_GROWTH * memory.peak), _memory_bound(stream, first)), speed, epoch
    )


@dataclass(frozen=True, slots=True)
class _Block:
    n_lines: int
    n_read: int
    size: int
    work: int


def _first_block(source: OpenSource, stream: Stream) -> _Block:
    with watched() as memory:
        if (
            source.chunk_lines < source.block_lines < source.n_lines
        ):  # a block is cached until the next one is read
            n_lines = min(source.block_lines, source.n_lines - source.block_lines)
            compute_chunk(
                source, Address(LineBlock(0, source.block_lines, n_lines), 0), stream.policy
            )
        first = Address(LineBlock(0, 0, min(source.block_lines, source.n_lines)), 0)
        block = compute_chunk(source, first, stream.policy)
    if block.error:
        raise StreamError(block.error)
    size = block.data.nbytes + block.ends.nbytes
    return _Block(block.n_lines, block.n_read, size, max(memory.peak, size))


def _source_plan(
    source: OpenSource, block: _Block, *, lines: float, share: float, epoch: int | None
) -> SourcePlan:
    out = block.n_lines / block.n_read

    def passes(lines: float) -> float:
        return lines / out / source.n_lines if out else float("inf")

    virtual = (None, None) if epoch is None else (epoch * share, passes(epoch * share))
    return SourcePlan(
        lines, source.n_lines, out, passes(lines), source.block_lines, share, *virtual
    )


def _memory_bound(stream: Stream, first: Sequence[_Block]) -> int:
    sizes = [block.size for block in first]
    n_workers = stream.n_workers
    ready = sum(sizes) + n_workers * max(sizes) if n_workers else 0
    return sum(sizes) + ready + max(1, n_workers) * max(block.work for block in first)


def _measure(stream: Stream, *, seconds: float) -> float | None:
    """Measure how many lines per second the stream delivers after its first blocks; None if it delivers none."""
    longest = max(source.block_lines for source in stream.sources)
    ahead = sum(source.block_lines for source in stream.sources) + 2 * stream.n_workers * longest
    with stream.rehearsal() as rehearsal:
        place = rehearsal.place()
        marks = list[tuple[int, float]]()
        first = rehearsal.blocks(limit=place[1].block.n_lines if place else 1)
        rest = rehearsal.blocks()
        for blocks, most, limit in ((first, 1, 0.0), (rest, ahead, seconds), (rest, None, seconds)):
            _read(blocks, rehearsal, most=most, seconds=limit)
            marks.append((rehearsal.n, time.perf_counter()))
    rates = [
        (n - before) / (end - start) for (before, start), (n, end) in pairwise(marks) if n > before
    ]
    return rates[-1] if rates else None


def _read(blocks: Iterator[bytes], stream: Stream, *, most: int | None, seconds: float) -> None:
    late = time.perf_counter() + seconds
    for data in blocks:
        data.count(b"\n")  # as `volt stream run` counts lines that it has written
        if (most is not None and stream.n >= most) or time.perf_counter() >= late:
            return
