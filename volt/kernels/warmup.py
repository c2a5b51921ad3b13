"""Says which compiled loops are ready, and makes others so. They are compiled once per machine and version.

A job is what a command does; each needs some of the loops. A loop is compiled, or loaded from disk, by a call with next
to no data (the modules whose names end in `samples`).

>>> compile_kernels("learn")
>>> missing("learn")
[]

Compiling on two cores: a second process compiles some loops while this one compiles the others; they meet on disk.

LLVM holds the interpreter's lock, so threads would wait for each other.

>>> loops = Loop("apply_bpe.trace_each", 1.8), Loop("learn.learn_merges", 4.5), Loop("bpe_tables.fill", 0.3)
>>> here, there = halves(loops)
>>> [loop.place for loop in here], [loop.place for loop in there]
(['learn.learn_merges'], ['apply_bpe.trace_each', 'bpe_tables.fill'])
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal, NamedTuple

from volt.kernels import batch_samples, column_samples, pattern_samples, samples, token_samples, word_samples
from volt.kernels.jit import kept_in

Job = Literal[
    "count",
    "learn",
    "parity",
    "replay",
    "words",
    "encode",
    "dropout",
    "decode",
    "stream",
    "steps",
    "tokens",
    "batches",
    "samples",
    "patterns",
]
_SAMPLES = (
    samples.SAMPLES
    | batch_samples.SAMPLES
    | column_samples.SAMPLES
    | token_samples.SAMPLES
    | word_samples.SAMPLES
    | pattern_samples.SAMPLES
)


class Loop(NamedTuple):
    """A loop that Python calls.

    place: its module in volt.kernels, and its name
    seconds: about how long it compiles, on one core that does nothing else
    """

    place: str
    seconds: float

    @property
    def kernel(self) -> Any:
        """The compiled function."""
        module, name = self.place.split(".")
        return getattr(import_module(f"volt.kernels.{module}"), name)

    @property
    def is_on_disk(self) -> bool:
        """Whether its code is kept for other processes."""
        from volt.kernels.jit import is_on_disk

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
        Loop("column_text.count_words", 0.4), Loop("column_text.find_blank", 0.1),
        Loop("column_text.count_within", 0.2), Loop("column_text.find_any", 0.1),
        Loop("column_text.surround", 0.3), Loop("column_text.change_case", 0.6),
        Loop("column_text.find_case", 0.2), Loop("noise.misspell", 1.1), Loop("noise.change_marks", 0.8),
        Loop("columns.find_starts", 0.4), Loop("columns.write_runs", 0.3), Loop("lattice.join_lines", 0.7),
        Loop("lattice.draw_paths", 0.7),
    ),
    "tokens": (
        Loop("tokens.count_tokens", 0.2), Loop("tokens.cut_tokens", 0.3), Loop("tokens.write_tokens", 0.5),
        Loop("noise.count_hits", 0.2), Loop("noise.hit_tokens", 0.2),
        Loop("noise.reorder_tokens", 0.2), Loop("noise.toggle_marks", 0.6),
        Loop("tokens.find_words", 0.4), Loop("tokens.enter_types", 0.1),
        Loop("tokens.choose", 0.2), Loop("lattice.best_paths", 0.6),
    ),
    "batches": (
        Loop("columns.shuffle", 0.1), Loop("columns.draw", 0.2), Loop("batching.cut_steps", 0.2),
        Loop("batching.deal_rows", 0.2), Loop("batching.fit_best", 0.3),
    ),
    "samples": (
        Loop("batching.look_up", 0.2), Loop("batching.frame_ids", 0.2), Loop("batching.put_rows", 0.4),
    ),
    "patterns": (Loop("regex_cutting.cut_texts", 1.5), Loop("regex_cutting.write_words", 1.8)),
}  # fmt: skip


def missing(*jobs: Job) -> list[Loop]:
    """Return the loops of these jobs that are neither compiled in this process nor kept on disk by an earlier one."""
    from numba import config

    if vars(config)["DISABLE_JIT"]:
        return []
    return [loop for loop in _loops(*jobs) if not (loop.kernel.signatures or loop.is_on_disk)]


def compile_kernels(*jobs: Job) -> None:
    """Compile the loops that these jobs run, or load them from the disk."""
    for loop in _loops(*jobs):
        compile_loop(loop.place)


def compile_loop(place: str) -> None:
    """Compile the loop at this place, or load it from the disk."""
    from volt.kernels.jit import announced

    with announced():
        _SAMPLES[place]()


def _loops(*jobs: Job) -> list[Loop]:
    return list(dict.fromkeys(loop for job in jobs for loop in JOBS[job]))


START = 1.0  # seconds until a second process compiles
_THERE = "import sys; from volt.kernels import beside; beside.compile_places(sys.argv[1:])"


def halves(loops: Iterable[Loop]) -> tuple[list[Loop], list[Loop]]:
    """Return the loops that this process compiles, and those of a second one, which starts later, so that both end
    early.
    """
    current, stored = list[Loop](), list[Loop]()
    for loop in sorted(loops, key=lambda loop: -loop.seconds):
        other = START + sum(one.seconds for one in [*stored, loop])
        (stored if other < sum(one.seconds for one in [*current, loop]) else current).append(loop)
    return current, stored


def seconds_for(loops: Iterable[Loop]) -> int:
    """About how many seconds it takes until these loops are compiled.

    >>> seconds_for([Loop("learn.learn_merges", 4.6)])
    5
    """
    current, stored = halves(loops) if _can_help() else (list(loops), [])
    return round(
        max(sum(loop.seconds for loop in current), START * bool(stored) + sum(loop.seconds for loop in stored))
    )


@contextmanager
def helping(loops: Iterable[Loop]) -> Iterator[list[Loop]]:
    """A second process compiles its half inside. Yields what is left to this one, which then waits for it.

    Whatever keeps the other from its work only costs time: what is not on disk in the end, this process compiles.
    """
    current, stored = halves(loops) if _can_help() else (list(loops), [])
    process = _started(stored) if stored else None
    try:
        yield current
        if process is not None:
            process.wait()
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def compile_places(places: Sequence[str]) -> None:
    """Compile the loops at these places: what the second process does."""
    for place in dict.fromkeys(loop.place for loops in JOBS.values() for loop in loops):
        if place in places:
            compile_loop(place)


def _can_help() -> bool:
    """Check whether there is a core for a second process, and a folder where it can leave what it compiles."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and bool(sys.executable) and not hasattr(sys, "frozen") and kept_in() is not None


def _started(loops: Sequence[Loop]) -> subprocess.Popen[bytes] | None:
    """Return a process with the modules of this one, whatever folder it runs in; it says nothing and asks for
    nothing.
    """
    command = [sys.executable, "-P", "-c", _THERE, *(loop.place for loop in loops)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:  # no memory for another, say
        return None
