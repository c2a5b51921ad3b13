"""Says which compiled loops are ready, and makes others so. They are compiled once per machine and version.

A job is what a command does; each needs some of the loops. A loop is compiled, or loaded from disk, by a call with next
to no data (the modules whose names end in `samples`).

>>> compile_kernels("learn")
>>> missing("learn")
[]
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, NamedTuple

from volt.kernels import batch_samples, column_samples, pattern_samples, samples, token_samples, word_samples

Job = Literal[
    "count",
    "learn",
    "certain",
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
        from volt.kernels.caching import is_on_disk

        return is_on_disk(self.kernel)


_FILL = Loop("pair_table.fill", 0.3)
JOBS: dict[Job, tuple[Loop, ...]] = {
    "count": (
        Loop("unit_counts.count_units", 1.6), Loop("unit_rows.rebuild", 0.1), Loop("unit_words.add_words", 1.8),
    ),
    "learn": (Loop("learn.learn_merges", 4.5),),
    "certain": (Loop("certain.certain_merges", 4.5),),
    "parity": (Loop("learn_parity.learn_parity_merges", 5.4),),
    "replay": (_FILL, Loop("words.trace_each", 1.8)),
    "words": (
        _FILL, Loop("spellings.enter", 0.2), Loop("spellings.find_cuts", 0.2), Loop("words.encode_each", 1.4),
    ),
    "encode": (
        Loop("unit_loop.encode_units", 6.6), Loop("unit_loop.encode_pending", 1.3), Loop("unit_rows.complete", 0.4),
        Loop("unit_rows.rebuild", 0.1),
    ),
    "dropout": (Loop("words.sample_each", 0.7), Loop("merging.start_line", 0.0), Loop("expand.expand", 0.5)),
    "decode": (Loop("decode.expand_lines", 0.5), Loop("decode.parse_ids", 0.2)),
    "stream": (
        Loop("apportion.apportion", 0.6), Loop("columns.line_ends", 0.3), Loop("columns.cut", 0.5),
        Loop("columns.write_values", 0.3), Loop("columns.put_values", 0.3), Loop("columns.scatter", 0.2),
        Loop("columns.shuffle", 0.1), Loop("columns.permuted", 0.2), Loop("columns.draw", 0.2),
    ),
    "steps": (
        _FILL, Loop("columns.number_sizes", 0.2), Loop("columns.write_numbers", 0.2),
        Loop("column_measures.count_words", 0.4), Loop("column_measures.find_blank", 0.1),
        Loop("column_measures.count_within", 0.2), Loop("column_measures.find_any", 0.1),
        Loop("column_changes.surround", 0.3), Loop("column_changes.change_case", 0.6),
        Loop("column_changes.find_case", 0.2), Loop("noise.misspell", 1.1), Loop("noise.change_marks", 0.8),
        Loop("documents.find_starts", 0.4), Loop("documents.write_runs", 0.3), Loop("drawing.join_lines", 0.7),
        Loop("drawing.draw_paths", 0.7),
    ),
    "tokens": (
        Loop("tokens.count_tokens", 0.2), Loop("tokens.cut_tokens", 0.3), Loop("tokens.write_tokens", 0.5),
        Loop("token_noise.count_hits", 0.2), Loop("token_noise.hit_tokens", 0.2),
        Loop("token_noise.reorder_tokens", 0.2), Loop("token_noise.toggle_marks", 0.6),
        Loop("segmentations.find_words", 0.4), Loop("segmentations.enter_types", 0.1),
        Loop("segmentations.choose", 0.2), Loop("best_paths.best_paths", 0.6),
    ),
    "batches": (
        Loop("columns.shuffle", 0.1), Loop("columns.draw", 0.2), Loop("batching.cut_steps", 0.2),
        Loop("batching.deal_rows", 0.2), Loop("batching.fit_best", 0.3),
    ),
    "samples": (
        Loop("sample_rows.look_up", 0.2), Loop("sample_rows.frame_ids", 0.2), Loop("sample_rows.put_rows", 0.4),
    ),
    "patterns": (Loop("pattern_cutting.cut_texts", 1.5), Loop("pattern_words.write_words", 1.8)),
}  # fmt: skip


def missing(*jobs: Job) -> list[Loop]:
    """The loops of these jobs that are neither compiled in this process nor kept on disk by an earlier one."""
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
    from volt.kernels.loading import announced

    with announced():
        _SAMPLES[place]()


def _loops(*jobs: Job) -> list[Loop]:
    return list(dict.fromkeys(loop for job in jobs for loop in JOBS[job]))
