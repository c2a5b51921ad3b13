r"""A pattern of a split → the same for Oniguruma, the engine of tokenizers, where it is spelled otherwise.

    $           \z                the end of the text; Oniguruma's is before each line end
    c{1,3}+     (?>c{1,3})        its {1,3}+ repeats the whole
    \pL         \p{L}
    \u4E00      \x{4E00}          and other ways to write a code
    []a]        [\]a]

>>> spelled(r"\p{N}{1,3}+|a+$|[$]")
'(?>\\p{N}{1,3})|a+\\z|[$]'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CODE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[uU]\{([0-9A-Fa-f]{1,8})\})")
_PROPERTY = re.compile(r"\\([pP])([A-Z])")
_ESCAPE = re.compile(r"\\(?:[pP]\{[^}]*\}|[pP].|[xuU]\{[^}]*\}|x..|u.{4}|U.{8}|.)", re.DOTALL)
_COUNTED = re.compile(r"(\{[0-9]+(?:,[0-9]*)?\})\+")
_ATOMIC = re.compile(r"\(\?>((?:\[[^\[\]]*\]|\\[pP]\{[^}]*\}|\\.|[^\\\[\]()])\{[0-9]+(?:,[0-9]*)?\})\)")
_JOINERS = r"\u200C\u200D"
# What Oniguruma takes for these, which depends on where they stand.
_INSIDE = {
    r"\w": rf"[\w&&[^{_JOINERS}]]", r"\W": rf"[\W{_JOINERS}]", r"\h": "[0-9A-Fa-f]", r"\H": "[^0-9A-Fa-f]",
}  # fmt: skip
_ALONE = _INSIDE | {
    r"\w": rf"[\w²³¹¼½¾&&[^{_JOINERS}]]", r"\W": rf"[\W{_JOINERS}&&[^²³¹¼½¾]]", "$": r"(?=\n|\z)",
}  # fmt: skip
_DOT = re.compile(r"(?<=(?<!\\)\[)\.")  # "[." is how POSIX begins something else


def spelled(pattern: str) -> str:
    """The pattern as Oniguruma reads it. pattern: one that volt.text.patterns can parse."""
    written, place = list[str](), 0
    for end in _item_ends(pattern):
        if end <= place:
            continue
        item, place = _item(pattern[place:end]), end
        if found := _COUNTED.match(pattern, place):
            item, place = f"(?>{item}{found[1]})", found.end()
        written.append(item)
    return "".join(written)


def original(pattern: str) -> str:
    r"""What `spelled` may have made this of, as publishers write it.

    >>> original(r"(?>\p{N}{1,3})|a+\z")
    '\\p{N}{1,3}+|a+$'
    """
    return _ATOMIC.sub(r"\1+", pattern).replace(r"\z", "$")


def understood(pattern: str) -> str:
    r"""The pattern of a foreign file, as it is written for Oniguruma, in the grammar of volt.text.patterns.

    >>> understood(r"(?i)a$|\w{2}+|(?>\p{N}{1,3})")
    '(?i:a(?=\\n|\\z)|(?:[\\w²³¹¼½¾&&[^\\u200C\\u200D]]{2})+|\\p{N}{1,3}+)'
    """
    if pattern.startswith("(?i)"):
        return f"(?i:{understood(pattern[4:])})"
    written, place = list[str](), 0
    for end in _item_ends(pattern):
        if end <= place:
            continue
        item, place = pattern[place:end], end
        item = _ESCAPE.sub(_inside, item) if item[0] == "[" else _ALONE.get(item, item)
        item = _DOT.sub(r"\\.", item)
        if found := _COUNTED.match(pattern, place):
            item, place = f"(?:{item}{found[1]})+", found.end()
        written.append(item)
    return _ATOMIC.sub(r"\1+", "".join(written))


def _inside(found: re.Match[str]) -> str:
    """An escape in a class."""
    return _INSIDE.get(found[0], found[0])


def _item_ends(pattern: str) -> Iterator[int]:
    """Where the characters, escapes and classes of a pattern end."""
    place = 0
    while place < len(pattern):
        place = _class_end(pattern, place) if pattern[place] == "[" else _sign_end(pattern, place)
        yield place
        if found := _COUNTED.match(pattern, place):
            place = found.end()


def _class_end(pattern: str, start: int) -> int:
    """Where the class that starts there ends; classes inside it end before."""
    place = start + 1 + pattern.startswith("^", start + 1)
    place += pattern.startswith("]", place)
    while pattern[place] != "]":
        place = _class_end(pattern, place) if pattern[place] == "[" else _sign_end(pattern, place)
    return place + 1


def _sign_end(pattern: str, place: int) -> int:
    found = _ESCAPE.match(pattern, place)
    return found.end() if found else place + 1


def _item(text: str) -> str:
    if text == "$":
        return r"\z"
    if text.startswith(("[]", "[^]")):
        text = text.replace("]", r"\]", 1)
    text = _PROPERTY.sub(r"\\\1{\2}", text)
    return _CODE.sub(lambda found: rf"\x{{{found[1] or found[2] or found[3]}}}", text)
