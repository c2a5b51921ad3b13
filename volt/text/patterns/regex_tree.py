r"""Sets of characters, the classes of characters that they distinguish, and the tree of a pattern.

A *set* is stored as its edges, the code points at which membership changes:

    {"a", "b", "c", "x"}  =  edges (97, 100, 120, 121)

A code point is in the set if an odd number of edges are at or below it. Properties such as \p{Lu} and
case folding come from Rust's regex, the engine of VOLT's other patterns and of tiktoken, so that all
use the same version of Unicode. Polars runs this engine.

Characters that belong to the same sets of a pattern form a *class*. For example, [a-y]+|b has three
classes: b, the other letters up to y, and all other characters. A set then becomes a bit mask of its
classes, with one more bit for the end of the text.

The tree of a pattern consists of the nodes CharClass, Ahead, Sequence, Alternation and Repetition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np

from volt.array_types import Array, Bytes, Flags, Longs
from volt.errors import ConfigError
from volt.fork_guard import about_to_use_polars
from volt.text.white_space import build_bit_mask

Codes: TypeAlias = Longs
N_CHARACTERS = 0x110000
MOST_CLASSES = 255  # a class is one byte
_SURROGATES = range(0xD800, 0xE000)  # surrogates are not characters, so they occur in no text


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A set of code points.

    edges: the code points below 0x110000 at which membership changes, rising
    """

    edges: tuple[int, ...] = ()

    @classmethod
    def between(cls, first: str, last: str) -> CharacterSet:
        return cls.from_edges(np.array([ord(first), ord(last) + 1]))

    @classmethod
    def of(cls, character: str) -> CharacterSet:
        return cls.between(character, character)

    @classmethod
    def from_edges(cls, edges: Codes) -> CharacterSet:
        """Return the set with these edges. An edge at 0x110000, after all characters, is dropped."""
        return cls(tuple(edges[edges < N_CHARACTERS].tolist()))

    def holds(self, codes: Array) -> Flags:
        """Return whether the set contains each of these code points."""
        edges = np.array(self.edges, np.int64)
        n_changes = np.searchsorted(edges, codes, side="right")
        return np.asarray(n_changes % 2 == 1)

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
        codes, text = _find_cased()
        cased = codes[self.holds(codes)]
        if not cased.size:
            return self
        members = "".join(rf"\x{{{code:X}}}" for code in cased.tolist())
        variants = _find_all(f"(?i:[{members}])", text)
        first = np.array(list(map(ord, variants)), np.int64)
        edges, n_times = np.unique([first, first + 1], return_counts=True)
        return self | CharacterSet.from_edges(edges[n_times == 1])  # neighbours share no edge


NOTHING = CharacterSet()


@lru_cache(maxsize=256)
def _union(left: CharacterSet, right: CharacterSet) -> CharacterSet:
    edges = np.array(sorted({*left.edges, *right.edges}), np.int64)
    is_inside = left.holds(edges) | right.holds(edges)
    changes = np.diff(is_inside, prepend=False)
    return CharacterSet.from_edges(edges[changes])


@lru_cache(maxsize=256)
def find_matched_set(expression: str) -> CharacterSet:
    """Return the set of characters that a regex of the engine, such as a property, matches.

    Raises polars.exceptions.ComputeError if it is invalid.
    """
    codes, text = _list_characters()
    runs = _find_all(f"(?s:{expression})+", text)
    first = np.array([ord(run[0]) for run in runs], np.int64)
    last = np.array([ord(run[-1]) for run in runs], np.int64)
    after = codes[np.searchsorted(codes, last) + 1]
    return CharacterSet.from_edges(np.stack([first, after], axis=1).reshape(-1))


def _find_all(expression: str, text: str) -> list[str]:
    """Return the matches of a regex of the engine."""
    import polars as pl

    about_to_use_polars()
    return list(pl.Series([text]).str.extract_all(expression).item())


@cache
def _list_characters() -> tuple[Codes, str]:
    """Return all characters, as code points followed by 0x110000, and as a string."""
    codes = np.delete(np.arange(N_CHARACTERS + 1), _SURROGATES)
    return codes, _text_of(codes[:-1])


@cache
def _find_cased() -> tuple[Codes, str]:
    """Return the characters that case folding relates to others, as code points and a string."""
    every = np.arange(N_CHARACTERS)
    codes = every[find_matched_set(r"[\p{CWCM}\p{CWCF}]").holds(every)]
    return codes, _text_of(codes)


def _text_of(codes: Codes) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le")


@dataclass(frozen=True, eq=False, slots=True)
class Alphabet:
    """All characters, divided into classes.

    starts: (n_ranges,) the first code point of each range of characters of one class, rising from 0
    classes: (n_ranges,) the class of each range
    examples: (n_classes,) one code point of each class
    """

    starts: Longs
    classes: Bytes
    examples: Longs

    @classmethod
    def of(cls, sets: Iterable[CharacterSet]) -> Alphabet:
        """Return the fewest classes such that each set is a union of classes.

        Raises ConfigError for more than 255 classes.
        """
        sets = list(dict.fromkeys(sets))
        edges = {0}.union(*(characters.edges for characters in sets))
        starts = np.array(sorted(edges), np.int64)
        membership = np.zeros((len(sets), len(starts)), np.bool_)
        for row, characters in enumerate(sets):
            membership[row] = characters.holds(starts)

        # Ranges that are in the same sets are equal columns.
        bits = np.packbits(membership, axis=0)
        _, examples, classes = np.unique(bits, axis=1, return_index=True, return_inverse=True)
        if len(examples) > MOST_CLASSES:
            raise ConfigError(
                f"a pattern distinguishes {len(examples)} classes of characters, and {MOST_CLASSES} "
                "is the limit; name fewer characters, or use several splits"
            )
        return cls(starts, classes.reshape(-1).astype(np.uint8), starts[examples])

    @property
    def n_classes(self) -> int:
        return len(self.examples)

    @property
    def end(self) -> int:
        """The bit mask of the end of the text."""
        return 1 << self.n_classes

    def columns(self, characters: CharacterSet) -> int:
        """Return the bit mask of a set's classes."""
        return build_bit_mask(np.flatnonzero(characters.holds(self.examples)).tolist())

    def table(self, renamed: Bytes) -> Bytes:
        """Return (0x110000,) uint8, for a character of class i, renamed[i]."""
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
    """The first part with which the whole pattern matches."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """A part from `least` to `most` times, as often as possible.

    most: None for no bound
    possessive: whether fewer repetitions are not tried if the rest fails; the part is a CharClass
    """

    part: Node
    least: int
    most: int | None
    possessive: bool = False


Node: TypeAlias = CharClass | Ahead | Sequence | Alternation | Repetition
