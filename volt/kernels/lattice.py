"""Sample segmentations of lines with SentencePiece models.

    join_lines    a BPE model     each pair is drawn once, and skipped with a probability (sentencepiece's BPE-dropout)
    draw_paths    a unigram model a random path, with a probability in proportion to the product of its pieces' weights

For a unigram model, positions 0 to n lie between the n bytes of a word, with a space for each "▁". A
*node* is a piece from one position to another, and a *path* is a sequence of nodes from 0 to n, which
is a segmentation. With β(n) = 1, the sum over all paths from a position is computed from right to left,

    β(i) = Σ weight · β(j) over all nodes from i to j

and a path is drawn from left to right: a node from i to j with the probability weight · β(j) / β(i).
The n best paths are in `volt.kernels.best_paths`.
"""

from __future__ import annotations

from math import inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.kernels.apply_bpe import (
    Word,
    WordBuffers,
    link_word,
    merge_at,
    pop,
    push,
    random,
    rank_at,
    split_back,
)
from volt.kernels.arrays import (
    ByteArray,
    FloatTable,
    IntArray,
    KeyArray,
    LongArray,
    TextArray,
    slot_of,
)
from volt.kernels.bpe_tables import NO_RANK
from volt.kernels.jit import borrowing, inlined, releasing
from volt.kernels.trie import (
    SPACE,
    Trie,
    character_size,
    copy_word,
    next_piece,
    unknown_symbol,
)

_STEP = 256
_BASE = 2.0**_STEP
_GREATEST = 2.0 ** (_STEP / 2)  # the greatest size of a number
_MOST_LOG = 2.0**50  # of a weight
_WORD_END = 0xFF  # occurs nowhere in UTF-8
_ROOM = 1 << 17  # positions for words that may occur again
_NODES_OF_POSITION = 4  # of these words, on average
_N_SLOTS = 1 << 14

# BPE models


class JoinTable(NamedTuple):
    pairs: KeyArray  # two symbols → a row, as in volt.kernels.bpe_tables
    results: IntArray  # (n_rows,), the piece that a row makes
    # (n_rows,), the pair with the lowest is joined first, of equal ones the leftmost
    orders: IntArray
    retained: ByteArray  # (n_symbols,), 0 for a piece that is split back into the two that it was joined from


@releasing
def join_lines(
    symbols: IntArray,
    ends: LongArray,
    joins: JoinTable,
    parts: LongArray,
    dropout: float,
    states: LongArray,
    room: WordBuffers,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Write the pieces of lines, and where each line's pieces end. Return the number of pieces.

    symbols, ends: the characters of all lines, and where each line ends
    parts: (n_symbols,), overwritten with the two symbols that each joined piece consists of
    states: the first state of each line's random generator, overwritten
    """
    word = room.word
    n_out = start = 0
    for line in range(len(ends)):
        n = ends[line] - start
        link_word(symbols[start : ends[line]], word)
        for p in range(n - 1):
            _push_join(p, word, joins, parts)
        _join_pairs(word, joins, parts, dropout, states[line : line + 1])

        p = 0 if n > 0 else -1
        while p >= 0:
            n_out = split_back(word.symbols[p], joins.retained, parts, out, n_out, room.stack)
            p = word.follows[p]
        start = ends[line]
        out_ends[line] = n_out
    return n_out


@borrowing
def _join_pairs(
    word: Word, joins: JoinTable, parts: LongArray, dropout: float, state: LongArray
) -> None:
    """Join the symbols of a line. Each pair is drawn once, so a skipped pair joins only if it forms
    anew."""
    while word.heap[0] > 0:
        entry = pop(word.heap)
        p = entry & 0xFFFFFFFF
        row = rank_at(p, word, joins.pairs)
        if row == NO_RANK or joins.orders[row] != entry >> 32 or random(state) < dropout:
            continue
        merge_at(p, joins.results[row], word)
        _push_join(word.precedes[p], word, joins, parts)
        _push_join(p, word, joins, parts)


@borrowing
def _push_join(p: int, word: Word, joins: JoinTable, parts: LongArray) -> None:
    """Push the pair at p to the heap, if it can be joined."""
    row = rank_at(p, word, joins.pairs)
    if row == NO_RANK:
        return
    piece = joins.results[row]
    if joins.retained[piece] == 0:
        right = word.symbols[word.follows[p]]
        parts[piece] = (np.int64(word.symbols[p]) << 32) | np.int64(right)
    push(word.heap, int((np.int64(joins.orders[row]) << 32) | np.int64(p)))


# Unigram models


# A weight is number · 2 ** (256 · exponent), and so are sums and products of weights, which thus neither
# overflow nor vanish. They are pairs of floats, and the exponents are 0 unless alpha is large. Numbers
# are from 2 ** −128 to 2 ** 128, and products of two from 2 ** −256 to 2 ** 256.


def weights_of(scores: NDArray[np.float64]) -> FloatTable:
    """Return (n, 2) the weights exp(score). scores: (n,)"""
    logs = np.clip(scores / log(2), -_MOST_LOG, _MOST_LOG)
    exponents = np.rint(logs / _STEP)
    return np.column_stack([np.exp2(logs - _STEP * exponents), exponents])


@inlined
def _scale(number: float, exponent: float) -> float:
    """Return number · 2 ** (256 · exponent)."""
    while exponent > 0.0:
        number *= _BASE
        exponent -= 1.0
    while exponent < 0.0 and number > 0.0:
        number *= 1 / _BASE
        exponent += 1.0
    return number


class Lattice(NamedTuple):
    """The nodes of one or several words, by the position where they start. A word of n bytes takes
    n + 1 positions."""

    most_nodes: int  # that start at a position
    used: LongArray  # (2,), how many positions and nodes are in use
    text: ByteArray  # (n_positions,), the words, with 0xFF after each
    bounds: IntArray  # (n_positions,), the nodes bounds[i] to bounds[i + 1] − 1 start at position i
    ends: IntArray  # (n_nodes,), the position where each node ends
    symbols: IntArray  # (n_nodes,), the piece, or −1 − 2 · code point for an unknown character
    # (n_nodes, 2), the node's part of the sum where it starts; or how much worse the best path with
    # this node is than the best one from where it starts
    parts: FloatTable
    # (n_positions, 2), the sum over all paths from each position; or the greatest score of a path, and
    # the least that another node on this path loses
    sums: FloatTable
    best: IntArray  # (n_positions,), the first node of the best path from each position
    words: IntArray  # (n_slots,), where the last word with this hash starts, or −1


def lattice_of(n_bytes: int, longest_piece: int) -> Lattice:
    """Return working memory for words of at most so many bytes.

    longest_piece: the characters of the longest piece
    """
    n = n_bytes + _ROOM
    n_nodes = (n_bytes + 1) * (longest_piece + 1) + _NODES_OF_POSITION * _ROOM  # mostly not touched
    bounds, best = np.empty((2, n), np.int32)
    ends, symbols = np.empty((2, n_nodes), np.int32)
    return Lattice(
        most_nodes=longest_piece + 1,
        used=np.zeros(2, np.int64),
        text=np.empty(n, np.uint8),
        bounds=bounds,
        ends=ends,
        symbols=symbols,
        parts=np.empty((n_nodes, 2)),
        sums=np.empty((n, 2)),
        best=best,
        words=np.full(_N_SLOTS, -1, np.int32),
    )


@borrowing
def find_nodes(text: ByteArray, first: int, end: int, trie: Trie, lattice: Lattice) -> int:
    """List the nodes of the word text[first:end]. Return the position where it starts."""
    n_positions = lattice.used[0]
    n_nodes = lattice.used[1]
    shift = n_positions - first
    for start in range(first, end):
        byte = text[start]
        lattice.text[start + shift] = byte
        lattice.bounds[start + shift] = n_nodes
        if byte & 0xC0 == 0x80:  # inside a character
            continue
        character_end = start + character_size(byte)
        is_known = False
        piece, p, unit = next_piece(text, start, end, trie.units[0], trie)
        while piece >= 0:
            is_known = is_known or p == character_end
            lattice.symbols[n_nodes] = piece
            lattice.ends[n_nodes] = p + shift
            n_nodes += 1
            piece, p, unit = next_piece(text, p, end, unit, trie)
        if not is_known:
            lattice.symbols[n_nodes] = unknown_symbol(text, start, end)
            lattice.ends[n_nodes] = character_end + shift
            n_nodes += 1
    lattice.text[end + shift] = _WORD_END
    lattice.bounds[end + shift] = n_nodes
    lattice.used[0] = end + shift + 1
    lattice.used[1] = n_nodes
    return int(n_positions)


@releasing
def draw_paths(
    data: TextArray,
    starts: LongArray,
    ends: LongArray,
    is_marked: bool,
    cuts_words: bool,
    trie: Trie,
    weights: FloatTable,
    states: LongArray,
    text: ByteArray,
    lattice: Lattice,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Draw a path for each line. Write its symbols, and where they end. Return the number of symbols.

    data: UTF-8;  starts, ends: of the lines in it
    is_marked: whether a "▁" is put before each line that is not empty
    cuts_words: whether each "▁" after another character starts a piece, so that words are drawn alone
    weights: (n_symbols + 1, 2), the weight of each piece; that of an unknown character is last
    states: the first state of each line's random generator, overwritten
    text, lattice: working memory
    """
    n_out = 0
    for line in range(len(ends)):
        n = 0
        if starts[line] < ends[line]:
            n = copy_word(data, starts[line], ends[line], is_marked, text)
        first = 0
        for p in range(1, n + 1):
            is_cut = cuts_words and p < n and text[p] == SPACE and text[p - 1] != SPACE
            if is_cut or p == n:
                start = _enter_word(text, first, p, trie, weights, lattice)
                end = start + p - first
                n_out = _draw_path(start, end, lattice, states[line : line + 1], out, n_out)
                first = p
        out_ends[line] = n_out
    return n_out


@borrowing
def _enter_word(
    text: ByteArray, first: int, end: int, trie: Trie, weights: FloatTable, lattice: Lattice
) -> int:
    """Enter the word text[first:end] into the lattice, unless it is there. Return the position where
    it starts."""
    hashed = np.int64(0)
    for p in range(first, end):
        hashed = (hashed * 31 + text[p]) & 0xFFFFFFFF
    slot = slot_of(int(hashed), len(lattice.words) - 1)
    start = lattice.words[slot]
    if start >= 0:
        p = first
        while p < end and lattice.text[start + p - first] == text[p]:
            p += 1
        if p == end and lattice.text[start + p - first] == _WORD_END:
            return int(start)

    n = end - first
    n_nodes = lattice.used[1] + n * lattice.most_nodes
    if lattice.used[0] + n >= len(lattice.bounds) or n_nodes > len(lattice.ends):
        lattice.used[:] = 0
        lattice.words[:] = -1
    start = find_nodes(text, first, end, trie, lattice)
    _add_weights(start, start + n, weights, lattice)
    lattice.words[slot] = start
    return int(start)


@borrowing
def _add_weights(first: int, last: int, weights: FloatTable, lattice: Lattice) -> None:
    """Compute the sum over all paths from each position to the last one."""
    lattice.sums[last, 0] = 1.0
    lattice.sums[last, 1] = 0.0
    unknown = len(weights) - 1
    for start in range(last - 1, first - 1, -1):
        total = 0.0
        exponent = -inf
        for node in range(lattice.bounds[start], lattice.bounds[start + 1]):
            end = lattice.ends[node]
            symbol = lattice.symbols[node]
            if symbol < 0:
                symbol = unknown
            part = weights[symbol, 0] * lattice.sums[end, 0]
            part_exponent = weights[symbol, 1] + lattice.sums[end, 1]
            lattice.parts[node, 0] = part
            lattice.parts[node, 1] = part_exponent
            if part_exponent > exponent:
                total = _scale(total, exponent - part_exponent)
                exponent = part_exponent
            total += _scale(part, part_exponent - exponent)
        if total > _GREATEST:
            total *= 1 / _BASE
            exponent += 1.0
        elif total < 1 / _GREATEST:
            total *= _BASE
            exponent -= 1.0
        lattice.sums[start, 0] = total
        lattice.sums[start, 1] = exponent


@borrowing
def _draw_path(
    position: int, end: int, lattice: Lattice, state: LongArray, out: IntArray, n_out: int
) -> int:
    """Draw a path to a position, and write its symbols to out[n_out:]. Return where they end."""
    while position < end:
        node = lattice.bounds[position]
        last = lattice.bounds[position + 1] - 1
        if node < last:
            exponent = lattice.sums[position, 1]
            remaining = random(state) * lattice.sums[position, 0]
            remaining -= _scale(lattice.parts[node, 0], lattice.parts[node, 1] - exponent)
            while remaining >= 0.0 and node < last:
                node += 1
                remaining -= _scale(lattice.parts[node, 0], lattice.parts[node, 1] - exponent)
        out[n_out] = lattice.symbols[node]
        n_out += 1
        position = lattice.ends[node]
    return n_out
