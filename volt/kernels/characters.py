"""UTF-8 bytes → a character, with a look at whether they are one, and whether it is white space."""

from typing import Any

import numpy as np

from volt.kernels.arrays import IntArray
from volt.kernels.compiling import borrowing, inlined


@inlined
def character(data: IntArray, p: int, end: int) -> tuple[Any, int]:
    """The character that starts at p, −1 if the bytes there are not UTF-8; and where the next one starts."""
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


@borrowing
def is_white(code: int) -> bool:
    """Whether a character beyond ASCII is white space, as str.split() has it.

    The one list is in volt.text.white_space, which compiled code cannot read; tests compare the two.
    """
    if code < 0x1680:
        return code == 0x85 or code == 0xA0
    if code < 0x2000:
        return code == 0x1680
    return code <= 0x200A or code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
