"""The bytes of one unit → the values that it stands for: its words (see volt.kernels.cutting) merged, and rendered.

Values are bytes: text, or numbers of four bytes each.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.characters import character
from volt.kernels.compiling import borrowing, inlined
from volt.kernels.cutting import (
    BYTES,
    LEFT_TO_PYTHON,
    LONGEST,
    METASPACE,
    NO_MARKER,
    NUMBER,
    PREFIX,
    PRIVATE,
    SPACE_CODE,
    SUFFIX,
    Cutter,
)
from volt.kernels.memory import load64, store64
from volt.kernels.merging import Room, room_of
from volt.kernels.pair_table import Merges
from volt.kernels.spellings import no_spellings
from volt.kernels.words import PieceRule, encode_word

ID_SIZE = 4  # bytes of an id, an atom or a number
_FINAL = 256  # where the atoms of bytes that end a word stand in their table


class UnitEncoder(NamedTuple):
    """How the bytes of a unit become its values.

    cutter: how units become words, and words atoms
    sampled: whether values are atoms, for dropout: 2 · symbol, + 1 for the last atom of a word
    merges, rule: see volt.kernels.words
    room, pieces: memory to work in
    starts: (n_symbols + 1,) int64, symbol s is rendered as rendered[starts[s]:starts[s + 1]]
    rendered: (…,) uint8, with 8 bytes more than are used
    widest: the most bytes that a symbol is rendered as
    width: how many bytes each symbol is rendered as, if all are alike, so that symbol s starts at width · s; else 0
    byte_ids: (256,) int32, the ids of the byte tokens that unknown characters are spelled by, where ids are asked for;
        else (0,), and words with such characters are left to Python
    """

    cutter: Cutter
    sampled: bool
    merges: Merges
    rule: PieceRule
    room: Room
    pieces: IntArray
    starts: LongArray
    rendered: IntArray
    widest: int
    width: int
    byte_ids: IntArray

    def for_thread(self) -> "UnitEncoder":
        """The same, with memory to work in that no other thread uses."""
        starts, ends, pieces = (np.empty(LONGEST + 2, dtype) for dtype in (np.int64, np.int64, np.int32))
        cutter = self.cutter._replace(starts=starts, ends=ends)
        return self._replace(cutter=cutter, room=room_of(LONGEST + 2), pieces=pieces)


def numbering() -> UnitEncoder:
    """An encoder that gives each unit its number, int32, in the order in which units are met."""
    classes, ints, longs = np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(2, np.int64)
    cutter = Cutter(NUMBER, NO_MARKER, classes, ints, ints, longs, longs, ints, 0, longs, classes, 0, 0, 0, classes[:0])
    merges, rule = Merges(np.zeros(8, np.uint64), ints, ints, False, -1), PieceRule(classes, longs, no_spellings())
    encoder = UnitEncoder(cutter, False, merges, rule, room_of(1), ints, longs, classes, ID_SIZE, 0, ints[:0])
    return encoder.for_thread()


@borrowing
def _put_atoms(data: IntArray, p: int, end: int, marked: bool, cutter: Cutter, symbols: IntArray) -> int:
    """Write the atoms of a word, with a "▁" in front if it is marked.

    Returns how many there are, or LEFT_TO_PYTHON.
    """
    n, code = 0, np.int64(0)
    if marked or cutter.marker == PREFIX:
        symbols[0], n = cutter.symbol_of[2 * SPACE_CODE], 1
    while p < end:
        code = np.int64(data[p])
        if code < 0x80 or cutter.cut >= BYTES:
            symbols[n], n, p = cutter.byte_symbols[code], n + 1, p + 1
            continue
        code, p = character(data, p, end)
        if code < 0 or code >= PRIVATE or (code == SPACE_CODE and cutter.cut >= METASPACE):
            return LEFT_TO_PYTHON
        symbols[n], n = cutter.symbol_of[2 * code], n + 1
    if cutter.marker == SUFFIX:
        in_table = code < 0x80 or cutter.cut >= BYTES
        symbols[n - 1] = cutter.byte_symbols[_FINAL + code] if in_table else cutter.symbol_of[2 * code + 1]
    return n


@borrowing
def write_word(
    data: IntArray, start: int, end: int, marked: bool, encoder: UnitEncoder, values: IntArray, at: int
) -> int:
    """Write the values of the word data[start:end] to values[at:].

    marked: whether the word has a "▁" more in front
    values: uint8, with room for (end − start + 1) · encoder.widest bytes more, and 8
    Returns how many bytes were written, or LEFT_TO_PYTHON.
    """
    if encoder.cutter.cut == NUMBER:
        store64(values, at, np.uint64(at // ID_SIZE))
        return ID_SIZE
    symbols = encoder.room.word.symbols[1:]
    n = _put_atoms(data, start, end, marked, encoder.cutter, symbols)
    if n <= 0 or encoder.sampled:
        return _mark_last(n, symbols, values, at)
    no_state = encoder.cutter.ends  # nothing is drawn from it
    n = encode_word(n, encoder.room, encoder.merges, encoder.rule, 0.0, no_state, encoder.pieces, 0)
    began = at
    for symbol in encoder.pieces[:n]:
        if symbol < 0 and len(encoder.byte_ids) == 0:
            return LEFT_TO_PYTHON
        if symbol < 0:
            at = _write_byte_ids((-1 - np.int64(symbol)) >> 1, encoder.byte_ids, values, at)
            continue
        if encoder.width == ID_SIZE:
            store64(values, at, load64(encoder.rendered, ID_SIZE * np.int64(symbol)))
            at += ID_SIZE
            continue
        source, n_bytes = encoder.starts[symbol], encoder.starts[symbol + 1] - encoder.starts[symbol]
        for i in range(0, n_bytes, 8):
            store64(values, at + i, load64(encoder.rendered, source + i))
        at += n_bytes
    return at - began


@inlined
def _write_byte_ids(code: Any, byte_ids: IntArray, values: IntArray, at: int) -> int:
    """Write the ids of the bytes of a character. Returns where the next value stands."""
    n = 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
    byte = code if n == 1 else (0xF00 >> n & 0xFF) | code >> 6 * (n - 1)
    for i in range(n):
        byte = byte if i == 0 else 0x80 | (code >> 6 * (n - 1 - i) & 0x3F)
        store64(values, at + ID_SIZE * i, np.uint64(byte_ids[byte]))
    return at + ID_SIZE * n


@borrowing
def _mark_last(n: int, symbols: IntArray, values: IntArray, at: int) -> int:
    """Write the n atoms of a word, and mark the last one. Returns how many bytes that are; −1 if n is −1."""
    for i in range(n):
        store64(values, at + ID_SIZE * i, np.uint64(2 * np.int64(symbols[i]) + (i == n - 1) & 0xFFFFFFFF))
    return max(ID_SIZE * n, n)


@borrowing
def write_words(data: IntArray, first: bool, n_words: int, encoder: UnitEncoder, values: IntArray, at: int) -> int:
    """Write the values of all words of the unit that was cut last.

    Returns how many bytes were written, or LEFT_TO_PYTHON.
    """
    cutter, began = encoder.cutter, at
    for word in range(n_words):
        n = write_word(data, cutter.starts[word], cutter.ends[word], first and word == 0, encoder, values, at)
        if n < 0:
            return LEFT_TO_PYTHON
        at += n
    return at - began
