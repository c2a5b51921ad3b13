"""Greedy encoding of words: flat arrays in, flat arrays out.

A word's symbols are merged (see volt.kernels.merging); tokens that the vocabulary does not keep are then split back
into two parts, those of the first merge that makes them. Where whole words are looked up, a word that is itself a kept
token is that token; with dropout, merges alone decide.
"""

from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import FlagArray, IntArray, LongArray, Words, copy_into, grown_longs, longs
from volt.kernels.compiling import borrowing, inlined, loop, releasing
from volt.kernels.merging import (
    NO_MERGE,
    Room,
    apply_merge,
    load_word,
    merge_word,
    next_merge,
    room_of,
    start_line,
)
from volt.kernels.pair_table import Merges
from volt.kernels.spellings import NO_TOKEN, Spellings, token_spelled


class PieceRule(NamedTuple):
    """How a word becomes pieces, other than by merging.

    kept: (n_tokens,) uint8, whether each token may stay
    parts: (n_tokens,) int64, the pair key of the two parts that each token is split back into, −1 where there are none
    words: the tokens that are looked up as whole words; empty where none are
    """

    kept: FlagArray
    parts: LongArray
    words: Spellings


@borrowing
def _split_back(token: int, kept: FlagArray, parts: LongArray, out: IntArray, n_out: int, stack: IntArray) -> int:
    """Write a token's kept parts to `out`. Returns how many pieces `out` then has.

    parts: the pair key of each token, −1 for an atom
    """
    stack[0], depth = token, 1
    while depth > 0:
        depth -= 1
        token = stack[depth]
        if token < 0 or kept[token] or parts[token] < 0:
            out[n_out] = token
            n_out += 1
        else:
            stack[depth] = parts[token] & 0xFFFFFFFF
            stack[depth + 1] = parts[token] >> 32
            depth += 2
    return n_out


@inlined
def encode_word(
    n: int, room: Room, merges: Merges, rule: PieceRule, dropout: float, state: LongArray, out: IntArray, n_out: int
) -> int:
    """Write the pieces of the word of n symbols that starts at 1 in the room. Returns how many `out` then has."""
    if n <= rule.words.longest and dropout == 0.0:
        token = token_spelled(room.word.symbols, 1, n, rule.words)
        if token != NO_TOKEN and rule.kept[token]:
            out[n_out] = token
            return n_out + 1
    p, end = merge_word(n, room, merges, dropout, state)
    while p != end:
        symbol, p = room.word.symbols[p], room.word.follows[p]
        if symbol < 0 or rule.kept[symbol]:
            out[n_out], n_out = symbol, n_out + 1
        else:
            n_out = _split_back(symbol, rule.kept, rule.parts, out, n_out, room.stack)
    return n_out


def encode_words(
    symbols: IntArray, ends: LongArray, merges: Merges, rule: PieceRule, dropout: float, state: LongArray
) -> tuple[IntArray, LongArray]:
    """Encode words into pieces.

    symbols: (n_symbols,) int32 atoms, −1 where unknown
    ends: (n_words,) int64, where each word's symbols end
    rule: what becomes of merged tokens
    dropout: probability of passing over a merge
    state: (1,) int64, the generator that dropout draws from
    Returns the pieces (n_pieces,) int32 and where each word's pieces end (n_words,) int64.
    """
    out, piece_ends, room = np.empty(len(symbols), np.int32), np.empty(len(ends), np.int64), room_of(longest(ends))
    n_out = encode_each(symbols, ends, merges, rule, dropout, state, room, out, piece_ends)
    return out[:n_out], piece_ends


def longest(ends: LongArray) -> int:
    """The length of the longest run, where each run starts at the end of the one before, and 1 at least.

    >>> longest(np.array([2, 2, 7])), longest(np.array([], np.int64))
    (5, 1)
    """
    return int(np.diff(ends, prepend=0).max(initial=1))


@releasing
def encode_each(
    symbols: IntArray, ends: LongArray, merges: Merges, rule: PieceRule, dropout: float, state: LongArray, room: Room,
    out: IntArray, piece_ends: LongArray,
) -> int:  # fmt: skip
    """Write the pieces of words, and where each word's pieces end. Returns how many pieces there are."""
    n_out = start = 0
    for i in range(len(ends)):
        end = ends[i]
        if end > start:
            copy_into(room.word.symbols, 1, symbols, start, end)
            n_out = encode_word(end - start, room, merges, rule, dropout, state, out, n_out)
        piece_ends[i], start = n_out, end
    return n_out


def encode_sampled(
    atoms: IntArray, ends: LongArray, merges: Merges, rule: PieceRule, dropout: float, seed: int, numbers: LongArray
) -> tuple[IntArray, LongArray]:
    """Encode lines of atoms with dropout, line i by the generator of (seed, numbers[i]).

    atoms: (n_atoms,) int32, each 2 · symbol, + 1 for the last of a word
    ends: (n_lines,) int64, where each line's atoms end
    numbers: (n_lines,) int64
    Returns the pieces (n_pieces,) int32 and where each line's pieces end (n_lines,) int64.
    """
    out, piece_ends = np.empty(len(atoms), np.int32), np.empty(len(ends), np.int64)
    room, state = room_of(longest(np.flatnonzero(atoms & 1) + 1)), np.zeros(1, np.int64)
    n_out = sample_each(atoms, ends, merges, rule, dropout, seed, numbers, state, room, out, piece_ends)
    return out[:n_out], piece_ends


@releasing
def sample_each(
    atoms: IntArray, ends: LongArray, merges: Merges, rule: PieceRule, dropout: float, seed: int,
    numbers: LongArray, state: LongArray, room: Room, out: IntArray, piece_ends: LongArray,
) -> int:  # fmt: skip
    """Write the pieces of lines, and where each line's pieces end. Returns how many pieces there are."""
    n = n_out = done = 0
    for line in range(len(ends)):
        start_line(state, seed, numbers[line])
        for place in range(done, ends[line]):
            n += 1
            room.word.symbols[n] = atoms[place] >> 1
            if atoms[place] & 1:
                n_out = encode_word(n, room, merges, rule, dropout, state, out, n_out)
                n = 0
        done, piece_ends[line] = ends[line], n_out
    return n_out


def trace(words: Words, merges: Merges, progress: LongArray) -> tuple[LongArray, LongArray, LongArray]:
    """Encode every word with all merges and note when each replacement happens as the merges are added one by one.

    With only the merges below rank k, a word goes through the same replacements up to the first whose rank is k or
    more. So a replacement of rank r happens at step max(r, all ranks before it in that word).
    Returns the replacements whose step is their rank, summed by rank and weighted by word count (n_merges,) int64; and
    the late ones: (n_late,) keys step << 32 | rank, and their weights (n_late,).  progress[1] ≠ 0 stops.
    """
    regular = np.zeros(len(merges.results), np.int64)
    late, late_counts = trace_each(
        words, merges, room_of(longest(words.ends)), np.zeros(1, np.int64), regular, progress
    )
    return regular, late, late_counts


@loop
def trace_each(
    words: Words, merges: Merges, room: Room, no_state: LongArray, regular: LongArray, progress: LongArray
) -> tuple[LongArray, LongArray]:
    """Count the regular replacements in `regular`, which is zero before. Returns the late ones and their weights."""
    late, late_counts, n_late = longs(16), longs(16), 0
    word, positions, start = room.word, room.positions, 0
    for i in range(len(words.ends)):
        end = words.ends[i]
        step, size = 0, load_word(words.symbols[start:end], word, merges) if end > start else 0
        while size > 0:
            rank, n, size = next_merge(size, word, merges, 0.0, no_state, positions)
            if rank == NO_MERGE:
                break
            n, size = apply_merge(rank, size, positions[:n], word, merges)
            step = max(step, rank)
            if step == rank:
                regular[rank] += n * words.counts[i]
                continue
            if n_late == len(late):
                late, late_counts = grown_longs(late, 2 * n_late), grown_longs(late_counts, 2 * n_late)
            late[n_late], late_counts[n_late], n_late = (
                (np.int64(step) << 32) | rank,
                n * words.counts[i],
                n_late + 1,
            )
        start = end
        progress[0] = i + 1
        if progress[1] != 0:
            break
    return late[:n_late], late_counts[:n_late]
