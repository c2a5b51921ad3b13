"""`volt stream batches`: the steps of a trainer, run without one.

>>> from volt.batches.throughput import Report
>>> [Paced(Report(tokens=10, seconds=2.0), n_windows).speed for n_windows in (1, 2)]
[None, 5.0]
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.display import Grid, LabelledText, counted
from volt.errors import ConfigError, StreamError, shown_path
from volt.files.paths import exists
from volt_cli.console import Phases, loading, prepare_kernels, print_json, say, show
from volt_cli.io import check_places
from volt_cli.options import Config, Json, Quiet, Seed, Trust, Workers, flag, option
from volt_cli.signals_and_stdio import Ended
from volt_cli.stream.delivery import MOST_STATE, Force, Signals, check_files, check_kept
from volt_cli.stream.opening import TaskChoice

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.batches.steps import Steps
    from volt.batches.throughput import Report, Totals


# Nothing is trained, and `speed` is measured differently.
_LEFT_OUT = ("waited", "tokens_per_second")


@dataclass(frozen=True, slots=True)
class Paced:
    """The totals at a step, after `n_windows` windows. report: its `seconds` count from the first request"""

    report: Report
    n_windows: int

    @property
    def speed(self) -> float | None:
        """Tokens per second; None before the second window, because steps of one window come at once."""
        return self.report.tokens / max(self.report.seconds, 1e-9) if self.n_windows > 1 else None

    def to_json(self) -> dict[str, Any]:
        values = {
            key: value for key, value in self.report.to_json().items() if key not in _LEFT_OUT
        }
        speed = None if self.speed is None else round(self.speed, 1)
        return {**values, "windows": self.n_windows, "tokens_per_second": speed}


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The totals of a run.

    whole: the totals at the end of the run
    every: the totals after every N steps
    n_steps: number of steps of this run
    sources: name → lines read, epochs read, and steps per epoch
    n_read, n_faults: number of lines read, and of unfit lines
    reasons: number of unfit lines by reason
    """

    whole: Paced
    every: tuple[Paced, ...]
    n_steps: int
    totals: Totals
    sources: Mapping[str, tuple[int, float, float]]
    n_read: int = 0
    n_faults: int = 0
    reasons: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        sources = {
            name: {"lines": lines, "epochs": epochs, "steps_per_epoch": round(steps, 1)}
            for name, (lines, epochs, steps) in self.sources.items()
        }
        return {
            **self.whole.to_json(),
            "steps": self.n_steps,
            "too_long_at": list(self.totals.too_long),
            "left": self.totals.n_left,
            "n_read": self.n_read,
            "n_faults": self.n_faults,
            "reasons": dict(self.reasons or {}),
            "sources": sources,
            "every": [one.to_json() for one in self.every],
        }


def row(at: Paced) -> LabelledText:
    """Return a line with the totals at a step."""
    report = at.report
    speed = "–" if at.speed is None else f"{at.speed:,.0f}"
    words = [
        counted(report.sentences, "sentence"),
        counted(report.tokens, "token"),
        f"padding {_percent(report.padding)}",
        f"longest {report.longest:,}",
        f"{speed} tokens/s",
    ]
    return LabelledText(f"step {report.step:,}  ", words, gap="  ")


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def summary_parts(report: BatchReport) -> Iterator[RenderableType]:
    heads = ("source", "lines read", "epochs", "steps per epoch")
    rows = [
        (name, f"{lines:,}", f"{epochs:,.2f}", f"about {steps:,.0f}" if steps else "")
        for name, (lines, epochs, steps) in report.sources.items()
    ]
    yield Grid(heads, rows, numbers=range(1, len(heads)))
    for label, message in [*_steps_and_sentences(report), *_left_out(report)]:
        yield LabelledText(f"{label:14}", message.split(" "), label_style="")


def _steps_and_sentences(result: BatchReport) -> Iterator[tuple[str, str]]:
    report = result.whole.report
    n = max(1, result.n_steps)
    steps = f"{result.n_steps:,}"
    if report.world > 1:
        steps += f" of rank {report.rank}, one of {report.world}"
    if report.step > result.n_steps:
        steps += " in this run"
    yield "steps", f"{steps}, up to step {report.step:,}"
    yield "sentences", f"{report.sentences:,}, or {report.sentences / n:,.1f} a step"
    yield "tokens", f"{report.tokens:,} without padding, or {report.tokens / n:,.1f} a step"
    yield "padding", f"{_percent(report.padding)} of all positions in batches"
    yield "longest", counted(report.longest, "id")
    yield "first batch", f"after {report.first_wait:,.2f} s"
    speed = result.whole.speed
    windows = counted(result.whole.n_windows, "window")
    if speed is None:
        yield "speed here", f"– after {windows}; measured from the second window on, so raise -n"
    else:
        per_second = result.n_steps / max(report.seconds, 1e-9)
        yield "speed here", f"{speed:,.0f} tokens/s, {per_second:,.1f} steps/s, over {windows}"


def _left_out(result: BatchReport) -> Iterator[tuple[str, str]]:
    totals = result.totals
    if result.n_faults:
        yield "unfit", f"{counted(result.n_faults, 'line')}, dropped from {result.n_read:,} read"
        yield from (("", f"{n:,} {kind}") for kind, n in sorted((result.reasons or {}).items()))
    if totals.n_too_long:
        yield "too long", counted(totals.n_too_long, "line")
        yield from (("", place) for place in totals.too_long)
        if totals.n_too_long > len(totals.too_long):
            yield "", f"and {totals.n_too_long - len(totals.too_long):,} more"
    if totals.n_too_short:
        yield "too short", counted(totals.n_too_short, "line")
    if totals.n_left:
        yield (
            "left",
            f"{counted(totals.n_left, 'line')} at the end, which do not fill a batch for each rank",
        )


@dataclass(frozen=True)
class BatchState:
    PANEL = "State"

    state: Annotated[
        Path | None, option("FILE", "Save the state here at the end, for Steps.restore.")
    ] = None
    resume: Annotated[bool, flag("Continue from --state, if it exists.", "--resume")] = False
    force: Force = False


@dataclass(frozen=True, kw_only=True)
class BatchesOptions:
    config: Config
    choice: TaskChoice
    states: BatchState
    steps: Annotated[int, option("N", "Number of steps to run.", "-n", "--steps", min=1)] = 100
    every: Annotated[int | None, option("N", "Also print a row after every N steps.", min=1)] = None
    world: Annotated[int, option("N", "Simulate this number of training processes.", min=1)] = 1
    rank: Annotated[int, option("N", "This process's number among them.", min=0)] = 0
    seed: Seed = None
    workers: Workers = None
    trust: Trust = False
    as_json: Json = False
    quiet: Quiet = False

    def of_the_stream(self) -> dict[str, Any]:
        """Return the options of the stream that are not None."""
        values = {"seed": self.seed, "n_workers": self.workers, "user_code": self.trust}
        values |= self.choice.options
        return {name: value for name, value in values.items() if value is not None}


def batches(options: BatchesOptions) -> None:
    """Run the steps that a trainer would get, and report their totals: sentences, tokens, padding, speed.

    Use this to choose max_tokens and window under `batches` in the configuration: larger windows have less padding, but
    delay the first batch. The speed is measured from the second window on, without a trainer and without prefetching.
    With --resume, lines read, epochs and unfit lines are totals of all runs; everything else counts this run.

    SIGINT and SIGTERM end the run after a step: the totals are shown, and the state is saved.
    """
    from volt.files.atomic import write_atomic

    states = options.states
    if states.resume and states.state is None:
        raise ConfigError("--resume needs --state; name the file to continue from")
    check_places([states.state], [options.config])
    check_files("the report", state=states.state)
    with loading():
        from volt.batches.from_config import read_steps
        from volt.batches.steps import Steps
        from volt.stream.transforms.user_file import protect_stdout

    prepare_kernels(Phases(quiet=options.quiet), "stream", "encode", "batches", "samples")
    began = time.perf_counter()
    protect_stdout()
    parts = read_steps(options.config, **options.of_the_stream())
    with parts.stream as stream, Signals().listening() as signals:
        check_places([states.state], [*stream.files, *parts.vocabularies])
        check_kept(states.state, resume=states.resume, force=states.force, unit="step")
        steps = Steps(
            stream,
            parts.samples,
            parts.batches,
            window=parts.window,
            layout=parts.layout,
            rank=options.rank,
            world=options.world,
            ahead=False,
        )
        requested = time.perf_counter()
        _restore(steps, states)
        signals.running = True
        report = _Run(steps, options, signals, began=began, requested=requested).go()
        if states.state is not None:
            state = steps.state(at=report.whole.report.step)
            with write_atomic(states.state) as file:
                file.write((json.dumps(state) + "\n").encode())
        if options.as_json:
            print_json(report.to_json())
        elif not options.quiet:
            show(*summary_parts(report))
    _report_end(report, options, signals)


def _report_end(report: BatchReport, options: BatchesOptions, signals: Signals) -> None:
    if signals.stop:
        name = signal.Signals(signals.stop).name
        message = f"stopped by {name} after step {report.whole.report.step:,}"
        if options.states.state is not None:
            message += f"; the state is in {shown_path(options.states.state)}"
        say(message)
        raise typer.Exit(128 + signals.stop)
    if report.n_steps < options.steps and not options.quiet:
        say(f"the stream ended after {counted(report.n_steps, 'step')}")


class _Run:
    """Runs steps without a trainer, and counts.

    steps: steps that do not prefetch, so that the stream stands at the end of the current window
    began: the time before the stream was opened
    requested: the time before the first step was requested
    """

    def __init__(
        self,
        steps: Steps,
        options: BatchesOptions,
        signals: Signals,
        *,
        began: float,
        requested: float,
    ) -> None:
        from volt.batches.throughput import Progress

        self._steps = steps
        self._n = options.steps
        self._every = options.every
        self._signals = signals
        self._began = began
        self._requested = requested
        self._shows_rows = options.every is not None and not (options.as_json or options.quiet)
        # A bar is shown only if nothing else is.
        self._phases = Phases(quiet=options.quiet or self._shows_rows)
        self._progress = Progress(steps, rank=steps.rank, world=steps.world)
        self._batches = iter(self._progress)
        self._first = steps.n
        self._first_wait = 0.0
        self._n_windows = 0
        # A closed or interrupted stream no longer knows parts of epochs.
        self._read = steps.stream.summary()
        self._rows = list[Paced]()

    def go(self) -> BatchReport:
        with self._phases.phase("run steps", total=self._n, unit="steps") as advance:
            try:
                for number in range(1, self._n + 1):
                    if not self._step(number):
                        break
                    advance(number)
            except (KeyboardInterrupt, Ended):
                pass  # the report and the state are of the last step
        self._steps.close()
        return self._report()

    def _step(self, number: int) -> bool:
        with self._signals.computing():
            if next(self._batches, None) is None:
                self._read = self._steps.stream.summary()
                return False
        self._first_wait = self._first_wait or time.perf_counter() - self._began
        if self._steps.stream.n != self._read.n or not self._n_windows:
            self._n_windows += 1
            self._read = self._steps.stream.summary()
        if self._every and number % self._every == 0:
            self._rows.append(self._now())
            if self._shows_rows:
                show(row(self._rows[-1]))
                sys.stdout.flush()
        return True

    def _now(self) -> Paced:
        seconds = time.perf_counter() - self._requested
        report = replace(self._progress.report(), seconds=seconds, first_wait=self._first_wait)
        return Paced(report, self._n_windows)

    def _report(self) -> BatchReport:
        whole = self._now()
        n_steps = whole.report.step - self._first
        sentences_per_step = whole.report.sentences * self._steps.world / max(1, n_steps)
        sources = dict[str, tuple[int, float, float]]()
        for name, source in self._read.sources.items():
            steps_per_epoch = 0.0
            if source.epochs and sentences_per_step:
                steps_per_epoch = self._read.n / sentences_per_step / source.epochs
            sources[name] = (source.lines, source.epochs, steps_per_epoch)
        return BatchReport(
            whole,
            tuple(self._rows),
            n_steps,
            self._steps.totals,
            sources,
            self._read.n_read,
            self._read.n_faults,
            self._read.reasons,
        )


def _restore(steps: Steps, states: BatchState) -> None:
    from volt.files.small_files import read_bytes

    path = states.state
    if path is None or not states.resume or not exists(path):
        return
    try:
        data = read_bytes(path, kind=StreamError, most=MOST_STATE)
        try:
            stored = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise StreamError(
                f"is not JSON ({error}); give a file that --state has written"
            ) from None
        if not isinstance(stored, dict):
            raise StreamError("is not a state of steps; give a file that --state has written")
        steps.restore(stored)
    except StreamError as error:
        place = shown_path(path)
        if error.message.startswith(place):
            raise
        raise error.reworded(f"{place}: {error.message}") from None
