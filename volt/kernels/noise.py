"""Add noise to the values of many lines: misspelt words, changed punctuation, noisy or reordered
tokens.

Value i is data[starts[i]:starts[i] + sizes[i]], UTF-8. The tokens of value i are those with the
indices ends[i - 1]:ends[i]. Noise leaves a value valid UTF-8, and does not empty it. In all loops,
`p` is a position in `data`, and `n_out` is the number of bytes written to `out`.

Each value has its own random generator, SplitMix64 (Steele et al. 2014), which starts at seeds[i]:
each number is `mixed` from a state, and the next state is `next_state` of it. So the noise of a
value does not depend on other values.
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
)
from volt.kernels.columns import copy_bytes, same_bytes
from volt.kernels.intrinsics import load64
from volt.kernels.jit import inlined, releasing
from volt.kernels.string_functions import code_at

SWAP, DROP, INSERT, REPLACE = 0, 1, 2, 3  # how `misspell` changes a character
MOST_GROWTH = 5  # the output has at most 5 times the bytes: one inserted character of four bytes before each byte
# Properties of a character that `change_marks` needs, each a bit.
MARK, INNER, FINAL, WIDE = 1, 2, 4, 8
# random positions, one of which should be the first byte of a character that is not a space
_N_TRIES = 64
_SPACE = 0x20
_FULL_STOP = 0x2E
_WIDE_FULL_STOP = np.frombuffer("。".encode(), np.uint8)
_TOKEN_MARK = np.frombuffer("▁".encode(), np.uint8)


class Value(NamedTuple):
    data: ByteArray
    start: int
    end: int


@inlined
def next_state(state: Any) -> Any:
    return state + np.uint64(0x9E3779B97F4A7C15)


@inlined
def fraction(state: Any) -> float:
    """Return the random number in [0, 1) of a state."""
    return fraction_of(mixed(state))


# Misspelt words


@releasing
def misspell(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    seeds: KeyArray,
    powers: FloatArray,
    changes: ByteArray,
    out: ByteArray,
    ends: LongArray,
) -> None:
    """Write values in which each character, other than a space, is changed with the probability
    `rate`.

    Spaces stay, and each word keeps at least one character. One random number gives the number of
    characters before the next change (see `count_unchanged`), so that these are copied together.

    powers: powers[k] = (1 - rate)^(k + 1), the probability that none of k + 1 characters is changed
    changes: some of SWAP, DROP, INSERT and REPLACE, which are equally likely
    """
    n_out = 0
    for i in range(len(starts)):
        value = Value(data, starts[i], starts[i] + max(sizes[i], 0))
        state = seeds[i]
        out_start = n_out
        p = value.start
        while p < value.end:
            state = next_state(state)
            n_unchanged = count_unchanged(powers, fraction(state))
            changed = skip_characters(value, p, n_unchanged)
            n_out = copy_bytes(data, p, out, n_out, changed - p)
            p = changed
            if p < value.end and n_unchanged < len(powers):
                state = next_state(state)
                change = changes[int(fraction(state) * len(changes))]
                starts_word = n_out == out_start or out[n_out - 1] <= _SPACE
                p, n_out = change_character(value, p, change, starts_word, state, out, n_out)
        ends[i] = n_out


@inlined
def count_unchanged(powers: FloatArray, number: float) -> int:
    """Return how many powers exceed a random number: k with the probability (1 - rate)^k · rate.

    For a rate of 0.5, the powers are 0.5, 0.25, …; the number 0.3 means that 1 character precedes
    the next change.
    """
    low = 0
    high = len(powers)
    while low < high:
        middle = (low + high) >> 1
        if powers[middle] > number:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def skip_characters(value: Value, p: int, n: int) -> int:
    """Return the position of the character after n characters, not counting spaces."""
    data, _, end = value
    if n >= end - p:
        return end
    while p + 8 <= end:
        n_starts = count_characters(load64(data, p))
        if n_starts > n:
            break
        p += 8
        n -= n_starts
    while p < end:
        if data[p] > _SPACE and data[p] & 0xC0 != 0x80:
            if n == 0:
                return p
            n -= 1
        p += 1
    return end


@inlined
def count_characters(word: Any) -> int:
    """Count the characters, other than spaces, that start in the eight bytes of a word.

    The high bit of a byte of `is_above_space` is set if the byte is above 0x20: (byte & 0x7F) +
    0x5F reaches 0x80 from 0x21 on. The high bit of `is_first` is set unless the byte is 0b10……,
    which continues a character.
    """
    ones = np.uint64(0x0101010101010101)
    high_bits = np.uint64(0x8080808080808080)
    low_bits = word & np.uint64(0x7F7F7F7F7F7F7F7F)
    is_above_space = (low_bits + np.uint64(0x80 - _SPACE - 1) * ones) | word
    is_first = ~word | (word << np.uint64(1))
    return int(((is_above_space & is_first & high_bits) >> np.uint64(7)) * ones >> np.uint64(56))


@inlined
def change_character(
    value: Value, p: int, change: int, starts_word: bool, state: Any, out: IntArray, n_out: int
) -> tuple[int, int]:
    """Write the character at p with one change. Return the next positions to read and to write.

        SWAP ab → ba        DROP ab → b        INSERT ab → xab        REPLACE ab → xb

    x is a random character of the value. A character before a space is not swapped, and is not
    dropped if it is the only one of its word.
    """
    data, _, end = value
    after = next_character(data, p, end)
    has_next = after < end and data[after] > _SPACE
    if change == SWAP and has_next:
        next_end = next_character(data, after, end)
        n_out = copy_bytes(data, after, out, n_out, next_end - after)
        return next_end, copy_bytes(data, p, out, n_out, after - p)
    if change == DROP and (has_next or not starts_word):
        return after, n_out
    if change >= INSERT:
        other = choose_character(value, p, mixed(state))
        n_out = copy_bytes(data, other, out, n_out, next_character(data, other, end) - other)
    if change != REPLACE:
        n_out = copy_bytes(data, p, out, n_out, after - p)
    return after, n_out


@inlined
def choose_character(value: Value, default: int, state: Any) -> int:
    """Return the position of a random character that is not a space; `default` if no try hits
    one."""
    data, start, end = value
    for _ in range(_N_TRIES):
        state = next_state(state)
        p = start + int(fraction(state) * (end - start))
        if data[p] > _SPACE and data[p] & 0xC0 != 0x80:
            return p
    return default


@inlined
def next_character(data: ByteArray, p: int, end: int) -> int:
    p += 1
    while p < end and data[p] & 0xC0 == 0x80:
        p += 1
    return p


# Punctuation


@releasing
def change_marks(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    seeds: KeyArray,
    drop: float,
    final: float,
    properties: ByteArray,
    out: ByteArray,
    ends: LongArray,
) -> None:
    """Write values with some punctuation marks removed, or with a full stop added.

    drop: the probability of dropping a mark
    final: the probability of dropping the marks at the end of a value or, if it has none, of adding
        a full stop
    properties: (65,536,), code point → bits: MARK, punctuation; INNER, a mark that stays between
        letters; FINAL, a mark that ends a sentence; WIDE, a character after which the added full
        stop is "。"
    """
    n_out = 0
    for i in range(len(starts)):
        value = Value(data, starts[i], starts[i] + max(sizes[i], 0))
        state = next_state(seeds[i])
        out_start = n_out
        stop = value.end
        last = MARK
        if fraction(state) < final and value.start < value.end:
            stop = strip_final_marks(value, properties)
            last_p = last_character(data, value.start, value.end)
            last = properties_at(data, last_p, value.end, properties)[0]
        n_out = drop_marks(value, stop, state, drop, properties, out, n_out)
        if is_blank(out, out_start, n_out):
            n_out = copy_bytes(data, value.start, out, out_start, value.end - value.start)
        elif last & WIDE:
            n_out = copy_bytes(_WIDE_FULL_STOP, 0, out, n_out, len(_WIDE_FULL_STOP))
        elif last & MARK == 0:
            out[n_out] = _FULL_STOP
            n_out += 1
        ends[i] = n_out


@inlined
def drop_marks(
    value: Value,
    stop: int,
    state: Any,
    drop: float,
    properties: ByteArray,
    out: IntArray,
    n_out: int,
) -> int:
    """Write a value up to the position `stop` without some of its marks. Return the new n_out.

    A space next to a dropped mark is dropped, too, if it would otherwise follow another space, or
    be at an end.
    """
    data, p, end = value
    out_start = n_out
    follows_letter = False
    while p < stop:
        bits, width = properties_at(data, p, end, properties)
        after = p + width
        is_dropped = False
        if bits & MARK and not (
            bits & INNER and follows_letter and is_letter(data, after, end, properties)
        ):
            state = next_state(state)
            follows_letter = False
            is_dropped = fraction(state) < drop
        else:
            follows_letter = data[p] > _SPACE
        if not is_dropped:
            for k in range(p, after):  # faster than copy_bytes for one character
                out[n_out] = data[k]
                n_out += 1
        elif (
            after < stop
            and data[after] == _SPACE
            and (n_out == out_start or out[n_out - 1] == _SPACE)
        ):
            after += 1
        p = after
    while n_out > out_start and out[n_out - 1] == _SPACE and data[end - 1] != _SPACE:
        n_out -= 1
    return n_out


@inlined
def strip_final_marks(value: Value, properties: ByteArray) -> int:
    """Return the end of a value without the FINAL marks at its end."""
    data, start, end = value
    while end > start:
        p = last_character(data, start, end)
        if properties_at(data, p, end, properties)[0] & FINAL == 0:
            return end
        end = p
    return end


@inlined
def last_character(data: ByteArray, start: int, end: int) -> int:
    p = end - 1
    while p > start and data[p] & 0xC0 == 0x80:
        p -= 1
    return p


@inlined
def is_letter(data: ByteArray, p: int, end: int, properties: ByteArray) -> bool:
    """Check for a character that is neither a mark nor a space."""
    return p < end and data[p] > _SPACE and properties_at(data, p, end, properties)[0] & MARK == 0


@inlined
def properties_at(data: ByteArray, p: int, end: int, properties: ByteArray) -> tuple[int, int]:
    """Return the properties and the size in bytes of the character at p; at the end, MARK and 0."""
    if p >= end:
        return MARK, 0
    code, width = code_at(data, p, end)
    return 0 if code < 0 else int(properties[code]), width


@inlined
def is_blank(out: IntArray, start: int, end: int) -> bool:
    while start < end and out[start] <= _SPACE:
        start += 1
    return start >= end


# Tokens


@releasing
def count_hits(n_tokens: LongArray, rate: float, seeds: KeyArray, n_hits: LongArray) -> None:
    """Draw how many of each value's tokens are hit, if each is hit with the probability `rate`."""
    for i in range(len(n_tokens)):
        state = seeds[i]
        n_hits[i] = 0
        for _ in range(n_tokens[i]):
            state = next_state(state)
            n_hits[i] += int(fraction(state) < rate)


@releasing
def hit_tokens(
    ends: LongArray, n_hits: LongArray, n_choices: int, seeds: KeyArray, choices: LongArray
) -> None:
    """Choose n_hits[i] tokens of value i; all sets are equally likely (selection sampling, Knuth
    3.4.2).

    A token is chosen with the probability (hits that remain) / (tokens that remain).

    choices: (n_tokens,), set to a random number below n_choices for each chosen token, and to −1
        for others
    """
    start = 0
    for i in range(len(ends)):
        state = seeds[i]
        n_remaining = n_hits[i]
        for token in range(start, ends[i]):
            choices[token] = -1
            if n_remaining > 0:
                state = next_state(state)
                if number_below(ends[i] - token, state) < n_remaining:
                    state = next_state(state)
                    choices[token] = number_below(n_choices, state)
                    n_remaining -= 1
        start = ends[i]


@inlined
def number_below(n: int, state: Any) -> Any:
    return np.int64((mixed(state) >> np.uint64(32)) * np.uint64(n) >> np.uint64(32))


@releasing
def reorder_tokens(
    ends: LongArray, distance: float, seeds: KeyArray, keys: FloatArray, order: LongArray
) -> None:
    """Sort the tokens of each value, stably, by their index plus a random number from 0 to
    `distance`.

    keys: (n_tokens,), overwritten
    order: (n_tokens,), set to the tokens' indices in their new order
    """
    first = 0
    for i in range(len(ends)):
        state = seeds[i]
        for token in range(first, ends[i]):
            state = next_state(state)
            key = token - first + distance * fraction(state)
            # Insertion sort: few tokens move far.
            k = token
            while k > first and keys[k - 1] > key:
                keys[k] = keys[k - 1]
                order[k] = order[k - 1]
                k -= 1
            keys[k] = key
            order[k] = token
        first = ends[i]


@releasing
def toggle_marks(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    choices: LongArray,
    others: TextArray,
    other_starts: LongArray,
    other_sizes: LongArray,
    first_marked: int,
    end_marked: int,
    chosen: LongArray,
) -> None:
    """Replace each hit token by the same token with "▁" added or removed, if it is one of the
    sorted texts `others`.

    choices: (n_tokens,), −1 for tokens that are not hit, as `hit_tokens` writes them
    first_marked, end_marked: the range of the others that start with "▁"
    chosen: (n_tokens,), set to the token's own index or, if it is replaced, to `-1 - index` in
        `others`
    """
    n_mark = len(_TOKEN_MARK)
    for token in range(len(choices)):
        chosen[token] = token
        if choices[token] < 0:
            continue
        start = starts[token]
        size = sizes[token]
        # Compare the token with the marked others after their mark; or the token after its mark
        # with all others.
        n_skipped = n_mark
        low = first_marked
        high = end_marked
        if size >= n_mark and same_bytes(data, start, _TOKEN_MARK, 0, n_mark):
            start += n_mark
            size -= n_mark
            n_skipped = low = 0
            high = len(other_starts)
        other = find_text(
            data, start, size, others, other_starts, other_sizes, n_skipped, low, high
        )
        if other >= 0:
            chosen[token] = -1 - other


@inlined
def find_text(
    data: ByteArray,
    start: int,
    size: int,
    others: IntArray,
    other_starts: LongArray,
    other_sizes: LongArray,
    n_skipped: int,
    low: int,
    high: int,
) -> int:
    """Find a text among the sorted texts low:high, whose first `n_skipped` bytes do not count.
    Return its index, or −1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        other = other_starts[middle] + n_skipped
        if is_less(others, other, other_sizes[middle] - n_skipped, data, start, size):
            low = middle + 1
        else:
            high = middle
    if low == end:
        return -1
    other = other_starts[low] + n_skipped
    if is_less(data, start, size, others, other, other_sizes[low] - n_skipped):
        return -1
    return low


@inlined
def is_less(
    data: ByteArray, start: int, size: int, other: IntArray, other_start: int, other_size: int
) -> bool:
    for k in range(min(size, other_size)):
        if data[start + k] != other[other_start + k]:
            return bool(data[start + k] < other[other_start + k])
    return size < other_size
