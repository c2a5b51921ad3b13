"""How a loop that is kept on disk is loaded: without what numba needs to compile others.

numba first gets ready to compile: it imports how it would compile all of Python and NumPy, which takes longer than all
else, and SciPy's linear algebra with it (experiments/bench/startup.py). Machine code needs none of that. A loop that is
not on disk is compiled as ever, since numba's compiler gets itself ready.

What this module takes over of numba is not promised to stay. Where numba has changed it, `LOADS_ALONE` is False, and
numba loads loops itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.runtime.nrt import rtsys

LOADS_ALONE = all(
    hasattr(owner, name)
    for owner, names in (
        (FunctionCache, ("load_overload", "_load_overload", "_guard_against_spurious_io_errors")),
        (Dispatcher, ("enable_caching",)),
        (rtsys, ("initialize",)),
    )
    for name in names
)


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
            return cache._load_overload(sig, target_context)


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
