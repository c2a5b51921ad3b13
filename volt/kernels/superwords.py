"""Join the tokens of stretches by merges across spaces.

    tokens "of", " the", " day" of a stretch   →   "of the", " day"

A *stretch* is a pre-token that may contain spaces. Its tokens are those of the merges before the
first merge across a space. Only a few pairs of neighbours can ever be joined; a *run* is neighbours
without other pairs between them. Each run is merged alone, by all merges, like a word. Most runs
are one token. The module volt.encode.superwords says why that is exact.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.apply_bpe import PieceRule, WordBuffers, encode_word, split_back
from volt.kernels.arrays import IntArray, KeyArray, LongArray, copy_into
from volt.kernels.bpe_tables import Merges
from volt.kernels.intrinsics import load64, prefetch, store64
from volt.kernels.jit import borrowing, inlined, releasing

MISMATCH = -1  # returned instead of a number: tokens and stretches end at different places
_MIX = np.uint64(0x9E3779B97F4A7C15)
_U0, _U1, _TOKEN_BITS, _WORD_BITS, _BITS, _HALF = (np.uint64(i) for i in (0, 1, 21, 6, 63, 32))
RUN_SIZE = 16  # numbers in a row of known runs, which are 64 bytes
_FIRST_PIECE, _FIRST_SYMBOL = 1, 8  # places in a row
SLACK = 8  # symbols that may be written beyond the last one
_ROW = np.uint64(RUN_SIZE)
_PIECES_BITS, _SYMBOLS = 8, 0xFF
LAG = 16  # runs between the prefetch of a row and its use
# The entry of a run: its end << 24 | the number of its row << 2 | flags
_ENDS_STRETCH, _IS_PLAIN = 1, 2  # whether it is one token that may stay
_ROW_SHIFT, _END_SHIFT, _ROWS = 2, 24, (1 << 22) - 1


class Joins(NamedTuple):
    """The merges of stretches."""

    # (2^n,) uint64, a bit for each pair of tokens: 0 if the pair is never joined. Pairs share bits,
    # so 1 says nothing
    joinable: KeyArray
    shift: int  # what turns the hash of a pair into the number of its bit
    # (n_symbols,), 2 · (the characters of each token) + (1 if the token may stay)
    shapes: IntArray
    own_private: int  # an unknown character whose code is not below it has two characters,
    continued: int  # where codes are modulo this number
    merges: Merges
    rule: PieceRule


class Stretches(NamedTuple):
    """The places where lines start and stretches end, in characters of pre-tokens, or in bytes."""

    starts: LongArray  # (n_lines,), where each line starts
    # (n + 1,), where stretches end, then a number beyond all lines; (1,) if lines are stretches
    ends: LongArray


@inlined
def bit_of(left: Any, right: Any, shift: Any) -> Any:
    """Return the number of the bit of a pair of tokens."""
    return ((np.uint64(left) << _TOKEN_BITS | np.uint64(right)) * _MIX) >> shift


@releasing
def mark_joinable(lefts: IntArray, rights: IntArray, shift: int, joinable: KeyArray) -> None:
    """Set the bits of pairs."""
    for i in range(len(lefts)):
        bit = bit_of(lefts[i], rights[i], np.uint64(shift))
        joinable[bit >> _WORD_BITS] |= _U1 << (bit & _BITS)


@inlined
def _may_join(left: Any, right: Any, joins: Joins) -> bool:
    if left < 0 or right < 0:
        return False
    bit = bit_of(left, right, np.uint64(joins.shift))
    return bool(joins.joinable[bit >> _WORD_BITS] >> (bit & _BITS) & _U1)


@inlined
def _shape_of(symbol: Any, joins: Joins) -> Any:
    if symbol >= 0:
        return np.int64(joins.shapes[np.uint64(symbol)])
    return np.int64(3 + 2 * int((-1 - symbol) % joins.continued >= joins.own_private))


@releasing
def join_stretches(
    symbols: IntArray,
    line_ends: LongArray,
    stretches: Stretches,
    joins: Joins,
    room: WordBuffers,
    known: IntArray,
    runs: LongArray,
    out: IntArray,
    out_ends: LongArray,
    n_stretches: LongArray,
) -> int:
    """Join the symbols of lines. Return the number of symbols written, or MISMATCH.

    symbols, line_ends: the symbols of all lines, and where those of each line end
    known: (2^n · RUN_SIZE,), read and changed: each of the latest runs is in one of two rows, with the
        number of its symbols and 256 · the number of its pieces, then its pieces, then its symbols
    runs: (n_symbols + LAG,), overwritten
    out: set to the joined symbols, with room for SLACK others;  out_ends: set to where those of each stretch end
    n_stretches: (n_lines,), set to the number of stretches up to the end of each line
    """
    n_runs = _find_runs(symbols, line_ends, stretches, joins, len(known), runs, n_stretches)
    if n_runs < 0:
        return MISMATCH
    n = n_out = start = 0
    for i in range(n_runs):
        prefetch(known, _row_of(runs[np.uint64(i + LAG)]))
        entry = runs[np.uint64(i)]
        end = entry >> _END_SHIFT
        if entry & _IS_PLAIN:
            out[np.uint64(n_out)] = symbols[np.uint64(start)]
            n_out += 1
        else:
            row = _row_of(entry)
            is_known = _is_known(symbols, start, end - start, known, row)
            if not is_known:
                row += _ROW
                is_known = _is_known(symbols, start, end - start, known, row)
            if is_known:
                n_out = _copy_run(known, row, out, n_out)
            else:
                n_out = _merge_run(symbols, start, end, row, joins, room, known, out, n_out)
        start = end
        if entry & _ENDS_STRETCH:
            out_ends[n] = n_out
            n += 1
    return n_out


@inlined
def _find_runs(
    symbols: IntArray,
    line_ends: LongArray,
    stretches: Stretches,
    joins: Joins,
    n_known: int,
    runs: LongArray,
    n_stretches: LongArray,
) -> int:
    """Write an entry for each run: its end, its row, and flags. Return their number, or MISMATCH."""
    n_runs = k = n = i = 0
    last = len(symbols) - 1
    is_one = len(stretches.ends) == 1  # whether each line is one stretch
    mask = np.uint64(n_known // RUN_SIZE - 2)  # rows of even numbers
    for line in range(len(line_ends)):
        end = line_ends[line]
        place = stretches.starts[line]
        while stretches.ends[k] <= place:
            k += 1
        next_end = stretches.ends[k]
        run = i
        hashed = _U0
        while i < end:
            symbol = np.int64(symbols[np.uint64(i)])
            hashed = (hashed ^ (hashed >> _HALF) ^ np.uint64(symbol)) * _MIX
            shape = _shape_of(symbol, joins)
            place += shape >> 1
            i += 1
            ends_stretch = (place >= next_end) | (i == end)
            after = symbols[np.uint64(min(i, last))]
            ends_run = np.int64(ends_stretch | (not _may_join(symbol, after, joins)))
            # No branch, because no processor could predict it: the next entry replaces an entry that
            # does not end a run.
            flags = np.int64(ends_stretch) | (np.int64(i - run == 1) & shape) << 1
            row = np.int64((hashed >> _HALF) & mask)
            runs[np.uint64(n_runs)] = i << _END_SHIFT | row << _ROW_SHIFT | flags
            n_runs += int(ends_run)
            run += int(ends_run) * (i - run)
            hashed &= np.uint64(ends_run) - _U1
            if ends_stretch:
                if place != next_end and not is_one:
                    return MISMATCH
                k += int(not is_one)
                next_end = stretches.ends[k]
                n += 1
        n_stretches[line] = n
    return n_runs


@inlined
def _row_of(entry: Any) -> Any:
    """Return the index of the first of a run's two rows."""
    return np.uint64(entry >> _ROW_SHIFT & _ROWS) * _ROW


@inlined
def _is_known(symbols: IntArray, start: Any, n: Any, known: IntArray, row: Any) -> bool:
    """Check whether a row holds a run."""
    if known[row] & _SYMBOLS != n:
        return False
    is_equal = True
    for i in range(n):
        is_equal &= known[row + np.uint64(_FIRST_SYMBOL + i)] == symbols[np.uint64(start + i)]
    return is_equal


@inlined
def _copy_run(known: IntArray, row: Any, out: IntArray, n_out: Any) -> Any:
    """Write the pieces of the run in a row after the first n_out, and any others after them. Return
    the new n_out."""
    for i in range(0, _FIRST_SYMBOL, 2):  # always all, because the number is not predictable
        two = load64(known, row + np.uint64(_FIRST_PIECE + i))
        store64(out, np.uint64(n_out + i), two)
    return n_out + np.int64(known[row] >> _PIECES_BITS)


@borrowing
def _merge_run(
    symbols: IntArray,
    start: int,
    end: int,
    row: Any,
    joins: Joins,
    room: WordBuffers,
    known: IntArray,
    out: IntArray,
    n_out: int,
) -> int:
    """Write the pieces of symbols[start:end] after the first n_out. Return the new n_out.

    row: the second row for the run; the run in the first one moves there
    """
    n = end - start
    rule = joins.rule
    if n == 1:
        after = split_back(symbols[start], rule.retained, rule.parts, out, n_out, room.stack)
    else:
        copy_into(room.word.symbols, 1, symbols, start, end)
        no_state = rule.parts  # not read: nothing is drawn
        after = encode_word(n, room, joins.merges, rule, 0.0, no_state, out, n_out)
    n_pieces = after - n_out
    if n <= RUN_SIZE - _FIRST_SYMBOL and n_pieces <= _FIRST_SYMBOL - _FIRST_PIECE:
        first = int(row) - RUN_SIZE
        copy_into(known, int(row), known, first, int(row))
        known[first] = n_pieces << _PIECES_BITS | n
        copy_into(known, first + _FIRST_SYMBOL, symbols, start, end)
        copy_into(known, first + _FIRST_PIECE, out, n_out, after)
    return after
