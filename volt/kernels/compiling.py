"""How loops are compiled where nothing is allocated: arrays are borrowed from the caller, who keeps them alive.

Otherwise every call would count the references to each array that it is given, up and down, with instructions that all
threads wait for: learning a unit, with 29 arrays and six calls, took 3.1 µs with such counts and 0.6 µs without.

An array is seven arguments, so that a call with all of a learner's costs 0.1 µs: what the loop calls is copied into it.

    borrowing   a part of a loop            inlined     the same, copied into its callers, as is what it calls
    releasing   what Python calls, with the interpreter's lock released
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """What makes a compiled function of a function, for the same arguments and results."""

    def __call__(self, function: F, /) -> F: ...


_BORROWED: dict[str, Any] = {"cache": True, "_nrt": False}

borrowing: Decorator = njit(**_BORROWED)
inlined: Decorator = njit(**_BORROWED, forceinline=True)
releasing: Decorator = njit(**_BORROWED, nogil=True)
