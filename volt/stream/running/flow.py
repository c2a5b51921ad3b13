"""`Flow`: where a stream stands, and how many lines it can give next.

The mixture plans turns: which source gives each of the next lines. A tap holds what is left of the block in use of its
source; where that is not enough for the next turn, another block is taken from the supply. Lines that have been given
count as taken from their sources when more are asked for.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from volt.display import counted
from volt.errors import StreamError, quoted
from volt.stream.mixing.mixture import Mixture
from volt.stream.reading.faults import Policy, Tally
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.blocks import Form
from volt.stream.running.chunks import check_chunk
from volt.stream.running.recall import Recall, advanced
from volt.stream.running.state import Charge, Cursor, State, check_cursor, check_offset
from volt.stream.running.supply import Supply
from volt.stream.running.taps import Tap
from volt.stream.running.virtual_epochs import VirtualEpoch, epoch_lines, virtual_epoch

Ends = Literal["stop", "drop"]
WINDOW = 1 << 16  # turns planned at a time


class Flow:
    """What `Stream` builds upon.

    sources, ends, policy, recall: those of `Stream`.
    supply: gives their blocks.
    configuration: fingerprints, by name, of all that the lines depend on; a state belongs to one configuration.
    """

    def __init__(
        self, sources: tuple[OpenSource, ...], *, ends: Ends, policy: Policy, recall: int, supply: Supply,
        configuration: dict[str, Any],
    ) -> None:  # fmt: skip
        self.sources, self.ends, self.policy, self.configuration = sources, ends, policy, configuration
        self._supply, self._mixture = supply, Mixture([source.source.weight for source in sources])
        self._recall, self._run = Recall(recall), 0  # the run counts what makes iterators stale
        self._lock = threading.RLock()  # of those who read the stream
        self._stand_at(State(0, {}, configuration))

    @property
    def epoch_lines(self) -> int | None:
        """Lines of a virtual epoch of endless sources, of all ranks together; of a single source, its lines.

        None if weights change, or one of several sources ends. Lines are counted as the files hold them: where
        transforms drop lines, as many lines of the stream need more of the files.
        """
        return epoch_lines(self.sources)

    def passes(self) -> VirtualEpoch | None:
        """The virtual epoch of the line that was given last: what each source has given in it. None if there are none.

        Virtual epochs count from where the mixture began: the start of the stream, or where a state was restored with
        other weights or by another number of ranks. The turns of all earlier epochs are dealt once more, some ten
        million a second; a later call goes on from there.
        """
        if (n_lines := self.epoch_lines) is None:
            return None
        with self._lock:
            cursors = list(self._advanced(self._state(), self._given).cursors.values())
            rank, world = self.configuration["rank"], self.configuration["world"]
            return virtual_epoch(
                self.sources, self._taps, cursors, self._mixture, n_lines=n_lines, rank=rank, world=world
            )

    # how it stands

    def _stand_at(self, state: State) -> None:
        """Go to a state; blocks that are being computed are dropped."""
        self._release()
        names = [source.name for source in self.sources]
        for source in self.sources:
            cursor = state.cursors.get(source.name, Cursor())
            part = check_cursor(
                cursor, source.name, n_lines=source.n_lines, block_lines=source.block_lines,
                epochs=source.source.epochs, rank=self.configuration["rank"], world=self.configuration["world"],
            )  # fmt: skip
            check_chunk(source, part, cursor.chunk)
        self._taps = [Tap(name, state.cursors.get(name, Cursor())) for name in names]
        weights, counts = self._mixture.weights, np.array([tap.cursor.lines for tap in self._taps])
        ended = frozenset(map(names.index, state.ended))
        base = np.array([state.base.get(name, 0) for name in names])
        self._mixture = Mixture(weights, counts, ended, state.since, base)
        self._over = len(ended) == len(names) or (self.ends == "stop" and bool(ended))
        self._tally = Tally(self.policy, state.n_read, state.n_faults, dict(state.reasons))
        self._turns, self._given, self._accepted = np.empty(0, np.int64), 0, state.accepted
        self._run += 1
        self._fields, self._first, self._started = Counter[int](), state.n, 0.0
        self._recall.clear()

    def _state(self) -> State:
        names, mixture = [tap.name for tap in self._taps], self._mixture
        return State(
            n=sum(tap.cursor.lines for tap in self._taps),
            cursors={tap.name: tap.cursor for tap in self._taps},
            configuration=self.configuration,
            since=mixture.since,
            base=dict(zip(names, mixture.base.tolist(), strict=True)),
            ended=tuple(names[index] for index in sorted(mixture.ended)),
            n_read=self._tally.n_read,
            n_faults=self._tally.n_faults,
            reasons=dict(self._tally.reasons),
            accepted=self._accepted,
        )

    def _advanced(self, settled: State, given: int) -> State:
        """The state when so many of the next lines have been given."""
        return advanced(settled, self._turns[:given], self._charges())

    def _charges(self) -> dict[str, Charge]:
        """What the blocks in use were counted as."""
        return {tap.name: tap.charge for tap in self._taps if tap.charge is not None}

    def _settle(self) -> None:
        """Count the lines given since the last time as taken from their sources."""
        given, self._given = self._given, 0
        if given:
            turns, self._turns = self._turns[:given], self._turns[given:]
            self._recall.add(self._state(), turns, self._charges())
            self._mixture.advance(turns)
            for tap, n in zip(self._taps, np.bincount(turns, minlength=len(self._taps)).tolist(), strict=True):
                tap.drain(n)

    # how it goes on

    def _take_form(self, form: Form) -> None:
        """Have blocks that hold lines, or columns; those in use are computed once more if they hold the other."""
        if self._supply.form != form:
            self._release()
            self._supply.form = form

    def _next(self, most: int | None) -> int | None:
        """How many lines can be given at once, at least one and at most `most`; None at the end of the stream."""
        if self._supply.is_from_elsewhere:  # a fork of the process that started the workers has none
            self._release()
        self._settle()
        self._run += 1
        if not self._started:
            self._start()
        while not self._over:
            if size := self._reach(most):
                return size
            if not len(self._turns):  # no source has a weight any more
                self._over = True
            elif not self._open(source := int(self._turns[0])):
                self._end(source)
        self._release()
        return None

    def _start(self) -> None:
        """Start the clock and, at the very beginning, count the shards that were left out."""
        self._started = time.monotonic()
        for source in self.sources if self._first == 0 else ():
            self._tally.charge(n_read=0, faults=source.faults)

    def _reach(self, most: int | None) -> int:
        """How many of the next lines the blocks in use hold; 0 if the source of the next line needs a new block."""
        lefts = [tap.left for tap in self._taps]
        bound = sum(lefts) + 1 if most is None else min(sum(lefts) + 1, most)
        if len(self._turns) < min(bound, WINDOW):
            alone = len(self._mixture.ended) == len(lefts) - 1
            self._turns = self._mixture.peek(max(WINDOW, bound) if alone else WINDOW)
        turns = self._turns[:bound]
        bound, needs = len(turns), np.bincount(turns, minlength=len(lefts)).tolist()
        for source, need in enumerate(needs):
            if need > lefts[source]:
                bound = min(bound, int(np.flatnonzero(turns == source)[lefts[source]]))
        return bound

    def _open(self, source: int) -> bool:
        """Put the next block of a source in use, if there is one. Raises StreamError if the block holds an error."""
        with self._releasing():
            cursors, shares = [tap.cursor for tap in self._taps], self._mixture.shares()
            taken = self._supply.take(source, cursors=cursors, shares=shares)
        if taken is None:
            return False
        (address, block), tap = taken, self._taps[source]
        again = tap.is_counted(address)  # as what a restored state has begun is
        if block.error:
            self._release()
            raise StreamError(block.error)
        if again:
            check_offset(tap.cursor, tap.name, n_lines=block.n_lines)
        tap.fill(address, block, offset=tap.cursor.inside if again else 0)
        if not again and not address.part.is_begun:
            self._tally.charge(n_read=block.n_read, faults=block.faults)
            self._fields.update(block.fields)
        waits = 2 * self.sources[source].n_lines  # the first line of one epoch may pass, and the last of the next
        if tap.n_empty >= waits:
            raise self._nothing_passes(tap)
        return True

    def _nothing_passes(self, tap: Tap) -> StreamError:
        """What to raise where an epoch of a source gives no line."""
        found = f"source {tap.name!r}: no line of an epoch passes its transforms"
        if not self._tally.n_faults:
            return StreamError(f"{found}; loosen its filters")
        [(reason, n)] = Counter(self._tally.reasons).most_common(1)
        n_read = f"{self._tally.n_faults:,} of {counted(self._tally.n_read, 'line')} that the stream has read are unfit"
        return StreamError(
            f"{found}; {n_read}, {n:,} of them for {quoted(reason)}; mend them, or the step that refuses them"
        )

    def _end(self, source: int) -> None:
        """A source has no more lines: stop, or go on without it."""
        mixture = self._mixture.end(source)
        if mixture is None or self.ends == "stop":
            self._over = True
        else:
            self._mixture, self._turns = mixture, np.empty(0, np.int64)

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
        """End the workers; blocks in use stay, so what comes next is found from their addresses."""
        if self._supply.close():
            for tap in self._taps:
                tap.block = None
