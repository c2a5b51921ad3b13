"""`volt warmup`: compile all loops ahead of time, for example in a container image."""

from __future__ import annotations

import time

from volt.errors import VoltError
from volt_cli.console import Phases, prepare_kernels, say
from volt_cli.options import Quiet


class CannotKeep(VoltError):
    """Compiled code cannot be stored."""


def warmup(quiet: Quiet = False) -> None:
    """Compile all loops now, so that no command compiles them later.

    Compiled code is stored in the package's folder or, if that is not writable, in your cache
    folder. NUMBA_CACHE_DIR sets another folder; set it for all later commands, too.

    In a Dockerfile, add RUN volt warmup after the line that installs VOLT.

    Compiled code works only on the same kind of processor; on another kind, the first use compiles
    again.
    """
    from volt.kernels.jit import code_folder
    from volt.kernels.warmup import JOBS, is_stored, missing

    place = code_folder()
    if place is None:
        raise CannotKeep(
            "compiled loops cannot be stored; set NUMBA_CACHE_DIR to a writable folder"
        )
    absent = missing(*JOBS)
    start = time.perf_counter()
    prepare_kernels(Phases(quiet=quiet), *JOBS)
    n_missing = sum(not is_stored(place) for place in absent)
    if n_missing:
        raise CannotKeep(
            f"{place}: {n_missing} compiled loops could not be stored; free disk space, or set NUMBA_CACHE_DIR"
        )
    if not quiet:
        result = "already compiled"
        if absent:
            seconds = time.perf_counter() - start
            result = f"compiled {len(absent)} loops in {seconds:.1f} s"
        say(f"{result}: {place}")
