"""Split text into tokens, write tokens back, number word types, and choose a segmentation of each
word.

A *word* is the text between spaces, and a *token* is a word, too, where lines consist of tokens. A
*type* is a distinct word. Value i is data[starts[i]:starts[i] + sizes[i]]; a missing value has the
size −1.

Loops over tokens examine 64 bytes together: in a mask whose set bits are spaces, a token starts
where an unset bit follows a set one, and ends where a set bit follows an unset one.
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
from volt.kernels.intrinsics import BLOCK, copy_eights, ones, trailing_zeros, within
from volt.kernels.jit import inlined, releasing

SPACE = 0x20
_U0, _U1 = np.uint64(0), np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
SPARE = 8  # bytes after the output that may be overwritten
# Indices of the state of `find_words`: how many types and bytes of types there are, and how many
# lines and tokens are done.
N_TYPES, N_BYTES, N_LINES, N_TOKENS = range(4)


class Types(NamedTuple):
    """A hash table of word types, numbered in order of entry."""

    slots: LongArray  # (a power of two,), the type's number + 1, or 0 while free
    hashes: KeyArray  # (room,) uint64, the hash of each type
    starts: LongArray  # (room + 1,), where each type's bytes start, and where the last ends
    bytes: ByteArray


@inlined
def read_word(data: ByteArray, p: int, end: int) -> tuple[Any, Any]:
    """Return the end of the word that starts at p, and its hash (FNV-1a)."""
    hashed = np.uint64(0xCBF29CE484222325)
    while p < end and data[p] != SPACE:
        hashed = (hashed ^ np.uint64(data[p])) * np.uint64(0x100000001B3)
        p += 1
    return p, mixed(hashed)


@inlined
def _find_type(
    data: ByteArray, start: int, size: int, hashed: Any, types: Types, adds: bool, state: LongArray
) -> int:
    """Return the number of the type with these bytes.

    If there is none, add it if `adds`; otherwise return −1.
    """
    mask = len(types.slots) - 1
    slot = slot_of(hashed, mask)
    while types.slots[slot] != 0:
        number = types.slots[slot] - 1
        first = types.starts[number]
        has_size = types.hashes[number] == hashed and types.starts[number + 1] - first == size
        if has_size and same_bytes(data, start, types.bytes, first, size):
            return int(number)
        slot = (slot + 1) & mask
    if not adds:
        return -1
    number = state[N_TYPES]
    end = copy_bytes(data, start, types.bytes, state[N_BYTES], size)
    types.hashes[number] = hashed
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
    """Write the number of each word's type, starting at line state[N_LINES]. Return False if the
    table is too small.

    adds: whether new types are added; otherwise, their number is −1
    numbers: (n_words,), set to the number of each word's type
    ends: (n_lines,), set to where each line's words end in `numbers`
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
            word_end, hashed = read_word(data, first, end)
            if word_end > first:
                number = _find_type(data, first, word_end - first, hashed, types, adds, state)
                numbers[state[N_TOKENS]] = number
                state[N_TOKENS] += 1
            first = word_end + 1
        ends[line] = state[N_TOKENS]
        state[N_LINES] = line + 1
    return True


@releasing
def enter_types(hashes: KeyArray, n: int, slots: LongArray) -> None:
    """Enter the first n types into empty slots."""
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
    """Draw one of the choices of each word's type, such as one of its segmentations.

    words: the random bits of each line
    ends, numbers: the words of each line, as `find_words` writes them
    by_type: whether all words of a type in a line get the same choice
    choice_starts: (n_types + 1,), where the choices of each type start
    bounds: (n_choices,), the cumulative share of each choice of its type: 0.2 and 1.0 for the
        shares 0.2 and 0.8
    out: set to the number of each word's choice
    """
    start = 0
    for line in range(len(ends)):
        for i in range(start, ends[line]):
            number = numbers[i]
            key = np.uint64(i - start + 1) * np.uint64(0x9E3779B97F4A7C15)
            if by_type:
                key = hashes[number]
            share = fraction_of(mixed(words[line] ^ mixed(key)))
            choice = choice_starts[number]
            last = choice_starts[number + 1] - 1
            while choice < last and share >= bounds[choice]:
                choice += 1
            out[i] = choice
        start = ends[line]


@inlined
def find_spaces(data: ByteArray, p: int, end: int) -> Any:
    """Return a 64-bit mask: bit i is set if the byte at p + i is a space or past the end."""
    n = end - p
    if p + BLOCK <= len(data):
        mask = within(data, p, SPACE, 0)
        if n < BLOCK:
            mask |= _ALL << np.uint64(n)
        return mask
    mask = _ALL
    for k in range(n):
        if data[p + k] != SPACE:
            mask ^= _U1 << np.uint64(k)
    return mask


@releasing
def count_tokens(data: TextArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        p = starts[i]
        end = p + sizes[i]
        n_tokens = 0
        space_before = _U1
        while p < end:
            mask = find_spaces(data, p, end)
            n_tokens += ones(~mask & ((mask << _U1) | space_before))
            space_before = mask >> np.uint64(BLOCK - 1)
            p += BLOCK
        out[i] = n_tokens


@releasing
def cut_tokens(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    token_starts: LongArray,
    token_sizes: LongArray,
) -> None:
    """Write the start and the size of all tokens, one value after the other."""
    n_out = 0
    for i in range(len(starts)):
        prefetch_ahead(data, starts, i)
        p = starts[i]
        end = p + sizes[i]
        space_before = _U1
        is_within_token = False
        while p < end:
            mask = find_spaces(data, p, end)
            edges = mask ^ ((mask << _U1) | space_before)  # set where a token starts or ends
            space_before = mask >> np.uint64(BLOCK - 1)
            while edges != _U0:
                edge = p + np.int64(trailing_zeros(edges))
                edges &= edges - _U1
                if is_within_token:
                    token_sizes[n_out] = edge - token_starts[n_out]
                    n_out += 1
                else:
                    token_starts[n_out] = edge
                is_within_token = not is_within_token
            p += BLOCK
        if is_within_token:
            token_sizes[n_out] = end - token_starts[n_out]
            n_out += 1


@inlined
def copy_over(data: ByteArray, start: int, out: IntArray, n_out: int, size: int) -> int:
    """Copy data[start:start + size] to out[n_out:]. Return the new n_out. Seven more bytes may be
    overwritten."""
    if start + size + 8 > len(data):
        return copy_bytes(data, start, out, n_out, size)
    copy_eights(data, start, size, out, n_out)
    return n_out + size


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
    ends: value i consists of the tokens chosen[ends[i - 1]:ends[i]]
    out_ends: set to where each value ends in `out`
    """
    n_out = first = 0
    for i in range(len(ends)):
        for k in range(first, ends[i]):
            if k > first:
                out[n_out] = SPACE
                n_out += 1
            token = chosen[k]
            if token >= 0:
                n_out = copy_over(data, starts[token], out, n_out, sizes[token])
            else:
                other = -1 - token
                n_out = copy_over(others, other_starts[other], out, n_out, other_sizes[other])
        first = ends[i]
        out_ends[i] = n_out
