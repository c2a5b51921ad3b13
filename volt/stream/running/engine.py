"""`Engine`: the position of a stream, and the number of lines that it can deliver next.

    turns     a b a a b a …    the mixture plans which source gives each of the next lines
    openings  a₀ b₀     a₁     chunk a₁ is opened when chunk a₀ has no lines left

Delivered lines are counted when the next lines are requested; only then do the settled state and the buffers advance.
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
from functools import partial
from typing import Any, Literal

import numpy as np

from volt.display import counted
from volt.errors import StreamError, VoltError, quoted
from volt.stream.mixing.mixture import Mixture, virtual_size
from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.error_policy import ErrorPolicy, FaultCounter, kind_of
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.unread_lines import rank_blocks
from volt.stream.running.chunk_computation import Address, Form, full_chunk_lines, n_chunks
from volt.stream.running.prefetch import Pool, Prefetcher, ThisThread, Threads, computed
from volt.stream.running.processes import Processes, StartMethod
from volt.stream.running.recall import StateHistory
from volt.stream.running.source_buffer import SourceBuffer, by_source
from volt.stream.running.state import Cursor, FaultCounts, Opening, State, advanced, reached
from volt.stream.running.summary import SourcePasses, VirtualEpoch, epochs_read
from volt.stream.transforms.column import Longs

Ends = Literal["stop", "drop"]
WINDOW = 1 << 16  # turns planned at a time
# Plan more turns when fewer are left; maximum lines at once of sources with Python code
_FEW = 1 << 13
_PATIENCE = 0.05  # seconds of loading chunks for later lines, before the next line is delivered
_AHEAD = 2  # chunks to request ahead for each worker


@dataclass(eq=False, repr=False)
class Engine:
    """The reading part of a `Stream`: its position, and the buffers of its sources.

    _settled: the state before the lines that were delivered last; `_n_given` is their number.
    _turns: the sources of the lines after the settled state, as far as they are planned.
    _openings: the chunks that were opened for these turns.
    _failure: a later chunk's error, and the line before which to raise it.
    _last: source → the chunk of its last settled line.
    """

    sources: tuple[OpenSource, ...]
    ends: Ends
    policy: ErrorPolicy
    recall: int
    n_workers: int
    start_method: StartMethod
    time_limit: float | None
    configuration: dict[str, Any]

    def __post_init__(self) -> None:
        self.rank = self.configuration["rank"]
        self.world = self.configuration["world"]
        self._form: Form = "lines"  # the content of chunks computed from now on
        self._prefetcher: Prefetcher | None = None  # None until a chunk is needed
        self._pid = os.getpid()  # the process that started the workers
        self._run = 0  # a new run makes earlier iterators stale
        self._lock = threading.RLock()  # for threads that read the stream
        self._stand_at(State(0, {}, self.configuration))

    @property
    def epoch_lines(self) -> int | None:
        """The number of lines in a virtual epoch, for all ranks together; for a single source, its number of lines.

        None if weights change, or if one of several sources ends. Lines that transforms drop count too.
        """
        sizes = [source.n_lines for source in self.sources]
        if len(sizes) == 1:
            return sizes[0]
        weights = list[float]()
        for opened in self.sources:
            if opened.source.epochs is not None or isinstance(opened.source.weight, Schedule):
                return None
            weights.append(opened.source.weight)
        return virtual_size(sizes, weights)

    def passes(self) -> VirtualEpoch | None:
        """Return the last line's virtual epoch; None if there is none. New weights or ranks restart the numbering."""
        n_lines = self.epoch_lines
        if n_lines is None:
            return None
        with self._lock:
            state = self._state()
            since = state.since
            number = max(0, (state.n - since) * self.world - 1 - self.rank) // n_lines
            start = since + (number * n_lines + self.rank) // self.world
            end = since + ((number + 1) * n_lines + self.rank) // self.world
            counts = self._mixture.counts_at(start).tolist()
            shares = self._mixture.shares()
            epochs = self._epochs(state)
            sources = dict[str, SourcePasses]()
            for name, count, share in zip(epochs, counts, shares, strict=True):
                lines = state.cursors[name].lines - count
                realised = lines / max(1, state.n - start)
                sources[name] = SourcePasses(lines, int(epochs[name]), share, realised)
            return VirtualEpoch(number, end - start, state.n - start, sources)

    def _epochs(self, state: State) -> dict[str, float]:
        """Return source name → how often it was read, as a fraction."""
        opened = reached(self._openings, state.n)
        last = self._last | {opening.source: opening for opening in opened}
        return {
            source.name: epochs_read(source, state.cursors[source.name], last.get(index))
            for index, source in enumerate(self.sources)
        }

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
        base_counts = np.array([*base.values()])
        self._mixture = Mixture(self._weights(), counts, ended, state.since, base_counts)
        self._over = len(ended) == len(names) or (self.ends == "stop" and bool(ended))
        self._turns = np.empty(0, np.int64)
        self._n_given = 0
        self._run += 1
        self._fields = Counter[int]()
        self._first = state.n
        self._started = 0.0
        self._recall = StateHistory(self.recall, n_sources=len(names))
        self._last = dict[int, Opening]()
        self._empty()

    def _weights(self) -> list[Weight]:
        weights = list[Weight]()
        for source in self.sources:
            weight = source.source.weight
            if isinstance(weight, Schedule):
                weight = weight.of_rank(self.rank, self.world)
            weights.append(weight)
        return weights

    def _empty(self) -> None:
        settled = self._settled
        self._buffers = [SourceBuffer(name, cursor) for name, cursor in settled.cursors.items()]
        self._openings = list[Opening]()
        self._failure: tuple[int, VoltError] | None = None
        reasons = Counter(settled.reasons)
        self._tally = FaultCounter(self.policy, settled.n_read, settled.n_faults, reasons)

    def _state(self, n: int | None = None) -> State:
        n_turns = self._n_given if n is None else n - self._settled.n
        return advanced(self._settled, self._turns[:n_turns], self._openings)

    def _settle(self) -> None:
        """Count the delivered lines, in the state and in all that depends on it."""
        if not self._n_given:
            return
        turns = self._turns[: self._n_given]
        self._turns = self._turns[self._n_given :]
        opened = reached(self._openings, self._settled.n + self._n_given)
        self._n_given = 0
        self._recall.add(self._settled, turns, opened)
        self._settled = advanced(self._settled, turns, opened)
        self._last |= {opening.source: opening for opening in opened}
        done = set(map(id, opened))
        self._openings = [opening for opening in self._openings if id(opening) not in done]
        self._mixture.advance(turns)
        counts = np.bincount(turns, minlength=len(self._buffers)).tolist()
        for buffer, n in zip(self._buffers, counts, strict=True):
            if n:
                buffer.drain(n)

    # reading

    def _next(self, most: int | None, form: Form | None = None) -> int | None:
        """Return how many lines can be delivered at once, at least one; None at the end."""
        if form not in (None, self._form):
            self._release()
            self._form = form
        if self._prefetcher is not None and self._pid != os.getpid():
            self._release()  # a forked process has no workers
        self._settle()
        self._run += 1
        if not self._started:
            self._start()
        is_compiled = all(source.is_compiled for source in self.sources)
        at_once = WINDOW if is_compiled else _FEW
        most = min(most or at_once, at_once)
        while not self._over:
            if len(self._turns) < min(most, _FEW):
                self._turns = self._mixture.peek(WINDOW)
                self._expect()
            if not len(self._turns):  # no source has a weight any more
                self._over = True
                break
            size = self._fill(self._turns[:most])
            if size:
                return size
            self._end(int(self._turns[0]))
        self._close_workers()
        return None

    def _start(self) -> None:
        self._started = time.monotonic()
        if self._first:
            return
        for source in self.sources:
            self._tally.charge(n_read=0, faults=source.faults)  # shards that could not be read
            counts = FaultCounts(0, Counter(map(kind_of, source.faults)))
            self._settled = counts.added_to(self._settled)

    def _fill(self, turns: Longs) -> int:
        """Load the chunk for the first turn, and later chunks while that is fast. Return how many turns have lines."""
        n = self._settled.n
        if self._failure is not None:
            at, error = self._failure
            if at == n:
                self._failure = None
                raise error
            turns = turns[: at - n]
        buffers = self._buffers
        counts = np.bincount(turns, minlength=len(buffers)).tolist()
        short = [source for source, count in enumerate(counts) if count > buffers[source].left]
        if not short:
            return len(turns)

        # each source that lacks lines, by the first turn that it cannot serve
        order = by_source(turns, len(buffers))
        firsts = np.cumsum([0, *counts]).tolist()
        needs = [(int(order[firsts[source] + buffers[source].left]), source) for source in short]
        heapq.heapify(needs)
        deadline = time.monotonic() + _PATIENCE
        while needs:
            place, source = needs[0]
            if place and not self._is_fast(source, deadline):
                return place
            if not self._load(source, n + place):
                return place
            left = buffers[source].left
            if left < counts[source]:
                heapq.heapreplace(needs, (int(order[firsts[source] + left]), source))
            else:
                heapq.heappop(needs)
        return len(turns)

    def _is_fast(self, source: int, deadline: float) -> bool:
        if time.monotonic() > deadline:
            return False
        if self.sources[source].is_compiled:
            return True  # of Python code, the time is unknown
        return self._prefetcher is not None and self._prefetcher.is_ready(source)

    def _load(self, source: int, n: int) -> bool:
        """Load the next chunk of a source for line n. Return False if the source has ended or the chunk must wait."""
        buffer = self._buffers[source]
        is_next = n == self._settled.n
        if buffer.has_ended or (buffer.waiting and not is_next):
            return False
        taken = buffer.waiting
        if taken is None:
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
        counts = opening.counts
        if not counts.n_read and not counts.reasons:
            return True  # the state already counts its lines
        self._fields.update(chunk.fields)
        try:
            self._tally.charge(n_read=counts.n_read, faults=chunk.faults)
            # from an epoch's first line to the next epoch's last
            if buffer.n_empty >= 2 * self.sources[source].n_lines:
                raise self._nothing_passes(buffer.name)
        except VoltError as error:
            if is_next:
                raise
            self._failure = n, error
            return False
        return True

    def _nothing_passes(self, name: str) -> StreamError:
        problem = f"source {name!r}: no line of an epoch passes its transforms"
        tally = self._tally
        if not tally.n_faults:
            return StreamError(f"{problem}; loosen its filters")
        [(reason, n)] = tally.reasons.most_common(1)
        n_read = counted(tally.n_read, "line")
        unfit = f"{tally.n_faults:,} of {n_read} that the stream has read are unfit"
        fix = "fix the lines, or the step that refuses them"
        return StreamError(f"{problem}; {unfit}, {n:,} of them for {quoted(reason)}; {fix}")

    def _end(self, source: int) -> None:
        mixture = self._mixture.end(source)
        if mixture is None or self.ends == "stop":
            self._over = True
            return
        self._mixture = mixture
        self._turns = np.empty(0, np.int64)
        names = [*self._settled.cursors]
        self._settled = replace(
            self._settled,
            since=mixture.since,
            base=dict(zip(names, mixture.base.tolist(), strict=True)),
            ended=tuple(names[index] for index in sorted(mixture.ended)),
        )

    def _counts(self) -> tuple[int, dict[str, int]]:
        """Return the lines read for the lines delivered so far, and the reasons of the unfit ones."""
        n_read = self._tally.n_read
        reasons = Counter(self._tally.reasons)
        n = self._settled.n + self._n_given
        for opening in self._openings:
            if opening.n >= n and not self._over:
                n_read -= opening.counts.n_read
                reasons.subtract(opening.counts.reasons)
        return n_read, {kind: number for kind, number in reasons.items() if number}

    # workers

    def _start_workers(self) -> Prefetcher:
        compiled = [source.is_compiled for source in self.sources]
        n_workers = self.n_workers
        if not n_workers and self.time_limit is not None and not all(compiled):
            n_workers = 1
        compute = partial(computed, sources=self.sources, policy=self.policy, form=self._form)
        pools = dict[bool, Pool]()  # by whether all transforms are compiled
        if not n_workers:
            pools = dict.fromkeys((True, False), ThisThread(compute))
        elif not all(compiled):  # Python code would block threads
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

        queues = [
            addresses(source, buffer.end, rank=self.rank, world=self.world)
            for source, buffer in zip(self.sources, self._buffers, strict=True)
        ]
        own_pools = [pools[is_compiled] for is_compiled in compiled]
        prefetcher = Prefetcher(self.sources, queues, own_pools, most=_AHEAD * n_workers)
        self._finalizer = weakref.finalize(self, prefetcher.close)
        self._pid = os.getpid()
        prefetcher.expect(self._mixture.shares())
        self._prefetcher = prefetcher
        return prefetcher

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
        """Stop the workers, and drop what they have computed."""
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
    """Yield the addresses of a rank's chunks, from the one of the cursor on."""
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
