"""`Stream`: an endless sequence of lines, mixed from sources.

A stream is exact and repeatable, and it can be resumed at any line.

Line n depends only on the sources, their transforms, the seed and n. `Engine`, the base class, has
the position and loads the lines; its module describes the steps in which the two classes deliver
lines. This module has what users call: iterators, states, and statistics.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.display import counted
from volt.errors import ConfigError, StreamError
from volt.files.atomic import check_distinct
from volt.stream.mixing.mixture import Sampling, virtual_size
from volt.stream.mixing.schedule import Schedule
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_source import OpenSource, open_source
from volt.stream.reading.ranks import check_rank
from volt.stream.reading.source_definition import Source, check_names
from volt.stream.running.chunk_computation import Address, Form
from volt.stream.running.engine import Ends, Engine
from volt.stream.running.openings import select_reached
from volt.stream.running.prefetch import Workers
from volt.stream.running.processes import StartMethod
from volt.stream.running.resuming import adapt_state
from volt.stream.running.source_buffer import mix_lines
from volt.stream.running.state import State, check_range
from volt.stream.running.stream_batch import StreamBatch, mix_columns
from volt.stream.running.summary import (
    SourcePasses,
    SourceSummary,
    Summary,
    VirtualEpoch,
    epochs_read,
)
from volt.stream.tasks.task import Split
from volt.stream.transforms.transform import LoadedFiles

_LINES_PER_CHECK = 1 << 13  # lines that an iterator yields between two checks of the workers
T = TypeVar("T")
_MIX = "give a volt.stream.Sampling, such as Sampling(temperature=5)"
_POLICY = "give a volt.stream.ErrorPolicy, such as ErrorPolicy('skip')"


class Stream(Engine):
    r"""An iterable of lines; each iterator continues where the previous one stopped.

    sources: sources with distinct names.
    seed: the seed of all randomness; 0 or more.
    mix: how to derive weights from the sources' numbers of lines; by default each source's `weight`
        applies.
    ends: what to do when a source with `epochs` ends: "stop" the stream, or "drop" the source and
        continue.
    policy: what to do with unfit lines.
    rank, world: this process's number, from 0, and the number of processes; each line goes to one
        of them.
    n_workers: how many threads (processes for Python code) compute chunks ahead; 0 computes in the
        reading thread.
    start_method: how processes start: "spawn", or "fork", which requires that no thread is running.
    time_limit: the maximum seconds that Python code in a process may take per chunk; None for no
        limit.
    cache: the folder for indices and split copies of files.
    recall: how many lines back `state(at=…)` can go.
    files: the transforms' files, if they are already loaded.

    Raises StreamError if a source cannot be opened, ConfigError for invalid options.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\nb\nc\n") and file.flush()
    ...     source = Source("letters", (file.name,), epochs=2)
    ...     with Stream([source], seed=1) as stream, Stream([source], seed=1) as other:
    ...         first = [next(iter(stream)) for _ in range(2)]
    ...         other.restore(stream.state())
    ...         first, list(other) == list(stream), stream
    (['a', 'b'], True, <Stream: 1 source, seed 1, 6 lines given>)
    """

    def __init__(
        self,
        sources: Sequence[Source | OpenSource],
        *,
        seed: int = 0,
        mix: Sampling | None = None,
        ends: Ends = "stop",
        policy: ErrorPolicy | None = None,
        rank: int = 0,
        world: int = 1,
        n_workers: int = 0,
        start_method: StartMethod = "spawn",
        time_limit: float | None = None,
        cache: str | os.PathLike[str] | None = None,
        recall: int = 1 << 23,
        files: LoadedFiles | None = None,
    ) -> None:
        seed = arguments.whole(seed, "seed", low=0)
        recall = arguments.whole(recall, "recall", low=0)
        policy = ErrorPolicy() if policy is None else policy
        arguments.instance(policy, ErrorPolicy, "policy", remedy=_POLICY)
        workers = Workers(n_workers, start_method, time_limit)
        arguments.choice(ends, "ends", ("stop", "drop"))
        rank, world = check_rank(rank, world)
        if mix is not None:
            arguments.instance(mix, Sampling, "mix", remedy=_MIX)
        opened = _open_sources(
            sources,
            seed=seed,
            cache=None if cache is None else Path(arguments.path(cache, "cache")),
            policy=policy,
            files=files or LoadedFiles(),
        )
        if mix is not None:
            opened = _set_weights(opened, mix)
        configuration: dict[str, Any] = {
            "seed": seed,
            "ends": ends,
            "rank": rank,
            "world": world,
            "sources": {source.name: source.fingerprints for source in opened},
        }
        if mix is not None:
            configuration["mix"] = str(mix)
        self.seed = seed
        self.accepted = tuple[str, ...]()
        super().__init__(
            sources=tuple(opened),
            ends=ends,
            policy=policy,
            recall=recall,
            workers=workers,
            configuration=configuration,
        )

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        user_code: bool = True,
        values: Mapping[str, object] | None = None,
        split: Split = "train",
        tasks: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Return the stream that a YAML file describes.

        path: the file's path
        user_code: run the Python files that the file names; give False for files that you do not
            trust
        values: placeholder → its value, if the file is a template
        split: "train"; or "valid" to read each line of the validation tasks once, without noise
        tasks: names of the tasks to read; by default all
        options: options of `Stream`, which override the file's

        Raises ConfigError, with the line number of each problem, if the file is invalid.
        """
        from volt.stream.config.configuration import load_config

        if "workers" in options:
            raise ConfigError("workers is an option of the file; here, give n_workers")
        where = Path(arguments.path(path, remedy="give the path of a YAML file"))
        data = load_config(where, user_code=user_code, values=values, split=split, tasks=tasks)
        options = {**data.options, **options}
        return cls(options.pop("sources"), **options)

    def __repr__(self) -> str:
        parts = [counted(len(self.sources), "source"), f"seed {self.seed}"]
        if self.world > 1:
            parts.append(f"rank {self.rank} of {self.world}")
        return f"<Stream: {', '.join(parts)}, {counted(self.n, 'line')} given>"

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the sources and of their transforms."""
        return tuple(path for source in self.sources for path in source.paths)

    # The methods that read use the engine's step: `_prepare(limit, form)` commits the lines delivered
    # so far, loads the next step, and returns its number of lines; `_turns` are the lines' sources;
    # `_n_uncommitted` counts the lines of the step that were delivered; `_step` is another number
    # after someone else has read or restored.

    def __iter__(self) -> Iterator[str]:
        """Yield lines without line ends. A line counts as delivered when it is yielded."""
        while True:
            with self._lock:
                n_lines = self._prepare(None, "lines")
                if n_lines is None:
                    return
                step = self._step
                data = mix_lines(self._buffers, self._turns[:n_lines])
            lines = data.decode().split("\n")
            for start in range(0, n_lines, _LINES_PER_CHECK):
                for line in lines[start : min(start + _LINES_PER_CHECK, n_lines)]:
                    with self._lock:
                        if self._step != step:
                            raise StreamError(
                                "the stream was read or restored meanwhile; make a new iterator"
                            )
                        self._n_uncommitted += 1
                    yield line
                with self._lock:
                    self._update_shares()

    def blocks(self, *, limit: int | None = None) -> Iterator[bytes]:
        """Yield many whole lines at a time, as bytes that include the line ends.

        limit: the maximum number of lines; lines count as delivered when they are yielded
        """
        return self._yield_steps("lines", limit, lambda turns: mix_lines(self._buffers, turns))

    def batches(self, *, limit: int | None = None) -> Iterator[StreamBatch]:
        """Yield batches of many lines, as columns with the lines' origins.

        The batches' sizes depend on where reading began.

        limit: the maximum number of lines; lines count as delivered when their batch is yielded
        """
        return self._yield_steps(
            "columns",
            limit,
            lambda turns: mix_columns(self._buffers, turns, first=self.n, opened=self.sources),
        )

    def _yield_steps(self, form: Form, limit: int | None, mix: Callable[[Longs], T]) -> Iterator[T]:
        n_remaining = limit
        if limit is not None:
            n_remaining = arguments.whole(limit, "limit", low=0)
        while n_remaining != 0:
            with self._lock:
                n_lines = self._prepare(n_remaining, form)
                if n_lines is None:
                    return
                mixed = mix(self._turns[:n_lines])
                self._n_uncommitted = n_lines
            if n_remaining is not None:
                n_remaining -= n_lines
            yield mixed

    def skip(self, n: int) -> int:
        """Compute and discard up to n lines; return their number, which is less than n at the end.

        n: the maximum number of lines, 0 or more
        """
        before = self.n
        end = before + arguments.whole(n, "n", low=0)
        with self._lock:
            while self.n < end and (n_lines := self._prepare(end - self.n)) is not None:
                self._n_uncommitted = n_lines
        return self.n - before

    def skip_range(self, start: int, stop: int) -> None:
        """Leave out lines that follow, such as the lines of a loss spike; later states record
        them.

        start, stop: the number of the next line, and of the line to continue with

        Raises StreamError if `start` is another line, or if the stream ends before `stop`.
        """
        check_range(start, stop, at=self.n, unit="line")
        self.skip(stop - start)
        if self.n < stop:
            raise StreamError(f"the stream ends after line {self.n:,}; skip fewer lines")
        self._move_to(self._state_at(stop).add_skipped(np.arange(start, stop)))

    def place(self) -> tuple[int, Address, int] | None:
        """Return the next line's source index, its chunk, and its index in the chunk.

        Return None at the end of the stream.
        """
        with self._lock:
            if self._prepare(1) is None:
                return None
            source = int(self._turns[0])
            next_place = self._buffers[source].next_place
        return None if next_place is None else (source, *next_place)

    def state(self, *, at: int | None = None) -> dict[str, Any]:
        """Return the state of the stream, as JSON values.

        at: the number of an earlier line, at most `recall` lines back; by default the next line

        Raises StreamError if line `at` is still to come, or more than `recall` lines back.
        """
        at = self.n if at is None else arguments.whole(at, "at", low=0)
        if at > self.n:
            raise StreamError(
                f"line {at} is ahead of the stream, which has given {self.n} lines; give an earlier one"
            )
        n_committed = self._committed.n
        if at >= n_committed:
            return self._state_at(at).to_json()
        return self._history.state_at(at, n=n_committed).to_json()

    def restore(self, state: Mapping[str, Any], *, accept: Sequence[str] = ()) -> None:
        """Continue from a state, with any number of workers.

        state: the result of `state` in any process, or of `merge_states` over all ranks
        accept: kinds of differences to accept: "weights" (changed), "sources" (added), "data"
            (appended lines, read at the end of the current epoch); the attribute `accepted` lists
            each difference

        Raises StreamError if the state is invalid or belongs to another stream; the error names the
        differences.
        """
        stored = State.from_json(state)
        adapted, accepted = adapt_state(
            stored, self.configuration, sources=self.sources, accept=accept
        )
        self._move_to(adapted)
        self.accepted = accepted

    @property
    def epoch_lines(self) -> int | None:
        """The number of lines in a virtual epoch, for all ranks together.

        For a stream of one source, it is the source's number of lines.

        None if weights change, or if one of several sources ends. Lines that transforms drop count
        too.
        """
        sizes = [opened.n_lines for opened in self.sources]
        if len(sizes) == 1:
            return sizes[0]
        weights = list[float]()
        for opened in self.sources:
            if opened.source.epochs is not None or isinstance(opened.source.weight, Schedule):
                return None
            weights.append(opened.source.weight)
        return virtual_size(sizes, weights)

    def passes(self) -> VirtualEpoch | None:
        """Return the last line's virtual epoch; None if `epoch_lines` is None.

        New weights or ranks restart the numbering.
        """
        n_lines = self.epoch_lines
        if n_lines is None:
            return None
        with self._lock:
            state = self._state_at(self.n)
            # Line j of this rank, from `since` on, is line j · world + rank of all ranks.
            since = state.since
            number = max(0, (state.n - since) * self.world - 1 - self.rank) // n_lines
            start = since + (number * n_lines + self.rank) // self.world
            end = since + ((number + 1) * n_lines + self.rank) // self.world
            counts = self._mixture.counts_at(start).tolist()
            shares = self._mixture.shares()
            epochs = self._epochs_read()
            sources = dict[str, SourcePasses]()
            for name, count, share in zip(epochs, counts, shares, strict=True):
                lines = state.cursors[name].lines - count
                realised = lines / max(1, state.n - start)
                sources[name] = SourcePasses(lines, int(epochs[name]), share, realised)
            return VirtualEpoch(number, end - start, state.n - start, sources)

    def summary(self) -> Summary:
        """Return the statistics of the stream so far."""
        n_read, reasons = self._read_counts()
        state = self._state_at(self.n)
        owed = self._mixture.owed(state.n)
        sources = dict[str, SourceSummary]()
        for index, (name, epochs) in enumerate(self._epochs_read().items()):
            sources[name] = SourceSummary(
                lines=state.cursors[name].lines,
                requested=round(owed[index], 6),
                epochs=round(epochs, 6),
                ended=index in self._mixture.ended,
            )
        seconds = 0.0
        if self._start_time is not None:
            seconds = time.monotonic() - self._start_time
        return Summary(
            n=self.n,
            n_lines=self.n - self._n_at_start,
            seconds=seconds,
            n_read=n_read,
            n_faults=sum(reasons.values()),
            reasons=reasons,
            fields=dict(self._field_counts),
            sources=sources,
            left_out=tuple(fault.path for source in self.sources for fault in source.faults),
            epoch_lines=self.epoch_lines,
        )

    def _epochs_read(self) -> dict[str, float]:
        """Return source name → how often the source was read, as a fraction."""
        state = self._state_at(self.n)
        reached = select_reached(self._openings, state.n)
        last = self._last_openings | {opening.source: opening for opening in reached}
        return {
            source.name: epochs_read(source, state.cursors[source.name], last.get(index))
            for index, source in enumerate(self.sources)
        }

    def _read_counts(self) -> tuple[int, dict[str, int]]:
        """Return the lines read for the delivered lines, and the unfit ones by kind of fault."""
        n_read = self._fault_counter.n_read
        reasons = Counter(self._fault_counter.reasons)
        for opening in self._openings:
            if opening.n >= self.n and not self._is_over:
                n_read -= opening.counts.n_read
                reasons.subtract(opening.counts.reasons)
        return n_read, {kind: number for kind, number in reasons.items() if number}

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Stream cannot be sent to another process; create one there, and restore this one's state()"
        )

    def rehearsal(self) -> Stream:
        """Return a copy of this stream at its start, for a dry run.

        The copy neither records nor limits unfit lines.
        """
        policy = ErrorPolicy("raise" if self.policy.on_fault == "raise" else "skip")
        return Stream(
            self.sources,
            seed=self.seed,
            ends=self.ends,
            policy=policy,
            rank=self.rank,
            world=self.world,
            n_workers=self.workers.n,
            start_method=self.workers.start_method,
            time_limit=self.workers.time_limit,
            recall=0,
        )

    def close(self) -> None:
        """Stop the workers. Reading again starts new ones."""
        self._release()

    def interrupt(self) -> None:
        """Raise StreamError in any other thread that waits for workers."""
        prefetcher = self._prefetcher
        if prefetcher is not None:
            prefetcher.interrupt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _open_sources(
    sources: Sequence[Source | OpenSource], *, policy: ErrorPolicy, **options: Any
) -> list[OpenSource]:
    """Open the sources that are not open. options: see `open_source`"""
    one = "did you mean volt.Stream.from_config(path)?"
    remedy = "give a list of volt.stream.Source"
    if isinstance(sources, Source | OpenSource):
        remedy = "did you mean [source]?"
    elif isinstance(sources, os.PathLike):
        remedy = one
    declared = arguments.several(sources, "sources", one=one, remedy=remedy)
    for index, source in enumerate(declared):
        if not isinstance(source, OpenSource):
            remedy = "give volt.stream.Source(name, paths)"
            arguments.instance(source, Source, f"sources[{index}]", remedy=remedy)
    check_names([source.name for source in declared])

    opened = list[OpenSource]()
    for source in declared:
        if isinstance(source, Source):
            source = open_source(source, policy=policy, **options)
        opened.append(source)
    if policy.quarantine is not None:
        check_distinct([policy.quarantine], [path for source in opened for path in source.paths])
    return opened


def _set_weights(sources: Sequence[OpenSource], mix: Sampling) -> list[OpenSource]:
    """Return the sources with weights derived from their numbers of lines."""
    for source in (opened.source for opened in sources):
        for name, default in (("weight", 1), ("epochs", None)):
            value = getattr(source, name)
            if value != default:
                problem = f"source {source.name!r}: {name}={value} cannot be used with mix"
                raise ConfigError(f"{problem}; remove one of them")
    weights = mix.weights({source.name: source.n_lines for source in sources})
    return [
        replace(opened, source=replace(opened.source, weight=weights[opened.name]))
        for opened in sources
    ]
