"""Compile loops in advance, once per machine and version; later processes load the code from disk.

A job is an activity of a command, such as "learn" or "encode". `JOBS` lists the loops that each job
runs, by the name of their module and their own. A second process, on a second core, compiles the
loops from the last to the first, while this process compiles them from the first on, until both
meet. Threads would wait for each other, because LLVM holds the interpreter's lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal

from volt.kernels.jit import CompiledLoop, announced, code_folder

Job = Literal[
    "count",
    "learn",
    "superwords",
    "replay",
    "words",
    "encode",
    "joins",
    "dropout",
    "paths",
    "spans",
    "normalize",
    "decode",
    "stream",
    "steps",
    "tokens",
    "batches",
    "samples",
    "patterns",
    "bound",
    "choice",
]


def kernel(name: str) -> Any:
    """Return the loop with this name, such as columns.shuffle: its module and itself."""
    module, function = name.split(".")
    return getattr(import_module(f"volt.kernels.{module}"), function)


JOBS: dict[Job, tuple[str, ...]] = {
    "count": (
        "count_units.count_units",
        "unit_table.rebuild",
        "count_units.add_words",
    ),
    "learn": ("learn.learn_merges",),
    "superwords": (
        "token_runs.count_pairs",
        "token_runs.count_values",
        "token_runs.count_runs",
        "token_runs.enter_runs",
    ),
    "replay": ("bpe_tables.fill", "trace.trace_each"),
    "words": (
        "bpe_tables.fill",
        "trie.fill_trie",
        "bpe_tables.enter",
        "bpe_tables.find_cuts",
        "apply_bpe.encode_each",
    ),
    "encode": (
        "encode_units.encode_units",
        "encode_units.encode_pending",
        "trie.segment_words",
        "encode_units.follow_lines",
        "unit_table.complete",
        "unit_table.rebuild",
    ),
    "paths": (
        "lattice.draw_paths",
        "best_paths.draw_best_paths",
        "apply_bpe.start_lines",
        "decode.expand",
    ),
    "joins": (
        "bpe_tables.fill",
        "superwords.mark_joinable",
        "regex_cutting.cut_texts",
        "superwords.join_stretches",
        "decode.expand",
    ),
    "dropout": ("apply_bpe.sample_each", "apply_bpe.start_lines", "decode.expand"),
    "spans": ("spans.find_spans",),
    "normalize": ("charsmap.normalize",),
    "decode": (
        "decode.expand_lines",
        "decode.expand_line",
        "decode.parse_ids",
    ),
    "stream": (
        "batching.apportion",
        "columns.line_ends",
        "columns.cut",
        "columns.write_values",
        "columns.put_values",
        "columns.shuffle",
        "columns.permuted",
        "columns.draw",
    ),
    "steps": (
        "bpe_tables.fill",
        "columns.number_sizes",
        "columns.write_numbers",
        "string_functions.count_words",
        "string_functions.find_blank",
        "string_functions.count_within",
        "string_functions.find_any",
        "string_functions.change_case",
        "noise.misspell",
        "noise.change_marks",
        "columns.find_starts",
        "columns.write_runs",
        "lattice.join_lines",
        "lattice.draw_paths",
    ),
    "tokens": (
        "word_types.count_tokens",
        "word_types.cut_tokens",
        "word_types.write_tokens",
        "noise.count_hits",
        "noise.hit_tokens",
        "noise.reorder_tokens",
        "noise.toggle_marks",
        "word_types.find_words",
        "word_types.enter_types",
        "word_types.choose",
        "best_paths.find_best_paths",
    ),
    "batches": (
        "columns.shuffle",
        "columns.draw",
        "batching.cut_steps",
        "batching.deal_rows",
        "batching.fit_best",
    ),
    "samples": (
        "word_types.find_words",
        "batching.frame_ids",
        "batching.lay_out",
    ),
    "patterns": ("regex_cutting.cut_texts", "regex_cutting.write_words"),
    "choice": (
        "token_values.rate_words",
        "token_values.find_best",
        "token_values.find_cheapest",
    ),
    "bound": (
        "piece_bound.relax",
        "piece_bound.share_out",
        "piece_bound.sum_shortest_paths",
        "piece_bound.find_starts",
    ),
}


def is_stored(name: str) -> bool:
    """Check whether a loop's machine code is on disk."""
    loop = kernel(name)
    return isinstance(loop, CompiledLoop) and loop.is_on_disk()


def missing(*jobs: Job) -> list[str]:
    """Return the loops of these jobs that are compiled neither in this process nor on disk."""
    loops = {name: kernel(name) for name in _list_loops(*jobs)}
    return [
        name
        for name, loop in loops.items()
        if isinstance(loop, CompiledLoop) and not loop.is_ready() and not loop.is_on_disk()
    ]


def compile_kernels(*jobs: Job) -> None:
    """Compile the loops of these jobs, or load their code."""
    for name in _list_loops(*jobs):
        compile_loop(name)


def compile_loop(name: str) -> None:
    """Compile a loop, or load its code if it is on disk."""
    loop = kernel(name)
    if isinstance(loop, CompiledLoop):
        with announced():
            loop.load()


def _list_loops(*jobs: Job) -> list[str]:
    return list(dict.fromkeys(name for job in jobs for name in JOBS[job]))


_SECOND_PROCESS = (
    "import sys; from volt.kernels.warmup import compile_loop; [*map(compile_loop, sys.argv[1:])]"
)


@contextmanager
def helping(names: Sequence[str]) -> Iterator[None]:
    """Let a second process compile these loops from the last to the first, while the caller starts
    with the first.

    Either process loads what the other has stored. If the second process fails, the caller compiles
    all loops.
    """
    process = None
    if len(names) > 1 and _can_help():
        process = _start_process(names[::-1])
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _can_help() -> bool:
    n_cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        n_cores = len(os.sched_getaffinity(0))
    has_python = bool(sys.executable) and not hasattr(sys, "frozen")
    return n_cores > 1 and has_python and code_folder() is not None


def _start_process(names: Sequence[str]) -> subprocess.Popen[bytes] | None:
    command = [sys.executable, "-P", "-c", _SECOND_PROCESS, *names]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing
        )
    except OSError:  # for example, no memory for another process
        return None
