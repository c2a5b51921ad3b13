"""`Engine`: the position of a stream, and the lines that it can deliver next.

`Stream` is the only class that derives from `Engine`.

A stream delivers lines in steps, and counts them in two stages:

    1  Engine   `_prepare` commits the lines of the step before, plans turns, and loads chunks,
                until the next n lines are in the buffers.
    2  Stream   mixes the first n of `_turns` from `_buffers`, and changes neither.
    3  Stream   yields lines, and raises `_n_uncommitted` by the number of lines that it yields.

So a reader may stop after any line of a step. The position is then `_committed`, advanced by the
first `_n_uncommitted` turns (`_state_at`). Committing drops these turns, drains the buffers, and
advances the mixture and the history.

    turns     a b a a b a …    The mixture plans which source gives each of the next lines.
    openings  a₀ b₀     a₁     Chunk a₁ is opened when chunk a₀ has no lines left.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from volt.array_types import Longs
from volt.display import counted
from volt.errors import StreamError, VoltError, quoted
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.error_policy import ErrorPolicy, FaultCounter, kind_of
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.unread_lines import rank_blocks
from volt.stream.running.chunk_computation import Address, Form, full_chunk_lines, n_chunks
from volt.stream.running.openings import (
    Opening,
    ReadCounts,
    StateHistory,
    advance_state,
    select_reached,
)
from volt.stream.running.prefetch import Prefetcher, Workers, start_prefetcher
from volt.stream.running.source_buffer import SourceBuffer, sort_turns
from volt.stream.running.state import Cursor, State

Ends = Literal["stop", "drop"]
WINDOW = 1 << 16  # turns planned at a time
# Plan more turns when fewer are left; maximum lines of a step if a source has Python code
_FEW = 1 << 13
_PATIENCE = 0.05  # seconds of loading chunks for later lines, before the next line is delivered


@dataclass(eq=False, repr=False)
class Engine:
    """The position of a stream, and the buffers of its sources. See `Stream` for the options.

    _committed: the state before the lines of the current step.
    _n_uncommitted: lines delivered since `_committed`; only `Stream` raises it.
    _turns: the source index of each line after `_committed`, as far as the turns are planned.
    _openings: the chunks that were opened for these turns.
    _later_error: a line, and the error of a chunk to raise before this line.
    _last_openings: source index → the chunk of its last committed line.
    _step: the number of the step; a new step makes the iterators of earlier steps stale.
    """

    sources: tuple[OpenSource, ...]
    ends: Ends
    policy: ErrorPolicy
    recall: int
    workers: Workers
    configuration: dict[str, Any]

    def __post_init__(self) -> None:
        self.rank = self.configuration["rank"]
        self.world = self.configuration["world"]
        self._form: Form = "lines"  # the content of chunks computed from now on
        self._prefetcher: Prefetcher | None = None  # None until a chunk is needed
        self._pid = os.getpid()  # the process that started the workers
        self._step = 0
        self._lock = threading.RLock()  # for threads that read the stream
        self._move_to(State(0, {}, self.configuration))

    # the position

    def _move_to(self, state: State) -> None:
        """Continue from a state: of all sources' cursors, buffers and counts, nothing remains."""
        self._close_workers()
        names = [source.name for source in self.sources]
        cursors = {name: state.cursors.get(name, Cursor()) for name in names}
        self.sources = tuple(source.growing(cursors[source.name].grown) for source in self.sources)
        for source in self.sources:
            cursors[source.name].check(
                source.name,
                n_lines=source.n_lines,
                block_lines=source.block_lines,
                rank=self.rank,
                world=self.world,
            )
        base = {name: state.base.get(name, 0) for name in names}
        self._committed = replace(
            state, cursors=cursors, base=base, configuration=self.configuration, merged=0
        )
        ended = frozenset(names.index(name) for name in state.ended if name in names)
        self._mixture = Mixture(
            self._rank_weights(),
            counts=np.array([cursor.lines for cursor in cursors.values()]),
            ended=ended,
            since=state.since,
            base=np.array([*base.values()]),
        )
        self._is_over = len(ended) == len(names) or (self.ends == "stop" and bool(ended))
        self._turns = np.empty(0, np.int64)
        self._n_uncommitted = 0
        self._step += 1
        self._n_at_start = state.n
        self._start_time: float | None = None  # None until the first step
        self._field_counts = Counter[int]()
        self._history = StateHistory(self.recall, n_sources=len(names))
        self._last_openings = dict[int, Opening]()
        self._reset_buffers()

    def _rank_weights(self) -> list[Weight]:
        weights = list[Weight]()
        for source in self.sources:
            weight = source.source.weight
            if isinstance(weight, Schedule):
                weight = weight.of_rank(self.rank, self.world)
            weights.append(weight)
        return weights

    def _reset_buffers(self) -> None:
        """Drop all chunks; the buffers then continue from the committed state."""
        state = self._committed
        self._buffers = [SourceBuffer(name, cursor) for name, cursor in state.cursors.items()]
        self._openings = list[Opening]()
        self._later_error: tuple[int, VoltError] | None = None
        self._fault_counter = FaultCounter(
            self.policy, state.n_read, state.n_faults, Counter(state.reasons)
        )

    @property
    def n(self) -> int:
        """Lines delivered so far, over all runs."""
        return self._committed.n + self._n_uncommitted

    def _state_at(self, n: int) -> State:
        """Return the state before line n of the stream, a line of the current step."""
        return advance_state(self._committed, self._turns[: n - self._committed.n], self._openings)

    def _commit(self) -> None:
        """Count the delivered lines in the committed state, and in all that depends on it."""
        if not self._n_uncommitted:
            return
        turns = self._turns[: self._n_uncommitted]
        self._turns = self._turns[self._n_uncommitted :]
        reached = select_reached(self._openings, self.n)
        self._n_uncommitted = 0
        self._history.add(self._committed, turns, reached)
        self._committed = advance_state(self._committed, turns, reached)
        self._last_openings |= {opening.source: opening for opening in reached}
        reached_ids = set(map(id, reached))
        self._openings = [opening for opening in self._openings if id(opening) not in reached_ids]
        self._mixture.advance(turns)
        counts = np.bincount(turns, minlength=len(self._buffers)).tolist()
        for buffer, n in zip(self._buffers, counts, strict=True):
            if n:
                buffer.drain(n)

    # the next lines

    def _prepare(self, most: int | None, form: Form | None = None) -> int | None:
        """Begin a step. Return how many lines can be delivered, from 1 to `most`; None at the end.

        form: the content of the lines; by default the form of the step before
        """
        if form not in (None, self._form):
            self._release()
            self._form = form
        if self._prefetcher is not None and self._pid != os.getpid():
            self._release()  # a forked process has no workers
        self._commit()
        self._step += 1
        if self._start_time is None:
            self._start()
        is_compiled = all(source.is_compiled for source in self.sources)
        limit = WINDOW if is_compiled else _FEW
        most = min(most or limit, limit)
        while not self._is_over:
            if len(self._turns) < min(most, _FEW):
                self._turns = self._mixture.peek(WINDOW)
                self._update_shares()
            if not len(self._turns):  # no source has a weight any more
                self._is_over = True
                break
            n_lines = self._load_chunks(self._turns[:most])
            if n_lines:
                return n_lines
            self._end_source(int(self._turns[0]))
        self._close_workers()
        return None

    def _start(self) -> None:
        self._start_time = time.monotonic()
        if self._n_at_start:
            return
        for source in self.sources:  # count the shards that could not be read
            self._fault_counter.charge(n_read=0, faults=source.faults)
            counts = ReadCounts(0, Counter(map(kind_of, source.faults)))
            self._committed = counts.add_to(self._committed)

    def _load_chunks(self, turns: Longs) -> int:
        """Load the chunk for the first turn, and chunks for later turns while that is fast.

        Return how many of the turns have lines; 0 if the source of the first turn has ended.
        """
        n = self._committed.n
        if self._later_error is not None:
            error_line, error = self._later_error
            if error_line == n:
                self._later_error = None
                raise error
            turns = turns[: error_line - n]
        buffers = self._buffers
        counts = np.bincount(turns, minlength=len(buffers)).tolist()
        lacking = [source for source, count in enumerate(counts) if count > buffers[source].n_lines]
        if not lacking:
            return len(turns)

        # A heap of (index of the first turn that a source cannot serve, the source). The turns of
        # source s are by_source[firsts[s]], by_source[firsts[s] + 1], …
        by_source = sort_turns(turns, len(buffers))
        firsts = np.cumsum([0, *counts]).tolist()
        unserved = [
            (int(by_source[firsts[source] + buffers[source].n_lines]), source) for source in lacking
        ]
        heapq.heapify(unserved)
        deadline = time.monotonic() + _PATIENCE
        while unserved:
            turn, source = unserved[0]
            if turn and not self._is_fast(source, deadline):
                return turn
            if not self._load_chunk(source, n + turn):
                return turn
            n_lines = buffers[source].n_lines
            if n_lines < counts[source]:
                heapq.heapreplace(unserved, (int(by_source[firsts[source] + n_lines]), source))
            else:
                heapq.heappop(unserved)
        return len(turns)

    def _is_fast(self, source: int, deadline: float) -> bool:
        if time.monotonic() > deadline:
            return False
        if self.sources[source].is_compiled:
            return True  # of Python code, the time is unknown
        return self._prefetcher is not None and self._prefetcher.is_ready(source)

    def _load_chunk(self, source: int, n: int) -> bool:
        """Load the next chunk of a source, whose first line will be line n of the stream.

        Return False if the source has ended, or if the chunk must wait until line n is the next
        line: it contains an error, or it begins a new epoch of the only source.
        """
        buffer = self._buffers[source]
        is_next = n == self._committed.n
        if buffer.has_ended or (buffer.waiting and not is_next):
            return False
        taken = buffer.waiting
        if taken is None:
            with self._releasing_on_error():
                taken = (self._prefetcher or self._start_workers()).take(source)
        if taken is None:
            buffer.has_ended = True
            return False

        address, chunk = taken
        begins_epoch = len(self._buffers) == 1 and address.block.epoch != buffer.end.epoch
        if (chunk.error or begins_epoch) and not is_next:
            buffer.waiting = taken
            return False
        buffer.waiting = None
        if chunk.error:
            self._release()
            raise StreamError(chunk.error)
        opening = buffer.load(address, chunk, source=source, n=n)
        self._openings.append(opening)
        counts = opening.counts
        if not counts.n_read and not counts.reasons:
            return True  # the state already counts its lines
        self._field_counts.update(chunk.fields)
        try:
            self._fault_counter.charge(n_read=counts.n_read, faults=chunk.faults)
            # a good line may be the first of one epoch, and the last of the next
            if buffer.n_read_in_vain >= 2 * self.sources[source].n_lines:
                raise self._no_output_error(buffer.name)
        except VoltError as error:
            if is_next:
                raise
            self._later_error = n, error
            return False
        return True

    def _no_output_error(self, name: str) -> StreamError:
        problem = f"source {name!r}: no line of an epoch passes its transforms"
        counter = self._fault_counter
        if not counter.n_faults:
            return StreamError(f"{problem}; loosen its filters")
        [(reason, n)] = counter.reasons.most_common(1)
        n_read = counted(counter.n_read, "line")
        unfit = f"{counter.n_faults:,} of {n_read} that the stream has read are unfit"
        fix = "fix the lines, or the step that refuses them"
        return StreamError(f"{problem}; {unfit}, {n:,} of them for {quoted(reason)}; {fix}")

    def _end_source(self, source: int) -> None:
        mixture = self._mixture.end(source)
        if mixture is None or self.ends == "stop":
            self._is_over = True
            return
        self._mixture = mixture
        self._turns = np.empty(0, np.int64)
        names = [*self._committed.cursors]
        self._committed = replace(
            self._committed,
            since=mixture.since,
            base=dict(zip(names, mixture.base.tolist(), strict=True)),
            ended=tuple(names[index] for index in sorted(mixture.ended)),
        )

    # workers

    def _start_workers(self) -> Prefetcher:
        queues = [
            chunk_addresses(source, buffer.end, rank=self.rank, world=self.world)
            for source, buffer in zip(self.sources, self._buffers, strict=True)
        ]
        prefetcher = start_prefetcher(
            self.sources, queues, self.workers, policy=self.policy, form=self._form
        )
        self._finalizer = weakref.finalize(self, prefetcher.close)
        self._pid = os.getpid()
        prefetcher.set_shares(self._mixture.shares())
        self._prefetcher = prefetcher
        return prefetcher

    def _update_shares(self) -> None:
        """Give the workers the sources' shares of the next lines, and request chunks."""
        with self._releasing_on_error():
            if self._prefetcher is not None:
                self._prefetcher.set_shares(self._mixture.shares())

    @contextmanager
    def _releasing_on_error(self) -> Iterator[None]:
        try:
            yield
        except StreamError:
            self._release()
            raise

    def _release(self) -> None:
        """Stop the workers, and drop the chunks that they have computed."""
        self._commit()
        if self._prefetcher is not None:
            self._close_workers()
            self._reset_buffers()

    def _close_workers(self) -> None:
        if self._prefetcher is None:
            return
        self._finalizer.detach()
        if self._pid == os.getpid():
            self._prefetcher.close()
        self._prefetcher = None


def chunk_addresses(
    source: OpenSource, cursor: Cursor, *, rank: int, world: int
) -> Iterator[Address]:
    """Yield the addresses of a rank's chunks of a source, from the chunk of the cursor on."""
    blocks = rank_blocks(
        source.n_lines,
        source.block_lines,
        rank=rank,
        world=world,
        unread=cursor.unread,
        epochs=source.source.epochs,
        start=cursor.block_address,
    )
    for block in blocks:
        first = cursor.chunk if block.address == cursor.block_address else 0
        for chunk in range(first, n_chunks(block.n_lines, most=full_chunk_lines(source, block))):
            yield Address(block, chunk)
