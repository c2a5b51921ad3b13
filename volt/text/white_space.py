r"""The characters that count as white space, and helpers for sets of characters.

WHITE_SPACE   Unicode's property White_Space, which `\s` matches in the regexes of Polars
SPLIT_SPACE   the characters at which `str.split()` splits: white space, and four separators
SPLIT_CLASS   SPLIT_SPACE as the inside of a regex class: f"[{SPLIT_CLASS}]"
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
    "\u200a\u2028\u2029\u202f\u205f\u3000"
)
_SEPARATORS = "\x1c\x1d\x1e\x1f"  # of files, groups, records and units
SPLIT_SPACE = "".join(sorted(WHITE_SPACE + _SEPARATORS))
SPLIT_CLASS = r"\s\x1c-\x1f"


def select_ascii(characters: str) -> bytes:
    return "".join(filter(str.isascii, characters)).encode()


def build_bit_mask(bit_indices: Iterable[int]) -> int:
    """Return the number whose bits at these indices are set: [0, 3] → 0b1001.

    bit_indices: distinct indices of bits, 0 or more
    """
    return sum(1 << index for index in bit_indices)


def shorten_class(characters: str) -> str:
    """Return the inside of a regex class, with a range for each run of three or more characters.

    characters: in order of code points; a regex class must not need an escape for any of them

    >>> shorten_class("acdefxy")
    'ac-fxy'
    """
    result = ""
    # In a run of neighbours, code point minus index is the same number.
    numbered = enumerate(map(ord, characters))
    for _, group in groupby(numbered, lambda pair: pair[1] - pair[0]):
        run = [chr(code) for _, code in group]
        if len(run) > 2:
            run = [run[0], "-", run[-1]]
        result += "".join(run)
    return result
