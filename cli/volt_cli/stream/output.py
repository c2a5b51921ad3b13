r"""Lines to stdout, the consumer's acknowledgements, and the saved state of a run.

Writing never blocks: while the pipe is full, the outlet waits at once for the pipe, signals, the timer and
acknowledgements. It always knows how many whole lines have left.

The consumer reports how many lines it has used, counted from the first line of the stream over all runs: as a number in
a file that it replaces, or as lines of numbers on a descriptor.

>>> parsed(b"12\n150\n"), parsed(b""), parsed(b"x\n"), parsed(b"line 7\n")
(150, None, None, None)
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.errors import ConfigError, StreamError, quoted, shown_path, unreadable
from volt.files.atomic import identity
from volt.files.paths import is_file
from volt.files.small_files import read_bytes
from volt_cli.console import Phases, say
from volt_cli.process import Ended

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream


MOST_STATE = 1 << 28  # bytes of a file
_READ_SIZE = 1 << 16
_SHOWN = 100  # bytes of what the consumer wrote
_SKIPPED = 1 << 16  # lines between two looks at how far skipping has come


Force = Annotated[
    bool, typer.Option("--force", help="Start anew, and replace the position of an earlier run in --state.")
]


def check_kept(
    state: Path | None, *, resume: bool, force: bool, source: Path | None = None, unit: str = "line"
) -> None:
    """Raise ConfigError if a run would replace the position of an earlier run, which nobody has said to give up.

    state: the file that the run saves its position in
    source: the state that the run starts from, if it does not resume
    unit: what positions count
    """
    if resume and force:
        raise ConfigError("--resume continues an earlier run, and --force starts anew; give one of them")
    if state is None or resume or force or not is_file(state) or identity(state) == (source and identity(source)):
        return
    if (n := _saved_position(state)) is None:
        raise ConfigError(f"--state {shown_path(state)}: exists, and holds no position; name another, or say --force")
    if n:
        raise ConfigError(
            f"--state {shown_path(state)}: holds the position of an earlier run, after {unit} {n:,}; "
            "say --resume to continue there, or --force to start anew"
        )


def _saved_position(state: Path) -> int | None:
    """Return how many lines or steps a saved state counts; None for what is not a state."""
    try:
        n = json.loads(read_bytes(state, kind=StreamError, most=MOST_STATE))["n"]
    except (StreamError, ValueError, RecursionError, TypeError, KeyError):
        return None
    return n if isinstance(n, int) else None


def parsed(text: bytes) -> int | None:
    """Return the last line as a number; None if it is not a whole number."""
    last = text.rstrip().rpartition(b"\n")[2].strip()
    return int(last) if last.isdigit() else None


def _said(values: bytes, path: Path) -> int | None:
    """Return the number in the consumer's file, if it has written one. Raises StreamError if it has written something
    else.
    """
    used = parsed(values)
    if used is None and values.strip():
        result = quoted(values[:_SHOWN].decode(errors="replace").strip())
        raise StreamError(f"--ack {shown_path(path)}: {result} is no number of lines; write how many are used")
    return used


class Consumer:
    """The number of lines that the consumer has used.

    source: the path of a file, or the number of a descriptor; None for no consumer
    """

    def __init__(self, source: str | None) -> None:
        self.used: int | None = None
        self._rest = b""
        self.descriptor = int(source) if source and source.isdigit() else None
        self._path = Path(source) if source and self.descriptor is None else None
        self.speaks = source is not None
        if self.descriptor is not None:
            try:
                os.fstat(self.descriptor)
            except OSError:
                raise ConfigError(
                    f"--ack {source}: this descriptor is not open; redirect it, as in {source}<fifo"
                ) from None

    def look(self) -> int | None:
        """Return how many lines it has used, as far as it has said."""
        if self._path is not None:
            message = None
            try:
                message = _said(self._path.read_bytes(), self._path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise unreadable(self._path, error, kind=StreamError, remedy="fix it, or run without --ack") from None
            self._advance(message)
        return self.used

    def listen(self) -> bool:
        """Read the descriptor; whether there may be more."""
        message = os.read(self.descriptor or 0, _READ_SIZE)
        whole, _, self._rest = (self._rest + message).rpartition(b"\n")
        self._advance(parsed(whole))
        return bool(message)

    def _advance(self, message: int | None) -> None:
        if message is not None and message > (self.used or 0):
            self.used = message


class Positions:
    """Saves a stream's state: behind the lines that the consumer has used, or that have left if it says nothing."""

    def __init__(self, stream: Stream, consumer: Consumer, path: Path | None) -> None:
        self._stream, self._consumer, self._path = stream, consumer, path
        self.first = stream.n
        self._saved, self._warned = -1, False
        self._prepared: tuple[int, dict[str, Any]] | None = None

    def skip_used(self, *, quiet: bool = False) -> None:
        """Go on behind what the consumer has used, if that is further than the state."""
        used = self._consumer.look()
        if used is not None and used > self._stream.n:
            self._skip_to(used, quiet=quiet)
            if self._stream.n < used:
                raise StreamError(
                    f"--ack: {used} lines are said to be used, but the stream ends after {self._stream.n}"
                )
        self.first = self._stream.n

    def _skip_to(self, used: int, *, quiet: bool) -> None:
        """Pass over lines, which takes as long as to compute them, until so many have gone by or the stream ends."""
        first = self._stream.n
        if not quiet:
            say(f"--ack: skipping from line {first:,} to line {used:,}, which the consumer has used")
        with Phases(quiet=quiet).phase("skipping", total=used - first, unit="lines") as advance:
            while (left := used - self._stream.n) and self._stream.skip(min(left, _SKIPPED)):
                advance(self._stream.n - first)

    def save(self, n_left: int) -> None:
        """Write the state, if there is where to. n_left: lines that have left."""
        self.prepare(n_left)
        self.save_prepared()

    def prepare(self, n_left: int) -> None:
        """Take the state now, so that it can be saved when the stream has been interrupted. n_left: as for `save`."""
        at = self._position(n_left)
        if self._path is None or at == self._saved:
            return
        try:
            self._prepared = at, self._stream.state(at=at)
        except StreamError as error:  # the consumer is further behind than can be recalled
            if not self._warned:
                say(f"the state stays as it was: {error}")
            self._warned = True

    def save_prepared(self) -> None:
        """Write the state that was taken last, if there is one that is not written.

        Raises StreamError if another rank of the run writes to the same file.
        """
        from volt.stream.running.checkpoint import check_own, save_state

        if self._path is not None and self._prepared is not None:
            at, state = self._prepared
            check_own(self._path, self._stream.rank, self._stream.world)
            save_state(state, self._path)
            self._saved, self._prepared = at, None

    def _position(self, n_left: int) -> int:
        if not self._consumer.speaks:
            return n_left
        used = self._consumer.look()
        if used is not None and used > n_left:
            raise StreamError(f"--ack: {used} lines are said to be used, but only {n_left} have left; count from 0")
        return max(self.first, used or 0)


TICK = 0.5  # seconds between two calls of `every`
_ATOMIC = select.PIPE_BUF  # so much a pipe takes at once when poll says that it can be written to
_FILE_CHUNK = 1 << 20
_GRACE = 2.0  # seconds for the rest of a line after the order to stop


class Signals:
    """Requests by signal: to stop (the first SIGINT, SIGTERM or SIGHUP), to report (SIGUSR1).

    running: whether lines are being written. Before that there is nothing to save and the order to stop is obeyed where
    it comes, as it is while the next lines are computed, which may take for ever. A second SIGINT or SIGTERM ends the
    process at once. A terminal that is closed may send SIGHUP twice.
    """

    def __init__(self) -> None:
        self.stop = 0
        self.report = self.running = self._computing = False
        self.wake, self._ring = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self._ring, False)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self.report = True
        elif self.stop and number == signal.SIGHUP:
            return  # the second one must not break into what ends the run
        elif not self.stop and (not self.running or self._computing):
            self.stop, self._computing = number, False
            raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)
        elif self.stop:
            os._exit(128 + number)
        else:
            self.stop = number

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Obey the order to stop where it comes, inside: raise KeyboardInterrupt or Ended, also if it came before."""
        self._computing = True
        try:
            if self.stop:
                raise KeyboardInterrupt if self.stop == signal.SIGINT else Ended(self.stop)
            yield
        finally:
            self._computing = False

    @contextmanager
    def listening(self) -> Iterator[Signals]:
        """Catch the signals inside; they are as before afterwards."""
        caught = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            caught.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._handle) for number in caught}
        ring = signal.set_wakeup_fd(self._ring, warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(ring)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self.wake)
            os.close(self._ring)

    def drain(self) -> None:
        """Take what rang."""
        with suppress(BlockingIOError):
            os.read(self.wake, 512)


@contextmanager
def own_stdout() -> Iterator[int]:
    """A descriptor that leads to stdout, for the lines alone: what anybody else writes to stdout goes to stderr inside.

    A user's function may start a program that writes to stdout, and so may a library that it calls.
    """
    sys.stdout.flush()
    number = sys.stdout.fileno()
    out = os.dup(number)
    elsewhere = 2 if is_open(2) else os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(elsewhere, number)
        yield out
    finally:
        os.dup2(out, number)
        os.close(out)


class Outlet:
    """Writes to a descriptor. n_lines: whole lines that have left.

    listen: descriptors to watch, each with what to call when there is something to read;  every: called now and then.
    """

    def __init__(
        self, out: int, signals: Signals, *, listen: dict[int, Callable[[], bool]], every: Callable[[], object]
    ) -> None:
        self.n_lines, self._pid = 0, os.getpid()
        self._signals, self._listen, self._every = signals, dict(listen), every
        self._out, self._own, self._chunk = _unblocked(out)
        self._poll = select.poll()
        self._poll.register(signals.wake, select.POLLIN)
        for descriptor in self._listen:
            self._poll.register(descriptor, select.POLLIN)
        self._next_tick = time.monotonic() + TICK

    def write(self, data: bytes) -> bool:
        """Write whole lines; False if the order to stop came first: then no part of a line is left unwritten.

        Raises BrokenPipeError if nobody reads, OSError if the disk is full.
        """
        if os.getpid() != self._pid:  # a fork by a user's function has come back from it, and is no second stream
            os._exit(1)
        position, view, deadline = 0, memoryview(data), 0.0
        while position < len(data):
            if self._signals.stop:
                deadline = deadline or time.monotonic() + _GRACE
                line_end = position if not position or data[position - 1] == 0x0A else data.index(b"\n", position) + 1
                view, data = view[:line_end], data[:line_end]
                if position >= line_end or time.monotonic() > deadline:
                    return False
            written = self._some(view[position : position + self._chunk])
            self.n_lines += data.count(b"\n", position, position + written)
            position += written
        self._attend(0)
        return not self._signals.stop

    def _some(self, part: memoryview) -> int:
        """Write what can be written now, or wait a little; how many bytes have left."""
        if not self._attend(TICK, writing=True):
            return 0
        try:
            return os.write(self._out, part)
        except BlockingIOError:
            return 0

    def _attend(self, seconds: float, *, writing: bool = False) -> bool:
        """See to signals, listeners and the timer; whether the descriptor can be written to."""
        if writing:
            self._poll.register(self._out, select.POLLOUT)
        ready = dict(self._poll.poll(seconds * 1000))
        if writing:
            self._poll.unregister(self._out)
        can_write = bool(ready.pop(self._out, 0)) and writing
        if ready.pop(self._signals.wake, 0):
            self._signals.drain()
        for descriptor in ready:
            if not self._listen[descriptor]():
                self._poll.unregister(descriptor)
        if self._signals.report or time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + TICK
            self._every()
        return can_write

    def close(self) -> None:
        """Let go of what was opened here."""
        if self._own:
            os.close(self._out)


def stdout_is_open() -> bool:
    """Check whether lines can be written to stdout, as far as it is a file of the system."""
    try:
        return is_open(sys.stdout.fileno())
    except UnsupportedOperation:
        return True


def is_open(out: int) -> bool:
    """Check whether a descriptor can be written to. One that was closed at the start has been replaced by one that
    cannot.
    """
    return fcntl.fcntl(out, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _unblocked(out: int) -> tuple[int, bool, int]:
    """Return a descriptor to write to, whether it is a new one, and how much to write at a time.

    The flag that keeps a write from blocking belongs to an open file, which others may share; a pipe is therefore
    opened once more where the system allows it.
    """
    mode = os.fstat(out).st_mode
    if stat.S_ISREG(mode):
        return out, False, _FILE_CHUNK
    try:
        return os.open(f"/proc/self/fd/{out}", os.O_WRONLY | os.O_NONBLOCK), True, 1 << 16
    except OSError:
        return out, False, _ATOMIC
