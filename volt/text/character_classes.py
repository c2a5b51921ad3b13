"""The class of a character, for the compiled loops that cut text: letter, number, white space or other.

The pattern's own engine is asked, so that the loops agree with the patterns of `volt.text.pretokenizer`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from volt.forks import about_to_use_polars
from volt.text.white_space import WHITE_SPACE

N_CHARACTERS, N_KNOWN = 0x110000, 0x10000
_IDEOGRAPHS_AND_SYLLABLES = (0x3400, 0x4DB6), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4)  # starts and ends, all letters


class CharacterClasses:
    """The class of every character, as far as it is known.

    Whoever encodes owns one and shares it with the threads that work for it: what one thread has found out, all know.
    They need no lock. Two threads that ask about the same character write the same value, and a thread that reads too
    early finds NO_CLASS, and asks.

    >>> CharacterClasses().table[[ord("a"), ord("4"), ord("!"), ord("é")]].tolist()
    [2, 3, 1, 2]
    """

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """(0x110000,) uint8, the class of each character, or NO_CLASS. It is made when it is first asked for."""
        table = np.zeros(N_CHARACTERS, np.uint8)
        table[:N_KNOWN] = known_classes()
        return table

    def classify(self, text: str) -> bool:
        """Find out the classes of a text's characters. Returns whether any of them had none."""
        new = [code for code in map(ord, set(text)) if not self.table[code]]
        if new:
            self.table[new] = classes_of(new)
        return bool(new)


@cache
def known_classes() -> NDArray[np.uint8]:
    """(0x10000,) uint8, the classes that are known without asking: those that Unicode 3.2 had already.

    It takes 10 ms to find them, so a process finds them once, and nobody can change them.
    """
    from volt.kernels.cutting import LETTER, OTHER, WHITE

    kinds, classes = _class_of_category(), np.zeros(N_KNOWN, np.uint8)
    category, old_category = unicodedata.category, unicodedata.ucd_3_2_0.category
    start = 0
    for end, behind in (*_IDEOGRAPHS_AND_SYLLABLES, (N_KNOWN, N_KNOWN)):
        for code in range(start, end):
            old, kind = old_category(chr(code)), kinds.get(category(chr(code))[0], OTHER)
            if old not in ("Cn", "Cs") and kind == kinds.get(old[0], OTHER):
                classes[code] = kind
        classes[end:behind], start = LETTER, behind
    classes[[ord(character) for character in WHITE_SPACE]] = WHITE
    classes.flags.writeable = False
    return classes


def _class_of_category() -> dict[str, int]:
    from volt.kernels.cutting import LETTER, MARK, NUMBER_CLASS

    return {"L": LETTER, "N": NUMBER_CLASS, "M": MARK}


def classes_of(codes: Sequence[int]) -> NDArray[np.uint8]:
    """The classes of characters, (n,), as the engine that runs the patterns has them.

    >>> classes_of([ord("中"), ord("\u2003")]).tolist()
    [2, 5]
    """
    import polars as pl

    from volt.kernels.cutting import OTHER, WHITE

    about_to_use_polars()
    characters = pl.Series(list(map(chr, codes)), dtype=pl.String)
    found = np.full(len(codes), OTHER, np.uint8)
    for letter, kind in _class_of_category().items():
        found[characters.str.contains(rf"^\p{{{letter}}}$").to_numpy()] = kind
    found[characters.str.contains(r"^\s$").to_numpy()] = WHITE
    return found
