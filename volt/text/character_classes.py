"""The class of a character, for the compiled loops that cut text: letter, number, white space or other.

The pattern's own engine is asked, so that the loops agree with the patterns of `volt.text.pretokenizer`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

N_CHARACTERS = 0x110000
_IDEOGRAPHS_AND_SYLLABLES = (0x3400, 0x4DB6), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4)  # starts and ends, all letters
_WHITE = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@cache
def character_classes() -> NDArray[np.uint8]:
    """(0x110000,) class of each character, NO_CLASS until somebody has asked; shared by all who ask.

    Those of the first 65,536 which have been what they are since Unicode 3.2 are known without asking.

    >>> character_classes()[[ord("a"), ord("4"), ord("!"), ord("é")]].tolist()
    [2, 3, 1, 2]
    """
    from volt.kernels.cutting import LETTER, OTHER, WHITE

    kinds, classes = _class_of_category(), np.zeros(N_CHARACTERS, np.uint8)
    category, old_category = unicodedata.category, unicodedata.ucd_3_2_0.category
    start = 0
    for end, behind in (*_IDEOGRAPHS_AND_SYLLABLES, (0x10000, 0x10000)):
        for code in range(start, end):
            old, kind = old_category(chr(code)), kinds.get(category(chr(code))[0], OTHER)
            if old not in ("Cn", "Cs") and kind == kinds.get(old[0], OTHER):
                classes[code] = kind
        classes[end:behind], start = LETTER, behind
    classes[list(_WHITE)] = WHITE
    return classes


def _class_of_category() -> dict[str, int]:
    from volt.kernels.cutting import LETTER, MARK, NUMBER_CLASS

    return {"L": LETTER, "N": NUMBER_CLASS, "M": MARK}


def classify(text: str) -> bool:
    """Find out the classes of the characters of a text, as the engine that runs the patterns has them; whether any
    were new."""
    classes = character_classes()
    new = [code for code in map(ord, set(text)) if not classes[code]]
    if new:
        classes[new] = classes_of(new)
    return bool(new)


def classes_of(codes: Sequence[int]) -> NDArray[np.uint8]:
    """The classes of characters, (n,), as the engine that runs the patterns has them.

    >>> classes_of([ord("中"), ord("\u2003")]).tolist()
    [2, 5]
    """
    import polars as pl

    from volt.kernels.cutting import OTHER, WHITE

    characters = pl.Series(list(map(chr, codes)), dtype=pl.String)
    found = np.full(len(codes), OTHER, np.uint8)
    for letter, kind in _class_of_category().items():
        found[characters.str.contains(rf"^\p{{{letter}}}$").to_numpy()] = kind
    found[characters.str.contains(r"^\s$").to_numpy()] = WHITE
    return found
