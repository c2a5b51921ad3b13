"""`volt stream batches`: the steps of a trainer, run without one, to see what `batches` in a configuration comes to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.display import counted
from volt.errors import ConfigError, StreamError, shown_path
from volt_cli.console import Phases, loading, prepare_kernels, print_json, say, show
from volt_cli.options import Config, Json, Quiet, Seed, Trust, Workers
from volt_cli.places import check_places, is_stdout
from volt_cli.stream.choosing import TaskChoice
from volt_cli.stream.opening import say_warnings, told_to_trust

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.batches.progress import Report
    from volt.batches.steps import Steps, Totals

_MOST_STATE = 1 << 28  # bytes of a file


@dataclass(frozen=True)
class BatchState:
    """Where the steps begin, and what is left behind for the next run."""

    PANEL = "State"

    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the state here at the end, for Steps.restore.")
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on from --state, if it is there.")] = False


@dataclass(frozen=True, slots=True)
class Found:
    """What the steps of a run came to.

    report: of all of them;  every: one for each so many steps
    totals: what the steps say of themselves
    sources: name → lines and epochs that have been read, and steps per epoch
    """

    report: Report
    every: tuple[Report, ...]
    totals: Totals
    sources: Mapping[str, tuple[int, float, float]]

    def to_json(self) -> dict[str, Any]:
        """JSON values; what a trainer would have waited is not known."""
        sources = {
            name: {"lines": lines, "epochs": epochs, "steps_per_epoch": round(steps, 1)}
            for name, (lines, epochs, steps) in self.sources.items()
        }
        return {
            **_without_wait(self.report), "steps": self.totals.n_steps, "too_long_at": list(self.totals.too_long),
            "left": self.totals.n_left, "sources": sources, "every": [_without_wait(one) for one in self.every],
        }  # fmt: skip


def _without_wait(report: Report) -> dict[str, Any]:
    return {key: value for key, value in report.to_json().items() if key != "waited"}


def batches(
    config: Config,
    choice: TaskChoice,
    states: BatchState,
    steps: Annotated[int, typer.Option("-n", "--steps", metavar="N", min=1, help="How many steps to run.")] = 100,
    every: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Also report after every so many steps.")
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
    """
    _check(config, states)
    with loading():
        from volt.batches.from_config import read_steps
        from volt.batches.steps import Steps

    phases = Phases(quiet=quiet)
    prepare_kernels(phases, "stream", "encode", "batches", "samples")
    options: dict[str, Any] = {"seed": seed, "n_workers": workers, "user_code": trust, **choice.options}
    start = time.perf_counter()
    with told_to_trust():
        parts = read_steps(config, rank=rank, world=world, **{k: v for k, v in options.items() if v is not None})
    with parts.stream as stream:
        check_places([states.state], [*stream.files, *parts.vocabularies])
        if not quiet:
            say_warnings(stream)
        running = Steps(
            stream, parts.samples, parts.batches, window=parts.window, layout=parts.layout, rank=rank, world=world
        )
        _restore(running, states)
        with running:
            found = _run(running, steps, every, phases, start)
        _save(running, states)
    if as_json:
        print_json(found.to_json())
    else:
        show(*_parts(found))
    if found.totals.n_steps < steps and not quiet:
        say(f"the stream ended after {counted(found.totals.n_steps, 'step')}")


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


def _run(steps: Steps, n: int, every: int | None, phases: Phases, start: float) -> Found:
    """Run steps. start: when opening them began, on the clock `time.perf_counter`"""
    from volt.batches.progress import Progress

    reports, first_wait = list[Any](), 0.0
    progress = Progress(steps, every=every or n, to=reports.append, rank=0, world=1)
    with phases.phase("run steps", total=n, unit="steps") as advance:
        for number, _ in enumerate(progress, 1):
            first_wait = first_wait or time.perf_counter() - start
            advance(number)
            if number == n:
                break
    steps.close()
    mine: dict[str, Any] = {"rank": steps.rank, "world": steps.world, "first_wait": first_wait}
    told = tuple(replace(one, **mine) for one in reports) if every else ()
    total = progress.report()
    speed = total.tokens / total.seconds if total.seconds else 0.0
    whole = replace(total, **mine, tokens_per_second=speed)
    return Found(whole, told, steps.totals, _sources(steps, whole.sentences))


def _sources(steps: Steps, n_sentences: int) -> dict[str, tuple[int, float, float]]:
    """Of each source the lines and epochs that were read, and about how many steps an epoch has.

    Lines are read for a whole window, so more of them than steps have used.
    """
    found = steps.stream.summary()
    given = max(1, n_sentences) * steps.world / max(1, steps.totals.n_steps)  # sentences of a step, of all ranks
    return {
        name: (one.lines, one.epochs, found.n / given / one.epochs if one.epochs else 0.0)
        for name, one in found.sources.items()
    }


# what is shown


def _parts(found: Found) -> Iterator[RenderableType]:
    """The sources, the reports on the way, and what all comes to."""
    from volt.text.layout import Entry, Grid

    heads = ("source", "lines read", "epochs", "steps per epoch")
    rows = [
        (name, f"{lines:,}", f"{epochs:,.2f}", f"about {steps:,.0f}" if steps else "")
        for name, (lines, epochs, steps) in found.sources.items()
    ]
    yield Grid(heads, rows, numbers=range(1, len(heads)))
    if found.every:
        yield Grid(
            ("step", "sentences", "tokens", "padding", "longest", "tokens/s"),
            [_row(one) for one in found.every],
            numbers=range(6),
        )
    for label, told in _told(found.report, found.totals):
        yield Entry(f"{label:14}", told.split(" "), label_style="")


def _row(report: Report) -> tuple[str, ...]:
    counts = f"{report.step:,}", f"{report.sentences:,}", f"{report.tokens:,}"
    return (
        *counts,
        f"{report.padding:.2%}".replace("%", " %"),
        f"{report.longest:,}",
        f"{report.tokens_per_second:,.0f}",
    )


def _told(report: Report, totals: Totals) -> Iterator[tuple[str, str]]:
    """Labels and what stands behind them."""
    n = max(1, totals.n_steps)
    rank = f" of rank {report.rank}, one of {report.world}" * (report.world > 1)
    yield "steps", f"{totals.n_steps:,}{rank}, up to step {report.step:,}"
    yield "sentences", f"{report.sentences:,}, or {report.sentences / n:,.1f} a step"
    yield "tokens", f"{report.tokens:,} without padding, or {report.tokens / n:,.1f} a step"
    yield "padding", f"{report.padding:.2%} of all that is laid out".replace("%", " %", 1)
    yield "longest", counted(report.longest, "id")
    yield "first batch", f"after {report.first_wait:,.2f} s"
    yield (
        "speed here",
        f"{report.tokens_per_second:,.0f} tokens/s, {totals.n_steps / max(report.seconds, 1e-9):,.1f} steps/s",
    )
    if totals.n_too_long:
        yield "too long", counted(totals.n_too_long, "line")
        yield from (("", place) for place in totals.too_long)
        if totals.n_too_long > len(totals.too_long):
            yield "", f"and {totals.n_too_long - len(totals.too_long):,} more"
    if totals.n_too_short:
        yield "too short", counted(totals.n_too_short, "line")
    if totals.n_left:
        yield "left", f"{counted(totals.n_left, 'line')} at the end, too few for a batch for each rank"


# the state


def _restore(steps: Steps, states: BatchState) -> None:
    """Put the steps where the last run left off. Raises StreamError, with the file's name, if they are others."""
    from volt.files.whole import read_bytes

    path = states.state
    if path is None or not states.resume or not path.exists():
        return
    try:
        steps.restore(_parsed(read_bytes(path, kind=StreamError, most=_MOST_STATE)))
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


def _save(steps: Steps, states: BatchState) -> None:
    from volt.files.atomic import write_atomic

    if states.state is not None:
        with write_atomic(states.state) as file:
            file.write((json.dumps(steps.state()) + "\n").encode())
