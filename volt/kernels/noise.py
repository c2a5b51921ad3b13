"""Add noise to the values of many lines: misspelt words, changed punctuation, noisy or reordered tokens.

Each value has its own random generator, and remains valid UTF-8 that is not empty. Value i has the tokens
ends[i - 1]:ends[i].
"""

from typing import Any

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
)
from volt.kernels.columns import copy_bytes, same_bytes
from volt.kernels.intrinsics import load64
from volt.kernels.jit import inlined, releasing
from volt.kernels.string_functions import code_at

SWAP, DROP, INSERT, REPLACE = 0, 1, 2, 3  # kinds of change to a character
MOST_GROWTH = 5  # the output has at most 5 times the bytes: one inserted character of four bytes before each byte
# Bits: the properties of a character that `change_marks` needs.
MARK, INNER, FINAL, WIDE = 1, 2, 4, 8
_SPACE, _STOP = 0x20, 0x2E
_WIDE_STOP = np.frombuffer("。".encode(), np.uint8)
_TOKEN_MARK = np.frombuffer("▁".encode(), np.uint8)
_TRIES = 64


@inlined
def stepped(state: Any) -> Any:
    return state + np.uint64(0x9E3779B97F4A7C15)


@inlined
def fraction(state: Any) -> float:
    return fraction_of(mixed(state))


@inlined
def next_place(data: ByteArray, place: int, end: int) -> int:
    place += 1
    while place < end and data[place] & 0xC0 == 0x80:
        place += 1
    return place


@inlined
def put(data: ByteArray, place: int, end: int, out: IntArray, at: int) -> int:
    for k in range(place, end):
        out[at] = data[k]
        at += 1
    return at


@inlined
def drawn_place(data: ByteArray, begin: int, end: int, place: int, state: Any) -> int:
    for _ in range(_TRIES):
        state = stepped(state)
        drawn = begin + int(fraction(state) * (end - begin))
        if data[drawn] > _SPACE and data[drawn] & 0xC0 != 0x80:
            return drawn
    return place


@inlined
def edited(
    data: ByteArray,
    begin: int,
    place: int,
    end: int,
    kind: int,
    is_bare: bool,
    state: Any,
    out: IntArray,
    at: int,
) -> tuple[int, int]:
    """Write one changed character. Return the next positions to read and to write."""
    after = next_place(data, place, end)
    has_next = after < end and data[after] > _SPACE
    if kind == SWAP and has_next:
        next_end = next_place(data, after, end)
        at = put(data, after, next_end, out, at)
        return next_end, put(data, place, after, out, at)
    if kind == DROP and (has_next or not is_bare):
        return after, at
    if kind >= INSERT:
        other = drawn_place(data, begin, end, place, mixed(state))
        at = put(data, other, next_place(data, other, end), out, at)
    if kind != REPLACE:
        at = put(data, place, after, out, at)
    return after, at


@inlined
def n_spared(powers: FloatArray, limit: float) -> int:
    low = 0
    high = len(powers)
    while low < high:
        middle = (low + high) >> 1
        if powers[middle] > limit:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def n_letters(word: Any) -> int:
    """Count the characters, other than spaces, that start in the eight bytes of a word."""
    ones = np.uint64(0x0101010101010101)
    high = np.uint64(0x8080808080808080)
    low_bits = word & np.uint64(0x7F7F7F7F7F7F7F7F)
    is_big = (low_bits + np.uint64(0x80 - _SPACE - 1) * ones) | word
    is_first = ~word | (word << np.uint64(1))
    return int(((is_big & is_first & high) >> np.uint64(7)) * ones >> np.uint64(56))


@inlined
def after_letters(data: ByteArray, place: int, end: int, n: int) -> int:
    """Return the position of the character after n characters; spaces are not counted."""
    if n >= end - place:
        return end
    while place + 8 <= end:
        n_here = n_letters(load64(data, place))
        if n_here > n:
            break
        place += 8
        n -= n_here
    while place < end:
        if data[place] > _SPACE and data[place] & 0xC0 != 0x80:
            if n == 0:
                return place
            n -= 1
        place += 1
    return end


@releasing
def misspell(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    seeds: KeyArray,
    powers: FloatArray,
    kinds: ByteArray,
    out: ByteArray,
    ends: LongArray,
) -> None:
    """Write values with misspelt words. Spaces stay, and each word keeps at least one character.

    powers: powers[k] is the probability that none of k + 1 characters is hit, so one random number gives the next hit
    kinds: the kinds of change to a character, all equally likely
    """
    at = 0
    for i in range(len(starts)):
        begin = starts[i]
        end = begin + max(sizes[i], 0)
        state = seeds[i]
        first = at
        place = begin
        while place < end:
            state = stepped(state)
            spared = n_spared(powers, fraction(state))
            hit = after_letters(data, place, end, spared)
            at = copy_bytes(data, place, out, at, hit - place)
            place = hit
            if hit < end and spared < len(powers):
                state = stepped(state)
                kind = kinds[int(fraction(state) * len(kinds))]
                is_bare = at == first or out[at - 1] <= _SPACE
                place, at = edited(data, begin, place, end, kind, is_bare, state, out, at)
        ends[i] = at


@inlined
def kind_at(data: ByteArray, place: int, end: int, kinds: ByteArray) -> tuple[int, int]:
    """Return the kind and size of the character at a position; at the end, MARK and 0."""
    if place >= end:
        return MARK, 0
    code, width = code_at(data, place, end)
    return 0 if code < 0 else int(kinds[code]), width


@inlined
def last_place(data: ByteArray, begin: int, end: int) -> int:
    place = end - 1
    while place > begin and data[place] & 0xC0 == 0x80:
        place -= 1
    return place


@inlined
def final_place(data: ByteArray, begin: int, end: int, kinds: ByteArray) -> int:
    while end > begin:
        place = last_place(data, begin, end)
        if kind_at(data, place, end, kinds)[0] & FINAL == 0:
            return end
        end = place
    return end


@inlined
def thinned(
    data: ByteArray,
    begin: int,
    stop: int,
    end: int,
    state: Any,
    drop: float,
    kinds: ByteArray,
    out: IntArray,
    at: int,
) -> int:
    """Write a value up to `stop` without some of its marks. Return the position after it.

    A space beside a dropped mark is dropped, too, if it would otherwise follow another space, or be at an end.
    """
    first = at
    place = begin
    is_inside = False
    while place < stop:
        kind, width = kind_at(data, place, end, kinds)
        after = place + width
        is_dropped = False
        if kind & MARK and not (kind & INNER and is_inside and is_letter(data, after, end, kinds)):
            state = stepped(state)
            is_inside = False
            is_dropped = fraction(state) < drop
        else:
            is_inside = data[place] > _SPACE
        if not is_dropped:
            at = put(data, place, after, out, at)
        elif after < stop and data[after] == _SPACE and (at == first or out[at - 1] == _SPACE):
            after += 1
        place = after
    while at > first and out[at - 1] == _SPACE and data[end - 1] != _SPACE:
        at -= 1
    return at


@inlined
def is_letter(data: ByteArray, place: int, end: int, kinds: ByteArray) -> bool:
    return place < end and data[place] > _SPACE and kind_at(data, place, end, kinds)[0] & MARK == 0


@inlined
def is_blank(out: IntArray, first: int, at: int) -> bool:
    while first < at and out[first] <= _SPACE:
        first += 1
    return first >= at


@releasing
def change_marks(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    seeds: KeyArray,
    drop: float,
    final: float,
    kinds: ByteArray,
    out: ByteArray,
    ends: LongArray,
) -> None:
    """Write values with some punctuation marks removed, or with a full stop added.

    drop: the probability of dropping a mark
    final: the probability of dropping the marks at the end of a value or, if it has none, of adding a full stop
    kinds: (65,536,), code point → bits: MARK, punctuation; INNER, a mark that stays between letters; FINAL, a mark
        that ends a sentence; WIDE, a character after which the added full stop is "。"
    """
    at = 0
    for i in range(len(starts)):
        begin = starts[i]
        end = begin + max(sizes[i], 0)
        state = stepped(seeds[i])
        first = at
        stop = end
        last = MARK
        if fraction(state) < final and begin < end:
            stop = final_place(data, begin, end, kinds)
            last = kind_at(data, last_place(data, begin, end), end, kinds)[0]
        at = thinned(data, begin, stop, end, state, drop, kinds, out, at)
        if is_blank(out, first, at):
            at = copy_bytes(data, begin, out, first, end - begin)
        elif last & WIDE:
            at = put(_WIDE_STOP, 0, len(_WIDE_STOP), out, at)
        elif last & MARK == 0:
            out[at] = _STOP
            at += 1
        ends[i] = at


@inlined
def below(state: Any, n: int) -> Any:
    return np.int64((mixed(state) >> np.uint64(32)) * np.uint64(n) >> np.uint64(32))


@releasing
def count_hits(counts: LongArray, rate: float, seeds: KeyArray, out: LongArray) -> None:
    for i in range(len(counts)):
        state = seeds[i]
        out[i] = 0
        for _ in range(counts[i]):
            state = stepped(state)
            out[i] += int(fraction(state) < rate)


@releasing
def hit_tokens(
    ends: LongArray, numbers: LongArray, n_choices: int, seeds: KeyArray, hits: LongArray
) -> None:
    """Choose numbers[i] tokens of value i; all sets are equally likely (selection sampling, Knuth 3.4.2)."""
    start = 0
    for i in range(len(ends)):
        state = seeds[i]
        left = numbers[i]
        for token in range(start, ends[i]):
            hits[token] = -1
            if left > 0:
                state = stepped(state)
                if below(state, ends[i] - token) < left:
                    state = stepped(state)
                    hits[token] = below(state, n_choices)
                    left -= 1
        start = ends[i]


@releasing
def reorder_tokens(
    ends: LongArray, distance: float, seeds: KeyArray, keys: FloatArray, order: LongArray
) -> None:
    """Sort the tokens of each value, stably, by their place plus a random number from 0 to `distance`."""
    first = 0
    for i in range(len(ends)):
        state = seeds[i]
        for token in range(first, ends[i]):
            state = stepped(state)
            key = token - first + distance * fraction(state)
            at = token
            while at > first and keys[at - 1] > key:
                keys[at] = keys[at - 1]
                order[at] = order[at - 1]
                at -= 1
            keys[at] = key
            order[at] = token
        first = ends[i]


@inlined
def is_less(
    data: ByteArray, start: int, size: int, other: IntArray, other_start: int, other_size: int
) -> bool:
    for k in range(min(size, other_size)):
        if data[start + k] != other[other_start + k]:
            return bool(data[start + k] < other[other_start + k])
    return size < other_size


@inlined
def text_place(
    data: ByteArray,
    start: int,
    size: int,
    others: IntArray,
    starts: LongArray,
    sizes: LongArray,
    skip: int,
    low: int,
    high: int,
) -> int:
    """Find a text among sorted texts whose first `skip` bytes are ignored. Return its index, or −1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if is_less(others, starts[middle] + skip, sizes[middle] - skip, data, start, size):
            low = middle + 1
        else:
            high = middle
    if low < end and not is_less(data, start, size, others, starts[low] + skip, sizes[low] - skip):
        return low
    return -1


@releasing
def toggle_marks(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    hits: LongArray,
    others: TextArray,
    other_starts: LongArray,
    other_sizes: LongArray,
    low: int,
    high: int,
    chosen: LongArray,
) -> None:
    """Choose, for each hit token, the same token with "▁" added or removed, if it is one of the sorted `others`.

    low, high: the range of the others that start with "▁"
    chosen: set to the token's own index or, if it is replaced, to `-1 - index` in `others`
    """
    n_mark = len(_TOKEN_MARK)
    for token in range(len(hits)):
        chosen[token] = token
        if hits[token] < 0:
            continue
        start = starts[token]
        size = sizes[token]
        skip = n_mark
        first = low
        stop = high
        if size >= n_mark and same_bytes(data, start, _TOKEN_MARK, 0, n_mark):
            start += n_mark
            size -= n_mark
            skip = first = 0
            stop = len(other_starts)
        other = text_place(data, start, size, others, other_starts, other_sizes, skip, first, stop)
        if other >= 0:
            chosen[token] = -1 - other
