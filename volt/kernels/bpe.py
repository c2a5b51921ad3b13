"""Learning BPE merges from distinct words: flat arrays in, flat arrays out.

    best pair = greatest (count, left string, right string), as in subword-nmt

The symbols of all words lie one after the other, linked within each word. Each pair has a list of the positions where
it occurs: one stretch of a common pool, written when the later of its two tokens was made, so a merge walks over
neighbouring memory and touches nothing but its own occurrences. Positions are not taken out of a list when another
merge destroys them; they are recognised when they are met. The best pair comes from a heap that is refreshed lazily:
an entry whose count has fallen since it was pushed is pushed again.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from volt.kernels.hashing import IntArray, LongArray, grown, pair_key, slot_of, table_size
from volt.kernels.texts import Texts, append_text, compare_texts, ends_with, intern_text

FlagArray = NDArray[Any]  # of uint8
SYMBOL, FOLLOWS, PRECEDES, WORD = 0, 1, 2, 3  # columns of the (n_symbols, 4) table of positions
RIGHT = 0xFFFFFFFF  # the low half of a pair key

# Columns of the (room, 6) int64 table of pairs: key (left << 32 | right), count, the count last pushed to the heap
# (0: none), where its positions start in the pool and how many there are, whether it has been merged.
KEY, COUNT, PUSHED, START, SIZE, MERGED = 0, 1, 2, 3, 4, 5
# The heap is a (room, 2) int64 table: the COUNT that a pair had when it was pushed, in the same column, and the pair.
PAIR = 0
# The occurrences that one merge makes are a (room, 2) int32 table: pair and position.
POSITION = 1


class Words(NamedTuple):
    """The distinct words. symbols: (n_symbols,) int32 atoms, word after word; ends: (n_words,) int64, where each word's
    symbols end; counts: (n_words,) int64, > 0."""

    symbols: IntArray
    ends: LongArray
    counts: LongArray


@njit(cache=True)
def _outranks(pair: int, count: int, other: int, other_count: int, pairs: LongArray, texts: Texts) -> bool:
    """Whether `pair` comes before `other`: by count, then by the left string, then by the right one."""
    if count != other_count:
        return count > other_count
    key, other_key = pairs[pair, KEY], pairs[other, KEY]
    order = compare_texts(texts, key >> 32, other_key >> 32)
    if order == 0:
        order = compare_texts(texts, key & RIGHT, other_key & RIGHT)
    return order > 0


@njit(cache=True)
def _push(heap: LongArray, size: int, pair: int, pairs: LongArray, texts: Texts) -> int:
    """Add a pair, with its present count, to a heap of `size` entries that has room for it; the new size."""
    i, count = size, pairs[pair, COUNT]
    while i > 0:
        parent = (i - 1) >> 1
        if not _outranks(pair, count, heap[parent, PAIR], heap[parent, COUNT], pairs, texts):
            break
        heap[i, PAIR], heap[i, COUNT] = heap[parent, PAIR], heap[parent, COUNT]
        i = parent
    heap[i, PAIR], heap[i, COUNT] = pair, count
    pairs[pair, PUSHED] = count
    return size + 1


@njit(cache=True)
def _pop(heap: LongArray, size: int, pairs: LongArray, texts: Texts) -> int:
    """Remove the first of a heap's `size` entries; the new size."""
    pair, count = heap[size - 1, PAIR], heap[size - 1, COUNT]
    i, child = 0, 1
    while child < size - 1:
        if child + 2 < size and _outranks(
            heap[child + 1, PAIR], heap[child + 1, COUNT], heap[child, PAIR], heap[child, COUNT], pairs, texts
        ):
            child += 1
        if not _outranks(heap[child, PAIR], heap[child, COUNT], pair, count, pairs, texts):
            break
        heap[i, PAIR], heap[i, COUNT] = heap[child, PAIR], heap[child, COUNT]
        i, child = child, 2 * child + 1
    heap[i, PAIR], heap[i, COUNT] = pair, count
    return size - 1


@njit(cache=True)
def _best(heap: LongArray, size: int, pairs: LongArray, texts: Texts) -> tuple[int, int]:
    """The best pair, taken off the heap (−1: none is left), and the heap's new size. Outdated entries are refreshed."""
    while size > 0:
        pair, count = heap[0, PAIR], heap[0, COUNT]
        size = _pop(heap, size, pairs, texts)
        if count != pairs[pair, PUSHED]:
            continue  # pushed again since, with a higher count
        pairs[pair, PUSHED] = pairs[pair, COUNT]
        if count == pairs[pair, COUNT]:
            return pair, size
        if pairs[pair, COUNT] > 0:
            size = _push(heap, size, pair, pairs, texts)
    return -1, size


@njit(cache=True)
def _link_words(words: Words) -> IntArray:
    """The table of positions, (n_symbols, 4): symbol, next and previous position in the word (−1: none), word."""
    at = np.empty((len(words.symbols), 4), np.int32)
    start = 0
    for word, end in enumerate(words.ends):
        for p in range(start, end):
            at[p, SYMBOL], at[p, WORD] = words.symbols[p], word
            at[p, FOLLOWS] = p + 1 if p + 1 < end else -1
            at[p, PRECEDES] = p - 1 if p > start else -1
        start = end
    return at


@njit(cache=True)
def _resized(table: LongArray, n_rows: int, room: int) -> LongArray:
    """A copy of a table's first rows with room for more; the new rows are zero."""
    new = np.zeros((room, table.shape[1]), table.dtype)
    for row in range(n_rows):
        for column in range(table.shape[1]):
            new[row, column] = table[row, column]
    return new


@njit(cache=True, inline="always")
def _find_pair(key: int, n_pairs: int, pairs: LongArray, slots: IntArray) -> int:
    """The number of the pair with this key; `n_pairs`, the next free one, if the key is new."""
    mask = len(slots) - 1
    slot = slot_of(key, mask)
    while slots[slot] != 0 and pairs[slots[slot] - 1, KEY] != key:
        slot = (slot + 1) & mask
    if slots[slot] == 0:
        slots[slot] = n_pairs + 1
        pairs[n_pairs, KEY] = key
    return int(slots[slot]) - 1


@njit(cache=True)
def _slots_for(pairs: LongArray, n_pairs: int) -> IntArray:
    """A table of the keys of the pairs, at most half full once they fill their room."""
    slots = np.zeros(table_size(len(pairs)), np.int32)
    for pair in range(n_pairs):
        _find_pair(pairs[pair, KEY], pair, pairs, slots)
    return slots


@njit(cache=True)
def _place(found: IntArray, n_found: int, first: int, pool: IntArray, pairs: LongArray) -> int:
    """Write occurrences to the pool from `first` (> 0) on, grouped by their pairs (−1: none) in the order given; where
    the pool is free afterwards. Lists that these pairs had before are given up."""
    for i in range(n_found):
        pair = found[i, PAIR]
        if pair >= 0:
            if pairs[pair, START] < first:
                pairs[pair, START], pairs[pair, SIZE] = first, 0
            pairs[pair, SIZE] += 1
    end = first
    for i in range(n_found):
        pair = found[i, PAIR]
        if pair >= 0 and pairs[pair, START] == first and pairs[pair, SIZE] > 0:
            end += pairs[pair, SIZE]
            pairs[pair, START], pairs[pair, SIZE] = end, -pairs[pair, SIZE]  # the sign marks a list as given its place
    for i in range(n_found - 1, -1, -1):
        pair = found[i, PAIR]
        if pair >= 0:
            pairs[pair, START] -= 1
            pool[pairs[pair, START]] = found[i, POSITION]
    for i in range(n_found):
        pair = found[i, PAIR]
        if pair >= 0 and pairs[pair, SIZE] < 0:
            pairs[pair, SIZE] = -pairs[pair, SIZE]
    return end


@njit(cache=True)
def _number_pairs(at: IntArray, counts: LongArray, pairs: LongArray, slots: IntArray, found: IntArray) -> int:
    """Write the pair at each position (−1: none) to `found` and sum the counts of pairs; how many there are."""
    n_pairs = 0
    for p in range(len(at)):
        found[p, PAIR], found[p, POSITION] = -1, p
        if at[p, FOLLOWS] >= 0:
            pair = _find_pair(pair_key(at[p, SYMBOL], at[p + 1, SYMBOL]), n_pairs, pairs, slots)
            n_pairs = max(n_pairs, pair + 1)
            pairs[pair, COUNT] += counts[at[p, WORD]]
            found[p, PAIR] = pair
    return n_pairs


@njit(cache=True)
def _list_pairs(at: IntArray, counts: LongArray, n_atoms: int) -> tuple[LongArray, int, IntArray, int]:
    """All pairs of the words, how many there are, the pool of their positions and where it is free."""
    pairs = np.zeros((min(n_atoms * n_atoms, len(at)) + 1, 6), np.int64)  # most rows stay untouched, so cost nothing
    found, pool = np.empty((len(at), 2), np.int32), np.empty(2 * len(at) + 1, np.int32)
    n_pairs = _number_pairs(at, counts, pairs, _slots_for(pairs, 0), found)
    pool_end = _place(found, len(at), 1, pool, pairs)
    return _resized(pairs, n_pairs, 2 * n_pairs + 1), n_pairs, pool, pool_end


@njit(cache=True, inline="always")
def _known_pair(
    role: int, token: int, key: int, stamp: int, n_pairs: int, known: LongArray, pairs: LongArray, slots: IntArray
) -> int:
    """_find_pair, remembered for this merge under the role and token."""
    entry = known[role, token]
    if entry >> 32 == stamp:
        return int(entry & RIGHT)
    pair = _find_pair(key, n_pairs, pairs, slots)
    known[role, token] = (np.int64(stamp) << 32) | pair
    return pair


@njit(cache=True)
def _merge(
    pair: int, new: int, stamp: int, n_pairs: int, positions: IntArray, at: IntArray, counts: LongArray,
    found: IntArray, known: LongArray, pairs: LongArray, slots: IntArray,
) -> tuple[int, int, int]:  # fmt: skip
    """Replace the pair by `new` wherever `positions` still hold it.

    known: (4, n_tokens) int64, stamp << 32 | pair of each token with the pair's left part, right part, and with `new`
    Returns the replacements weighted by word count, how many occurrences of other pairs that made (listed in `found`),
    and how many pairs there are now.
    """
    left, right = pairs[pair, KEY] >> 32, pairs[pair, KEY] & RIGHT
    replaced = n_found = 0
    for p in positions:
        second = at[p, FOLLOWS]
        if at[p, SYMBOL] != left or second < 0 or at[second, SYMBOL] != right:
            continue
        count, before, after = counts[at[p, WORD]], at[p, PRECEDES], at[second, FOLLOWS]
        replaced += count
        at[p, SYMBOL], at[p, FOLLOWS] = new, after
        at[second, SYMBOL] = at[second, FOLLOWS] = -1
        if before >= 0:
            token = at[before, SYMBOL]
            lost = _known_pair(0, token, pair_key(token, left), stamp, n_pairs, known, pairs, slots)
            gained = _known_pair(2, token, pair_key(token, new), stamp, n_pairs, known, pairs, slots)
            n_pairs = max(n_pairs, gained + 1)
            pairs[lost, COUNT] -= count
            pairs[gained, COUNT] += count
            found[n_found, PAIR], found[n_found, POSITION], n_found = gained, before, n_found + 1
        if after >= 0:
            at[after, PRECEDES] = p
            token = at[after, SYMBOL]
            lost = _known_pair(1, token, pair_key(right, token), stamp, n_pairs, known, pairs, slots)
            gained = _known_pair(3, token, pair_key(new, token), stamp, n_pairs, known, pairs, slots)
            n_pairs = max(n_pairs, gained + 1)
            pairs[lost, COUNT] -= count
            pairs[gained, COUNT] += count
            found[n_found, PAIR], found[n_found, POSITION], n_found = gained, p, n_found + 1
    pairs[pair, COUNT] -= replaced
    return replaced, n_found, n_pairs


@njit(cache=True)
def _with_earlier(n_found: int, n_old: int, found: IntArray, pool: IntArray, pairs: LongArray) -> tuple[IntArray, int]:
    """The occurrences found, to which the present positions of found pairs below `n_old` are added: those pairs have
    lists already, because another merge made a token that is spelled the same."""
    n = n_found
    for i in range(n_found):
        pair = found[i, PAIR]
        if pair < n_old and pairs[pair, SIZE] > 0:
            start, size = pairs[pair, START], pairs[pair, SIZE]
            if n + size > len(found):
                found = _resized(found, n, 2 * (n + size))
            for j in range(size):
                found[n + j, PAIR], found[n + j, POSITION] = pair, pool[start + j]
            n, pairs[pair, SIZE] = n + size, 0
    return found, n


@njit(cache=True)
def _push_found(
    found: IntArray, n_found: int, min_count: int, heap: LongArray, size: int, pairs: LongArray, texts: Texts
) -> tuple[LongArray, int]:
    """The heap, and its size, with every pair found whose count is higher than when it was last pushed."""
    if size + n_found > len(heap):
        heap = _resized(heap, size, 2 * (size + n_found))
    for i in range(n_found):
        pair = found[i, PAIR]
        if pairs[pair, COUNT] >= min_count and pairs[pair, COUNT] > pairs[pair, PUSHED]:
            size = _push(heap, size, pair, pairs, texts)
    return heap, size


@njit(cache=True)
def _first_heap(n_pairs: int, min_count: int, pairs: LongArray, texts: Texts) -> tuple[LongArray, int]:
    """A heap of the pairs that occur often enough, and its size."""
    heap, size = np.zeros((n_pairs + 1, 2), np.int64), 0
    for pair in range(n_pairs):
        if pairs[pair, COUNT] >= min_count:
            size = _push(heap, size, pair, pairs, texts)
    return heap, size


@njit(cache=True)
def _intern_atoms(n_atoms: int, n_merges: int, texts: Texts) -> tuple[IntArray, LongArray]:
    """A table of token strings with the atoms entered, and the hashes of the strings; both with room for all merges."""
    slots = np.zeros(table_size(n_atoms + n_merges + 1), np.int32)
    hashes = np.zeros(n_atoms + n_merges + 1, np.int64)
    for token in range(n_atoms):
        intern_text(slots, hashes, texts, token)
    return slots, hashes


@njit(cache=True, nogil=True)
def learn(
    words: Words, texts: Texts, final_atoms: FlagArray, marker: IntArray,
    n_merges: int, min_count: int, progress: LongArray,
) -> tuple[IntArray, LongArray, int, bool]:  # fmt: skip
    """Learn up to `n_merges` merges, fewer where no pair occurs `min_count` times.

    texts: the atoms' strings, with room for n_merges + 1 more starts
    final_atoms: (n_atoms,) which atoms carry the end-of-word marker, whose code points are `marker`; a merge that
        would make a token without the mark read as if it carried it is never made
    progress: (2,) int64: [0] counts merges for a watching thread, [1] is set by it to stop the loop
    Returns left, right and resulting token of each merge (n_merges, 3) int32, the replacements weighted by word count
    (n_merges,) int64, how many merges there are, and whether a pair came up again in some word after it had been merged
    (encoding would then merge it at once; learning does not).
    """
    n_tokens, n_done, irregular = len(final_atoms), 0, False
    merges, replacements = np.zeros((n_merges, 3), np.int32), np.zeros(n_merges, np.int64)
    final = grown(final_atoms, n_tokens + n_merges + 1)
    known = np.zeros((4, n_tokens + n_merges + 1), np.int64)
    token_slots, hashes = _intern_atoms(n_tokens, n_merges, texts)
    at = _link_words(words)
    pairs, n_pairs, pool, pool_end = _list_pairs(at, words.counts, n_tokens)
    slots, found = _slots_for(pairs, n_pairs), np.zeros((1 << 12, 2), np.int32)
    heap, size = _first_heap(n_pairs, min_count, pairs, texts)

    while n_done < n_merges and progress[1] == 0:
        pair, size = _best(heap, size, pairs, texts)
        if pair < 0 or pairs[pair, COUNT] < min_count:
            break
        left, right = pairs[pair, KEY] >> 32, pairs[pair, KEY] & RIGHT
        texts = append_text(texts, n_tokens, left, right)
        if final[right] == 0 and ends_with(texts, n_tokens, marker):
            continue
        new = intern_text(token_slots, hashes, texts, n_tokens)
        is_new = new == n_tokens
        if is_new:
            final[new] = final[right]
            n_tokens += 1
        positions = pool[pairs[pair, START] : pairs[pair, START] + pairs[pair, SIZE]]
        if left == right:
            positions.sort()  # overlapping occurrences are replaced from left to right
        if 2 * len(positions) > len(found):
            found = np.zeros((4 * len(positions), 2), np.int32)
        n_more = 2 * min(len(positions), n_tokens)
        if n_pairs + n_more > len(pairs):
            pairs = _resized(pairs, n_pairs, 2 * (n_pairs + n_more))
            slots = _slots_for(pairs, n_pairs)
        n_old, pairs[pair, MERGED] = n_pairs, 1
        replaced, n_found, n_pairs = _merge(
            pair, new, n_done + 1, n_pairs, positions, at, words.counts, found, known, pairs, slots
        )
        if not is_new:
            found, n_found = _with_earlier(n_found, n_old, found, pool, pairs)
            for i in range(n_found):
                irregular = irregular or pairs[found[i, PAIR], MERGED] != 0
        if pool_end + n_found > len(pool):
            pool = grown(pool, 2 * (pool_end + n_found))
        pool_end = _place(found, n_found, pool_end, pool, pairs)
        heap, size = _push_found(found, n_found, min_count, heap, size, pairs, texts)
        merges[n_done, 0], merges[n_done, 1], merges[n_done, 2] = left, right, new
        replacements[n_done] = replaced
        n_done += 1
        progress[0] = n_done
    return merges, replacements, n_done, irregular
