"""`volt stream batches`: run the steps of a trainer without a trainer, and report their totals.

A step is what a trainer gets at once: a batch for each rank. The stream is read in windows of
lines, and all steps of a window are computed together. So the first step of a window takes long and
the others no time, and a speed is known only from the second window on:

>>> from volt.batches.throughput import Report
>>> [StepTotals(Report(tokens=10, seconds=2.0), n_windows).speed for n_windows in (1, 2)]
[None, 5.0]
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from volt.display import Grid, LabelledText, counted
from volt.errors import ConfigError, StreamError, shown_path
from volt.files.paths import exists
from volt_cli.console import Phases, loading, prepare_kernels, print_json, say, show
from volt_cli.io import check_distinct_files
from volt_cli.options import Config, Json, Quiet, Seed, Trust, Workers, flag, option
from volt_cli.signals_and_stdio import Ended
from volt_cli.stream.opening import TaskOptions
from volt_cli.stream.positions import Force, check_files, check_replaceable_state
from volt_cli.stream.stop_signals import Signals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.batches.steps import Steps
    from volt.batches.throughput import Report, Totals
    from volt.stream.running.summary import Summary


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
    choice: TaskOptions
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


def batches(options: BatchesOptions) -> None:
    """Run the steps that a trainer would get, and report their totals: sentences, tokens, padding, speed.

    Use this to choose max_tokens and window under `batches` in the configuration: larger windows
    have less padding, but delay the first batch. The speed is measured from the second window on,
    without a trainer and without prefetching. With --resume, lines read, epochs and unfit lines are
    totals of all runs; everything else counts this run.

    SIGINT and SIGTERM end the run after a step: the totals are shown, and the state is saved.
    """
    from volt.files.atomic import write_atomic

    states = options.states
    if states.resume and states.state is None:
        raise ConfigError("--resume needs --state; name the file to continue from")
    check_distinct_files([states.state], [options.config])
    check_files("the report", state=states.state)
    with loading():
        from volt.batches.from_config import read_steps
        from volt.batches.steps import Steps
        from volt.stream.transforms.user_file import protect_stdout

    prepare_kernels(Phases(quiet=options.quiet), "stream", "encode", "batches", "samples")
    opened = time.perf_counter()
    protect_stdout()
    reading = options.choice.stream_options(
        seed=options.seed, n_workers=options.workers, user_code=options.trust
    )
    parts = read_steps(options.config, **reading)
    with parts.stream as stream, Signals().listening() as signals:
        check_distinct_files([states.state], [*stream.files, *parts.vocabularies])
        check_replaceable_state(states.state, resume=states.resume, force=states.force, unit="step")
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
        signals.is_running = True
        run = _Run(steps, options, signals, opened=opened, requested=requested)
        report = run.run_steps()
        if states.state is not None:
            state = steps.state(at=report.final.report.step)
            with write_atomic(states.state) as file:
                file.write((json.dumps(state) + "\n").encode())
        if options.as_json:
            print_json(report.to_json())
        elif not options.quiet:
            show(*report_parts(report))
    _report_end(report, options, signals.stop_signal)


def _restore(steps: Steps, states: BatchState) -> None:
    path = states.state
    if path is None or not states.resume or not exists(path):
        return
    from volt.stream.running.checkpoint import read_state

    state = read_state(path)
    try:
        steps.restore(state)
    except StreamError as error:
        raise error.reworded(f"{shown_path(path)}: {error.message}") from None


def _report_end(report: BatchReport, options: BatchesOptions, stop_signal: int) -> None:
    """Say why the run ended, if not after -n steps. Raises SystemExit after a signal."""
    if stop_signal:
        name = signal.Signals(stop_signal).name
        message = f"stopped by {name} after step {report.final.report.step:,}"
        if options.states.state is not None:
            message += f"; the state is in {shown_path(options.states.state)}"
        say(message)
        sys.exit(128 + stop_signal)
    if report.n_steps < options.steps and not options.quiet:
        say(f"the stream ended after {counted(report.n_steps, 'step')}")


class _Run:
    """Takes steps and counts them.

    steps: steps that do not prefetch, so that the stream stands at the end of the current window
    opened: time (of `time.perf_counter`) before the stream was opened
    requested: time before the first step was requested
    """

    def __init__(
        self,
        steps: Steps,
        options: BatchesOptions,
        signals: Signals,
        *,
        opened: float,
        requested: float,
    ) -> None:
        from volt.batches.throughput import Progress

        self._steps = steps
        self._options = options
        self._signals = signals
        self._opened = opened
        self._requested = requested
        self._shows_rows = options.every is not None and not (options.as_json or options.quiet)
        self._progress = Progress(steps)
        self._batches = iter(self._progress)
        self._first_step = steps.n
        self._first_wait = 0.0
        self._n_windows = 0
        self._summary = steps.stream.summary()  # at the end of the current window
        self._rows = list[StepTotals]()

    def run_steps(self) -> BatchReport:
        n_steps = self._options.steps
        phases = Phases(quiet=self._options.quiet or self._shows_rows)
        with phases.phase("run steps", total=n_steps, unit="steps") as advance:
            try:
                for n_taken in range(1, n_steps + 1):
                    if not self._take_step(n_taken):
                        break
                    advance(n_taken)
            except (KeyboardInterrupt, Ended):
                pass  # the report and the state are of the last whole step
        self._steps.close()
        final = self._measure()
        return BatchReport(
            final=final,
            every=tuple(self._rows),
            n_steps=final.report.step - self._first_step,
            totals=self._steps.totals,
            summary=self._summary,
        )

    def _take_step(self, n_taken: int) -> bool:
        """Take a step; return False at the end.

        n_taken: number of steps of this run, this one included
        """
        with self._signals.computing():
            has_ended = next(self._batches, None) is None
        stream = self._steps.stream
        # Summaries are taken at once, because a closed or interrupted stream no longer knows parts of epochs.
        if has_ended:
            self._summary = stream.summary()
            return False
        if not self._n_windows or stream.n != self._summary.n:
            self._n_windows += 1
            self._summary = stream.summary()
        self._first_wait = self._first_wait or time.perf_counter() - self._opened
        if self._options.every and n_taken % self._options.every == 0:
            self._rows.append(self._measure())
            if self._shows_rows:
                show(step_row(self._rows[-1]))
                sys.stdout.flush()
        return True

    def _measure(self) -> StepTotals:
        seconds = time.perf_counter() - self._requested
        report = replace(self._progress.report(), seconds=seconds, first_wait=self._first_wait)
        return StepTotals(report, self._n_windows)


@dataclass(frozen=True, slots=True)
class StepTotals:
    """The totals of this run after a step.

    report: a trainer's report; its `seconds` count from the request of the first step
    n_windows: number of windows that the steps have begun
    """

    report: Report
    n_windows: int

    @property
    def speed(self) -> float | None:
        """Tokens per second; None in the first window, all of whose steps come at once."""
        if self.n_windows < 2:
            return None
        return self.report.tokens / max(self.report.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        values = self.report.to_json()
        del values["waited"]  # no trainer waits
        del values["tokens_per_second"]  # replaced by `speed`, below
        speed = None if self.speed is None else round(self.speed, 1)
        return {**values, "windows": self.n_windows, "tokens_per_second": speed}


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The result of a run.

    final: totals after the last step
    every: totals after every N steps, if --every is N
    n_steps: number of steps of this run
    totals: counts of lines that are in no batch, too
    summary: statistics of the stream, over all runs
    """

    final: StepTotals
    every: tuple[StepTotals, ...]
    n_steps: int
    totals: Totals
    summary: Summary

    def steps_per_epoch(self, source: str) -> float:
        """Estimate the steps that the stream needs to deliver one epoch of a source.

        This is the number of lines that all sources deliver meanwhile ÷ the lines in a step of all
        ranks. Return 0 if there is no estimate.
        """
        report = self.final.report
        n_epochs = self.summary.sources[source].epochs
        if not n_epochs or not report.sentences or not self.n_steps:
            return 0.0
        lines_per_step = report.sentences * report.world / self.n_steps
        return self.summary.n / lines_per_step / n_epochs

    def to_json(self) -> dict[str, Any]:
        sources = {}
        for name, source in self.summary.sources.items():
            steps_per_epoch = round(self.steps_per_epoch(name), 1)
            sources[name] = {
                "lines": source.lines,
                "epochs": source.epochs,
                "steps_per_epoch": steps_per_epoch,
            }
        return {
            **self.final.to_json(),
            "steps": self.n_steps,
            "too_long_at": list(self.totals.too_long),
            "left": self.totals.n_left,
            "n_read": self.summary.n_read,
            "n_faults": self.summary.n_faults,
            "reasons": self.summary.reasons,
            "sources": sources,
            "every": [totals.to_json() for totals in self.every],
        }


def step_row(totals: StepTotals) -> LabelledText:
    """Return the line that --every prints after a step."""
    report = totals.report
    speed = "–" if totals.speed is None else f"{totals.speed:,.0f}"
    words = [
        counted(report.sentences, "sentence"),
        counted(report.tokens, "token"),
        f"padding {_percent(report.padding)}",
        f"longest {report.longest:,}",
        f"{speed} tokens/s",
    ]
    return LabelledText(f"step {report.step:,}  ", words, gap="  ")


def report_parts(report: BatchReport) -> Iterator[RenderableType]:
    """Yield a table of the sources, then a line for each total."""
    heads = ("source", "lines read", "epochs", "steps per epoch")
    rows = []
    for name, source in report.summary.sources.items():
        n_steps = report.steps_per_epoch(name)
        estimate = f"about {n_steps:,.0f}" if n_steps else ""
        rows.append((name, f"{source.lines:,}", f"{source.epochs:,.2f}", estimate))
    yield Grid(heads, rows, numbers=range(1, len(heads)))
    for label, text in [*_describe_batches(report), *_describe_omitted_lines(report)]:
        yield LabelledText(f"{label:14}", text.split(" "), label_style="")


def _describe_batches(result: BatchReport) -> Iterator[tuple[str, str]]:
    report = result.final.report
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
    speed = result.final.speed
    windows = counted(result.final.n_windows, "window")
    if speed is None:
        yield "speed here", f"– after {windows}; measured from the second window on, so raise -n"
    else:
        per_second = result.n_steps / max(report.seconds, 1e-9)
        yield "speed here", f"{speed:,.0f} tokens/s, {per_second:,.1f} steps/s, over {windows}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _describe_omitted_lines(result: BatchReport) -> Iterator[tuple[str, str]]:
    """Yield the numbers of lines that are in no batch, each after the reason.

    Details of a reason follow with an empty label.
    """
    totals = result.totals
    summary = result.summary
    if summary.n_faults:
        yield "unfit", f"{counted(summary.n_faults, 'line')}, dropped from {summary.n_read:,} read"
        for fault, n_lines in sorted(summary.reasons.items()):
            yield "", f"{n_lines:,} {fault}"
    if totals.n_too_long:
        yield "too long", counted(totals.n_too_long, "line")
        for place in totals.too_long:
            yield "", place
        if totals.n_too_long > len(totals.too_long):
            yield "", f"and {totals.n_too_long - len(totals.too_long):,} more"
    if totals.n_too_short:
        yield "too short", counted(totals.n_too_short, "line")
    if totals.n_left:
        yield (
            "left",
            f"{counted(totals.n_left, 'line')} at the end, which do not fill a batch for each rank",
        )
