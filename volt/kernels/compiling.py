"""How loops are compiled; every one is made by a decorator from here and kept on disk (`volt.kernels.caching`).

    compiled             a loop, or a part of one
    compiled_releasing   what Python calls, with the interpreter's lock released
    compiled_inlined     a small part, copied into its callers before their types are known

Where nothing is allocated, arrays are borrowed from the caller, who keeps them alive. Otherwise every call would count
the references to each array that it is given, up and down, with instructions that all threads wait for: learning a
unit, with 29 arrays and six calls, took 3.1 µs with such counts and 0.6 µs without.

An array is seven arguments, so that a call with all of a learner's costs 0.1 µs: what the loop calls is copied into it.

    borrowing   a part of a loop            inlined     the same, copied into its callers, as is what it calls
    releasing   what Python calls, with the interpreter's lock released
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from numba import njit

from volt.kernels.caching import kept

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """What makes a compiled function of a function, for the same arguments and results."""

    def __call__(self, function: F, /) -> F: ...


def _compiling(**options: Any) -> Decorator:
    """numba's decorator with these options, for code that is kept on disk."""

    def decorate(function: F) -> F:
        with kept() as cache:
            decorated: F = njit(cache=cache, **options)(function)
        return decorated

    return decorate


compiled = _compiling()
compiled_releasing = _compiling(nogil=True)
compiled_inlined = _compiling(inline="always")
borrowing = _compiling(_nrt=False)
inlined = _compiling(_nrt=False, forceinline=True)
releasing = _compiling(_nrt=False, nogil=True)
