"""`Engine`: the position of a stream, and the number of lines that it can deliver next.

    turns     a b a a b a …    the mixture plans which source gives each of the next lines
    openings  a₀ b₀     a₁     chunk a₁ is opened when chunk a₀ has no lines left

Delivered lines are counted when the next lines are requested; only then do the state and the open chunks advance.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from volt.display import counted
from volt.errors import StreamError, VoltError, quoted
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.error_policy import ErrorPolicy, FaultCounter, kind_of
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.unread_lines import rank_blocks
from volt.stream.running.chunk_computation import Address, Form, full_chunk_lines, n_chunks
from volt.stream.running.prefetch import Pool, Prefetcher, ThisThread, Threads, computed
from volt.stream.running.processes import Processes, StartMethod
from volt.stream.running.source_buffer import Longs, SourceBuffer, by_source
from volt.stream.running.state import (
    Cursor,
    FaultCounts,
    Opening,
    State,
    advanced,
    reached,
)
from volt.stream.running.summary import VirtualEpoch, epoch_lines, virtual_epoch

Ends = Literal["stop", "drop"]
WINDOW = 1 << 16  # turns planned at a time
_FEW = 1 << 13  # plan more turns when fewer are left
_PATIENCE = 0.05  # seconds of loading chunks for later lines, before the next line is delivered
_AHEAD = 2  # chunks to request ahead for each worker


class Engine:
    """The reading part of a `Stream`: its position, and the buffers of its sources."""

    def __init__(
        self,
        sources: tuple[OpenSource, ...],
        *,
        ends: Ends,
        policy: ErrorPolicy,
        recall: int,
        n_workers: int,
        start_method: StartMethod,
        time_limit: float | None,
        configuration: dict[str, Any],
    ) -> None:
        self.sources, self.ends, self.policy, self.configuration = (
            sources,
            ends,
            policy,
            configuration,
        )
        self.rank, self.world = configuration["rank"], configuration["world"]
        self.n_workers, self.start_method, self.time_limit = n_workers, start_method, time_limit
        self._mixture = Mixture(self._weights())
        self._form: Form = "lines"  # the content of chunks computed from now on
        self._prefetcher: Prefetcher | None = None  # None until a chunk is needed
        self._compiled = True  # False once a source has been seen to run Python code
        self._pid = os.getpid()  # the process that started the workers
        self._n_recalled, self._run = recall, 0  # a new run makes earlier iterators stale
        self._lock = threading.RLock()  # for threads that read the stream
        self._stand_at(State(0, {}, configuration))

    def _weights(self) -> list[Weight]:
        weights = [source.source.weight for source in self.sources]
        return [
            weight.of_rank(self.rank, self.world) if isinstance(weight, Schedule) else weight
            for weight in weights
        ]

    @property
    def epoch_lines(self) -> int | None:
        """The number of lines in a virtual epoch, for all ranks together; for a single source, its number of lines.

        None if weights change, or if one of several sources ends. Lines that transforms drop count too.
        """
        return epoch_lines(self.sources)

    def passes(self) -> VirtualEpoch | None:
        """Return the last line's virtual epoch; None if there is none. New weights or ranks restart the numbering."""
        if (n_lines := self.epoch_lines) is None:
            return None
        with self._lock:
            cursors = [*self._state().cursors.values()]
            return virtual_epoch(
                self.sources,
                self._in_use(),
                cursors,
                self._mixture,
                n_lines=n_lines,
                rank=self.rank,
                world=self.world,
            )

    # position

    def _stand_at(self, state: State) -> None:
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
        self._settled = replace(
            state, cursors=cursors, base=base, configuration=self.configuration, merged=0
        )
        ended = frozenset(names.index(name) for name in state.ended if name in names)
        counts = np.array([cursor.lines for cursor in cursors.values()])
        self._mixture = Mixture(
            self._weights(), counts, ended, state.since, np.array([*base.values()])
        )
        self._over = len(ended) == len(names) or (self.ends == "stop" and bool(ended))
        self._turns, self._n_given = np.empty(0, np.int64), 0
        self._run += 1
        self._fields, self._first, self._started = Counter[int](), state.n, 0.0
        self._recall = StateHistory(self._n_recalled, n_sources=len(names))
        self._last = dict[int, Opening]()  # source → the chunk of its last line
        self._empty()

    def _empty(self) -> None:
        settled = self._settled
        self._buffers = [SourceBuffer(name, cursor) for name, cursor in settled.cursors.items()]
        self._openings = list[Opening]()
        self._failure: tuple[int, VoltError] | None = (
            None  # a later chunk's error; the line before which to raise it
        )
        self._tally = FaultCounter(
            self.policy, settled.n_read, settled.n_faults, Counter(settled.reasons)
        )

    def _state(self, n: int | None = None) -> State:
        n_turns = self._n_given if n is None else n - self._settled.n
        return advanced(self._settled, self._turns[:n_turns], self._openings)

    def _in_use(self) -> dict[int, Opening]:
        n = self._settled.n + self._n_given
        return self._last | {opening.source: opening for opening in reached(self._openings, n)}

    def _settle(self) -> None:
        n_turns, self._n_given = self._n_given, 0
        if not n_turns:
            return
        turns, self._turns = self._turns[:n_turns], self._turns[n_turns:]
        opened = reached(self._openings, self._settled.n + n_turns)
        before, self._settled = self._settled, advanced(self._settled, turns, opened)
        self._last |= {opening.source: opening for opening in opened}
        done = set(map(id, opened))
        self._openings = [opening for opening in self._openings if id(opening) not in done]
        self._recall.add(before, turns, opened)
        self._mixture.advance(turns)
        for buffer, n in zip(
            self._buffers, np.bincount(turns, minlength=len(self._buffers)).tolist(), strict=True
        ):
            if n:
                buffer.drain(n)

    # reading

    def _next(self, most: int | None, form: Form | None = None) -> int | None:
        """Return how many lines can be delivered at once, at least one; None at the end."""
        if form not in (None, self._form):
            self._release()
            self._form = form
        if (
            self._prefetcher is not None and self._pid != os.getpid()
        ):  # a forked process has no workers
            self._release()
        self._settle()
        self._run += 1
        if not self._started:
            self._started = time.monotonic()
            for source in self.sources if self._first == 0 else ():  # shards that could not be read
                self._tally.charge(n_read=0, faults=source.faults)
                self._settled = FaultCounts(0, Counter(map(kind_of, source.faults))).added_to(
                    self._settled
                )
        most = min(
            most or WINDOW, WINDOW if self._compiled else _FEW
        )  # Python code computes small chunks
        while not self._over:
            if len(self._turns) < min(most, _FEW):
                self._turns = self._mixture.peek(WINDOW)
                self._expect()
            if not len(self._turns):  # no source has a weight any more
                self._over = True
            elif size := self._fill(self._turns[:most]):
                return size
            else:
                self._end(int(self._turns[0]))
        self._close_workers()
        return None

    def _fill(self, turns: Longs) -> int:
        """Load the chunk for the first turn, and later chunks while that is fast. Return how many turns have lines."""
        n, buffers = self._settled.n, self._buffers
        if self._failure is not None:
            at, error = self._failure
            if at == n:
                self._failure = None
                raise error
            turns = turns[: at - n]
        counts = np.bincount(turns, minlength=len(buffers)).tolist()
        short = [source for source, count in enumerate(counts) if count > buffers[source].left]
        if not short:
            return len(turns)
        order, first = by_source(turns, len(buffers)), np.cumsum([0, *counts]).tolist()
        needs = [(int(order[first[source] + buffers[source].left]), source) for source in short]
        heapq.heapify(needs)
        deadline = time.monotonic() + _PATIENCE
        while needs:
            place, source = needs[0]
            is_ready = self._prefetcher is not None and self._prefetcher.is_ready(source)
            is_prompt = (
                self.sources[source].is_compiled or is_ready
            )  # nobody knows how long Python code runs
            waits = place and (time.monotonic() > deadline or not is_prompt)
            if waits or not self._load(source, n + place):
                return place
            if (left := buffers[source].left) < counts[source]:
                heapq.heapreplace(needs, (int(order[first[source] + left]), source))
            else:
                heapq.heappop(needs)
        return len(turns)

    def _load(self, source: int, n: int) -> bool:
        """Load the next chunk of a source for line n. Return False if the source has ended or the chunk must wait."""
        buffer, is_next = self._buffers[source], n == self._settled.n
        if buffer.has_ended or (buffer.waiting and not is_next):
            return False
        if (taken := buffer.waiting) is None:
            with self._releasing():
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
        if (
            not opening.counts.n_read and not opening.counts.reasons
        ):  # the state already counts its lines
            return True
        self._fields.update(chunk.fields)
        try:
            self._tally.charge(n_read=opening.counts.n_read, faults=chunk.faults)
            most_empty = (
                2 * self.sources[source].n_lines
            )  # from an epoch's first line to the next epoch's last
            if buffer.n_empty >= most_empty:
                raise self._nothing_passes(buffer.name)
        except VoltError as error:
            if is_next:
                raise
            self._failure = n, error
            return False
        return True

    def _nothing_passes(self, name: str) -> StreamError:
        message, tally = f"source {name!r}: no line of an epoch passes its transforms", self._tally
        if not tally.n_faults:
            return StreamError(f"{message}; loosen its filters")
        [(reason, n)] = tally.reasons.most_common(1)
        unfit = f"{tally.n_faults:,} of {counted(tally.n_read, 'line')} that the stream has read are unfit"
        fix = "fix the lines, or the step that refuses them"
        return StreamError(f"{message}; {unfit}, {n:,} of them for {quoted(reason)}; {fix}")

    def _end(self, source: int) -> None:
        mixture = self._mixture.end(source)
        if mixture is None or self.ends == "stop":
            self._over = True
            return
        self._mixture, self._turns = mixture, np.empty(0, np.int64)
        names = [*self._settled.cursors]
        self._settled = replace(
            self._settled,
            since=mixture.since,
            base=dict(zip(names, mixture.base.tolist(), strict=True)),
            ended=tuple(names[index] for index in sorted(mixture.ended)),
        )

    def _counts(self) -> tuple[int, dict[str, int]]:
        n = self._settled.n + self._n_given
        ahead = (
            [] if self._over else [opening.counts for opening in self._openings if opening.n >= n]
        )
        reasons = Counter(self._tally.reasons)
        for counts in ahead:
            reasons.subtract(counts.reasons)
        n_read = self._tally.n_read - sum(counts.n_read for counts in ahead)
        return n_read, {kind: number for kind, number in reasons.items() if number}

    # workers

    def _start_workers(self) -> Prefetcher:
        queues = [
            addresses(source, buffer.end, rank=self.rank, world=self.world)
            for source, buffer in zip(self.sources, self._buffers, strict=True)
        ]
        compiled = [source.is_compiled for source in self.sources]
        self._compiled = all(compiled)
        n_workers = self.n_workers or int(self.time_limit is not None and not all(compiled))
        pools = dict[
            bool, Pool
        ]()  # keys: are all transforms compiled? Python code would block threads
        compute = partial(computed, sources=self.sources, policy=self.policy, form=self._form)
        if not n_workers:
            pools = dict.fromkeys((True, False), ThisThread(compute))
        elif not self._compiled:
            pools[False] = Processes(
                self.sources,
                self.policy,
                n=n_workers,
                start_method=self.start_method,
                time_limit=self.time_limit,
                form=self._form,
            )
        if n_workers and any(compiled):
            pools[True] = Threads(compute, n=n_workers)
        own = [pools[is_compiled] for is_compiled in compiled]
        chunks = Prefetcher(self.sources, queues, own, most=_AHEAD * n_workers)
        self._finalizer, self._pid = weakref.finalize(self, chunks.close), os.getpid()
        chunks.expect(self._mixture.shares())
        self._prefetcher = chunks
        return chunks

    def _expect(self) -> None:
        with self._releasing():
            if self._prefetcher is not None:
                self._prefetcher.expect(self._mixture.shares())

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        try:
            yield
        except StreamError:
            self._release()
            raise

    def _release(self) -> None:
        self._settle()
        if self._prefetcher is not None:
            self._close_workers()
            self._empty()

    def _close_workers(self) -> None:
        if self._prefetcher is None:
            return
        self._finalizer.detach()
        if self._pid == os.getpid():
            self._prefetcher.close()
        self._prefetcher = None


def addresses(source: OpenSource, cursor: Cursor, *, rank: int, world: int) -> Iterator[Address]:
    blocks = rank_blocks(
        source.n_lines,
        source.block_lines,
        rank=rank,
        world=world,
        unread=cursor.unread,
        epochs=source.source.epochs,
        start=cursor.address,
    )
    for block in blocks:
        first = cursor.chunk if block.address == cursor.address else 0
        for chunk in range(first, n_chunks(block.n_lines, most=full_chunk_lines(source, block))):
            yield Address(block, chunk)


_MOST_CURSORS = 1 << 13  # cursors in all retained states, about 200 bytes each
_MOST_OPENINGS = 1 << 14  # openings in all runs, about 500 bytes each
_RUN_OPENINGS = 1 << 8  # openings in one run; `at` reads all openings of a run


@dataclass(slots=True)
class _Run:
    state: State
    turns: bytearray  # unsigned integers, as small as the number of sources allows
    openings: list[Opening]


class StateHistory:
    """The source of each of the last `n_lines` lines, and earlier states from which later states are computed."""

    def __init__(self, n_lines: int, *, n_sources: int) -> None:
        self._n_lines, self._n_openings = n_lines, 0
        self._kind, self._most = np.min_scalar_type(n_sources), max(1, _MOST_CURSORS // n_sources)
        self._runs = deque[_Run]()

    def add(self, state: State, turns: Longs, openings: Sequence[Opening]) -> None:
        if not self._n_lines:
            return
        last = self._runs[-1] if self._runs else None
        is_changed = last is None or (last.state.since, last.state.ended) != (
            state.since,
            state.ended,
        )
        if last is None or is_changed or len(last.openings) >= _RUN_OPENINGS:
            last = _Run(state, bytearray(), [])
            self._runs.append(last)
        last.turns += turns.astype(self._kind).tobytes()
        last.openings += openings
        self._n_openings += len(openings)
        oldest = state.n + len(turns) - self._n_lines
        while len(self._runs) > 1 and (
            self._runs[1].state.n <= oldest
            or len(self._runs) > self._most
            or self._n_openings > _MOST_OPENINGS
        ):
            self._n_openings -= len(self._runs.popleft().openings)

    def at(self, sample: int, *, n: int) -> State:
        """Return the state after `sample` of the `n` delivered lines. Raises StreamError if the line is too old."""
        for run in reversed(self._runs if n - sample <= self._n_lines else ()):
            first, n_turns = run.state.n, len(run.turns) // self._kind.itemsize
            if first < sample <= first + n_turns or (first == sample and run is self._runs[0]):
                return advanced(
                    run.state,
                    np.frombuffer(bytes(run.turns), self._kind, sample - first),
                    run.openings,
                )
        oldest = max(self._runs[0].state.n, n - self._n_lines) if self._runs else n
        raise StreamError(
            f"line {sample} cannot be recalled; give a line from {oldest} to {n}, or raise recall"
        )
