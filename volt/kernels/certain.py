"""Which of the learned merges other words could not have changed: flat arrays in, a number out.

The merges are made once more, with the tables of `volt.kernels.learn`, in which each pair now counts as many
occurrences more as it may have in the other words. So the heap gives the pair that all words may have most often.
"""

from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import (
    FlagArray,
    IntArray,
    LongArray,
    TokenStrings,
    Words,
    append_text,
    grown_ints,
    int_table,
    pair_key,
)
from volt.kernels.jit import compiled, loop
from volt.kernels.learn import (
    COUNT,
    KEY,
    RIGHT,
    SIZE,
    START,
    _best,
    _first_heap,
    _link_words,
    _list_pairs,
    _merge,
    _outranks,
    _place,
    _push,
    _push_found,
    _roomy,
    _slots_for,
)

_ATOM_BITS = 22


class Others(NamedTuple):
    """How often each two atoms stand side by side in the other words, at most.

    pairs: (n,) int64, code point of the first << 22 | code of the second, in order
    counts: (n,) int64
    rest: how often any other two do
    most: the greatest of them all
    """

    pairs: LongArray
    counts: LongArray
    rest: int
    most: int


@compiled
def _at_seam(left: int, right: int, texts: TokenStrings, final: FlagArray, n_marker: int, others: Others) -> int:
    """Return how often the last atom of one token stands before the first of another in the other words, at most."""
    last, first = texts.chars[texts.starts[left + 1] - 1], texts.chars[texts.starts[right]]  # the left is never final
    is_atom = texts.starts[right + 1] - texts.starts[right] == 1 + n_marker * final[right]
    seam = np.int64(last) << _ATOM_BITS | np.int64(first) << 1 | (final[right] & is_atom)
    low, high = 0, len(others.pairs)
    while low < high:
        middle = (low + high) // 2
        if others.pairs[middle] < seam:
            low = middle + 1
        else:
            high = middle
    return others.counts[low] if low < len(others.pairs) and others.pairs[low] == seam else others.rest


@compiled
def _more(key: int, most: LongArray, texts: TokenStrings, final: FlagArray, n_marker: int, others: Others) -> int:
    """Return how often a pair may occur in the other words: as often as the rarest two atoms side by side within it."""
    left, right = key >> 32, key & RIGHT
    return int(min(_at_seam(left, right, texts, final, n_marker, others), most[left], most[right]))


@compiled
def _add_more(
    first: int, n_pairs: int, pairs: LongArray, most: LongArray, texts: TokenStrings, final: FlagArray, n_marker: int,
    others: Others,
) -> None:  # fmt: skip
    """Let all pairs from `first` on count what they may have in the other words."""
    for pair in range(first, n_pairs):
        pairs[pair, COUNT] += _more(pairs[pair, KEY], most, texts, final, n_marker, others)


def count_certain(
    words: Words, texts: TokenStrings, final_atoms: FlagArray, n_marker: int, merges: IntArray, others: Others,
    progress: LongArray,
) -> int:  # fmt: skip
    """Return how many of the first merges are those of the words and the others together.

    texts, final_atoms, progress: as in `volt.kernels.learn.learn`, for as many merges
    n_marker: how many characters the end-of-word marker has, 0 without one
    merges: (n, 2) int32, as learned from the words
    """
    known = np.zeros((4, len(final_atoms) + len(merges) + 1), np.int64)
    final = np.concatenate([final_atoms, np.zeros(len(merges) + 1, np.uint8)])
    most, merges = np.full(len(final), others.most, np.int64), np.ascontiguousarray(merges, np.int32)
    return int(certain_merges(words, texts, len(final_atoms), final, n_marker, merges, others, most, known, progress))


@loop
def certain_merges(
    words: Words, texts: TokenStrings, n_atoms: int, final: FlagArray, n_marker: int, merges: IntArray, others: Others,
    most: LongArray, known: LongArray, progress: LongArray,
) -> int:  # fmt: skip
    """Return the number.

    final, known: as in `volt.kernels.learn.learn_merges`
    most: (room,) int64, how often each token's text may occur in the other words, at first others.most
    """
    n_done = 0
    at = _link_words(words)
    pairs, n_pairs, pool, pool_end = _list_pairs(at, words.counts, n_atoms)
    slots, result = _slots_for(pairs, n_pairs), int_table(1 << 12, 2)
    _add_more(0, n_pairs, pairs, most, texts, final, n_marker, others)
    heap, size = _first_heap(n_pairs, 1, pairs, texts)

    while n_done < len(merges) and progress[1] == 0:
        pair, size = _best(heap, size, pairs, texts)
        left, right, new = merges[n_done, 0], merges[n_done, 1], n_atoms + n_done
        if pair < 0 or pairs[pair, KEY] != pair_key(left, right):
            break
        most[new] = _more(pairs[pair, KEY], most, texts, final, n_marker, others)
        count = pairs[pair, COUNT] - most[new]
        if count <= others.most:
            break  # pairs that only the other words have may occur as often
        rival, size = _best(heap, size, pairs, texts)
        if rival >= 0:
            if _outranks(rival, pairs[rival, COUNT], pair, count, pairs, texts):
                break
            size = _push(heap, size, rival, pairs, texts)
        texts = append_text(texts, new, left, right)
        final[new] = final[right]
        n_positions, n_before = pairs[pair, SIZE], n_pairs
        positions = pool[pairs[pair, START] : pairs[pair, START] + n_positions]
        result, pairs, slots = _roomy(n_positions, new, n_pairs, result, pairs, slots)
        _, n_found, n_pairs = _merge(
            pair, new, n_done + 1, n_pairs, positions, at, words.counts, result, known, pairs, slots
        )
        pairs[pair, COUNT] = 0  # in the other words it was merged as well
        _add_more(n_before, n_pairs, pairs, most, texts, final, n_marker, others)
        if pool_end + n_found > len(pool):
            pool = grown_ints(pool, 2 * (pool_end + n_found))
        pool_end = _place(result, n_found, pool_end, pool, pairs)
        heap, size = _push_found(result, n_found, 1, heap, size, pairs, texts)
        n_done += 1
        progress[0] = n_done
    return n_done
