"""How a loop that is kept on disk is loaded: without what numba needs to compile others.

numba first gets ready to compile: it imports how it would compile all of Python and NumPy, which takes longer than all
else, and SciPy's linear algebra with it (experiments/bench/startup.py). Machine code needs none of that. A loop that is
not on disk is compiled as ever, since numba's compiler gets itself ready.

What this module takes over of numba is not promised to stay. Where numba has changed it, `LOADS_ALONE` is False, and
numba loads loops itself.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from time import monotonic
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.runtime.nrt import rtsys

LOADS_ALONE = all(
    hasattr(owner, name)
    for owner, names in (
        (FunctionCache, ("load_overload", "save_overload", "_load_overload", "_guard_against_spurious_io_errors")),
        (Dispatcher, ("enable_caching",)),
        (rtsys, ("initialize",)),
    )
    for name in names
)


SILENT = 2.0  # seconds that compiling may take without a word
MESSAGE = "volt compiles its loops, once on this machine, which takes some 10 s; run `volt warmup` to do it ahead"


class CompilingWarning(UserWarning):
    """A call takes long because loops are compiled, once on this machine; `volt warmup` does it ahead."""


class _Notice:
    """Says once in a process that a call takes long because loops are compiled: meanwhile where stderr is a terminal,
    else as a warning when a loop is compiled.

    It fails no call where warnings are errors, as in the tests of users.
    """

    def __init__(self) -> None:
        self.is_due, self._start, self._spent, self._timer = True, 0.0, 0.0, Timer(0, self._print)

    def begin(self) -> None:
        """Note that a loop is being compiled."""
        self._start = monotonic()
        if self.is_due and sys.stderr is not None and sys.stderr.isatty():
            self._timer = Timer(max(0.0, SILENT - self._spent), self._print)
            self._timer.daemon = True  # it keeps no process from ending
            self._timer.start()

    def end(self) -> None:
        """Note that the loop is compiled."""
        self._timer.cancel()
        self._spent += monotonic() - self._start
        if self.is_due and self._spent > SILENT:
            self.is_due = False
            with suppress(CompilingWarning):
                warnings.warn(MESSAGE, CompilingWarning, stacklevel=2)

    def _print(self) -> None:
        if self.is_due:
            self.is_due = False
            sys.stderr.write(f"{MESSAGE}\n")
            sys.stderr.flush()


_notice = _Notice()


@contextmanager
def announced() -> Iterator[None]:
    """Compile without a notice inside: whoever does so says it, as commands do."""
    was_due, _notice.is_due = _notice.is_due, False
    try:
        yield
    finally:
        _notice.is_due = was_due


class KeptCode(FunctionCache):
    """The code of a loop on disk. allocates: whether the loop allocates memory, for which numba has functions."""

    def __init__(self, function: Callable[..., Any], *, allocates: bool) -> None:
        make: Any = super().__init__
        make(function)
        self._allocates = allocates

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types; None if there is none."""
        cache: Any = self
        if self._allocates:
            rtsys.initialize(target_context)
        with cache._guard_against_spurious_io_errors():
            if (found := cache._load_overload(sig, target_context)) is not None:
                return found
        _notice.begin()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for these types, which numba has just compiled."""
        save: Any = super().save_overload
        save(sig, data)
        _notice.end()


def keep(loop: Any, *, allocates: bool) -> None:
    """Have a loop kept on disk, in the folder that numba chooses now; the plain function of NUMBA_DISABLE_JIT is not.

    loop: as `numba.njit` gives it
    """
    if not isinstance(loop, Dispatcher):
        return
    if LOADS_ALONE:
        vars(loop)["_cache"] = KeptCode(loop.py_func, allocates=allocates)
    else:
        loop.enable_caching()
