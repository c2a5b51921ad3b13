"""Says which compiled loops are ready, and makes others so. They are compiled once per machine and version.

A job is what a command does; each needs some of the loops. A loop is compiled, or loaded from disk, by a call with next
to no data, whose arrays are of the types that the callers of the loop give it.

>>> compile_kernels("learn")
>>> missing("learn")
[]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np

from volt.kernels import token_samples

Job = Literal["learn", "parity", "replay", "words", "encode", "dropout", "decode", "stream", "tokens"]


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
    "learn": (Loop("learn.learn_merges", 4.5),),
    "parity": (Loop("learn_parity.learn_parity_merges", 5.4),),
    "replay": (_FILL, Loop("words.trace_each", 1.8)),
    "words": (_FILL, Loop("words.encode_each", 1.4)),
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
    "tokens": (
        Loop("tokens.count_tokens", 0.2), Loop("tokens.cut_tokens", 0.3), Loop("tokens.write_tokens", 0.5),
        Loop("token_noise.count_hits", 0.2), Loop("token_noise.hit_tokens", 0.2),
        Loop("token_noise.reorder_tokens", 0.2), Loop("token_noise.toggle_marks", 0.6),
    ),
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
    _SAMPLES[place]()


def _loops(*jobs: Job) -> list[Loop]:
    return list(dict.fromkeys(loop for job in jobs for loop in JOBS[job]))


def _ints(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def _longs(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def _bytes(n: int) -> Any:
    return np.zeros(n, np.uint8)


@cache
def _merges() -> Any:
    from volt.kernels.pair_table import ranked_merges

    return ranked_merges(_ints(0), _ints(1), _ints(2))


def _learn() -> None:
    from volt.kernels.arrays import Words
    from volt.kernels.learn import Until, learn
    from volt.kernels.texts import Texts

    texts = Texts(_ints(97, 98), _longs(0, 1, 2, 0, 0))
    learn(Words(_ints(0, 1), _longs(2), _longs(2)), texts, _bytes(2), _ints(), Until(1, 2, 1, 1), _longs(0, 0))


def _learn_parity() -> None:
    from volt.kernels.arrays import Words
    from volt.kernels.learn_parity import learn_parity
    from volt.kernels.texts import Texts

    texts = Texts(_ints(97, 98), _longs(0, 1, 2, 0, 0))
    words = Words(_ints(0, 1), _longs(2), _longs(2))
    learn_parity(words, texts, _bytes(2), _ints(), _longs(2), _longs(4), 1, 2, _longs(0, 0))


def _trace() -> None:
    from volt.kernels.arrays import Words
    from volt.kernels.words import trace

    trace(Words(_ints(0, 1), _longs(2), _longs(2)), _merges(), _longs(0, 0))


def _encode_words() -> None:
    from volt.kernels.words import encode_words

    encode_words(_ints(0, 1), _longs(2), _merges(), _bytes(3), _longs(-1, -1, 1), 0.0, _longs(0))


def _sample() -> None:
    from volt.kernels.words import encode_sampled

    encode_sampled(_ints(0, 3), _longs(2), _merges(), _bytes(3), _longs(-1, -1, 1), 0.1, 0, _longs(0))


def _start_line() -> None:
    from volt.kernels.merging import line_state

    line_state(0, 0)


def _expand() -> None:
    from volt.kernels.expand import expand

    for values in (_ints(7), _bytes(1)):
        expand(_ints(0), _longs(1), _longs(0, 1), values, np.zeros(2, values.dtype), _longs(0), values.itemsize == 1)


@cache
def _table() -> Any:
    from volt.kernels.unit_rows import UnitRows

    return UnitRows(np.zeros(32, np.uint64), _bytes(8), _longs(0, 0), _bytes(8), _longs(0, 0), _bytes(8), _longs(0, 0))


def _text(n: int) -> Any:
    text = np.full(n, 32, np.uint8)
    text.flags.writeable = False
    return text


def _encode_units() -> None:
    """By numbering the units of no text."""
    from volt.kernels.memory import PADDING
    from volt.kernels.unit_loop import LINES, RING, ROOM, Rule, encode_units
    from volt.kernels.unit_state import LoopState
    from volt.kernels.unit_values import numbering

    rule, ring = Rule(10, False, 1 << 32, False, False, False), np.zeros(RING, np.uint64)
    line_ends, left_lines = np.zeros(LINES, np.int64), np.zeros((LINES, 2), np.int64)
    state, out = LoopState().slots(), _bytes(ROOM)
    encode_units(_text(PADDING), 0, rule, _table(), numbering(), out, line_ends, left_lines, ring, state)


def _encode_pending() -> None:
    from volt.kernels.unit_loop import encode_pending
    from volt.kernels.unit_values import numbering

    encode_pending(_text(8), _table(), numbering(), _longs(), _longs(), 0)


def _complete() -> None:
    from volt.kernels.unit_rows import complete

    complete(_table(), _longs(), _longs())


def _rebuild() -> None:
    from volt.kernels.unit_rows import rebuild

    rebuild(np.zeros(64, np.uint64), _table().rows)


def _expand_lines() -> None:
    from volt.kernels.decode import NO_SPACE, TextTable, expand_lines
    from volt.kernels.memory import PADDING

    texts = TextTable(np.zeros(2, np.uint64), _longs(0, 0), _bytes(PADDING))
    expand_lines(_ints(0), _longs(0, 1), 0, texts, NO_SPACE, _bytes(2 * PADDING), _longs(0))


def _parse_ids() -> None:
    from volt.kernels.decode import parse_ids

    parse_ids(np.frombuffer(b"0\n", np.uint8), 1, _ints(0, 0), _longs(0, 0))


def _apportion() -> None:
    from volt.kernels.apportion import apportion

    apportion(_longs(0), np.ones((1, 1), np.int64), _longs(1), _longs(0), 1)


def _line_ends() -> None:
    from volt.kernels.columns import line_ends

    line_ends(_text(1), _longs(0))


def _cut() -> None:
    from volt.kernels.columns import cut

    cut(_text(1), _longs(0), _longs(1), np.zeros((2, 1), np.int64), np.zeros((2, 1), np.int64))


def _write_values() -> None:
    from volt.kernels.columns import write_values

    write_values(_text(1), _longs(0), _longs(1), 10, _bytes(2), _longs(0))


def _put_values() -> None:
    from volt.kernels.columns import put_values

    put_values(_text(1), _longs(0), _longs(1), True, _bytes(2), _longs(0))


def _scatter() -> None:
    from volt.kernels.columns import scatter

    scatter(_text(1), _longs(0), _longs(1), _longs(0), _bytes(1))


def _shuffle() -> None:
    from volt.kernels.columns import shuffle

    shuffle(np.zeros(1, np.uint64), _longs(0))


def _permuted() -> None:
    from volt.kernels.columns import permuted

    permuted(_longs(0), _longs(0), _longs(0), _longs(0, 0), _longs(0))


def _draw() -> None:
    from volt.kernels.columns import draw

    draw(np.uint64(0), np.uint64(0), _longs(0), np.zeros(1, np.uint64))


_SAMPLES: dict[str, Callable[[], object]] = {
    "pair_table.fill": _merges,
    "learn.learn_merges": _learn,
    "learn_parity.learn_parity_merges": _learn_parity,
    "words.trace_each": _trace,
    "words.encode_each": _encode_words,
    "words.sample_each": _sample,
    "merging.start_line": _start_line,
    "expand.expand": _expand,
    "unit_loop.encode_units": _encode_units,
    "unit_loop.encode_pending": _encode_pending,
    "unit_rows.complete": _complete,
    "unit_rows.rebuild": _rebuild,
    "decode.expand_lines": _expand_lines,
    "decode.parse_ids": _parse_ids,
    "apportion.apportion": _apportion,
    "columns.line_ends": _line_ends,
    "columns.cut": _cut,
    "columns.write_values": _write_values,
    "columns.put_values": _put_values,
    "columns.scatter": _scatter,
    "columns.shuffle": _shuffle,
    "columns.permuted": _permuted,
    "columns.draw": _draw,
    **token_samples.SAMPLES,
}
