"""The words of many lines → numbers of word types, and of each word one of its type's segmentations, drawn by chance.

A word is a run of bytes other than the space. The table of word types grows as words come.

>>> types = Types(np.zeros(8, np.int64), np.zeros(4, np.uint64), np.zeros(5, np.int64), np.zeros(16, np.uint8))
>>> data, numbers, ends = np.frombuffer(b"lo w lo", np.uint8), np.zeros(4, np.int32), np.zeros(1, np.int64)
>>> state = np.zeros(4, np.int64)
>>> find_words(data, np.array([0]), np.array([7]), types, numbers, ends, state), numbers.tolist(), ends.tolist()
(True, [0, 1, 0, 0], [3])
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import FlagArray, IntArray, LongArray
from volt.kernels.columns import mixed
from volt.kernels.compiling import inlined, releasing
from volt.kernels.hashing import slot_of

_SPACE = 0x20
N_TYPES, N_BYTES, N_LINES, N_TOKENS = 0, 1, 2, 3  # what the state counts


class Types(NamedTuple):
    """The word types met so far.

    slots: (a power of two,) int64, the type's number + 1, or 0 while free
    hashes: (room,) uint64, of each type
    starts: (room + 1,) int64, where each type's bytes start, and where the last ends
    bytes: (room,) uint8
    """

    slots: LongArray
    hashes: IntArray
    starts: LongArray
    bytes: FlagArray


@inlined
def is_type(data: IntArray, start: int, size: int, types: Types, number: int) -> bool:
    """Whether a type has these bytes."""
    first = types.starts[number]
    k = 0
    if types.starts[number + 1] - first != size:
        return False
    while k < size and data[start + k] == types.bytes[first + k]:
        k += 1
    return k == size


@inlined
def _number(data: IntArray, start: int, size: int, code: Any, types: Types, state: LongArray) -> int:
    """The number of a word's type, which is a new one if it has not been met."""
    mask = len(types.slots) - 1
    slot = slot_of(code, mask)
    while types.slots[slot] != 0:
        number = types.slots[slot] - 1
        if types.hashes[number] == code and is_type(data, start, size, types, number):
            return int(number)
        slot = (slot + 1) & mask
    number, at = state[N_TYPES], state[N_BYTES]
    for k in range(size):
        types.bytes[at + k] = data[start + k]
    types.slots[slot], types.hashes[number], types.starts[number + 1] = number + 1, code, at + size
    state[N_TYPES], state[N_BYTES] = number + 1, at + size
    return int(number)


@releasing
def find_words(
    data: IntArray, starts: LongArray, sizes: LongArray, types: Types, numbers: IntArray, ends: LongArray,
    state: LongArray,
) -> bool:  # fmt: skip
    """Write the number of each word's type, line after line, from the line on that the state has got to.

    numbers: int32, is written; it has room for every second byte and one more in each line
    ends: (n_lines,) int64, is set to where each line's numbers end
    state: (4,) int64, how many types, bytes of types, lines and words there are; is changed
    Returns whether all lines are done; otherwise the table needs more room.
    """
    for line in range(state[N_LINES], len(starts)):
        size = max(sizes[line], 0)
        n_most = state[N_TYPES] + (size + 1) // 2
        if state[N_BYTES] + size > len(types.bytes) or n_most > len(types.hashes) or 2 * n_most > len(types.slots):
            return False
        place, end = starts[line], starts[line] + size
        while place < end:
            first, code = place, np.uint64(0xCBF29CE484222325)
            while place < end and data[place] != _SPACE:
                code = (code ^ np.uint64(data[place])) * np.uint64(0x100000001B3)  # FNV-1a
                place += 1
            if place > first:
                numbers[state[N_TOKENS]] = _number(data, first, place - first, mixed(code), types, state)
                state[N_TOKENS] += 1
            place += 1
        ends[line] = state[N_TOKENS]
        state[N_LINES] = line + 1
    return True


@releasing
def enter_types(hashes: IntArray, n: int, slots: LongArray) -> None:
    """Enter n types into slots that are free, (a power of two,) int64."""
    mask = len(slots) - 1
    for number in range(n):
        slot = slot_of(hashes[number], mask)
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = number + 1


@releasing
def choose(
    words: IntArray, ends: LongArray, numbers: IntArray, hashes: IntArray, by_type: bool,
    choice_starts: LongArray, bounds: LongArray, out: IntArray,
) -> None:  # fmt: skip
    """Draw one of the choices of its type for each word.

    words: (n_lines,) uint64, random bits for each line
    ends, numbers: as `find_words` writes them
    hashes: of the types
    by_type: whether all words of a type in a line get the same, whatever their place; otherwise each draws by its place
    choice_starts: (n_types + 1,) int64, where each type's choices start; each type has one at least
    bounds: (n_choices,) float64, for each choice, the share of it and those before it; the last is 1
    out: (n_words,) int32, is set to the choices
    """
    start = 0
    for line in range(len(ends)):
        for place in range(start, ends[line]):
            number = numbers[place]
            by = hashes[number] if by_type else np.uint64(place - start + 1) * np.uint64(0x9E3779B97F4A7C15)
            share = float(mixed(words[line] ^ mixed(by)) >> np.uint64(11)) * (1.0 / (1 << 53))
            choice, last = choice_starts[number], choice_starts[number + 1] - 1
            while choice < last and share >= bounds[choice]:
                choice += 1
            out[place] = choice
        start = ends[line]
