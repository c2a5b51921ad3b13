"""A regular expression → its tree. What is written and what is refused:

    a  .  [a-z]  \\p{L}  \\s  \\n        a character: see volt.text.patterns.classes
    xy   x|y   (x)   (?:x)   (?i:x)    one after the other; the first that leads to a match; groups; any case
    x?   x*   x+   x{2}  x{2,}  x{2,3} rather more often
    c?+  c*+  c++  c{2,3}+             the same, never given up again; c takes one character
    (?=c)  (?!c)  $  \\z                what comes next: a character, none of these, the end of the text

Refused by name are lazy quantifiers, back-references, look-behind, look-ahead over more than one character, atomic
groups, and whatever engines read differently. "$" is the end of the text, and not a place before a last line end.
"{2,3}+" is possessive, as tiktoken's engine has it; Oniguruma repeats the whole instead.

>>> parse(r"a|b").parts[1]
Take(characters=CharacterSet(edges=(98, 99)))
>>> parse("b*+|(?>c)")
Traceback (most recent call last):
    ...
volt.errors.ConfigError: pattern 'b*+|(?>c)', character 5: an atomic group; write a possessive quantifier, as in [a-z]++
"""

from __future__ import annotations

from volt.text.patterns.character_sets import NOTHING, CharacterSet
from volt.text.patterns.classes import DEEPEST, but_line_feed, parse_character, parse_class
from volt.text.patterns.cursor import Cursor
from volt.text.patterns.grammar import Ahead, Choice, Node, Repeat, Sequence, Take

MOST_TIMES = 1000  # of a counted repetition
_COUNTS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_ONE_AHEAD = "look ahead at one character, as in (?!\\S), or cut in two splits"
_REFUSED_GROUPS = {
    "(?<=": ("look-behind", "cut in two splits, or put what stands before into the match"),
    "(?<!": ("look-behind", "cut in two splits, or put what stands before into the match"),
    "(?>": ("an atomic group", "write a possessive quantifier, as in [a-z]++"),
    "(?#": ("a comment", "take it out"),
    "(?P": ("a named group", "write (?:...)"),
    "(?<": ("a named group", "write (?:...)"),
    "(?": ("flags other than (?i:...)", "write out what they stand for"),
    "(*": ("a verb of backtracking", "take it out"),
}
_REFUSED_ESCAPES = {
    **dict.fromkeys("123456789kg", ("a back-reference", "write out what it may repeat")),
    **dict.fromkeys("bB", ("a word boundary", _ONE_AHEAD)),
    **dict.fromkeys("AG", ("an anchor at a start", "leave it out, or cut each text by itself")),
    "Z": ("an anchor before a last line end", "write \\z for the end of the text"),
    **dict.fromkeys("XRKQE", ("an escape that few engines know", "write out what it stands for")),
}


def parse(pattern: str) -> Node:
    """The tree of a pattern. Raises ConfigError that says what is not supported, where, and what to do.

    pattern: a regular expression, see above
    """
    cursor = Cursor(pattern)
    found = _parse_choice(cursor)
    if not cursor.is_at_end:
        raise cursor.refusal("this ) closes no group", "write \\) for the character")
    return found


def _parse_choice(cursor: Cursor) -> Node:
    parts = [_parse_sequence(cursor)]
    while cursor.take("|"):
        parts.append(_parse_sequence(cursor))
    return Choice(tuple(parts)) if len(parts) > 1 else parts[0]


def _parse_sequence(cursor: Cursor) -> Node:
    parts = list[Node]()
    while not cursor.is_at_end and not cursor.sees("|", ")"):
        parts.append(_parse_repeat(cursor))
    return Sequence(tuple(parts)) if len(parts) != 1 else parts[0]


def _parse_repeat(cursor: Cursor) -> Node:
    """A part and the quantifier behind it, if there is one."""
    part, place = _parse_part(cursor), cursor.place
    counts = _parse_counts(cursor)
    if counts is None:
        return part
    least, most = counts
    quantifier = cursor.pattern[place : cursor.place]
    if cursor.take("?"):
        raise cursor.refusal(
            f"'{quantifier}?' is a lazy quantifier, which takes as little as it can",
            "take out the ?, or write a class that stops where the match should end", start=place,
        )  # fmt: skip
    possessive = cursor.take("+")
    if possessive and not isinstance(part, Take):
        raise cursor.refusal(
            "a possessive quantifier behind more than one character", "write it behind a class, or take out the +",
            start=place,
        )  # fmt: skip
    if cursor.sees("?", "*", "+", "{"):
        raise cursor.refusal("a quantifier of a quantifier", "put what is repeated into (?:...)")
    if part.can_be_empty and (isinstance(part, Ahead) or most is None or most > 1):
        raise cursor.refusal(
            "this repeats what may be empty", "let each repetition take a character: write + for * inside", start=place
        )
    return Repeat(part, least, most, possessive)


def _parse_counts(cursor: Cursor) -> tuple[int, int | None] | None:
    """How often, if a quantifier comes next."""
    for sign, counts in _COUNTS.items():
        if cursor.take(sign):
            return counts
    if not cursor.sees("{"):
        return None
    place, found = cursor.place, cursor.take_match(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
    if not found:
        raise cursor.refusal("a { that begins no quantifier", "write \\{ for the character")
    least = int(found[1])
    most = int(found[3]) if found[3] else None if found[2] else least
    if max(least, most or 0) > MOST_TIMES or (most is not None and not 0 < most >= least):
        raise cursor.refusal(
            f"{found[0]} repeats in no way that is possible here",
            f"write {{m,n}} with m ≤ n and n from 1 to {MOST_TIMES:,}", start=place,
        )  # fmt: skip
    return least, most


def _parse_part(cursor: Cursor) -> Node:
    """A character, a class, a group, or what looks ahead."""
    if cursor.sees("("):
        return _parse_group(cursor)
    if cursor.sees("["):
        return Take(parse_class(cursor))
    if cursor.take("."):
        return Take(but_line_feed())
    if cursor.take("$") or cursor.take("\\z"):
        return Ahead(NOTHING, at_end=True)
    if cursor.sees("^"):
        raise cursor.refusal("an anchor at a start", "leave it out, or cut each text by itself")
    if cursor.sees("?", "*", "+", "{"):
        raise cursor.refusal("a quantifier behind nothing", "write \\ before it for the character")
    if cursor.sees("\\") and (refused := _REFUSED_ESCAPES.get(cursor.pattern[cursor.place + 1 : cursor.place + 2])):
        raise cursor.refusal(*refused)
    return Take(parse_character(cursor))


def _parse_group(cursor: Cursor) -> Node:
    """What stands in round brackets."""
    start, ignored_case = cursor.place, cursor.ignores_case
    for sign, negated in (("(?=", False), ("(?!", True)):
        if cursor.take(sign):
            return _look_ahead(_parse_inside(cursor, start), negated, cursor, start)
    if cursor.take("(?i:"):
        cursor.ignores_case = True
    elif not cursor.take("(?:"):
        for sign, refused in _REFUSED_GROUPS.items():
            if cursor.sees(sign):
                raise cursor.refusal(*refused)
        cursor.take("(")
    found = _parse_inside(cursor, start)
    cursor.ignores_case = ignored_case
    return found


def _parse_inside(cursor: Cursor, start: int) -> Node:
    """The rest of a group, whose sign is read."""
    cursor.depth += 1
    if cursor.depth > DEEPEST:
        raise cursor.refusal(f"more than {DEEPEST} groups inside each other", "take out those that change nothing")
    found = _parse_choice(cursor)
    if not cursor.take(")"):
        raise cursor.refusal("this ( has no )", "close the group, or write \\( for the character", start=start)
    cursor.depth -= 1
    return found


def _look_ahead(seen: Node, negated: bool, cursor: Cursor, start: int) -> Ahead:
    """What may come next; a choice of classes is one class."""
    characters, at_end = NOTHING, False
    for part in seen.parts if isinstance(seen, Choice) else (seen,):
        if isinstance(part, Take):
            characters |= part.characters
        elif isinstance(part, Ahead):
            characters, at_end = characters | part.characters, at_end or part.at_end
        else:
            raise cursor.refusal("this looks ahead at more than one character", _ONE_AHEAD, start=start)
    return Ahead(~characters, not at_end) if negated else Ahead(characters, at_end)


def sets_of(node: Node) -> list[CharacterSet]:
    """The sets of characters that a tree speaks of.

    >>> [characters.edges for characters in sets_of(parse("a(?!b)"))]
    [(97, 98), (0, 98, 99)]
    """
    if isinstance(node, Take | Ahead):
        return [node.characters]
    return [found for part in (node.parts if not isinstance(node, Repeat) else (node.part,)) for found in sets_of(part)]


def has_possessive(node: Node) -> bool:
    """Whether a repetition in a tree is possessive.

    >>> has_possessive(parse("(?:a+b++)?")), has_possessive(parse("a+b"))
    (True, False)
    """
    if isinstance(node, Take | Ahead):
        return False
    if isinstance(node, Repeat):
        return node.possessive or has_possessive(node.part)
    return any(map(has_possessive, node.parts))
