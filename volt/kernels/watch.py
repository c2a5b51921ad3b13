"""Runs a compiled loop in a thread, so that it shows progress and can be interrupted.

A kernel releases the interpreter lock and counts its work in a (2,) int64 array: slot 0 is what is done, slot 1, once
non-zero, ends the loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


T = TypeVar("T")


def run_watched(
    kernel: Callable[[NDArray[np.int64]], T],
    *,
    report: Callable[[int], object] | None = None,
    every: float = 0.05,
) -> T:
    """Run `kernel(progress)` in a thread, and stop it on an exception here.

    report: is called with the work that is done
    every: seconds between two reports

    >>> run_watched(lambda progress: int(progress.sum()))
    0
    """
    import numpy as np

    progress, results = np.zeros(2, np.int64), list[T]()
    errors = list[BaseException]()

    def work() -> None:
        try:
            results.append(kernel(progress))
        except BaseException as error:  # handed over to the caller's thread below
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)  # one that calls this from a daemon ends with it
    thread.start()
    try:
        while thread.is_alive():
            thread.join(every)
            if report:
                report(int(progress[0]))
    finally:
        progress[1] = 1
        thread.join()
    if errors:
        raise errors[0]
    return results[0]
