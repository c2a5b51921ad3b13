"""A trie over the pieces of a unigram model, and the best path of a word through it (Kudo 2018).

The trie is a double array (Aoe 1989) over the UTF-8 bytes of the pieces, with a space for each "▁":
an array of 64-bit units. A node is the index of a unit, and the root is unit 0.

    bits 32–63  base: the child of a node by a byte is unit base ^ byte
    bits  9–31  the symbol of the piece that ends at this node, + 1; 0 if none does
    bits  0– 8  256 + the last byte of the way to this node; 0 for a unit that is not in use

No two nodes have one base, so the last byte shows whether a unit is a child of the node.

A *path* cuts a word into pieces and unknown characters. Its score is the sum of their scores. The
best path to each position is found from left to right. A later candidate replaces an earlier one
only if its score is greater, so that, of equal paths, the one with the longer last piece remains, as
in sentencepiece and `tokenizers`.

sentencepiece adds scores along a line, in single precision, so that rounding, and thus the best path
of a word, may depend on the sum S of the scores before it. The *gap* of a word is how much worse any
other candidate is than the one that is chosen. A path to a position in a word of n bytes has at most n
sums, and a sum whose size is below 2^k is rounded by at most 2^(k − 25). So two candidates approach
each other by at most n · 2^(k − 24), and the path is the same for every S if this is less than the
gap. No sum is beyond |S| + n · (the largest size of a score). The greatest |S| for which the path is
certain, in steps of `LEVEL_STEP`, is the *level* of the word. It stands in the first of the word's
*marked symbols*:

    bits 24–30  1 + level for the first symbol of a word, 0 for others
    bit  23     1 for an unknown character
    bits  0–22  the symbol of a piece, or the code point of an unknown character

`follow_lines` (volt.kernels.encode_units) adds the scores of a line's symbols, and finds the path of a
word again if the sum has reached its level. No level is beyond 100,000: when a sum at the start of a
piece is, sentencepiece subtracts it from all sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.kernels.arrays import ByteArray, FloatArray, IntArray, KeyArray, LongArray, TextArray
from volt.kernels.intrinsics import character
from volt.kernels.jit import borrowing, inlined, releasing

MOST_PIECES = (1 << 23) - 2
SPACE = 0x20  # stands for "▁" in the trie
SPACE_CODE = 0x2581
_MARK = chr(SPACE_CODE)
_BLOCK = 256  # units that a node may have children in
# Where nodes without children look for one; its units stay free
_NOWHERE = _BLOCK
_LABEL, _IN_USE = np.uint64(0x1FF), np.uint64(0x100)
_BASE_SHIFT, _PIECE_SHIFT = np.uint64(32), np.uint64(9)
_PIECE_BITS = np.uint64((1 << 23) - 1)
_U0, _U1 = np.uint64(0), np.uint64(1)
# Free units that are tried for the children of a node, before a new block is used
_MOST_TRIES = 256
FULL = -1  # returned instead of a number of units
_MOST_SINGLE = 100_000.0  # a sum beyond this is subtracted from all sums, as in sentencepiece
_LARGEST_POWER = 131_072.0  # the first power of two above it
_ROUNDING = 1 << 24  # a sum below 2^k is rounded by at most half of 2^k / _ROUNDING
LEVEL_STEP = 800.0
TOP_LEVEL = 125  # the level of a word that is a line
IS_UNKNOWN, FIRST_OF_WORD = 1 << 23, 1 << 24
LEVEL_SHIFT = 24


class Trie(NamedTuple):
    units: KeyArray  # (n_units,) uint64, see above; (0,) if there is no unigram model
    scores: FloatArray  # (n_symbols,) float64, the score of each piece
    sizes: IntArray  # (n_symbols,) int32, the bytes of each piece, with one for each "▁"
    unknown: float  # the score of an unknown character


class PathRoom(NamedTuple):
    """Working memory for the best path of a word."""

    text: ByteArray  # the word, with a space for each "▁"
    sums: FloatArray  # (n + 1,) float64, the score of the best path to each byte
    gaps: FloatArray  # (n + 1,), how much worse the second candidate is
    symbols: IntArray  # (n + 1,), the symbol of that path's last piece, or −1 − code
    starts: IntArray  # (n + 1,), where the last piece starts


def no_trie() -> Trie:
    return Trie(np.zeros(0, np.uint64), np.zeros(0), np.zeros(0, np.int32), 0.0)


def path_room(n_bytes: int) -> PathRoom:
    """Return working memory for words of at most so many bytes."""
    n = n_bytes + 1
    return PathRoom(
        text=np.zeros(n + 8, np.uint8),
        sums=np.empty(n),
        gaps=np.empty(n),
        symbols=np.empty(n, np.int32),
        starts=np.empty(n, np.int32),
    )


# Build a trie


class Free(NamedTuple):
    """The free units, as a ring of links, and the bases in use."""

    following: IntArray  # (n_units,), the next free unit, of a free unit
    before: IntArray
    has_base: ByteArray  # (n_units,), 1 for each base of a node


def trie_of(pieces: Sequence[str], scores: NDArray[np.float64], unknown: float) -> Trie:
    """Return the trie of distinct pieces, whose symbols are their indices.

    It lacks pieces with U+0020, which no word contains.

    scores: (n_pieces,) float64, the score of each piece
    unknown: the score of an unknown character
    """
    spelled = [piece.replace(_MARK, " ").encode("utf-8", "surrogatepass") for piece in pieces]
    symbols = [symbol for symbol, piece in enumerate(pieces) if " " not in piece]
    order = sorted(symbols, key=spelled.__getitem__)
    ends = np.cumsum([len(spelled[symbol]) for symbol in order], dtype=np.int64)
    text = np.frombuffer(b"".join(map(spelled.__getitem__, order)) + b"\0", np.uint8).copy()
    longest = max(map(len, spelled), default=0)
    stack = np.empty(4 * _BLOCK * (longest + 2), np.int64)
    n_units = 1024
    while True:
        n_units = 2 * (n_units + len(text))
        units = np.zeros(n_units, np.uint64)
        following, before = np.empty((2, n_units), np.int32)
        free = Free(following, before, np.zeros(n_units, np.uint8))
        n_used = fill_trie(text, ends, np.array(order, np.int64), units, free, stack)
        if n_used != FULL:
            sizes = np.fromiter(map(len, spelled), np.int32, len(spelled))
            return Trie(units[:n_used], scores, sizes, unknown)


@releasing
def fill_trie(
    text: ByteArray,
    ends: LongArray,
    symbols: LongArray,
    units: KeyArray,
    free: Free,
    stack: LongArray,
) -> int:
    """Enter sorted pieces into a trie. Return the number of units in use, or FULL.

    text, ends: the pieces, and where each ends;  symbols: their symbols
    stack: working memory: node, depth, first piece and the piece after the last, of open nodes
    """
    n_units = 2 * _BLOCK  # the root's block, and the block without children
    free.following[0] = free.before[0] = 0  # unit 0 is the ring's anchor: the root is never free
    free.has_base[_NOWHERE] = 1
    units[0] = np.uint64(_NOWHERE) << _BASE_SHIFT
    labels = stack[len(stack) - _BLOCK :]
    n_open = 0
    if len(ends) > 0:
        n_open = _push(0, 0, 0, len(ends), stack, n_open)
    while n_open > 0:
        n_open -= 1
        node, depth = stack[4 * n_open], stack[4 * n_open + 1]
        first, after = stack[4 * n_open + 2], stack[4 * n_open + 3]
        if ends[first] - _start_of(first, ends) == depth:  # the shortest piece is first
            units[node] |= np.uint64(symbols[first] + 1) << _PIECE_SHIFT
            first += 1
        if first == after:
            units[node] |= np.uint64(_NOWHERE) << _BASE_SHIFT
            continue

        n_labels = _list_labels(first, after, depth, text, ends, labels)
        base = _find_base(labels, n_labels, units, free)
        if base < 0:
            if n_units + _BLOCK > len(units):
                return FULL
            base = n_units
            for unit in range(n_units, n_units + _BLOCK):
                _link(unit, free)
            n_units += _BLOCK
        free.has_base[base] = 1
        units[node] = (units[node] & np.uint64(0xFFFFFFFF)) | np.uint64(base) << _BASE_SHIFT
        for i in range(n_labels):
            child = base ^ labels[i]
            _unlink(child, free)
            units[child] = np.uint64(labels[i]) | _IN_USE
            start = first
            while first < after and text[_start_of(first, ends) + depth] == labels[i]:
                first += 1
            n_open = _push(child, depth + 1, start, first, stack, n_open)
    return n_units


@inlined
def _start_of(piece: Any, ends: LongArray) -> Any:
    return ends[piece - 1] if piece > 0 else np.int64(0)


@inlined
def _push(node: Any, depth: Any, first: Any, after: Any, stack: LongArray, n_open: int) -> int:
    """Open a node whose pieces are from `first` on. Return the new number of open nodes."""
    stack[4 * n_open] = node
    stack[4 * n_open + 1] = depth
    stack[4 * n_open + 2] = first
    stack[4 * n_open + 3] = after
    return n_open + 1


@borrowing
def _list_labels(
    first: int, after: int, depth: int, text: ByteArray, ends: LongArray, labels: LongArray
) -> int:
    """Write the distinct bytes at this depth of sorted pieces. Return their number."""
    n = 0
    for piece in range(first, after):
        label = np.int64(text[_start_of(piece, ends) + depth])
        if n == 0 or labels[n - 1] != label:
            labels[n] = label
            n += 1
    return n


@borrowing
def _find_base(labels: LongArray, n: int, units: KeyArray, free: Free) -> int:
    """Return a base that no node has, by which all children get a free unit; −1 if there is none
    among the units tried."""
    unit = np.int64(free.following[0])
    n_tries = 0
    while unit != 0 and n_tries < _MOST_TRIES:
        base = unit ^ labels[0]
        fits = free.has_base[base] == 0
        i = 1
        while fits and i < n:
            fits = units[base ^ labels[i]] == _U0 and base ^ labels[i] != 0
            i += 1
        if fits:
            return int(base)
        unit = np.int64(free.following[unit])
        n_tries += 1
    return -1


@inlined
def _link(unit: int, free: Free) -> None:
    """Add a unit to the end of the ring of free units."""
    last = free.before[0]
    free.following[last] = unit
    free.before[unit] = last
    free.following[unit] = 0
    free.before[0] = unit


@inlined
def _unlink(unit: int, free: Free) -> None:
    free.following[free.before[unit]] = free.following[unit]
    free.before[free.following[unit]] = free.before[unit]


# Find paths


@releasing
def segment_words(
    data: TextArray,
    ends: LongArray,
    n_words: LongArray,
    trie: Trie,
    room: PathRoom,
    out: IntArray,
    out_ends: LongArray,
) -> int:
    """Write the symbols of the best path of each word. Return their number.

    data, ends: the words as UTF-8, and where each ends
    n_words: the number of words of each line, along which scores are added in single precision; (0,)
        to add them from the start of each word
    out: −1 − 2 · code point for an unknown character
    out_ends: set to where each word's symbols end
    """
    n_out = start = line = 0
    is_single = len(n_words) > 0
    n_left = n_words[0] if is_single else 0
    sum_before = 0.0
    for word in range(len(ends)):
        while is_single and n_left == 0:
            line += 1
            n_left = n_words[line]
            sum_before = 0.0
        n_left -= 1
        n = copy_word(data, start, ends[word], False, room.text)
        n_path, _ = best_path(n, sum_before, is_single, trie, room, out, n_out)
        if is_single:
            sum_before = room.sums[n]
        n_out += n_path
        start = ends[word]
        out_ends[word] = n_out
    return n_out


@borrowing
def copy_word(data: ByteArray, p: int, end: int, is_marked: bool, text: ByteArray) -> int:
    """Copy the word data[p:end], with a space for each "▁", to `text`. Return its size.

    is_marked: whether a "▁" is put before it
    """
    n = 0
    if is_marked:
        text[0] = SPACE
        n = 1
    while p < end:
        byte = data[p]
        if byte == 0xE2 and p + 2 < end and data[p + 1] == 0x96 and data[p + 2] == 0x81:
            byte = np.uint8(SPACE)
            p += 2
        text[n] = byte
        n += 1
        p += 1
    return n


@borrowing
def best_path(
    n: int, sum_before: float, is_single: bool, trie: Trie, room: PathRoom, out: IntArray, to: int
) -> tuple[int, float]:
    """Write the symbols of the best path of the first n bytes in the working memory to out[to:].
    Return their number, and the gap.

    sum_before: the score of the line before the word
    is_single: whether sums are rounded to single precision
    """
    text, sums, gaps, symbols, starts = room
    for i in range(1, n + 1):
        sums[i] = -inf
    sums[0] = sum_before
    start = reached = 0
    while start < n:
        size = character_size(text[start])
        here = sums[start]
        if is_single and abs(here) > _MOST_SINGLE:
            for i in range(start, reached + 1):
                sums[i] = add_scores(sums[i], -here, is_single)
            here = 0.0
        is_known = False
        piece, end, unit = next_piece(text, start, n, trie.units[0], trie)
        while piece >= 0:
            is_known = is_known or end == start + size
            total = add_scores(here, trie.scores[piece], is_single)
            _offer(end, total, piece, start, room)
            reached = max(reached, end)
            piece, end, unit = next_piece(text, end, n, unit, trie)
        if not is_known:
            end = start + size
            total = add_scores(here, trie.unknown, is_single)
            _offer(end, total, unknown_symbol(text, start, n), start, room)
            reached = max(reached, end)
        start += size

    n_out = 0
    gap = inf
    while n > 0:
        out[to + n_out] = symbols[n]
        n_out += 1
        gap = min(gap, gaps[n])
        n = int(starts[n])
    for i in range(n_out // 2):
        out[to + i], out[to + n_out - 1 - i] = out[to + n_out - 1 - i], out[to + i]
    return n_out, gap


@inlined
def add_scores(total: float, score: float, is_single: bool) -> float:
    if is_single:
        return float(np.float32(total + score))
    return total + score


@inlined
def _offer(end: Any, total: float, symbol: Any, start: Any, room: PathRoom) -> None:
    """Let a path to a position be the best one, if it is better than those before it."""
    best = room.sums[end]
    if total > best:
        room.gaps[end] = total - best
        room.sums[end] = total
        room.symbols[end] = symbol
        room.starts[end] = start
    else:
        room.gaps[end] = min(room.gaps[end], best - total)


@inlined
def next_piece(text: ByteArray, p: Any, end: Any, unit: Any, trie: Trie) -> tuple[Any, Any, Any]:
    """Walk on in the trie to the next piece. Return its symbol, or −1, the position after it, and the
    unit there.

    p, unit: the position and the unit after the piece before; at first, where the piece starts, and
        the root's unit
    """
    while p < end:
        byte = np.uint64(text[p])
        unit = trie.units[(unit >> _BASE_SHIFT) ^ byte]
        if unit & _LABEL != byte | _IN_USE:
            break
        p += 1
        piece = (unit >> _PIECE_SHIFT) & _PIECE_BITS
        if piece != _U0:
            return np.int64(piece) - 1, p, unit
    return np.int64(-1), p, unit


@inlined
def character_size(first: Any) -> Any:
    """Return the bytes of the character with this first byte."""
    return 1 + int(first >= 0xC0) + int(first >= 0xE0) + int(first >= 0xF0)


@inlined
def unknown_symbol(text: ByteArray, p: Any, end: Any) -> Any:
    code = np.int64(character(text, p, end)[0])
    if code == SPACE:
        code = np.int64(SPACE_CODE)
    return -1 - 2 * code


@inlined
def level_of(gap: float, n_bytes: int, largest: float) -> int:
    """Return the level of a word of so many bytes. largest: the largest size of a score"""
    most_sums = n_bytes + 1  # one more than there are, because the gap is rounded too
    limit = gap * _ROUNDING / most_sums
    power = _LARGEST_POWER
    while power >= limit and power >= 1.0:
        power /= 2
    most_before = min(power, _MOST_SINGLE) - most_sums * largest
    return int(max(most_before, 0.0) / LEVEL_STEP)
