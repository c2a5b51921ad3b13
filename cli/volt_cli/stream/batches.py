"""`volt stream batches`: the steps of a trainer, run without one, to see what `batches` in a configuration comes to."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.display import counted
from volt.errors import ConfigError, StreamError, shown_path
from volt.files.sizes import exists
from volt_cli.console import Phases, loading, prepare_kernels, print_json, say, show
from volt_cli.ending import Ended
from volt_cli.options import Config, Json, Quiet, Seed, Trust, Workers
from volt_cli.places import check_places, is_stdout
from volt_cli.stream.batches_shown import Found, Paced, Row, summary_parts
from volt_cli.stream.choosing import TaskChoice
from volt_cli.stream.opening import say_warnings, told_to_trust
from volt_cli.stream.outlet import Signals
from volt_cli.stream.position import MOST_STATE, Force, check_kept

if TYPE_CHECKING:
    from volt.batches.steps import Steps


@dataclass(frozen=True)
class BatchState:
    """Where the steps begin, and what is left behind for the next run."""

    PANEL = "State"

    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the state here at the end, for Steps.restore.")
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Continue from --state, if it exists.")] = False
    force: Force = False


def batches(
    config: Config,
    choice: TaskChoice,
    states: BatchState,
    steps: Annotated[int, typer.Option("-n", "--steps", metavar="N", min=1, help="How many steps to run.")] = 100,
    every: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Also print a row after every so many steps.")
    ] = None,
    world: Annotated[int, typer.Option(metavar="N", min=1, help="As if so many processes trained.")] = 1,
    rank: Annotated[int, typer.Option(metavar="N", min=0, help="Which of them this is.")] = 0,
    seed: Seed = None,
    workers: Workers = None,
    trust: Trust = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the steps that a trainer would be given, and say what they come to: sentences, tokens, padding, speed.

    What they are is told by `batches` in the configuration. Run this to choose max_tokens and window: larger windows
    leave less padding, and the first batch comes later.

    The speed is that of the steps alone, with no window read ahead: tokens of the run by the seconds since its first
    step was asked for. It is told from the second window on, as the steps of one window come all at once. With
    --resume, lines read, epochs and unfit lines count over all runs, and all else in this one.

    SIGINT and SIGTERM end the run behind a step: what it came to is shown, and the state is saved.
    """
    _check(config, states)
    with loading():
        from volt.batches.from_config import read_steps
        from volt.batches.steps import Steps

    phases, shows_rows = Phases(quiet=quiet), every is not None and not (as_json or quiet)
    prepare_kernels(phases, "stream", "encode", "batches", "samples")
    options: dict[str, Any] = {"seed": seed, "n_workers": workers, "user_code": trust, **choice.options}
    began = time.perf_counter()
    with told_to_trust():
        parts = read_steps(config, rank=rank, world=world, **{k: v for k, v in options.items() if v is not None})
    with parts.stream as stream, Signals().listening() as signals:
        check_places([states.state], [*stream.files, *parts.vocabularies])
        check_kept(states.state, resume=states.resume, force=states.force, unit="step")
        if not quiet:
            say_warnings(stream)
        running = Steps(
            stream, parts.samples, parts.batches, window=parts.window, layout=parts.layout, rank=rank, world=world,
            ahead=False,
        )  # fmt: skip
        asked = time.perf_counter()
        _restore(running, states)
        signals.running = True
        rows = _Rows(running.n + steps) if shows_rows else None
        run = _Run(
            running, steps, every=every, signals=signals, began=began, asked=asked, told=rows or (lambda row: None)
        )
        found = run.go(Phases(quiet=quiet or shows_rows))  # a bar is for a terminal that shows nothing else
        _save(running, states, found.whole.report.step)
        _tell(found, as_json=as_json, quiet=quiet)
    if signals.stop:
        said = f"stopped by {signal.Signals(signals.stop).name} after step {found.whole.report.step:,}"
        say(said + f"; the state is in {shown_path(states.state)}" * (states.state is not None))
        raise typer.Exit(128 + signals.stop)
    if found.n_steps < steps and not quiet:
        say(f"the stream ended after {counted(found.n_steps, 'step')}")


class _Rows:
    """Shows each row when it is there. last: the last step that there may be"""

    def __init__(self, last: int) -> None:
        self._last, self._is_first = last, True

    def __call__(self, row: Paced) -> None:
        show(Row(row, self._last, self._is_first))
        sys.stdout.flush()
        self._is_first = False


def _tell(found: Found, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(found.to_json())
    elif not quiet:
        show(*summary_parts(found))


def _check(config: Path, states: BatchState) -> None:
    """Raise ConfigError or OutputError for what cannot be done."""
    from volt.files.atomic import check_writable

    if states.resume and states.state is None:
        raise ConfigError("--resume needs --state; name the file to go on from")
    if states.state is not None:
        if is_stdout(states.state):
            raise ConfigError(f"--state {states.state}: stdout is for the report; name a file")
        check_places([states.state], [config])
        check_writable(states.state)


class _Run:
    """Some steps, counted while nobody trains.

    steps: which read no window ahead, so that the stream stands at the end of the window in use
    began: when opening them began;  asked: when the first step, or the state before it, was asked for
    told: what gets each row
    """

    def __init__(
        self, steps: Steps, n: int, *, every: int | None, signals: Signals, began: float, asked: float,
        told: Callable[[Paced], object],
    ) -> None:  # fmt: skip
        from volt.batches.progress import Progress

        self._steps, self._n, self._every, self._signals = steps, n, every, signals
        self._began, self._asked, self._told = began, asked, told
        self._progress = Progress(steps, rank=steps.rank, world=steps.world)
        self._first, self._first_wait, self._n_windows = steps.n, 0.0, 0
        self._read = steps.stream.summary()  # a stream that is closed, or interrupted, no longer knows parts of epochs
        self._rows = list[Paced]()

    def go(self, phases: Phases) -> Found:
        """Run the steps to their number, their end or a signal."""
        with phases.phase("run steps", total=self._n, unit="steps") as advance:
            try:
                for number in self._each():
                    advance(number)
            except (KeyboardInterrupt, Ended):
                pass  # steps go on, or are saved, where they stand
        self._steps.close()
        return self._found()

    def _each(self) -> Iterator[int]:
        """The number of each step in this run."""
        steps = iter(self._progress)
        for number in range(1, self._n + 1):
            with self._signals.computing():
                if next(steps, None) is None:
                    self._read = self._steps.stream.summary()
                    return
            self._note()
            if self._every and number % self._every == 0:
                self._rows.append(now := self._now())
                self._told(now)
            yield number

    def _note(self) -> None:
        self._first_wait = self._first_wait or time.perf_counter() - self._began
        if self._steps.stream.n != self._read.n or not self._n_windows:
            self._n_windows, self._read = self._n_windows + 1, self._steps.stream.summary()

    def _now(self) -> Paced:
        seconds = time.perf_counter() - self._asked
        report = replace(self._progress.report(), seconds=seconds, first_wait=self._first_wait)
        return Paced(report, self._n_windows)

    def _found(self) -> Found:
        whole, read = self._now(), self._read
        n_steps = whole.report.step - self._first
        size = whole.report.sentences * self._steps.world / max(1, n_steps)  # of a step, of all ranks
        sources = {
            name: (one.lines, one.epochs, read.n / size / one.epochs if one.epochs and size else 0.0)
            for name, one in read.sources.items()
        }
        return Found(
            whole, tuple(self._rows), n_steps, self._steps.totals, sources, read.n_read, read.n_faults, read.reasons
        )


# the state


def _restore(steps: Steps, states: BatchState) -> None:
    """Put the steps where the last run left off. Raises StreamError, with the file's name, if they are others."""
    from volt.files.whole import read_bytes

    path = states.state
    if path is None or not states.resume or not exists(path):
        return
    try:
        steps.restore(_parsed(read_bytes(path, kind=StreamError, most=MOST_STATE)))
    except StreamError as error:
        place = shown_path(path)
        raise StreamError(str(error) if str(error).startswith(place) else f"{place}: {error}") from None


def _parsed(data: bytes) -> Mapping[str, Any]:
    try:
        stored = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StreamError(f"not JSON ({error}); take a file that --state has written") from None
    if not isinstance(stored, dict):
        raise StreamError("no state of steps; take a file that --state has written")
    return stored


def _save(steps: Steps, states: BatchState, at: int) -> None:
    """Write the state, whole or not at all. at: the last step that was counted"""
    from volt.files.atomic import write_atomic

    if states.state is not None:
        with write_atomic(states.state) as file:
            file.write((json.dumps(steps.state(at=at)) + "\n").encode())
