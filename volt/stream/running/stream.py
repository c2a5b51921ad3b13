"""`Stream`: an endless sequence of lines mixed from sources; exact, repeatable, and resumable at any line.

Line n is a pure function of the sources, their transforms, the seed and n.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, StreamError
from volt.files.atomic import check_distinct
from volt.files.threads import MOST_WORKERS
from volt.stream.mixing.mixture import Sampling
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_source import OpenSource, open_source
from volt.stream.reading.ranks import check_rank
from volt.stream.reading.source_definition import Source, check_names
from volt.stream.running.chunk_computation import Address, Form
from volt.stream.running.engine import Ends, Engine
from volt.stream.running.processes import StartMethod
from volt.stream.running.resuming import continued
from volt.stream.running.source_buffer import mixed
from volt.stream.running.state import State
from volt.stream.running.stream_batch import StreamBatch, mixed_columns
from volt.stream.running.summary import SourceSummary, Summary
from volt.stream.tasks.task import Split
from volt.stream.transforms.column import Longs
from volt.stream.transforms.transform import LoadedFiles

_WATCH = 1 << 13  # lines between two checks of the workers
T = TypeVar("T")
_MIX = "give a volt.stream.Sampling, such as Sampling(temperature=5)"
_POLICY = "give a volt.stream.ErrorPolicy, such as ErrorPolicy('skip')"


class Stream(Engine):
    r"""An iterable of lines; each iterator continues where the previous one stopped.

    sources: sources with distinct names.
    seed: the seed of all randomness; 0 or more.
    mix: how to derive weights from the sources' numbers of lines; by default each source's `weight` applies.
    ends: what to do when a source with `epochs` ends: "stop" the stream, or "drop" the source and continue.
    policy: what to do with unfit lines.
    rank, world: this process's number, from 0, and the number of processes; each line goes to one of them.
    n_workers: how many threads (processes for Python code) compute chunks ahead; 0 computes in the reading thread.
    start_method: how processes start: "spawn", or "fork", which requires that no thread is running.
    time_limit: the maximum seconds that Python code in a process may take per chunk; None for no limit.
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
        declared = _declared(sources)
        seed = arguments.whole(seed, "seed", low=0)
        recall = arguments.whole(recall, "recall", low=0)
        if policy is None:
            policy = ErrorPolicy()
        arguments.instance(policy, ErrorPolicy, "policy", remedy=_POLICY)
        folder = None
        if cache is not None:
            folder = Path(arguments.path(cache, "cache"))
        if mix is not None:
            arguments.instance(mix, Sampling, "mix", remedy=_MIX)
        check_names([source.name for source in declared])
        _check_workers(n_workers, start_method, time_limit)
        arguments.choice(ends, "ends", ("stop", "drop"))
        rank, world = check_rank(rank, world)

        open_each = partial(
            open_source, seed=seed, cache=folder, policy=policy, files=files or LoadedFiles()
        )
        opened = [open_each(each) if isinstance(each, Source) else each for each in declared]
        if mix is not None:
            opened = _mixed_by_size(opened, mix)
        if policy.quarantine is not None:
            paths = [path for source in opened for path in source.paths]
            check_distinct([policy.quarantine], paths)
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
            tuple(opened),
            ends,
            policy,
            recall,
            n_workers,
            start_method,
            time_limit,
            configuration,
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
        user_code: run the Python files that the file names; give False for files that you do not trust
        values: placeholder → its value, if the file is a template
        split: "train"; or "valid" to read each line of the validation tasks once, without noise
        tasks: names of the tasks to read; by default all
        options: options of `Stream`, which override the file's

        Raises ConfigError, with the line number of each problem, if the file is invalid.
        """
        from volt.stream.config.configuration import load_config

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

    @property
    def n(self) -> int:
        """Lines delivered so far, over all runs."""
        return self._settled.n + self._n_given

    def __iter__(self) -> Iterator[str]:
        """Yield lines without line ends. A line counts as delivered when it is yielded."""
        while True:
            with self._lock:
                size = self._next(None, "lines")
                if size is None:
                    return
                run = self._run
                data = mixed(self._buffers, self._turns[:size])
            lines = data.decode().split("\n")
            for start in range(0, size, _WATCH):
                for line in lines[start : min(start + _WATCH, size)]:
                    with self._lock:
                        if self._run != run:
                            raise StreamError(
                                "the stream was read or restored meanwhile; make a new iterator"
                            )
                        self._n_given += 1
                    yield line
                with self._lock:
                    self._expect()

    def blocks(self, *, limit: int | None = None) -> Iterator[bytes]:
        """Yield many whole lines at a time, as bytes that include the line ends.

        limit: the maximum number of lines; lines count as delivered when they are yielded
        """
        return self._taken("lines", limit, lambda turns: mixed(self._buffers, turns))

    def batches(self, *, limit: int | None = None) -> Iterator[StreamBatch]:
        """Yield batches of many lines, as columns with the lines' origins. Batch sizes depend on where reading began.

        limit: the maximum number of lines; lines count as delivered when their batch is yielded
        """
        return self._taken(
            "columns",
            limit,
            lambda turns: mixed_columns(self._buffers, turns, first=self.n, opened=self.sources),
        )

    def _taken(self, form: Form, limit: int | None, take: Callable[[Longs], T]) -> Iterator[T]:
        left = limit
        if limit is not None:
            left = arguments.whole(limit, "limit", low=0)
        while left != 0:
            with self._lock:
                size = self._next(left, form)
                if size is None:
                    return
                result = take(self._turns[:size])
                self._n_given = size
            if left is not None:
                left -= size
            yield result

    def skip(self, n: int) -> int:
        """Compute and discard lines; return their number.

        n: the maximum number of lines, 0 or more
        """
        before = self.n
        end = before + arguments.whole(n, "n", low=0)
        with self._lock:
            while self.n < end and (size := self._next(end - self.n)) is not None:
                self._n_given = size
        return self.n - before

    def place(self) -> tuple[int, Address, int] | None:
        """Return the next line's source and chunk, and the number of the chunk's lines that precede it."""
        with self._lock:
            if self._next(1) is None:
                return None
            source = int(self._turns[0])
            place = self._buffers[source].place
        if place is None:
            return None
        return source, *place

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
        n_settled = self._settled.n
        if at >= n_settled:
            return self._state(at).to_json()
        return self._recall.at(at, n=n_settled).to_json()

    def restore(self, state: Mapping[str, Any], *, accept: Sequence[str] = ()) -> None:
        """Continue from a state, with any number of workers.

        state: the result of `state` in any process, or of `merge_states` over all ranks
        accept: kinds of differences to accept: "weights" (changed), "sources" (added), "data" (appended lines, read
            at the end of the current epoch); the attribute `accepted` lists each difference

        Raises StreamError if the state is invalid or belongs to another stream; the error names the differences.
        """
        stored = State.from_json(state)
        current, accepted = continued(
            stored, self.configuration, sources=self.sources, accept=accept
        )
        self._stand_at(current)
        self.accepted = accepted

    def summary(self) -> Summary:
        """Return the statistics of the stream so far."""
        n_read, reasons = self._counts()
        state = self._state()
        owed = self._mixture.owed(state.n)
        sources = dict[str, SourceSummary]()
        for index, (name, epochs) in enumerate(self._epochs(state).items()):
            sources[name] = SourceSummary(
                lines=state.cursors[name].lines,
                requested=round(owed[index], 6),
                epochs=round(epochs, 6),
                ended=index in self._mixture.ended,
            )
        return Summary(
            n=self.n,
            n_lines=self.n - self._first,
            seconds=time.monotonic() - self._started if self._started else 0.0,
            n_read=n_read,
            n_faults=sum(reasons.values()),
            reasons=reasons,
            fields=dict(self._fields),
            sources=sources,
            left_out=tuple(fault.path for source in self.sources for fault in source.faults),
            epoch_lines=self.epoch_lines,
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Stream cannot be sent to another process; create one there, and restore this one's state()"
        )

    def rehearsal(self) -> Stream:
        """Return a copy of this stream at its start, for a dry run that neither records nor limits unfit lines."""
        policy = ErrorPolicy("raise" if self.policy.on_fault == "raise" else "skip")
        return Stream(
            self.sources,
            seed=self.seed,
            ends=self.ends,
            policy=policy,
            rank=self.rank,
            world=self.world,
            n_workers=self.n_workers,
            start_method=self.start_method,
            time_limit=self.time_limit,
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


def _declared(sources: Sequence[Source | OpenSource]) -> list[Source | OpenSource]:
    one = "did you mean volt.Stream.from_config(path)?"
    remedy = "give a list of volt.stream.Source"
    if isinstance(sources, Source | OpenSource):
        remedy = "did you mean [source]?"
    elif isinstance(sources, os.PathLike):
        remedy = one
    result = arguments.several(sources, "sources", one=one, remedy=remedy)
    for place, source in enumerate(result):
        if not isinstance(source, OpenSource):
            remedy = "give volt.stream.Source(name, paths)"
            arguments.instance(source, Source, f"sources[{place}]", remedy=remedy)
    return result


def _check_workers(n_workers: int, start_method: str, time_limit: float | None) -> None:
    is_possible = 0 <= arguments.whole(n_workers, "n_workers") <= MOST_WORKERS
    if not is_possible or start_method not in ("spawn", "fork"):
        raise ConfigError(
            f"{n_workers=}, {start_method=}: give 0 to {MOST_WORKERS} workers, and spawn or fork"
        )
    if time_limit is not None and not 0 < arguments.number(time_limit, "time_limit") < math.inf:
        raise ConfigError(f"time_limit={time_limit}: give seconds above 0, or None for no limit")


def _mixed_by_size(sources: Sequence[OpenSource], mix: Sampling) -> list[OpenSource]:
    for source in (opened.source for opened in sources):
        for name, default in (("weight", 1), ("epochs", None)):
            value = getattr(source, name)
            if value != default:
                raise ConfigError(
                    f"source {source.name!r}: {name}={value} cannot be used with mix; remove one of them"
                )
    weights = mix.weights({source.name: source.n_lines for source in sources})
    return [
        replace(source, source=replace(source.source, weight=weights[source.name]))
        for source in sources
    ]
