"""Join the tokens of stretches by merges across spaces.

    tokens "of", " the", " day" of a stretch   →   "of the", " day"

A *stretch* is a pre-token that may contain spaces. Its tokens are those of the merges before the
first merge across a space. Only a few pairs of neighbours can ever be joined; a *run* is neighbours
without other pairs between them. Each run is merged alone, by all merges, like a word. Most runs
are one token. The module volt.encode.superwords says why that is exact.

A token, with what is known of it when its unit is encoded, is a *value*, symbol << SYMBOL_SHIFT | bits:

    STARTS_STRETCH, ENDS_STRETCH   a stretch starts before the token, or ends after it
    ENDS_UNIT_WORD                 the token is the last one of a word of its unit
    IS_UNSURE                      whether a stretch ends after the token must be found in the text
    IS_SCAFFOLD                    the token is outside the vocabulary
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.apply_bpe import PieceRule, WordBuffers, encode_word, split_back
from volt.kernels.arrays import IntArray, KeyArray, LongArray, copy_into
from volt.kernels.bpe_tables import Merges
from volt.kernels.intrinsics import load64, prefetch, store64
from volt.kernels.jit import borrowing, inlined, releasing

# The bits of values, see above
STARTS_STRETCH, IS_SCAFFOLD, IS_UNSURE, ENDS_UNIT_WORD, ENDS_STRETCH = (1 << i for i in range(5))
SYMBOL_SHIFT = 5
UNSURE = -1  # returned instead of a number: some values do not say whether a stretch ends
_MIX = np.uint64(0x9E3779B97F4A7C15)
_U0, _U1, _TOKEN_BITS, _WORD_BITS, _BITS, _HALF = (np.uint64(i) for i in (0, 1, 21, 6, 63, 32))
RUN_SIZE = 16  # numbers in a row of known runs, which are 64 bytes
_FIRST_PIECE, _FIRST_SYMBOL = 1, 8  # places in a row
SLACK = 8  # values that may be written beyond the last one
_ROW = np.uint64(RUN_SIZE)
_PIECES_BITS, _SYMBOLS = 8, 0xFF
LAG = 16  # entries between the prefetch of a row and its use
_END_SHIFT, _ROWS = 24, (1 << 24) - 1  # an entry has two numbers: a start, and end << 24 | row


class Joins(NamedTuple):
    """The merges of stretches."""

    # (2^n,) uint64, a bit for each pair of tokens: 0 if the pair is never joined. Pairs share bits,
    # so 1 says nothing
    joinable: KeyArray
    shift: int  # what turns the hash of a pair into the number of its bit
    merges: Merges
    rule: PieceRule
    ids: IntArray  # (n_symbols,), what to write for each token: its id; (0,) to write values


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
def _may_join(left: Any, right: Any, joins: Joins) -> Any:
    bit = bit_of(left, right, np.uint64(joins.shift))
    return joins.joinable[bit >> _WORD_BITS] >> (bit & _BITS) & _U1


@releasing
def join_stretches(
    values: IntArray,
    line_ends: LongArray,
    unsure: int,
    joins: Joins,
    room: WordBuffers,
    known: IntArray,
    entries: LongArray,
    out: IntArray,
) -> int:
    """Join the tokens of lines. Return the number of tokens written, or UNSURE.

    values: the tokens of all lines, see above; ENDS_STRETCH is added where stretches end
    line_ends: changed from where the values of each line end to where its joined tokens end
    unsure: the bits of which no value may have one
    known: (2^n · RUN_SIZE,), read and changed: each of the latest runs is in one of two rows, with the
        number of its symbols and 256 · the number of its pieces, then its pieces, then its symbols
    entries: (2 · (n_values + n_lines + LAG),), overwritten
    out: set to the ids of joined tokens; to their values if `joins` has no ids, or a value is negative;
        with room for SLACK more
    """
    n_entries, seen = _find_runs(values, line_ends, joins, len(known), entries)
    if seen & unsure:
        return UNSURE
    n_out = n_copied = line = 0
    for i in range(n_entries):
        prefetch(known, _row_of(entries[np.uint64(2 * (i + LAG) + 1)]))
        start = entries[np.uint64(2 * i)]
        entry = entries[np.uint64(2 * i + 1)]
        end = entry >> _END_SHIFT
        n_out = _copy_values(values, n_copied, start, out, n_out)
        n_copied = end
        if start == end:
            line_ends[line] = n_out
            line += 1
            continue
        row = _row_of(entry)
        is_known = _is_known(values, start, end - start, known, row)
        if not is_known:
            row += _ROW
            is_known = _is_known(values, start, end - start, known, row)
        if is_known:
            n_out = _copy_pieces(known, row, out, n_out)
        else:
            n_out = _merge_run(values, start, end, row, joins, room, known, out, n_out)
        out[n_out - 1] |= values[end - 1] & ENDS_STRETCH
    if seen >= 0 and len(joins.ids) > 0:
        for i in range(n_out):
            out[np.uint64(i)] = joins.ids[np.uint64(out[np.uint64(i)] >> SYMBOL_SHIFT)]
    return n_out


@inlined
def _find_runs(
    values: IntArray, line_ends: LongArray, joins: Joins, n_known: int, entries: LongArray
) -> tuple[int, Any]:
    """Write an entry for each run that may be joined, or whose token may not stay, and an empty entry
    for the end of each line. Return their number, and the bits of all values.
    """
    n = i = 0
    seen = np.int64(0)
    last = len(values) - 1
    mask = np.uint64(n_known // RUN_SIZE - 2)  # rows of even numbers
    for line in range(len(line_ends)):
        end = line_ends[line]
        start = i
        hashed = _U0
        after = np.int64(values[i] if i < end else 0)
        while i < end:
            value = after
            seen |= value
            i += 1
            after = np.int64(values[np.uint64(min(i, last))])
            symbol = value >> SYMBOL_SHIFT
            hashed = (hashed ^ (hashed >> _HALF) ^ np.uint64(symbol)) * _MIX
            is_end = np.int64(i == end) | (after & STARTS_STRETCH)
            value |= is_end * ENDS_STRETCH
            values[np.uint64(i - 1)] = value
            may_join = _may_join(symbol, after >> SYMBOL_SHIFT, joins)
            ends_run = np.int64((value & ENDS_STRETCH != 0) | (may_join == _U0))
            # No branch, because no processor could predict it: the next entry replaces an entry that
            # is not needed.
            entries[np.uint64(2 * n)] = start
            row = np.int64((hashed >> _HALF) & mask)
            entries[np.uint64(2 * n + 1)] = i << _END_SHIFT | row
            is_needed = np.int64(i - start > 1) | np.int64(value & IS_SCAFFOLD != 0)
            n += int(ends_run & is_needed)
            start += int(ends_run) * (i - start)
            hashed &= np.uint64(ends_run) - _U1
        entries[2 * n] = end
        entries[2 * n + 1] = end << _END_SHIFT
        n += 1
    return n, seen


@inlined
def _row_of(entry: Any) -> Any:
    """Return the index of the first of a run's two rows."""
    return np.uint64(entry & _ROWS) * _ROW


@inlined
def _copy_values(values: IntArray, start: Any, end: Any, out: IntArray, n_out: Any) -> Any:
    """Copy values after the first n_out, and any others after them. Return the new n_out."""
    if end + SLACK > len(values):
        copy_into(out, n_out, values, start, end)
    else:
        for i in range(start, max(end, start + 1), SLACK):  # the number is not predictable
            to = n_out + i - start
            for k in range(0, SLACK, 2):
                store64(out, np.uint64(to + k), load64(values, np.uint64(i + k)))
    return n_out + end - start


@inlined
def _is_known(values: IntArray, start: Any, n: Any, known: IntArray, row: Any) -> bool:
    """Check whether a row holds a run."""
    if known[row] & _SYMBOLS != n:
        return False
    is_equal = True
    for i in range(n):
        symbol = values[np.uint64(start + i)] >> SYMBOL_SHIFT
        is_equal &= known[row + np.uint64(_FIRST_SYMBOL + i)] == symbol
    return is_equal


@inlined
def _copy_pieces(known: IntArray, row: Any, out: IntArray, n_out: Any) -> Any:
    """Write the pieces of the run in a row after the first n_out, and any others after them. Return
    the new n_out."""
    for i in range(0, _FIRST_SYMBOL, 2):  # always all, because the number is not predictable
        two = load64(known, row + np.uint64(_FIRST_PIECE + i))
        store64(out, np.uint64(n_out + i), two)
    return n_out + np.int64(known[row] >> _PIECES_BITS)


@borrowing
def _merge_run(
    values: IntArray,
    start: int,
    end: int,
    row: Any,
    joins: Joins,
    room: WordBuffers,
    known: IntArray,
    out: IntArray,
    n_out: int,
) -> int:
    """Write the pieces of values[start:end] after the first n_out. Return the new n_out.

    row: the second row for the run; the run in the first one moves there
    """
    n = end - start
    rule = joins.rule
    symbols = room.word.symbols
    for i in range(n):
        symbols[1 + i] = values[start + i] >> SYMBOL_SHIFT
    first = int(row) - RUN_SIZE
    is_short = n <= RUN_SIZE - _FIRST_SYMBOL
    if is_short:
        copy_into(known, int(row), known, first, int(row))
        known[first] = 0
        copy_into(known, first + _FIRST_SYMBOL, symbols, 1, 1 + n)
    if n == 1:
        after = split_back(symbols[1], rule.retained, rule.parts, out, n_out, room.stack)
    else:
        no_state = rule.parts  # not read: nothing is drawn
        after = encode_word(n, room, joins.merges, rule, 0.0, no_state, out, n_out)
    for i in range(n_out, after):
        out[i] <<= SYMBOL_SHIFT
    n_pieces = after - n_out
    if is_short and n_pieces <= _FIRST_SYMBOL - _FIRST_PIECE:
        known[first] = n_pieces << _PIECES_BITS | n
        copy_into(known, first + _FIRST_PIECE, out, n_out, after)
    return after
