"""Handle the values of many lines as views into one buffer: split at tabs, write, shuffle, join to
documents.

A value is a field of a line: data[starts[i]:starts[i] + sizes[i]]. Its size is −1 if the line lacks
the field. In all loops, `n_out` is the number of bytes or elements written to `out`.
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
_N_AHEAD = 8  # a value is loaded into the processor's cache so many values before its use
_U0, _U1 = np.uint64(0), np.uint64(1)
_ZERO, _MINUS, _SPACE = b"0- "


@releasing
def line_ends(data: TextArray, ends: LongArray) -> int:
    """Write the positions of line feeds to `ends` until `ends` is full. Return how many line feeds
    `data` contains."""
    n = p = 0
    while p + BLOCK <= len(data):
        mask = within(data, p, END, 0)
        while mask != _U0:
            if n < len(ends):
                ends[n] = p + np.int64(trailing_zeros(mask))
            n += 1
            mask &= mask - _U1
        p += BLOCK
    for last in range(p, len(data)):
        if data[last] == END:
            if n < len(ends):
                ends[n] = last
            n += 1
    return n


@inlined
def next_tab(data: ByteArray, p: int, end: int) -> Any:
    """Return the position of the next tab from p on, or `end`."""
    while p < end and p + BLOCK <= len(data):
        mask = within(data, p, TAB, 0)
        if mask != _U0:
            return min(p + np.int64(trailing_zeros(mask)), end)
        p += BLOCK
    while p < end and data[p] != TAB:
        p += 1
    return min(p, end)


@inlined
def prefetch_ahead(data: ByteArray, starts: LongArray, i: int) -> None:
    if i + _N_AHEAD < len(starts):
        prefetch(data, starts[i + _N_AHEAD])


@releasing
def cut(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    cut_starts: LongTable,
    cut_sizes: LongTable,
) -> bool:
    """Split values at tabs.

    cut_starts, cut_sizes: (n_fields + 1, n_values); row k is set to field k of every value, and the
        last row to the rest
    Returns whether any value has more than n_fields fields.
    """
    last = len(cut_starts) - 1
    has_rest = False
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        row = 0
        start = starts[i]
        end = start + sizes[i]
        has_more = sizes[i] >= 0
        while has_more and row < last:
            tab = next_tab(data, start, end)
            cut_starts[row, i] = start
            cut_sizes[row, i] = tab - start
            row += 1
            start = tab + 1
            has_more = tab < end
        if has_more:
            cut_starts[last, i] = start
            cut_sizes[last, i] = end - start
            has_rest = True
            row = last + 1
        for k in range(row, last + 1):
            cut_starts[k, i] = end
            cut_sizes[k, i] = -1
    return has_rest


@inlined
def copy_bytes(data: ByteArray, start: int, out: IntArray, n_out: int, size: int) -> int:
    """Copy data[start:start + size] to out[n_out:]. Return the new n_out."""
    n_done = 0
    while n_done + 8 <= size:
        store64(out, n_out + n_done, load64(data, start + n_done))
        n_done += 8
    while n_done < size:
        out[n_out + n_done] = data[start + n_done]
        n_done += 1
    return n_out + size


@releasing
def write_values(
    data: TextArray, starts: LongArray, sizes: LongArray, end: int, out: ByteArray, ends: LongArray
) -> None:
    """Write values one after the other, each followed by the byte `end`. A missing value is written
    as empty."""
    n_out = 0
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        n_out = copy_bytes(data, starts[i], out, n_out, max(sizes[i], 0))
        out[n_out] = end
        n_out += 1
        ends[i] = n_out


@releasing
def put_values(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    before: TextArray,
    after: TextArray,
    out: ByteArray,
    positions: LongArray,
) -> None:
    """Write each value that is not missing to out[positions[i]:], with the bytes `before` and
    `after` around it.

    positions: set to the position after each value
    """
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        if sizes[i] >= 0:
            n_out = positions[i]
            for byte in before:
                out[n_out] = byte
                n_out += 1
            n_out = copy_bytes(data, starts[i], out, n_out, sizes[i])
            for byte in after:
                out[n_out] = byte
                n_out += 1
            positions[i] = n_out


@releasing
def number_sizes(ids: IdArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    """Compute how many bytes `write_numbers` needs for each value; −1 for a missing value."""
    for i in range(len(starts)):
        n_bytes = sizes[i] - 1  # spaces
        for k in range(starts[i], starts[i] + max(sizes[i], 0)):
            number = np.int64(ids[k])
            n_bytes += 1 + int(number < 0)
            rest = abs(number)
            while rest >= 10:
                rest //= 10
                n_bytes += 1
        out[i] = max(n_bytes, min(sizes[i], 0))


@releasing
def write_numbers(
    ids: IdArray, starts: LongArray, sizes: LongArray, ends: LongArray, out: ByteArray
) -> None:
    """Write each value's ids as decimal numbers with spaces between them.

    The text of value i ends before ends[i]; the loop writes it backwards.
    """
    for i in range(len(starts)):
        to = ends[i]
        for k in range(starts[i] + sizes[i] - 1, starts[i] - 1, -1):
            number = np.int64(ids[k])
            rest = abs(number)
            while True:
                to -= 1
                out[to] = _ZERO + rest % 10
                rest //= 10
                if rest == 0:
                    break
            if number < 0:
                to -= 1
                out[to] = _MINUS
            if k > starts[i]:
                to -= 1
                out[to] = _SPACE


@releasing
def shuffle(words: KeyArray, order: LongArray) -> None:
    """Permute `order` at random (Durstenfeld 1964).

    words: (n,), random bits; the upper half of words[i] chooses which of the first i + 1 elements
        moves to i
    Probabilities of permutations differ by less than n / 2³².
    """
    for i in range(len(order) - 1, 0, -1):
        j = np.int64((words[i] >> np.uint64(32)) * np.uint64(i + 1) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@releasing
def permuted(
    inputs: LongArray, outputs: LongArray, order: LongArray, firsts: LongArray, out: LongArray
) -> int:
    """Permute output lines like the input lines that they come from.

    inputs, outputs: the origins of input and output lines, in the same order; an input has any
        number of outputs
    order: the indices of input lines in their new order
    firsts: (n_inputs + 1,), overwritten with the first output line of each input line
    out: set to the indices of output lines in their new order
    Returns the number of lines written, less than len(outputs) if `outputs` is out of order.

    With the inputs a, b, the outputs a, b, b, and the order 1, 0, `out` is 1, 2, 0.
    """
    n_read = 0
    for i in range(len(inputs)):
        firsts[i] = n_read
        while n_read < len(outputs) and outputs[n_read] == inputs[i]:
            n_read += 1
    firsts[len(inputs)] = n_read
    n_out = 0
    for i in order:
        for line in range(firsts[i], firsts[i + 1]):
            out[n_out] = line
            n_out += 1
    return n_out


@releasing
def draw(first: np.uint64, second: np.uint64, origins: LongArray, out: KeyArray) -> None:
    """Draw a random number for each line from the key (first, second), the line's origin, and its
    index in this origin.

    origins: the input line that each line comes from; equal origins are neighbours
    """
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
    """Join neighbouring lines with the same id to documents. Write the first line of each to `out`;
    return their number.

    n_tokens: (n_fields, n_lines), the tokens of each line
    joins: whether more lines may follow in a document that starts at this line
    limits: the maximum tokens of each field in a document that starts at this line
    ids, starts, sizes: the id of each line; a line without an id is a document of its own
    totals: (n_fields,), overwritten with the tokens of the current document
    """
    n_documents = start = 0
    for i in range(len(starts)):
        may_join = n_documents > 0 and joins[start] and i - start < max_lines
        has_id = sizes[i] > 0 and sizes[i] == sizes[start]
        if not (
            may_join
            and has_id
            and same_bytes(ids, starts[start], ids, starts[i], sizes[i])
            and _fits(n_tokens, totals, i, limits[start])
        ):
            out[n_documents] = start = i
            n_documents += 1
            for field in range(len(totals)):
                totals[field] = 0
        for field in range(len(totals)):
            totals[field] += n_tokens[field, i]
    return n_documents


@releasing
def write_runs(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    bounds: LongArray,
    between: TextArray,
    out: ByteArray,
) -> None:
    """Write the values of each run of lines, with `between` between them. Run r has the lines
    bounds[r]:bounds[r + 1]."""
    n_out = 0
    for run in range(len(bounds) - 1):
        for i in range(bounds[run], bounds[run + 1]):
            if i > bounds[run]:
                n_out = copy_bytes(between, 0, out, n_out, len(between))
            n_out = copy_bytes(data, starts[i], out, n_out, max(sizes[i], 0))
