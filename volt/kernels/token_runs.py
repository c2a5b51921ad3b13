"""Count adjacent tokens, and the runs of tokens between rare pairs.

    stretches 5 7, 5 7 9, 7   pairs: (5, 7) twice, (7, 9) once
                              runs between pairs that occur less than twice: 5 7 twice

A *sketch* has a count for each hash value of a pair. Pairs with equal hash values share a count, so
a pair occurs as often as the sketch says, or less often. A sketch needs little memory, however many
pairs a text has. A run of a single token is not counted.
"""

from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, LongArray, ShortArray, mixed, slot_of
from volt.kernels.jit import borrowing, inlined, releasing

MOST = 0xFFFF  # the highest count of a sketch; it stands for this count and all higher ones


class RunTable(NamedTuple):
    """Distinct runs, in order of entry, and room for further ones."""

    slots: IntArray  # a hash table: the run's number + 1, or 0; the length is a power of two
    hashes: LongArray  # (n,), the hash of each run
    ends: LongArray  # (n,), where its tokens end in `tokens`
    counts: LongArray  # (n,), how often it occurs
    tokens: IntArray  # the tokens of all runs


@inlined
def _pair_slot(left: int, right: int, sketch: ShortArray) -> int:
    return slot_of(int(np.int64(left) << 32 | np.int64(right)), len(sketch) - 1)


@releasing
def count_pairs(
    tokens: IntArray,
    ends: LongArray,
    opens_word: ByteArray,
    sketch: ShortArray,
    counts: LongArray,
) -> int:
    """Add the tokens of stretches to the counts, and their pairs to the sketch. Return how many
    pairs have a space in between.

    tokens: the tokens of all stretches; numbers below 0 are unknown characters
    ends: (n_stretches,), where the tokens of each stretch end
    opens_word: (n_tokens,), 1 for each token that starts with a space
    sketch: (n,), counts of pairs; n is a power of two
    counts: (n_tokens,), how often each token occurs
    """
    n_spaces = 0
    start = 0
    for end in ends:
        left = -1
        for p in range(start, end):
            right = tokens[p]
            if right >= 0:
                counts[right] += 1
                if left >= 0:
                    slot = _pair_slot(left, right, sketch)
                    if sketch[slot] < MOST:
                        sketch[slot] += 1
                    n_spaces += opens_word[right]
            left = right
        start = end
    return n_spaces


@releasing
def count_runs(
    tokens: IntArray,
    ends: LongArray,
    sketch: ShortArray,
    min_count: int,
    runs: RunTable,
    n_runs: int,
) -> int:
    """Add the runs of stretches to a table. Return how many distinct runs it has.

    min_count: a run contains only pairs whose count in the sketch is at least this number
    n_runs: the number of runs before; the table has room for all runs of the stretches
    """
    start = 0
    for end in ends:
        first = start
        for p in range(start, end):
            is_last = p + 1 == end or tokens[p] < 0 or tokens[p + 1] < 0
            if is_last or sketch[_pair_slot(tokens[p], tokens[p + 1], sketch)] < min_count:
                if p > first:
                    n_runs = _add_run(tokens, first, p + 1, runs, n_runs)
                first = p + 1
        start = end
    return n_runs


@borrowing
def _add_run(tokens: IntArray, start: int, end: int, runs: RunTable, n_runs: int) -> int:
    word = np.uint64(end - start)
    for p in range(start, end):
        word = mixed(word ^ np.uint64(tokens[p]))
    run_hash = np.int64(word)
    mask = len(runs.slots) - 1
    slot = run_hash & mask
    while runs.slots[slot] != 0:
        run = runs.slots[slot] - 1
        if runs.hashes[run] == run_hash and _is_run(tokens, start, end, runs, run):
            runs.counts[run] += 1
            return n_runs
        slot = (slot + 1) & mask

    at = _run_start(runs, n_runs)
    for p in range(start, end):
        runs.tokens[at + p - start] = tokens[p]
    runs.slots[slot] = n_runs + 1
    runs.hashes[n_runs] = run_hash
    runs.ends[n_runs] = at + end - start
    runs.counts[n_runs] = 1
    return n_runs + 1


@inlined
def _run_start(runs: RunTable, run: int) -> int:
    if run == 0:
        return 0
    return int(runs.ends[run - 1])


@inlined
def _is_run(tokens: IntArray, start: int, end: int, runs: RunTable, run: int) -> bool:
    at = _run_start(runs, run)
    if runs.ends[run] - at != end - start:
        return False
    for p in range(start, end):
        if runs.tokens[at + p - start] != tokens[p]:
            return False
    return True


@releasing
def enter_runs(slots: IntArray, hashes: LongArray, n_runs: int) -> None:
    """Enter the runs into an empty hash table."""
    mask = len(slots) - 1
    for run in range(n_runs):
        slot = hashes[run] & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = run + 1


@releasing
def count_values(sketch: ShortArray, histogram: LongArray) -> None:
    """Count how often each value occurs in a sketch. histogram: (MOST + 1,), zeros before"""
    for value in sketch:
        histogram[value] += 1
