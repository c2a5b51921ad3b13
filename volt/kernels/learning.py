"""The bytes of one unit → the values that it stands for, compiled: cut into pre-tokens, merged, and rendered.

Values are bytes: text, or numbers of four bytes each. Only what is certain is done here: text whose characters have a
known class, no "▁" where that stands for a space, no private characters, no more than `LONGEST` bytes. All else is left
to Python, which does the same for any text.

    NUMBER      nothing is cut, the value is the number of values before
    WORD        the unit is a pre-token                     SPLIT       between white space beyond ASCII
    METASPACE   a "▁" for each space, which starts a word   UNICODE     runs of letters with marks, numbers, others
    GPT2        its pattern, spaces as "▁"                  BYTES       its pattern, bytes as GPT-2's alphabet
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.bpe import FlagArray
from volt.kernels.compiling import borrowing, inlined
from volt.kernels.encode import encode_word
from volt.kernels.hashing import IntArray, LongArray
from volt.kernels.memory import load64, store64
from volt.kernels.merging import Merges, Room, room_of

NEVER, NUMBER, WORD, SPLIT, METASPACE, UNICODE, GPT2, BYTES = range(8)  # how a unit is cut
NO_CLASS, OTHER, LETTER, NUMBER_CLASS, MARK, WHITE = range(6)  # classes of characters
NO_MARKER, SUFFIX, PREFIX = range(3)
APART, TOGETHER, OPEN = range(3)  # shapes of a unit
ID_SIZE = 4  # bytes of an id, an atom or a number
LONGEST = 1024  # bytes of a unit; Python takes longer ones
_SPACE, _QUOTE, _PRIVATE = 0x2581, ord("'"), 0x10F000
_UNLEARNED = -1


class Cutter(NamedTuple):
    """How units become words, and words atoms. cut, marker: see above;  classes: (0x110000,) uint8 class of each
    character;  symbol_of: (2 · 0x110000,) int32, see volt.tables;  byte_symbols: (256,) int32 atom of each byte, or of
    each ASCII character where text is no bytes, "▁" for a space;  starts, ends: memory to work in: where the words of
    a unit are."""

    cut: int
    marker: int
    classes: FlagArray
    symbol_of: IntArray
    byte_symbols: IntArray
    starts: LongArray
    ends: LongArray


class Learner(NamedTuple):
    """What a unit stands for. sampled: whether atoms are wanted, each 2 · symbol, + 1 for the last of a word
    merges, kept, parts: see volt.kernels.encode;  room, pieces: memory to work in
    starts: (n + 1,) int64: symbol s is rendered as rendered[starts[s]:starts[s + 1]], (…,) uint8, 8 bytes longer than
    is used;  widest: of these."""

    cutter: Cutter
    sampled: bool
    merges: Merges
    kept: FlagArray
    parts: LongArray
    room: Room
    pieces: IntArray
    starts: LongArray
    rendered: IntArray
    widest: int

    def for_thread(self) -> "Learner":
        """The same with memory of its own."""
        starts, ends, pieces = (np.empty(LONGEST + 2, dtype) for dtype in (np.int64, np.int64, np.int32))
        cutter = self.cutter._replace(starts=starts, ends=ends)
        return self._replace(cutter=cutter, room=room_of(LONGEST + 2), pieces=pieces)


def numbering() -> Learner:
    """A learner for which each unit stands for its number, int32, in the order in which units are met."""
    classes, ints, longs = np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(2, np.int64)
    cutter = Cutter(NUMBER, NO_MARKER, classes, ints, ints, longs, longs)
    merges = Merges(np.zeros(8, np.uint64), ints, ints)
    learner = Learner(cutter, False, merges, classes, longs, room_of(1), ints, longs, classes, ID_SIZE)
    return learner.for_thread()


@inlined
def _character(data: IntArray, p: int, end: int) -> tuple[Any, int]:
    """The character that starts at p and where the next does; −1 where the bytes are not UTF-8."""
    first = np.int64(data[p])
    if first < 0x80:
        return first, p + 1
    n = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or p + n > end:
        return -1, p
    code = first & (0x7F >> n)
    for i in range(p + 1, p + n):
        if data[i] & 0xC0 != 0x80:
            return -1, p
        code = code << 6 | (np.int64(data[i]) & 0x3F)
    overlong = (n == 3 and code < 0x800) or (n == 4 and code < 0x10000)
    return (-1 if overlong or code > 0x10FFFF or 0xD800 <= code < 0xE000 else code), p + n


@inlined
def _kind(data: IntArray, p: int, end: int, cutter: Cutter) -> tuple[Any, int]:
    """The class of the character at p as its pattern sees it, NO_CLASS if Python must decide, and where the next is."""
    code = np.int64(data[p])
    if code < 0x80:
        found, p = cutter.classes[code], p + 1
    else:
        code, p = _character(data, p, end)
        if code < 0 or code >= _PRIVATE or (code == _SPACE and cutter.cut != BYTES):
            return NO_CLASS, p
        found = cutter.classes[code]
    if found == WHITE and cutter.cut == UNICODE:
        found = OTHER if code < 0x80 else NO_CLASS
    elif found == MARK:
        found = LETTER if cutter.cut == UNICODE else OTHER
    return found, p


@inlined
def _add(start: int, end: int, n_words: int, cutter: Cutter) -> int:
    """Note where a word is; how many there are then."""
    cutter.starts[n_words], cutter.ends[n_words] = start, end
    return n_words + 1


@borrowing
def _is_white(code: int) -> bool:
    """Whether a character beyond ASCII parts words, as str.split() has it."""
    if code < 0x1680:
        return code == 0x85 or code == 0xA0
    if code < 0x2000:
        return code == 0x1680
    return code <= 0x200A or code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@borrowing
def _split(data: IntArray, start: int, end: int, cutter: Cutter) -> int:
    """Words between white space beyond ASCII, all of which starts with one of four bytes."""
    p, n_words = start, 0
    while p < end:
        byte, before = data[p], p
        p += 1
        if byte == 0xC2 or 0xE1 <= byte <= 0xE3:
            code, p = _character(data, before, end)
            if code < 0:
                return _UNLEARNED
            if _is_white(code):
                if start < before:
                    n_words = _add(start, before, n_words, cutter)
                start = p
    return _add(start, end, n_words, cutter) if start < end else n_words


@borrowing
def _metaspace(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    """A word for each space, and the rest behind the last; a line's first unit has one "▁" more."""
    p, n_words, has_marker = start, 0, first
    while p < end and data[p] == 32:
        if has_marker:
            n_words, start = _add(start, p, n_words, cutter), p
        has_marker, p = True, p + 1
    return _add(start, end, n_words, cutter)


@borrowing
def _run(data: IntArray, p: int, end: int, cutter: Cutter) -> int:
    """The end of the characters of one class that start at p, −1 if Python must decide."""
    kind, p = _kind(data, p, end, cutter)
    found = kind
    while p < end and found != NO_CLASS:
        found, after = _kind(data, p, end, cutter)
        if found != kind:
            break
        p = after
    return p if found != NO_CLASS else _UNLEARNED


@borrowing
def _unicode(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    """Several spaces are a word, a single one goes with the run behind it; a line's first unit has one "▁" more."""
    p, n_words, n_spaces = start, 0, int(first)
    while p < end and data[p] == 32:
        n_spaces, p = n_spaces + 1, p + 1
    if n_spaces > 1 or p == end:
        n_words, start = _add(start, p, 0, cutter), p
    while p < end:
        p = _run(data, p, end, cutter)
        if p < 0:
            return _UNLEARNED
        n_words, start = _add(start, p, n_words, cutter), p
    return n_words


@borrowing
def _contraction(data: IntArray, p: int, end: int) -> int:
    """The length of an English contraction that starts at p, 0 if there is none."""
    if data[p] != _QUOTE or p + 1 >= end:
        return 0
    second = data[p + 1]
    if second == ord("s") or second == ord("t") or second == ord("m") or second == ord("d"):
        return 2
    if p + 2 < end:
        third = data[p + 2]
        if (third == ord("e") and (second == ord("r") or second == ord("v"))) or (
            second == ord("l") and third == ord("l")
        ):
            return 3
    return 0


@borrowing
def _gpt2(data: IntArray, start: int, end: int, cutter: Cutter) -> tuple[int, int]:
    """White space but for its last character; that too, unless it is a space; a contraction, or a run of one class with
    the space; and again. White space that ends the unit, and is beyond ASCII, could go on in the next."""
    p, n_words, shape = start, 0, APART
    while p < end:
        last = p
        kind, after = _kind(data, p, end, cutter)
        while kind == WHITE:
            shape = TOGETHER if data[p] >= 0x80 else shape
            last, p = p, after
            if p == end:
                is_open, n_words = data[last] >= 0x80, _add(start, end, n_words, cutter)
                return OPEN if is_open else shape, n_words
            kind, after = _kind(data, p, end, cutter)
        if last > start:
            n_words, start = _add(start, last, n_words, cutter), last
        if last < p and data[last] != 32:
            n_words, start = _add(last, p, n_words, cutter), p
        length = _contraction(data, p, end) if start == p else 0
        p = p + length if length > 0 else _run(data, p, end, cutter)
        if p < 0:
            return shape, _UNLEARNED
        n_words, start = _add(start, p, n_words, cutter), p
    return shape, n_words


@borrowing
def cut_unit(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> tuple[int, int]:
    """Note where the words of a unit are; its shape, and how many, −1 if Python must decide.

    first: whether the unit starts its line, if that is marked: its first word has a "▁" more then
    The shape is APART if each word is one by itself too, TOGETHER if not, OPEN if the next unit matters as well.
    """
    if cutter.cut == NEVER or (end - start > LONGEST and cutter.cut != NUMBER):
        return TOGETHER, _UNLEARNED
    if cutter.cut <= WORD:
        return TOGETHER, _add(start, end, 0, cutter)
    if cutter.cut == SPLIT:
        return APART, _split(data, start, end, cutter)
    if cutter.cut == METASPACE:
        return TOGETHER, _metaspace(data, start, end, first, cutter)
    if cutter.cut == UNICODE:
        return APART, _unicode(data, start, end, first, cutter)
    return _gpt2(data, start, end, cutter)


@borrowing
def _put_atoms(data: IntArray, p: int, end: int, marked: bool, cutter: Cutter, symbols: IntArray) -> int:
    """Write the atoms of a word, "▁" first if it is marked; how many, −1 if Python must decide."""
    n, code = 0, np.int64(0)
    if marked or cutter.marker == PREFIX:
        symbols[0], n = cutter.symbol_of[2 * _SPACE], 1
    while p < end:
        code = np.int64(data[p])
        if code < 0x80 or cutter.cut == BYTES:
            symbols[n], n, p = cutter.byte_symbols[code], n + 1, p + 1
            continue
        code, p = _character(data, p, end)
        if code < 0 or code >= _PRIVATE or (code == _SPACE and cutter.cut >= METASPACE):
            return _UNLEARNED
        symbols[n], n = cutter.symbol_of[2 * code], n + 1
    if cutter.marker == SUFFIX:
        symbols[n - 1] = cutter.symbol_of[2 * code + 1]
    return n


@borrowing
def learn_word(data: IntArray, start: int, end: int, marked: bool, learner: Learner, values: IntArray, at: int) -> int:
    """Write what a word stands for to values[at:], uint8; how many bytes, −1 if Python must do it.

    marked: whether it has a "▁" more in front
    values: with room for (end − start + 1) · learner.widest more, and 8 bytes.
    """
    if learner.cutter.cut == NUMBER:
        store64(values, at, np.uint64(at // ID_SIZE))
        return ID_SIZE
    symbols = learner.room.word.symbols[1:]
    n = _put_atoms(data, start, end, marked, learner.cutter, symbols)
    if n <= 0 or learner.sampled:
        return _mark_last(n, symbols, values, at)
    no_state = learner.cutter.ends  # nothing is drawn from it
    n = encode_word(n, learner.room, learner.merges, learner.kept, learner.parts, 0.0, no_state, learner.pieces, 0)
    began = at
    for symbol in learner.pieces[:n]:
        if symbol < 0:
            return _UNLEARNED
        source, n_bytes = learner.starts[symbol], learner.starts[symbol + 1] - learner.starts[symbol]
        for i in range(0, n_bytes, 8):
            store64(values, at + i, load64(learner.rendered, source + i))
        at += n_bytes
    return at - began


@borrowing
def _mark_last(n: int, symbols: IntArray, values: IntArray, at: int) -> int:
    """Write the n atoms of a word, the last one marked; how many bytes, −1 if n is."""
    for i in range(n):
        store64(values, at + ID_SIZE * i, np.uint64(2 * np.int64(symbols[i]) + (i == n - 1) & 0xFFFFFFFF))
    return max(ID_SIZE * n, n)


@borrowing
def learn_words(data: IntArray, first: bool, n_words: int, learner: Learner, values: IntArray, at: int) -> int:
    """The same for all words of a unit that has been cut."""
    cutter, began = learner.cutter, at
    for word in range(n_words):
        n = learn_word(data, cutter.starts[word], cutter.ends[word], first and word == 0, learner, values, at)
        if n < 0:
            return _UNLEARNED
        at += n
    return at - began
