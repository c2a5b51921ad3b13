"""Encode a new unit: cut its bytes into words, merge the atoms of each word, and store the values
in the table.

    "low,"  --- cut_unit --->  "low" ","  --- write_word --->  values of "low", values of ","  --- join --->  values

If each word, cut alone, stays one word, it gets its own row, as if it were a unit: "low," costs
little once "low" is known. A unit becomes *pending* if only Python can encode it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.apply_bpe import PieceRule, WordBuffers, encode_word, room_of
from volt.kernels.arrays import ByteArray, IntArray, LongArray
from volt.kernels.bpe_tables import Merges, no_spellings
from volt.kernels.intrinsics import PADDING, character, copy_eights, load64, prefetch, store64
from volt.kernels.jit import borrowing, inlined
from volt.kernels.pretokenize import (
    APART,
    BYTES,
    LEFT_TO_PYTHON,
    NO_MARKER,
    NUMBER,
    PREFIX,
    PRIVATE,
    SPACE_CODE,
    SPARE_ATOMS,
    SUFFIX,
    Cutter,
    cut_unit,
    is_readable,
)
from volt.kernels.pretokenize import (
    LINE as UNCUT,
)
from volt.kernels.regex_cutting import SplitTables, find_match
from volt.kernels.superwords import ENDS_STRETCH, STARTS_STRETCH
from volt.kernels.trie import (
    IS_UNKNOWN,
    LEVEL_SHIFT,
    TOP_LEVEL,
    PathRoom,
    Trie,
    best_path,
    copy_word,
    level_of,
    no_trie,
    path_room,
)
from volt.kernels.unit_table import (
    EIGHT,
    FIRST,
    LOW_HALF,
    U0,
    U2,
    U3,
    Unit,
    UnitRows,
    enter_row,
    enter_values,
    find_row,
    home_slot,
    make_unit,
)

ID_SIZE = 4  # bytes of an id, an atom or a number
PENDING = 0xFFFFFFFF  # stands in place of the size of a row's values; sizes are below it
NO_ROW = np.uint64(0xFFFFFFFFFFFFFFFF)
_WORD_IS_PENDING, _NO_ROOM = -1, -2  # returned instead of a size
_FINAL = 256  # offset of the atoms for word-final bytes in `byte_symbols`
_SLACK = 64  # additional bytes that may be written: the rest of the last eight bytes


class LoopState(NamedTuple):
    """The progress of `encode_units`. A new text resets all fields but the first two to 0.

    `UnitCache` passes the state as an array. `encode_units` reads and changes it; `enter_unit`
    changes the first three fields.
    """

    n_units: int = 0  # units that have a row
    n_values: int = 0  # bytes of values in use
    n_pending: int = 0  # pending units that this text has added
    position: int = 0  # byte at which the search for the next unit's end starts
    start: int = 0  # byte at which the next unit starts
    after_break: int = 0  # the byte after the last break
    is_inside: int = 0  # 1 if the next unit is not the first of its line
    written: int = 0  # bytes that have been written
    line: int = 0  # lines that have ended

    def slots(self) -> LongArray:
        """Return the state as an array, (9,), which the loop reads and changes."""
        return np.array(self, np.int64)

    @classmethod
    def read(cls, slots: LongArray) -> LoopState:
        return cls(*slots.tolist())


# The index of each field in the array.
N_UNITS, N_VALUES, N_PENDING, POSITION, START, AFTER_BREAK = range(6)
IS_INSIDE, WRITTEN, LINE = range(6, 9)


class UnitEncoder(NamedTuple):
    """The tables with which new units are encoded. Symbols are numbers of tokens, or −1 − code for
    unknown characters."""

    cutter: Cutter
    # whether values are atoms, for dropout: 2 · symbol, + 1 for the last atom of a word
    sampled: bool
    merges: Merges
    rule: PieceRule
    trie: Trie  # of a unigram model, which has no merges
    room: WordBuffers  # working memory, like `path_room` and `pieces`
    path_room: PathRoom
    pieces: IntArray
    starts: LongArray  # (n_symbols + 1,), symbol s is rendered as rendered[starts[s]:starts[s + 1]]
    rendered: ByteArray  # of uint8, with 8 bytes to spare
    widest: int  # maximum bytes of a rendered symbol
    width: int  # the bytes of every rendered symbol if they are equal, so that symbol s starts at width · s; else 0
    # (256,), the ids of the byte tokens for unknown characters; (0,) if Python encodes words with
    # unknown characters
    byte_ids: IntArray
    # (1,), the id of a run of unknown characters, if `byte_ids` is empty; or (0,)
    unk_ids: IntArray
    seen: ByteArray  # (0x110000,), set to 1 for each unknown character; (0,) without `unk_ids`
    word_bits: int  # set in the last value of each word
    # whether the matches of the cutter's first split set STARTS_STRETCH and ENDS_STRETCH
    marks_stretches: bool
    # whether scores are added along lines, so that values are marked symbols, see volt.kernels.trie
    sums_lines: bool
    largest: float  # the largest size of a score

    @property
    def longest(self) -> int:
        """The bytes of the longest unit for which there is working memory."""
        return len(self.cutter.starts) - SPARE_ATOMS

    def for_thread(self, longest: int = 1024) -> UnitEncoder:
        """Return a copy with its own working memory, for units of at most so many bytes."""
        n_atoms = longest + SPARE_ATOMS
        starts, ends = np.empty((2, n_atoms), np.int64)
        return self._replace(
            cutter=self.cutter._replace(starts=starts, ends=ends),
            room=room_of(n_atoms),
            path_room=path_room(n_atoms),
            pieces=np.empty(n_atoms, np.int32),
        )


def numbering() -> UnitEncoder:
    """Return an encoder that writes, as the value of a unit, the unit's number (int32)."""
    bytes_ = np.zeros(1, np.uint8)
    ints = np.zeros(1, np.int32)
    longs = np.zeros(2, np.int64)
    keys = np.zeros(8, np.uint64)
    cutter = Cutter(
        cut=NUMBER,
        marker=NO_MARKER,
        classes=bytes_,
        symbol_of=ints,
        byte_symbols=ints,
        starts=longs,
        ends=longs,
        moves=ints,
        end=0,
        splits=longs,
        kinds=bytes_[:0],
        lasts=np.zeros(256, np.uint8),
        firsts=bytes_,
        alone=0,
        matches_only=0,
        user_starts=bytes_[:0],
        user_bytes=bytes_,
        user_bounds=longs,
    )
    encoder = UnitEncoder(
        cutter=cutter,
        sampled=False,
        merges=Merges(keys, ints, keys, False, -1),
        rule=PieceRule(bytes_, longs, no_spellings()),
        trie=no_trie(),
        room=room_of(1),
        path_room=path_room(1),
        pieces=ints,
        starts=longs,
        rendered=bytes_,
        widest=ID_SIZE,
        width=0,
        byte_ids=ints[:0],
        unk_ids=ints[:0],
        seen=bytes_[:0],
        word_bits=0,
        marks_stretches=False,
        sums_lines=False,
        largest=0.0,
    )
    return encoder.for_thread()


@borrowing
def enter_unit(
    data: ByteArray,
    unit: Unit,
    row: Any,
    shift: Any,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> Any:
    """Add a new unit with its values, or as pending. Return its row, or NO_ROW if the table is
    full.

    row: the free row for the unit;  shift: see `slot_shift`
    """
    start = int(np.int64(unit.start))
    size = int(np.int64(unit.length))
    is_first = unit.high >= FIRST
    if not _has_room(size, table, encoder, state):
        return NO_ROW

    shape, n = cut_unit(data, start, start + size, is_first, encoder.cutter)
    if shape == APART and n > 1 and not encoder.sampled:
        n = _join_words(data, is_first, n, size, shift, table, encoder, state)
        if n == _NO_ROOM:
            return NO_ROW
        row = _find_own_row(data, unit, shift, table)  # the words may have taken the free row
    elif n > 0:
        n = write_words(data, is_first, n, encoder, table.values, state[N_VALUES])
    _fill_row(data, unit, row, n, table, state)
    return row


@inlined
def _has_room(length: int, table: UnitRows, encoder: UnitEncoder, state: LongArray) -> Any:
    number = state[N_UNITS]
    longest = len(encoder.cutter.starts)  # Python encodes longer units
    n_values = (2 * min(length, longest) + 2) * encoder.widest
    return (
        number < len(table.firsts)
        and table.starts[number] + length + PADDING <= len(table.bytes)
        and state[N_VALUES] + n_values + _SLACK <= len(table.values)
    )


@inlined
def _find_own_row(data: ByteArray, unit: Unit, shift: Any, table: UnitRows) -> Any:
    return find_row(data, unit, home_slot(unit.low, unit.high, shift), table)


@inlined
def _fill_row(
    data: ByteArray,
    unit: Unit,
    row: Any,
    size: int,
    table: UnitRows,
    state: LongArray,
) -> None:
    """Fill the row of a unit whose values are the next `size` bytes; the unit is pending if the
    size is below 0."""
    number = state[N_UNITS]
    n_values = state[N_VALUES]
    enter_row(data, unit, row, table, state)
    if size < 0:
        table.pending[state[N_PENDING]] = number
        state[N_PENDING] += 1
    enter_values(row, PENDING if size < 0 else size, n_values, table)
    state[N_VALUES] = n_values + max(size, 0)


@borrowing
def _join_words(
    data: ByteArray,
    is_first: bool,
    n_words: int,
    unit_size: int,
    shift: Any,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> int:
    """Write the values of the unit's words one after the other. Return their size, _WORD_IS_PENDING
    or _NO_ROOM.

    The words are in the cutter's `starts` and `ends`. A word's row replaces its start there.
    """
    starts = encoder.cutter.starts
    ends = encoder.cutter.ends
    for word in range(n_words):  # load the rows of all words at once
        start = np.uint64(starts[word])
        unit = make_unit(data, start, np.uint64(ends[word]) - start, U0)
        prefetch(table.rows, home_slot(unit.low, unit.high, shift) << U2)

    is_pending = False
    for word in range(n_words):
        flag = FIRST if is_first and word == 0 else U0
        row = _enter_word(data, starts[word], ends[word], flag, shift, table, encoder, state)
        if row == NO_ROW:
            return _NO_ROOM
        entry = table.rows[row + U2]
        if entry & LOW_HALF == np.uint64(PENDING) or entry == U0:
            is_pending = True
            break
        starts[word] = np.int64(row)
    if not _has_room(unit_size, table, encoder, state):  # its words have used some of the room
        return _NO_ROOM
    if is_pending:
        return _WORD_IS_PENDING

    first = to = np.uint64(state[N_VALUES])
    for word in range(n_words):
        row = np.uint64(starts[word])
        size = table.rows[row + U2] & LOW_HALF
        store64(table.values, to, table.rows[row + U3])
        if size > EIGHT:
            copy_eights(table.values, table.rows[row + U3], size, table.values, to)
        to += size
    return int(np.int64(to - first))


@borrowing
def _enter_word(
    data: ByteArray,
    start: int,
    end: int,
    flag: Any,
    shift: Any,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> Any:
    """Return the row of a word, an empty row if Python must encode it, or NO_ROW if the table is
    full."""
    unit = make_unit(data, np.uint64(start), np.uint64(end - start), flag)
    row = _find_own_row(data, unit, shift, table)
    if table.rows[row + U2] == U0:
        if not _has_room(end - start, table, encoder, state):
            return NO_ROW
        size = write_word(data, start, end, flag > U0, encoder, table.values, state[N_VALUES])
        if size >= 0:
            _fill_row(data, unit, row, size, table, state)
    return row


@borrowing
def write_words(
    data: ByteArray, is_first: bool, n_words: int, encoder: UnitEncoder, values: IntArray, to: int
) -> int:
    """Write the values of the words in the cutter's `starts` and `ends`. Return their bytes, or
    LEFT_TO_PYTHON."""
    starts = encoder.cutter.starts
    ends = encoder.cutter.ends
    unit_start = starts[0]
    after = to
    for word in range(n_words):
        is_marked = is_first and word == 0
        size = write_word(data, starts[word], ends[word], is_marked, encoder, values, after)
        if size < 0:
            return LEFT_TO_PYTHON
        after += size
        starts[word] = after
    if encoder.marks_stretches:
        _mark_stretches(data, unit_start, n_words, encoder.cutter, values, to)
    return after - to


@borrowing
def _mark_stretches(
    data: ByteArray, start: int, n_words: int, cutter: Cutter, values: IntArray, first: int
) -> None:
    """Set bits in the values of a unit where stretches start and end: at matches of the first split.

    start: the unit's first byte;  first: where its values start
    In the cutter, `ends` are the ends of words, and `starts` the places where their values end.
    """
    tables = SplitTables(cutter.classes, cutter.moves, cutter.end, cutter.splits)
    row = np.uint64(cutter.splits[0] >> 1)
    end = cutter.ends[n_words - 1]
    word = 0
    p = start
    while p < end:
        match_end, after = find_match(data, start, end, p, row, False, tables)
        if match_end == p:
            p = after
            continue
        if p == start:
            values[first] |= STARTS_STRETCH
        while cutter.ends[word] < match_end:
            if cutter.ends[word] == p:
                values[cutter.starts[word] - ID_SIZE] |= ENDS_STRETCH
            word += 1
        values[cutter.starts[word] - ID_SIZE] |= ENDS_STRETCH
        p = match_end


@borrowing
def write_word(
    data: ByteArray,
    start: int,
    end: int,
    is_marked: bool,
    encoder: UnitEncoder,
    values: IntArray,
    to: int,
) -> int:
    """Write the values of the word data[start:end] to values[to:]. Return their size in bytes, or
    LEFT_TO_PYTHON."""
    if encoder.cutter.cut == NUMBER:
        store64(values, to, np.uint64(to // ID_SIZE))
        return ID_SIZE
    first = to
    if len(encoder.trie.units) > 0:
        if not is_readable(data, start, end, encoder.cutter):
            return LEFT_TO_PYTHON
        size = copy_word(data, start, end, is_marked, encoder.path_room.text)
        is_line = encoder.sums_lines and encoder.cutter.cut == UNCUT
        room = encoder.path_room
        n, gap = best_path(size, 0.0, is_line, encoder.trie, room, encoder.pieces, 0)
        if encoder.sums_lines:
            level = TOP_LEVEL if is_line else level_of(gap, size, encoder.largest)
            return _write_marked_symbols(n, level, encoder.pieces, values, to)
    else:
        symbols = encoder.room.word.symbols[1:]
        n = _write_atoms(data, start, end, is_marked, encoder.cutter, symbols)
        if n <= 0:
            return n
        if encoder.sampled:
            return _write_atoms_for_dropout(n, symbols, values, to)
        n = _merge_atoms(n, encoder)
    was_unknown = False
    for symbol in encoder.pieces[:n]:
        if symbol < 0:
            code = (-1 - np.int64(symbol)) >> 1
            if code >= PRIVATE:  # of a user token
                return LEFT_TO_PYTHON
            if len(encoder.byte_ids) > 0:
                to = _write_byte_ids(code, encoder.byte_ids, values, to)
            elif len(encoder.unk_ids) > 0:
                encoder.seen[code] = 1
                if not was_unknown:
                    store64(values, to, np.uint64(encoder.unk_ids[0]))
                    to += ID_SIZE
            else:
                return LEFT_TO_PYTHON
        elif encoder.width == ID_SIZE:
            store64(values, to, load64(encoder.rendered, ID_SIZE * np.int64(symbol)))
            to += ID_SIZE
        else:
            size = encoder.starts[symbol + 1] - encoder.starts[symbol]
            copy_eights(encoder.rendered, encoder.starts[symbol], size, values, to)
            to += size
        was_unknown = symbol < 0
    if encoder.word_bits != 0:
        values[to - ID_SIZE] |= np.uint8(encoder.word_bits & 0xFF)
        values[to - 1] |= np.uint8(encoder.word_bits >> 24 & 0xFF)
    return to - first


@inlined
def _write_marked_symbols(n: int, level: Any, symbols: IntArray, values: IntArray, to: int) -> int:
    """Write the marked symbols of a word, see volt.kernels.trie. Return their size in bytes."""
    mark = (1 + level) << LEVEL_SHIFT
    for i in range(n):
        symbol = np.int64(symbols[i])
        if symbol < 0:
            symbol = (-1 - symbol) >> 1 | IS_UNKNOWN
        store64(values, to + ID_SIZE * i, np.uint64(symbol | mark))
        mark = 0
    return ID_SIZE * n


@borrowing
def _merge_atoms(n: int, encoder: UnitEncoder) -> int:
    no_state = encoder.cutter.ends  # not read: nothing is drawn
    return encode_word(
        n, encoder.room, encoder.merges, encoder.rule, 0.0, no_state, encoder.pieces, 0
    )


@borrowing
def _write_atoms(
    data: ByteArray, p: int, end: int, is_marked: bool, cutter: Cutter, symbols: IntArray
) -> int:
    """Write the symbols of the atoms of data[p:end]. Return their number, or LEFT_TO_PYTHON."""
    n = 0
    code = np.int64(0)
    if is_marked or cutter.marker == PREFIX:
        symbols[0] = cutter.symbol_of[2 * SPACE_CODE]
        n = 1

    while p < end:
        code = np.int64(data[p])
        if code < 0x80 or cutter.cut >= BYTES:
            symbols[n] = cutter.byte_symbols[code]
            p += 1
        else:
            code, p = character(data, p, end)
            if code < 0 or code >= PRIVATE:
                return LEFT_TO_PYTHON
            symbols[n] = cutter.symbol_of[2 * code]
        n += 1

    if cutter.marker == SUFFIX:
        if code < 0x80 or cutter.cut >= BYTES:
            symbols[n - 1] = cutter.byte_symbols[_FINAL + code]
        else:
            symbols[n - 1] = cutter.symbol_of[2 * code + 1]
    return n


@borrowing
def _write_atoms_for_dropout(n: int, symbols: IntArray, values: IntArray, to: int) -> int:
    for i in range(n):
        atom = 2 * np.int64(symbols[i]) + int(i == n - 1)
        store64(values, to + ID_SIZE * i, np.uint64(atom & 0xFFFFFFFF))
    return ID_SIZE * n


@inlined
def _write_byte_ids(code: Any, byte_ids: IntArray, values: IntArray, to: int) -> int:
    """Write the ids of the UTF-8 bytes of a character. Return the position after them."""
    n = 1 + int(code >= 0x80) + int(code >= 0x800) + int(code >= 0x10000)
    for i in range(n):
        byte = code >> 6 * (n - 1 - i)
        if i > 0:
            byte = 0x80 | (byte & 0x3F)
        elif n > 1:
            byte |= 0xF00 >> n & 0xFF
        store64(values, to + ID_SIZE * i, np.uint64(byte_ids[byte]))
    return to + ID_SIZE * n
