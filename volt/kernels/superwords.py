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
from volt.kernels.jit import borrowing, inlined, releasing

MISMATCH = -1  # returned instead of a number: tokens and stretches end at different places
_MIX = np.uint64(0x9E3779B97F4A7C15)
_U1, _TOKEN_BITS, _WORD_BITS, _BITS = (np.uint64(i) for i in (1, 21, 6, 63))


class Joins(NamedTuple):
    """The merges of stretches."""

    # (2^n,) uint64, a bit for each pair of tokens: 0 if the pair is never joined. Pairs share bits,
    # so 1 says nothing
    joinable: KeyArray
    shift: int  # what turns the hash of a pair into the number of its bit
    sizes: IntArray  # (n_symbols,), the characters of each token
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
def _size_of(symbol: Any, joins: Joins) -> Any:
    if symbol >= 0:
        return np.int64(joins.sizes[symbol])
    return np.int64(1 + int((-1 - symbol) % joins.continued >= joins.own_private))


@releasing
def join_stretches(
    symbols: IntArray,
    line_ends: LongArray,
    stretches: Stretches,
    joins: Joins,
    room: WordBuffers,
    out: IntArray,
    out_ends: LongArray,
    n_stretches: LongArray,
) -> int:
    """Join the symbols of lines. Return the number of symbols written, or MISMATCH.

    symbols, line_ends: the symbols of all lines, and where those of each line end
    out: set to the joined symbols;  out_ends: set to where those of each stretch end
    n_stretches: (n_lines,), set to the number of stretches up to the end of each line
    """
    n_out = k = n = i = 0
    is_one = len(stretches.ends) == 1  # whether each line is one stretch
    for line in range(len(line_ends)):
        end = line_ends[line]
        place = stretches.starts[line]
        while stretches.ends[k] <= place:
            k += 1
        run = i
        while i < end:
            symbol = symbols[i]
            place += _size_of(symbol, joins)
            i += 1
            ends_stretch = place == stretches.ends[k]
            if place > stretches.ends[k] or (i == end and not ends_stretch and not is_one):
                return MISMATCH
            ends_stretch |= i == end
            if ends_stretch or not _may_join(symbol, symbols[i], joins):
                n_out = _write_run(symbols, run, i, joins, room, out, n_out)
                run = i
            if ends_stretch:
                k += int(not is_one)
                out_ends[n] = n_out
                n += 1
        n_stretches[line] = n
    return n_out


@borrowing
def _write_run(
    symbols: IntArray,
    start: int,
    end: int,
    joins: Joins,
    room: WordBuffers,
    out: IntArray,
    n_out: int,
) -> int:
    """Write the pieces of symbols[start:end] after the first n_out. Return the new n_out."""
    rule = joins.rule
    if end - start == 1:
        symbol = symbols[start]
        if symbol < 0 or rule.retained[symbol]:
            out[n_out] = symbol
            return n_out + 1
        return split_back(symbol, rule.retained, rule.parts, out, n_out, room.stack)
    copy_into(room.word.symbols, 1, symbols, start, end)
    no_state = rule.parts  # not read: nothing is drawn
    return encode_word(end - start, room, joins.merges, rule, 0.0, no_state, out, n_out)
