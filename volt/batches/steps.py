"""`Steps`: a stream → the arrays of each step of one rank, endless and exact to the sample.

Lines are read one window at a time and become samples, which a rule arranges in steps. Every rank
computes the same steps and takes its own batch from each, without communication. A thread reads
the next window while the current one is in use; only one thread uses the stream at a time.

A position is a window and the number of steps taken in it. `state` describes it by the window's
lines, and `restore` reads these lines again.
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
from volt.array_types import Longs
from volt.batches.batching_rules import ByPacks, ByTokens
from volt.batches.batching_windows import Window, Windows
from volt.batches.collation import Arrays, Layout
from volt.batches.samples import SampleFormat
from volt.batches.steps_state import Size, StepsState, Stretch, Values, describe_configuration
from volt.batches.throughput import Totals, counts_of
from volt.display import counted
from volt.errors import ConfigError, StreamError
from volt.files.threads import can_wait, next_in_thread, wait_for_result
from volt.stream.reading.ranks import check_rank
from volt.stream.running.state import check_range
from volt.stream.running.state_differences import differences
from volt.stream.running.state_validation import refusal
from volt.stream.running.stream import Stream

WINDOW = 1 << 14  # lines
_N_RECENT = 16  # windows that `state(at=…)` can go back
_MAX_POSITIONS = 10  # of samples that are too long
_MAX_FRUITLESS = 64  # consecutive windows without a step, after which an error is raised
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
        multiple = layout.pad_to_multiple
        self.rule.check(multiple)
        self._window_size = self._check_window_size(window)
        self._windows = Windows(
            stream, samples, batches, self._window_size, self.world, pad_to_multiple=multiple
        )
        self._window: Window | None = None  # None before the first window
        self._n_done = 0  # steps taken in this window
        self._n_before = 0  # steps taken in earlier windows
        self._first_window = 0  # the number of the window after None
        self._is_ahead = bool(ahead)
        self._next: Future[Window | None] | None = None  # the window that the thread reads
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._configuration = describe_configuration(samples, batches, self._window_size, multiple)
        # States at the start of recent windows
        self._recent = deque[StepsState]([self._state_before(None)], maxlen=_N_RECENT)
        self.totals = Totals()

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        rank: int = 0,
        world: int = 1,
        ahead: bool = True,
        **options: Any,
    ) -> Self:
        """Return the steps of a YAML file's section `batches`.

        Raises ConfigError, with the line of each mistake.

        path: path of the file
        rank, world, ahead: as in `Steps`
        options: user_code, values, split and tasks, as in `Stream.from_config`, and options of
            `Stream`, which override the file
        """
        from volt.batches.from_config import read_steps

        check_rank(rank, world)  # before files are read
        parts = read_steps(path, **options)
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

    def _check_window_size(self, size: Size) -> Size:
        if self.world > 1 and self.stream.world > 1:
            raise ConfigError(
                f"world is {self.world}, but the stream reads only the lines of one of {self.stream.world} ranks; "
                "give Steps a stream of all lines, or world=1"
            )
        names = [*self.format.vocabularies]
        if isinstance(self.rule, ByPacks) and len(names) > 1:
            raise ConfigError(
                f"samples of {', '.join(names)} cannot be packed; give samples of one field, or ByTokens"
            )
        if size != "epoch":
            remedy = "give a number of lines, or 'epoch'"
            return arguments.whole(size, "window", low=1, high=1 << 31, remedy=remedy)
        sources = self.stream.sources
        is_ending = all(source.source.epochs is not None for source in sources)
        is_virtual = self.stream.epoch_lines is not None and self.stream.world == 1
        if len(sources) > 1 and not is_ending and not is_virtual:
            raise ConfigError(
                "window is 'epoch', but several sources have no common epoch if their weights "
                "change, only some of them end, or ranks share the stream; give a number of lines"
            )
        return size

    def __repr__(self) -> str:
        name = repr(self.stream)
        if self.world > 1:
            name += f", rank {self.rank} of {self.world}"
        return f"<Steps of {name}, {counted(self.n, 'step')} given>"

    @property
    def n(self) -> int:
        """The number of steps so far, over all runs."""
        return self._n_before + self._n_done

    def __iter__(self) -> Iterator[Arrays]:
        """Count each step, then yield its arrays."""
        while True:
            with self._lock:
                start = time.monotonic()
                window = self._move_to_next_step()
                if window is None:
                    return
                batch = self._n_done * self.world + self.rank
                arrays = self.rule.make_arrays(window.plan, window.samples, batch, self._layout)
                self._n_done += 1
                totals, _ = counts_of(arrays)
                seconds = time.monotonic() - start
                self.totals = self.totals.plus(replace(totals, seconds=seconds))
            yield arrays

    def skip(self, n: int) -> int:
        """Skip up to `n` steps. Return how many were skipped before the end."""
        n = arguments.whole(n, "n", low=0)
        n_remaining = n
        with self._lock:
            while n_remaining and (window := self._move_to_next_step()) is not None:
                n_skipped = min(n_remaining, window.plan.n_steps - self._n_done)
                self._n_done += n_skipped
                n_remaining -= n_skipped
        return n - n_remaining

    def skip_range(self, start: int, stop: int) -> None:
        """Leave out steps that follow, such as the steps of a loss spike.

        Later states record their lines, and continue with any number of ranks. A line is recorded
        even if another part of it, which `on_long="split"` made, is in another step.

        start, stop: the number of the next step, and of the step to continue with

        Raises StreamError if `start` is another step, or if the steps end before `stop`.
        """
        with self._lock:
            check_range(start, stop, at=self.n, unit="step")
            lines = list[Longs]()
            while self.n < stop:
                window = self._move_to_next_step()
                if window is None:
                    raise StreamError(f"the steps end after step {self.n:,}; skip fewer steps")
                end = min(self._n_done + stop - self.n, window.plan.n_steps)
                used = window.plan.used_rows(end)
                rows = np.setdiff1d(used, window.plan.used_rows(self._n_done))
                lines.append(window.samples.numbers[rows])
                self._n_done = end
            state = StepsState.from_json(self.state())
            self.restore(state.add_skipped(np.concatenate(lines)).to_json())

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
            for start in reversed(self._recent):
                if start.n <= at:
                    return replace(start, n=at, steps=at - start.n).to_json()
        raise StreamError(
            f"step {at:,} is too long ago; ask for a step of the last {_N_RECENT} windows"
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
            stored["window"] = self._window_size
        if lines := differences(stored, self._configuration):
            message = f"the state belongs to other steps: {'; '.join(lines)}; restore it there, or start anew"
            if len(lines) == 1 and lines[0].startswith("window:"):
                message += "; in Python, Steps.restore(state, accept=['window']) continues with the new size"
            raise StreamError(message)
        with self._lock:
            self._stop_thread()
            self._next = None  # the position of the stream is undefined until the state is restored
            self._allow_reading()
            before = self.state()
            try:
                self._move_to(values)
            except BaseException as error:
                self._move_to(StepsState.from_json(before))
                # A hint names differences that only a stream of lines accepts.
                if isinstance(error, StreamError) and error.hint:
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
            if self._stop_thread(seconds=_GRACE):
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

    def _move_to(self, state: StepsState) -> None:
        self._window, self._n_done = self._read_window(state)
        self._n_before = state.n - self._n_done
        self._next = None
        self._recent.clear()
        self._recent.append(self._state_before(self._window))
        self.totals = Totals(n_left=self._window.n_left if self._window else 0)

    def _read_window(self, state: StepsState) -> tuple[Window | None, int]:
        """Return a state's window, and the number of steps taken in it.

        (None, 0): the first window is not read yet. For another number of ranks, the window
        contains only the samples of the steps that were not taken.
        """
        if not any(stretch.n_lines for stretch in state.stretches):
            self.stream.restore(state.stretches[0].state)
            self._first_window = state.window
            return None, 0
        window = self._windows.read_again(state.window, state.world, state.stretches)
        n_steps = window.plan.n_steps
        if state.steps > n_steps:
            raise refusal(f"the state has {state.steps} steps of a window that has {n_steps}")
        if state.world == self.world:
            return window, state.steps
        self._first_window = state.window + 1
        return self._windows.replan(window, state.steps), 0

    def _state_before(self, window: Window | None) -> StepsState:
        """Return the state before the first step of a window; None: before the first window."""
        if window is None:
            number = self._first_window
            stretches: tuple[Stretch, ...] = (
                Stretch(self.stream.state(), 0, np.empty((0, 2), np.int64)),
            )
        else:
            number = window.number
            stretches = window.stretches
        return StepsState(
            n=self._n_before,
            window=number,
            steps=0,
            world=self.world,
            stretches=stretches,
            configuration=self._configuration,
        )

    # reading

    def _move_to_next_step(self) -> Window | None:
        """Take windows until one has an untaken step. Return that window, or None at the end."""
        if self._pid != os.getpid():
            raise StreamError(
                "the steps belong to another process; open Steps in this one, and restore their state"
            )
        n_left = 0  # samples of the window before
        n_fruitless = 0
        while self._window is None or self._n_done == self._window.plan.n_steps:
            window = self._take_window()
            if window is None:
                return None
            self._n_before = self.n
            self._n_done = 0
            self._window = window
            self._recent.append(self._state_before(window))
            self._add_to_totals(window)

            n_fruitless += 1
            if len(window.plan.batches.left) > n_left:  # they may become a step
                n_fruitless = 0
            n_left = len(window.plan.batches.left)
            has_steps = window.plan.n_steps or window.is_last
            if not has_steps and n_fruitless == _MAX_FRUITLESS:
                raise self._no_fit_error()
        return self._window

    def _add_to_totals(self, window: Window) -> None:
        batches = window.plan.batches
        n_positions = _MAX_POSITIONS - len(self.totals.too_long)
        rows = batches.too_long[:n_positions].tolist()
        totals = Totals(
            n_too_long=len(batches.too_long),
            n_too_short=len(batches.too_short),
            too_long=tuple(self._windows.describe_line(window, row) for row in rows),
            n_left=window.n_left,
        )
        self.totals = self.totals.plus(totals)

    def _no_fit_error(self) -> StreamError:
        name, limit = self.rule.limit(self._windows.pad_to_multiple)
        totals = self.totals
        n_long = f"{counted(totals.n_too_long, 'sample')} too long ({name} is {limit:,})"
        remedy = "allow shorter ones"
        if totals.n_too_long:
            n_long += f", the first at {totals.first_too_long}"
            remedy = f"raise {name}"
        n_short = f"{counted(totals.n_too_short, 'sample')} too short"
        fault = f"{_MAX_FRUITLESS} windows in a row have no sample that fits"
        return StreamError(f"{fault}: {n_long}; {n_short}; {remedy}")

    def _take_window(self) -> Window | None:
        """Return the next window, from the thread if it reads; let a thread read the one after."""
        self._allow_reading()
        read_after = partial(self._windows.read_after, first=self._first_window)
        if self._next is None:
            window = read_after(self._window)
        else:
            try:
                window = wait_for_result(self._next)
            except BaseException:  # if only the wait was interrupted, the thread continues
                self._forget_failure()
                raise
            self._next = None
        if window is not None and self._is_ahead and not window.is_last:
            self._next = next_in_thread(map(read_after, [window]))
        return window

    def _forget_failure(self) -> None:
        """Let the next window be read again if the thread could not read it."""
        if self._next is not None and self._next.done() and self._next.exception() is not None:
            self._next = None

    def _stop_thread(self, seconds: float = math.inf) -> bool:
        """Stop the thread if it runs. Return whether it stopped within this many seconds."""
        if self._next is None:
            return True
        if not self._next.done():
            self._windows.is_stopped = True
            self.stream.interrupt()
        deadline = time.monotonic() + seconds
        while not self._next.done() and time.monotonic() < deadline:
            time.sleep(0.001)
        return self._next.done()

    def _allow_reading(self) -> None:
        """Allow reading after a stop, starting with the window that the thread abandoned."""
        if self._windows.is_stopped:
            self._stop_thread()
            self._forget_failure()
            self.stream.close()
            self._windows.is_stopped = False
