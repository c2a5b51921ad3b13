"""Turn signals into requests to a run.

SIGINT, SIGTERM and SIGHUP ask it to stop, SIGUSR1 asks it to report. A request takes effect at a
moment that the run chooses, so that it ends after a whole line with a saved state:

    with Signals().listening() as signals:
        ...                            # opening sources: a request to stop interrupts at once
        signals.is_running = True
        with signals.computing():      # may take long: a request interrupts it, too
            lines = next(blocks)
        write(lines)                   # here, a request only sets `stop_signal`, which the run checks

To interrupt means to raise KeyboardInterrupt (SIGINT) or Ended (SIGTERM, SIGHUP). A second SIGINT
or SIGTERM ends the process immediately. A second SIGHUP is ignored, because a closed terminal may
send several.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from volt_cli.signals_and_stdio import Ended


class Signals:
    """The requests that have arrived.

    stop_signal: number of the first signal that asked to stop; 0 before
    report_requested: whether SIGUSR1 has arrived; the run sets it to False when it reports
    is_running: set by the run when its first line may be computed
    wakeup: descriptor that becomes readable when a signal arrives, so that a run that waits in
        `poll` wakes up
    """

    def __init__(self) -> None:
        self.stop_signal = 0
        self.report_requested = False
        self.is_running = False
        self._is_computing = False
        self.wakeup, self._wakeup_writer = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(self._wakeup_writer, False)

    @contextmanager
    def listening(self) -> Iterator[Signals]:
        """Handle the signals in the block; afterwards, restore the earlier handlers."""
        caught = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
            caught.append(signal.SIGHUP)
        earlier_handlers = {number: signal.signal(number, self._handle) for number in caught}
        earlier_wakeup = signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(earlier_wakeup)
            for number, handler in earlier_handlers.items():
                signal.signal(number, handler)
            os.close(self.wakeup)
            os.close(self._wakeup_writer)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let a request to stop interrupt the block, even a request from before."""
        self._is_computing = True
        try:
            if self.stop_signal:
                self._interrupt()
            yield
        finally:
            self._is_computing = False

    def clear_wakeup(self) -> None:
        """Empty `wakeup`, so that it is not readable until the next signal."""
        with suppress(BlockingIOError):
            os.read(self.wakeup, 512)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self.report_requested = True
        elif not self.stop_signal:
            self.stop_signal = number
            if not self.is_running or self._is_computing:
                self._is_computing = False
                self._interrupt()
        elif number != signal.SIGHUP:
            os._exit(128 + number)

    def _interrupt(self) -> NoReturn:
        raise KeyboardInterrupt if self.stop_signal == signal.SIGINT else Ended(self.stop_signal)
