"""A call of each loop over columns with next to no data: see `volt.kernels.samples`.

The buffer of a column cannot be written to, so `spaces` stands for one.

>>> SAMPLES["columns.line_ends"]()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from volt.kernels.samples import bytes_, ints, longs, merges, spaces

_N_CODES = 1 << 16  # of a table of characters


def _apportion() -> None:
    from volt.kernels.batching import apportion

    apportion(longs(0), np.ones((1, 1), np.int64), longs(1), longs(0), 1)


def _line_ends() -> None:
    from volt.kernels.columns import line_ends

    line_ends(spaces(1), longs(0))


def _cut() -> None:
    from volt.kernels.columns import cut

    cut(spaces(1), longs(0), longs(1), np.zeros((2, 1), np.int64), np.zeros((2, 1), np.int64))


def _write_values() -> None:
    from volt.kernels.columns import write_values

    write_values(spaces(1), longs(0), longs(1), 10, bytes_(2), longs(0))


def _put_values() -> None:
    from volt.kernels.columns import put_values

    put_values(spaces(1), longs(0), longs(1), True, bytes_(2), longs(0))


def _scatter() -> None:
    from volt.kernels.columns import scatter

    scatter(spaces(1), longs(0), longs(1), longs(0), bytes_(1))


def _shuffle() -> None:
    from volt.kernels.columns import shuffle

    shuffle(np.zeros(1, np.uint64), longs(0))


def _permuted() -> None:
    from volt.kernels.columns import permuted

    permuted(longs(0), longs(0), longs(0), longs(0, 0), longs(0))


def _draw() -> None:
    from volt.kernels.columns import draw

    draw(np.uint64(0), np.uint64(0), longs(0), np.zeros(1, np.uint64))


def _number_sizes() -> None:
    from volt.kernels.columns import number_sizes

    number_sizes(_ids(), longs(0), longs(1), longs(0))


def _write_numbers() -> None:
    from volt.kernels.columns import write_numbers

    write_numbers(_ids(), longs(0), longs(1), longs(1), bytes_(1))


def _ids() -> Any:
    return np.frombuffer(bytes(4), np.int32)


def _count_words() -> None:
    from volt.kernels.column_text import BLOCK, count_words

    count_words(spaces(BLOCK), longs(0), longs(1), longs(0))


def _find_blank() -> None:
    from volt.kernels.column_text import BLOCK, find_blank

    find_blank(spaces(BLOCK), longs(0), longs(1), np.zeros(1, bool))


def _count_within() -> None:
    from volt.kernels.column_text import BLOCK, count_within

    count_within(spaces(BLOCK), longs(0), longs(1), 0, 0, longs(0))


def _find_any() -> None:
    from volt.kernels.column_text import find_any

    find_any(spaces(1), longs(0), longs(1), np.zeros(256, bool), np.zeros(1, bool))


def _surround() -> None:
    from volt.kernels.column_text import surround

    surround(spaces(1), longs(0), longs(1), spaces(1), spaces(1), bytes_(3), longs(0))


def _change_case() -> None:
    from volt.kernels.column_text import change_case

    table = np.zeros(_N_CODES, np.uint16)
    change_case(
        spaces(1), longs(0), longs(1), 0, table, table, bytes_(_N_CODES), bytes_(1), longs(0), np.zeros(1, bool)
    )


def _find_case() -> None:
    from volt.kernels.column_text import find_case

    find_case(spaces(1), longs(0), longs(1), bytes_(_N_CODES), bytes_(1))


def _misspell() -> None:
    from volt.kernels.noise import MOST_GROWTH, misspell

    seeds, powers = np.zeros(1, np.uint64), np.ones(1)
    misspell(spaces(1), longs(0), longs(1), seeds, powers, bytes_(1), bytes_(MOST_GROWTH), longs(0))


def _change_marks() -> None:
    from volt.kernels.noise import change_marks

    message = bytes_(_N_CODES)
    change_marks(spaces(1), longs(0), longs(1), np.zeros(1, np.uint64), 0.0, 0.0, message, bytes_(4), longs(0))


def _find_starts() -> None:
    from volt.kernels.columns import find_starts

    n_tokens, joins = np.zeros((1, 1), np.int64), np.ones(1, bool)
    find_starts(n_tokens, joins, longs(1), 1, spaces(1), longs(0), longs(1), longs(0), longs(0))


def _write_runs() -> None:
    from volt.kernels.columns import write_runs

    write_runs(spaces(1), longs(0), longs(1), longs(0, 1), spaces(1), bytes_(1))


def _join_lines() -> None:
    from volt.kernels.apply_bpe import room_of
    from volt.kernels.lattice import JoinTable, join_lines

    table = merges()
    joins = JoinTable(table.pairs, table.results, ints(0), bytes_(3))
    join_lines(ints(0), longs(1), joins, longs(-1, -1, -1), 0.1, longs(0), room_of(1), ints(0), longs(0))


def _draw_paths() -> None:
    from volt.kernels.lattice import Lattice, Trie, draw_paths

    trie = Trie(merges().pairs, ints(-1, -1), np.zeros(1), 0.0)
    lattice = Lattice(np.empty(2), ints(0, 0), ints(0, 0), ints(0, 0), ints(0, 0))
    draw_paths(ints(-1), np.frombuffer(bytes(4), np.int32), longs(1), trie, longs(0), lattice, ints(0), longs(0))


SAMPLES: dict[str, Callable[[], object]] = {
    "batching.apportion": _apportion,
    "columns.line_ends": _line_ends,
    "columns.cut": _cut,
    "columns.write_values": _write_values,
    "columns.put_values": _put_values,
    "columns.scatter": _scatter,
    "columns.shuffle": _shuffle,
    "columns.permuted": _permuted,
    "columns.draw": _draw,
    "columns.number_sizes": _number_sizes,
    "columns.write_numbers": _write_numbers,
    "column_text.count_words": _count_words,
    "column_text.find_blank": _find_blank,
    "column_text.count_within": _count_within,
    "column_text.find_any": _find_any,
    "column_text.surround": _surround,
    "column_text.change_case": _change_case,
    "column_text.find_case": _find_case,
    "noise.misspell": _misspell,
    "noise.change_marks": _change_marks,
    "columns.find_starts": _find_starts,
    "columns.write_runs": _write_runs,
    "lattice.join_lines": _join_lines,
    "lattice.draw_paths": _draw_paths,
}
