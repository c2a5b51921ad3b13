"""The n-th open, read, write, fsync, rename or close on files below a folder fails: how a process does that to itself.

Two injectors count and hit the same kinds of calls:

    shim     a library between the program and the C library (shim.c), where there is a C compiler: it sees what numpy,
             Polars and Python's own buffers do
    python   os.open, open, and so on, replaced in this process: on any machine, but blind to what C code writes.
             Interruption (EINTR) is not injected here, for Python itself repeats such calls below these functions

A fault is one of these at one call:

    EIO, ENOSPC   the call fails;  "ENOSPC…": all later ones of its kind fail too, as on a disk that stays full
    EINTR         the call was interrupted and must be made again
    half          a read or write does half of what it was asked, as POSIX allows

>>> Fault("write", 3, "EIO").text, Fault.parse("read:1:half").is_harmless
('write:3:EIO', True)
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import io
import mmap
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("open", "read", "write", "fsync", "rename", "close")
WAYS = {
    "open": ("EIO", "ENOSPC", "EINTR"),
    "read": ("EIO", "EINTR", "half"),
    "write": ("EIO", "ENOSPC", "ENOSPC…", "EINTR", "half"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
    "rename": ("EIO", "ENOSPC"),
    "close": ("EIO", "ENOSPC"),
}
N_COUNTS = len(KINDS) + 1  # the last is how often a fault was injected
SHIM = Path(__file__).with_name("shim.c")


class Fault(NamedTuple):
    """What goes wrong. n: at which call of this kind, from 1."""

    kind: str
    n: int
    way: str

    @property
    def text(self) -> str:
        """As `parse` reads it."""
        return f"{self.kind}:{self.n}:{self.way}"

    @property
    def is_harmless(self) -> bool:
        """Whether a program must get through as if nothing had been."""
        return self.way in ("EINTR", "half")

    @classmethod
    def parse(cls, text: str) -> Fault:
        """A fault from its text."""
        kind, n, way = text.split(":")
        return cls(kind, int(n), way)


COUNT_ONLY = Fault("", 0, "")


def compiled_shim(folder: Path) -> Path | None:
    """Compile the library into a folder; None where that cannot be done."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    library = folder / "shim.so"
    if compiler is None or os.uname().sysname != "Linux":
        return None
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SHIM), "-ldl"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    return library if done.returncode == 0 else None


class Shim:
    """The library, loaded into this process and those that it forks."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.volt_faults_counts.restype = ctypes.POINTER(ctypes.c_long * N_COUNTS)

    @staticmethod
    def is_loaded() -> bool:
        """Whether this process was started with it."""
        return hasattr(ctypes.CDLL(None), "volt_faults_arm")

    def counts(self) -> list[int]:
        """Calls of each kind in forked processes so far, and how often a fault was injected; they start anew."""
        shared = self._library.volt_faults_counts().contents
        found = list(shared)
        shared[:] = [0] * N_COUNTS
        return found

    def arm(self, folder: str, fault: Fault) -> None:
        """From now on count, and let the fault happen, in this process."""
        code = getattr(errno, fault.way.removesuffix("…"), 0)
        kind = KINDS.index(fault.kind) if fault.kind else -1
        half, stays = fault.way == "half", fault.way.endswith("…")
        self._library.volt_faults_arm(os.fsencode(folder), kind, ctypes.c_long(fault.n), code, half, stays)


class PythonInjector:
    """The same by replacing functions of Python; it is armed in a forked process, which does not outlive its case."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8 * N_COUNTS)
        self._counts = memoryview(self._shared).cast("q")
        self._watched = set[int]()
        self._folder, self._fault = "", COUNT_ONLY

    def counts(self) -> list[int]:
        """As of `Shim`."""
        found = self._counts.tolist()
        self._shared[:] = bytes(len(self._shared))
        return found

    def arm(self, folder: str, fault: Fault) -> None:
        """As of `Shim`."""
        self._folder, self._fault = folder, fault
        self._watched = {number for number in (0, 1) if self._is_below(_target(number))}
        for kind, names in _BY_DESCRIPTOR.items():
            for name in names:
                setattr(os, name, self._of_descriptor(getattr(os, name), kind))
        for name in ("replace", "rename"):
            setattr(os, name, self._of_path(getattr(os, name), "rename"))
        opened = self._open(_file_class(self), builtins.open)
        for module, name, made in (
            (os, "open", self._opening(os.open)),
            (io, "open", opened),
            (builtins, "open", opened),
        ):
            setattr(module, name, made)

    def happens(self, kind: str) -> str:
        """Count a call: raises what is to happen to it, or says "half" or nothing."""
        index = KINDS.index(kind)
        self._counts[index] += 1
        now, (wanted, n, way) = self._counts[index], self._fault
        if kind != wanted or not (now >= n if way.endswith("…") else now == n):
            return ""
        self._counts[-1] += 1
        if way == "half":
            return way
        code = getattr(errno, way.removesuffix("…"))
        raise OSError(code, os.strerror(code))

    def is_watched(self, number: int) -> bool:
        """Whether a descriptor's file lies below the folder."""
        return number in self._watched

    def _is_below(self, path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        return os.path.abspath(os.fsdecode(path)).startswith(self._folder + os.sep)

    def _of_descriptor(self, real: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(number: int, *rest: Any) -> Any:
            if number not in self._watched:
                return real(number, *rest)
            try:
                half = self.happens(kind)
            finally:
                if kind == "close":
                    self._watched.discard(number)
                    real(number)
            if kind == "close":
                return None
            return real(number, *(_halved(real.__name__, rest) if half else rest))

        return call

    def _of_path(self, real: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(source: Any, target: Any, **rest: Any) -> Any:
            if self._is_below(source) or self._is_below(target):
                self.happens(kind)
            return real(source, target, **rest)

        return call

    def _opening(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, *rest: Any, **named: Any) -> int:
            below = self._is_below(path)
            if below:
                self.happens("open")
            number = real(path, *rest, **named)
            self._watched |= {number} if below else set()
            return number

        return call

    def _open(self, kind: type[io.FileIO], real: Callable[..., Any]) -> Callable[..., Any]:
        """As open(), with files whose calls are counted; text is left to the real one."""

        def call(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **named: Any) -> Any:
            below = file in self._watched if isinstance(file, int) else self._is_below(file)
            if not below or "b" not in mode:
                return real(file, mode, buffering, *rest, **named)
            if not isinstance(file, int):
                self.happens("open")
            raw = kind(file, mode.replace("b", ""), closefd=named.get("closefd", True))
            self._watched.add(raw.fileno())
            if buffering == 0:
                return raw
            return io.BufferedRandom(raw) if "+" in mode else (
                io.BufferedReader(raw) if raw.readable() else io.BufferedWriter(raw)
            )  # fmt: skip

        return call


_BY_DESCRIPTOR = {
    "read": ("read", "pread", "readv", "preadv"),
    "write": ("write", "pwrite", "writev"),
    "fsync": ("fsync", "fdatasync"),
    "close": ("close",),
}


def _target(number: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""


def _halved(name: str, rest: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of half of a read or write."""
    first, *others = rest
    if isinstance(first, int):
        return max(1, first // 2), *others
    if name in ("readv", "preadv", "writev"):
        return [first[0]], *others
    return bytes(first[: max(1, len(first) // 2)]), *others


def _file_class(injector: PythonInjector) -> type[io.FileIO]:
    class Counted(io.FileIO):
        """A raw file whose calls are counted."""

        def readinto(self, room: Any) -> int:
            half = injector.happens("read")
            return super().readinto(memoryview(room)[: max(1, len(room) // 2)] if half else room) or 0

        def readall(self) -> bytes:
            injector.happens("read")
            return super().readall()

        def write(self, data: Any) -> int:
            half = injector.happens("write")
            return super().write(memoryview(data)[: max(1, len(data) // 2)] if half else data) or 0

        def close(self) -> None:
            was_open = not self.closed
            super().close()
            if was_open:
                injector.happens("close")

    return Counted
