"""Handle the values of many lines as views into one buffer: split at tabs, write, shuffle, join to documents.

A value is given by its start in `data` and its size in bytes; the size is -1 if the line lacks the field.
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import (
    ByteArray,
    FlagArray,
    IdArray,
    IntArray,
    KeyArray,
    LongArray,
    LongTable,
    TextArray,
    mixed,
)
from volt.kernels.intrinsics import BLOCK, load64, prefetch, store64, trailing_zeros, within
from volt.kernels.jit import inlined, releasing

TAB, END = 9, 10
_AHEAD = 8  # values that are prefetched into the cache
_U0, _U1 = np.uint64(0), np.uint64(1)


@releasing
def line_ends(data: TextArray, ends: LongArray) -> int:
    """Write the positions of line feeds into `ends` until it is full. Return how many there are in all."""
    n = place = 0
    while place + BLOCK <= len(data):
        bits = within(data, place, END, 0)
        while bits != _U0:
            if n < len(ends):
                ends[n] = place + np.int64(trailing_zeros(bits))
            n += 1
            bits &= bits - _U1
        place += BLOCK
    for last in range(place, len(data)):
        if data[last] == END:
            if n < len(ends):
                ends[n] = last
            n += 1
    return n


@inlined
def next_tab(data: ByteArray, place: int, end: int) -> Any:
    while place < end and place + BLOCK <= len(data):
        bits = within(data, place, TAB, 0)
        if bits != _U0:
            return min(place + np.int64(trailing_zeros(bits)), end)
        place += BLOCK
    while place < end and data[place] != TAB:
        place += 1
    return min(place, end)


@inlined
def prefetch_ahead(data: ByteArray, starts: LongArray, i: int) -> None:
    if i + _AHEAD < len(starts):
        prefetch(data, starts[i + _AHEAD])


@releasing
def cut(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    cut_starts: LongTable,
    cut_sizes: LongTable,
) -> bool:
    """Split values at tabs: row k < n_fields gets field k of every value, and row n_fields the rest.

    Returns whether any value has more than n_fields fields.
    """
    last = len(cut_starts) - 1
    has_rest = False
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        row = 0
        begin = starts[i]
        end = begin + sizes[i]
        is_open = sizes[i] >= 0
        while is_open and row < last:
            tab = next_tab(data, begin, end)
            cut_starts[row, i] = begin
            cut_sizes[row, i] = tab - begin
            row += 1
            begin = tab + 1
            is_open = tab < end
        if is_open:
            cut_starts[last, i] = begin
            cut_sizes[last, i] = end - begin
            has_rest = True
            row = last + 1
        for k in range(row, last + 1):
            cut_starts[k, i] = end
            cut_sizes[k, i] = -1
    return has_rest


@inlined
def copy_bytes(data: ByteArray, start: int, out: IntArray, at: int, size: int) -> int:
    """Copy data[start:start + size] to out[at:]. Return the place after the copy."""
    done = 0
    while done + 8 <= size:
        store64(out, at + done, load64(data, start + done))
        done += 8
    while done < size:
        out[at + done] = data[start + done]
        done += 1
    return at + size


@releasing
def write_values(
    data: TextArray, starts: LongArray, sizes: LongArray, end: int, out: ByteArray, ends: LongArray
) -> None:
    """Write values one after the other, each followed by the byte `end`. A missing value is written as empty."""
    at = 0
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        at = copy_bytes(data, starts[i], out, at, max(sizes[i], 0))
        out[at] = end
        at += 1
        ends[i] = at


@releasing
def put_values(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    before: TextArray,
    after: TextArray,
    out: ByteArray,
    places: LongArray,
) -> None:
    """Write each value that is not missing, with the same bytes before and after it, to its place.

    places: where each value goes; set to the place after it
    """
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        if sizes[i] >= 0:
            at = places[i]
            for byte in before:
                out[at] = byte
                at += 1
            at = copy_bytes(data, starts[i], out, at, sizes[i])
            for byte in after:
                out[at] = byte
                at += 1
            places[i] = at


@releasing
def number_sizes(ids: IdArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    """Compute the size in bytes of each value's numbers as text; a size of -1 stays."""
    for i in range(len(starts)):
        total = sizes[i] - 1  # spaces
        for place in range(starts[i], starts[i] + max(sizes[i], 0)):
            number = np.int64(ids[place])
            total += 1 + int(number < 0)
            left = abs(number)
            while left >= 10:
                left //= 10
                total += 1
        out[i] = max(total, min(sizes[i], 0))


@releasing
def write_numbers(
    ids: IdArray, starts: LongArray, sizes: LongArray, ends: LongArray, out: ByteArray
) -> None:
    """Write the numbers of each value as text, backwards from its end at ends[i]."""
    for i in range(len(starts)):
        at = ends[i]
        for place in range(starts[i] + sizes[i] - 1, starts[i] - 1, -1):
            number = np.int64(ids[place])
            left = abs(number)
            while True:
                at -= 1
                out[at] = 48 + left % 10
                left //= 10
                if left == 0:
                    break
            if number < 0:
                at -= 1
                out[at] = 45
            if place > starts[i]:
                at -= 1
                out[at] = 32


@releasing
def shuffle(words: KeyArray, order: LongArray) -> None:
    """Permute `order` (Durstenfeld 1964). Each choice uses the upper half of one of the random `words`.

    Probabilities of permutations differ by less than n / 2³².
    """
    for i in range(len(order) - 1, 0, -1):
        j = np.int64((words[i] >> np.uint64(32)) * np.uint64(i + 1) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@releasing
def permuted(
    inputs: LongArray, outputs: LongArray, order: LongArray, firsts: LongArray, out: LongArray
) -> int:
    """Write the indices of output lines in a new order: that in which `order` puts the input lines they come from.

    inputs, outputs: the origins of the input and output lines, sorted alike
    Returns the number of lines written, less than len(outputs) if `outputs` is out of order.
    """
    done = 0
    for i in range(len(inputs)):
        firsts[i] = done
        while done < len(outputs) and outputs[done] == inputs[i]:
            done += 1
    firsts[len(inputs)] = done
    at = 0
    for i in order:
        for line in range(firsts[i], firsts[i + 1]):
            out[at] = line
            at += 1
    return at


@releasing
def draw(first: np.uint64, second: np.uint64, origins: LongArray, out: KeyArray) -> None:
    """Draw a random number per line, from the key (first, second), the line's origin, and its index in this origin."""
    copy = _U0
    for i in range(len(origins)):
        is_copy = i > 0 and origins[i] == origins[i - 1]
        copy = copy + _U1 if is_copy else _U0
        word = mixed(first ^ mixed(np.uint64(origins[i]) * np.uint64(0x9E3779B97F4A7C15) + second))
        out[i] = mixed(word ^ (second + copy * np.uint64(0xD1B54A32D192ED03)))


@inlined
def same_bytes(data: ByteArray, start: int, other: ByteArray, other_start: int, size: int) -> bool:
    k = 0
    while k < size and data[start + k] == other[other_start + k]:
        k += 1
    return k == size


@inlined
def _fits(n_tokens: LongArray, totals: LongArray, line: int, limit: int) -> bool:
    for field in range(len(totals)):
        if totals[field] + n_tokens[field, line] > limit:
            return False
    return True


@releasing
def find_starts(
    n_tokens: LongTable,
    joins: FlagArray,
    limits: LongArray,
    max_lines: int,
    ids: TextArray,
    starts: LongArray,
    sizes: LongArray,
    totals: LongArray,
    out: LongArray,
) -> int:
    """Write where documents start; return their number. A document takes lines while they have its id and it has room.

    n_tokens: (n_fields, n), the tokens of each line;  totals: (n_fields,), overwritten
    ids, starts, sizes: the id of each line; a line without an id is a document of its own
    joins: whether more lines may follow in a document that starts at this line
    limits: the maximum tokens of each field in a document that starts at this line
    """
    n = start = 0
    for i in range(len(starts)):
        may_join = n > 0 and joins[start] and i - start < max_lines
        has_id = sizes[i] > 0 and sizes[i] == sizes[start]
        if not (
            may_join
            and has_id
            and same_bytes(ids, starts[start], ids, starts[i], sizes[i])
            and _fits(n_tokens, totals, i, limits[start])
        ):
            out[n] = start = i
            n += 1
            for field in range(len(totals)):
                totals[field] = 0
        for field in range(len(totals)):
            totals[field] += n_tokens[field, i]
    return n


@releasing
def write_runs(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    bounds: LongArray,
    between: TextArray,
    out: ByteArray,
) -> None:
    """Join the values of each run of lines with `between`."""
    at = 0
    for run in range(len(bounds) - 1):
        for i in range(bounds[run], bounds[run + 1]):
            if i > bounds[run]:
                at = copy_bytes(between, 0, out, at, len(between))
            at = copy_bytes(data, starts[i], out, at, max(sizes[i], 0))
