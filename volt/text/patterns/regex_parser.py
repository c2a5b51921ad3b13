r"""`parse`: a regular expression → its tree (volt.text.patterns.regex_tree). Supported are:

    a  .  [a-z]  \p{L}  \s  \n        a character; [^\r\n]  [\p{L}&&[^\p{Han}]]  \u4E00
    xy   x|y   (x)   (?:x)   (?i:x)    x, then y; x or else y; groups; x in upper or lower case
    x?   x*   x+   x{2}  x{2,}  x{2,3} as many repetitions as possible
    c?+  c*+  c++  c{2,3}+             the same, without trying fewer; c stands for one character
    (?=c)  (?!c)  $  \z                tests of the following text: c, anything but c, nothing

Other syntax raises an error, as does syntax on which engines differ, such as "[:" or "--" inside a
class. "$" matches only at the end of the text; "{2,3}+" is possessive, as in tiktoken's engine.

The functions `_parse_…` each read one part of the grammar with a `PatternReader`, which knows the
place in the pattern: choice > sequence > repetition > part > group, class or character.

>>> parse("b|(?>c)")
Traceback (most recent call last):
    ...
volt.errors.ConfigError: pattern 'b|(?>c)', character 3: an atomic group is not supported; write a
possessive [a-z]++
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from volt.errors import ConfigError, quoted
from volt.text.patterns.regex_tree import (
    NOTHING,
    Ahead,
    Alternation,
    CharacterSet,
    CharClass,
    Node,
    Repetition,
    Sequence,
    find_matched_set,
)

DEEPEST = 50  # the most groups and classes inside each other
MOST_TIMES = 1000  # the greatest number in a counted repetition
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_SETS = {"s", "d", "w", "S", "D", "W"}
_CODE = r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]{1,8})\}"
_PROPERTY = r"([pP])(?:\{(\^?)([\w \-=:]+)\}|([A-Z]))"
_COUNTS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_ONE_AHEAD = "look ahead at one character, as in (?!\\S), or use two splits"
_AT_START = ("an anchor at a start", "remove it, or split each text by itself")
_REFUSED_ESCAPES = {
    "123456789kg": ("a back-reference", "write out what it may repeat"),
    "bB": ("a word boundary", _ONE_AHEAD),
    "AG": _AT_START,
    "Z": ("an anchor before a last line end", "write \\z for the end of the text"),
    "XRKQE": ("an escape that few engines know", "write out what it stands for"),
}
_REFUSED = {  # a start of the rest of the pattern → the fault and the remedy
    "(?<=": ("look-behind", "use two splits, or put the text before it into the match"),
    "(?<!": ("look-behind", "use two splits, or put the text before it into the match"),
    "(?>": ("an atomic group", "write a possessive [a-z]++"),
    "(?#": ("a comment", "take it out"),
    "(?P": ("a named group", "write (?:...)"),
    "(?<": ("a named group", "write (?:...)"),
    "(?": ("a flag other than (?i:...)", "write out what it stands for"),
    "(*": ("a verb of backtracking", "take it out"),
    "^": _AT_START,
    **dict.fromkeys("?*+{", ("a quantifier after nothing", "write \\ before it for the character")),
    **{f"\\{name}": refused for names, refused in _REFUSED_ESCAPES.items() for name in names},
}


@dataclass(slots=True)
class PatternReader:
    """Reads a pattern from left to right.

    place: the number of characters read
    ignores_case: whether the current place is inside (?i:...)
    depth: the number of groups and classes around the current place
    """

    pattern: str
    place: int = 0
    ignores_case: bool = False
    depth: int = 0

    @property
    def is_at_end(self) -> bool:
        return self.place == len(self.pattern)

    def sees(self, *texts: str) -> bool:
        return self.pattern.startswith(texts, self.place)

    def take(self, text: str) -> bool:
        if not self.sees(text):
            return False
        self.place += len(text)
        return True

    def take_match(self, expression: str) -> re.Match[str] | None:
        match = re.compile(expression).match(self.pattern, self.place)
        if match:
            self.place = match.end()
        return match

    def next(self) -> str:
        if self.is_at_end:
            raise self.refusal(
                "the pattern ends too early", "finish it, or write \\ before a special character"
            )
        self.place += 1
        return self.pattern[self.place - 1]

    def refusal(self, fault: str, remedy: str, *, start: int | None = None) -> ConfigError:
        """Return the error about the pattern at character `start`, by default the current place."""
        if start is None:
            start = self.place
        pattern = quoted(self.pattern, 500)
        return ConfigError(f"pattern {pattern}, character {start + 1}: {fault}; {remedy}")

    @contextmanager
    def inside(self, kind: str, remedy: str) -> Iterator[None]:
        """Enter a group or a class, and leave it after the `with` block.

        Raises ConfigError if it is inside too many others.
        """
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.refusal(f"more than {DEEPEST} {kind} inside each other", remedy)
        yield
        self.depth -= 1


def parse(pattern: str) -> Node:
    """Return the tree of a pattern. Raises ConfigError if it is not supported."""
    cursor = PatternReader(pattern)
    result = _parse_choice(cursor)
    if not cursor.is_at_end:
        raise cursor.refusal("this ) closes no group", "write \\) for the character")
    return result


def _parse_choice(cursor: PatternReader) -> Node:
    parts = [_parse_sequence(cursor)]
    while cursor.take("|"):
        parts.append(_parse_sequence(cursor))
    if len(parts) == 1:
        return parts[0]
    return Alternation(tuple(parts))


def _parse_sequence(cursor: PatternReader) -> Node:
    parts = list[Node]()
    while not cursor.is_at_end and not cursor.sees("|", ")"):
        parts.append(_parse_repeat(cursor))
    if len(parts) == 1:
        return parts[0]
    return Sequence(tuple(parts))


def _parse_repeat(cursor: PatternReader) -> Node:
    part = _parse_part(cursor)
    place = cursor.place
    counts = _parse_counts(cursor)
    if counts is None:
        return part
    least, most = counts
    quantifier = cursor.pattern[place : cursor.place]
    if cursor.take("?"):
        raise cursor.refusal(
            f"'{quantifier}?' is a lazy quantifier, which takes as little as it can",
            "take out the ?, or write a class that stops where the match should end",
            start=place,
        )
    possessive = cursor.take("+")
    if possessive and not isinstance(part, CharClass):
        raise cursor.refusal(
            "a possessive quantifier after more than one character",
            "write it after a class, or take out the +",
            start=place,
        )
    if cursor.sees("?", "*", "+", "{"):
        raise cursor.refusal("a quantifier of a quantifier", "put what is repeated into (?:...)")
    if _can_be_empty(part) and (isinstance(part, Ahead) or most is None or most > 1):
        raise cursor.refusal(
            "this repeats what may be empty",
            "let each repetition match a character: write + for * inside",
            start=place,
        )
    return Repetition(part, least, most, possessive)


def _can_be_empty(node: Node) -> bool:
    if isinstance(node, Sequence):
        return all(map(_can_be_empty, node.parts))
    if isinstance(node, Alternation):
        return any(map(_can_be_empty, node.parts))
    if isinstance(node, Repetition):
        return not node.least or _can_be_empty(node.part)
    return isinstance(node, Ahead)


def _parse_counts(cursor: PatternReader) -> tuple[int, int | None] | None:
    if sign := cursor.take_match(r"[?*+]"):
        return _COUNTS[sign[0]]
    if not cursor.sees("{"):
        return None
    place = cursor.place
    match = cursor.take_match(r"\{([0-9]{1,9})(,?)([0-9]{1,9})?\}")
    if not match or (match[3] and not match[2]):
        raise cursor.refusal("a { that begins no quantifier", "write \\{ for the character")
    least = int(match[1])
    most = int(match[3] or least)
    if max(least, most) > MOST_TIMES or most < max(least, 1):
        raise cursor.refusal(
            f"{match[0]} is not a supported number of repetitions",
            f"write {{m,n}} with m ≤ n and n from 1 to {MOST_TIMES:,}",
            start=place,
        )
    if match[2] and not match[3]:
        return least, None
    return least, most


def _parse_part(cursor: PatternReader) -> Node:
    if not cursor.sees("(?=", "(?!", "(?i:", "(?:"):
        for sign, refused in _REFUSED.items():
            if cursor.sees(sign):
                raise cursor.refusal(f"{refused[0]} is not supported", refused[1])
    if cursor.sees("("):
        return _parse_group(cursor)
    if cursor.sees("["):
        return CharClass(parse_class(cursor))
    if cursor.take("."):
        return CharClass(~CharacterSet.of("\n"))
    if cursor.take("$") or cursor.take("\\z"):
        return Ahead(NOTHING, at_end=True)
    return CharClass(parse_character(cursor))


def _parse_group(cursor: PatternReader) -> Node:
    start = cursor.place
    ignored_case = cursor.ignores_case
    for sign in ("(?=", "(?!"):
        if cursor.take(sign):
            seen = _parse_inside(cursor, start)
            return _look_ahead(seen, sign == "(?!", cursor, start)
    cursor.ignores_case |= cursor.sees("(?i:")
    cursor.take_match(r"\((\?i?:)?")
    result = _parse_inside(cursor, start)
    cursor.ignores_case = ignored_case
    return result


def _parse_inside(cursor: PatternReader, start: int) -> Node:
    with cursor.inside("groups", "take out those that change nothing"):
        result = _parse_choice(cursor)
    if not cursor.take(")"):
        raise cursor.refusal(
            "this ( has no )", "close the group, or write \\( for the character", start=start
        )
    return result


def _look_ahead(seen: Node, negated: bool, cursor: PatternReader, start: int) -> Ahead:
    characters = NOTHING
    at_end = False
    parts: tuple[Node, ...] = (seen,)
    if isinstance(seen, Alternation):
        parts = seen.parts
    for part in parts:
        if not isinstance(part, CharClass | Ahead):
            raise cursor.refusal(
                "this looks ahead at more than one character", _ONE_AHEAD, start=start
            )
        characters |= part.characters
        at_end |= isinstance(part, Ahead) and part.at_end
    if negated:
        return Ahead(~characters, not at_end)
    return Ahead(characters, at_end)


def parse_class(cursor: PatternReader) -> CharacterSet:
    """Read "[...]". Raises ConfigError if it is invalid, or if engines read it differently."""
    start = cursor.place
    cursor.next()
    negated = cursor.take("^")
    result = _parse_union(cursor)
    while cursor.take("&&"):
        result &= _parse_union(cursor)
    if not cursor.take("]"):
        raise cursor.refusal("this class has no end", "write ] after it", start=start)
    return ~result if negated else result


def _parse_union(cursor: PatternReader) -> CharacterSet:
    start = cursor.place
    result = NOTHING
    while not cursor.is_at_end and not cursor.sees("&&"):
        if cursor.place > start and cursor.sees("]"):
            break
        result |= _parse_item(cursor)
    return result


def _parse_item(cursor: PatternReader) -> CharacterSet:
    for sign in ("--", "~~", "[:", "[.", "[="):
        if cursor.sees(sign):
            raise cursor.refusal(
                f"{sign!r} in a class, which engines read differently", "write \\ before each sign"
            )
    if cursor.sees("["):
        with cursor.inside("classes", "write them side by side"):
            return parse_class(cursor)
    place = cursor.place
    first = _parse_escape(cursor)
    if not cursor.sees("-") or cursor.sees("-]", "--"):
        return _as_written(first, cursor)
    cursor.next()
    low = _only(first)
    high = _only(_parse_escape(cursor))
    if low is None or high is None or low > high:
        raise cursor.refusal(
            "this is not a range of characters",
            "write it from a lower to a higher one",
            start=place,
        )
    return _as_written(CharacterSet.between(low, high), cursor)


def _only(characters: CharacterSet) -> str | None:
    """Return the only character of a set; None if the set has none or several."""
    if characters.edges:
        character = chr(characters.edges[0])
        if CharacterSet.of(character) == characters:
            return character
    return None


def parse_character(cursor: PatternReader) -> CharacterSet:
    """Read a character, or an escape that stands for a set of them."""
    return _as_written(_parse_escape(cursor), cursor)


def _parse_escape(cursor: PatternReader) -> CharacterSet:
    if not cursor.sees("\\"):
        return CharacterSet.of(cursor.next())
    start = cursor.place
    cursor.next()
    if cursor.sees("p", "P"):
        return _parse_property(cursor, start)
    if digits := cursor.take_match(_CODE):
        code = int(digits[digits.lastindex or 0], 16)
        if code >= 0x110000 or 0xD800 <= code < 0xE000:
            raise cursor.refusal(
                f"U+{code:04X} is not a character", "write another code point", start=start
            )
        return CharacterSet.of(chr(code))
    name = cursor.next()
    if name in _SETS:
        return find_matched_set(f"\\{name}")
    if name.isalnum() and name not in _CONTROLS:
        raise cursor.refusal(
            f"\\{name} has no meaning here",
            "write the characters that you mean in a class [...]",
            start=start,
        )
    return CharacterSet.of(_CONTROLS.get(name, name))


def _parse_property(cursor: PatternReader, start: int) -> CharacterSet:
    from polars.exceptions import ComputeError

    match = cursor.take_match(_PROPERTY)
    if not match:
        raise cursor.refusal(
            "no property after \\p", "write one in braces, such as \\p{Lu}", start=start
        )
    kind, inverted, long, short = match.groups()
    try:
        inside = _as_written(find_matched_set(rf"\p{{{long or short}}}"), cursor)
    except ComputeError:
        raise cursor.refusal(
            f"{long!r} is not a known property of Unicode",
            "write a property such as L, Lu, N or Han",
            start=start,
        ) from None
    is_negated = (kind == "P") != bool(inverted)
    return ~inside if is_negated else inside


def _as_written(characters: CharacterSet, cursor: PatternReader) -> CharacterSet:
    return characters.folded() if cursor.ignores_case else characters


def sets_of(node: Node) -> list[CharacterSet]:
    """Return the sets of characters in a tree.

    >>> [characters.edges for characters in sets_of(parse("a(?!b)"))]
    [(97, 98), (0, 98, 99)]
    """
    return [part.characters for part in nodes_of(node) if isinstance(part, CharClass | Ahead)]


def nodes_of(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Repetition):
        yield from nodes_of(node.part)
    for part in getattr(node, "parts", ()):
        yield from nodes_of(part)
