r"""What a stream will do, before it does it: epochs per source at line N, memory, and how fast it is here.

>>> import tempfile
>>> from volt.stream.reading.source import Source
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"a\nb\nc\n") and file.flush()
...     found = plan(Stream([Source("letters", (file.name,))]), at=12, seconds=0.01)
>>> found.sources["letters"].lines, found.sources["letters"].epochs
(12.0, 4.0)

How much memory something takes: watched while it runs, where the system says how much this process has.

>>> with watched() as memory:
...     _ = bytearray(1 << 20)
>>> memory.peak >= 0
True
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
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from volt import arguments
from volt.display import counted
from volt.errors import StreamError
from volt.stream.mixing.schedule import UNIT, shares_of
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.sampler import BlockRange
from volt.stream.running.blocks import Address, compute_block
from volt.stream.running.stream import Stream

_INTERVAL = 0.003  # seconds between two looks
_STATM = Path("/proc/self/statm")  # pages: all, in memory, of those shared with others


def resident() -> int:
    """Bytes of memory of this process alone; 0 where the system does not say."""
    try:
        _, present, shared, *_ = _STATM.read_bytes().split()
    except OSError:
        return 0
    return (int(present) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def give_back() -> None:
    """Give memory that is free back to the system, so that what is taken next is seen."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(slots=True)
class Memory:
    """What a process has taken since it was first looked at.

    first: bytes that it had then.
    peak: the most bytes that it has had more, at any look.
    """

    first: int = field(default_factory=resident)
    peak: int = 0

    def look(self) -> None:
        """Look once more."""
        self.peak = max(self.peak, resident() - self.first)


@contextmanager
def watched() -> Iterator[Memory]:
    """Watch this process's memory for the length of a block."""
    memory, over = Memory(), threading.Event()

    def look() -> None:
        while not over.wait(_INTERVAL):
            memory.look()

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield memory
    finally:
        over.set()
        watcher.join()
        memory.look()


_READ_SIZE = 1 << 16
_FEW = 1 << 6  # lines
_GROWTH = 1.1  # peaks rise a little for a while, since memory that is free lies scattered


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a stream will have taken from one source by line N, and what it takes in a virtual epoch.

    lines: how many of the stream's lines come from it.
    n_lines: how many lines its files hold.
    yield_: how many lines come out of its transforms for one that goes in, judged by its first block.
    epochs: how often its files will have been read.
    block_lines: lines per block.
    share: of the stream's lines up to N, how many parts of one come from it.
    epoch_lines, epoch_passes: how many lines a virtual epoch has of it, and how often its files are read for them; None
        where there are no virtual epochs.
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
    """What a stream will do up to line N.

    at: N.
    sources: by name.
    memory: an estimate of the most bytes of data that this process and the workers will hold together.
    lines_per_second: measured on this machine; None if the stream ended at once.
    epoch_lines: lines of a virtual epoch, see `Stream.epoch_lines`.

    >>> Plan(at=12, sources={}, memory=1_000_000, lines_per_second=50_000.0)
    <Plan: 0 sources up to line 12, 1 MB, 50,000 lines per second>
    """

    at: int
    sources: dict[str, SourcePlan]
    memory: int
    lines_per_second: float | None
    epoch_lines: int | None = None

    def __repr__(self) -> str:
        speed = "" if self.lines_per_second is None else f", {self.lines_per_second:,.0f} lines per second"
        what = f"{counted(len(self.sources), 'source')} up to line {self.at:,}"
        return f"<Plan: {what}, {self.memory / 1e6:,.0f} MB{speed}>"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)


def plan(stream: Stream, *, at: int, seconds: float = 2.0) -> Plan:
    """Plan a stream up to a line, and measure its speed.

    stream: which stays where it is
    at: the number of the line, 0 or more
    seconds: how long to measure

    Raises StreamError if a first block cannot be computed.

    >>> import tempfile
    >>> from volt.stream.reading.source import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\\nb\\nc\\n") and file.flush()
    ...     plan(Stream([Source("letters", (file.name,))]), at=12, seconds=0.01).sources["letters"].epochs
    4.0
    """
    arguments.instance(stream, Stream, "stream")
    at, seconds = arguments.whole(at, "at", low=0), arguments.number(seconds, "seconds")
    weights = [source.source.weight for source in stream.sources]
    owed, epoch = shares_of(weights).owed, stream.epoch_lines
    inputs = [(units / UNIT, more / UNIT / max(1, at)) for units, more in zip(owed(at), owed(max(1, at)), strict=True)]
    for source in stream.sources:
        _warm_up(source, stream)
    with watched() as memory:
        first = [_computed(source, stream) for source in stream.sources]
        speed = measure(stream, seconds=seconds)
    sources = {
        source.name: _source_plan(source, block, lines=lines, share=share, epoch=epoch)
        for source, (lines, share), block in zip(stream.sources, inputs, first, strict=True)
    }
    return Plan(at, sources, max(int(_GROWTH * memory.peak), memory_bound(stream, first)), speed, epoch)


def _warm_up(source: OpenSource, stream: Stream) -> None:
    """Load what the computation of blocks needs, which is no data; what it reads is dropped."""
    compute_block(copy(source), Address(BlockRange(0, 0, min(_FEW, source.n_lines)), 0), stream.policy)
    give_back()


@dataclass(frozen=True, slots=True)
class _Block:
    """The first block of a source.

    n_lines: that it gives.
    n_read: lines that it was made from.
    size: bytes that it takes when it is done.
    work: bytes that its computation takes at most, with the block itself.
    """

    n_lines: int
    n_read: int
    size: int
    work: int


def _computed(source: OpenSource, stream: Stream) -> _Block:
    """Return the first block of a source. Raises StreamError if it cannot be computed."""
    with watched() as memory:
        if (
            source.chunk_lines < source.block_lines < source.n_lines
        ):  # the lines of a part are kept until the next is read
            n_lines = min(source.block_lines, source.n_lines - source.block_lines)
            compute_block(source, Address(BlockRange(0, source.block_lines, n_lines), 0), stream.policy)
        block = compute_block(source, _first(source), stream.policy)
    if block.error:
        raise StreamError(block.error)
    size = block.data.nbytes + block.ends.nbytes
    return _Block(block.n_lines, block.n_read, size, max(memory.peak, size))


def _first(source: OpenSource) -> Address:
    return Address(BlockRange(0, 0, min(source.block_lines, source.n_lines)), 0)


def _source_plan(source: OpenSource, block: _Block, *, lines: float, share: float, epoch: int | None) -> SourcePlan:
    """Return a source's part. share: of the stream's lines;  epoch: lines of a virtual one."""
    out = block.n_lines / block.n_read

    def passes(lines: float) -> float:
        return lines / out / source.n_lines if out else float("inf")

    inputs = (None, None) if epoch is None else (epoch * share, passes(epoch * share))
    return SourcePlan(lines, source.n_lines, out, passes(lines), source.block_lines, share, *inputs)


def memory_bound(stream: Stream, first: Sequence[_Block]) -> int:
    """Bytes that the stream's data take at most, about: blocks in use, ready and in work."""
    sizes, n_workers = [block.size for block in first], stream.n_workers
    ready = sum(sizes) + n_workers * max(sizes) if n_workers else 0
    return sum(sizes) + ready + max(1, n_workers) * max(block.work for block in first)


def measure(stream: Stream, *, seconds: float) -> float | None:
    """Lines per second that the reader of a pipe gets in so many seconds; None if the first block is all there is.

    What workers have computed before the first line comes is written first, and not counted, unless that takes longer
    or the stream ends before.
    """
    longest = max(source.block_lines for source in stream.sources)
    ahead = sum(source.block_lines for source in stream.sources) + 2 * stream.n_workers * longest
    with _reader() as pipe, stream.rehearsal() as rehearsal:  # its workers may hold the pipe: they end first
        place, marks = rehearsal.place(), list[tuple[int, float]]()
        first, rest = rehearsal.blocks(limit=place[1].part.n_lines if place else 1), rehearsal.blocks()
        for blocks, most, inputs in ((first, 1, 0.0), (rest, ahead, seconds), (rest, None, seconds)):
            _write(blocks, pipe, rehearsal, most=most, given=inputs)
            marks.append((rehearsal.n, time.perf_counter()))
    rates = [(n - before) / (end - start) for (before, start), (n, end) in pairwise(marks) if n > before]
    return rates[-1] if rates else None


def _write(blocks: Iterator[bytes], pipe: int, stream: Stream, *, most: int | None, given: float) -> None:
    """Write blocks until the stream has given so many lines, or the given seconds are over; one if there are none."""
    late = time.perf_counter() + given
    while (data := next(blocks, None)) is not None:
        left = memoryview(data)
        while left:
            written = os.write(pipe, left[:_READ_SIZE])
            bytes(left[:written]).count(b"\n")  # as `volt stream run` counts what has left
            left = left[written:]
        if (most is not None and stream.n >= most) or time.perf_counter() >= late:
            return


@contextmanager
def _reader() -> Iterator[int]:
    """A pipe to write to; somebody reads it."""
    stored, current = os.pipe()
    reader = threading.Thread(target=_read, args=(stored,), daemon=True)
    reader.start()
    try:
        yield current
    finally:
        os.close(current)
        reader.join()
        os.close(stored)


def _read(pipe: int) -> None:
    """Read to the end, and look for line ends, as a trainer does."""
    while data := os.read(pipe, _READ_SIZE):
        data.count(b"\n")
