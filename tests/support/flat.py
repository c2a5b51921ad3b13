"""Flat arrays in the form that compiled loops take."""

from itertools import accumulate, chain

import numpy as np

from volt.kernels.apply_bpe import room_of


def longs(numbers):
    return np.array(numbers, np.int64)


def ints(numbers):
    return np.array(numbers, np.int32)


def read_only(numbers):
    """Return ids as loops read them."""
    result = ints(numbers)
    result.flags.writeable = False
    return result


def flat(rows):
    return list(chain.from_iterable(rows))


def ends_of(rows):
    """Return the end of each row in the concatenation of the rows.

    >>> ends_of(["ab", "", "c"])
    [2, 2, 3]
    """
    return list(accumulate(map(len, rows)))


def used_room(n, *, held):
    """Return working memory for n symbols, filled with the number `held`, as if a loop had used it
    before.
    """
    room = room_of(n)
    for array in (*room.word, *room[1:]):
        array[:] = abs(held) if array.dtype == np.uint8 else held
    return room
