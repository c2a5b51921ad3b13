"""`Stream`: sources, mixed, as lines without end; exact, repeatable, and resumable at any line.

Line n is a pure function of the sources, their transforms, the seed and n. Workers, or this process, compute the blocks
of each source; the mixture says which source gives the next line. To go on later, a few numbers per source are enough.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"a\\nb\\nc\\n") and file.flush()
...     with Stream([Source("letters", (file.name,), epochs=2)], seed=1) as stream:
...         first = [next(iter(stream)) for _ in range(2)]
...         state = stream.state()
...         rest = list(stream)
...     with Stream([Source("letters", (file.name,), epochs=2)], seed=1) as stream:
...         stream.restore(state)
...         list(stream) == rest, sorted(first + rest)
(True, ['a', 'a', 'b', 'b', 'c', 'c'])
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from volt import arguments
from volt.display import counted
from volt.errors import StreamError
from volt.files.distinct import check_distinct
from volt.stream.mixing.mixture import Mixture
from volt.stream.reading.faults import Policy, Tally
from volt.stream.reading.source import OpenSource, Source, check_names, open_source
from volt.stream.running.ranks import check_rank
from volt.stream.running.recall import Recall, advanced
from volt.stream.running.state import (
    Charge,
    Cursor,
    State,
    check_cursor,
    check_offset,
    fingerprints,
    refuse_difference,
)
from volt.stream.running.summary import Summary, source_summaries
from volt.stream.running.supply import Supply
from volt.stream.running.taps import Tap, mixed
from volt.stream.running.workers import StartMethod, check_workers
from volt.stream.transforms.opening import LoadedFiles

Ends = Literal["stop", "drop"]
WINDOW = 1 << 16  # turns planned at a time
_WATCH = 1 << 13  # lines between two looks at the workers


_POLICY = "give volt.stream.Policy('skip'), say"


def _listed(sources: Sequence[Source | OpenSource]) -> list[Source | OpenSource]:
    one = "did you mean volt.Stream.from_config(path)?"
    listed = (
        "did you mean [source]?" if isinstance(sources, Source | OpenSource) else "give a list of volt.stream.Source"
    )
    if isinstance(sources, os.PathLike):
        raise arguments.refusal(sources, "sources", one)
    return arguments.several(sources, "sources", one=one, remedy=listed)


def _source(source: Source | OpenSource, place: int) -> Source | OpenSource:
    if isinstance(source, OpenSource):
        return source
    return arguments.instance(source, Source, f"sources[{place}]", remedy="give volt.stream.Source(name, paths)")


class Stream:
    """An iterable of lines; each iterator goes on where the last one stopped.

    The stream opens its sources and owns them, and it owns the workers; `close` ends the workers.

    sources: with distinct names.
    seed: all randomness follows from it.
    ends: what happens when a source with `epochs` ends: "stop" ends the stream, "drop" goes on with the other sources.
    policy: what to do with unfit lines.
    rank, world: this process reads the blocks of this rank alone, out of so many ranks.
    n_workers: processes that compute blocks ahead; with 0 this process computes them.
    start_method: of the workers: "spawn", or "fork" if no thread is running.
    cache: the folder for indices and split files.
    recall: how many lines back `state(at=…)` can go.
    files: what the transforms' files hold, if they have been loaded already (`from_config` has).

    Raises StreamError if a source cannot be opened.
    Raises ConfigError if an option is out of range, or unfit lines would be written to a file that is read.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\\nb\\n") and file.flush()
    ...     with Stream([Source("letters", (file.name,), epochs=1)], seed=1) as stream:
    ...         sorted(stream), stream
    (['a', 'b'], <Stream: 1 source, seed 1, 2 lines given>)
    """

    def __init__(
        self,
        sources: Sequence[Source | OpenSource],
        *,
        seed: int = 0,
        ends: Ends = "stop",
        policy: Policy | None = None,
        rank: int = 0,
        world: int = 1,
        n_workers: int = 0,
        start_method: StartMethod = "spawn",
        cache: str | os.PathLike[str] | None = None,
        recall: int = 1 << 23,
        files: LoadedFiles | None = None,
    ) -> None:
        sources = [_source(source, place) for place, source in enumerate(_listed(sources))]
        seed, recall = arguments.whole(seed, "seed"), arguments.whole(recall, "recall")
        policy = Policy() if policy is None else arguments.instance(policy, Policy, "policy", remedy=_POLICY)
        cache = None if cache is None else arguments.path(cache, "cache")
        check_names([source.name for source in sources])
        check_workers(n_workers, start_method)
        arguments.choice(ends, "ends", ("stop", "drop"))
        self.rank, self.world = check_rank(rank, world)
        self.seed, self.ends, self.policy = seed, ends, policy
        files, folder = files or LoadedFiles(), None if cache is None else Path(cache)
        self.sources = tuple(
            source if isinstance(source, OpenSource)
            else open_source(source, seed=seed, cache=folder, policy=self.policy, files=files)
            for source in sources
        )  # fmt: skip
        if self.policy.quarantine is not None:
            check_distinct([self.policy.quarantine], self.files)
        self._supply = Supply(
            self.sources, self.policy, rank=rank, world=world, n_workers=n_workers, start_method=start_method
        )
        self._mixture = Mixture([source.source.weight for source in self.sources])
        self._recall, self._run = Recall(recall), 0  # the run counts what makes iterators stale
        self._stand_at(State(0, {}, self.configuration))

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], *, user_code: bool = True, **options: Any) -> Self:
        """The stream that a YAML file describes.

        path: of the file
        user_code: whether the file may name Python files to run; for configurations of others say False
        options: those of `Stream`, which override what the file says

        Raises ConfigError, with the line of each fault, if the file describes no stream.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "letters.tsv").write_text("a\\nb\\n")
        ...     _ = Path(folder, "stream.yaml").write_text("sources: {letters: {path: letters.tsv, epochs: 1}}\\n")
        ...     with Stream.from_config(Path(folder, "stream.yaml"), seed=1) as stream:
        ...         sorted(stream)
        ['a', 'b']
        """
        from volt.stream.config.build import load_config

        told: Any = load_config(Path(arguments.path(path, remedy="give the path of a YAML file")), user_code=user_code)
        options = {**{field.name: getattr(told, field.name) for field in fields(told)}, **options}
        return cls(options.pop("sources"), **options)

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world}" * (self.world > 1)
        return (
            f"<Stream: {counted(len(self.sources), 'source')}, seed {self.seed}{rank}, {counted(self.n, 'line')} given>"
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it reads: those of its sources, and those that their transforms use."""
        return tuple(path for source in self.sources for path in source.paths)

    @property
    def n_workers(self) -> int:
        """Processes that compute ahead."""
        return self._supply.n_workers

    @property
    def n(self) -> int:
        """Lines given so far, over all runs."""
        return sum(tap.cursor.lines for tap in self._taps) + self._given

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """Fingerprints, by name, of all that the lines depend on; a state belongs to one configuration."""
        sources = {source.name: fingerprints(source) for source in self.sources}
        return {"seed": self.seed, "ends": self.ends, "rank": self.rank, "world": self.world, "sources": sources}

    def __iter__(self) -> Iterator[str]:
        """Lines without line ends. A line counts as given when it is handed out."""
        while (size := self._next(None)) is not None:
            run, lines = self._run, mixed(self._taps, self._turns[:size]).decode().split("\n")
            for start in range(0, size, _WATCH):
                for line in lines[start : min(start + _WATCH, size)]:
                    if self._run != run:
                        raise StreamError(
                            "the stream has been read by another iterator, or restored, since; make a new iterator"
                        )
                    self._given += 1
                    yield line
                self._expect()

    def blocks(self, *, limit: int | None = None) -> Iterator[bytes]:
        """The same lines, many at a time: bytes of whole lines with line ends, as fast as they come.

        limit: how many lines at most. The lines of a block count as given when it is handed out.
        """
        left = None if limit is None else arguments.whole(limit, "limit")
        while (left is None or left > 0) and (size := self._next(left)) is not None:
            data = mixed(self._taps, self._turns[:size])
            self._given = size
            left = None if left is None else left - size
            yield data

    def skip(self, n: int) -> int:
        """Pass over lines, which are computed but not handed out; how many there were before the end.

        n: how many lines, 0 or more
        """
        left = n = arguments.whole(n, "n", low=0)
        while left > 0 and (size := self._next(left)) is not None:
            self._given = size
            left -= size
        return n - left

    def place(self) -> tuple[int, Cursor] | None:
        """Where the next line comes from: the number of its source, and the place in it. None at the end."""
        if self._next(1) is None:
            return None
        source = int(self._turns[0])
        return source, self._taps[source].cursor

    def state(self, *, at: int | None = None) -> dict[str, Any]:
        """Where the stream stands, as JSON values.

        at: an earlier line n, as far as `recall` goes back; by default the line after the last that was given

        Raises StreamError if `at` is ahead or too long ago.
        """
        settled, at = self._state(), None if at is None else arguments.whole(at, "at", low=0)
        if at is not None and at <= settled.n:
            return (self._recall.at(at, n=settled.n) if at < settled.n else self._advanced(settled, 0)).to_json()
        given = self._given if at is None else at - settled.n
        if given > self._given:
            raise StreamError(f"line {at} is ahead of the stream, which has given {self.n}; ask for an earlier one")
        return self._advanced(settled, given).to_json()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, whatever the number of workers then and now.

        state: what `state` gave, here or in another process

        Raises StreamError if it is no state, or of a stream that differs; what differs is named.
        """
        found = State.from_json(state)
        refuse_difference(found.configuration, self.configuration)
        self._stand_at(found)

    def summary(self) -> Summary:
        """What has been given so far."""
        cursors = list(advanced(self._state(), self._turns[: self._given]).cursors.values())
        sizes = [tap.size for tap in self._taps]
        return Summary(
            n=self.n, n_lines=self.n - self._first,
            seconds=time.monotonic() - self._started if self._started else 0.0,
            n_read=self._tally.n_read, n_faults=self._tally.n_faults, reasons=dict(self._tally.reasons),
            fields=dict(self._fields), sources=source_summaries(self.sources, cursors, self._mixture, sizes=sizes),
            left_out=tuple(fault.path for source in self.sources for fault in source.faults),
        )  # fmt: skip

    def rehearsal(self) -> Stream:
        """The same stream from its start, for looking ahead: it notes no unfit lines and stops at no threshold."""
        policy, start_method = Policy("raise" if self.policy.on_fault == "raise" else "skip"), self._supply.start_method
        return Stream(
            self.sources, seed=self.seed, ends=self.ends, policy=policy, rank=self.rank, world=self.world,
            n_workers=self.n_workers, start_method=start_method, recall=0,
        )  # fmt: skip

    def close(self) -> None:
        """End the workers. The stream may be read on; it then starts new ones."""
        self._settle()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # how it stands

    def _stand_at(self, state: State) -> None:
        """Go to a state; blocks that are being computed are dropped."""
        self._release()
        names = [source.name for source in self.sources]
        for source in self.sources:
            cursor = state.cursors.get(source.name, Cursor())
            check_cursor(cursor, source.name, n_blocks=source.n_blocks, epochs=source.source.epochs)
        self._taps = [Tap(name, state.cursors.get(name, Cursor())) for name in names]
        weights, counts = self._mixture.weights, np.array([tap.cursor.lines for tap in self._taps])
        ended = frozenset(map(names.index, state.ended))
        base = np.array([state.base.get(name, 0) for name in names])
        self._mixture = Mixture(weights, counts, ended, state.since, base)
        self._over = len(ended) == len(names) or (self.ends == "stop" and bool(ended))
        self._tally = Tally(self.policy, state.n_read, state.n_faults, dict(state.reasons))
        self._turns, self._given = np.empty(0, np.int64), 0
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

    def _next(self, most: int | None) -> int | None:
        """How many lines can be given at once, at least one and at most `most`; None at the end of the stream."""
        self._settle()
        self._run += 1
        if not self._started:
            self._start()
        while not self._over:
            if size := self._reach(most):
                return size
            if not self._open(source := int(self._turns[0])):
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
        tap.fill(address, block, offset=tap.cursor.offset if again else 0)
        if not again:
            self._tally.charge(n_read=block.n_read, faults=block.faults)
            self._fields.update(block.fields)
        if tap.n_empty > self.sources[source].n_blocks:
            raise StreamError(f"source {tap.name!r}: no line of an epoch passes its transforms; loosen its filters")
        return True

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
