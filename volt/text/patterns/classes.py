"""A class of characters in a pattern → its set: [a-z\\s], [^\\r\\n], [\\p{L}&&[^\\p{Han}]], \\p{Lu}, \\n, \\u4E00.

The syntax is what the engines of tokenizers have in common. What they read differently is refused: a "[" inside a class
opens a class in two of them and is a plain character in others, "--" is a difference in some and a range in others.

>>> "".join(character for character in "abcd" if character in parse_class(Cursor("[^a-c]")))
'd'
"""

from __future__ import annotations

from volt.text.patterns.character_sets import ANYTHING, NOTHING, CharacterSet, matched
from volt.text.patterns.cursor import Cursor

DEEPEST = 50  # groups and classes inside each other
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_SETS = {"s", "d", "w", "S", "D", "W"}
_CODE = r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]{1,8})\}"
_PROPERTY = r"([pP])(?:\{(\^?)([\w \-=:]+)\}|([A-Z]))"


def parse_class(cursor: Cursor) -> CharacterSet:
    """Read "[...]". Raises ConfigError if it is no class, or one that engines read differently."""
    start = cursor.place
    cursor.next()
    negated, found = cursor.take("^"), _parse_union(cursor)
    while cursor.take("&&"):
        found &= _parse_union(cursor)
    if not cursor.take("]"):
        raise cursor.refusal("this class has no end", "write ] behind it", start=start)
    return ~found if negated else found


def _parse_union(cursor: Cursor) -> CharacterSet:
    """Items of a class, up to "&&" or the class's end; a "]" that comes first is an item."""
    start, found = cursor.place, NOTHING
    while not cursor.is_at_end and (cursor.place == start or not cursor.sees("]")) and not cursor.sees("&&"):
        found |= _parse_item(cursor)
    return found


def _parse_item(cursor: Cursor) -> CharacterSet:
    """A range, a character, an escape or a class inside a class."""
    for sign in ("--", "~~", "[:", "[.", "[="):
        if cursor.sees(sign):
            raise cursor.refusal(f"{sign!r} in a class, which engines read differently", "write \\ before each sign")
    if cursor.sees("["):
        return _parse_inner(cursor)
    place, first = cursor.place, _parse_escape(cursor)
    if not cursor.sees("-") or cursor.sees("-]", "--"):
        return _as_written(first, cursor)
    cursor.next()
    low, high = _only(first), _only(_parse_escape(cursor))
    if low is None or high is None or low > high:
        raise cursor.refusal("this is no range of characters", "write it from a lower to a higher one", start=place)
    return _as_written(CharacterSet.between(low, high), cursor)


def _only(characters: CharacterSet) -> str | None:
    """The one character of a set; None if it has more or none."""
    first = chr(characters.edges[0]) if characters.edges else None
    return first if first is not None and CharacterSet.of(first) == characters else None


def _parse_inner(cursor: Cursor) -> CharacterSet:
    cursor.depth += 1
    if cursor.depth > DEEPEST:
        raise cursor.refusal(f"more than {DEEPEST} classes inside each other", "write them side by side")
    found = parse_class(cursor)
    cursor.depth -= 1
    return found


def parse_character(cursor: Cursor) -> CharacterSet:
    """Read a character or an escape that stands for a set of them.

    >>> parse_character(Cursor("\\n")).edges
    (10, 11)
    """
    return _as_written(_parse_escape(cursor), cursor)


def _parse_escape(cursor: Cursor) -> CharacterSet:
    """The same, as if case mattered."""
    if not cursor.sees("\\"):
        return CharacterSet.of(cursor.next())
    start = cursor.place
    cursor.next()
    if cursor.sees("p", "P"):
        return _parse_property(cursor, start)
    if code := cursor.take_match(_CODE):
        return _coded(int(code[code.lastindex or 0], 16), cursor, start)
    name = cursor.next()
    if name in _SETS:
        inside = matched(f"\\{name.lower()}")
        return inside if name.islower() else ~inside
    if name.isalnum() and name not in _CONTROLS:
        raise cursor.refusal(
            f"\\{name}, which has no meaning here", "write the characters that you mean in a class [...]", start=start
        )
    return CharacterSet.of(_CONTROLS.get(name, name))


def _coded(code: int, cursor: Cursor, start: int) -> CharacterSet:
    if code >= 0x110000 or 0xD800 <= code < 0xE000:
        raise cursor.refusal(f"U+{code:04X} is no character", "write the code point of one", start=start)
    return CharacterSet.of(chr(code))


def _parse_property(cursor: Cursor, start: int) -> CharacterSet:
    """A general category, script or other property of Unicode: \\p{Lu}, \\pL, \\P{L}, \\p{^L}, \\p{Han}."""
    from polars.exceptions import ComputeError

    found = cursor.take_match(_PROPERTY)
    if not found:
        raise cursor.refusal("no property behind \\p", "write one in braces, such as \\p{Lu}", start=start)
    kind, inverted, long, short = found.groups()
    try:
        inside = _as_written(matched(rf"\p{{{long or short}}}"), cursor)
    except ComputeError:
        raise cursor.refusal(
            f"Unicode has no property {long!r} that is known here", "write one such as L, Lu, N or Han", start=start
        ) from None
    return ~inside if (kind == "P") != bool(inverted) else inside


def _as_written(characters: CharacterSet, cursor: Cursor) -> CharacterSet:
    """The set itself, or without a look at case where (?i holds."""
    return characters.folded() if cursor.ignores_case else characters


def but_line_feed() -> CharacterSet:
    """What "." takes.

    >>> "\\n" in but_line_feed(), "\\r" in but_line_feed()
    (False, True)
    """
    return ANYTHING & ~CharacterSet.of("\n")
