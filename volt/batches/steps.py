"""`Steps`: a stream → the arrays of each step of one rank, endless and exact to the sample.

Lines are read one window at a time and become samples, which a rule arranges in steps. Every rank
computes the same steps and takes its own batch from each, without communication.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np

from volt import arguments
from volt.batches.batching_rules import ByPacks, ByTokens
from volt.batches.batching_windows import Window, Windows
from volt.batches.collation import Arrays, Layout
from volt.batches.samples import SampleFormat
from volt.batches.steps_state import Size, StepsState, Stretch, Values, configuration_of
from volt.batches.throughput import Totals, counts_of
from volt.display import counted
from volt.errors import ConfigError, StreamError
from volt.files.threads import can_wait, next_in_thread, patiently
from volt.stream.reading.ranks import check_rank
from volt.stream.running.state_differences import differences
from volt.stream.running.state_validation import refusal
from volt.stream.running.stream import Stream
from volt.stream.tasks.task import Split

WINDOW = 1 << 14
_RECALLED = 16  # windows that `state(at=…)` can go back
_PLACES = 10  # maximum number of too long samples whose positions are recorded
_FRUITLESS = 64  # consecutive windows without a step, after which an error is raised
_GRACE = 2.0  # seconds that the thread has to stop when the steps are closed


class Steps:
    r"""An iterable of the results of `collate` or `collate_packed`; each iterator continues where
    the last one stopped.

    stream: the stream of lines; from now on, only the steps may read it
    samples: how lines become samples of source and target, or of one field for a language model
    batches: the rule: `ByTokens` or `ByPacks`
    window: number of lines in a window, or "epoch". For one source, "epoch" is an epoch of the
        source; for several, a virtual epoch (`Stream.epoch_lines`) or, if the stream ends, all
        lines
    layout: layout of the arrays
    rank, world: this rank, and the number of ranks; 0 and 1 if each rank's stream reads only its
        own lines
    ahead: whether a thread reads the next window while the current one is in use

    >>> from volt.stream import Source
    >>> import tempfile
    >>> tokens = ["<pad>", "</s>", "<unk>", "low", "new"]
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"low\tnew new\n" * 3 + b"low low low\tnew\n") and file.flush()
    ...     stream = Stream([Source("pairs", (file.name,), epochs=1)], seed=1)
    ...     with Steps(stream, SampleFormat({"src": tokens, "tgt": tokens}), ByTokens(max_tokens=8)) as steps:
    ...         sorted((step["nsentences"], step["ntokens"]) for step in steps)
    [(2, 5), (2, 6)]
    """

    def __init__(
        self,
        stream: Stream,
        samples: SampleFormat,
        batches: ByTokens | ByPacks,
        *,
        window: Size = WINDOW,
        layout: Layout | None = None,
        rank: int = 0,
        world: int = 1,
        ahead: bool = True,
    ) -> None:
        self.stream = arguments.instance(stream, Stream, "stream")
        self.format = arguments.instance(samples, SampleFormat, "samples")
        if not isinstance(batches, ByTokens | ByPacks):
            raise arguments.refusal(batches, "batches", "give ByTokens or ByPacks")
        self.rule = batches
        self.rank, self.world = check_rank(rank, world)
        layout = layout or Layout()
        self._layout = layout.of(samples, packed=isinstance(batches, ByPacks))
        self.rule.check(layout.pad_to_multiple)
        self._check(window)
        multiple = layout.pad_to_multiple
        self._windows = Windows(stream, samples, batches, self._size, self.world, multiple)
        self._window: Window | None = None
        self._n_done = 0  # steps taken in this window
        self._before = 0  # steps taken in earlier windows
        self._first = 0  # the number of the first window that is made
        self._next: Future[Window | None] | None = None
        self._is_ahead = bool(ahead)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._configuration = configuration_of(samples, batches, self._size, layout.pad_to_multiple)
        self._recall = deque[StepsState]([self._state_at(None)], maxlen=_RECALLED)
        self.totals = Totals()

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        rank: int = 0,
        world: int = 1,
        user_code: bool = True,
        values: Mapping[str, object] | None = None,
        split: Split = "train",
        tasks: Sequence[str] | None = None,
        ahead: bool = True,
        **options: Any,
    ) -> Self:
        """Return the steps of a YAML file's section `batches`.

        Raises ConfigError, with the line of each mistake.

        path: path of the file
        rank, world, ahead: as in `Steps`
        user_code, values, split, tasks: as in `Stream.from_config`
        options: options of `Stream`, which override the file
        """
        from volt.batches.from_config import read_steps

        parts = read_steps(
            path,
            rank=rank,
            world=world,
            user_code=user_code,
            values=values,
            split=split,
            tasks=tasks,
            **options,
        )
        return cls(
            parts.stream,
            parts.samples,
            parts.batches,
            window=parts.window,
            layout=parts.layout,
            rank=rank,
            world=world,
            ahead=ahead,
        )

    def _check(self, window: Size) -> None:
        if self.world > 1 and self.stream.world > 1:
            fault = f"world is {self.world}, but the stream reads only the lines of one of {self.stream.world} ranks"
            raise ConfigError(f"{fault}; give Steps a stream of all lines, or world=1")
        names = [*self.format.vocabularies]
        if isinstance(self.rule, ByPacks) and len(names) > 1:
            raise ConfigError(
                f"samples of {', '.join(names)} cannot be packed; give samples of one field, or ByTokens"
            )
        self._size: Size = window
        if window != "epoch":
            remedy = "give a number of lines, or 'epoch'"
            self._size = arguments.whole(window, "window", low=1, high=1 << 31, remedy=remedy)
        elif len(self.stream.sources) > 1:
            are_ending = all(source.source.epochs is not None for source in self.stream.sources)
            is_virtual = self.stream.epoch_lines is not None and self.stream.world == 1
            if not (are_ending or is_virtual):
                fault = "several sources lack one if weights change, some end, or ranks read"
                raise ConfigError(f"window is 'epoch', but {fault}; give a number of lines")

    def __repr__(self) -> str:
        name = repr(self.stream)
        if self.world > 1:
            name += f", rank {self.rank} of {self.world}"
        return f"<Steps of {name}, {counted(self.n, 'step')} given>"

    @property
    def n(self) -> int:
        """The number of steps so far, over all runs."""
        return self._before + self._n_done

    def __iter__(self) -> Iterator[Arrays]:
        """Count each step, then yield its arrays."""
        while True:
            with self._lock:
                started = time.monotonic()
                window = self._to_next_step()
                if window is None:
                    return
                number = self._n_done * window.world + self.rank
                arrays = self.rule.arrays(window.planned, window.samples, number, self._layout)
                self._n_done += 1
                totals, _ = counts_of(arrays)
                seconds = time.monotonic() - started
                self.totals = self.totals.plus(replace(totals, seconds=seconds))
            yield arrays

    def skip(self, n: int) -> int:
        """Skip up to `n` steps. Return how many were skipped before the end."""
        n = arguments.whole(n, "n", low=0)
        left = n
        with self._lock:
            while left and (window := self._to_next_step()) is not None:
                passed = min(left, window.planned.n_steps - self._n_done)
                self._n_done += passed
                left -= passed
        return n - left

    def state(self, *, at: int | None = None) -> Values:
        """Return the state as JSON values; ranks that have taken equally many steps have the same
        state.

        at: number of the step to resume at, in one of the last 16 windows; by default the next step
        """
        with self._lock:
            at = self.n if at is None else arguments.whole(at, "at", low=0)
            if at > self.n:
                raise StreamError(
                    f"step {at:,} lies ahead of the next step, {self.n:,}; ask for an earlier one"
                )
            for state in reversed(self._recall):
                if state.n - state.steps <= at:
                    return replace(state, n=at, steps=at - (state.n - state.steps)).to_json()
        raise StreamError(
            f"step {at:,} is too long ago; ask for a step of the last {_RECALLED} windows"
        )

    def restore(self, state: Mapping[str, Any], *, accept: Sequence[str] = ()) -> None:
        """Continue from a state, with any number of ranks and workers.

        Raises StreamError if it belongs to other steps.

        state: the result of `state`
        accept: ["window"] accepts a state with another window size; the next windows have the size
            of these steps

        With as many ranks as before, the same steps follow; otherwise, the ranks divide the rest of
        the window anew.
        """
        values = StepsState.from_json(state)
        for name in arguments.several(accept, "accept", one="did you mean ['window']?"):
            arguments.choice(name, "accept", ("window",))
        stored = dict(values.configuration)
        if "window" in accept:
            stored["window"] = self._size
        if lines := differences(stored, self._configuration):
            message = f"the state belongs to other steps: {'; '.join(lines)}; restore it there, or start anew"
            if len(lines) == 1 and lines[0].startswith("window:"):
                message += "; in Python, Steps.restore(state, accept=['window']) continues with the new size"
            raise StreamError(message)
        with self._lock:
            self._has_stopped()
            self._next = None  # the position of the stream is undefined until the state is restored
            self._resume()
            before = self.state()
            try:
                self._stand_at(values)
            except BaseException as error:
                self._stand_at(StepsState.from_json(before))
                if (
                    isinstance(error, StreamError) and error.hint
                ):  # differences that only a stream of lines accepts
                    raise StreamError(error.message.removesuffix(", or pass")) from None
                raise

    def close(self) -> None:
        """Stop the thread and the stream's workers. Reading may continue afterwards.

        A thread inside a slow transform stops later. In a forked process, and at interpreter exit,
        nothing is closed.
        """
        if not can_wait(self._pid):
            return
        with self._lock:
            if self._has_stopped(within=_GRACE):
                self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to pickle, as steps own a stream and a position."""
        raise TypeError(
            "Steps cannot be sent to another process; open Steps there, and restore their state()"
        )

    # position

    def _stand_at(self, values: StepsState) -> None:
        window, n_done = self._window_of(values)
        self._window = window
        self._n_done = n_done
        self._before = values.n - n_done
        self._next = None
        self._recall.clear()
        self._recall.append(self._state_at(window))
        self.totals = Totals(n_left=window.n_left if window else 0)

    def _window_of(self, values: StepsState) -> tuple[Window | None, int]:
        """Return a state's window, and the number of steps taken in it; (None, 0) before the first
        window."""
        if not any(stretch.n_lines for stretch in values.stretches):
            self.stream.restore(values.stretches[0].state)
            self._first = values.window
            return None, 0
        window = self._windows.again(values.window, values.world, values.stretches)
        if values.steps > window.planned.n_steps:
            raise refusal(
                f"the state has {values.steps} steps of a window that has {window.planned.n_steps}"
            )
        if values.world == self.world:
            return window, values.steps
        self._first = values.window + 1
        return self._windows.rest(window, values.steps), 0

    def _state_at(self, window: Window | None) -> StepsState:
        if window is None:
            unread = Stretch(self.stream.state(), 0, np.empty((0, 2), np.int64))
            return StepsState(
                self._before, self._first, 0, self.world, (unread,), self._configuration
            )
        return StepsState(
            self._before, window.number, 0, window.world, window.stretches, self._configuration
        )

    # reading

    def _to_next_step(self) -> Window | None:
        if self._pid != os.getpid():
            raise StreamError(
                "the steps belong to another process; open Steps in this one, and restore their state"
            )
        n_waiting = 0  # samples for the next window
        n_fruitless = 0
        while self._window is None or self._n_done == self._window.planned.n_steps:
            window = self._take()
            if window is None:
                return None
            self._before = self.n
            self._n_done = 0
            self._window = window
            self._recall.append(self._state_at(window))
            batches = window.planned.batches
            firsts = batches.too_long[: _PLACES - len(self.totals.too_long)].tolist()
            new = Totals(
                n_too_long=len(batches.too_long),
                n_too_short=len(batches.too_short),
                too_long=tuple(self._windows.shown(window, row) for row in firsts),
                n_left=window.n_left,
            )
            self.totals = self.totals.plus(new)

            n_left = len(batches.left)
            if n_left > n_waiting:
                n_fruitless = 0
            else:
                n_fruitless += 1
            n_waiting = n_left
            if not window.planned.n_steps and not window.is_last and n_fruitless == _FRUITLESS:
                raise self._nothing_fits()
        return self._window

    def _nothing_fits(self) -> StreamError:
        name, limit = self.rule.limit(self._windows.pad_to_multiple)
        totals = self.totals
        n_long = f"{counted(totals.n_too_long, 'sample')} too long ({name} is {limit:,})"
        remedy = "allow shorter ones"
        if totals.n_too_long:
            n_long += f", the first at {totals.first_too_long}"
            remedy = f"raise {name}"
        n_short = f"{counted(totals.n_too_short, 'sample')} too short"
        fault = f"{_FRUITLESS} windows in a row have no sample that fits"
        return StreamError(f"{fault}: {n_long}; {n_short}; {remedy}")

    def _take(self) -> Window | None:
        self._resume()
        following = partial(self._windows.after, first=self._first)
        if self._next is None:
            window = following(self._window)
        else:
            try:
                window = patiently(self._next)
            except BaseException:  # if only the wait was interrupted, the thread continues
                if self._next.done() and self._next.exception() is not None:
                    self._next = None
                raise
            self._next = None
        if window is not None and self._is_ahead and not window.is_last:
            self._next = next_in_thread(map(following, [window]))
        return window

    def _has_stopped(self, within: float = math.inf) -> bool:
        """Stop the thread if it runs. Return whether it stopped within this many seconds."""
        if self._next is None:
            return True
        if not self._next.done():
            self._windows.is_stopped = True
            self.stream.interrupt()
        late = time.monotonic() + within
        while not self._next.done() and time.monotonic() < late:
            time.sleep(0.001)
        return self._next.done()

    def _resume(self) -> None:
        """Allow reading after a stop, starting with the window that the thread abandoned."""
        if self._windows.is_stopped:
            self._has_stopped()
            if self._next is not None and self._next.exception() is not None:
                self._next = None
            self.stream.close()
            self._windows.is_stopped = False
