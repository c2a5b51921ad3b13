"""Split text into tokens, write tokens back, and number word types and their chosen segmentations.

In a 64-bit mask whose set bits are spaces, a token starts where an unset bit follows a set one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import (
    ByteArray,
    FloatArray,
    IntArray,
    KeyArray,
    LongArray,
    TextArray,
    fraction_of,
    mixed,
    slot_of,
)
from volt.kernels.columns import copy_bytes, prefetch_ahead, same_bytes
from volt.kernels.intrinsics import BLOCK, load64, ones, store64, trailing_zeros, within
from volt.kernels.jit import inlined, releasing

SPACE = 0x20
SPARE = 8  # bytes after the output that may be overwritten
N_TYPES, N_BYTES, N_LINES, N_TOKENS = 0, 1, 2, 3  # indices of the state's counts


class Types(NamedTuple):
    slots: LongArray  # (a power of two,), the type's number + 1, or 0 while free
    hashes: KeyArray  # of uint64
    starts: LongArray  # (room + 1,), where each type's bytes start, and where the last ends
    bytes: ByteArray


@inlined
def read_word(data: ByteArray, place: int, end: int) -> tuple[Any, Any]:
    """Return the end of the word that starts at a position, and its hash (FNV-1a)."""
    code = np.uint64(0xCBF29CE484222325)
    while place < end and data[place] != SPACE:
        code = (code ^ np.uint64(data[place])) * np.uint64(0x100000001B3)
        place += 1
    return place, mixed(code)


@inlined
def type_slot(data: ByteArray, start: int, size: int, code: Any, types: Types) -> int:
    mask = len(types.slots) - 1
    slot = slot_of(code, mask)
    while types.slots[slot] != 0:
        number = types.slots[slot] - 1
        first = types.starts[number]
        has_size = types.hashes[number] == code and types.starts[number + 1] - first == size
        if has_size and same_bytes(data, start, types.bytes, first, size):
            break
        slot = (slot + 1) & mask
    return slot


@inlined
def _number(
    data: ByteArray, start: int, size: int, code: Any, types: Types, state: LongArray
) -> int:
    slot = type_slot(data, start, size, code, types)
    if types.slots[slot] != 0:
        return int(types.slots[slot]) - 1
    number, at = state[N_TYPES], state[N_BYTES]
    for k in range(size):
        types.bytes[at + k] = data[start + k]
    types.slots[slot], types.hashes[number], types.starts[number + 1] = number + 1, code, at + size
    state[N_TYPES], state[N_BYTES] = number + 1, at + size
    return int(number)


@releasing
def find_words(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    types: Types,
    numbers: IntArray,
    ends: LongArray,
    state: LongArray,
) -> bool:
    """Write the number of each word's type, starting at line state[N_LINES]. Return False if the table is too small."""
    for line in range(state[N_LINES], len(starts)):
        size = max(sizes[line], 0)
        n_most = state[N_TYPES] + (size + 1) // 2
        if (
            state[N_BYTES] + size > len(types.bytes)
            or n_most > len(types.hashes)
            or 2 * n_most > len(types.slots)
        ):
            return False
        place, end = starts[line], starts[line] + size
        while place < end:
            first = place
            place, code = read_word(data, first, end)
            if place > first:
                numbers[state[N_TOKENS]] = _number(data, first, place - first, code, types, state)
                state[N_TOKENS] += 1
            place += 1
        ends[line] = state[N_TOKENS]
        state[N_LINES] = line + 1
    return True


@releasing
def enter_types(hashes: KeyArray, n: int, slots: LongArray) -> None:
    mask = len(slots) - 1
    for number in range(n):
        slot = slot_of(hashes[number], mask)
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = number + 1


@releasing
def choose(
    words: KeyArray,
    ends: LongArray,
    numbers: IntArray,
    hashes: KeyArray,
    by_type: bool,
    choice_starts: LongArray,
    bounds: FloatArray,
    out: IntArray,
) -> None:
    """For each word, draw one of the choices of the word's type.

    words: the random bits of each line
    by_type: whether all words of a type in a line get the same choice
    choice_starts: where the choices of each type start;  bounds: the cumulative share of each choice
    """
    start = 0
    for line in range(len(ends)):
        for place in range(start, ends[line]):
            number = numbers[place]
            by = (
                hashes[number]
                if by_type
                else np.uint64(place - start + 1) * np.uint64(0x9E3779B97F4A7C15)
            )
            share = fraction_of(mixed(words[line] ^ mixed(by)))
            choice, last = choice_starts[number], choice_starts[number + 1] - 1
            while choice < last and share >= bounds[choice]:
                choice += 1
            out[place] = choice
        start = ends[line]


@inlined
def spaces(data: ByteArray, place: int, end: int) -> Any:
    """Return a 64-bit mask: bit i is set if the byte at `place + i` is a space or past the end."""
    result, n = ~np.uint64(0), end - place
    if place + BLOCK <= len(data):
        result = within(data, place, SPACE, 0)
        if n < BLOCK:
            result |= ~np.uint64(0) << np.uint64(n)
        return result
    for k in range(n):
        if data[place + k] != SPACE:
            result ^= np.uint64(1) << np.uint64(k)
    return result


@releasing
def count_tokens(data: TextArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        place, end, total, before = starts[i], starts[i] + sizes[i], 0, np.uint64(1)
        while place < end:
            result = spaces(data, place, end)
            total += ones(~result & ((result << np.uint64(1)) | before))
            before = result >> np.uint64(BLOCK - 1)
            place += BLOCK
        out[i] = total


@releasing
def cut_tokens(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    token_starts: LongArray,
    token_sizes: LongArray,
) -> None:
    """Write the start and the size of all tokens, one value after the other."""
    at = 0
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        place, end, before, is_open = starts[i], starts[i] + sizes[i], np.uint64(1), False
        while place < end:
            result = spaces(data, place, end)
            edges = result ^ ((result << np.uint64(1)) | before)
            before = result >> np.uint64(BLOCK - 1)
            while edges != np.uint64(0):
                edge = place + np.int64(trailing_zeros(edges))
                edges &= edges - np.uint64(1)
                if is_open:
                    token_sizes[at] = edge - token_starts[at]
                    at += 1
                else:
                    token_starts[at] = edge
                is_open = not is_open
            place += BLOCK
        if is_open:
            token_sizes[at] = end - token_starts[at]
            at += 1


@inlined
def copy_over(data: ByteArray, start: int, out: IntArray, at: int, size: int) -> None:
    """Copy data[start:start + size] to out[at:]; up to seven bytes after the copy may be overwritten."""
    if start + size + 8 > len(data):
        copy_bytes(data, start, out, at, size)
        return
    done = 0
    while done < size:
        store64(out, at + done, load64(data, start + done))
        done += 8


@releasing
def write_tokens(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    others: TextArray,
    other_starts: LongArray,
    other_sizes: LongArray,
    chosen: LongArray,
    ends: LongArray,
    out: ByteArray,
    out_ends: LongArray,
) -> None:
    """Write the chosen tokens of each value, separated by spaces, one value after the other.

    chosen: the numbers of tokens; a negative number `-1 - i` stands for token i of `others`
    """
    at = place = 0
    for i in range(len(ends)):
        first = place
        while place < ends[i]:
            if place > first:
                out[at] = SPACE
                at += 1
            token = chosen[place]
            if token >= 0:
                copy_over(data, starts[token], out, at, sizes[token])
                at += sizes[token]
            else:
                copy_over(others, other_starts[-1 - token], out, at, other_sizes[-1 - token])
                at += other_sizes[-1 - token]
            place += 1
        out_ends[i] = at
