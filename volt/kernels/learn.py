"""Learn BPE merges from the distinct words of one source, or of several sources with different texts.

    best pair    = greatest (count, left string, right string), as in subword-nmt
    worst source = greatest pieces / units;  of equal ones, the first

The best pair of the worst source is merged in all sources. With n sources, token t of source s is the symbol t · n + s,
and every source has a heap of its own pairs. A source without a pair that is frequent enough never chooses again,
because new pairs are no more frequent than the pairs that they come from.

The symbols of all words lie one after the other, linked within each word. Each pair lists its positions, so a merge
touches only its own occurrences; outdated positions are skipped. The best pair comes from a lazy heap: an entry whose
count has fallen is pushed again. All pairs with a merge's symbol are new, so their lists are complete once the merge is
done, and their counts only fall afterwards.
"""

from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import (
    ByteArray,
    IntArray,
    IntTable,
    LongArray,
    LongCube,
    LongTable,
    TokenStrings,
    Words,
    append_text,
    compare_texts,
    ends_with,
    grown,
    int_table,
    ints,
    long_table,
    longs,
    pair_key,
    slot_of,
    table_size,
)
from volt.kernels.jit import borrowing, compiled, inlined, loop

SYMBOL, FOLLOWS, PRECEDES, WORD = range(4)  # columns of the (n_symbols, 4) int32 table of positions
KEY, COUNT, START, SIZE = range(4)  # columns of `Pairs.rows`
N_PAIRS, POOL_END = range(2)  # indices of `Pairs.used`
PAIR, POSITION = range(2)  # columns of `Pairs.occurrences`
# The heap is a (room, 2) int64 table: a pair, and, in column COUNT, the count that it had when it was pushed.
RIGHT = 0xFFFFFFFF  # the low half of a pair key


class Pairs(NamedTuple):
    # (room, 4), a pair's key (left << 32 | right), its count, where its positions start in the pool (0: nowhere yet),
    # and how many there are
    rows: LongArray
    slots: IntArray  # hash slots
    pool: IntArray  # positions
    used: LongArray  # (2,), the number of pairs, and the end of the positions in the pool
    occurrences: IntArray  # (room, 2) int32, the pairs and positions that a merge adds


@borrowing
def _outranks(
    pair: int, count: int, other: int, other_count: int, rows: LongArray, texts: TokenStrings
) -> bool:
    if count != other_count:
        return count > other_count
    key = rows[pair, KEY]
    other_key = rows[other, KEY]
    order = compare_texts(texts, key >> 32, other_key >> 32)
    if order == 0:
        order = compare_texts(texts, key & RIGHT, other_key & RIGHT)
    return order > 0


@inlined
def _set(heap: LongArray, i: int, pair: int, count: int) -> None:
    heap[i, PAIR] = pair
    heap[i, COUNT] = count


@borrowing
def _push(heap: LongArray, size: int, pair: int, rows: LongArray, texts: TokenStrings) -> int:
    count = rows[pair, COUNT]
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if not _outranks(pair, count, heap[parent, PAIR], heap[parent, COUNT], rows, texts):
            break
        _set(heap, i, heap[parent, PAIR], heap[parent, COUNT])
        i = parent
    _set(heap, i, pair, count)
    return size + 1


@borrowing
def _pop(heap: LongArray, size: int, rows: LongArray, texts: TokenStrings) -> int:
    pair = heap[size - 1, PAIR]
    count = heap[size - 1, COUNT]
    i = 0
    child = 1
    while child < size - 1:
        best = heap[child, PAIR]
        best_count = heap[child, COUNT]
        if child + 2 < size:
            other = heap[child + 1, PAIR]
            if _outranks(other, heap[child + 1, COUNT], best, best_count, rows, texts):
                child += 1
                best = other
                best_count = heap[child, COUNT]
        if not _outranks(best, best_count, pair, count, rows, texts):
            break
        _set(heap, i, best, best_count)
        i = child
        child = 2 * child + 1
    _set(heap, i, pair, count)
    return size - 1


@borrowing
def _best(heap: LongArray, size: int, rows: LongArray, texts: TokenStrings) -> tuple[int, int]:
    while size > 0:
        pair = heap[0, PAIR]
        count = heap[0, COUNT]
        size = _pop(heap, size, rows, texts)
        if count == rows[pair, COUNT]:
            return pair, size
        if rows[pair, COUNT] > 0:
            size = _push(heap, size, pair, rows, texts)
    return -1, size


@compiled
def _link_words(words: Words) -> IntArray:
    at = int_table(len(words.symbols), 4)
    start = 0
    for word in range(len(words.ends)):
        end = words.ends[word]
        for p in range(start, end):
            at[p, SYMBOL] = words.symbols[p]
            at[p, WORD] = word
            at[p, FOLLOWS] = p + 1
            at[p, PRECEDES] = p - 1
        if start < end:
            at[start, PRECEDES] = -1
            at[end - 1, FOLLOWS] = -1
        start = end
    return at


@inlined
def _pair_slot(key: int, rows: LongArray, slots: IntArray) -> int:
    mask = len(slots) - 1
    slot = slot_of(key, mask)
    while slots[slot] != 0 and rows[slots[slot] - 1, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@inlined
def _find_pair(key: int, pairs: Pairs) -> int:
    slot = _pair_slot(key, pairs.rows, pairs.slots)
    if pairs.slots[slot] == 0:
        pairs.rows[pairs.used[N_PAIRS], KEY] = key
        pairs.used[N_PAIRS] += 1
        pairs.slots[slot] = pairs.used[N_PAIRS]
    return int(pairs.slots[slot]) - 1


@compiled
def _with_room(pairs: Pairs, n_pairs: int, n_positions: int) -> Pairs:
    """Return the pairs with room for this many more pairs and positions."""
    rows = pairs.rows
    slots = pairs.slots
    pool = pairs.pool
    used = pairs.used
    occurrences = pairs.occurrences

    if used[N_PAIRS] + n_pairs >= len(rows):
        rows = long_table(2 * (used[N_PAIRS] + n_pairs) + 1, 4)
        slots = ints(table_size(len(rows)))
        for pair in range(used[N_PAIRS]):
            for column in range(4):
                rows[pair, column] = pairs.rows[pair, column]
            slots[_pair_slot(rows[pair, KEY], rows, slots)] = pair + 1
    if used[POOL_END] + n_positions > len(pool):
        pool = grown(pool, 2 * (used[POOL_END] + n_positions))
    if n_positions > len(occurrences):
        occurrences = int_table(2 * n_positions, 2)
    return Pairs(rows, slots, pool, used, occurrences)


@compiled
def _list_pairs(at: IntArray, counts: LongArray, n_symbols: int) -> Pairs:
    rows = long_table(min(n_symbols * n_symbols, len(at)) + 1, 4)
    slots = ints(table_size(len(rows)))
    occurrences = int_table(len(at), 2)
    pairs = Pairs(rows, slots, ints(2 * len(at) + 1), longs(2), occurrences)
    pairs.used[POOL_END] = 1
    for p in range(len(at)):
        pair = -1
        if at[p, FOLLOWS] >= 0:
            pair = _find_pair(pair_key(at[p, SYMBOL], at[p + 1, SYMBOL]), pairs)
            rows[pair, COUNT] += counts[at[p, WORD]]
        occurrences[p, PAIR] = pair
        occurrences[p, POSITION] = p
    return pairs


@inlined
def _known_pair(role: int, token: int, key: int, stamp: int, known: LongArray, pairs: Pairs) -> int:
    entry = known[role, token]
    if entry >> 32 == stamp:
        return int(entry & RIGHT)
    pair = _find_pair(key, pairs)
    known[role, token] = (np.int64(stamp) << 32) | pair
    return pair


@borrowing
def _merge(
    pair: int,
    new: int,
    stamp: int,
    positions: IntArray,
    at: IntArray,
    counts: LongArray,
    known: LongArray,
    pairs: Pairs,
) -> tuple[int, int]:
    """Replace the pair by `new` at `positions` where it still occurs; list the occurrences of the new pairs.

    known: (4, n_tokens), stamp << 32 | the pair of each token as it stands before left, after right, before `new`, and
        after `new`
    Returns the weight of the replacements, and the number of occurrences.
    """
    rows = pairs.rows
    occurrences = pairs.occurrences
    left = rows[pair, KEY] >> 32
    right = rows[pair, KEY] & RIGHT
    replaced = 0
    n_new = 0
    for p in positions:
        second = at[p, FOLLOWS]
        if at[p, SYMBOL] != left or second < 0 or at[second, SYMBOL] != right:
            continue
        count = counts[at[p, WORD]]
        before = at[p, PRECEDES]
        after = at[second, FOLLOWS]
        replaced += count
        at[p, SYMBOL] = new
        at[p, FOLLOWS] = after
        at[second, SYMBOL] = at[second, FOLLOWS] = -1

        if before >= 0:
            token = at[before, SYMBOL]
            lost = _known_pair(0, token, pair_key(token, left), stamp, known, pairs)
            gained = _known_pair(2, token, pair_key(token, new), stamp, known, pairs)
            rows[lost, COUNT] -= count
            rows[gained, COUNT] += count
            occurrences[n_new, PAIR] = gained
            occurrences[n_new, POSITION] = before
            n_new += 1
        if after >= 0:
            at[after, PRECEDES] = p
            token = at[after, SYMBOL]
            lost = _known_pair(1, token, pair_key(right, token), stamp, known, pairs)
            gained = _known_pair(3, token, pair_key(new, token), stamp, known, pairs)
            rows[lost, COUNT] -= count
            rows[gained, COUNT] += count
            occurrences[n_new, PAIR] = gained
            occurrences[n_new, POSITION] = p
            n_new += 1
    rows[pair, COUNT] -= replaced
    return replaced, n_new


@compiled
def _longer(heaps: LongArray, sizes: LongArray) -> LongArray:
    new = np.empty((len(sizes), 2 * heaps.shape[1], 2), np.int64)
    for source in range(len(sizes)):
        for i in range(sizes[source]):
            _set(new[source], i, heaps[source, i, PAIR], heaps[source, i, COUNT])
    return new


@compiled
def _enter(
    n_new: int,
    min_count: int,
    heaps: LongArray,
    sizes: LongArray,
    pairs: Pairs,
    texts: TokenStrings,
) -> LongArray:
    """Write the occurrences of new pairs to the pool, except for pair -1 (none), and push the pairs to their heaps."""
    rows = pairs.rows
    occurrences = pairs.occurrences
    for i in range(n_new):
        pair = occurrences[i, PAIR]
        if pair >= 0:
            rows[pair, SIZE] += 1

    for i in range(n_new):
        pair = occurrences[i, PAIR]
        if pair < 0 or rows[pair, START] > 0:
            continue
        pairs.used[POOL_END] += rows[pair, SIZE]
        rows[pair, START] = pairs.used[POOL_END]  # filled from the end, below
        if rows[pair, COUNT] >= min_count:
            source = (rows[pair, KEY] & RIGHT) % len(sizes)
            if sizes[source] == heaps.shape[1]:
                heaps = _longer(heaps, sizes)
            sizes[source] = _push(heaps[source], sizes[source], pair, rows, texts)

    for i in range(n_new - 1, -1, -1):
        pair = occurrences[i, PAIR]
        if pair >= 0:
            rows[pair, START] -= 1
            pairs.pool[rows[pair, START]] = occurrences[i, POSITION]
    return heaps


@borrowing
def _choose(
    pieces: LongArray,
    units: LongArray,
    min_count: int,
    heaps: LongArray,
    sizes: LongArray,
    rows: LongArray,
    texts: TokenStrings,
) -> tuple[int, int]:
    """Return the worst source that has a pair, and its best pair; -1 and -1 if no pair is frequent enough."""
    while True:
        worst = -1
        for source in range(len(units)):
            if sizes[source] > 0 and (
                worst < 0 or pieces[source] / units[source] > pieces[worst] / units[worst]
            ):
                worst = source
        if worst < 0:
            return -1, -1
        pair, sizes[worst] = _best(heaps[worst], sizes[worst], rows, texts)
        if pair >= 0 and rows[pair, COUNT] >= min_count:
            return worst, pair
        sizes[worst] = 0


class Until(NamedTuple):
    n_merges: int  # maximum merges
    min_count: int  # how often a pair must occur to be merged
    n_sure: int  # after this many merges, a pair must occur `common` times
    common: int


class Learned(NamedTuple):
    merges: IntTable  # (n, 2), each merge's left and right token; merge k makes token n_atoms + k
    replacements: LongArray  # (n,), each merge's number of replacements, weighted by word count
    chosen_by: IntArray  # (n,), the source that chose each merge


def learn(
    words: Words,
    texts: TokenStrings,
    final_atoms: ByteArray,
    marker: IntArray,
    until: Until,
    progress: LongArray,
    *,
    units: LongArray,
    pieces: LongArray,
) -> tuple[Learned, int]:
    """Learn merges until a limit of `until` is reached. Return them, and the count of the best remaining pair.

    texts: the symbols' strings, with room for until.n_merges + 1 more starts for each source
    final_atoms: which atoms carry the end-of-word marker; no other token may end with the marker's text
    progress: [0] counts merges for a watching thread, which sets [1] to stop the loop
    units, pieces: (n_sources,), the length of each source in units, and in symbols
    """
    n_sources = len(units)
    n_merges = until.n_merges
    learned = Learned(
        np.zeros((n_merges, 2), np.int32),
        np.zeros(n_merges, np.int64),
        np.zeros(n_merges, np.int32),
    )
    known = np.zeros((4, n_sources * (len(final_atoms) + n_merges + 1)), np.int64)
    final = np.concatenate([final_atoms, np.zeros(n_merges + 1, np.uint8)])
    heaps = np.zeros((n_sources, 1, 2), np.int64)

    n_done, left = learn_merges(
        words,
        texts,
        len(final_atoms),
        final,
        marker,
        units,
        pieces.copy(),
        until,
        heaps,
        known,
        learned,
        progress,
    )
    return Learned(*(values[:n_done].copy() for values in learned)), left


@loop
def learn_merges(
    words: Words,
    texts: TokenStrings,
    n_atoms: int,
    final: ByteArray,
    marker: IntArray,
    units: LongArray,
    pieces: LongArray,
    until: Until,
    heaps: LongCube,
    known: LongTable,
    learned: Learned,
    progress: LongArray,
) -> tuple[int, int]:
    n = len(units)
    n_done = 0
    at = _link_words(words)
    pairs = _list_pairs(at, words.counts, n_atoms * n)
    sizes = longs(n)
    heaps = _enter(len(at), until.min_count, heaps, sizes, pairs, texts)

    while progress[1] == 0:
        worst, pair = _choose(pieces, units, until.min_count, heaps, sizes, pairs.rows, texts)
        if pair < 0:
            break
        count = pairs.rows[pair, COUNT]
        left = (pairs.rows[pair, KEY] >> 32) // n
        right = (pairs.rows[pair, KEY] & RIGHT) // n
        new = n_atoms + n_done
        for source in range(n):
            texts = append_text(texts, new * n + source, left * n, right * n)
        if final[right] == 0 and ends_with(texts, new * n, marker):
            continue
        if n_done == until.n_merges or (n_done >= until.n_sure and count < until.common):
            return n_done, count

        for source in range(n):
            key = pair_key(left * n + source, right * n + source)
            pair = pairs.slots[_pair_slot(key, pairs.rows, pairs.slots)] - 1
            if pair < 0:  # it never occurred
                continue
            size = pairs.rows[pair, SIZE]
            pairs = _with_room(pairs, 2 * min(size, new), 2 * size)
            positions = pairs.pool[pairs.rows[pair, START] :][:size]
            stamp = n_done * n + source + 1
            replaced, n_new = _merge(
                pair, new * n + source, stamp, positions, at, words.counts, known, pairs
            )
            heaps = _enter(n_new, until.min_count, heaps, sizes, pairs, texts)
            pieces[source] -= replaced
            learned.replacements[n_done] += replaced

        learned.merges[n_done, 0] = left
        learned.merges[n_done, 1] = right
        learned.chosen_by[n_done] = worst
        final[new] = final[right]
        n_done += 1
        progress[0] = n_done
    return n_done, 0
