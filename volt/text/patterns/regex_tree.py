r"""Represent sets of characters, the classes that they distinguish, and parsed patterns.

A set is the code points at which membership changes:

    {"a", "b", "c", "x"}  =  edges (97, 100, 120, 121)

A code point is in the set if the number of edges up to it is odd.

Properties such as \p{Lu} and case folding come from Rust's regex, the engine of VOLT's other
patterns and of tiktoken, so that all use the same version of Unicode.

Characters that belong to the same sets form a class. For example, [a-y]+|b has three classes: b,
the other letters up to y, and all else. A set becomes a bit mask of its classes, with a further bit
for the end of the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError
from volt.fork_guard import about_to_use_polars
from volt.text.white_space import build_bit_mask

Codes: TypeAlias = NDArray[np.int64]
N_CHARACTERS = 0x110000
# The characters in one of these ranges have the same properties, so the engine classifies only the
# first of each: ideographs as old as their block, planes without assigned characters, and private
# planes.
_IDEOGRAPHS = (
    (0x3400, 0x4DB6),
    (0x4E00, 0x9FA6),
    (0x17000, 0x187ED),
    (0x20000, 0x2A6D7),
    (0x2A700, 0x2B735),
    (0x2B740, 0x2B81E),
    (0x2B820, 0x2CEA2),
    (0x2CEB0, 0x2EBE1),
    (0x30000, 0x3134B),
)
_PLANES = tuple((plane << 16, (plane << 16) + 0xFFFE) for plane in (*range(4, 14), 15, 16))
_ALIKE = (*_IDEOGRAPHS, *_PLANES, (0xE1000, 0xEFFFE))
_SURROGATES = np.s_[0xD800:0xE000]  # surrogates are not characters, so they occur in no text


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A set of code points. edges: rising, below 0x110000, where membership changes."""

    edges: tuple[int, ...] = ()

    @classmethod
    def between(cls, first: str, last: str) -> CharacterSet:
        return cls.from_edges(np.array([ord(first), ord(last) + 1]))

    @classmethod
    def of(cls, character: str) -> CharacterSet:
        return cls.between(character, character)

    @classmethod
    def from_edges(cls, edges: Codes) -> CharacterSet:
        """Return the set with these edges, without the edge after the last of all characters."""
        return cls(tuple(edges[edges < N_CHARACTERS].tolist()))

    def holds(self, codes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether the set contains each of these code points."""
        edges = np.array(self.edges, np.int64)
        n_changes = np.searchsorted(edges, codes, side="right")
        return np.asarray(n_changes % 2 == 1)

    def __contains__(self, character: str) -> bool:
        return bool(self.holds(np.array(ord(character))))

    def __invert__(self) -> CharacterSet:
        if self.edges[:1] == (0,):
            return CharacterSet(self.edges[1:])
        return CharacterSet((0, *self.edges))

    def __or__(self, other: CharacterSet) -> CharacterSet:
        return _union(self, other)

    def __and__(self, other: CharacterSet) -> CharacterSet:
        return ~(~self | ~other)

    def folded(self) -> CharacterSet:
        """Return the set with all characters that differ only by case (simple case folding)."""
        codes, text = _cased()
        own = codes[self.holds(codes)]
        if not own.size:
            return self
        members = "".join(rf"\x{{{code:X}}}" for code in own.tolist())
        alike = np.array(list(map(ord, _found(f"(?i:[{members}])", text))), np.int64)
        edges, n_times = np.unique([alike, alike + 1], return_counts=True)
        return self | CharacterSet.from_edges(edges[n_times == 1])


NOTHING = CharacterSet()


@lru_cache(maxsize=256)
def _union(one: CharacterSet, other: CharacterSet) -> CharacterSet:
    edges = np.array(sorted({*one.edges, *other.edges}), np.int64)
    is_inside = one.holds(edges) | other.holds(edges)
    changes = np.diff(is_inside, prepend=False)
    return CharacterSet.from_edges(edges[changes])


@lru_cache(maxsize=256)
def matched(expression: str) -> CharacterSet:
    """Return the set that a class in the engine's syntax matches.

    Raises polars.exceptions.ComputeError if it is invalid.
    """
    codes, text = _representatives()
    runs = _found(f"(?s:{expression})+", text)
    first = np.array([ord(run[0]) for run in runs], np.int64)
    last = np.array([ord(run[-1]) for run in runs], np.int64)
    after = codes[np.searchsorted(codes, last) + 1]
    return CharacterSet.from_edges(np.stack([first, after], axis=1).reshape(-1))


def _found(expression: str, text: str) -> list[str]:
    """Return the matches of a regex of the engine."""
    import polars as pl

    about_to_use_polars()
    return list(pl.Series([text]).str.extract_all(expression).item())


@cache
def _representatives() -> tuple[Codes, str]:
    """Return characters to classify, as code points followed by 0x110000, and as a string."""
    is_classified = np.ones(N_CHARACTERS + 1, np.bool_)
    for start, end in _ALIKE:
        is_classified[start + 1 : end] = False
    is_classified[_SURROGATES] = False
    codes = np.flatnonzero(is_classified)
    return codes, _text_of(codes[:-1])


@cache
def _cased() -> tuple[Codes, str]:
    """Return the characters that case folding relates to others, as code points and as a string."""
    every = np.arange(N_CHARACTERS)
    codes = every[matched(r"[\p{CWCM}\p{CWCF}]").holds(every)]
    return codes, _text_of(codes)


def _text_of(codes: Codes) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le")


MOST_CLASSES = 255  # a class is one byte


@dataclass(frozen=True, eq=False, slots=True)
class Alphabet:
    """Characters by class.

    starts: (n_ranges,) the first code point of each range of one class, rising from 0
    classes: (n_ranges,) the class of each range
    examples: (n_classes,) a code point of each class
    """

    starts: NDArray[np.int64]
    classes: NDArray[np.uint8]
    examples: NDArray[np.int64]

    @classmethod
    def of(cls, sets: Iterable[CharacterSet]) -> Alphabet:
        """Return the fewest classes that tell these sets apart.

        Raises ConfigError for more than 255.
        """
        sets = list(dict.fromkeys(sets))
        edges = {0}.union(*(characters.edges for characters in sets))
        starts = np.array(sorted(edges), np.int64)
        membership = np.zeros((len(sets), len(starts)), np.bool_)
        for row, characters in enumerate(sets):
            membership[row] = characters.holds(starts)

        # Ranges that are in the same sets are equal columns.
        bits = np.packbits(membership, axis=0)
        _, first, classes = np.unique(bits, axis=1, return_index=True, return_inverse=True)
        if len(first) > MOST_CLASSES:
            raise ConfigError(
                f"a pattern distinguishes {len(first)} classes of characters, and {MOST_CLASSES} is the "
                "limit; name fewer characters, or use several splits"
            )
        return cls(starts, classes.reshape(-1).astype(np.uint8), starts[first])

    @property
    def n_classes(self) -> int:
        return len(self.examples)

    @property
    def end(self) -> int:
        return 1 << self.n_classes

    def columns(self, characters: CharacterSet) -> int:
        """Return the bit mask of a set's classes."""
        return build_bit_mask(np.flatnonzero(characters.holds(self.examples)).tolist())

    def table(self, renamed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the class of every character, (0x110000,), with class i called renamed[i]."""
        range_lengths = np.diff(self.starts, append=N_CHARACTERS)
        return np.repeat(renamed[self.classes], range_lengths)


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character of a set."""

    characters: CharacterSet


@dataclass(frozen=True, slots=True)
class Ahead:
    """The empty text before a character of a set or, if `at_end`, at the end of the text."""

    characters: CharacterSet
    at_end: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """All parts, one after the other; without parts, the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """The first part that leads to a match."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """A part from `least` to `most` times, as often as possible.

    most: None for no bound
    possessive: a failed match does not try fewer repetitions; the part is a CharClass
    """

    part: Node
    least: int
    most: int | None
    possessive: bool = False


Node: TypeAlias = CharClass | Ahead | Sequence | Alternation | Repetition
