"""How loops are compiled. A decorator from here makes each one. Loops are kept on disk (`volt.kernels.caching`), and
parts go with the loops that call them (`volt.kernels.parts`).

    loop          what Python calls; the interpreter's lock is released meanwhile
    compiled      a part of a loop

Where nothing is allocated, arrays are borrowed from the caller, who keeps them alive. Otherwise every call would count
the references to each array that it is given, up and down, with instructions that all threads wait for: encoding a
new unit, with 29 arrays and six calls, took 3.1 µs with such counts and 0.6 µs without.

    releasing     what Python calls; the interpreter's lock is released meanwhile
    borrowing     a part of a loop
    inlined       a part of a loop, which is copied into its callers together with what it calls

An array is seven arguments, so a call with all arrays of a `UnitEncoder` costs 0.1 µs. Parts of the loop over units
are therefore copied into it. Such a part can still cost time by what it returns, or works out too early, so a loop that
runs millions of times is split only where that has been measured: some are longer than other functions here.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from numba import config, njit

from volt.kernels.caching import kept
from volt.kernels.loading import keep
from volt.kernels.parts import PARTS_DIFFER, part

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """What makes a compiled function of a function, for the same arguments and results."""

    def __call__(self, function: F, /) -> F: ...


def _loop(**options: Any) -> Decorator:
    """numba's decorator with these options, for code that is kept on disk."""

    def decorate(function: F) -> F:
        settings: dict[str, Any] = {"no_cfunc_wrapper": True, "nogil": True, **options}
        decorated: F = njit(**settings)(function)
        with kept() as can_be_kept:
            if can_be_kept:
                keep(decorated, allocates=options.get("_nrt", True))
        return decorated

    return decorate


def _part(**options: Any) -> Decorator:
    """A decorator for parts with these options."""
    made: Decorator = (part if PARTS_DIFFER and not vars(config)["DISABLE_JIT"] else njit)(**options)
    return made


loop = _loop()
releasing = _loop(_nrt=False)
compiled = _part()
borrowing = _part(_nrt=False)
inlined = _part(_nrt=False, forceinline=True)
