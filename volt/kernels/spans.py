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
    ids: IntArray,
    spans: LongTable,
    ends: LongArray,
    totals: LongArray,
) -> int:
    """Write the id, the start, the end and the word of each piece. Return the number of pieces.

    numbers: the number of each piece, with ENDS_WORD
    line_ends: where each line's numbers end
    n_added: the characters that precede each line and that it does not contain
    text: the lines, each followed by the byte `separator`; it may be empty if all text is in words
    ids, spans: set to the id, and to start, end and word of each piece; (n,) and (3, n)
    ends: set to where each line's pieces end
    totals: set to the characters of each line, as the pieces say; −1 if they depend on the text
    """
    n = i = p = 0
    first_continued = len(pieces.ids) - 2
    drops = len(pieces.is_dropped) > 0
    for line in range(len(line_ends)):
        place = low = word = 0
        continued = -1
        is_word_start = True
        depends = 0
        n_before = pieces.n_marks + int(n_added[line])
        while i < line_ends[line]:
            number = np.int64(numbers[i]) & _NUMBER
            shape = pieces.shapes[number]
            if is_word_start:
                if drops:
                    p, place = _skip_dropped(text, p, separator, place, pieces)
                low = place
                place -= n_before
                n_before = pieces.n_marks
            start = max(low, place - int(shape & STARTS_INSIDE != 0))
            n_read = -max(low, place)
            place += shape // ONE_CHARACTER
            end = max(low, place)
            if drops:
                p = _skip_characters(text, p, separator, n_read + end)

            depends |= shape & DEPENDS_ON_TEXT
            is_word_start = numbers[i] < 0
            i += 1
            if continued >= 0:
                start = continued
            if number >= first_continued:
                continued = start
                continue
            continued = -1
            ids[n] = pieces.ids[number]
            spans[0, n] = start
            spans[1, n] = end
            spans[2, n] = word
            n += 1
            word += int(is_word_start)

        if drops:
            p, place = _skip_dropped(text, p, separator, place, pieces)
            while text[p] != separator:
                p += 1
            p += 1
        ends[line] = n
        totals[line] = -1 if depends else place
    return n


@inlined
def _skip_dropped(
    text: TextArray, p: int, separator: int, place: int, pieces: PieceShapes
) -> tuple[Any, Any]:
    """Return the position and the character after those that no word contains."""
    while text[p] != separator:
        code, after = character(text, p, len(text))
        if code >= len(pieces.is_dropped) or not pieces.is_dropped[code]:
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
