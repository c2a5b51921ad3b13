r"""Marian .yml ⇄ vocabulary: "piece": id a line; </s> has the id 0, <unk> 1, and the pieces follow.

Every piece is a double-quoted YAML string with unprintable characters escaped, so that no YAML reader takes it for a
number, a truth value, a comment or a line end.

>>> quoted("a"), quoted("\x85😀\U000f0000"), unquoted(quoted('\u2028"')) == '\u2028"'
('"a"', '"\\u0085😀\\U000f0000"', True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from volt.errors import VocabularyError
from volt.formats import token_list as lists
from volt.vocabulary import Vocabulary

EOS, UNK = "</s>", "<unk>"
LONGEST_KEY = 1000  # characters; YAML allows 1024 for a key on one line
_OTHER_NAMES = {"eos": 0, "UNK": 1}  # what older files call </s> and <unk>, and their ids
_ROW = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#].*?):\s+(-?\d+)\s*""")
_ENDS = re.compile(rb"""^(</s>|"</s>"|'</s>'|eos|"eos"):""", re.MULTILINE)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPED = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    '"': '"',
    "/": "/",
    "\\": "\\",
    " ": " ",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the dictionary. Raises VocabularyError if two tokens would be spelled alike or one is too long for YAML."""
    pieces = lists.unique_spelling(vocabulary, path)
    for piece in pieces:
        if piece in (EOS, UNK):
            raise VocabularyError(
                f"{path}: token {piece!r} is spelled like Marian's own; rename it"
            )
        if len(quoted(piece)) > LONGEST_KEY:
            raise VocabularyError(
                f"{path}: token {piece[:20]!r}… is too long for a YAML key; remove it"
            )
    lists.write_lines(
        path, (f"{quoted(piece)}: {number}" for number, piece in enumerate([EOS, UNK, *pieces]))
    )
    usual = "ids are VOLT's minus 2: </s> is 0 and <unk> is 1, and there is no <s> and no <pad>"
    return [
        lists.id_note(vocabulary, usual, "Marian"),
        *lists.spelling_notes(vocabulary, has_counts=False),
    ]


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    return lists.vocabulary_of(path, rows(path), merges=merges, joined=True)


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line is a key and a number, and </s> is among them."""
    return bool(_ENDS.search(head)) and lists.all_lines(head, re.compile(rf"---|{_ROW.pattern}"))


def rows(path: Path) -> Iterator[lists.ListEntry]:
    """Yield the tokens by id, without Marian's own </s> and <unk>."""
    entries = list[tuple[int, int, str]]()
    for line, text in lists.lines_of(path):
        if text == "---" and line == 1:
            continue
        if (match := _ROW.fullmatch(text)) is None:
            raise VocabularyError(
                f"{path}:{line}: expected 'piece: id', found {text[:60]!r}; fix the line"
            )
        try:
            piece = unquoted(match[1])
        except (KeyError, ValueError):
            raise VocabularyError(
                f"{path}:{line}: {match[1][:60]!r} is not a YAML string; fix the line"
            ) from None
        if not lists.is_number(match[2]):
            raise VocabularyError(
                f"{path}:{line}: {match[2][:40]!r} is not an id; give a whole number from 0 up"
            )
        entries.append((int(match[2]), line, piece))
    entries.sort()
    for (number, line, _), (following, other, _) in pairwise(entries):
        if number == following:
            raise VocabularyError(
                f"{path}:{other}: id {number} repeats line {line}; give every piece its own id"
            )
    own = {EOS, UNK, *(name for number, _, name in entries if _OTHER_NAMES.get(name) == number)}
    yield from (lists.ListEntry(line, piece) for _, line, piece in entries if piece not in own)


def quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unquoted(text: str) -> str:
    """Return the string that a YAML key on one line stands for. Raises KeyError for an unknown escape.

    >>> unquoted("'it''s'"), unquoted("lo")
    ("it's", 'lo')
    """
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return _ESCAPE.sub(_unescaped, text[1:-1]) if text.startswith('"') else text


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1][1:], 16)) if len(match[1]) > 1 else _ESCAPED[match[1]]
