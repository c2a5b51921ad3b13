"""Split text into tokens, write tokens back, and number word types and their chosen segmentations.

In a 64-bit mask whose set bits are spaces, a token starts where an unset bit follows a set one.
"""

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
_U0, _U1 = np.uint64(0), np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
SPARE = 8  # bytes after the output that may be overwritten
N_TYPES, N_BYTES, N_LINES, N_TOKENS = range(4)  # indices of the state's counts


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
def _number(
    data: ByteArray, start: int, size: int, code: Any, types: Types, adds: bool, state: LongArray
) -> int:
    mask = len(types.slots) - 1
    slot = slot_of(code, mask)
    while types.slots[slot] != 0:
        number = types.slots[slot] - 1
        first = types.starts[number]
        has_size = types.hashes[number] == code and types.starts[number + 1] - first == size
        if has_size and same_bytes(data, start, types.bytes, first, size):
            return int(number)
        slot = (slot + 1) & mask
    if not adds:
        return -1
    number = state[N_TYPES]
    end = copy_bytes(data, start, types.bytes, state[N_BYTES], size)
    types.hashes[number] = code
    types.starts[number + 1] = end
    types.slots[slot] = number + 1
    state[N_TYPES] = number + 1
    state[N_BYTES] = end
    return int(number)


@releasing
def find_words(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    types: Types,
    adds: bool,
    numbers: IntArray,
    ends: LongArray,
    state: LongArray,
) -> bool:
    """Write the number of each word's type, starting at line state[N_LINES]. Return False if the table is too small.

    adds: whether new types are added; otherwise, their number is −1
    """
    for line in range(state[N_LINES], len(starts)):
        size = max(sizes[line], 0)
        n_most = state[N_TYPES] + (size + 1) // 2
        if adds and (
            state[N_BYTES] + size > len(types.bytes)
            or n_most > len(types.hashes)
            or 2 * n_most > len(types.slots)
        ):
            return False
        first = starts[line]
        end = first + size
        while first < end:
            place, code = read_word(data, first, end)
            if place > first:
                numbers[state[N_TOKENS]] = _number(
                    data, first, place - first, code, types, adds, state
                )
                state[N_TOKENS] += 1
            first = place + 1
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
            key = np.uint64(place - start + 1) * np.uint64(0x9E3779B97F4A7C15)
            if by_type:
                key = hashes[number]
            share = fraction_of(mixed(words[line] ^ mixed(key)))
            choice = choice_starts[number]
            last = choice_starts[number + 1] - 1
            while choice < last and share >= bounds[choice]:
                choice += 1
            out[place] = choice
        start = ends[line]


@inlined
def spaces(data: ByteArray, place: int, end: int) -> Any:
    """Return a 64-bit mask: bit i is set if the byte at `place + i` is a space or past the end."""
    n = end - place
    if place + BLOCK <= len(data):
        bits = within(data, place, SPACE, 0)
        if n < BLOCK:
            bits |= _ALL << np.uint64(n)
        return bits
    bits = _ALL
    for k in range(n):
        if data[place + k] != SPACE:
            bits ^= _U1 << np.uint64(k)
    return bits


@releasing
def count_tokens(data: TextArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        place = starts[i]
        end = place + sizes[i]
        total = 0
        before = _U1
        while place < end:
            bits = spaces(data, place, end)
            total += ones(~bits & ((bits << _U1) | before))
            before = bits >> np.uint64(BLOCK - 1)
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
        place = starts[i]
        end = place + sizes[i]
        before = _U1
        is_open = False
        while place < end:
            bits = spaces(data, place, end)
            edges = bits ^ ((bits << _U1) | before)
            before = bits >> np.uint64(BLOCK - 1)
            while edges != _U0:
                edge = place + np.int64(trailing_zeros(edges))
                edges &= edges - _U1
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
def copy_over(data: ByteArray, start: int, out: IntArray, at: int, size: int) -> int:
    """Copy data[start:start + size] to out[at:]; up to seven bytes after the copy may be overwritten."""
    if start + size + 8 > len(data):
        return copy_bytes(data, start, out, at, size)
    for done in range(0, size, 8):
        store64(out, at + done, load64(data, start + done))
    return at + size


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
    at = first = 0
    for i in range(len(ends)):
        for place in range(first, ends[i]):
            if place > first:
                out[at] = SPACE
                at += 1
            token = chosen[place]
            if token >= 0:
                at = copy_over(data, starts[token], out, at, sizes[token])
            else:
                other = -1 - token
                at = copy_over(others, other_starts[other], out, at, other_sizes[other])
        first = ends[i]
        out_ends[i] = at
