"""Parts of compiled loops: they become code within the loops that call them, and nowhere else.

numba gives each function that it compiles machine code of its own, wrappers for Python and C and an optimisation of
all that it calls. A part needs none of that: the loop that holds it is optimised with it. Without, the loops compile
in half the time (experiments/LOG.md), to code as fast as before.

    a part called by a loop       its intermediate code, linked into that of the loop
    a part called by Python       the plain function, as with NUMBA_DISABLE_JIT

numba compiles a function for each combination of types that it is called with, and tries constants as types of their
own. A part is compiled once for all whole numbers, as int64, and constants are whole numbers like others.

What this module takes over of numba is not promised to stay. Where numba has changed it, `PARTS_DIFFER` is False, and
parts are ordinary functions: all is right then, but compiles for longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

PARTS_DIFFER = all(
    hasattr(owner, name)
    for owner, names in (
        (JITCodeLibrary, ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")),
        (CPUDispatcher, ("add_overload", "get_call_template")),
        (Compiler, ("compile_extra",)),
    )
    for name in names
)


def _untyped(thing: Any) -> Any:
    """numba's functions have no types, which a strict checker minds."""
    return thing


class _Code(JITCodeLibrary):
    """The intermediate code of a part and of the parts that it calls, for loops to link."""

    def _optimize_final_module(self) -> None:
        """The loop's code is optimised."""

    def _finalize_final_module(self) -> None:
        """The loop's code becomes machine code."""
        _untyped(self)._finalize_dynamic_globals()
        self._finalized = True


class _PartCompiler(Compiler):
    """numba's compiler up to intermediate code."""

    def __init__(self, typing: Any, target: Any, library: Any, arguments: Any, result: Any, flags: Any, local: Any):
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        make, compiler = _untyped(_Code), _untyped(super())
        compiler.__init__(typing, target, library or make(target.codegen(), "part"), arguments, result, flags, local)

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """The compiled part, known to the compiler by an entry point that nobody calls."""
        found = _untyped(super()).compile_extra(function)._replace(entry_point=(function, object()))
        self.state.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
        return found


class _Part(CPUDispatcher):
    """A part, for each combination of types that it is called with."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile the part for these types, made wider."""
        return super().get_call_template(tuple(map(_widened, args)), kws)

    def add_overload(self, found: Any) -> None:
        """Remember what has been compiled, for loops but not for calls from Python."""
        self.overloads[tuple(found.signature.args)] = found


def _widened(kind: Any) -> Any:
    """int64 for whole numbers that fit into it, but for bytes; the type of a constant.

    >>> _widened(types.int32), _widened(types.literal(5)), _widened(types.uint8)
    (int64, int64, uint8)
    """
    kind = _untyped(types).unliteral(kind)
    return types.int64 if kind in (types.int16, types.int32) else kind


def part(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that makes parts, with numba's options."""
    return lambda function: _Part(function, targetoptions={"nopython": True, **options}, pipeline_class=_PartCompiler)
