"""Compile loops in advance, once per machine and version; later processes load the code from disk.

`JOBS` lists the loops that each job runs. A second process compiles some of the loops, on a second core. Threads would
wait for each other, because LLVM holds the interpreter's lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher

from volt.kernels.jit import announced, code_folder, is_on_disk

Job = Literal[
    "count", "learn", "parity", "replay", "words", "encode", "dropout", "decode", "stream", "steps", "tokens",
    "batches", "samples", "patterns",
]  # fmt: skip


class Loop(NamedTuple):
    """A loop that Python calls, by module and name, and the seconds it takes to compile."""

    place: str
    seconds: float

    @property
    def kernel(self) -> Any:
        module, name = self.place.split(".")
        return getattr(import_module(f"volt.kernels.{module}"), name)

    @property
    def is_on_disk(self) -> bool:
        return is_on_disk(self.kernel)


_FILL = Loop("bpe_tables.fill", 0.3)
JOBS: dict[Job, tuple[Loop, ...]] = {
    "count": (
        Loop("unit_table.count_units", 1.6), Loop("unit_table.rebuild", 0.1), Loop("unit_table.add_words", 1.8),
    ),
    "learn": (Loop("learn.learn_merges", 4.5),),
    "parity": (Loop("learn_parity.learn_parity_merges", 5.4),),
    "replay": (_FILL, Loop("apply_bpe.trace_each", 1.8)),
    "words": (
        _FILL, Loop("bpe_tables.enter", 0.2), Loop("bpe_tables.find_cuts", 0.2), Loop("apply_bpe.encode_each", 1.4),
    ),
    "encode": (
        Loop("encode_units.encode_units", 6.6), Loop("encode_units.encode_pending", 1.3),
        Loop("unit_table.complete", 0.4), Loop("unit_table.rebuild", 0.1),
    ),
    "dropout": (Loop("apply_bpe.sample_each", 0.7), Loop("apply_bpe.start_line", 0.0), Loop("decode.expand", 0.5)),
    "decode": (Loop("decode.expand_lines", 0.5), Loop("decode.parse_ids", 0.2)),
    "stream": (
        Loop("batching.apportion", 0.6), Loop("columns.line_ends", 0.3), Loop("columns.cut", 0.5),
        Loop("columns.write_values", 0.3), Loop("columns.put_values", 0.3), Loop("columns.scatter", 0.2),
        Loop("columns.shuffle", 0.1), Loop("columns.permuted", 0.2), Loop("columns.draw", 0.2),
    ),
    "steps": (
        _FILL, Loop("columns.number_sizes", 0.2), Loop("columns.write_numbers", 0.2),
        Loop("string_functions.count_words", 0.4), Loop("string_functions.find_blank", 0.1),
        Loop("string_functions.count_within", 0.2), Loop("string_functions.find_any", 0.1),
        Loop("string_functions.surround", 0.3), Loop("string_functions.change_case", 0.6),
        Loop("string_functions.find_case", 0.2), Loop("noise.misspell", 1.1), Loop("noise.change_marks", 0.8),
        Loop("columns.find_starts", 0.4), Loop("columns.write_runs", 0.3), Loop("lattice.join_lines", 0.7),
        Loop("lattice.draw_paths", 0.7),
    ),
    "tokens": (
        Loop("word_types.count_tokens", 0.2), Loop("word_types.cut_tokens", 0.3), Loop("word_types.write_tokens", 0.5),
        Loop("noise.count_hits", 0.2), Loop("noise.hit_tokens", 0.2),
        Loop("noise.reorder_tokens", 0.2), Loop("noise.toggle_marks", 0.6),
        Loop("word_types.find_words", 0.4), Loop("word_types.enter_types", 0.1),
        Loop("word_types.choose", 0.2), Loop("lattice.best_paths", 0.6),
    ),
    "batches": (
        Loop("columns.shuffle", 0.1), Loop("columns.draw", 0.2), Loop("batching.cut_steps", 0.2),
        Loop("batching.deal_rows", 0.2), Loop("batching.fit_best", 0.3),
    ),
    "samples": (
        Loop("batching.look_up", 0.2), Loop("batching.frame_ids", 0.2), Loop("batching.lay_out", 0.4),
    ),
    "patterns": (Loop("regex_cutting.cut_texts", 1.5), Loop("regex_cutting.write_words", 1.8)),
}  # fmt: skip


# For numba: types of the scalars that annotate a loop's arguments.
_SCALARS: dict[Any, Any] = {
    bool: types.boolean, int: types.int64, float: types.float64, np.uint64: types.uint64,
}  # fmt: skip


def missing(*jobs: Job) -> list[Loop]:
    """Return the loops of these jobs that are compiled neither in this process nor on disk."""
    from numba import config

    if vars(config)["DISABLE_JIT"]:
        return []
    return [loop for loop in _loops(*jobs) if not (loop.kernel.signatures or loop.is_on_disk)]


def compile_kernels(*jobs: Job) -> None:
    for loop in _loops(*jobs):
        compile_loop(loop.place)


def compile_loop(place: str) -> None:
    kernel = Loop(place, 0.0).kernel
    if isinstance(kernel, Dispatcher):
        with announced():
            for signature in signatures(place):
                kernel.compile(signature)


def signatures(place: str) -> list[tuple[Any, ...]]:
    """Return the numba types of a loop's parameters, one tuple for each signature to compile.

    If annotations are unions, such as `IntArray | ByteArray`, signature i uses the i-th alternative of each union.

    >>> signatures("columns.shuffle")
    [(Array(uint64, 1, 'C', False, aligned=True), Array(int64, 1, 'C', False, aligned=True))]
    """
    kernel = Loop(place, 0.0).kernel
    kinds = [
        get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,) for kind in _annotations(kernel.py_func)
    ]
    return [tuple(_numba_type(kind[number % len(kind)]) for kind in kinds) for number in range(max(map(len, kinds)))]


def _annotations(thing: Any) -> list[Any]:
    return [kind for name, kind in get_type_hints(thing, include_extras=True).items() if name != "return"]


def _numba_type(kind: Any) -> Any:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if hasattr(kind, "__metadata__"):  # an array of volt.kernels.arrays
        return kind.__metadata__[0]
    make: Any = types.BaseTuple.from_types
    return make(list(map(_numba_type, _annotations(kind))), kind)


def _loops(*jobs: Job) -> list[Loop]:
    return list(dict.fromkeys(loop for job in jobs for loop in JOBS[job]))


START = 1.0  # seconds until a second process starts compiling
_SECOND_PROCESS = "import sys; from volt.kernels import warmup; warmup.compile_places(sys.argv[1:])"


def halves(loops: Iterable[Loop]) -> tuple[list[Loop], list[Loop]]:
    """Divide loops between this process and a second one so that both end together; the second starts later."""
    first, second = list[Loop](), list[Loop]()
    for loop in sorted(loops, key=lambda loop: -loop.seconds):
        is_sooner = START + _seconds([*second, loop]) < _seconds([*first, loop])
        (second if is_sooner else first).append(loop)
    return first, second


def _seconds(loops: Iterable[Loop]) -> float:
    return sum(loop.seconds for loop in loops)


def seconds_for(loops: Iterable[Loop]) -> int:
    first, second = halves(loops) if _can_help() else (list(loops), [])
    return round(max(_seconds(first), START * bool(second) + _seconds(second)))


@contextmanager
def helping(loops: Iterable[Loop]) -> Iterator[list[Loop]]:
    """Yield the loops for this process to compile, while a second process compiles the rest; then wait for it.

    If that process fails, the caller compiles the rest.
    """
    first, second = halves(loops) if _can_help() else (list(loops), [])
    process = _started(second) if second else None
    try:
        yield first
        if process is not None:
            process.wait()
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def compile_places(places: Sequence[str]) -> None:
    for place in dict.fromkeys(loop.place for loops in JOBS.values() for loop in loops):
        if place in places:
            compile_loop(place)


def _can_help() -> bool:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and bool(sys.executable) and not hasattr(sys, "frozen") and code_folder() is not None


def _started(loops: Sequence[Loop]) -> subprocess.Popen[bytes] | None:
    command = [sys.executable, "-P", "-c", _SECOND_PROCESS, *(loop.place for loop in loops)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:  # for example, no memory for another process
        return None
