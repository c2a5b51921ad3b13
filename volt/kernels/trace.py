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
from volt.kernels.arrays import LongArray, Words, grown, longs
from volt.kernels.bpe_tables import Merges
from volt.kernels.jit import loop


def trace(
    words: Words, merges: Merges, progress: LongArray
) -> tuple[LongArray, LongArray, LongArray]:
    """Return, by rank, how many replacements are not late; and the keys and numbers of late ones.

    A key is step << 32 | rank. Numbers are weighted by word counts.
    progress: (2,), the loop sets [0] to the number of words; a watching thread sets [1] to stop it
    """
    regular = np.zeros(len(merges.results), np.int64)
    room = room_of(longest(words.ends))
    late, late_counts = trace_each(words, merges, room, np.zeros(1, np.int64), regular, progress)
    return regular, late, late_counts


@loop
def trace_each(
    words: Words,
    merges: Merges,
    room: WordBuffers,
    no_state: LongArray,
    regular: LongArray,
    progress: LongArray,
) -> tuple[LongArray, LongArray]:
    word = room.word
    positions = room.positions
    late = longs(16)
    late_counts = longs(16)
    n_late = start = 0
    for i in range(len(words.ends)):
        end = words.ends[i]
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
                if n_late == len(late):
                    late = grown(late, 2 * n_late)
                    late_counts = grown(late_counts, 2 * n_late)
                late[n_late] = (np.int64(step) << 32) | rank
                late_counts[n_late] = weight
                n_late += 1
            rank, n = next_merge(word, merges, 0.0, no_state, positions)
        progress[0] = i + 1
        if progress[1] != 0:
            break
    return late[:n_late], late_counts[:n_late]
