"""Decorators of loops and of the parts that loops call, and the machine code of loops on disk.

    releasing     a loop: a function that Python calls; it runs without the interpreter's lock
    borrowing     a part: a function that only loops and parts call
    inlined       a part that is copied into its callers, together with what it calls

The decorators only note what to compile. The first call of a loop loads its machine code from disk,
with llvmlite alone. If there is none, numba is imported, and compiles the loop
(`volt.kernels.compiling`). With NUMBA_DISABLE_JIT, loops run as plain Python.

The machine code of a loop is one C function. It takes the address of 64-bit words, one for each
argument, and one for each field of a tuple; it returns a number. The word of an array is the
address of its object, where machine code reads the address of the data, and their shape. Machine
code checks nothing, so `CompiledLoop` checks all arrays. Arrays are borrowed from the caller,
without reference counts, which make threads wait: a new unit is encoded in 0.6 instead of 3.1 µs.

Code is stored in a folder named by a digest of this package, Python, numba, llvmlite and the
processor.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial, update_wrapper
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from struct import Struct, error
from threading import RLock, Timer, get_ident
from time import monotonic, time
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from volt.errors import VoltWarning
from volt.own_files import find_shared, is_own

IS_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
# Seconds since a process last started with a folder, after which it may be removed
UNUSED = 24 * 3600
SILENT = 2.0  # seconds that compiling may take without a message
UNSAFE = (
    "{}: other users can change this folder, so compiled loops are neither loaded nor stored there, and every process "
    "compiles them again; set NUMBA_CACHE_DIR to a folder that only you can change"
)
MESSAGE = "volt compiles its loops, once on this machine, which takes some 10 s; run `volt warmup` to do it in advance"
FAILED = -(1 << 63)  # what machine code returns if a loop raises an error
_PREFIX = "loops-"
_CHECKSUM_SIZE = 32  # bytes
_loading = RLock()


def _renew_lock() -> None:
    """Replace the lock in a forked process, which lacks the thread that may hold it."""
    global _loading
    _loading = RLock()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_renew_lock)

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
PARTS = dict[Callable[..., Any], dict[str, bool]]()  # functions that loops call → options of numba


class ArrayKind(NamedTuple):
    """A type of arrays that a loop accepts. Their elements follow one another in memory.

    is_read: whether no loop may write to such an array, which is checked when a loop is compiled.
        Any array may be read-only, for example because it is mapped from a file: the caller
        allocates the arrays to which a loop writes.
    """

    dtype: np.dtype[Any]
    n_dims: int
    is_read: bool = False

    def accepts(self, array: Any) -> bool:
        dtype, n_dims, _ = self
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != n_dims:
            return False
        flags = array.flags
        return flags.c_contiguous and flags.aligned


_FORMATS: dict[Any, str] = {bool: "?7x", int: "q", float: "d", np.uint64: "Q"}


def leaves(kind: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and kind of each word of an argument: an `ArrayKind` or a type of numbers."""
    if hasattr(kind, "__metadata__"):
        yield name, kind.__metadata__[0]
    elif kind in _FORMATS:
        yield name, kind
    else:
        for field, field_kind in annotations_of(kind).items():
            yield from leaves(field_kind, f"{name}.{field}")


def annotations_of(thing: Any) -> dict[str, Any]:
    """Return the annotations of a function, or of a tuple's fields."""
    return get_type_hints(thing, include_extras=True)


def _flatten(arguments: Iterable[Any]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _flatten(argument)
        else:
            yield argument


def _packer(loop_name: str, kinds: Iterable[tuple[str, Any]]) -> Callable[..., bytes]:
    """Return a function that checks some arguments of a loop, and converts them to words."""
    words = [word for name, kind in kinds for word in leaves(kind, name)]
    pack = Struct("=" + "".join(_FORMATS.get(kind, "Q") for _, kind in words)).pack
    arrays = [(i, kind, name) for i, (name, kind) in enumerate(words) if kind not in _FORMATS]

    def check_and_pack(*arguments: Any) -> bytes:
        values = list(_flatten(arguments))
        for i, kind, name in arrays:
            if not kind.accepts(values[i]):
                found = getattr(values[i], "dtype", type(values[i]))
                raise TypeError(f"{loop_name}, {name}: not {kind}, but {found}")
            values[i] = id(values[i])
        return pack(*values)

    return check_and_pack if arrays else pack


class Signature(NamedTuple):
    symbol: str  # the name of the machine code
    arguments: dict[str, Any]  # the annotation of each argument
    result: Any


def _binder(name: str, signature: Signature, address: int) -> Callable[..., Callable[..., Any]]:
    """Return a function that binds machine code to its first arguments."""
    kinds = list(signature.arguments.items())
    start: Any = ctypes.CFUNCTYPE(ctypes.c_int64)(
        address
    )  # types of arguments would double the time

    @cache
    def packers(n_first: int) -> tuple[Callable[..., bytes], Callable[..., bytes]]:
        return _packer(name, kinds[:n_first]), _packer(name, kinds[n_first:])

    def bind(*first: Any) -> Callable[..., Any]:
        pack_first, pack = packers(len(first))
        words = pack_first(*first)

        def run(*arguments: Any) -> Any:
            try:
                result = start(words + pack(*arguments))
            except (error, IndexError) as fault:
                raise TypeError(f"{name}: {fault}") from None
            if result == FAILED:
                raise RuntimeError(f"{name} failed")
            return result

        vars(run)["first"] = first  # the arrays, to which the words point, live as long
        return run

    return bind


class CompiledLoop:
    """A loop that Python calls. If annotations are unions, it has machine code for the i-th
    alternative of each, for each i."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._binders: list[Callable[..., Callable[..., Any]]] = []
        self._run: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        run = self._run or self.load()
        return run(*arguments)

    def is_ready(self) -> bool:
        """Check whether the loop is loaded."""
        return self._run is not None

    def is_on_disk(self) -> bool:
        paths = [_path(self.function, signature.symbol) for signature in self.signatures()]
        return all(path and path.is_file() for path in paths)

    def signatures(self) -> list[Signature]:
        """Return what to compile.

        >>> from volt.kernels.columns import shuffle
        >>> [signature.symbol for signature in shuffle.signatures()]
        ['columns.shuffle-0']
        """
        hints = annotations_of(self.function)
        result = hints.pop("return")
        kinds = {name: _alternatives(kind) for name, kind in hints.items()}
        return [
            Signature(
                f"{self.name}-{i}",
                {name: types[i % len(types)] for name, types in kinds.items()},
                result,
            )
            for i in range(max(map(len, kinds.values())))
        ]

    def load(self) -> Callable[..., Any]:
        """Load the machine code, or compile it; return the function to call."""
        with _loading:
            if self._run is None:
                self._binders = [
                    _binder(self.name, signature, _load(self.function, signature))
                    for signature in self.signatures()
                ]
                runs = [bind() for bind in self._binders]
                self._run = runs[0] if len(runs) == 1 else partial(_run_first, runs)
            return self._run

    def bind(self, first: Sequence[Any]) -> Callable[..., Any]:
        self.load()
        return self._binders[0](*first)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _run_first(runs: Sequence[Callable[..., Any]], *arguments: Any) -> Any:
    """Run the first of several loops that accepts the arguments."""
    for run in runs[:-1]:
        with suppress(TypeError):
            return run(*arguments)
    return runs[-1](*arguments)


def bind(loop: Callable[..., R], *first: Any) -> Callable[..., R]:
    """Return a loop with its first arguments, which are converted once: converting a tuple of 45
    arrays takes longer than encoding a few words."""
    return loop.bind(first) if isinstance(loop, CompiledLoop) else partial(loop, *first)


def releasing(function: F) -> F:
    loop: Any = CompiledLoop(function)
    return function if IS_OFF else cast("F", loop)


def borrowing(function: F) -> F:
    PARTS[function] = {}
    return function


def inlined(function: F) -> F:
    PARTS[function] = {"forceinline": True}
    return function


# Machine code


@cache
def _engine() -> Any:
    """Return LLVM's loader of object code."""
    import llvmlite.binding as llvm

    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


def target_machine() -> Any:
    import llvmlite.binding as llvm

    with suppress(RuntimeError):  # newer versions of llvmlite need no call
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
    )


def _load(function: Callable[..., Any], signature: Signature) -> int:
    """Return the address of a loop's machine code, from disk or compiled now."""
    import llvmlite.binding as llvm

    path = _path(function, signature.symbol)
    code = _read(path) if path else None
    if code is None:
        compiling = import_module("volt.kernels.compiling")  # it imports this module
        _notice.begin()
        code = compiling.compile_loop(function, signature)
        if path:
            with suppress(OSError):
                _write(path, code)
        _notice.end()
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    address: int = engine.get_function_address(signature.symbol)
    return address


# Files


def _path(function: Callable[..., Any], symbol: str) -> Path | None:
    """Return the file of machine code, or None if the function is not in the sources of its digest."""
    folder = code_folder() if function.__module__.startswith(f"{__package__}.") else None
    return Path(folder, f"{symbol}.code") if folder else None


def _read(path: Path) -> bytes | None:
    """Return the machine code in a file, or None if it is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    code = content[_CHECKSUM_SIZE:]
    return code if _checksum(path, code) == content[:_CHECKSUM_SIZE] else None


def _checksum(path: Path, code: bytes) -> bytes:
    """Return a checksum that also tells the code of different loops apart."""
    return sha256(path.name.encode() + code).digest()


def _write(path: Path, code: bytes) -> None:
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}-{get_ident()}")
    try:
        temporary.write_bytes(_checksum(path, code) + code)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def code_folder() -> str | None:
    """Return the folder of machine code, or None if nothing can be stored.

    The folder is inside NUMBA_CACHE_DIR, if set, and otherwise inside the package or, if that is not
    writable, in the user's cache folder. Code on disk can do anything, so a folder that other users
    can change is not used, with one warning.
    """
    if not _SOURCES:  # for example in a zip file: compile every time, rather than run old code
        return None
    name = _folder_name(_SOURCES)
    for place in _places():
        with suppress(OSError):
            folder = Path(os.path.realpath(place), name)
            is_new = not folder.exists()
            folder.mkdir(0o700, parents=True, exist_ok=True)
            if shared := find_shared(folder):
                _warn(UNSAFE.format(shared))
                return None
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                continue
            _remove_unsafe(folder)
            if is_new:
                _remove_unused(folder)
            else:
                os.utime(folder)  # it is used now
            return str(folder)
    return None


def _places() -> list[str]:
    """Return the folders that may contain the folder of machine code, the first choice first."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [chosen]
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [os.path.join(os.path.dirname(__file__), "__pycache__"), f"{cache_home}/volt"]


def _folder_name(sources: str) -> str:
    """Return a name for everything that machine code depends on."""
    import llvmlite.binding as llvm

    processor = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    return _PREFIX + sha256(repr((sources, processor)).encode()).hexdigest()[:16]


def _digest(sources: list[Path]) -> str:
    """Return a digest of sources and versions, or "" if there are no sources."""
    digest = sha256(f"{sys.implementation.cache_tag} {object.__basicsize__}".encode())
    if hasattr(sys, "frozen"):  # the program contains all sources
        program = os.stat(sys.executable)
        digest.update(f"{program.st_size} {program.st_mtime_ns}".encode())
    elif not sources:
        return ""
    else:
        for path in [*sources, *_files_of_versions()]:
            content = path.read_bytes()
            digest.update(f"\n{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _files_of_versions() -> Iterator[Path]:
    """Yield the files that state the versions of numba and llvmlite, which are not imported."""
    for package in ("numba", "llvmlite"):
        spec = find_spec(package)
        if spec and spec.origin:
            path = Path(spec.origin).with_name("_version.py")
            if path.is_file():
                yield path


# Computed at import: the sources may change later, and then are not those of this process.
_SOURCES = _digest(sorted(Path(__file__).parent.glob("*.py")))


def _remove_unsafe(folder: Path) -> None:
    """Remove what others can have changed, and what is not a file."""
    # Others cannot enter a hidden folder, so the modes of its files do not matter.
    is_hidden = not folder.stat().st_mode & 0o077
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process has removed it
            if path.is_dir() and not path.is_symlink():
                rmtree(path, ignore_errors=True)
            elif not path.is_file() or not is_own(path, any_mode=is_hidden):
                path.unlink()


def _remove_unused(folder: Path) -> None:
    for other in folder.parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another process is removing it
            if other != folder and other.stat().st_mtime < time() - UNUSED:
                rmtree(other, ignore_errors=True)


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
