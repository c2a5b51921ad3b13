"""Open-addressing tables of 64-bit keys, as compiled code sees them: an array of slots that hold entry + 1.

The keys live in an array of their own, in the order in which they came; a slot is 0 while it is free. A table is
never more than half full, so a probe ends soon.

>>> pair_key(3, 5) == 3 * 2**32 + 5, table_size(100)
(True, 256)
"""

import numpy as np

from volt.kernels.compiling import compiled, inlined


@inlined
def pair_key(left: int, right: int) -> int:
    """One key for two token numbers, each below 2**31."""
    return int((np.int64(left) << 32) | np.int64(right))


@inlined
def slot_of(key: int, mask: int) -> int:
    """The slot where the search for a key starts (Fibonacci hashing)."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return int(np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(mask)))


@compiled
def table_size(n_keys: int) -> int:
    """The number of slots, a power of two, of a table for so many keys."""
    n_slots = 8
    while n_slots < 2 * n_keys:
        n_slots *= 2
    return n_slots
