"""Bytes to stdout in such a way that a signal, a slow reader or a timer is never kept waiting, and every line counted.

A pipe is written to without blocking; while it is full, the outlet waits for the pipe, for signals and for whoever else
is to be listened to, all at once. It always knows how many whole lines have left.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from types import FrameType

from volt_cli.ending import Ended

TICK = 0.5  # seconds between two calls of `every`
_ATOMIC = select.PIPE_BUF  # so much a pipe takes at once when poll says that it can be written to
_FILE_CHUNK = 1 << 20
_GRACE = 2.0  # seconds for the rest of a line after the order to stop


class Signals:
    """What has been asked for by signal: to stop (the first SIGINT, SIGTERM or SIGHUP), to report (SIGUSR1).

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

    def _asked(self, number: int, frame: FrameType | None) -> None:
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
        before = {number: signal.signal(number, self._asked) for number in caught}
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
    """Whether lines can be written to stdout, as far as it is a file of the system."""
    try:
        return is_open(sys.stdout.fileno())
    except UnsupportedOperation:
        return True


def is_open(out: int) -> bool:
    """Whether a descriptor can be written to. One that was closed at the start has been replaced by one that cannot."""
    return fcntl.fcntl(out, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _unblocked(out: int) -> tuple[int, bool, int]:
    """A descriptor to write to, whether it is a new one, and how much to write at a time.

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
