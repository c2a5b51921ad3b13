"""`volt --version`: what a report of a fault needs to say of this machine.

Versions are read from what pip has noted: no library is loaded for it.
"""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("numba", "llvmlite", "numpy", "scipy", "polars")


def described() -> str:
    """VOLT's version on a line of its own, then Python, libraries and processor."""
    import volt

    python = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    rows = {"python": python, **{name: _version(name) for name in LIBRARIES}, "cpu": _processor()}
    return "\n".join([f"volt {volt.__version__}", *(f"{name:9} {told}" for name, told in rows.items())])


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """Its model, and how many cores this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{_model()}, {usable} of {os.cpu_count()} cores"


def _model(table: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, as Linux tells it; elsewhere what Python knows.

    >>> _model(Path("nowhere")) != ""
    True
    """
    try:
        rows = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        rows = []
    names = [row.partition(":")[2].strip() for row in rows if row.startswith(("model name", "Processor", "uarch"))]
    return next(filter(None, names), "") or platform.processor() or platform.machine() or "unknown"
