"""Learn BPE merges from the distinct words of one source, or of several sources with different
texts.

    best pair    = greatest (count, left string, right string), as in subword-nmt
    worst source = greatest number of pieces / length; of equal ones, the first

Each merge is the best pair of the worst source, and it is applied to all sources. With n sources,
token t of source s is the symbol t · n + s, so a pair of symbols belongs to one source. Each source
has a heap of its own pairs.

The symbols of all words stand in one table, `sequence`, and a merge changes only the places where
its pair occurs. A merged symbol has all positions of its parts. Its number is at the first one, and
minus the number of positions at the second and the last one, so that its neighbours are found from
both ends. For the words "aabb" and "ab":

    position    0    1    2    3  |  4    5       after a + b → ab:    0    1    2    3  |  4    5
    SYMBOL      a    a    b    b  |  a    b                            a   ab   −2    b  | ab   −2
    WORD        0    0    0    0  |  1    1                            0    0    0    0  |  1    1

`Pairs` lists the positions of each pair. A position becomes outdated when one of its symbols is
merged; outdated positions are skipped. All pairs that contain a merge's new symbol are new, so
their lists are complete after this merge, and their counts only fall afterwards. Therefore a heap
may be lazy: an entry whose count has fallen is pushed again when it is popped. For the same reason,
a source whose best pair is too rare never chooses again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import (
    ByteArray,
    IntArray,
    IntTable,
    LongArray,
    LongCube,
    LongTable,
    Words,
    copy_into,
    slot_of,
    table_size,
)
from volt.kernels.intrinsics import free, new_array
from volt.kernels.jit import borrowing, inlined, releasing
from volt.kernels.token_strings import (
    TokenStrings,
    append_string,
    code_points,
    compare_strings,
    copy_strings,
    ends_with,
    pack_strings,
)

SYMBOL, WORD = range(
    2
)  # columns of `sequence`, (n_symbols + 1, 2) int32; a last word −1 has no symbol
KEY, COUNT, START, SIZE = range(4)  # columns of `Pairs.rows`
N_PAIRS, POOL_END = range(2)  # indices of `Pairs.used`
PAIR, POSITION = range(
    2
)  # columns of `Pairs.occurrences`, and of `sequence` before words are entered
# A heap is an (n, 2) int64 table: PAIR, and the COUNT that the pair had when it was pushed.
RIGHT = 0xFFFFFFFF  # the bits of a pair's key that hold the right symbol
BEFORE_LEFT, AFTER_RIGHT, BEFORE_NEW, AFTER_NEW = range(
    4
)  # rows of the cache of pairs, see `_look_up_pair`
NO_PAIR = -1


class Limits(NamedTuple):
    n_merges: int  # maximum merges
    min_count: int  # how often a pair must occur to be merged
    n_sure: int  # after this many merges, a pair must occur `common` times
    common: int


class Sources(NamedTuple):
    of_words: LongArray  # (n_words,), the number of each word's source
    lengths: LongArray  # (n_sources,), in any unit

    def sum_by_source(self, values: LongArray) -> LongArray:
        """Return the sum of the words' values, (n_words,), for each source, (n_sources,)."""
        sums = np.zeros(len(self.lengths), np.int64)
        np.add.at(sums, self.of_words, values)
        return sums


class SourceState(NamedTuple):
    """The sources, as `learn_merges` reads them, and the arrays that it changes. The first three
    are (n_sources,)."""

    lengths: LongArray
    n_pieces: LongArray  # weighted by word counts
    heap_sizes: LongArray
    heaps: LongCube  # (n_sources, room, 2)


class Learned(NamedTuple):
    # (n, 2), the left and right token of each merge; merge k makes token n_atoms + k
    merges: IntTable
    replacements: LongArray  # (n,), how often each merge applies, weighted by word counts
    chosen_by: IntArray  # (n,), the source that chose each merge


class Pairs(NamedTuple):
    """All pairs of neighbouring symbols. Arrays have spare room at their ends.

    sequence: the symbols of all words, see above
    rows: (n_pairs, 4), a pair's key (left symbol << 32 | right symbol); its count; where its positions start in `pool`, 0
        until they are stored; how many positions there are
    slots: a hash table of keys: the pair's number + 1, or 0
    pool: the positions of all pairs, pair after pair
    used: (2,), the number of pairs, and the end of the positions in `pool`
    occurrences: (n, 2), pairs and positions that a merge adds; `_merge_pair` writes and
        `_store_pairs` reads them
    """

    sequence: IntTable
    rows: LongTable
    slots: IntArray
    pool: IntArray
    used: LongArray
    occurrences: IntTable


def learn(
    words: Words,
    atoms: Sequence[str],
    is_final: ByteArray,
    end_marker: str,
    limits: Limits,
    progress: LongArray,
    sources: Sources | None = None,
) -> tuple[Learned, int]:
    """Learn merges until one of the limits is reached. Return them, and the count of the best pair
    that is not merged.

    words: their symbols are numbers of atoms
    atoms: the atoms' strings
    is_final: (n_atoms,), 1 for atoms that carry the end-of-word marker; no other token may end with
        `end_marker`
    progress: (2,), the loop sets [0] to the number of merges; a watching thread sets [1] to 1 to
        stop the loop
    sources: by default, all words are of one source
    """
    n_sources = 1 if sources is None else len(sources.lengths)
    lengths = np.ones(n_sources, np.int64)
    n_pieces = np.ones(n_sources, np.int64)
    if sources is not None:
        lengths = sources.lengths
        n_pieces = sources.sum_by_source(np.diff(words.ends, prepend=0) * words.counts)
        source_of_symbol = np.repeat(sources.of_words, np.diff(words.ends, prepend=0))
        symbols = words.symbols * n_sources + source_of_symbol
        words = words._replace(symbols=symbols.astype(np.int32))

    n_merges = limits.n_merges
    n_tokens = len(atoms) + n_merges + 1  # one more: a token whose merge is refused
    strings = pack_strings([atom for atom in atoms for _ in range(n_sources)], n_sources * n_tokens)
    learned = Learned(
        merges=np.zeros((n_merges, 2), np.int32),
        replacements=np.zeros(n_merges, np.int64),
        chosen_by=np.zeros(n_merges, np.int32),
    )
    next_count = np.zeros(1, np.int64)
    no_heaps = np.zeros((0, 0, 2), np.int64)
    n_done = learn_merges(
        words,
        strings,
        len(atoms),
        np.concatenate([is_final, np.zeros(n_merges + 1, np.uint8)]),
        code_points(end_marker),
        SourceState(lengths, n_pieces, np.zeros(n_sources, np.int64), no_heaps),
        limits,
        _no_pairs(len(words.symbols)),
        np.zeros((4, n_sources * n_tokens), np.int64),  # the cache of pairs
        learned,
        next_count,
        progress,
    )
    return Learned(*(values[:n_done].copy() for values in learned)), int(next_count[0])


@releasing
def learn_merges(
    words: Words,
    strings: TokenStrings,
    n_atoms: int,
    is_final: ByteArray,
    end_marker: IntArray,
    sources: SourceState,
    limits: Limits,
    pairs: Pairs,
    cache: LongTable,
    learned: Learned,
    next_count: LongArray,
    progress: LongArray,
) -> int:
    """Fill `learned`. Return the number of merges, and set `next_count` to the count of the best
    pair that is not merged. `pairs` and the heaps of `sources` are empty before."""
    n = len(sources.lengths)
    n_done = 0
    strings = copy_strings(strings)
    pairs = _count_pairs(words, pairs)
    sources = _with_heaps(sources, new_array(sources.heaps, (n, 1, 2)))
    sources = _store_pairs(pairs.sequence, len(words.symbols), limits, sources, pairs, strings)
    _enter_words(words, pairs.sequence)

    while progress[1] == 0:
        worst, pair = _choose_pair(sources, limits.min_count, pairs.rows, strings)
        if pair == NO_PAIR:
            break
        count = pairs.rows[pair, COUNT]
        left = (pairs.rows[pair, KEY] >> 32) // n
        right = (pairs.rows[pair, KEY] & RIGHT) // n
        token = n_atoms + n_done
        for source in range(n):
            strings = append_string(strings, token * n + source, left * n, right * n)
        if is_final[right] == 0 and ends_with(strings, token * n, end_marker):
            continue
        if n_done == limits.n_merges or (n_done >= limits.n_sure and count < limits.common):
            next_count[0] = count
            break

        for source in range(n):
            pair = _find_pair(left * n + source, right * n + source, pairs)
            if pair == NO_PAIR:  # this source never contained it
                continue
            size = pairs.rows[pair, SIZE]
            pairs = _ensure_room(pairs, 2 * min(size, token), 2 * size)
            positions = pairs.pool[pairs.rows[pair, START] :][:size]
            stamp = n_done * n + source + 1
            new = token * n + source
            replaced, n_new = _merge_pair(pair, new, stamp, positions, words.counts, cache, pairs)
            sources = _store_pairs(pairs.occurrences, n_new, limits, sources, pairs, strings)
            sources.n_pieces[source] -= replaced
            learned.replacements[n_done] += replaced

        _record(learned, n_done, left, right, worst)
        is_final[token] = is_final[right]
        n_done += 1
        progress[0] = n_done
    _free_all(sources, pairs, strings)
    return n_done


@inlined
def _record(learned: Learned, n_done: int, left: int, right: int, source: int) -> None:
    learned.merges[n_done, 0] = left
    learned.merges[n_done, 1] = right
    learned.chosen_by[n_done] = source


@borrowing
def _free_all(sources: SourceState, pairs: Pairs, strings: TokenStrings) -> None:
    free(sources.heaps)
    free(strings.chars)
    free(pairs.rows)
    free(pairs.slots)
    free(pairs.pool)
    free(pairs.occurrences)


def _no_pairs(n_symbols: int) -> Pairs:
    return Pairs(
        sequence=np.empty((n_symbols + 1, 2), np.int32),
        rows=np.zeros((0, 4), np.int64),
        slots=np.zeros(0, np.int32),
        pool=np.zeros(0, np.int32),
        used=np.zeros(2, np.int64),
        occurrences=np.zeros((0, 2), np.int32),
    )


@borrowing
def _count_pairs(words: Words, none: Pairs) -> Pairs:
    """Count the pairs of all words. In `sequence`, each position is an occurrence of a pair, and of
    NO_PAIR at the end of a word."""
    sequence = none.sequence
    rows = new_array(none.rows, (1, 4))
    slots = new_array(none.slots, (table_size(1),))
    pool = new_array(none.pool, (2 * len(sequence),))
    occurrences = new_array(none.occurrences, (1, 2))
    pairs = Pairs(sequence, rows, slots, pool, none.used, occurrences)
    pairs.used[POOL_END] = 1
    start = 0
    for word in range(len(words.ends)):
        end = words.ends[word]
        pairs = _ensure_room(pairs, end - start, 0)
        for p in range(start, end):
            pair = NO_PAIR
            if p + 1 < end:
                key = _pair_key(words.symbols[p], words.symbols[p + 1])
                pair = _find_or_add_pair(key, pairs)
                pairs.rows[pair, COUNT] += words.counts[word]
            sequence[p, PAIR] = pair
            sequence[p, POSITION] = p
        start = end
    return pairs


@borrowing
def _enter_words(words: Words, sequence: IntTable) -> None:
    start = 0
    for word in range(len(words.ends)):
        end = words.ends[word]
        for p in range(start, end):
            sequence[p, SYMBOL] = words.symbols[p]
            sequence[p, WORD] = word
        start = end
    sequence[start, SYMBOL] = 0
    sequence[start, WORD] = -1


@inlined
def _size_at(p: int, sequence: IntTable) -> int:
    """Return the size of the symbol whose second or last position is p; 1 if p is not in a merged one."""
    return int(max(1, -sequence[p, SYMBOL]))


@borrowing
def _choose_pair(
    sources: SourceState, min_count: int, rows: LongTable, strings: TokenStrings
) -> tuple[int, int]:
    """Return the worst source that has a frequent pair, and its best pair; −1 and NO_PAIR if no
    pair is frequent."""
    lengths = sources.lengths
    n_pieces = sources.n_pieces
    heap_sizes = sources.heap_sizes
    while True:
        worst = -1
        for source in range(len(lengths)):
            if heap_sizes[source] > 0 and (
                worst < 0 or n_pieces[source] / lengths[source] > n_pieces[worst] / lengths[worst]
            ):
                worst = source
        if worst < 0:
            return -1, NO_PAIR
        heap = sources.heaps[worst]
        pair, heap_sizes[worst] = _pop_best_pair(heap, heap_sizes[worst], rows, strings)
        if pair != NO_PAIR and rows[pair, COUNT] >= min_count:
            return worst, pair
        heap_sizes[worst] = 0


@borrowing
def _merge_pair(
    pair: int,
    new: int,
    stamp: int,
    positions: IntArray,
    counts: LongArray,
    cache: LongArray,
    pairs: Pairs,
) -> tuple[int, int]:
    """Replace the pair by the symbol `new` at those positions where it still occurs, and update all
    counts.

    Returns the number of replacements, weighted by word counts, and the number of
    `pairs.occurrences` written.
    """
    sequence = pairs.sequence
    rows = pairs.rows
    occurrences = pairs.occurrences
    left = rows[pair, KEY] >> 32
    right = rows[pair, KEY] & RIGHT
    replaced = 0
    n_new = 0
    for p in positions:
        if sequence[p, SYMBOL] != left:
            continue
        word = sequence[p, WORD]
        second = p + _size_at(p + 1, sequence)
        if sequence[second, SYMBOL] != right or sequence[second, WORD] != word:
            continue
        count = counts[word]
        before = p - _size_at(p - 1, sequence)  # −1 if p is 0: row −1 is the last
        after = second + _size_at(second + 1, sequence)
        replaced += count
        sequence[p, SYMBOL] = new
        sequence[second, SYMBOL] = -1
        sequence[p + 1, SYMBOL] = sequence[after - 1, SYMBOL] = p - after

        if before >= 0 and sequence[before, WORD] == word:
            symbol = sequence[before, SYMBOL]
            lost = _look_up_pair(BEFORE_LEFT, symbol, _pair_key(symbol, left), stamp, cache, pairs)
            gained = _look_up_pair(BEFORE_NEW, symbol, _pair_key(symbol, new), stamp, cache, pairs)
            rows[lost, COUNT] -= count
            rows[gained, COUNT] += count
            occurrences[n_new, PAIR] = gained
            occurrences[n_new, POSITION] = before
            n_new += 1
        if sequence[after, WORD] == word:
            symbol = sequence[after, SYMBOL]
            lost = _look_up_pair(AFTER_RIGHT, symbol, _pair_key(right, symbol), stamp, cache, pairs)
            gained = _look_up_pair(AFTER_NEW, symbol, _pair_key(new, symbol), stamp, cache, pairs)
            rows[lost, COUNT] -= count
            rows[gained, COUNT] += count
            occurrences[n_new, PAIR] = gained
            occurrences[n_new, POSITION] = p
            n_new += 1
    rows[pair, COUNT] -= replaced
    return replaced, n_new


@inlined
def _look_up_pair(
    role: int, symbol: int, key: int, stamp: int, cache: LongArray, pairs: Pairs
) -> int:
    """Return the number of the pair with this key; add the pair if it is new.

    cache: (4, n_symbols), stamp << 32 | the number of the pair that a symbol forms in a role. Each merge of each source has
        its own stamp, so older entries do not count.
    """
    entry = cache[role, symbol]
    if entry >> 32 == stamp:
        return int(entry & RIGHT)
    pair = _find_or_add_pair(key, pairs)
    cache[role, symbol] = (np.int64(stamp) << 32) | pair
    return pair


@borrowing
def _store_pairs(
    occurrences: IntTable,
    n_new: int,
    limits: Limits,
    sources: SourceState,
    pairs: Pairs,
    strings: TokenStrings,
) -> SourceState:
    """Copy the positions of new pairs to the pool, and push frequent pairs to their source's heap.
    Return the sources."""
    heap_sizes = sources.heap_sizes
    rows = pairs.rows
    for i in range(n_new):
        pair = occurrences[i, PAIR]
        if pair != NO_PAIR:
            rows[pair, SIZE] += 1

    for i in range(n_new):
        pair = occurrences[i, PAIR]
        if pair == NO_PAIR or rows[pair, START] > 0:
            continue
        is_frequent = rows[pair, COUNT] >= limits.min_count
        if not is_frequent and len(heap_sizes) == 1:  # it is never merged
            continue
        pairs.used[POOL_END] += rows[pair, SIZE]
        rows[pair, START] = pairs.used[POOL_END]  # filled from the end, below
        if is_frequent:
            source = (rows[pair, KEY] & RIGHT) % len(heap_sizes)
            if heap_sizes[source] == sources.heaps.shape[1]:
                sources = _double_heaps(sources)
            heap = sources.heaps[source]
            heap_sizes[source] = _push(heap, heap_sizes[source], pair, rows, strings)

    for i in range(n_new - 1, -1, -1):
        pair = occurrences[i, PAIR]
        if pair != NO_PAIR and rows[pair, START] > 0:
            rows[pair, START] -= 1
            pairs.pool[rows[pair, START]] = occurrences[i, POSITION]
    return sources


# The hash table of pairs


@inlined
def _pair_key(left: int, right: int) -> int:
    return int((np.int64(left) << 32) | np.int64(right))


@inlined
def _find_slot(key: int, rows: LongArray, slots: IntArray) -> int:
    mask = len(slots) - 1
    slot = slot_of(key, mask)
    while slots[slot] != 0 and rows[slots[slot] - 1, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@inlined
def _find_pair(left: int, right: int, pairs: Pairs) -> int:
    slot = _find_slot(_pair_key(left, right), pairs.rows, pairs.slots)
    return int(pairs.slots[slot]) - 1


@inlined
def _find_or_add_pair(key: int, pairs: Pairs) -> int:
    slot = _find_slot(key, pairs.rows, pairs.slots)
    if pairs.slots[slot] == 0:
        pairs.rows[pairs.used[N_PAIRS], KEY] = key
        pairs.used[N_PAIRS] += 1
        pairs.slots[slot] = pairs.used[N_PAIRS]
    return int(pairs.slots[slot]) - 1


@borrowing
def _ensure_room(pairs: Pairs, n_pairs: int, n_positions: int) -> Pairs:
    """Return the pairs with room for this many more pairs and positions."""
    rows = pairs.rows
    slots = pairs.slots
    pool = pairs.pool
    used = pairs.used
    occurrences = pairs.occurrences

    if used[N_PAIRS] + n_pairs >= len(rows):
        rows = new_array(rows, (2 * (used[N_PAIRS] + n_pairs) + 1, 4))
        slots = new_array(slots, (table_size(len(rows)),))
        for pair in range(used[N_PAIRS]):
            for column in range(4):
                rows[pair, column] = pairs.rows[pair, column]
            slots[_find_slot(rows[pair, KEY], rows, slots)] = pair + 1
        free(pairs.rows)
        free(pairs.slots)
    if used[POOL_END] + n_positions > len(pool):
        pool = new_array(pool, (2 * (used[POOL_END] + n_positions),))
        copy_into(pool, 0, pairs.pool, 0, len(pairs.pool))
        free(pairs.pool)
    if n_positions > len(occurrences):
        free(occurrences)
        occurrences = new_array(occurrences, (2 * n_positions, 2))
    return Pairs(pairs.sequence, rows, slots, pool, used, occurrences)


# Heaps of pairs: the best pair is first, and the children of entry i are 2i + 1 and 2i + 2


@borrowing
def _pop_best_pair(
    heap: LongArray, size: int, rows: LongArray, strings: TokenStrings
) -> tuple[int, int]:
    """Return the best pair, or NO_PAIR, and the heap's new size."""
    while size > 0:
        pair = heap[0, PAIR]
        count = heap[0, COUNT]
        size = _pop(heap, size, rows, strings)
        if count == rows[pair, COUNT]:
            return pair, size
        if rows[pair, COUNT] > 0:
            size = _push(heap, size, pair, rows, strings)
    return NO_PAIR, size


@borrowing
def _push(heap: LongArray, size: int, pair: int, rows: LongArray, strings: TokenStrings) -> int:
    count = rows[pair, COUNT]
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if not _outranks(pair, count, heap[parent, PAIR], heap[parent, COUNT], rows, strings):
            break
        _set_entry(heap, i, heap[parent, PAIR], heap[parent, COUNT])
        i = parent
    _set_entry(heap, i, pair, count)
    return size + 1


@borrowing
def _pop(heap: LongArray, size: int, rows: LongArray, strings: TokenStrings) -> int:
    pair = heap[size - 1, PAIR]
    count = heap[size - 1, COUNT]
    i = 0
    child = 1
    while child < size - 1:
        best = heap[child, PAIR]
        best_count = heap[child, COUNT]
        if child + 2 < size:
            other = heap[child + 1, PAIR]
            if _outranks(other, heap[child + 1, COUNT], best, best_count, rows, strings):
                child += 1
                best = other
                best_count = heap[child, COUNT]
        if not _outranks(best, best_count, pair, count, rows, strings):
            break
        _set_entry(heap, i, best, best_count)
        i = child
        child = 2 * child + 1
    _set_entry(heap, i, pair, count)
    return size - 1


@borrowing
def _outranks(
    pair: int, count: int, other: int, other_count: int, rows: LongArray, strings: TokenStrings
) -> bool:
    if count != other_count:
        return count > other_count
    key = rows[pair, KEY]
    other_key = rows[other, KEY]
    order = compare_strings(strings, key >> 32, other_key >> 32)
    if order == 0:
        order = compare_strings(strings, key & RIGHT, other_key & RIGHT)
    return order > 0


@inlined
def _set_entry(heap: LongArray, i: int, pair: int, count: int) -> None:
    heap[i, PAIR] = pair
    heap[i, COUNT] = count


@inlined
def _with_heaps(sources: SourceState, heaps: LongCube) -> SourceState:
    return SourceState(sources.lengths, sources.n_pieces, sources.heap_sizes, heaps)


@borrowing
def _double_heaps(sources: SourceState) -> SourceState:
    heaps = sources.heaps
    longer = new_array(heaps, (len(heaps), 2 * heaps.shape[1], 2))
    for source in range(len(heaps)):
        for i in range(sources.heap_sizes[source]):
            _set_entry(longer[source], i, heaps[source, i, PAIR], heaps[source, i, COUNT])
    free(heaps)
    return _with_heaps(sources, longer)
