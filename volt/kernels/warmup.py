"""Compile loops ahead, on two cores, or load their code from disk: once per machine and version.

A job is what a command does; each job runs some of the loops (`JOBS`), each compiled for the types that its callers
pass. A second process compiles some while this one compiles the others; they share code on disk. Threads would wait
for each other, because LLVM holds the interpreter's lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal, NamedTuple

from numba import types
from numba.core.dispatcher import Dispatcher

from volt.kernels.jit import announced, is_on_disk, kept_in

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


class Loop(NamedTuple):
    """A loop that Python calls: its module in volt.kernels with its name, and the seconds it takes to compile."""

    place: str
    seconds: float

    @property
    def kernel(self) -> Any:
        """The compiled function."""
        module, name = self.place.split(".")
        return getattr(import_module(f"volt.kernels.{module}"), name)

    @property
    def is_on_disk(self) -> bool:
        """Whether an earlier process has stored its code."""
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


def _array(kind: Any, n_dimensions: int = 1, *, readonly: bool = False) -> Any:
    return types.Array(kind, n_dimensions, "C", readonly=readonly)


# The words of signatures: scalars, then arrays. `text` and `ids` are buffers that cannot be written to.
_TYPES = {
    "bool": types.boolean, "int": types.int64, "key": types.uint64, "float": types.float64,
    "text": _array(types.uint8, readonly=True), "ids": _array(types.int32, readonly=True),
    "flags": _array(types.boolean), "bytes": _array(types.uint8), "shorts": _array(types.uint16),
    "ints": _array(types.int32), "longs": _array(types.int64), "keys": _array(types.uint64),
    "floats": _array(types.float64), "ints2": _array(types.int32, 2), "longs2": _array(types.int64, 2),
    "longs3": _array(types.int64, 3), "floats2": _array(types.float64, 2),
}  # fmt: skip
# Named tuples: the module, and the types of the fields.
TUPLES = {
    "Ends": ("unit_table", "int bool int bool bool"),
    "UnitRows": ("unit_table", "keys bytes longs bytes longs bytes longs"),
    "SplitTables": ("regex_cutting", "bytes ints int longs"),
    "Words": ("arrays", "ints longs longs"),
    "TokenStrings": ("arrays", "ints longs"),
    "Until": ("learn", "int int int int"),
    "Merges": ("bpe_tables", "keys ints ints bool int"),
    "Word": ("apply_bpe", "ints ints ints longs longs"),
    "WordBuffers": ("apply_bpe", "Word ints bytes ints"),
    "Spellings": ("bpe_tables", "ints ints longs int"),
    "PieceRule": ("apply_bpe", "bytes longs Spellings"),
    "Rule": ("encode_units", "int bool int int bool bool bool"),
    "Cutter": ("pretokenize", "int int bytes ints ints longs longs ints int longs bytes int int int bytes"),
    "UnitEncoder": ("unit_encoder", "Cutter bool Merges PieceRule WordBuffers ints longs bytes int int ints"),
    "TextTable": ("decode", "keys longs bytes"),
    "JoinTable": ("lattice", "keys ints ints bytes"),
    "Trie": ("lattice", "keys ints floats float"),
    "Lattice": ("lattice", "floats ints ints ints ints"),
    "Types": ("tokens", "longs keys longs bytes"),
    "Paths": ("lattice", "longs floats2 ints2 ints2"),
    "WordSpelling": ("regex_cutting", "bytes int int"),
}
# Each loop: the types of its arguments, as callers in Python pass them; for other types it would be compiled anew.
SIGNATURES = {
    "unit_table.count_units": ("text int Ends UnitRows keys longs",),
    "unit_table.rebuild": ("keys keys",),
    "unit_table.add_words": ("text longs longs longs SplitTables int longs longs UnitRows longs",),
    "learn.learn_merges": ("Words TokenStrings int bytes ints Until longs2 ints2 longs longs",),
    "learn_parity.learn_parity_merges": (
        "Words TokenStrings int bytes ints longs longs int longs3 longs longs2 ints2 ints longs",
    ),
    "bpe_tables.fill": ("keys ints ints ints ints",),
    "apply_bpe.trace_each": ("Words Merges WordBuffers longs longs longs",),
    "bpe_tables.enter": ("Spellings",),
    "bpe_tables.find_cuts": ("Spellings keys ints ints ints",),
    "apply_bpe.encode_each": ("ints longs Merges PieceRule float longs WordBuffers ints longs",),
    "encode_units.encode_units": ("text int Rule UnitRows UnitEncoder bytes longs longs2 keys longs",),
    "encode_units.encode_pending": ("text UnitRows UnitEncoder longs longs int",),
    "unit_table.complete": ("UnitRows longs longs",),
    "apply_bpe.sample_each": ("ints longs Merges PieceRule float int longs longs WordBuffers ints longs",),
    "apply_bpe.start_line": ("longs int int",),
    "decode.expand": ("ints longs longs ints ints longs bool", "ints longs longs bytes bytes longs bool",),
    "decode.expand_lines": ("ints longs int TextTable int bytes longs",),
    "decode.parse_ids": ("text int ints longs",),
    "batching.apportion": ("longs longs2 longs longs int",),
    "columns.line_ends": ("text longs",),
    "columns.cut": ("text longs longs longs2 longs2",),
    "columns.write_values": ("text longs longs int bytes longs",),
    "columns.put_values": ("text longs longs bool bytes longs",),
    "columns.scatter": ("text longs longs longs bytes",),
    "columns.shuffle": ("keys longs",),
    "columns.permuted": ("longs longs longs longs longs",),
    "columns.draw": ("key key longs keys",),
    "columns.number_sizes": ("ids longs longs longs",),
    "columns.write_numbers": ("ids longs longs longs bytes",),
    "column_text.count_words": ("text longs longs longs",),
    "column_text.find_blank": ("text longs longs flags",),
    "column_text.count_within": ("text longs longs int int longs",),
    "column_text.find_any": ("text longs longs flags flags",),
    "column_text.surround": ("text longs longs text text bytes longs",),
    "column_text.change_case": ("text longs longs int shorts shorts bytes bytes longs flags",),
    "column_text.find_case": ("text longs longs bytes bytes",),
    "noise.misspell": ("text longs longs keys floats bytes bytes longs",),
    "noise.change_marks": ("text longs longs keys float float bytes bytes longs",),
    "columns.find_starts": ("longs2 flags longs int text longs longs longs longs",),
    "columns.write_runs": ("text longs longs longs text bytes",),
    "lattice.join_lines": ("ints longs JoinTable longs float longs WordBuffers ints longs",),
    "lattice.draw_paths": ("ints ids longs Trie longs Lattice ints longs",),
    "tokens.count_tokens": ("text longs longs longs",),
    "tokens.cut_tokens": ("text longs longs longs longs",),
    "tokens.write_tokens": ("text longs longs text longs longs longs longs bytes longs",),
    "noise.count_hits": ("longs float keys longs",),
    "noise.hit_tokens": ("longs longs int keys longs",),
    "noise.reorder_tokens": ("longs float keys floats longs",),
    "noise.toggle_marks": ("text longs longs longs text longs longs int int longs",),
    "tokens.find_words": ("text longs longs Types ints longs longs",),
    "tokens.enter_types": ("keys int longs",),
    "tokens.choose": ("keys longs ints keys bool longs floats ints",),
    "lattice.best_paths": ("ints longs Trie Paths longs floats longs ints",),
    "batching.cut_steps": ("longs int int int int longs",),
    "batching.deal_rows": ("longs longs longs int longs longs",),
    "batching.fit_best": ("longs int bytes longs longs longs",),
    "batching.look_up": ("text longs longs Types ints longs",),
    "batching.frame_ids": ("ids longs longs ids ids int ints",),
    "batching.put_rows": (
        "ids longs longs longs longs flags int longs longs flags longs",
        "ids longs longs longs longs flags int ints ints flags longs",
    ),
    "regex_cutting.cut_texts": ("text longs SplitTables longs longs longs",),
    "regex_cutting.write_words": ("text longs longs SplitTables WordSpelling longs longs bytes",),
}  # fmt: skip


def missing(*jobs: Job) -> list[Loop]:
    """Return the loops of these jobs that are neither compiled in this process nor stored on disk."""
    from numba import config

    if vars(config)["DISABLE_JIT"]:
        return []
    return [loop for loop in _loops(*jobs) if not (loop.kernel.signatures or loop.is_on_disk)]


def compile_kernels(*jobs: Job) -> None:
    """Compile the loops that these jobs run, or load them from the disk.

    >>> compile_kernels("learn")
    >>> missing("learn")
    []
    """
    for loop in _loops(*jobs):
        compile_loop(loop.place)


def compile_loop(place: str) -> None:
    kernel = Loop(place, 0.0).kernel
    if isinstance(kernel, Dispatcher):
        with announced():
            for signature in signatures(place):
                kernel.compile(signature)


def signatures(place: str) -> list[tuple[Any, ...]]:
    """Return the signatures that the loop at this place is compiled for, in numba's types."""
    return [numba_types(words) for words in SIGNATURES[place]]


def numba_types(signature: str) -> tuple[Any, ...]:
    """Return numba's types for the words of a signature.

    >>> numba_types("int longs Until")
    (int64, Array(int64, 1, 'C', False, aligned=True), Until(int64 x 4))
    """
    return tuple(_TYPES[word] if word in _TYPES else _tuple_type(word) for word in signature.split())


def _tuple_type(name: str) -> Any:
    module, fields = TUPLES[name]
    make: Any = types.BaseTuple.from_types
    return make(numba_types(fields), getattr(import_module(f"volt.kernels.{module}"), name))


def _loops(*jobs: Job) -> list[Loop]:
    return list(dict.fromkeys(loop for job in jobs for loop in JOBS[job]))


START = 1.0  # seconds until a second process compiles
_SECOND_PROCESS = "import sys; from volt.kernels import warmup; warmup.compile_places(sys.argv[1:])"


def halves(loops: Iterable[Loop]) -> tuple[list[Loop], list[Loop]]:
    """Divide loops between this process and a second one, which starts later, so that both end early."""
    first, second = list[Loop](), list[Loop]()
    for loop in sorted(loops, key=lambda loop: -loop.seconds):
        is_sooner = START + _seconds([*second, loop]) < _seconds([*first, loop])
        (second if is_sooner else first).append(loop)
    return first, second


def _seconds(loops: Iterable[Loop]) -> float:
    return sum(loop.seconds for loop in loops)


def seconds_for(loops: Iterable[Loop]) -> int:
    """Estimate the seconds until these loops are compiled."""
    first, second = halves(loops) if _can_help() else (list(loops), [])
    return round(max(_seconds(first), START * bool(second) + _seconds(second)))


@contextmanager
def helping(loops: Iterable[Loop]) -> Iterator[list[Loop]]:
    """Yield the loops for this process to compile, while a second process compiles the others; then wait for it.

    If that fails, this process compiles what is not on disk in the end.
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
    """Compile the loops at these places, in the order of the jobs, in the second process."""
    for place in dict.fromkeys(loop.place for loops in JOBS.values() for loop in loops):
        if place in places:
            compile_loop(place)


def _can_help() -> bool:
    """Check whether a second process has a core to run on and a folder to store code in."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and bool(sys.executable) and not hasattr(sys, "frozen") and kept_in() is not None


def _started(loops: Sequence[Loop]) -> subprocess.Popen[bytes] | None:
    command = [sys.executable, "-P", "-c", _SECOND_PROCESS, *(loop.place for loop in loops)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:  # no memory for another, say
        return None
