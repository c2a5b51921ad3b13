"""`volt stream run`: the lines of a stream to stdout, for a trainer that reads a pipe."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.display import counted
from volt.errors import ConfigError, OutputError, StreamError, reason, shown_path
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
        yield from ((data, "") for data in stream.blocks(limit=limit))
        return
    end = None if limit is None else stream.n + limit
    while end is None or stream.n < end:
        due = stream.n if stream.n < _FIRST else stream.n + every - 1 - stream.n % every
        for data in stream.blocks(limit=(due if end is None else min(due, end)) - stream.n):
            yield data, ""
        if stream.n == end or (place := stream.place()) is None:
            return
        number, address, inside = place
        source, (epoch, start, *_) = stream.sources[number].name, address.block
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
        return (
            self.state
            if self.resume and self.state is not None and exists(self.state)
            else self.from_state
        )


def run(
    source: StreamOptions,
    states: StateOptions,
    limit: Annotated[
        int | None, option("N", "Lines to write in this run; default: no limit.", min=0)
    ] = None,
    workers: Workers = None,
    seed: Seed = None,
    rank: Rank = None,
    world: World = None,
    summary: Annotated[
        Path | None, option("FILE", "Write the metrics to this file at the end, as JSON.")
    ] = None,
    no_user_code: Annotated[
        bool, flag("Refuse configurations that name Python files to run.", "--no-user-code")
    ] = False,
    log_every: Annotated[
        int | None, option("N", "Show every Nth line, and the first five, on stderr.", min=1)
    ] = None,
    sample: Annotated[
        Path | None, option("FILE", "Also write the shown lines to this file.")
    ] = None,
    as_json: Annotated[bool, flag("Report as JSON, at the end and on SIGUSR1.", "--json")] = False,
    quiet: Quiet = False,
) -> None:
    """Write the stream's lines to stdout.

    A pipeline is a ready-made stream: default gives one SOURCE unchanged; example mixes a parallel and a
    back-translated SOURCE, with a tag and case noise; multistream mixes any number of SOURCEs; mtdata mixes data sets
    that MTData downloads. A file with the name of a pipeline is read as a configuration.

    SIGUSR1 prints the same report on stderr as the end of the run. SIGINT and SIGTERM end the run after a whole line,
    and save its state.
    """
    _check(states, summary, sample, log_every)
    _check_files(source.files, states, [summary, sample])
    if sample is not None and log_every is None:
        raise ConfigError("--sample needs --log-every; choose the lines to save")
    consumer = Consumer(states.ack)
    from volt.files.atomic import STDOUT, identity
    from volt.stream.reading.error_policy import is_held

    with ExitStack() as stack:
        signals = stack.enter_context(Signals().listening())
        stdout = identity(STDOUT)
        out = stack.enter_context(own_stdout())
        options = {
            "rank": rank,
            "world": world,
            "n_workers": workers,
            "seed": seed,
            "user_code": not no_user_code,
        }
        stream = stack.enter_context(source.open(**options))
        _check_files(
            [*source.files, *stream.files], states, [summary, sample, stream.policy.quarantine]
        )
        for path in stream.files if stdout is not None else ():
            if identity(path) == stdout:
                raise ConfigError(
                    f"stdout: would be written over {shown_path(path)}, which is read; choose another place"
                )
        positions = _restored(stream, consumer, states, quiet=quiet)
        if stream.n == 0 and is_held(quarantine := stream.policy.quarantine) and not quiet:
            warn(
                f"{quarantine}: contains unfit lines of earlier runs; this run appends to it, unless you remove it"
            )
        with loading():
            from volt.kernels.warmup import missing
        if missing("stream"):  # otherwise, the loops that this stream needs load on demand
            prepare_kernels(Phases(quiet=quiet), "stream")
        if sample is not None:
            _write_sample(sample, b"", "wb")
        running = _Run(
            stream,
            positions,
            consumer,
            signals,
            out,
            states.state_every,
            summary=summary,
            sample=sample,
            quiet=quiet,
            as_json=as_json,
        )
        status = running.go(limit=limit, log_every=log_every)
        if running.interrupted:  # do not wait for lines that are being computed
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    if status:
        raise typer.Exit(status)


def _check(
    states: StateOptions, summary: Path | None, sample: Path | None, log_every: int | None
) -> None:
    if not stdout_is_open():
        raise OutputError("stdout is closed, but the lines go there; send them to a file or a pipe")
    if states.resume and states.state is None and states.ack is None:
        raise ConfigError("--resume needs --state or --ack; name the file to continue from")
    if states.accept and not (states.resume or states.from_state):
        raise ConfigError(
            "--accept needs --from-state or --resume; name the state to continue from"
        )
    check_files("the lines", state=states.state, summary=summary, sample=sample)


def _check_files(
    read: Sequence[str | Path], states: StateOptions, written: Sequence[str | Path | None]
) -> None:
    """Raise ConfigError if an output of the run is also an input; only the state may be both."""
    inputs = [*read, None if states.ack is None or states.ack.isdigit() else states.ack]
    check_places(["-", states.state, *written], inputs)
    check_places(["-", *written], [states.from_state])


def _restored(
    stream: Stream, consumer: Consumer, states: StateOptions, *, quiet: bool
) -> Positions:
    from volt.stream.running.checkpoint import check_own, load_state

    if states.state is not None:
        check_own(states.state, stream.rank, stream.world)
    check_kept(states.state, resume=states.resume, force=states.force, source=states.from_state)
    source = states.source
    if source is not None:
        stream.restore(load_state(source), accept=states.accept or ())
        for line in () if quiet else stream.accepted:
            say(f"accepted: {line}")
    positions = Positions(stream, consumer, states.state)
    if source is not None or states.resume:
        positions.skip_used(quiet=quiet)
    elif consumer.look():
        raise StreamError(
            f"--ack: {consumer.used} lines are reported as used, but the stream starts at its first line; "
            "continue with --resume or --from-state, or remove the file"
        )
    return positions


@dataclass
class _Run:
    """Write a stream's lines to the descriptor `out`. every: lines between two saved states"""

    stream: Stream
    positions: Positions
    consumer: Consumer
    signals: Signals
    out: int
    every: int
    summary: Path | None
    sample: Path | None
    quiet: bool
    as_json: bool

    def __post_init__(self) -> None:
        self.saved, self.has_ended, self.interrupted = self.positions.first, False, False
        listen = (
            {} if (source := self.consumer.descriptor) is None else {source: self.consumer.listen}
        )
        self.outlet = Outlet(self.out, self.signals, listen=listen, every=self._attend)

    def go(self, *, limit: int | None, log_every: int | None) -> int:
        self.signals.running = True
        try:
            self._write(blocks_and_places(self.stream, limit=limit, every=log_every))
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
                if self.sample is not None:
                    _write_sample(self.sample, data, "ab")
            self._save_if_due()

    def _save_if_due(self) -> None:
        if self.consumer.speaks or self._left - self.saved >= self.every:
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
        if self.summary is not None:
            from volt.files.atomic import write_atomic

            with write_atomic(self.summary) as file:
                file.write(
                    (json.dumps(self._metrics(), indent=1, ensure_ascii=False) + "\n").encode()
                )
        if not self.quiet:
            self._report()

    def _report(self) -> None:
        if self.as_json:
            os.write(
                sys.stderr.fileno(),
                (json.dumps(self._metrics(), ensure_ascii=False) + "\n").encode(),
            )
        else:
            say(self._sentence())

    def _sentence(self) -> str:
        result = self.stream.summary()
        n = self.outlet.n_lines
        message = counted(n, "line") + f", {self._left:,} over all runs" * (
            self.positions.first > 0
        )
        if n and result.seconds:
            message += f", in {result.seconds:,.1f} s ({n / result.seconds:,.0f} per second)"
        if len(result.sources) > 1:  # the stream has delivered lines that were not written
            written = self.stream.state(at=self._left)["sources"]
            sources = sorted(written.items(), key=lambda item: -item[1]["lines"])
            shown = [f"{name} {source['lines']:,}" for name, source in sources[:_MOST_SOURCES]]
            message += f"; {', '.join(shown)}" + " and others" * (len(sources) > _MOST_SOURCES)
        if result.n_faults:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in result.reasons.items())
            message += f"; {result.n_faults:,} of {counted(result.n_read, 'line')} read are unfit ({reasons})"
        return message + "; the stream has ended" * self.has_ended

    def _metrics(self) -> dict[str, Any]:
        return {**self.stream.summary().to_json(), "n_written": self.outlet.n_lines}
