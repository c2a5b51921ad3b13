r"""Sets of characters, the classes of characters that they distinguish, and the tree of a parsed pattern.

A set is the code points at which membership changes:

    {"a", "b", "c", "x"}  =  edges (97, 100, 120, 121);  c is in the set if the number of edges ≤ c is odd

Properties such as \p{Lu} and case folding come from Rust's regex, the engine of VOLT's other patterns and of tiktoken,
so that all use the same version of Unicode.

Characters that belong to the same sets form a class. For example, [a-y]+|b has three classes: b, the other letters up
to y, and all else. A set becomes a bit mask of its classes, with a further bit for the end of the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError
from volt.fork_guard import about_to_use_polars

N_CHARACTERS = 0x110000
# The engine's properties do not tell the characters in one of these ranges apart, so it classifies only the first of
# each: ideographs as old as their block, planes (or most of one) without assigned characters, and private planes.
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
        after = ord(last) + 1
        return cls((ord(first), after) if after < N_CHARACTERS else (ord(first),))

    @classmethod
    def of(cls, character: str) -> CharacterSet:
        return cls.between(character, character)

    def holds(self, codes: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(
            np.searchsorted(np.array(self.edges, np.int64), codes, side="right") % 2 == 1
        )

    def __contains__(self, character: str) -> bool:
        return bool(self.holds(np.array(ord(character))))

    def __invert__(self) -> CharacterSet:
        return CharacterSet(self.edges[1:] if self.edges[:1] == (0,) else (0, *self.edges))

    def __or__(self, other: CharacterSet) -> CharacterSet:
        return _joined(self, other)

    def __and__(self, other: CharacterSet) -> CharacterSet:
        return ~(~self | ~other)

    def folded(self) -> CharacterSet:
        """Return the set with all characters that differ from its members only by case (simple case folding)."""
        import polars as pl

        codes, text = _cased()
        own = codes[self.holds(codes)]
        if not own.size:
            return self
        about_to_use_polars()
        class_of_own = "".join(rf"\x{{{code:X}}}" for code in own.tolist())
        characters = pl.Series([text]).str.extract_all(f"(?i:[{class_of_own}])").item()
        alike = np.array(list(map(ord, characters)), np.int64)
        edges, n = np.unique(np.concatenate([alike, alike + 1]), return_counts=True)
        return self | CharacterSet(tuple(edges[n == 1].tolist()))


NOTHING = CharacterSet()


@lru_cache(maxsize=256)
def matched(expression: str) -> CharacterSet:
    """Return the set that a class in the engine's syntax matches. Raises polars.exceptions.ComputeError if invalid."""
    import polars as pl

    about_to_use_polars()
    codes, text = _asked()
    runs = pl.Series([text]).str.extract_all(f"(?s:{expression})+").item()
    ends = np.array([(ord(run[0]), ord(run[-1])) for run in runs], np.int64).reshape(-1, 2)
    ends[:, 1] = codes[np.searchsorted(codes, ends[:, 1]) + 1]
    edges = ends.reshape(-1)
    return CharacterSet(tuple(edges[edges < N_CHARACTERS].tolist()))


@cache
def _asked() -> tuple[NDArray[np.int64], str]:
    """Return the characters that the engine classifies, as code points followed by 0x110000, and as a string."""
    requested = np.ones(N_CHARACTERS + 1, np.bool_)
    for start, end in _ALIKE:
        requested[start + 1 : end] = False
    requested[_SURROGATES] = False
    codes = np.flatnonzero(requested)
    return codes, codes[:-1].astype("<u4").tobytes().decode("utf-32-le")


@cache
def _cased() -> tuple[NDArray[np.int64], str]:
    """Return the characters that case folding relates to others, as code points and as a string."""
    edges = matched(r"[\p{CWCM}\p{CWCF}]").edges
    codes = np.concatenate(list(map(np.arange, edges[::2], edges[1::2])))
    return codes, codes.astype("<u4").tobytes().decode("utf-32-le")


@lru_cache(maxsize=256)
def _joined(one: CharacterSet, other: CharacterSet) -> CharacterSet:
    edges = np.union1d(np.array(one.edges, np.int64), np.array(other.edges, np.int64))
    is_inside = one.holds(edges) | other.holds(edges)
    changes = np.diff(is_inside, prepend=False)
    return CharacterSet(tuple(edges[changes].tolist()))


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
        """Return the fewest classes that tell these sets apart. Raises ConfigError for more than 255."""
        sets = list(dict.fromkeys(sets))
        edges = chain.from_iterable(characters.edges for characters in sets)
        starts = np.array(sorted({0, *edges}), np.int64)
        inside = np.array([characters.holds(starts) for characters in sets], np.bool_)
        # Ranges that are in the same sets are equal columns.
        bits = np.packbits(inside.reshape(len(sets), len(starts)), axis=0)
        _, first, classes = np.unique(bits, axis=1, return_index=True, return_inverse=True)
        if len(first) > MOST_CLASSES:
            raise ConfigError(
                f"a pattern distinguishes {len(first)} classes of characters, and {MOST_CLASSES} is the limit; "
                "name fewer characters, or use several splits"
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
        inside = np.packbits(characters.holds(self.examples), bitorder="little")
        return int.from_bytes(inside.tobytes(), "little")

    def table(self, renamed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the class of every character, (0x110000,) uint8, with class i called renamed[i]."""
        return np.repeat(renamed[self.classes], np.diff(self.starts, append=N_CHARACTERS))


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
