"""What a pattern consists of, once it is parsed. A tree of these five is all that the automaton is made from.

    Take       one character of a set
    Ahead      nothing, where the next character is of a set, or the text ends
    Sequence   one part after the other
    Choice     the first part that leads to a match
    Repeat     a part several times, as often as leads to a match

>>> Sequence((Take(CharacterSet.of("a")), Ahead(CharacterSet(), at_end=True))).can_be_empty  # a$
False
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from volt.text.patterns.character_sets import CharacterSet


@dataclass(frozen=True, slots=True)
class Take:
    """One character of a set."""

    characters: CharacterSet
    can_be_empty = False


@dataclass(frozen=True, slots=True)
class Ahead:
    """The empty text, where the next character is of a set, or, if at_end, where the text ends."""

    characters: CharacterSet
    at_end: bool
    can_be_empty = True


@dataclass(frozen=True, slots=True)
class Sequence:
    """The parts, one after the other; no part means the empty text."""

    parts: tuple[Node, ...]

    @property
    def can_be_empty(self) -> bool:
        """Whether a match can be the empty text."""
        return all(part.can_be_empty for part in self.parts)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the parts; of several that lead to a match, the first."""

    parts: tuple[Node, ...]

    @property
    def can_be_empty(self) -> bool:
        """Whether a match can be the empty text."""
        return any(part.can_be_empty for part in self.parts)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part from `least` to `most` times, rather more often.

    most: None if there is no bound
    possessive: a repetition that is possible is never given up again; the part is a Take then
    """

    part: Node
    least: int
    most: int | None
    possessive: bool = False

    @property
    def can_be_empty(self) -> bool:
        """Whether a match can be the empty text."""
        return self.least == 0 or self.part.can_be_empty


Node: TypeAlias = Take | Ahead | Sequence | Choice | Repeat
