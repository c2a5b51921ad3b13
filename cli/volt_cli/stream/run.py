"""`volt stream run`: the lines of a stream to stdout, for a trainer that reads a pipe."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.display import counted
from volt.errors import ConfigError, OutputError, StreamError, reason, shown_path
from volt.files.atomic import STDOUT, identity
from volt.files.paths import exists
from volt_cli.console import Phases, loading, prepare_kernels, say, warn
from volt_cli.io import check_places
from volt_cli.options import Quiet, Rank, Seed, Workers, World, flag, option
from volt_cli.signals_and_stdio import Ended
from volt_cli.stream.delivery import (
    Consumer,
    Force,
    Outlet,
    Positions,
    Signals,
    check_files,
    check_kept,
    own_stdout,
    stdout_is_open,
)
from volt_cli.stream.opening import StreamOptions

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream


_FIRST = 5


def blocks_and_places(
    stream: Stream, *, limit: int | None, every: int | None
) -> Iterator[tuple[bytes, str]]:
    """Yield blocks of lines, each with "" or, if the block is a line to log, with the line's place in the stream.

    every: N, to log the first five lines and every Nth line; None to log no lines
    """
    if every is None:
        for data in stream.blocks(limit=limit):
            yield data, ""
        return
    end = math.inf if limit is None else stream.n + limit
    while stream.n < end:
        next_logged = stream.n
        if stream.n >= _FIRST:
            next_logged += every - 1 - stream.n % every
        for data in stream.blocks(limit=int(min(next_logged, end)) - stream.n):
            yield data, ""
        place = stream.place()
        if stream.n == end or place is None:
            return
        number, address, inside = place
        source = stream.sources[number].name
        epoch, start, *_ = address.block
        where = f"{source}, epoch {epoch}, block at {start}, chunk {address.chunk}, place {inside}"
        for data in stream.blocks(limit=1):
            yield data, where


def _write_sample(path: Path, data: bytes, mode: str) -> None:
    try:
        with path.open(mode) as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"--sample {path}: {reason(error)}; name another file") from None


_MOST_SOURCES = 5  # sources that the summary lists


@dataclass(frozen=True)
class StateOptions:
    PANEL = "State"

    state: Annotated[
        Path | None, option("FILE", "Save the state here, regularly and at the end.")
    ] = None
    state_every: Annotated[
        int, option("N", "Least lines between two saved states; blocks are whole.", min=1)
    ] = 100_000
    from_state: Annotated[Path | None, option("FILE", "Start from this saved state.")] = None
    resume: Annotated[
        bool, flag("Continue from --state, if the file exists, and --ack.", "--resume")
    ] = False
    force: Force = False
    ack: Annotated[
        str | None,
        option(
            "FILE|N",
            "File or descriptor in which the consumer reports how many lines it has used, counted from the stream's "
            "first line; the saved state then continues after these lines.",
        ),
    ] = None

    accept: Annotated[
        list[str] | None,
        option(
            "WHAT",
            "Continue although the configuration has changed since the state: weights; sources (added); data (lines "
            "appended to a source). May be repeated.",
        ),
    ] = None

    @property
    def source(self) -> Path | None:
        if self.resume and self.state is not None and exists(self.state):
            return self.state
        return self.from_state


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    source: StreamOptions
    states: StateOptions
    limit: Annotated[
        int | None, option("N", "Lines to write in this run; default: no limit.", min=0)
    ] = None
    workers: Workers = None
    seed: Seed = None
    rank: Rank = None
    world: World = None
    summary: Annotated[
        Path | None, option("FILE", "Write the metrics to this file at the end, as JSON.")
    ] = None
    no_user_code: Annotated[
        bool, flag("Refuse configurations that name Python files to run.", "--no-user-code")
    ] = False
    log_every: Annotated[
        int | None, option("N", "Show every Nth line, and the first five, on stderr.", min=1)
    ] = None
    sample: Annotated[Path | None, option("FILE", "Also write the shown lines to this file.")] = (
        None
    )
    as_json: Annotated[bool, flag("Report as JSON, at the end and on SIGUSR1.", "--json")] = False
    quiet: Quiet = False


def run(options: RunOptions) -> None:
    """Write the stream's lines to stdout.

    A pipeline is a ready-made stream: default gives one SOURCE unchanged; example mixes a parallel and a
    back-translated SOURCE, with a tag and case noise; multistream mixes any number of SOURCEs; mtdata mixes data sets
    that MTData downloads. A file with the name of a pipeline is read as a configuration.

    SIGUSR1 prints the same report on stderr as the end of the run. SIGINT and SIGTERM end the run after a whole line,
    and save its state.
    """
    _check(options)
    consumer = Consumer(options.states.ack)
    with ExitStack() as stack:
        signals = stack.enter_context(Signals().listening())
        stdout_file = identity(STDOUT)
        out = stack.enter_context(own_stdout())
        stream = stack.enter_context(
            options.source.open(
                rank=options.rank,
                world=options.world,
                n_workers=options.workers,
                seed=options.seed,
                user_code=not options.no_user_code,
            )
        )
        _check_files(stream, options, stdout_file)
        positions = _restored(stream, consumer, options.states, quiet=options.quiet)
        with loading():
            from volt.kernels.warmup import missing
        if missing("stream"):  # otherwise, the loops that this stream needs load on demand
            prepare_kernels(Phases(quiet=options.quiet), "stream")
        if options.sample is not None:
            _write_sample(options.sample, b"", "wb")
        running = _Run(stream, positions, consumer, signals, out, options)
        status = running.go()
        if running.interrupted:  # do not wait for lines that are being computed
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    if status:
        raise typer.Exit(status)


def _check(options: RunOptions) -> None:
    states = options.states
    if not stdout_is_open():
        raise OutputError("stdout is closed, but the lines go there; send them to a file or a pipe")
    if states.resume and states.state is None and states.ack is None:
        raise ConfigError("--resume needs --state or --ack; name the file to continue from")
    if states.accept and not (states.resume or states.from_state):
        raise ConfigError(
            "--accept needs --from-state or --resume; name the state to continue from"
        )
    check_files("the lines", state=states.state, summary=options.summary, sample=options.sample)
    _check_distinct(options.source.files, options)
    if options.sample is not None and options.log_every is None:
        raise ConfigError("--sample needs --log-every; choose the lines to save")


def _check_files(stream: Stream, options: RunOptions, stdout_file: object) -> None:
    """Check the files that the configuration names. stdout_file: the identity of stdout, if it is a file"""
    quarantine = stream.policy.quarantine
    _check_distinct([*options.source.files, *stream.files], options, quarantine)
    if stdout_file is not None:
        for path in stream.files:
            if identity(path) == stdout_file:
                raise ConfigError(
                    f"stdout: would be written over {shown_path(path)}, which is read; "
                    "choose another place"
                )


def _check_distinct(
    read: Sequence[str | Path], options: RunOptions, quarantine: str | Path | None = None
) -> None:
    """Raise ConfigError if an output of the run is also an input; only the state may be both."""
    states = options.states
    inputs = [*read]
    if states.ack is not None and not states.ack.isdigit():
        inputs.append(states.ack)
    written = [options.summary, options.sample, quarantine]
    check_places(["-", states.state, *written], inputs)
    check_places(["-", *written], [states.from_state])


def _restored(
    stream: Stream, consumer: Consumer, states: StateOptions, *, quiet: bool
) -> Positions:
    from volt.stream.reading.error_policy import is_held
    from volt.stream.running.checkpoint import check_own, load_state

    if states.state is not None:
        check_own(states.state, stream.rank, stream.world)
    check_kept(states.state, resume=states.resume, force=states.force, source=states.from_state)
    source = states.source
    if source is not None:
        stream.restore(load_state(source), accept=states.accept or ())
        if not quiet:
            for line in stream.accepted:
                say(f"accepted: {line}")
    positions = Positions(stream, consumer, states.state)
    if source is not None or states.resume:
        positions.skip_used(quiet=quiet)
    elif consumer.look():
        raise StreamError(
            f"--ack: {consumer.used} lines are reported as used, but the stream starts at its first line; "
            "continue with --resume or --from-state, or remove the file"
        )
    quarantine = stream.policy.quarantine
    if stream.n == 0 and is_held(quarantine) and not quiet:
        warn(
            f"{quarantine}: contains unfit lines of earlier runs; this run appends to it, unless "
            "you remove it"
        )
    return positions


@dataclass
class _Run:
    """Write a stream's lines to the descriptor `out`."""

    stream: Stream
    positions: Positions
    consumer: Consumer
    signals: Signals
    out: int
    options: RunOptions

    def __post_init__(self) -> None:
        self.saved = self.positions.first
        self.has_ended = False
        self.interrupted = False
        listen = dict[int, Callable[[], bool]]()
        if self.consumer.descriptor is not None:
            listen[self.consumer.descriptor] = self.consumer.listen
        self.outlet = Outlet(self.out, self.signals, listen=listen, every=self._attend)

    def go(self) -> int:
        limit = self.options.limit
        self.signals.running = True
        try:
            self._write(blocks_and_places(self.stream, limit=limit, every=self.options.log_every))
            self.has_ended = not self.signals.stop and (
                limit is None or self.outlet.n_lines < limit
            )
        except BrokenPipeError:
            pass  # the reader has closed the pipe
        except (KeyboardInterrupt, Ended):
            self.interrupted = True  # the stream may be between two states
        except OSError as error:
            self._finish()
            raise OutputError(f"stdout: {reason(error)} after line {self._left:,}") from None
        except StreamError:
            self._finish()
            raise
        finally:
            self.outlet.close()
        self._finish()
        if self.signals.stop:
            say(f"stopped by {signal.Signals(self.signals.stop).name} after line {self._left:,}")
            return 128 + self.signals.stop
        return 0

    @property
    def _left(self) -> int:
        return self.positions.first + self.outlet.n_lines

    def _write(self, blocks: Iterator[tuple[bytes, str]]) -> None:
        self.positions.save(self._left)
        while True:
            self.positions.prepare(self._left)
            with self.signals.computing():
                data, place = next(blocks, (None, ""))
            if data is None or not self.outlet.write(data):
                return
            if place:
                say(f"line {self._left - 1:,} ({place}): {data.decode(errors='replace').rstrip()}")
                if self.options.sample is not None:
                    _write_sample(self.options.sample, data, "ab")
            self._save_if_due()

    def _save_if_due(self) -> None:
        if self.consumer.speaks or self._left - self.saved >= self.options.states.state_every:
            self.saved = self._left
            self.positions.save(self._left)

    def _attend(self) -> None:
        if self.signals.report:
            self.signals.report = False
            self._report()
        self._save_if_due()

    def _finish(self) -> None:
        if self.interrupted:
            self.positions.save_prepared()
        else:
            self.positions.save(self._left)
        if self.options.summary is not None:
            from volt.files.atomic import write_atomic

            with write_atomic(self.options.summary) as file:
                file.write(self._metrics(indent=1))
        if not self.options.quiet:
            self._report()

    def _report(self) -> None:
        if self.options.as_json:
            os.write(sys.stderr.fileno(), self._metrics())
        else:
            say(self._sentence())

    def _sentence(self) -> str:
        summary = self.stream.summary()
        n = self.outlet.n_lines
        message = counted(n, "line")
        if self.positions.first:
            message += f", {self._left:,} over all runs"
        if n and summary.seconds:
            message += f", in {summary.seconds:,.1f} s ({n / summary.seconds:,.0f} per second)"
        if len(summary.sources) > 1:
            message += f"; {self._lines_of_sources()}"
        if summary.n_faults:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in summary.reasons.items())
            n_read = counted(summary.n_read, "line")
            message += f"; {summary.n_faults:,} of {n_read} read are unfit ({reasons})"
        if self.has_ended:
            message += "; the stream has ended"
        return message

    def _lines_of_sources(self) -> str:
        """Return the numbers of written lines; the stream has delivered other lines, too."""
        written = self.stream.state(at=self._left)["sources"]
        sources = sorted(written.items(), key=lambda item: -item[1]["lines"])
        shown = ", ".join(f"{name} {source['lines']:,}" for name, source in sources[:_MOST_SOURCES])
        if len(sources) > _MOST_SOURCES:
            shown += " and others"
        return shown

    def _metrics(self, *, indent: int | None = None) -> bytes:
        values = {**self.stream.summary().to_json(), "n_written": self.outlet.n_lines}
        return (json.dumps(values, indent=indent, ensure_ascii=False) + "\n").encode()
