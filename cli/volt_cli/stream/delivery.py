r"""Write lines to stdout, read the consumer's acknowledgements, and save the state of a run.

A full pipe does not block the process: meanwhile, the outlet handles signals, the timer and acknowledgements.

>>> parsed(b"12\n150\n"), parsed(b""), parsed(b"x\n"), parsed(b"line 7\n")
(150, None, None, None)
"""

from __future__ import annotations

import fcntl
import json
import math
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
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from volt.errors import ConfigError, StreamError, quoted, shown_path, unreadable
from volt.files.atomic import check_writable, identity
from volt.files.paths import is_file
from volt.files.small_files import read_bytes
from volt_cli.console import Phases, say
from volt_cli.io import is_stdout
from volt_cli.options import flag
from volt_cli.signals_and_stdio import Ended

if TYPE_CHECKING:
    from volt.stream.running.stream import Stream


MOST_STATE = 1 << 28  # bytes of a file
_READ_SIZE = 1 << 16
_SHOWN = 100  # bytes of the consumer's message that an error shows
_SKIPPED = 1 << 16  # lines that are skipped between two updates of the progress bar


Force = Annotated[
    bool,
    flag("Start from the beginning, and replace an earlier run's position in --state.", "--force"),
]


def check_kept(
    state: Path | None, *, resume: bool, force: bool, source: Path | None = None, unit: str = "line"
) -> None:
    """Raise ConfigError if a run would replace the position of an earlier run without --force.

    source: the state that a new run starts from, which the run may replace
    unit: what a position counts
    """
    if resume and force:
        raise ConfigError(
            "--resume continues an earlier run, and --force starts from the beginning; give one of them"
        )
    if (
        state is None
        or resume
        or force
        or not is_file(state)
        or identity(state) == (source and identity(source))
    ):
        return
    try:
        n = json.loads(read_bytes(state, kind=StreamError, most=MOST_STATE))["n"]
    except (StreamError, ValueError, RecursionError, TypeError, KeyError):
        n = None
    if not isinstance(n, int):
        raise ConfigError(
            f"--state {shown_path(state)}: contains no position; name another file, or add --force"
        )
    if n:
        raise ConfigError(
            f"--state {shown_path(state)}: contains the position of an earlier run, after {unit} {n:,}; "
            "add --resume to continue there, or --force to start from the beginning"
        )


def check_files(content: str, **paths: Path | None) -> None:
    for name, path in paths.items():
        if is_stdout(path):
            raise ConfigError(f"--{name} {path}: stdout is for {content}; name a file")
        if path is not None:
            check_writable(path)


def parsed(text: bytes) -> int | None:
    """Return the last line of a text as a number; None if that line is not a whole number."""
    last = text.rstrip().rpartition(b"\n")[2].strip()
    if not last.isdigit():
        return None
    return int(last)


class Consumer:
    """The number of lines that the consumer has used, over all runs.

    source: a file that contains the number, or a descriptor that yields lines of numbers
    """

    def __init__(self, source: str | None) -> None:
        self.used: int | None = None
        self._rest = b""
        self.descriptor: int | None = None
        self.speaks = source is not None
        self._path: Path | None = None
        if source and source.isdigit():
            self.descriptor = int(source)
            try:
                os.fstat(self.descriptor)
            except OSError:
                raise ConfigError(
                    f"--ack {source}: descriptor is not open; redirect it, as in {source}<fifo"
                ) from None
        elif source:
            self._path = Path(source)

    def look(self) -> int | None:
        """Return how many lines the consumer has reported as used."""
        if self._path is not None:
            try:
                values = self._path.read_bytes()
            except FileNotFoundError:
                return self.used
            except OSError as error:
                raise unreadable(
                    self._path, error, kind=StreamError, remedy="fix it, or run without --ack"
                ) from None
            used = parsed(values)
            if used is None and values.strip():
                result = quoted(values[:_SHOWN].decode(errors="replace").strip())
                raise StreamError(
                    f"--ack {shown_path(self._path)}: {result} is not a number of lines; write how many lines are used"
                )
            self._advance(used)
        return self.used

    def listen(self) -> bool:
        """Read reports from the descriptor; return False at its end."""
        message = os.read(self.descriptor or 0, _READ_SIZE)
        whole, _, self._rest = (self._rest + message).rpartition(b"\n")
        self._advance(parsed(whole))
        return bool(message)

    def _advance(self, message: int | None) -> None:
        if message is not None and message > (self.used or 0):
            self.used = message


class Positions:
    """Saves the state after the last line that the consumer has used or, without a consumer, the last line written."""

    def __init__(self, stream: Stream, consumer: Consumer, path: Path | None) -> None:
        self._stream = stream
        self._consumer = consumer
        self._path = path
        self.first = stream.n
        self._saved = -1
        self._warned = False
        self._prepared: tuple[int, dict[str, Any]] | None = None

    def skip_used(self, *, quiet: bool = False) -> None:
        stream = self._stream
        first = stream.n
        used = self._consumer.look()
        if used is None or used <= first:
            return
        if not quiet:
            say(
                f"--ack: skipping from line {first:,} to line {used:,}, up to which the consumer "
                "has used lines"
            )
        with Phases(quiet=quiet).phase("skipping", total=used - first, unit="lines") as advance:
            while stream.skip(min(used - stream.n, _SKIPPED)):
                advance(stream.n - first)
        if stream.n < used:
            raise StreamError(
                f"--ack: {used} lines are used, but the stream has {stream.n}; check the file"
            )
        self.first = stream.n

    def save(self, n_left: int) -> None:
        self.prepare(n_left)
        self.save_prepared()

    def prepare(self, n_left: int) -> None:
        """Prepare the state after `n_left` written lines, so that it can be saved after an interrupt."""
        at = self._position(n_left)
        if self._path is None or at == self._saved:
            return
        try:
            self._prepared = at, self._stream.state(at=at)
        except StreamError as error:  # the state after the consumer's last line is gone
            if not self._warned:
                say(f"the saved state stays as it was: {error}")
            self._warned = True

    def save_prepared(self) -> None:
        """Write the prepared state. Raises StreamError if the file contains the state of another rank."""
        from volt.stream.running.checkpoint import check_own, save_state

        if self._path is not None and self._prepared is not None:
            at, state = self._prepared
            check_own(self._path, self._stream.rank, self._stream.world)
            save_state(state, self._path)
            self._saved = at
            self._prepared = None

    def _position(self, n_left: int) -> int:
        if not self._consumer.speaks:
            return n_left
        used = self._consumer.look()
        if used is not None and used > n_left:
            raise StreamError(
                f"--ack: {used} lines are reported as used, but only {n_left} were written; count from 0"
            )
        return max(self.first, used or 0)


TICK = 0.5  # seconds between two calls of `every`
_ATOMIC = select.PIPE_BUF  # bytes that a pipe takes at once when poll reports it writable
_FILE_CHUNK = 1 << 20
_GRACE = 2.0  # seconds to write the rest of a line after a request to stop


class Signals:
    """Requests by signal: to stop (the first SIGINT, SIGTERM or SIGHUP), to report (SIGUSR1).

    running: whether the run has begun; before that, and while lines are computed, a request to stop interrupts at once.
    A second SIGINT or SIGTERM ends the process; a second SIGHUP, as from a closed terminal, is ignored.
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
            return  # a second SIGHUP must not interrupt the end of the run
        elif not self.stop and (not self.running or self._computing):
            self.stop = number
            self._computing = False
            self._interrupt()
        elif self.stop:
            os._exit(128 + number)
        else:
            self.stop = number

    def _interrupt(self) -> NoReturn:
        raise KeyboardInterrupt if self.stop == signal.SIGINT else Ended(self.stop)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let a request to stop, even an earlier one, interrupt the block by KeyboardInterrupt or Ended."""
        self._computing = True
        try:
            if self.stop:
                self._interrupt()
            yield
        finally:
            self._computing = False

    @contextmanager
    def listening(self) -> Iterator[Signals]:
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
        with suppress(BlockingIOError):
            os.read(self.wake, 512)


@contextmanager
def own_stdout() -> Iterator[int]:
    """Yield a descriptor of stdout for lines only; other output, such as a user function's, goes to stderr."""
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
    """Writes to a descriptor. n_lines: number of whole lines written

    listen: descriptor → function to call when the descriptor is readable
    every: function to call regularly
    """

    def __init__(
        self,
        out: int,
        signals: Signals,
        *,
        listen: dict[int, Callable[[], bool]],
        every: Callable[[], object],
    ) -> None:
        self.n_lines = 0
        self._pid = os.getpid()
        self._signals = signals
        self._listen = dict(listen)
        self._every = every
        self._out, self._own, self._chunk = _unblocked(out)
        self._poll = select.poll()
        self._poll.register(signals.wake, select.POLLIN)
        for descriptor in self._listen:
            self._poll.register(descriptor, select.POLLIN)
        self._next_tick = time.monotonic() + TICK

    def write(self, data: bytes) -> bool:
        """Write whole lines; return False after a request to stop. Raises OSError."""
        if os.getpid() != self._pid:  # a process that a user's function forked must not write, too
            os._exit(1)
        position = 0
        end = len(data)
        deadline = math.inf
        view = memoryview(data)
        while position < end:
            if self._signals.stop and deadline == math.inf:
                deadline = time.monotonic() + _GRACE
                is_line_start = position == 0 or data[position - 1] == 0x0A
                end = position if is_line_start else data.index(b"\n", position) + 1
                continue
            if time.monotonic() > deadline:
                return False
            written = self._some(view[position : min(position + self._chunk, end)])
            self.n_lines += data.count(b"\n", position, position + written)
            position += written
        self._attend(0)
        return not self._signals.stop

    def _some(self, part: memoryview) -> int:
        if not self._attend(TICK, writing=True):
            return 0
        try:
            return os.write(self._out, part)
        except BlockingIOError:
            return 0

    def _attend(self, seconds: float, *, writing: bool = False) -> bool:
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
        if self._own:
            os.close(self._out)


def stdout_is_open() -> bool:
    try:
        return is_open(sys.stdout.fileno())
    except UnsupportedOperation:
        return True


def is_open(out: int) -> bool:
    """Check whether a descriptor is writable, unlike the replacement of a stdout that was closed at the start."""
    return fcntl.fcntl(out, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _unblocked(out: int) -> tuple[int, bool, int]:
    """Return a descriptor for writing without blocking, whether it is new, and how many bytes to write at a time.

    A pipe is opened again if possible, because O_NONBLOCK on the old descriptor would affect other processes, too.
    """
    mode = os.fstat(out).st_mode
    if stat.S_ISREG(mode):
        return out, False, _FILE_CHUNK
    try:
        return os.open(f"/proc/self/fd/{out}", os.O_WRONLY | os.O_NONBLOCK), True, 1 << 16
    except OSError:
        return out, False, _ATOMIC
