"""Find when each replacement happens if merges are added one after another.

Each word is encoded once, with all merges. Its replacements have the ranks r1, r2, …, in this
order. Replacement k needs all merges up to the highest of r1, …, rk, so it happens at the step

    max(r1, …, rk)

A replacement is *late* if this step is above its own rank: a merge of a lower rank applies only
after one of a higher rank.
"""

from __future__ import annotations

import numpy as np

from volt.kernels.apply_bpe import (
    WordBuffers,
    apply_merge,
    load_word,
    longest,
    next_merge,
    room_of,
)
from volt.kernels.arrays import LongArray, LongTable, Words
from volt.kernels.bpe_tables import Merges
from volt.kernels.jit import releasing


def trace(
    words: Words, merges: Merges, progress: LongArray
) -> tuple[LongArray, LongArray, LongArray]:
    """Return, by rank, how many replacements are not late; and the keys and numbers of late ones.

    A key is step << 32 | rank. Numbers are weighted by word counts.
    progress: (2,), the loop sets [0] to the number of words; a watching thread sets [1] to stop it
    """
    regular = np.zeros(len(merges.results), np.int64)
    widest = longest(words.ends)
    room = room_of(widest)
    no_state = np.zeros(1, np.int64)
    late = np.empty((widest + 16, 2), np.int64)
    n_late = trace_each(words, merges, room, no_state, regular, progress, late, 0)
    while progress[0] < len(words.ends) and progress[1] == 0:
        late = np.concatenate([late, late])
        n_late = trace_each(words, merges, room, no_state, regular, progress, late, n_late)
    return regular, late[:n_late, 0].copy(), late[:n_late, 1].copy()


@releasing
def trace_each(
    words: Words,
    merges: Merges,
    room: WordBuffers,
    no_state: LongArray,
    regular: LongArray,
    progress: LongArray,
    late: LongTable,
    n_late: int,
) -> int:
    """Add up replacements, from word progress[0] on, while `late` has room for a word's. Return the
    number of late ones.

    late: (n, 2), keys and numbers
    """
    word = room.word
    positions = room.positions
    first = progress[0]
    start = words.ends[first - 1] if first > 0 else 0
    for i in range(first, len(words.ends)):
        end = words.ends[i]
        if n_late + end - start > len(late):
            break
        load_word(words.symbols[start:end], word, merges)
        start = end
        step = 0
        rank, n = next_merge(word, merges, 0.0, no_state, positions)
        while n > 0:
            weight = apply_merge(rank, positions[:n], word, merges) * words.counts[i]
            step = max(step, rank)
            if step == rank:
                regular[rank] += weight
            else:
                late[n_late, 0] = (np.int64(step) << 32) | rank
                late[n_late, 1] = weight
                n_late += 1
            rank, n = next_merge(word, merges, 0.0, no_state, positions)
        progress[0] = i + 1
        if progress[1] != 0:
            break
    return n_late
