"""Learn BPE merges for several sources at once: the source that is compressed worst chooses each merge.

    worst source = greatest pieces / units;  of equal ones, the first
    best pair    = greatest (count in that source, left string, right string)

The merge is applied in all sources. With n sources, token t of source s is number t · n + s in the tables of
`volt.kernels.learn`. New pairs are no more frequent than those they come from, so a source whose best pair is too rare
never chooses again.
"""

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
    ends_with,
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
    _link_words,
    _list_pairs,
    _merge,
    _pair_slot,
    _place,
    _push,
    _push_new,
    _roomy,
    _slots_for,
)


@compiled
def _worst(pieces: LongArray, units: LongArray, sizes: LongArray) -> int:
    worst = -1
    for source in range(len(pieces)):
        if sizes[source] > 0 and (
            worst < 0 or pieces[source] / units[source] > pieces[worst] / units[worst]
        ):
            worst = source
    return worst


@compiled
def _with_room(heaps: LongArray, sizes: LongArray, room: int) -> LongArray:
    if room <= heaps.shape[1]:
        return heaps
    new = np.empty((len(sizes), 2 * room, 2), np.int64)
    for source in range(len(sizes)):
        for row in range(sizes[source]):
            new[source, row, 0], new[source, row, 1] = heaps[source, row, 0], heaps[source, row, 1]
    return new


@compiled
def _first_heaps(
    heaps: LongArray,
    sizes: LongArray,
    n_pairs: int,
    min_count: int,
    pairs: LongArray,
    texts: TokenStrings,
) -> LongArray:
    for pair in range(n_pairs):
        if pairs[pair, COUNT] >= min_count:
            source = (pairs[pair, KEY] & RIGHT) % len(sizes)
            heaps = _with_room(heaps, sizes, sizes[source] + 1)
            sizes[source] = _push(heaps[source], sizes[source], pair, pairs, texts)
    return heaps


def learn_parity(
    words: Words,
    texts: TokenStrings,
    final_atoms: ByteArray,
    marker: IntArray,
    units: LongArray,
    pieces: LongArray,
    n_merges: int,
    min_count: int,
    progress: LongArray,
) -> tuple[IntArray, IntArray]:
    """Learn up to `n_merges` merges, or fewer if no pair occurs `min_count` times in any source.

    words, texts: atom a of source s is the symbol a · n_sources + s
    units: the length of each source in units
    pieces: the length of each source in symbols
    Returns each merge's left and right token (merge k makes token n_atoms + k), and the source that chose the merge.
    """
    merges, chosen_by = np.zeros((n_merges, 2), np.int32), np.zeros(n_merges, np.int32)
    known = np.zeros((4, len(units) * (len(final_atoms) + n_merges + 1)), np.int64)
    final = np.concatenate([final_atoms, np.zeros(n_merges + 1, np.uint8)])
    heaps, sizes = np.zeros((len(units), 1, 2), np.int64), np.zeros(len(units), np.int64)
    n_done = learn_parity_merges(
        words,
        texts,
        len(final_atoms),
        final,
        marker,
        units,
        pieces.copy(),
        min_count,
        heaps,
        sizes,
        known,
        merges,
        chosen_by,
        progress,
    )
    return merges[:n_done], chosen_by[:n_done]


@loop
def learn_parity_merges(
    words: Words,
    texts: TokenStrings,
    n_atoms: int,
    final: ByteArray,
    marker: IntArray,
    units: LongArray,
    pieces: LongArray,
    min_count: int,
    heaps: LongCube,
    sizes: LongArray,
    known: LongTable,
    merges: IntTable,
    chosen_by: IntArray,
    progress: LongArray,
) -> int:
    n_done, n_merges, n = 0, len(merges), len(units)
    at = _link_words(words)
    pairs, n_pairs, pool, pool_end = _list_pairs(at, words.counts, n_atoms * n)
    slots, result = _slots_for(pairs, n_pairs), int_table(1 << 12, 2)
    heaps = _first_heaps(heaps, sizes, n_pairs, min_count, pairs, texts)

    while n_done < n_merges and progress[1] == 0:
        worst = _worst(pieces, units, sizes)
        if worst < 0:
            break
        pair, sizes[worst] = _best(heaps[worst], sizes[worst], pairs, texts)
        if pair < 0 or pairs[pair, COUNT] < min_count:
            sizes[worst] = 0
            continue
        left, right, new = (
            (pairs[pair, KEY] >> 32) // n,
            (pairs[pair, KEY] & RIGHT) // n,
            n_atoms + n_done,
        )
        for source in range(n):
            texts = append_text(texts, new * n + source, left * n, right * n)
        if final[right] == 0 and ends_with(texts, new * n, marker):
            continue
        final[new] = final[right]
        for source in range(n):
            pair = (
                slots[_pair_slot(pair_key(left * n + source, right * n + source), pairs, slots)] - 1
            )
            if pair < 0:  # it never occurred
                continue
            n_positions = pairs[pair, SIZE]
            positions = pool[pairs[pair, START] : pairs[pair, START] + n_positions]
            result, pairs, slots = _roomy(n_positions, new, n_pairs, result, pairs, slots)
            replaced, n_new, n_pairs = _merge(
                pair,
                new * n + source,
                n_done * n + source + 1,
                n_pairs,
                positions,
                at,
                words.counts,
                result,
                known,
                pairs,
                slots,
            )
            pieces[source] -= replaced
            if pool_end + n_new > len(pool):
                pool = grown_ints(pool, 2 * (pool_end + n_new))
            pool_end = _place(result, n_new, pool_end, pool, pairs)
            heaps = _with_room(heaps, sizes, sizes[source] + n_new)
            _, sizes[source] = _push_new(
                result, n_new, min_count, heaps[source], sizes[source], pairs, texts
            )
        merges[n_done, 0], merges[n_done, 1], chosen_by[n_done] = left, right, worst
        n_done += 1
        progress[0] = n_done
    return n_done
