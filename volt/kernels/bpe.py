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

from volt.kernels.hashing import IntArray, LongArray, build_slots, free_slot, grown, pair_key
from volt.kernels.texts import Texts, append_text, compare_texts, ends_with, intern_text

FlagArray = NDArray[Any]  # of uint8
SYMBOL, FOLLOWS, PRECEDES, WORD = 0, 1, 2, 3  # columns of the (n_symbols, 4) table of positions
RIGHT = 0xFFFFFFFF  # the low half of a pair key


class Words(NamedTuple):
    """The distinct words. symbols: (n_symbols,) int32 atoms, word after word; ends: (n_words,) int64, where each word's
    symbols end; counts: (n_words,) int64, > 0."""

    symbols: IntArray
    ends: LongArray
    counts: LongArray


class Pairs(NamedTuple):
    """What is known of each pair: key (left << 32 | right), count, the count last pushed to the heap (0: none), where
    its positions start in the pool and how many there are, whether it has been merged. All (room,)."""

    keys: LongArray
    counts: LongArray
    pushed: LongArray
    starts: LongArray
    sizes: IntArray
    merged: FlagArray


class Heap(NamedTuple):
    """A binary max-heap of pairs by the count that they had when they were pushed. All (room,)."""

    pairs: IntArray
    counts: LongArray


class Gains(NamedTuple):
    """The occurrences that one merge makes: pair and position of each (room,) int32; and, for the merge that is going
    on, the pair of each token with the merged pair's left part, right part, and (twice) with the new token:
    (4, n_tokens) int64, merge number << 32 | pair."""

    pairs: IntArray
    positions: IntArray
    known: LongArray


@njit(cache=True)
def _outranks(pair: int, count: int, other: int, other_count: int, keys: LongArray, texts: Texts) -> bool:
    """Whether `pair` comes before `other`: by count, then by the left string, then by the right one."""
    if count != other_count:
        return count > other_count
    order = compare_texts(texts, keys[pair] >> 32, keys[other] >> 32)
    if order == 0:
        order = compare_texts(texts, keys[pair] & RIGHT, keys[other] & RIGHT)
    return order > 0


@njit(cache=True)
def _push(heap: Heap, size: int, pair: int, count: int, keys: LongArray, texts: Texts) -> None:
    """Add an entry to a heap of `size` entries that has room for it."""
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if not _outranks(pair, count, heap.pairs[parent], heap.counts[parent], keys, texts):
            break
        heap.pairs[i], heap.counts[i] = heap.pairs[parent], heap.counts[parent]
        i = parent
    heap.pairs[i], heap.counts[i] = pair, count


@njit(cache=True)
def _pop(heap: Heap, size: int, keys: LongArray, texts: Texts) -> None:
    """Remove the first of a heap's `size` entries."""
    pair, count = heap.pairs[size - 1], heap.counts[size - 1]
    i, child = 0, 1
    while child < size - 1:
        if child + 2 < size and _outranks(
            heap.pairs[child + 1], heap.counts[child + 1], heap.pairs[child], heap.counts[child], keys, texts
        ):
            child += 1
        if not _outranks(heap.pairs[child], heap.counts[child], pair, count, keys, texts):
            break
        heap.pairs[i], heap.counts[i] = heap.pairs[child], heap.counts[child]
        i, child = child, 2 * child + 1
    heap.pairs[i], heap.counts[i] = pair, count


@njit(cache=True)
def _best(heap: Heap, size: int, pairs: Pairs, texts: Texts) -> tuple[int, int]:
    """The best pair, taken off the heap (−1: none is left), and the heap's new size. Outdated entries are refreshed."""
    while size > 0:
        pair, count = heap.pairs[0], heap.counts[0]
        _pop(heap, size, pairs.keys, texts)
        size -= 1
        if count != pairs.pushed[pair]:
            continue  # pushed again since, with a higher count
        pairs.pushed[pair] = pairs.counts[pair]
        if count == pairs.counts[pair]:
            return pair, size
        if pairs.counts[pair] > 0:
            _push(heap, size, pair, pairs.counts[pair], pairs.keys, texts)
            size += 1
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
def _empty_pairs(room: int) -> Pairs:
    """Room for pairs."""
    return Pairs(
        np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int64),
        np.zeros(room, np.int64), np.zeros(room, np.int32), np.zeros(room, np.uint8),
    )  # fmt: skip


@njit(cache=True)
def _resized(pairs: Pairs, n_pairs: int, room: int) -> tuple[Pairs, IntArray]:
    """The first `n_pairs` pairs with new room, and a table of their keys to match."""
    new, n_slots = _empty_pairs(room), 1 << 12
    new.keys[:n_pairs], new.counts[:n_pairs] = pairs.keys[:n_pairs], pairs.counts[:n_pairs]
    new.pushed[:n_pairs], new.starts[:n_pairs] = pairs.pushed[:n_pairs], pairs.starts[:n_pairs]
    new.sizes[:n_pairs], new.merged[:n_pairs] = pairs.sizes[:n_pairs], pairs.merged[:n_pairs]
    while n_slots < 2 * room:
        n_slots *= 2
    return new, build_slots(new.keys, n_pairs, n_slots)


@njit(cache=True, inline="always")
def _find_pair(key: int, n_pairs: int, keys: LongArray, slots: IntArray) -> int:
    """The number of the pair with this key; `n_pairs`, the next free one, if the key is new."""
    slot = free_slot(slots, keys, key)
    if slots[slot] == 0:
        slots[slot] = n_pairs + 1
        keys[n_pairs] = key
    return int(slots[slot]) - 1


@njit(cache=True)
def _place(pair_at: IntArray, positions: IntArray, first: int, pool: IntArray, pairs: Pairs) -> int:
    """Write positions to the pool from `first` (> 0) on, grouped by their pairs (−1: none) in the order given; where
    the pool is free afterwards. Lists that these pairs had before are given up."""
    for pair in pair_at:
        if pair >= 0 and pairs.starts[pair] < first:
            pairs.starts[pair], pairs.sizes[pair] = first, 0
    for pair in pair_at:
        if pair >= 0:
            pairs.sizes[pair] += 1
    end = first
    for pair in pair_at:
        if pair >= 0 and pairs.starts[pair] == first and pairs.sizes[pair] > 0:
            end += pairs.sizes[pair]
            pairs.starts[pair], pairs.sizes[pair] = end, -pairs.sizes[pair]
    for i in range(len(pair_at) - 1, -1, -1):
        if pair_at[i] >= 0:
            pairs.starts[pair_at[i]] -= 1
            pool[pairs.starts[pair_at[i]]] = positions[i]
    for pair in pair_at:
        if pair >= 0:
            pairs.sizes[pair] = abs(pairs.sizes[pair])
    return end


@njit(cache=True)
def _number_pairs(at: IntArray, counts: LongArray, pairs: Pairs, slots: IntArray, pair_at: IntArray) -> int:
    """Write the pair at each position (−1: none) to `pair_at` and sum the counts of pairs; how many there are."""
    n_pairs = 0
    for p in range(len(at)):
        if at[p, FOLLOWS] >= 0:
            pair = _find_pair(pair_key(at[p, SYMBOL], at[p + 1, SYMBOL]), n_pairs, pairs.keys, slots)
            n_pairs = max(n_pairs, pair + 1)
            pairs.counts[pair] += counts[at[p, WORD]]
            pair_at[p] = pair
    return n_pairs


@njit(cache=True)
def _list_pairs(at: IntArray, counts: LongArray, n_atoms: int) -> tuple[Pairs, int, IntArray, IntArray, int]:
    """All pairs of the words, how many there are, the table of their keys, the pool of positions and its free end."""
    room = min(n_atoms * n_atoms, len(at)) + 1
    n_slots = 1 << 12
    while n_slots < 2 * room:
        n_slots *= 2
    slots, pair_at = np.zeros(n_slots, np.int32), np.full(len(at), -1, np.int32)
    pairs = _empty_pairs(room)
    n_pairs = _number_pairs(at, counts, pairs, slots, pair_at)
    pairs, slots = _resized(pairs, n_pairs, 2 * n_pairs + 1)
    pool = np.empty(2 * len(at) + 1, np.int32)
    return pairs, n_pairs, slots, pool, _place(pair_at, np.arange(len(at)).astype(np.int32), 1, pool, pairs)


@njit(cache=True, inline="always")
def _known_pair(
    role: int,
    token: int,
    key: int,
    stamp: int,
    n_pairs: int,
    known: LongArray,
    keys: LongArray,
    slots: IntArray,
) -> int:
    """_find_pair, remembered for this merge under the role and token."""
    entry = known[role, token]
    if entry >> 32 == stamp:
        return int(entry & RIGHT)
    pair = _find_pair(key, n_pairs, keys, slots)
    known[role, token] = (np.int64(stamp) << 32) | pair
    return pair


@njit(cache=True)
def _merge(
    pair: int, new: int, stamp: int, n_pairs: int, positions: IntArray,
    at: IntArray, counts: LongArray, gains: Gains, pairs: Pairs, slots: IntArray,
) -> tuple[int, int, int]:  # fmt: skip
    """Replace the pair by `new` wherever `positions` still hold it. Returns the replacements weighted by word count,
    how many occurrences of pairs that made (listed in `gains`), and how many pairs there are now."""
    left, right = pairs.keys[pair] >> 32, pairs.keys[pair] & RIGHT
    replaced = n_gains = 0
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
            lost = _known_pair(0, token, pair_key(token, left), stamp, n_pairs, gains.known, pairs.keys, slots)
            gained = _known_pair(2, token, pair_key(token, new), stamp, n_pairs, gains.known, pairs.keys, slots)
            n_pairs = max(n_pairs, gained + 1)
            pairs.counts[lost] -= count
            pairs.counts[gained] += count
            gains.pairs[n_gains], gains.positions[n_gains], n_gains = gained, before, n_gains + 1
        if after >= 0:
            at[after, PRECEDES] = p
            token = at[after, SYMBOL]
            lost = _known_pair(1, token, pair_key(right, token), stamp, n_pairs, gains.known, pairs.keys, slots)
            gained = _known_pair(3, token, pair_key(new, token), stamp, n_pairs, gains.known, pairs.keys, slots)
            n_pairs = max(n_pairs, gained + 1)
            pairs.counts[lost] -= count
            pairs.counts[gained] += count
            gains.pairs[n_gains], gains.positions[n_gains], n_gains = gained, p, n_gains + 1
    pairs.counts[pair] -= replaced
    return replaced, n_gains, n_pairs


@njit(cache=True)
def _with_earlier(n_gains: int, n_old: int, gains: Gains, pool: IntArray, pairs: Pairs) -> tuple[Gains, int]:
    """The gains, to which the present positions of gained pairs below `n_old` are added: those pairs have lists
    already, because their tokens were made before, by another merge that spells the same."""
    n = n_gains
    for i in range(n_gains):
        pair = gains.pairs[i]
        if pair < n_old and pairs.sizes[pair] > 0:
            size, start = pairs.sizes[pair], pairs.starts[pair]
            if n + size > len(gains.pairs):
                room = 2 * (n + size)
                gains = Gains(grown(gains.pairs, room), grown(gains.positions, room), gains.known)
            gains.pairs[n : n + size] = pair
            gains.positions[n : n + size] = pool[start : start + size]
            n, pairs.sizes[pair] = n + size, 0
    return gains, n


@njit(cache=True)
def _push_gained(
    pair_at: IntArray, min_count: int, heap: Heap, size: int, pairs: Pairs, texts: Texts
) -> tuple[Heap, int]:
    """The heap, and its size, with every pair that now has a higher count than when it was last pushed."""
    for pair in pair_at:
        count = pairs.counts[pair]
        if count >= min_count and count > pairs.pushed[pair]:
            if size == len(heap.pairs):
                heap = Heap(grown(heap.pairs, 2 * size), grown(heap.counts, 2 * size))
            pairs.pushed[pair] = count
            _push(heap, size, pair, count, pairs.keys, texts)
            size += 1
    return heap, size


@njit(cache=True)
def _intern_atoms(n_atoms: int, n_merges: int, texts: Texts) -> tuple[IntArray, LongArray]:
    """A table of token strings with the atoms entered, and the hashes of the strings; both with room for all merges."""
    n_slots = 1 << 12
    while n_slots < 2 * (n_atoms + n_merges + 1):
        n_slots *= 2
    slots, hashes = np.zeros(n_slots, np.int32), np.zeros(n_atoms + n_merges + 1, np.int64)
    for token in range(n_atoms):
        intern_text(slots, hashes, texts, token)
    return slots, hashes


@njit(cache=True, nogil=True)
def learn(
    words: Words, texts: Texts, final_atoms: FlagArray, marker: IntArray,
    n_merges: int, min_count: int, progress: LongArray,
) -> tuple[IntArray, IntArray, IntArray, LongArray, bool]:  # fmt: skip
    """Learn up to `n_merges` merges, fewer where no pair occurs `min_count` times.

    texts: the atoms' strings, with room for n_merges + 1 more starts
    final_atoms: (n_atoms,) which atoms carry the end-of-word marker, whose code points are `marker`; a merge that
        would make a token without the mark read as if it carried it is never made
    progress: (2,) int64: [0] counts merges for a watching thread, [1] is set by it to stop the loop
    Returns the left, right and resulting token of each merge (n,) int32, the replacements weighted by word count
    (n,) int64, and whether a pair came up again in some word after it had been merged (encoding would then merge it
    at once; learning does not).
    """
    n_tokens, n_done, irregular = len(final_atoms), 0, False
    merges, replacements = np.empty((3, n_merges), np.int32), np.empty(n_merges, np.int64)
    final = np.zeros(n_tokens + n_merges + 1, np.uint8)
    final[:n_tokens] = final_atoms
    token_slots, hashes = _intern_atoms(n_tokens, n_merges, texts)
    at = _link_words(words)
    pairs, n_pairs, slots, pool, pool_end = _list_pairs(at, words.counts, n_tokens)
    heap, size = Heap(np.zeros(n_pairs + 1, np.int32), np.zeros(n_pairs + 1, np.int64)), 0
    heap, size = _push_gained(np.arange(n_pairs).astype(np.int32), min_count, heap, size, pairs, texts)
    known = np.full((4, n_tokens + n_merges + 1), -1, np.int64)
    gains = Gains(np.empty(1 << 12, np.int32), np.empty(1 << 12, np.int32), known)

    while n_done < n_merges and progress[1] == 0:
        pair, size = _best(heap, size, pairs, texts)
        if pair < 0 or pairs.counts[pair] < min_count:
            break
        left, right = pairs.keys[pair] >> 32, pairs.keys[pair] & RIGHT
        texts = append_text(texts, n_tokens, left, right)
        if final[right] == 0 and ends_with(texts, n_tokens, marker):
            continue
        new = intern_text(token_slots, hashes, texts, n_tokens)
        if new == n_tokens:
            final[new] = final[right]
            n_tokens += 1
        positions = pool[pairs.starts[pair] : pairs.starts[pair] + pairs.sizes[pair]]
        if left == right:
            positions.sort()  # overlapping occurrences are replaced from left to right
        if 2 * len(positions) > len(gains.pairs):
            gains = Gains(np.empty(4 * len(positions), np.int32), np.empty(4 * len(positions), np.int32), known)
        n_more = 2 * min(len(positions), n_tokens)
        if n_pairs + n_more > len(pairs.keys):
            pairs, slots = _resized(pairs, n_pairs, 2 * (n_pairs + n_more))
        n_old, pairs.merged[pair] = n_pairs, 1
        replaced, n_gains, n_pairs = _merge(
            pair, new, n_done, n_pairs, positions, at, words.counts, gains, pairs, slots
        )
        if new != n_tokens - 1:
            gains, n_gains = _with_earlier(n_gains, n_old, gains, pool, pairs)
            irregular = irregular or bool(pairs.merged[gains.pairs[:n_gains]].any())
        if pool_end + n_gains > len(pool):
            pool = grown(pool, 2 * (pool_end + n_gains))
        pool_end = _place(gains.pairs[:n_gains], gains.positions[:n_gains], pool_end, pool, pairs)
        heap, size = _push_gained(gains.pairs[:n_gains], min_count, heap, size, pairs, texts)
        merges[0, n_done], merges[1, n_done], merges[2, n_done] = left, right, new
        replacements[n_done] = replaced
        n_done += 1
        progress[0] = n_done
    return merges[0, :n_done], merges[1, :n_done], merges[2, :n_done], replacements[:n_done], irregular
