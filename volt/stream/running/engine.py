"""`Engine`: the position of a stream, and how many lines it can give next.

The mixture plans turns: which source gives each of the next lines. Blocks are loaded into the buffers of their sources
in the order in which these lines need them. Lines that have been given count as taken when more are requested: the
state then moves on, and with it the blocks that were opened for them.

    turns     a b a a b a …
    openings  a₀ b₀     a₁        a₁ is opened for the line that a₀ no longer holds

Blocks are computed in this thread, in others, or in processes where transforms are Python code. Workers start when a
block is first needed.

>>> from volt.stream import Source, Stream
>>> isinstance(Stream([Source("code", (__file__,))]), Engine)
True
"""

from __future__ import annotations

import heapq
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from volt.display import counted
from volt.errors import StreamError, VoltError, quoted
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import Schedule, Weight
from volt.stream.reading.error_policy import ErrorPolicy, Fault, FaultCounter
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.sampler import parts
from volt.stream.running.blocks import Address, ComputedBlock, Form, check_chunk, most_of, n_chunks
from volt.stream.running.checkpoint import StateHistory, advanced, reached
from volt.stream.running.prefetch import Blocks, LocalBlocks, Pool, Prefetcher, Threads
from volt.stream.running.processes import Processes, StartMethod
from volt.stream.running.source_buffer import Longs, SourceBuffer, by_source
from volt.stream.running.state import Cursor, FaultCounts, Opening, State, check_cursor
from volt.stream.running.summary import VirtualEpoch, epoch_lines, virtual_epoch

Ends = Literal["stop", "drop"]
WINDOW = 1 << 16  # turns planned at a time
_FEW = 1 << 13  # turns left at which more are planned
_PATIENCE = 0.05  # seconds that blocks may be loaded for later lines while the next line waits
_AHEAD = 2  # blocks that are requested ahead for each worker


class Engine:
    """The part of a `Stream` that reads: its position, its buffers and its workers.

    sources, ends, policy, recall, n_workers, start_method, time_limit: as `Stream` takes them.
    configuration: fingerprints, by name, of all that the lines depend on; a state belongs to one configuration.
    """

    def __init__(
        self, sources: tuple[OpenSource, ...], *, ends: Ends, policy: ErrorPolicy, recall: int, n_workers: int,
        start_method: StartMethod, time_limit: float | None, configuration: dict[str, Any],
    ) -> None:  # fmt: skip
        self.sources, self.ends, self.policy, self.configuration = sources, ends, policy, configuration
        self.rank, self.world = configuration["rank"], configuration["world"]
        self.n_workers, self.start_method, self.time_limit = n_workers, start_method, time_limit
        self._mixture = Mixture(self._weights())
        self._form: Form = "lines"  # what blocks hold that are computed from now on
        self._blocks: Blocks | None = None  # None until a block is needed
        self._pid = os.getpid()  # of the process that started the workers
        self._recall, self._run = StateHistory(recall), 0  # the run counts what makes iterators stale
        self._lock = threading.RLock()  # for threads that read the stream
        self._stand_at(State(0, {}, configuration))

    def _weights(self) -> list[Weight]:
        weights = [source.source.weight for source in self.sources]
        return [weight.of_rank(self.rank, self.world) if isinstance(weight, Schedule) else weight for weight in weights]

    @property
    def epoch_lines(self) -> int | None:
        """Lines of a virtual epoch of endless sources, of all ranks together; of a single source, its lines.

        None if weights change, or if one of several sources ends. The number counts lines of files: where transforms
        drop lines, the same number of lines of the stream needs more of the files.
        """
        return epoch_lines(self.sources)

    def passes(self) -> VirtualEpoch | None:
        """Return the virtual epoch of the last line, with what each source has given in it; None if there is none.

        Virtual epochs count from where the mixture began: the start of the stream, or the line at which a state was
        restored with other weights or by another number of ranks. The turns of all earlier epochs are computed once
        more, some ten million a second; a later call continues from there.
        """
        if (n_lines := self.epoch_lines) is None:
            return None
        with self._lock:
            cursors = [*self._state().cursors.values()]
            return virtual_epoch(
                self.sources, self._in_use(), cursors, self._mixture, n_lines=n_lines, rank=self.rank, world=self.world
            )

    # position

    def _stand_at(self, state: State) -> None:
        """Move to a state, and drop the blocks that are being computed."""
        self._close_blocks()
        names = [source.name for source in self.sources]
        self.sources = tuple(
            source.growing(state.cursors[source.name].grown if source.name in state.cursors else ())
            for source in self.sources
        )
        for source in self.sources:
            cursor = state.cursors.get(source.name, Cursor())
            part = check_cursor(
                cursor, source.name, n_lines=source.n_lines, block_lines=source.block_lines,
                epochs=source.source.epochs, rank=self.rank, world=self.world,
            )  # fmt: skip
            check_chunk(source, part, cursor.chunk)
        cursors = {name: state.cursors.get(name, Cursor()) for name in names}
        base = {name: state.base.get(name, 0) for name in names}
        self._settled = replace(state, cursors=cursors, base=base, configuration=self.configuration, merged=0)
        ended = frozenset(map(names.index, state.ended))
        counts = np.array([cursor.lines for cursor in cursors.values()])
        self._mixture = Mixture(self._weights(), counts, ended, state.since, np.array([*base.values()]))
        self._over = len(ended) == len(names) or (self.ends == "stop" and bool(ended))
        self._turns, self._given = np.empty(0, np.int64), 0
        self._run += 1
        self._fields, self._first, self._started = Counter[int](), state.n, 0.0
        self._recall.clear()
        self._last = dict[int, Opening]()  # the block that each source's last line came from
        self._reset()

    def _reset(self) -> None:
        """Empty the buffers; reading continues from the settled state."""
        settled = self._settled
        self._buffers = [SourceBuffer(name, cursor) for name, cursor in settled.cursors.items()]
        self._openings = list[Opening]()
        self._failure: tuple[int, VoltError] | None = (
            None  # an error met ahead of need, and the line before which it is raised
        )
        self._tally = FaultCounter(self.policy, settled.n_read, settled.n_faults, dict(settled.reasons))

    def _state(self, n: int | None = None) -> State:
        """Return the state after n of the lines that have been given; by default after all of them."""
        n_turns = self._given if n is None else n - self._settled.n
        return advanced(self._settled, self._turns[:n_turns], self._openings)

    def _in_use(self) -> dict[int, Opening]:
        """Return the block that the last line of each source came from, by the number of the source."""
        n = self._settled.n + self._given
        return self._last | {opening.source: opening for opening in reached(self._openings, n)}

    def _settle(self) -> None:
        """Advance the state past the lines that have been given since the last call."""
        n_turns, self._given = self._given, 0
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
        for buffer, n in zip(self._buffers, np.bincount(turns, minlength=len(self._buffers)).tolist(), strict=True):
            if n:
                buffer.drain(n)

    # reading

    def _take_form(self, form: Form) -> None:
        """Set what blocks hold, lines or columns; blocks that hold the other are dropped and computed again."""
        if self._form != form:
            self._release()
            self._form = form

    def _next(self, most: int | None) -> int | None:
        """Return how many lines can be given at once: at least one, at most `most`; None at the end of the stream."""
        if self._blocks is not None and self._pid != os.getpid():  # a fork has no workers
            self._release()
        self._settle()
        self._run += 1
        if not self._started:
            self._started = time.monotonic()
            self._count_left_out()
        while not self._over:
            self._plan(most)
            if not len(self._turns):  # no source has a weight any more
                self._over = True
            elif size := self._fill(self._turns[:most]):
                return size
            else:
                self._end(int(self._turns[0]))
        self._close_blocks()
        return None

    def _count_left_out(self) -> None:
        """Count, at the start of the stream, the shards that could not be read."""
        for source in self.sources if self._first == 0 else ():
            self._tally.charge(n_read=0, faults=source.faults)
            counts = FaultCounts(0, Counter(fault.reason.partition(":")[0] for fault in source.faults))
            self._settled = counts.added_to(self._settled)

    def _plan(self, most: int | None) -> None:
        if len(self._turns) < (_FEW if most is None else min(most, _FEW)):
            self._turns = self._mixture.peek(WINDOW)
            self._expect()

    def _fill(self, turns: Longs) -> int:
        """Load the blocks that these turns need, in order. Return how many turns the buffers cover then.

        Blocks for later lines are loaded only while that takes almost no time. 0 if the first turn's source has ended.
        """
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
            is_ready = self._blocks is not None and self._blocks.is_ready(source)
            is_prompt = self.sources[source].is_compiled or is_ready  # nobody knows how long Python code runs
            waits = place and (time.monotonic() > deadline or not is_prompt)
            if waits or not self._load(source, n + place):
                return place
            if (left := buffers[source].left) < counts[source]:
                heapq.heapreplace(needs, (int(order[first[source] + left]), source))
            else:
                heapq.heappop(needs)
        return len(turns)

    def _load(self, source: int, n: int) -> bool:
        """Load the next block of a source, which line n of the stream needs. Return whether it was loaded.

        False if the source has ended, or if the block must wait until line n is the next one: it holds an error, or it
        begins another epoch of the only source.
        """
        buffer, is_next = self._buffers[source], n == self._settled.n
        if buffer.has_ended or (buffer.waiting and not is_next):
            return False
        if (taken := buffer.waiting or self._take(source)) is None:
            buffer.has_ended = True
            return False
        address, block = taken
        begins_epoch = len(self._buffers) == 1 and address.part.epoch != buffer.end.epoch
        if (block.error or begins_epoch) and not is_next:
            buffer.waiting = taken
            return False
        buffer.waiting = None
        if block.error:
            self._release()
            raise StreamError(block.error)
        opening = buffer.load(address, block, source=source, n=n)
        self._openings.append(opening)
        return self._count(opening, block.faults, block.fields)

    def _take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        with self._releasing():
            return (self._blocks or self._start_blocks()).take(source)

    def _count(self, opening: Opening, faults: Sequence[Fault], fields: dict[int, int]) -> bool:
        """Count the lines of a block. Return False for an error that is raised later, when its lines are needed."""
        if not opening.counts.n_read and not opening.counts.reasons:
            return True
        self._fields.update(fields)
        buffer, limit = self._buffers[opening.source], 2 * self.sources[opening.source].n_lines
        try:
            self._tally.charge(n_read=opening.counts.n_read, faults=faults)
            if buffer.n_empty >= limit:  # the first line of one epoch may pass, and the last of the next
                raise self._nothing_passes(buffer.name)
        except VoltError as error:
            if opening.n == self._settled.n:
                raise
            self._failure = opening.n, error
            return False
        return True

    def _nothing_passes(self, name: str) -> StreamError:
        """Return the error for a source that gives no line in an epoch."""
        message = f"source {name!r}: no line of an epoch passes its transforms"
        if not self._tally.n_faults:
            return StreamError(f"{message}; loosen its filters")
        [(reason, n)] = Counter(self._tally.reasons).most_common(1)
        n_read = f"{self._tally.n_faults:,} of {counted(self._tally.n_read, 'line')} that the stream has read are unfit"
        return StreamError(
            f"{message}; {n_read}, {n:,} of them for {quoted(reason)}; fix them, or the step that refuses them"
        )

    def _end(self, source: int) -> None:
        """End a source that has no more lines: stop the stream, or continue without the source."""
        mixture = self._mixture.end(source)
        if mixture is None or self.ends == "stop":
            self._over = True
            return
        self._mixture, self._turns = mixture, np.empty(0, np.int64)
        names = [*self._settled.cursors]
        self._settled = replace(
            self._settled, since=mixture.since, base=dict(zip(names, mixture.base.tolist(), strict=True)),
            ended=tuple(names[index] for index in sorted(mixture.ended)),
        )  # fmt: skip

    def _counts(self) -> tuple[int, dict[str, int]]:
        """Return how many lines were read for the lines given so far, and how many were unfit by kind of reason."""
        n = self._settled.n + self._given
        ahead = [] if self._over else [opening.counts for opening in self._openings if opening.n >= n]
        reasons = Counter(self._tally.reasons)
        for counts in ahead:
            reasons.subtract(counts.reasons)
        n_read = self._tally.n_read - sum(counts.n_read for counts in ahead)
        return n_read, {kind: number for kind, number in reasons.items() if number}

    # workers

    def _start_blocks(self) -> Blocks:
        """Start to compute blocks from the ends of the buffers, in this thread if there are no workers."""
        queues = [
            addresses(source, buffer.end, rank=self.rank, world=self.world)
            for source, buffer in zip(self.sources, self._buffers, strict=True)
        ]
        is_limited = self.time_limit is not None and not all(source.is_compiled for source in self.sources)
        blocks: Blocks
        if n_workers := self.n_workers or int(is_limited):
            blocks = Prefetcher(self.sources, queues, self._pools(n_workers), most=_AHEAD * n_workers)
        else:
            blocks = LocalBlocks(self.sources, queues, self.policy, form=self._form)
        self._finalizer, self._pid = weakref.finalize(self, blocks.close), os.getpid()
        blocks.expect(self._mixture.shares())
        self._blocks = blocks
        return blocks

    def _pools(self, n_workers: int) -> list[Pool]:
        """Return the pool of each source: processes if its transforms are Python code, which would block threads."""
        compiled = [source.is_compiled for source in self.sources]
        threads: Pool | None = None
        processes: Pool | None = None
        if not all(compiled):
            processes = Processes(
                self.sources, self.policy, n=n_workers, start_method=self.start_method, time_limit=self.time_limit,
                form=self._form,
            )  # fmt: skip
        if any(compiled):
            threads = Threads(self.sources, self.policy, n=n_workers, form=self._form)
        pools = [threads if is_compiled else processes for is_compiled in compiled]
        return [pool for pool in pools if pool is not None]

    def _expect(self) -> None:
        """Check the workers, and report how the next lines are shared among the sources."""
        with self._releasing():
            if self._blocks is not None:
                self._blocks.expect(self._mixture.shares())

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        """End the workers after an error of theirs, so that reading on starts new ones."""
        try:
            yield
        except StreamError:
            self._release()
            raise

    def _release(self) -> None:
        """End the workers and drop their blocks; reading continues from the lines that have been given."""
        self._settle()
        if self._close_blocks():
            self._reset()

    def _close_blocks(self) -> bool:
        """End the workers. Return whether any blocks were being computed."""
        if self._blocks is None:
            return False
        self._finalizer.detach()
        if self._pid == os.getpid():
            self._blocks.close()
        self._blocks = None
        return True


def addresses(source: OpenSource, cursor: Cursor, *, rank: int, world: int) -> Iterator[Address]:
    """Yield the addresses of a rank's blocks of a source, from a cursor on."""
    ranges = parts(
        source.n_lines, source.block_lines, rank=rank, world=world, deal=cursor.deal, epochs=source.source.epochs,
        start=cursor.address,
    )  # fmt: skip
    for part in ranges:
        first = cursor.chunk if part.address == cursor.address else 0
        for chunk in range(first, n_chunks(part.n_lines, most=most_of(source, part))):
            yield Address(part, chunk)
