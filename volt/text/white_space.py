"""White space, and sets of characters as regex classes, bytes or bits."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

# Unicode's property White_Space, which the pattern engine matches with its \s.
_CODES = (
    *range(0x09, 0x0E),
    0x20,
    0x85,
    0xA0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
)
WHITE_SPACE = "".join(map(chr, _CODES))
# The characters at which str.split() splits, and their regex class: white space and the four
# information separators.
SPLIT_SPACE = "".join(sorted(WHITE_SPACE + "\x1c\x1d\x1e\x1f"))
SPLIT_CLASS = r"\s\x1c-\x1f"


def ascii_bytes(characters: str) -> bytes:
    return "".join(filter(str.isascii, characters)).encode()


def bits_of(numbers: Iterable[int]) -> int:
    """Return the sum of 2^n over some numbers."""
    return sum(1 << number for number in numbers)


def ranges(characters: str) -> str:
    """Return sorted characters as the inside of a class [...]; none may need an escape there.

    >>> ranges("acdefxy")
    'ac-fxy'
    """
    result = ""
    for _, group in groupby(enumerate(characters), lambda pair: ord(pair[1]) - pair[0]):
        run = "".join(character for _, character in group)
        if len(run) > 2:
            run = f"{run[0]}-{run[-1]}"
        result += run
    return result
