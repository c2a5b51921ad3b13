"""The classes of characters that a few sets tell apart: characters that are in the same sets are of one class.

    "a" and "b" of [a-y]+|b    two sets    three classes: b, the other letters up to y, and all else

An automaton over these classes has a dozen columns where one over characters would have a million. A class, here, is a
bit of a Python integer, so a set is the integer of its classes: looking ahead at a set is one "and". One more column
stands for the end of the text.

>>> alphabet = Alphabet.of([CharacterSet.between("a", "y"), CharacterSet.of("b")])
>>> anything = ~CharacterSet()
>>> alphabet.n_classes, alphabet.columns(CharacterSet.of("b")).bit_count(), alphabet.columns(anything).bit_count()
(3, 1, 3)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError
from volt.text.character_classes import N_CHARACTERS
from volt.text.patterns.character_sets import CharacterSet

MOST_CLASSES = 255  # a class is one byte


@dataclass(frozen=True, eq=False, slots=True)
class Alphabet:
    """Characters by class.

    starts: (n_ranges,) int64, the first code point of each range of one class, rising from 0
    classes: (n_ranges,) uint8, its class
    examples: (n_classes,) int64, a code point of each class
    """

    starts: NDArray[np.int64]
    classes: NDArray[np.uint8]
    examples: NDArray[np.int64]

    @classmethod
    def of(cls, sets: Iterable[CharacterSet]) -> Alphabet:
        """The fewest classes that these sets can be told by. Raises ConfigError if they are more than 255."""
        sets = list(dict.fromkeys(sets))
        starts = np.unique(np.concatenate([[0], *([found.edges for found in sets])]).astype(np.int64))
        inside = np.array([found.holds(starts) for found in sets], np.bool_).reshape(len(sets), len(starts))
        _, first, classes = np.unique(
            np.packbits(inside, axis=0), axis=1, return_index=True, return_inverse=True
        )  # ranges that are in the same sets are columns that are equal
        if len(first) > MOST_CLASSES:
            raise ConfigError(
                f"a pattern tells {len(first)} classes of characters apart; {MOST_CLASSES} are the most; "
                "name fewer characters, or cut in several splits"
            )
        return cls(starts, classes.reshape(-1).astype(np.uint8), starts[first])

    @property
    def n_classes(self) -> int:
        """How many classes there are; the end of the text is one column more."""
        return len(self.examples)

    @property
    def end(self) -> int:
        """The bit of the end of the text."""
        return 1 << self.n_classes

    def columns(self, characters: CharacterSet) -> int:
        """One of the sets, as an integer with the bits of its classes."""
        inside = np.packbits(characters.holds(self.examples), bitorder="little")
        return int.from_bytes(inside.tobytes(), "little")

    def table(self, renamed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The class of every character, (0x110000,) uint8.

        renamed: (n_classes,) uint8, what each class is called there
        """
        return np.repeat(renamed[self.classes], np.diff(self.starts, append=N_CHARACTERS))
