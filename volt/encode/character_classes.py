"""Characters → their classes: letter, number, mark, white space, other.

GPT-2's pattern and the pre-tokenizer "unicode" split by these classes.

The engine of VOLT's patterns, Rust's regex in Polars, decides. Most characters are classified
without it, because importing Polars takes longer than encoding a short text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from volt.encode.arrays import Bytes, Longs
from volt.fork_guard import about_to_use_polars
from volt.kernels.pretokenize import LETTER, MARK, NO_CLASS, NUMBER_CLASS, OTHER, WHITE
from volt.text.white_space import WHITE_SPACE

_CLASS_OF_CATEGORY = {"L": LETTER, "N": NUMBER_CLASS, "M": MARK}  # by the first letter
_N_KNOWN = 0x10000  # code points that `known_classes` considers
# Ranges of letters, ideographs and syllables, that need not be checked one by one.
_LETTERS = ((0x3400, 0x4DB6), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4))


class CharacterClasses:
    """The class of every character, looked up when the character first occurs."""

    # Threads share the table without a lock: they write equal values, and a thread that still reads
    # NO_CLASS (0) looks the class up again.

    @cached_property
    def table(self) -> Bytes:
        """(0x110000,) uint8, the class of each character, or NO_CLASS."""
        table = np.zeros(0x110000, np.uint8)
        table[:_N_KNOWN] = known_classes()
        return table

    def classify(self, text: str) -> bool:
        """Look up the classes of a text's characters. Return whether any was new."""
        new = [code for code in map(ord, set(text)) if not self.table[code]]
        if new:
            self.table[new] = look_up_classes(new)
        return bool(new)


@cache
def known_classes() -> Bytes:
    """Return (0x10000,) uint8, read-only, the classes known without the engine; else NO_CLASS.

    If a character has the same class in Unicode 3.2 and in Python's version, it has this class in
    the engine's version.
    """
    classes = np.full(_N_KNOWN, NO_CLASS, np.uint8)
    for first, after in _LETTERS:
        classes[first:after] = LETTER
    codes = np.flatnonzero(classes == NO_CLASS)
    categories = _look_up_categories(codes, unicodedata)
    old_categories = _look_up_categories(codes, unicodedata.ucd_3_2_0)

    class_of = np.full(128, OTHER, np.uint8)
    for category, class_index in _CLASS_OF_CATEGORY.items():
        class_of[ord(category)] = class_index
    new_classes = class_of[categories[:, 0]]
    has_changed = class_of[old_categories[:, 0]] != new_classes
    is_no_character = np.isin(old_categories.view("S2")[:, 0], [b"Cn", b"Cs"])
    new_classes[has_changed | is_no_character] = NO_CLASS
    classes[codes] = new_classes
    classes[list(map(ord, WHITE_SPACE))] = WHITE
    classes.flags.writeable = False
    return classes


def _look_up_categories(codes: Longs, database: Any) -> Bytes:
    """Return the general category of code points, (n, 2), as two letters of ASCII."""
    categories = map(database.category, map(chr, codes.tolist()))
    letters = np.frombuffer("".join(categories).encode(), np.uint8)
    return letters.reshape(-1, 2)


def look_up_classes(codes: Sequence[int]) -> Bytes:
    """Return the engine's classes of code points, (n,) uint8."""
    import polars as pl

    about_to_use_polars()
    characters = pl.Series(list(map(chr, codes)), dtype=pl.String)
    classes = np.full(len(codes), OTHER, np.uint8)
    for category, class_index in _CLASS_OF_CATEGORY.items():
        classes[characters.str.contains(rf"^\p{{{category}}}$").to_numpy()] = class_index
    classes[characters.str.contains(r"^\s$").to_numpy()] = WHITE
    return classes
