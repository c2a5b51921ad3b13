"""The bytes of one unit → the values that it stands for, compiled: cut into pre-tokens, merged, and rendered.

Values are bytes: text, or numbers of four bytes each. Only what is certain is done here: text whose characters have a
known class, no white space but ASCII's, no "▁", no private characters, no more than `LONGEST` bytes. All else is left
to Python, which does the same for any text.

    NUMBER      nothing is cut, the value is the number of values before
    WORD        the unit is a pre-token                     SPLIT       so it is where it holds no white space
    METASPACE   a "▁" for each space, which starts a word   UNICODE     runs of letters with marks, numbers, others
    GPT2        its pattern, spaces as "▁"                  BYTES       its pattern, bytes as GPT-2's alphabet
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.bpe import FlagArray
from volt.kernels.compiling import borrowing, inlined
from volt.kernels.encode import encode_word
from volt.kernels.hashing import IntArray, LongArray
from volt.kernels.memory import store64
from volt.kernels.merging import Merges, Room, ranked_merges, room_for

NEVER, NUMBER, WORD, SPLIT, METASPACE, UNICODE, GPT2, BYTES = range(8)  # how a unit is cut
NO_CLASS, OTHER, LETTER, NUMBER_CLASS, MARK, WHITE = range(6)  # classes of characters
NO_MARKER, SUFFIX, PREFIX = range(3)
ID_SIZE = 4  # bytes of an id, an atom or a number
LONGEST = 1024  # bytes of a unit; Python takes longer ones
_SPACE, _QUOTE, _PRIVATE = 0x2581, ord("'"), 0x10F000
_UNLEARNED = -1


class Cutter(NamedTuple):
    """How units become atoms. cut, marker: see above;  classes: (0x110000,) uint8 class of each character
    symbol_of: (2 · 0x110000,) int32, see volt.tables;  alphabet: (256,) int32 character of each byte
    atoms, ends: memory to work in: the atoms of a unit's words, and where each word's end."""

    cut: int
    marker: int
    classes: FlagArray
    symbol_of: IntArray
    alphabet: IntArray
    atoms: IntArray
    ends: LongArray


class Learner(NamedTuple):
    """What a unit stands for. sampled: whether atoms are wanted, each 2 · symbol, + 1 for the last of a word
    merges, kept, parts: see volt.kernels.encode;  room, pieces: memory to work in
    starts: (n + 1,) int64: symbol s is rendered as rendered[starts[s]:starts[s + 1]], (…,) uint8;  widest: of these."""

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
        atoms, ends = np.empty(2 * LONGEST, np.int32), np.empty(2 * LONGEST, np.int64)
        return self._replace(
            cutter=self.cutter._replace(atoms=atoms, ends=ends), room=room_for(2 * LONGEST), pieces=np.empty_like(atoms)
        )


def numbering(classes: FlagArray) -> Learner:
    """A learner for which each unit stands for its number, int32, in the order in which units are met."""
    ints, longs = np.zeros(1, np.int32), np.zeros(2, np.int64)
    return Learner(
        Cutter(NUMBER, NO_MARKER, classes, ints, ints, ints, longs), False, ranked_merges(ints[:0], ints[:0], ints[:0]),
        classes, longs, room_for(1), ints, longs, classes, ID_SIZE,
    ).for_thread()  # fmt: skip


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
def _class(code: int, cutter: Cutter) -> Any:
    """The class of a character as its pattern sees it; NO_CLASS if Python must decide."""
    if code < 0 or code >= _PRIVATE or (code == _SPACE and cutter.cut != BYTES):
        return NO_CLASS
    found = cutter.classes[code]
    if found == WHITE:
        return OTHER if code < 0x80 and cutter.cut == UNICODE else NO_CLASS
    if found == MARK:
        return LETTER if cutter.cut == UNICODE else OTHER
    return found


@borrowing
def _put_text(data: IntArray, p: int, end: int, n: int, cutter: Cutter) -> int:
    """Add the atoms of text that is known to be UTF-8; how many there are then."""
    while p < end:
        if cutter.cut == BYTES:
            code, p = cutter.alphabet[data[p]], p + 1
        else:
            code, p = _character(data, p, end)
        cutter.atoms[n], n = cutter.symbol_of[2 * (_SPACE if code == 32 else code)], n + 1
    return n


@borrowing
def _one_word(data: IntArray, p: int, end: int, cutter: Cutter) -> int:
    """The unit as it stands. Here and below: how many words were found, −1 if Python must decide."""
    n, code, cutter.atoms[0] = int(cutter.marker == PREFIX), 0, cutter.symbol_of[2 * _SPACE]
    while p < end:
        code, p = _character(data, p, end)
        if code < 0 or code >= _PRIVATE or (code >= 0x80 and cutter.cut == SPLIT and _is_white(code)):
            return _UNLEARNED
        cutter.atoms[n], n = cutter.symbol_of[2 * code], n + 1
    if cutter.marker == SUFFIX:
        cutter.atoms[n - 1] = cutter.symbol_of[2 * code + 1]
    cutter.ends[0] = n
    return 1


@borrowing
def _is_white(code: int) -> bool:
    """Whether a character beyond ASCII parts words, as str.split() has it."""
    if code < 0x1680:
        return code == 0x85 or code == 0xA0
    if code < 0x2000:
        return code == 0x1680
    return code <= 0x200A or code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@borrowing
def _metaspace(data: IntArray, p: int, end: int, first: bool, cutter: Cutter) -> int:
    """A word for each space, and the rest behind the last; a line's first unit has one "▁" more."""
    n, n_words = 0, 0
    n_spaces = int(first)
    while p < end and data[p] == 32:
        n_spaces, p = n_spaces + 1, p + 1
    for _ in range(n_spaces - 1):
        cutter.atoms[n], n = cutter.symbol_of[2 * _SPACE], n + 1
        cutter.ends[n_words], n_words = n, n_words + 1
    cutter.atoms[n], n = cutter.symbol_of[2 * _SPACE], n + 1
    while p < end:
        code, p = _character(data, p, end)
        if code < 0 or code >= _PRIVATE or code == _SPACE:
            return _UNLEARNED
        cutter.atoms[n], n = cutter.symbol_of[2 * code], n + 1
    cutter.ends[n_words] = n
    return n_words + 1


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
def _runs(data: IntArray, p: int, end: int, n: int, n_words: int, cutter: Cutter) -> int:
    """Words that are runs of one class, the first with a space before it if there is one."""
    while p < end:
        start = p
        length = 0 if cutter.cut == UNICODE else _contraction(data, p, end)
        if length > 0:
            p += length
        else:
            p += data[p] == 32  # only the first word can start with one
            code, p = _character(data, p, end)
            kind = _class(code, cutter)
            if kind == NO_CLASS:
                return _UNLEARNED
            while p < end:
                code, after = _character(data, p, end)
                found = _class(code, cutter)
                if found == NO_CLASS:
                    return _UNLEARNED
                if found != kind:
                    break
                p = after
        n = _put_text(data, start, p, n, cutter)
        cutter.ends[n_words], n_words = n, n_words + 1
    return n_words


@borrowing
def _unicode(data: IntArray, p: int, end: int, first: bool, cutter: Cutter) -> int:
    """Several spaces are a word, a single one goes with the run behind it; a line's first unit has one "▁" more."""
    n, n_words, n_spaces = 0, 0, int(first)
    while p < end and data[p] == 32:
        n_spaces, p = n_spaces + 1, p + 1
    for _ in range(n_spaces):
        cutter.atoms[n], n = cutter.symbol_of[2 * _SPACE], n + 1
    if n_spaces > 1 or p == end:
        cutter.ends[0], n_words = n, 1
    return _runs(data, p, end, n, n_words, cutter)


@borrowing
def _gpt2(data: IntArray, start: int, end: int, cutter: Cutter) -> int:
    """White space but for its last character; that too, unless it is a space; then runs."""
    p, n, n_words = start, 0, 0
    while p < end and (data[p] == 32 or 9 <= data[p] <= 13):
        p += 1
    last = p - 1 if start < p < end else p
    if last > start:
        n = _put_text(data, start, last, n, cutter)
        cutter.ends[n_words], n_words = n, n_words + 1
    if last < p and data[last] != 32:
        n = _put_text(data, last, p, n, cutter)
        cutter.ends[n_words], n_words, last = n, n_words + 1, p
    return _runs(data, last, end, n, n_words, cutter)


@borrowing
def _cut(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    if cutter.cut == WORD or cutter.cut == SPLIT:
        return _one_word(data, start, end, cutter)
    if cutter.cut == METASPACE:
        return _metaspace(data, start, end, first, cutter)
    if cutter.cut == UNICODE:
        return _unicode(data, start, end, first, cutter)
    return _gpt2(data, start, end, cutter)


@inlined
def learn_unit(data: IntArray, start: int, end: int, first: bool, learner: Learner, values: IntArray, at: int) -> int:
    """Write what a unit stands for to values[at:], uint8; how many bytes, −1 if Python must do it.

    first: whether it starts its line;  values: with room for (2 · (end − start) + 2) · learner.widest more.
    """
    cutter = learner.cutter
    if cutter.cut == NUMBER:
        store64(values, at, np.uint64(at // ID_SIZE))
        return ID_SIZE
    if cutter.cut == NEVER or end - start > LONGEST:
        return _UNLEARNED
    n_words = _cut(data, start, end, first, cutter)
    if n_words < 0:
        return _UNLEARNED
    return _marked(n_words, cutter, values, at) if learner.sampled else _encoded(n_words, learner, values, at)


@inlined
def _marked(n_words: int, cutter: Cutter, values: IntArray, at: int) -> int:
    """Write the atoms of words; how many bytes."""
    i, began = 0, at
    for word in range(n_words):
        while i < cutter.ends[word]:
            i += 1
            marked = 2 * np.int64(cutter.atoms[i - 1]) + (i == cutter.ends[word])
            store64(values, at, np.uint64(marked & 0xFFFFFFFF))
            at += ID_SIZE
    return at - began


@inlined
def _encoded(n_words: int, learner: Learner, values: IntArray, at: int) -> int:
    """Merge the atoms of words and write what the pieces are rendered as; how many bytes, −1: unknown characters."""
    done, began, state = 0, at, learner.cutter.ends[:1]  # no state: nothing is drawn from it
    for word in range(n_words):
        end = learner.cutter.ends[word]
        n = encode_word(
            learner.cutter.atoms[done:end], learner.room, learner.merges, learner.kept, learner.parts, 0.0, state,
            learner.pieces, 0,
        )  # fmt: skip
        for symbol in learner.pieces[:n]:
            if symbol < 0:
                return _UNLEARNED
            for i in range(learner.starts[symbol], learner.starts[symbol + 1]):
                values[at], at = learner.rendered[i], at + 1
        done = end
    return at - began
