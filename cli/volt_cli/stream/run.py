"""`volt stream run`: the lines of a stream to stdout, for a trainer that reads a pipe.

A run alternates between three steps until it ends: compute a block of lines, write it (see
`outlet`), and save the state if --state-every lines have been written, or the consumer has reported
(see `positions`). Signals can interrupt the first step, and end the second after a whole line (see
`stop_signals`).
"""

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

from volt.display import counted
from volt.errors import ConfigError, OutputError, StreamError, reason, shown_path
from volt.files.atomic import STDOUT, identity
from volt.files.paths import exists
from volt_cli.console import Phases, loading, prepare_kernels, say, warn
from volt_cli.io import check_distinct_files
from volt_cli.options import Quiet, Rank, Seed, Workers, World, flag, option
from volt_cli.signals_and_stdio import Ended
from volt_cli.stream.opening import StreamOptions
from volt_cli.stream.outlet import Outlet, reserve_stdout, stdout_is_open
from volt_cli.stream.positions import (
    Consumer,
    Force,
    Positions,
    check_files,
    check_replaceable_state,
)
from volt_cli.stream.stop_signals import Signals

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream

N_FIRST_LOGGED = 5  # first lines that --log-every shows in any case
MAX_SHOWN_SOURCES = 5  # sources whose lines the final sentence lists


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
            "appended to a source; for Parquet and Arrow, only new files). May be repeated.",
        ),
    ] = None

    @property
    def restored_file(self) -> Path | None:
        """The file of the state from which the run starts; None to start at the first line."""
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

    A pipeline is a ready-made stream: default gives one SOURCE unchanged; example mixes a parallel
    and a back-translated SOURCE, with a tag and case noise; multistream mixes any number of
    SOURCEs; mtdata mixes data sets that MTData downloads. A file with the name of a pipeline is
    read as a configuration.

    SIGUSR1 prints the same report on stderr as the end of the run. SIGINT and SIGTERM end the run
    after a whole line, and save its state.
    """
    _check_options(options)
    consumer = Consumer(options.states.ack)
    with ExitStack() as stack:
        signals = stack.enter_context(Signals().listening())
        stdout_file = identity(STDOUT)
        lines_descriptor = stack.enter_context(reserve_stdout())
        stream = stack.enter_context(
            options.source.open(
                rank=options.rank,
                world=options.world,
                n_workers=options.workers,
                seed=options.seed,
                user_code=not options.no_user_code,
            )
        )
        _check_files_of_stream(stream, options, stdout_file)
        positions = _restore(stream, consumer, options.states, quiet=options.quiet)
        with loading():
            from volt.kernels.warmup import missing
        if missing("stream"):  # otherwise, the loops that this stream needs load on demand
            prepare_kernels(Phases(quiet=options.quiet), "stream")
        if options.sample is not None:
            _write_sample(options.sample, b"", "wb")
        run = _Run(stream, positions, consumer, signals, lines_descriptor, options)
        status = run.write_stream()
        if run.is_interrupted:  # do not wait for lines that are being computed
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    if status:
        sys.exit(status)


def _check_options(options: RunOptions) -> None:
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
    _check_outputs(options, options.source.files)
    if options.sample is not None and options.log_every is None:
        raise ConfigError("--sample needs --log-every; choose the lines to save")


def _check_files_of_stream(stream: Stream, options: RunOptions, stdout_file: object) -> None:
    """Raise ConfigError if an output is a file that the configuration names.

    stdout_file: the identity of the file to which stdout was redirected at the start; None if it is
        not a file
    """
    _check_outputs(options, [*options.source.files, *stream.files], stream.policy.quarantine)
    if stdout_file is None:
        return
    for path in stream.files:
        if identity(path) == stdout_file:
            raise ConfigError(
                f"stdout: would be written over {shown_path(path)}, which is read; "
                "choose another place"
            )


def _check_outputs(
    options: RunOptions, inputs: Sequence[str | Path], quarantine: str | Path | None = None
) -> None:
    """Raise ConfigError if an output of the run is also an input.

    Only --state may also be --from-state.
    """
    states = options.states
    all_inputs = [*inputs]
    if states.ack is not None and not states.ack.isdigit():
        all_inputs.append(states.ack)
    outputs = ["-", options.summary, options.sample, quarantine]
    check_distinct_files([*outputs, states.state], all_inputs)
    check_distinct_files(outputs, [states.from_state])


def _restore(stream: Stream, consumer: Consumer, states: StateOptions, *, quiet: bool) -> Positions:
    """Move the stream to the line where the run starts."""
    from volt.stream.reading.error_policy import has_content
    from volt.stream.running.checkpoint import check_rank_of_file, load_state

    if states.state is not None:
        check_rank_of_file(states.state, stream.rank, stream.world)
    check_replaceable_state(
        states.state,
        resume=states.resume,
        force=states.force,
        from_state=states.from_state,
        unit="line",
    )
    restored_file = states.restored_file
    if restored_file is not None:
        stream.restore(load_state(restored_file), accept=states.accept or ())
        if not quiet:
            for change in stream.accepted:
                say(f"accepted: {change}")
    positions = Positions(stream, consumer, states.state)
    if restored_file is not None or states.resume:
        positions.skip_used(quiet=quiet)
    elif consumer.read_n_used():
        raise StreamError(
            f"--ack: {consumer.n_used} lines are reported as used, but the stream starts at its first line; "
            "continue with --resume or --from-state, or remove the file"
        )
    quarantine = stream.policy.quarantine
    if stream.n == 0 and has_content(quarantine) and not quiet:
        warn(
            f"{quarantine}: contains unfit lines of earlier runs; this run appends to it, unless "
            "you remove it"
        )
    return positions


@dataclass
class _Run:
    """Writes a stream's lines to a descriptor, saves states, and reports.

    has_ended: whether the stream has no more lines
    is_interrupted: whether a signal has interrupted a computation, after which the stream has no
        valid state
    """

    stream: Stream
    positions: Positions
    consumer: Consumer
    signals: Signals
    lines_descriptor: int
    options: RunOptions

    def __post_init__(self) -> None:
        self.has_ended = False
        self.is_interrupted = False
        self._last_save = self.positions.first_line
        receivers = dict[int, Callable[[], bool]]()
        if self.consumer.descriptor is not None:
            receivers[self.consumer.descriptor] = self.consumer.receive
        self.outlet = Outlet(
            self.lines_descriptor, self.signals, receivers=receivers, on_tick=self._tick
        )

    @property
    def _n_written(self) -> int:
        """The number of lines that this run and the earlier runs have written."""
        return self.positions.first_line + self.outlet.n_lines

    def write_stream(self) -> int:
        """Write lines until the limit, the end or a signal. Return the exit status."""
        limit = self.options.limit
        self.signals.is_running = True
        try:
            self._write_blocks()
            is_limited = limit is not None and self.outlet.n_lines >= limit
            self.has_ended = not (self.signals.stop_signal or is_limited)
        except BrokenPipeError:
            pass  # the reader has closed the pipe
        except (KeyboardInterrupt, Ended):
            self.is_interrupted = True
        except OSError as error:
            self._finish()
            raise OutputError(f"stdout: {reason(error)} after line {self._n_written:,}") from None
        except StreamError:
            self._finish()
            raise
        finally:
            self.outlet.close()
        self._finish()
        stop_signal = self.signals.stop_signal
        if not stop_signal:
            return 0
        say(f"stopped by {signal.Signals(stop_signal).name} after line {self._n_written:,}")
        return 128 + stop_signal

    def _write_blocks(self) -> None:
        blocks = blocks_and_places(
            self.stream, limit=self.options.limit, log_every=self.options.log_every
        )
        self.positions.save(self._n_written)
        while True:
            self.positions.prepare(self._n_written)
            with self.signals.computing():
                data, place = next(blocks, (None, ""))
            if data is None or not self.outlet.write(data):
                return
            if place:
                line = data.decode(errors="replace").rstrip()
                say(f"line {self._n_written - 1:,} ({place}): {line}")
                if self.options.sample is not None:
                    _write_sample(self.options.sample, data, "ab")
            self._save_if_due()

    def _save_if_due(self) -> None:
        n_unsaved = self._n_written - self._last_save
        if self.consumer.reports or n_unsaved >= self.options.states.state_every:
            self._last_save = self._n_written
            self.positions.save(self._n_written)

    def _tick(self) -> None:
        if self.signals.report_requested:
            self.signals.report_requested = False
            self._report()
        self._save_if_due()

    def _finish(self) -> None:
        if self.is_interrupted:
            self.positions.save_prepared()
        else:
            self.positions.save(self._n_written)
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
            say(self._describe())

    def _metrics(self, *, indent: int | None = None) -> bytes:
        values = {**self.stream.summary().to_json(), "n_written": self.outlet.n_lines}
        return (json.dumps(values, indent=indent, ensure_ascii=False) + "\n").encode()

    def _describe(self) -> str:
        """Return a sentence on the lines, their speed, the sources, and unfit lines.

        For example: 9 lines, 12 over all runs, in 0.1 s (90 per second); de 8, en 4
        """
        summary = self.stream.summary()
        n_lines = self.outlet.n_lines
        message = counted(n_lines, "line")
        if self.positions.first_line:
            message += f", {self._n_written:,} over all runs"
        if n_lines and summary.seconds:
            speed = n_lines / summary.seconds
            message += f", in {summary.seconds:,.1f} s ({speed:,.0f} per second)"
        if len(summary.sources) > 1:
            message += f"; {self._describe_sources()}"
        if summary.n_faults:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in summary.reasons.items())
            n_read = counted(summary.n_read, "line")
            message += f"; {summary.n_faults:,} of {n_read} read are unfit ({reasons})"
        if self.has_ended:
            message += "; the stream has ended"
        return message

    def _describe_sources(self) -> str:
        """Return the sources with the most written lines, over all runs.

        The stream's own summary also counts lines that are computed, but not yet written.
        """
        sources = self.stream.state(at=self._n_written)["sources"]
        n_lines = {name: source["lines"] for name, source in sources.items()}
        largest = sorted(n_lines.items(), key=lambda item: -item[1])[:MAX_SHOWN_SOURCES]
        message = ", ".join(f"{name} {n:,}" for name, n in largest)
        if len(n_lines) > MAX_SHOWN_SOURCES:
            message += " and others"
        return message


def blocks_and_places(
    stream: Stream, *, limit: int | None, log_every: int | None
) -> Iterator[tuple[bytes, str]]:
    """Yield blocks of lines, each with "", or with its place in the stream if it is a line to log.

    limit: number of lines to yield; None for all
    log_every: N to log the first five lines and every Nth line; None to log no line
    """
    if log_every is None:
        for data in stream.blocks(limit=limit):
            yield data, ""
        return
    end = math.inf if limit is None else stream.n + limit
    while stream.n < end:
        next_logged = stream.n
        if stream.n >= N_FIRST_LOGGED:
            next_logged += log_every - 1 - stream.n % log_every  # n + 1 is a multiple of N
        for data in stream.blocks(limit=int(min(next_logged, end)) - stream.n):
            yield data, ""
        place = stream.place()
        if stream.n == end or place is None:
            return
        source_index, address, line_in_chunk = place
        epoch, first_line, *_ = address.block
        description = (
            f"{stream.sources[source_index].name}, epoch {epoch}, block at {first_line}, "
            f"chunk {address.chunk}, place {line_in_chunk}"
        )
        for data in stream.blocks(limit=1):
            yield data, description


def _write_sample(path: Path, data: bytes, mode: str) -> None:
    try:
        with path.open(mode) as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"--sample {path}: {reason(error)}; name another file") from None
