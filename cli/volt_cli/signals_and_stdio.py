"""Signals and standard streams of the process.

SIGTERM and SIGHUP end a command as Ctrl-C does. Standard streams that were closed at the start are
replaced, because otherwise the next opened file would get their number.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from volt_cli.interrupts import end_in_silence

# How stdin, stdout and stderr are opened if they are closed. Using the first two then fails, with a message.
_MODES = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)


def prepare_standard_files() -> None:
    """Replace standard streams that are closed, and unbuffered ones, by usable streams."""
    for number, mode in enumerate(_MODES):
        if _is_closed(number):
            os.dup2(os.open(os.devnull, mode), number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or _text(2)
    bare = isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase)
    sys.stdout = _text(1) if bare or sys.stdout is None else sys.stdout


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


def _text(number: int) -> io.TextIOWrapper:
    whole = io.BufferedWriter(io.FileIO(number, "wb", closefd=False))
    return io.TextIOWrapper(
        whole, "utf-8", "backslashreplace" if number == 2 else "strict", line_buffering=True
    )


class Ended(SystemExit):
    """The end of a command by a signal; the exit status is 128 plus the signal's number.

    >>> Ended(signal.SIGTERM).code, Ended(signal.SIGTERM).name
    (143, 'SIGTERM')
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise Ended in the block on SIGTERM or SIGHUP, unless nohup ignores the signal."""
    default = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    if threading.current_thread() is not threading.main_thread():
        default = []  # only the main thread may set signal handlers
    handlers: dict[int, Callable[[int, FrameType | None], object]] = dict.fromkeys(default, _end)
    if signal.getsignal(signal.SIGINT) is end_in_silence:
        handlers[signal.SIGINT] = signal.default_int_handler
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """Raise Ended; a second SIGTERM ends the process, a second SIGHUP does nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise Ended(number)
