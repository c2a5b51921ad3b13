"""`volt stream run`: the lines of a stream to stdout, for a trainer that reads a pipe."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.errors import ConfigError, OutputError, StreamError, reason
from volt_cli.console import say
from volt_cli.options import Config, NoUserCode, Quiet, Rank, Seed, Workers, World
from volt_cli.places import check_places, is_stdout
from volt_cli.stream.outlet import Outlet, Signals, is_open
from volt_cli.stream.position import Consumer, Positions

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream


def open_stream(
    config: Path, *, rank: int | None = None, world: int | None = None, allow: str = "say --trust", quiet: bool = False,
    **options: Any,
) -> Stream:  # fmt: skip
    """The stream of a configuration; options that are None are the configuration's, or the environment's.

    allow: what to do so that code which the configuration names is run
    quiet: whether warnings are left out
    """
    from volt.stream.config.build import warnings_of
    from volt.stream.running.ranks import from_environment
    from volt.stream.running.stream import Stream

    if (rank is None) != (world is None):
        raise ConfigError("--rank and --world go together; give both or none")
    there = from_environment() if rank is None or world is None else (rank, world)
    given = {name: value for name, value in options.items() if value is not None}
    try:
        stream = Stream.from_config(config, rank=there[0], world=there[1], **given)
    except ConfigError as error:
        raise ConfigError(str(error).replace("say user_code=True", allow)) from None
    for warning in () if quiet else warnings_of(source.source for source in stream.sources):
        say(warning, mark="warning", style="bold yellow")
    return stream


@dataclass(frozen=True)
class StateOptions:
    """Where a run begins, and what it leaves behind for the next one."""

    PANEL = "State"

    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the state here, every so often and at the end.")
    ] = None
    state_every: Annotated[
        int, typer.Option(metavar="N", help="Lines between two states, at least; whole blocks are written.")
    ] = 100_000
    from_state: Annotated[Path | None, typer.Option(metavar="FILE", help="Go on where this state was saved.")] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on from --state, if it is there, and --ack.")] = False
    ack: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|N",
            help="File or descriptor in which the consumer says how many lines it has used, counted from the stream's "
            "first line; the state then stands right behind them.",
        ),
    ] = None

    @property
    def source(self) -> Path | None:
        """The state to go on from, if there is one."""
        return self.from_state or (
            self.state if self.resume and self.state is not None and self.state.exists() else None
        )


def run(
    config: Config,
    states: StateOptions,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="How many lines to write in this run; default: no end.")
    ] = None,
    workers: Workers = None,
    seed: Seed = None,
    rank: Rank = None,
    world: World = None,
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the metrics at the end here, as JSON.")
    ] = None,
    no_user_code: NoUserCode = False,
    quiet: Quiet = False,
) -> None:
    """Write the stream's lines to stdout.

    SIGUSR1 prints metrics (JSON, stderr). SIGINT and SIGTERM end the run at a line end, with its state saved.
    """
    _check(limit, states, summary)
    _check_files(config, states, summary)
    consumer = Consumer(states.ack)
    with ExitStack() as stack:
        signals = stack.enter_context(Signals().listening())
        options = {"rank": rank, "world": world, "n_workers": workers, "seed": seed, "user_code": not no_user_code}
        stream = stack.enter_context(open_stream(config, allow="leave --no-user-code out", quiet=quiet, **options))
        _check_files(config, states, summary, read=stream.files, appended=stream.policy.quarantine)
        positions = _restored(stream, consumer, states)
        running = _Run(stream, positions, consumer, signals, every=states.state_every, summary=summary, quiet=quiet)
        status = running.go(limit=limit)
    if status:
        raise typer.Exit(status)


def _check(limit: int | None, states: StateOptions, summary: Path | None) -> None:
    """Raise ConfigError or OutputError for what cannot be done."""
    from volt.files.atomic import check_writable

    if (limit is not None and limit < 0) or states.state_every < 1:
        raise ConfigError(
            f"--limit {limit} --state-every {states.state_every}: give a limit from 0, and every 1 or more lines"
        )
    if not is_open(sys.stdout.fileno()):
        raise OutputError("stdout is closed, and the lines go there; send them to a file or a pipe")
    if states.resume and states.state is None and states.ack is None:
        raise ConfigError("--resume needs --state or --ack; name the file to go on from")
    for option, path in (("--state", states.state), ("--summary", summary)):
        if is_stdout(path):
            raise ConfigError(f"{option} {path}: stdout is for the lines; name a file")
        if path is not None:
            check_writable(path)


def _check_files(
    config: Path,
    states: StateOptions,
    summary: Path | None,
    *,
    read: Sequence[str] = (),
    appended: str | None = None,
) -> None:
    """Raise ConfigError if the run would write over what it reads; only a state is replaced by the one that follows.

    read, appended: the files of the sources and their transforms, and that of unfit lines, once they are known
    """
    inputs = [config, *read, None if states.ack is None or states.ack.isdigit() else states.ack]
    check_places(["-", states.state, summary, appended], inputs)
    check_places(["-", summary, appended], [states.from_state])


def _restored(stream: Stream, consumer: Consumer, states: StateOptions) -> Positions:
    """Put the stream where the last run, and its consumer, left off."""
    from volt.stream.running.state_file import load_state

    source = states.source
    if source is not None:
        stream.restore(load_state(source))
    positions = Positions(stream, consumer, states.state)
    if source is not None or states.resume:
        positions.skip_used()
    elif consumer.look():
        raise StreamError(
            f"--ack: {consumer.used} lines are said to be used, but the stream starts; "
            "remove the file, or go on with --resume or --from-state"
        )
    return positions


class _Run:
    """One run, from where the stream stands."""

    def __init__(
        self,
        stream: Stream,
        positions: Positions,
        consumer: Consumer,
        signals: Signals,
        *,
        every: int,
        summary: Path | None,
        quiet: bool,
    ) -> None:
        self._stream, self._positions, self._signals = stream, positions, signals
        self._every, self._summary, self._quiet = every, summary, quiet
        self._saved = positions.first
        listen: dict[int, Callable[[], bool]] = {}
        if consumer.descriptor is not None:
            listen[consumer.descriptor] = consumer.listen
        self._acknowledged = consumer.speaks
        sys.stdout.flush()
        self._outlet = Outlet(sys.stdout.fileno(), signals, listen=listen, every=self._attend)

    def go(self, *, limit: int | None) -> int:
        """Write lines until the limit, the stream's end, the reader's end or a signal; the exit status."""
        self._signals.running = True
        try:
            self._write(limit)
        except BrokenPipeError:
            pass  # the reader has had enough
        except OSError as error:
            self._finish()
            raise OutputError(f"stdout: {reason(error)} after line {self._left:,}") from None
        except StreamError:
            self._finish()
            raise
        finally:
            self._outlet.close()
        self._finish()
        if self._signals.stop:
            say(f"stopped by {signal.Signals(self._signals.stop).name} after line {self._left:,}")
            return 128 + self._signals.stop
        return 0

    @property
    def _left(self) -> int:
        """How many of the stream's lines have left, over all runs."""
        return self._positions.first + self._outlet.n_lines

    def _write(self, limit: int | None) -> None:
        self._positions.save(self._left)
        for data in self._stream.blocks(limit=limit):
            if not self._outlet.write(data):
                return
            self._save_if_due()

    def _save_if_due(self) -> None:
        """Save the state if enough lines have left since the last time, or the consumer may have said something."""
        if self._acknowledged or self._left - self._saved >= self._every:
            self._saved = self._left
            self._positions.save(self._left)

    def _attend(self) -> None:
        """Now and then, also inside a block: report if asked to, and save the state if it is time."""
        if self._signals.report:
            self._signals.report = False
            self._report()
        self._save_if_due()

    def _finish(self) -> None:
        """Save the state, and write the metrics."""
        self._positions.save(self._left)
        if self._summary is not None:
            from volt.files.atomic import write_atomic

            with write_atomic(self._summary) as file:
                file.write((json.dumps(self._metrics(), indent=1, ensure_ascii=False) + "\n").encode())
        if not self._quiet:
            self._report()

    def _report(self) -> None:
        os.write(sys.stderr.fileno(), (json.dumps(self._metrics(), ensure_ascii=False) + "\n").encode())

    def _metrics(self) -> dict[str, Any]:
        """The stream's summary, with the lines that have really left."""
        return {**self._stream.summary().to_json(), "n_written": self._outlet.n_lines}
