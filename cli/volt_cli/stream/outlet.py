"""Write a stream's lines to stdout, which may be a pipe whose reader is slow.

A blocking write to a full pipe would delay signals, reports and saved states. So `Outlet` writes
without blocking, and waits in `poll` for whichever comes first: room in the pipe, a signal, a
report of the consumer, or the next tick.
"""

from __future__ import annotations

import fcntl
import math
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import UnsupportedOperation

from volt_cli.stream.stop_signals import Signals

TICK = 0.5  # seconds between two calls of `on_tick`
GRACE = 2.0  # seconds to write the rest of a line after a request to stop
# Bytes that are written at a time: to a file; to a pipe that cannot block; and to a pipe that blocks beyond PIPE_BUF.
_FILE_BYTES = 1 << 20
_PIPE_BYTES = 1 << 16
_BLOCKING_PIPE_BYTES = select.PIPE_BUF


@contextmanager
def reserve_stdout() -> Iterator[int]:
    """Yield a descriptor of stdout for the lines alone.

    Other output, such as that of a user's function, goes to stderr.
    """
    sys.stdout.flush()
    stdout = sys.stdout.fileno()
    lines_descriptor = os.dup(stdout)
    replacement = 2 if is_writable(2) else os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(replacement, stdout)
        yield lines_descriptor
    finally:
        os.dup2(lines_descriptor, stdout)
        os.close(lines_descriptor)


def stdout_is_open() -> bool:
    try:
        return is_writable(sys.stdout.fileno())
    except UnsupportedOperation:  # a replacement without a descriptor, as in tests
        return True


def is_writable(descriptor: int) -> bool:
    """Check whether a descriptor is open for writing.

    A stdout that was closed at the start was replaced by a descriptor that is not.
    """
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


class Outlet:
    """Writes whole lines to a descriptor.

    n_lines: number of whole lines written
    receivers: descriptor → function that reads from it when it is readable, and returns False at
        its end
    on_tick: function that is called every half second, and when SIGUSR1 arrives
    """

    def __init__(
        self,
        descriptor: int,
        signals: Signals,
        *,
        receivers: dict[int, Callable[[], bool]],
        on_tick: Callable[[], object],
    ) -> None:
        self.n_lines = 0
        self._pid = os.getpid()
        self._signals = signals
        self._receivers = receivers
        self._on_tick = on_tick
        self._next_tick = time.monotonic() + TICK
        self._descriptor, self._max_bytes = _open_without_blocking(descriptor)
        self._is_reopened = self._descriptor != descriptor
        self._poll = select.poll()
        for readable in (signals.wakeup, *receivers):
            self._poll.register(readable, select.POLLIN)

    def write(self, data: bytes) -> bool:
        """Write whole lines; after a request to stop, end the current line and return False.

        Raises OSError if the descriptor cannot be written.
        """
        if os.getpid() != self._pid:  # a process that a user's function forked must not write, too
            os._exit(1)
        start = 0
        end = len(data)
        deadline = math.inf
        view = memoryview(data)
        while start < end:
            if self._signals.stop_signal and deadline == math.inf:
                deadline = time.monotonic() + GRACE
                is_line_start = start == 0 or data[start - 1] == 0x0A
                end = start if is_line_start else data.index(b"\n", start) + 1
                continue
            if time.monotonic() > deadline:
                return False
            n_bytes = self._write_some(view[start : min(start + self._max_bytes, end)])
            self.n_lines += data.count(b"\n", start, start + n_bytes)
            start += n_bytes
        self._wait(0)
        return not self._signals.stop_signal

    def close(self) -> None:
        if self._is_reopened:
            os.close(self._descriptor)

    def _write_some(self, data: memoryview) -> int:
        """Write as much as possible within half a second; return the number of bytes."""
        if not self._wait(TICK, for_room=True):
            return 0
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0

    def _wait(self, seconds: float, *, for_room: bool = False) -> bool:
        """Wait for an event, and handle it.

        Return whether `for_room` is set and the descriptor can be written.
        """
        if for_room:
            self._poll.register(self._descriptor, select.POLLOUT)
        events = dict(self._poll.poll(seconds * 1000))
        if for_room:
            self._poll.unregister(self._descriptor)
        can_write = events.pop(self._descriptor, 0) != 0 and for_room
        if events.pop(self._signals.wakeup, 0):
            self._signals.clear_wakeup()
        for descriptor in events:
            if not self._receivers[descriptor]():
                self._poll.unregister(descriptor)
        if self._signals.report_requested or time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + TICK
            self._on_tick()
        return can_write


def _open_without_blocking(descriptor: int) -> tuple[int, int]:
    """Return a descriptor of the same file that does not block, and the bytes to write at once.

    A pipe is opened again, because O_NONBLOCK on the old descriptor would also affect other
    processes.
    """
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor, _FILE_BYTES
    try:
        path = f"/proc/self/fd/{descriptor}"
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK), _PIPE_BYTES
    except OSError:
        return descriptor, _BLOCKING_PIPE_BYTES
