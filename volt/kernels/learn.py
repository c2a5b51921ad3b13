"""Learn BPE merges from distinct words.

    best pair = greatest (count, left string, right string), as in subword-nmt

The symbols of all words lie one after the other, linked within each word. Each pair lists its positions, so a merge
touches only its own occurrences; outdated positions are skipped. The best pair comes from a lazy heap: an
entry whose count has fallen is pushed again.

No two merges make the same token: until a stretch of text becomes one token, no merge has crossed its ends, so the
stretch goes through the same merges everywhere. Hence all pairs with a merge's token are new, and their lists are
complete once the merge is done.
"""

from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import (
    ByteArray,
    IntArray,
    IntTable,
    LongArray,
    LongTable,
    TokenStrings,
    Words,
    append_text,
    compare_texts,
    ends_with,
    grown_ints,
    int_table,
    ints,
    long_table,
    pair_key,
    slot_of,
    table_size,
)
from volt.kernels.jit import compiled, inlined, loop

SYMBOL, FOLLOWS, PRECEDES, WORD = 0, 1, 2, 3  # columns of the (n_symbols, 4) table of positions
RIGHT = 0xFFFFFFFF  # the low half of a pair key

# Columns of the (room, 5) int64 table of pairs: key (left << 32 | right), count, the count last pushed to the heap
# (0: none), where its positions start in the pool (0: nowhere yet) and how many there are.
KEY, COUNT, PUSHED, START, SIZE = 0, 1, 2, 3, 4
# The heap is a (room, 2) int64 table: a pair, and, in column COUNT, the count that it had when it was pushed.
PAIR = 0
# The occurrences of new pairs after a merge are a (room, 2) int32 table: pair and position.
POSITION = 1


@compiled
def _outranks(
    pair: int, count: int, other: int, other_count: int, pairs: LongArray, texts: TokenStrings
) -> bool:
    if count != other_count:
        return count > other_count
    key, other_key = pairs[pair, KEY], pairs[other, KEY]
    order = compare_texts(texts, key >> 32, other_key >> 32)
    if order == 0:
        order = compare_texts(texts, key & RIGHT, other_key & RIGHT)
    return order > 0


@compiled
def _push(heap: LongArray, size: int, pair: int, pairs: LongArray, texts: TokenStrings) -> int:
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


@compiled
def _pop(heap: LongArray, size: int, pairs: LongArray, texts: TokenStrings) -> int:
    pair, count = heap[size - 1, PAIR], heap[size - 1, COUNT]
    i, child = 0, 1
    while child < size - 1:
        if child + 2 < size and _outranks(
            heap[child + 1, PAIR],
            heap[child + 1, COUNT],
            heap[child, PAIR],
            heap[child, COUNT],
            pairs,
            texts,
        ):
            child += 1
        if not _outranks(heap[child, PAIR], heap[child, COUNT], pair, count, pairs, texts):
            break
        heap[i, PAIR], heap[i, COUNT] = heap[child, PAIR], heap[child, COUNT]
        i, child = child, 2 * child + 1
    heap[i, PAIR], heap[i, COUNT] = pair, count
    return size - 1


@compiled
def _best(heap: LongArray, size: int, pairs: LongArray, texts: TokenStrings) -> tuple[int, int]:
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


@compiled
def _link_words(words: Words) -> IntArray:
    at, start = int_table(len(words.symbols), 4), 0
    for word in range(len(words.ends)):
        end = words.ends[word]
        for p in range(start, end):
            at[p, SYMBOL], at[p, WORD] = words.symbols[p], word
            at[p, FOLLOWS] = p + 1 if p + 1 < end else -1
            at[p, PRECEDES] = p - 1 if p > start else -1
        start = end
    return at


@compiled
def _resized(table: LongArray, n_rows: int, room: int) -> LongArray:
    new = long_table(room, table.shape[1])
    for row in range(n_rows):
        for column in range(table.shape[1]):
            new[row, column] = table[row, column]
    return new


@inlined
def _pair_slot(key: int, pairs: LongArray, slots: IntArray) -> int:
    mask = len(slots) - 1
    slot = slot_of(key, mask)
    while slots[slot] != 0 and pairs[slots[slot] - 1, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@inlined
def _find_pair(key: int, n_pairs: int, pairs: LongArray, slots: IntArray) -> int:
    slot = _pair_slot(key, pairs, slots)
    if slots[slot] == 0:
        slots[slot] = n_pairs + 1
        pairs[n_pairs, KEY] = key
    return int(slots[slot]) - 1


@compiled
def _slots_for(pairs: LongArray, n_pairs: int) -> IntArray:
    slots = ints(table_size(len(pairs)))
    for pair in range(n_pairs):
        _find_pair(pairs[pair, KEY], pair, pairs, slots)
    return slots


@compiled
def _place(result: IntArray, n_new: int, first: int, pool: IntArray, pairs: LongArray) -> int:
    """Write the occurrences of new pairs to the pool, except for pair -1 (none). Return the pool's new end."""
    for i in range(n_new):
        if result[i, PAIR] >= 0:
            pairs[result[i, PAIR], SIZE] += 1
    end = first
    for i in range(n_new):
        pair = result[i, PAIR]
        if pair >= 0 and pairs[pair, START] == 0:
            end += pairs[pair, SIZE]
            pairs[pair, START] = end  # filled from the end, below
    for i in range(n_new - 1, -1, -1):
        pair = result[i, PAIR]
        if pair >= 0:
            pairs[pair, START] -= 1
            pool[pairs[pair, START]] = result[i, POSITION]
    return end


@compiled
def _list_pairs(
    at: IntArray, counts: LongArray, n_atoms: int
) -> tuple[LongArray, int, IntArray, int]:
    pairs = long_table(min(n_atoms * n_atoms, len(at)) + 1, 5)
    result, pool, slots, n_pairs = (
        int_table(len(at), 2),
        ints(2 * len(at) + 1),
        _slots_for(pairs, 0),
        0,
    )
    for p in range(len(at)):
        result[p, PAIR], result[p, POSITION] = -1, p
        if at[p, FOLLOWS] >= 0:
            pair = _find_pair(pair_key(at[p, SYMBOL], at[p + 1, SYMBOL]), n_pairs, pairs, slots)
            n_pairs = max(n_pairs, pair + 1)
            pairs[pair, COUNT] += counts[at[p, WORD]]
            result[p, PAIR] = pair
    pool_end = _place(result, len(at), 1, pool, pairs)
    return _resized(pairs, n_pairs, 2 * n_pairs + 1), n_pairs, pool, pool_end


@inlined
def _known_pair(
    role: int,
    token: int,
    key: int,
    stamp: int,
    n_pairs: int,
    known: LongArray,
    pairs: LongArray,
    slots: IntArray,
) -> int:
    entry = known[role, token]
    if entry >> 32 == stamp:
        return int(entry & RIGHT)
    pair = _find_pair(key, n_pairs, pairs, slots)
    known[role, token] = (np.int64(stamp) << 32) | pair
    return pair


@compiled
def _merge(
    pair: int,
    new: int,
    stamp: int,
    n_pairs: int,
    positions: IntArray,
    at: IntArray,
    counts: LongArray,
    result: IntArray,
    known: LongArray,
    pairs: LongArray,
    slots: IntArray,
) -> tuple[int, int, int]:
    """Replace the pair by `new` at `positions` where it still occurs; list occurrences of pairs with `new` in `result`.

    known: (4, n_tokens), stamp << 32 | the pair of each token as it stands before left, after right, before `new`, and
        after `new`
    Returns the weight of the replacements, the number of occurrences listed, and the number of pairs.
    """
    left, right = pairs[pair, KEY] >> 32, pairs[pair, KEY] & RIGHT
    replaced = n_new = 0
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
            gained = _known_pair(
                2, token, pair_key(token, new), stamp, n_pairs, known, pairs, slots
            )
            n_pairs = max(n_pairs, gained + 1)
            pairs[lost, COUNT] -= count
            pairs[gained, COUNT] += count
            result[n_new, PAIR], result[n_new, POSITION], n_new = gained, before, n_new + 1
        if after >= 0:
            at[after, PRECEDES] = p
            token = at[after, SYMBOL]
            lost = _known_pair(
                1, token, pair_key(right, token), stamp, n_pairs, known, pairs, slots
            )
            gained = _known_pair(
                3, token, pair_key(new, token), stamp, n_pairs, known, pairs, slots
            )
            n_pairs = max(n_pairs, gained + 1)
            pairs[lost, COUNT] -= count
            pairs[gained, COUNT] += count
            result[n_new, PAIR], result[n_new, POSITION], n_new = gained, p, n_new + 1
    pairs[pair, COUNT] -= replaced
    return replaced, n_new, n_pairs


@compiled
def _roomy(
    n_positions: int, new: int, n_pairs: int, result: IntArray, pairs: LongArray, slots: IntArray
) -> tuple[IntArray, LongArray, IntArray]:
    if 2 * n_positions > len(result):
        result = int_table(4 * n_positions, 2)
    most = n_pairs + 2 * min(n_positions, new)
    if most >= len(pairs):
        pairs = _resized(pairs, n_pairs, 2 * most + 1)
        slots = _slots_for(pairs, n_pairs)
    return result, pairs, slots


@compiled
def _push_new(
    result: IntArray,
    n_new: int,
    min_count: int,
    heap: LongArray,
    size: int,
    pairs: LongArray,
    texts: TokenStrings,
) -> tuple[LongArray, int]:
    if size + n_new > len(heap):
        heap = _resized(heap, size, 2 * (size + n_new))
    for i in range(n_new):
        pair = result[i, PAIR]
        if pairs[pair, COUNT] >= min_count and pairs[pair, COUNT] > pairs[pair, PUSHED]:
            size = _push(heap, size, pair, pairs, texts)
    return heap, size


class Until(NamedTuple):
    n_merges: int  # maximum merges
    min_count: int  # how often a pair must occur to be merged
    n_sure: int  # after this many merges, a pair must occur `common` times
    common: int


def learn(
    words: Words,
    texts: TokenStrings,
    final_atoms: ByteArray,
    marker: IntArray,
    until: Until,
    progress: LongArray,
) -> tuple[IntArray, LongArray, int]:
    """Learn merges until a limit of `until` is reached.

    texts: the atoms' strings, with room for until.n_merges + 1 more starts
    final_atoms: which atoms carry the end-of-word marker; no other token may end with the marker's text
    progress: [0] counts merges for a watching thread, which sets [1] to stop the loop
    Returns each merge's left and right token, (n, 2) (merge k makes token n_atoms + k); each merge's number of
    replacements, weighted by word count; and the count of the best remaining pair.
    """
    n_merges = until.n_merges
    merges, replacements = np.zeros((n_merges, 2), np.int32), np.zeros(n_merges, np.int64)
    known = np.zeros((4, len(final_atoms) + n_merges + 1), np.int64)
    final = np.concatenate([final_atoms, np.zeros(n_merges + 1, np.uint8)])
    n_done, left = learn_merges(
        words, texts, len(final_atoms), final, marker, until, known, merges, replacements, progress
    )
    return merges[:n_done].copy(), replacements[:n_done].copy(), left


@loop
def learn_merges(
    words: Words,
    texts: TokenStrings,
    n_atoms: int,
    final: ByteArray,
    marker: IntArray,
    until: Until,
    known: LongTable,
    merges: IntTable,
    replacements: LongArray,
    progress: LongArray,
) -> tuple[int, int]:
    n_done = left_count = 0
    at = _link_words(words)
    pairs, n_pairs, pool, pool_end = _list_pairs(at, words.counts, n_atoms)
    slots, result = _slots_for(pairs, n_pairs), int_table(1 << 12, 2)
    heap, size = long_table(n_pairs + 1, 2), 0
    for pair in range(n_pairs):
        if pairs[pair, COUNT] >= until.min_count:
            size = _push(heap, size, pair, pairs, texts)

    while progress[1] == 0:
        pair, size = _best(heap, size, pairs, texts)
        if pair < 0 or pairs[pair, COUNT] < until.min_count:
            break
        left, right, new = pairs[pair, KEY] >> 32, pairs[pair, KEY] & RIGHT, n_atoms + n_done
        texts = append_text(texts, new, left, right)
        if final[right] == 0 and ends_with(texts, new, marker):
            continue
        if n_done == until.n_merges or (
            n_done >= until.n_sure and pairs[pair, COUNT] < until.common
        ):
            left_count = pairs[pair, COUNT]
            break
        final[new] = final[right]
        n_positions = pairs[pair, SIZE]
        positions = pool[pairs[pair, START] : pairs[pair, START] + n_positions]
        result, pairs, slots = _roomy(n_positions, new, n_pairs, result, pairs, slots)
        replaced, n_new, n_pairs = _merge(
            pair, new, n_done + 1, n_pairs, positions, at, words.counts, result, known, pairs, slots
        )
        if pool_end + n_new > len(pool):
            pool = grown_ints(pool, 2 * (pool_end + n_new))
        pool_end = _place(result, n_new, pool_end, pool, pairs)
        heap, size = _push_new(result, n_new, until.min_count, heap, size, pairs, texts)
        merges[n_done, 0], merges[n_done, 1], replacements[n_done] = left, right, replaced
        n_done += 1
        progress[0] = n_done
    return n_done, left_count
