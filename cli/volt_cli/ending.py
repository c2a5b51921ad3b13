"""SIGTERM and SIGHUP end a command as Ctrl-C does: what is half written is removed, and one line is said.

Before and after a command Ctrl-C ends the process in silence (`volt_cli.silence`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from volt_cli.silence import end_in_silence


class Ended(SystemExit):
    """What ends a command that was told to end by a signal; its status is the shell's, 128 and the signal's number.

    >>> Ended(signal.SIGTERM).code, Ended(signal.SIGTERM).name
    (143, 'SIGTERM')
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise Ended in the block where one of the two comes. What is not as Python left it, as under nohup, stays so."""
    default = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        default = []  # only the main thread may say what signals do
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
    """End; a second SIGTERM ends the process at once, and a second SIGHUP, which shells send too, does nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise Ended(number)
