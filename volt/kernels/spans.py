"""Find the span of each piece in its line, in characters.

    line "é low", pieces "é", "▁lo", "w"   characters 1, 3, 1   →   spans (0, 1), (1, 4), (4, 5)

The characters that a piece spells are known before any text is seen, so one pass over the pieces
adds them up. The text itself is read only where splitting drops characters, such as white space.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, LongArray, LongTable, TextArray
from volt.kernels.intrinsics import character
from volt.kernels.jit import inlined, releasing

# A piece's shape is a number: flags, and how many characters start in the piece.
DEPENDS_ON_TEXT, STARTS_INSIDE, ONE_CHARACTER = 1, 2, 4
ENDS_WORD = -1 << 31  # the bit that marks the last piece of a word; the other bits are its number
_NUMBER = ~ENDS_WORD


class PieceShapes(NamedTuple):
    # (n_numbers,), the id of each number, −1 if it has none. A piece with one of the last two numbers
    # continues with the next number.
    ids: IntArray
    shapes: LongArray  # (n_numbers,)
    n_marks: int  # the characters of the marker before each word
    is_dropped: ByteArray  # (n,), 1 for characters between words; (0,) if words contain all text


@releasing
def find_spans(
    numbers: IntArray,
    line_ends: LongArray,
    n_added: ByteArray,
    text: TextArray,
    separator: int,
    pieces: PieceShapes,
    spans: LongTable,
    ends: LongArray,
    totals: LongArray,
) -> int:
    """Write the id, start, end and word of each piece to `spans`, (4, n). Return their number.

    numbers: the number of each piece, with ENDS_WORD;  line_ends: where each line's numbers end
    n_added: the characters that precede each line and that it does not contain
    text: the lines, each followed by the byte `separator`
    ends: set to where each line's pieces end
    totals: set to the characters of each line, as the pieces say; −1 if they depend on the text
    """
    n = i = p = 0
    first_continued = len(pieces.ids) - 2
    for line in range(len(line_ends)):
        place = low = word = depends = 0
        continued = -1
        ends_word = True
        n_before = pieces.n_marks + int(n_added[line])
        while i < line_ends[line]:
            number = np.int64(numbers[i]) & _NUMBER
            shape = pieces.shapes[number]
            depends |= shape & DEPENDS_ON_TEXT
            if ends_word:
                p, place = _skip_dropped(text, p, separator, place, pieces.is_dropped)
                low = place
                place -= n_before
                n_before = pieces.n_marks
            start = max(low, place - int(shape & STARTS_INSIDE != 0))
            end_before = max(low, place)
            place += shape // ONE_CHARACTER
            end = max(low, place)
            if len(pieces.is_dropped) > 0:
                p = _skip_characters(text, p, separator, end - end_before)
            ends_word = numbers[i] < 0
            i += 1
            if continued >= 0:
                start = continued
            continued = start
            if number < first_continued:
                continued = -1
                spans[0, n] = pieces.ids[number]
                spans[1, n] = start
                spans[2, n] = end
                spans[3, n] = word
                n += 1
            word += int(ends_word)

        p, place = _skip_dropped(text, p, separator, place, pieces.is_dropped)
        p = _skip_line(text, p, separator, pieces.is_dropped)
        ends[line] = n
        totals[line] = -1 if depends else place
    return n


@inlined
def _skip_dropped(
    text: TextArray, p: int, separator: int, place: int, is_dropped: ByteArray
) -> tuple[Any, Any]:
    """Return the position and the character after those that no word contains."""
    while len(is_dropped) > 0 and text[p] != separator:
        code, after = character(text, p, len(text))
        if code >= len(is_dropped) or not is_dropped[code]:
            break
        p = after
        place += 1
    return p, place


@inlined
def _skip_characters(text: TextArray, p: int, separator: int, n_characters: int) -> Any:
    for _ in range(n_characters):
        if text[p] == separator:
            break
        p += 1
        while text[p] & 0xC0 == 0x80:
            p += 1
    return p


@inlined
def _skip_line(text: TextArray, p: int, separator: int, is_dropped: ByteArray) -> Any:
    while len(is_dropped) > 0 and text[p] != separator:
        p += 1
    return p + 1
