"""`Engine`: the position of a stream, and how many lines it can give next.

The mixture plans turns: which source gives each of the next lines. Blocks are loaded into the buffers of their sources
in the order in which these lines need them. Lines that have been given count as taken when more are asked for: the
state then moves on, and with it the blocks that were opened for them.

    turns     a b a a b a …
    openings  a₀ b₀     a₁        a₁ is opened for the line that a₀ no longer holds

Where a stream gets its blocks: from this thread, from others, or from processes where transforms are Python code.

Workers are started when a block is first needed.

>>> supply = BlockProvider((), ErrorPolicy(), n_workers=0)
>>> _ = supply.start([], shares=[])
>>> supply.close(), supply.close()
(True, False)
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
from volt.stream.running.summary import SourceSummary, VirtualEpoch, epoch_lines, source_summaries, virtual_epoch

_AHEAD = 2  # blocks that are asked for, for each worker


def addresses(source: OpenSource, cursor: Cursor, *, rank: int, world: int) -> Iterator[Address]:
    """Yield every block of a source that is a rank's, from a cursor on."""
    result = parts(
        source.n_lines, source.block_lines, rank=rank, world=world, deal=cursor.deal, epochs=source.source.epochs,
        start=cursor.address,
    )  # fmt: skip
    for part in result:
        begun = cursor.chunk if part.address == cursor.address else 0
        for chunk in range(begun, n_chunks(part.n_lines, most=most_of(source, part))):
            yield Address(part, chunk)


class BlockProvider:
    """Gives the blocks of a rank's sources in order, from where cursors stand when it starts.

    time_limit: seconds that a block of Python code may take. With a limit such code runs in a process that can be
        ended, also without workers
    form: what the blocks hold that are computed from the next start on, lines or columns
    """

    def __init__(
        self,
        sources: Sequence[OpenSource],
        policy: ErrorPolicy,
        *,
        n_workers: int,
        start_method: StartMethod = "spawn",
        time_limit: float | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.sources, self._policy, self.time_limit = sources, policy, time_limit
        self.n_workers, self.start_method = n_workers, start_method
        self._rank, self._world = rank, world
        self.form: Form = "lines"
        self._blocks: Blocks | None = None
        self._pid = os.getpid()

    @property
    def is_started(self) -> bool:
        """Whether blocks are being computed."""
        return self._blocks is not None

    def is_ready(self, source: int) -> bool:
        """Check whether the next block of a source has been computed."""
        return self._blocks is not None and self._blocks.is_ready(source)

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """Return the next block of a source, or None when it has no more; `start` comes first.

        Raises StreamError if a worker has died.
        """
        assert self._blocks is not None
        return self._blocks.take(source)

    def start(self, cursors: Sequence[Cursor], *, shares: Sequence[float]) -> None:
        """Begin to compute: first the blocks in use, since they are not kept.

        cursors: how far the sources have been read
        shares: how the next samples are shared among the sources
        """
        queues = [
            addresses(source, cursor, rank=self._rank, world=self._world)
            for source, cursor in zip(self.sources, cursors, strict=True)
        ]
        is_limited = self.time_limit is not None and not all(source.is_compiled for source in self.sources)
        if n_workers := self.n_workers or int(is_limited):
            self._blocks = Prefetcher(self.sources, queues, self._pools(n_workers), most=_AHEAD * n_workers)
        else:
            self._blocks = LocalBlocks(self.sources, queues, self._policy, form=self.form)
        self._finalizer, self._pid = weakref.finalize(self, self._blocks.close), os.getpid()
        self._blocks.expect(shares)

    def _pools(self, n_workers: int) -> list[Pool]:
        """Who computes the blocks of each source: threads, or processes where no thread could go on meanwhile."""
        threads: Pool | None = None
        processes: Pool | None = None
        if not all(source.is_compiled for source in self.sources):
            processes = Processes(
                self.sources, self._policy, n=n_workers, start_method=self.start_method,
                time_limit=self.time_limit, form=self.form,
            )  # fmt: skip
        if any(source.is_compiled for source in self.sources):
            threads = Threads(self.sources, self._policy, n=n_workers, form=self.form)
        result = [threads if source.is_compiled else processes for source in self.sources]
        return [pool for pool in result if pool is not None]

    def expect(self, shares: Sequence[float]) -> None:
        """Look at the workers, and say how the next samples are shared. Raises StreamError if a worker has died."""
        if self._blocks is not None:
            self._blocks.expect(shares)

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether workers were started by a process that this one is a fork of."""
        return self._blocks is not None and self._pid != os.getpid()

    def interrupt(self) -> None:
        """Have another thread that waits for workers raise StreamError."""
        if (blocks := self._blocks) is not None:
            blocks.interrupt()

    def close(self) -> bool:
        """End the workers; whether there was anything to end. What is asked for next starts anew."""
        if self._blocks is None:
            return False
        self._finalizer.detach()
        if not self.is_from_elsewhere:
            self._blocks.close()
        self._blocks = None
        return True


Ends = Literal["stop", "drop"]
WINDOW = 1 << 16  # turns planned at a time
_FEW = 1 << 13  # turns left at which more are planned
_PATIENCE = 0.05  # seconds that blocks may be loaded for later lines while the next line waits


class Engine:
    """What `Stream` builds upon.

    sources, ends, policy, recall: those of `Stream`.
    supply: gives their blocks.
    configuration: fingerprints, by name, of all that the lines depend on; a state belongs to one configuration.
    """

    def __init__(
        self, sources: tuple[OpenSource, ...], *, ends: Ends, policy: ErrorPolicy, recall: int, supply: BlockProvider,
        configuration: dict[str, Any],
    ) -> None:  # fmt: skip
        self.sources, self.ends, self.policy, self.configuration = sources, ends, policy, configuration
        self._supply, self._mixture = supply, Mixture(self._weights())
        self._recall, self._run = StateHistory(recall), 0  # the run counts what makes iterators stale
        self._lock = threading.RLock()  # of those who read the stream
        self._stand_at(State(0, {}, configuration))

    def _weights(self) -> list[Weight]:
        rank, world = self.configuration["rank"], self.configuration["world"]
        weights = [source.source.weight for source in self.sources]
        return [weight.of_rank(rank, world) if isinstance(weight, Schedule) else weight for weight in weights]

    @property
    def epoch_lines(self) -> int | None:
        """Lines of a virtual epoch of endless sources, of all ranks together; of a single source, its lines.

        None if weights change, or one of several sources ends. Lines are counted as the files hold them: where
        transforms drop lines, as many lines of the stream need more of the files.
        """
        return epoch_lines(self.sources)

    def passes(self) -> VirtualEpoch | None:
        """Return the virtual epoch of the line that was given last: what each source has given in it, or None.

        Virtual epochs count from where the mixture began: the start of the stream, or where a state was restored with
        other weights or by another number of ranks. The turns of all earlier epochs are dealt once more, some ten
        million a second; a later call continues from there.
        """
        if (n_lines := self.epoch_lines) is None:
            return None
        with self._lock:
            cursors = [*self._state().cursors.values()]
            rank, world = self.configuration["rank"], self.configuration["world"]
            return virtual_epoch(
                self.sources, self._in_use(), cursors, self._mixture, n_lines=n_lines, rank=rank, world=world
            )

    # position

    def _stand_at(self, state: State) -> None:
        """Move to a state; blocks that are being computed are dropped."""
        self._supply.close()
        names = [source.name for source in self.sources]
        self.sources = tuple(
            source.growing(state.cursors[source.name].grown if source.name in state.cursors else ())
            for source in self.sources
        )
        self._supply.sources = self.sources
        for source in self.sources:
            cursor = state.cursors.get(source.name, Cursor())
            part = check_cursor(
                cursor, source.name, n_lines=source.n_lines, block_lines=source.block_lines,
                epochs=source.source.epochs, rank=self.configuration["rank"], world=self.configuration["world"],
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
        self._failure: tuple[int, VoltError] | None = None  # met ahead of need, and the line that it comes before
        self._tally = FaultCounter(self.policy, settled.n_read, settled.n_faults, dict(settled.reasons))

    def _state(self, n: int | None = None) -> State:
        """Return the state after n lines, of those that have been given; by default after all of them."""
        inputs = self._given if n is None else n - self._settled.n
        return advanced(self._settled, self._turns[:inputs], self._openings)

    def _in_use(self) -> dict[int, Opening]:
        """Return the block that the last line of each source came from, by the number of the source."""
        n = self._settled.n + self._given
        return self._last | {opening.source: opening for opening in reached(self._openings, n)}

    def _settle(self) -> None:
        """Move the state behind the lines that have been given since the last time."""
        inputs, self._given = self._given, 0
        if not inputs:
            return
        turns, self._turns = self._turns[:inputs], self._turns[inputs:]
        opened = reached(self._openings, self._settled.n + inputs)
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
        """Have blocks hold lines, or columns; those in use are computed again if they hold the other."""
        if self._supply.form != form:
            self._release()
            self._supply.form = form

    def _next(self, most: int | None) -> int | None:
        """Return how many lines can be given at once: at least one, at most `most`; None at the end of the stream."""
        if self._supply.is_from_elsewhere:  # a fork of the process that started the workers has none
            self._release()
        self._settle()
        self._run += 1
        if not self._started:
            self._start()
        while not self._over:
            self._plan(most)
            if not len(self._turns):  # no source has a weight any more
                self._over = True
            elif size := self._fill(self._turns[:most]):
                return size
            else:
                self._end(int(self._turns[0]))
        self._supply.close()
        return None

    def _start(self) -> None:
        """Start the clock and, at the very beginning, count the shards that were left out."""
        self._started = time.monotonic()
        for source in self.sources if self._first == 0 else ():
            self._tally.charge(n_read=0, faults=source.faults)
            counts = FaultCounts(0, Counter(fault.reason.partition(":")[0] for fault in source.faults))
            self._settled = counts.added_to(self._settled)

    def _plan(self, most: int | None) -> None:
        if len(self._turns) < (_FEW if most is None else min(most, _FEW)):
            self._turns = self._mixture.peek(WINDOW)
            self._expect()

    def _fill(self, turns: Longs) -> int:
        """Load the blocks that these turns need, in that order. Return how many turns the buffers cover then.

        Blocks for later lines are loaded while that takes next to no time. 0: the first turn's source has ended.
        """
        n, buffers = self._settled.n, self._buffers
        if self._failure is not None:
            if (at := self._failure[0]) == n:
                raise self._failed()
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
            waits = place and (time.monotonic() > deadline or not self._is_prompt(source))
            if waits or not self._load(source, n + place):
                return place
            if (left := buffers[source].left) < counts[source]:
                heapq.heapreplace(needs, (int(order[first[source] + left]), source))
            else:
                heapq.heappop(needs)
        return len(turns)

    def _load(self, source: int, n: int) -> bool:
        """Load the next block of a source, which line n of the stream needs.

        False if there is none, or if it has to wait until line n is the next one: it holds an error, or it begins
        another epoch of the only source.
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

    def _is_prompt(self, source: int) -> bool:
        """Check that a source's next block does not take long: nobody knows how long Python code runs."""
        return self.sources[source].is_compiled or self._supply.is_ready(source)

    def _take(self, source: int) -> Any:
        with self._releasing():
            if not self._supply.is_started:
                self._supply.start([buffer.end for buffer in self._buffers], shares=self._mixture.shares())
            return self._supply.take(source)

    def _count(self, opening: Opening, faults: Sequence[Fault], fields: dict[int, int]) -> bool:
        """Count the lines of a block. False if that leads to an error, which is raised when its lines are needed."""
        if not opening.counts.n_read and not opening.counts.reasons:
            return True
        self._fields.update(fields)
        buffer, waits = self._buffers[opening.source], 2 * self.sources[opening.source].n_lines
        try:
            self._tally.charge(n_read=opening.counts.n_read, faults=faults)
            if buffer.n_empty >= waits:  # the first line of one epoch may pass, and the last of the next
                raise self._nothing_passes(buffer.name)
        except VoltError as error:
            if opening.n == self._settled.n:
                raise
            self._failure = opening.n, error
            return False
        return True

    def _failed(self) -> VoltError:
        assert self._failure is not None
        (_, error), self._failure = self._failure, None
        return error

    def _nothing_passes(self, name: str) -> StreamError:
        """Return the error for a source of which an epoch gives no line."""
        result = f"source {name!r}: no line of an epoch passes its transforms"
        if not self._tally.n_faults:
            return StreamError(f"{result}; loosen its filters")
        [(reason, n)] = Counter(self._tally.reasons).most_common(1)
        n_read = f"{self._tally.n_faults:,} of {counted(self._tally.n_read, 'line')} that the stream has read are unfit"
        return StreamError(
            f"{result}; {n_read}, {n:,} of them for {quoted(reason)}; mend them, or the step that refuses them"
        )

    def _end(self, source: int) -> None:
        """Note that a source has no more lines: stop, or continue without it."""
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
        """Return how many lines were read for those given so far, and for each kind of reason how many are unfit."""
        n = self._settled.n + self._given
        ahead = [] if self._over else [opening.counts for opening in self._openings if opening.n >= n]
        reasons = Counter(self._tally.reasons)
        for counts in ahead:
            reasons.subtract(counts.reasons)
        n_read = self._tally.n_read - sum(counts.n_read for counts in ahead)
        return n_read, {kind: number for kind, number in reasons.items() if number}

    def _source_summaries(self) -> dict[str, SourceSummary]:
        return source_summaries(self.sources, [*self._state().cursors.values()], self._mixture, self._in_use())

    # who computes

    def _expect(self) -> None:
        with self._releasing():
            self._supply.expect(self._mixture.shares())

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        """After an error of the workers there are none, so that reading on starts new ones."""
        try:
            yield
        except StreamError:
            self._release()
            raise

    def _release(self) -> None:
        """End the workers and drop their blocks; reading continues from the lines that have been given."""
        self._settle()
        if self._supply.close():
            self._reset()
