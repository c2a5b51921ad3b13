"""Print messages and progress on stderr and data on stdout; time phases; load compiled loops.

rich takes long to import, so it is imported only when something is printed with it.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

    from volt.kernels.warmup import Job

FILE_WIDTH = 120  # columns of text in a table, if stdout is a file or pipe
# Invisible characters and lone surrogates, which JSON escapes.
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_NO_BAR = nullcontext[Callable[..., object]](lambda done, total=None, note="": None)


@cache
def messages() -> Console:
    """Return the console on stderr."""
    return _console(sys.stderr)


def output() -> Console:
    """Return a console on stdout; outside a terminal, its width is $COLUMNS or 120."""
    return _console(sys.stdout)


def _console(file: TextIO) -> Console:
    from volt_cli.terminal import SafeConsole

    is_terminal = file.isatty()
    columns = os.environ.get("COLUMNS", "")
    width = height = None
    if not is_terminal or os.environ.get("TERM") in ("dumb", "unknown"):
        width = FILE_WIDTH
        height = 25
        if columns.isdecimal() and int(columns):
            width = int(columns)
        elif is_terminal:
            width = os.get_terminal_size(file.fileno()).columns
    options: dict[str, Any] = {"stderr": file is sys.stderr, "width": width, "height": height}
    return SafeConsole(highlight=False, soft_wrap=not is_terminal, **options)


def show(*parts: RenderableType, console: Console | None = None) -> None:
    """Print tables and texts, by default on stdout."""
    from rich.console import Group

    (console or output()).print(Group(*parts), crop=False)


def say(message: str, *, mark: str = "", style: str = "") -> None:
    """Print a message on stderr.

    mark: a word before the message, such as "error", printed in `style`
    """
    from rich.text import Text

    from volt.display import wrapped
    from volt.errors import bounded

    console = messages()
    note = bounded(f"{mark} {message}" if mark else message)
    text = Text(note if console.soft_wrap else wrapped(note, console.width))
    text.stylize(style, 0, len(mark))
    console.print(text, soft_wrap=True)


def warn(message: str, *, mark: str = "warning") -> None:
    say(message, mark=mark, style="bold yellow")


def print_json(data: object, *, indent: int | None = None) -> None:
    """Print JSON on stdout; control characters are escaped."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    escaped = _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
    sys.stdout.buffer.write(f"{escaped}\n".encode())
    sys.stdout.flush()


def print_result(
    data: object, *parts: RenderableType, as_json: bool, indent: int | None = None
) -> None:
    if as_json:
        print_json(data, indent=indent)
    else:
        show(*parts)


class Phases:
    """The phases of a long job, with a progress bar on a terminal. seconds: phase → its duration"""

    def __init__(self, *, quiet: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self._bar: Progress | None = None
        if not quiet and sys.stderr.isatty():
            from volt_cli.terminal import bar

            self._bar = bar(messages())

    @contextmanager
    def phase(
        self, name: str, *, total: float | None = None, unit: str = ""
    ) -> Iterator[Callable[..., object]]:
        """Time a phase; yield a function that reports progress.

        total: the whole work, if it is known, in `unit`
        """
        start = time.perf_counter()
        try:
            with _bar_row(self._bar, name, total, unit) if self._bar else _NO_BAR as advance:
                yield advance
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@contextmanager
def _bar_row(
    bar: Progress, name: str, total: float | None, unit: str
) -> Iterator[Callable[..., object]]:
    with nullcontext() if bar.live.is_started else bar:
        task = bar.add_task(name, total=total, unit=unit)
        try:

            def advance(done: float, total: float | None = None, note: str = "") -> None:
                text = f"{name} {note}".strip()
                bar.update(task, completed=done, total=total, description=text)

            yield advance
        finally:
            bar.remove_task(task)


@contextmanager
def loading() -> Iterator[None]:
    """Speed up imports in the block: pause garbage collection, and start no threads of numpy.

    experiments/bench/startup.py measures the effect.
    """
    threads = os.environ.get(_BLAS_THREADS)
    collects = gc.isenabled()
    os.environ[_BLAS_THREADS] = threads or "1"
    gc.disable()
    try:
        yield
    finally:
        if threads is None:
            del os.environ[_BLAS_THREADS]
        if collects:
            gc.freeze()
            gc.enable()


def prepare_kernels(phases: Phases, *jobs: Job, loads: bool = True) -> None:
    """Load the compiled loops that jobs such as "encode" need; compile missing ones first.

    A message announces compiling, which may take a minute.

    loads: whether to load loops from disk, too; otherwise their first calls load them
    """
    with loading():
        from volt.kernels.warmup import compile_kernels, compile_loop, helping, missing

        absent = missing(*jobs)
        if absent:
            say("compiling, once on this machine: up to a minute")
            with (
                phases.phase("compiling", total=len(absent), unit="loops") as advance,
                helping(absent),
            ):
                for n_compiled, loop in enumerate(absent, 1):
                    compile_loop(loop)
                    advance(n_compiled)
        if loads:
            compile_kernels(*jobs)
