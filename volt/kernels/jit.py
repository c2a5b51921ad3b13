"""Decorators that compile loops with numba, store their code on disk, and inline the parts that
loops call.

    loop          a function that Python calls; it runs without the interpreter's lock
    releasing     a loop that allocates nothing: it borrows its arrays from the caller
    compiled      a part: a function that only loops and parts call
    borrowing     a part that allocates nothing
    inlined       a borrowing part that is copied into its callers, together with what it calls

Borrowed arrays need no reference counts, which make threads wait: a new unit is encoded in 0.6
instead of 3.1 µs. Parts are not optimised alone, but within the loops that call them: this halves
the time to compile (experiments/LOG.md).

Machine code is stored in a folder named by a digest of this package, Python, numba and llvmlite,
and is loaded without numba's slow compiler. numba has no public way to do either, so this module
overrides private methods of it. If an installed numba lacks these, `PARTS_DIFFER` or `LOADS_ALONE`
is False, and numba's own, slower way is used.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from threading import Lock, Timer
from time import monotonic, time
from typing import Any, Protocol, TypeVar

import llvmlite
import numba
from numba import config, njit, types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys

from volt.errors import VoltWarning
from volt.own_files import find_shared, is_own

# Seconds since a process last started with a folder, after which it may be removed
UNUSED = 24 * 3600
SILENT = 2.0  # seconds that compiling may take without a message
UNSAFE = (
    "{}: other users can change this folder, so compiled loops are neither loaded nor stored there, and every process "
    "compiles them again; set NUMBA_CACHE_DIR to a folder that only you can change"
)
MESSAGE = "volt compiles its loops, once on this machine, which takes some 10 s; run `volt warmup` to do it in advance"
_PREFIX = "loops-"
_deciding = Lock()


@contextmanager
def in_code_folder() -> Iterator[bool]:
    """Set the folder in which numba stores functions that the block decorates; yield whether code
    can be stored.

    The folder is inside NUMBA_CACHE_DIR, if set, and otherwise inside a folder that numba chooses.
    """
    settings = vars(config)
    with _deciding:
        folder = code_folder()
        users_folder = settings["CACHE_DIR"]
        settings["CACHE_DIR"] = folder or users_folder
        try:
            yield folder is not None
        finally:
            settings["CACHE_DIR"] = users_folder


def is_on_disk(kernel: Any) -> bool:
    folder = kernel.stats.cache_path
    function = kernel.py_func
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
    return folder is not None and any(Path(folder).glob(f"{name}-*.nbi"))


@cache
def code_folder() -> str | None:
    """Return the folder of compiled code, "" if numba chooses it, or None if nothing can be stored.

    Code on disk can do anything, so a folder that other users can change is not used, with one
    warning.
    """
    try:
        chosen = njit(cache=True)(_example).stats.cache_path  # as numba 0.68 reports it
    except AttributeError:  # loops run as plain Python, or this numba does not report it
        return "" if vars(config)["DISABLE_JIT"] else None
    except RuntimeError:  # numba has found no folder that can be written to
        return None
    folder = Path(os.path.realpath(str(chosen)))
    sources = sorted(Path(__file__).parent.glob("*.py"))
    is_frozen = hasattr(sys, "frozen")  # numba looks at the whole program, which holds all loops
    if not is_frozen:
        if not sources:  # for example in a zip file: compile every time, rather than run old code
            return None
        folder /= _PREFIX + _digest(sources)
    is_new = not folder.exists()
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if shared := find_shared(folder):
            _warn(UNSAFE.format(shared))
            return None
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):  # numba would choose another folder
            return None
        if is_frozen:
            return ""
        _remove_unsafe(folder)
        if is_new:
            _remove_unused(folder)
        else:
            os.utime(folder)  # it is used now
    except OSError:
        return None
    return str(folder)


def _example() -> None:
    """Let numba choose a folder for this function, which is never called."""


def _digest(sources: list[Path]) -> str:
    versions = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__
    digest = sha256(repr(versions).encode())
    for path in sources:
        content = path.read_bytes()
        digest.update(f"\n{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _remove_unsafe(folder: Path) -> None:
    """Remove what others can have changed, and pickles that a full disk cut short, which make numba
    fail."""
    # Others cannot enter a hidden folder, so the modes of its files do not matter.
    is_hidden = not folder.stat().st_mode & 0o077
    for index in folder.iterdir():
        if not is_own(index, any_mode=is_hidden):
            rmtree(index)
    for path in folder.glob("*/*.nb[ic]"):
        with suppress(OSError):  # another process has removed it
            with path.open("rb") as file:
                first = file.read(1)
                file.seek(-1 if first else 0, os.SEEK_END)
                is_whole = first == b"\x80" and file.read(1) == b"."
                is_safe = is_own(file.fileno(), any_mode=is_hidden)
            if not (is_whole and is_safe):
                path.unlink()


def _remove_unused(folder: Path) -> None:
    for other in folder.parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another process is removing it
            if other != folder and other.stat().st_mtime < time() - UNUSED:
                rmtree(other, ignore_errors=True)


def _have(*owners: tuple[Any, str]) -> bool:
    return all(hasattr(owner, name) for owner, names in owners for name in names.split())


LOADS_ALONE = _have(
    (FunctionCache, "load_overload save_overload _load_overload _guard_against_spurious_io_errors"),
    (Dispatcher, "enable_caching"),
    (rtsys, "initialize"),
)
PARTS_DIFFER = _have(
    (JITCodeLibrary, "_optimize_final_module _finalize_final_module _finalize_dynamic_globals"),
    (CPUDispatcher, "add_overload get_call_template"),
    (Compiler, "compile_extra"),
)


class CompilingWarning(VoltWarning):
    """A call compiles loops, once on this machine, and takes long; `volt warmup` does it in
    advance."""


def _warn(message: str) -> None:
    with suppress(CompilingWarning):
        warnings.warn(message, CompilingWarning, stacklevel=3)


class _Notice:
    """Reports compilation once per process: at once if stderr is a terminal, otherwise later, by a
    warning."""

    def __init__(self) -> None:
        self.is_due = True
        self._start = self._spent = 0.0
        self._timer = Timer(0, self._print)

    def begin(self) -> None:
        self._start = monotonic()
        if self.is_due and sys.stderr is not None and sys.stderr.isatty():
            self._timer = Timer(max(0.0, SILENT - self._spent), self._print)
            self._timer.daemon = True  # it does not keep the process from ending
            self._timer.start()

    def end(self) -> None:
        self._timer.cancel()
        self._spent += monotonic() - self._start
        if self.is_due and self._spent > SILENT:
            self.is_due = False
            _warn(MESSAGE)

    def _print(self) -> None:
        if self.is_due:
            self.is_due = False
            sys.stderr.write(f"{MESSAGE}\n")
            sys.stderr.flush()


_notice = _Notice()


@contextmanager
def announced() -> Iterator[None]:
    """Compile without a notice, for callers that show their own."""
    was_due = _notice.is_due
    _notice.is_due = False
    try:
        yield
    finally:
        _notice.is_due = was_due


class StoredCode(FunctionCache):
    def __init__(self, function: Callable[..., Any], *, allocates: bool) -> None:
        make: Any = super().__init__
        make(function)
        self._allocates = allocates

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        cache: Any = self
        if self._allocates:
            rtsys.initialize(target_context)
        code = None
        with cache._guard_against_spurious_io_errors():
            code = cache._load_overload(sig, target_context)
        if code is None:
            _notice.begin()
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        save: Any = super().save_overload
        save(sig, data)
        _notice.end()


def keep(loop: Any, *, allocates: bool) -> None:
    """Store a loop on disk, unless NUMBA_DISABLE_JIT made it a plain function."""
    if not isinstance(loop, Dispatcher):
        return
    if LOADS_ALONE:
        vars(loop)["_cache"] = StoredCode(loop.py_func, allocates=allocates)
    else:
        loop.enable_caching()


def _untyped(thing: Any) -> Any:
    return thing


class _Code(JITCodeLibrary):
    def _optimize_final_module(self) -> None:
        """Do nothing: the code is optimised in its loops."""

    def _finalize_final_module(self) -> None:
        _untyped(self)._finalize_dynamic_globals()
        self._finalized = True


class _PartCompiler(Compiler):
    def __init__(
        self,
        typing: Any,
        target: Any,
        library: Any,
        arguments: Any,
        result: Any,
        flags: Any,
        local: Any,
    ):
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        library = library or _untyped(_Code)(target.codegen(), "part")
        compiler = _untyped(super())
        compiler.__init__(typing, target, library, arguments, result, flags, local)

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        compiled_part = _untyped(super()).compile_extra(function)
        part = compiled_part._replace(entry_point=(function, object()))
        self.state.targetctx.insert_user_function(part.entry_point, part.fndesc, [part.library])
        return part


class _Part(CPUDispatcher):
    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(_widened, args)), kws)

    def add_overload(self, compiled_part: Any) -> None:
        self.overloads[tuple(compiled_part.signature.args)] = compiled_part


def _widened(kind: Any) -> Any:
    kind = _untyped(types).unliteral(kind)
    return types.int64 if kind in (types.int16, types.int32) else kind


F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    def __call__(self, function: F, /) -> F: ...


def _loop(**options: Any) -> Decorator:
    def decorate(function: F) -> F:
        settings: dict[str, Any] = {"no_cfunc_wrapper": True, "nogil": True, **options}
        decorated: F = njit(**settings)(function)
        with in_code_folder() as can_store:
            if can_store:
                keep(decorated, allocates=options.get("_nrt", True))
        return decorated

    return decorate


def _part(**options: Any) -> Decorator:
    if vars(config)["DISABLE_JIT"] or not PARTS_DIFFER:
        plain: Decorator = njit(**options)
        return plain
    settings = {"nopython": True, **options}
    make: Any = _Part
    return lambda function: make(function, targetoptions=settings, pipeline_class=_PartCompiler)


loop = _loop()
releasing = _loop(_nrt=False)
compiled = _part()
borrowing = _part(_nrt=False)
inlined = _part(_nrt=False, forceinline=True)
