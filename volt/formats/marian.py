r"""Marian .yml ⇄ vocabulary: "piece": id a line; </s> has the id 0, <unk> 1, and the pieces follow.

Every piece is a double-quoted YAML string with unprintable characters escaped, so that no YAML reader takes it for a
number, a truth value, a comment or a line end.

>>> quoted("a"), quoted("\x85😀\U000f0000"), unquoted(quoted('\u2028"')) == '\u2028"'
('"a"', '"\\u0085😀\\U000f0000"', True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import itemgetter
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
# escape → character, which the two strings list in the same order
_ESCAPED = dict(
    zip('0abtnvfre"/\\ N_LP', '\0\a\b\t\n\v\f\r\x1b"/\\ \x85\xa0\u2028\u2029', strict=True)
)


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the dictionary. Raises VocabularyError if two tokens would be spelled alike or one is too long for YAML."""
    texts = [row.text for row in lists.unique_rows(vocabulary, path)]
    for text in texts:
        if text in (EOS, UNK):
            raise VocabularyError(f"{path}: token {text!r} is spelled like Marian's own; rename it")
        if len(quoted(text)) > LONGEST_KEY:
            raise VocabularyError(
                f"{path}: token {text[:20]!r}… is too long for a YAML key; remove it"
            )
    numbered = enumerate([EOS, UNK, *texts])
    lists.write_lines(path, (f"{quoted(text)}: {number}" for number, text in numbered))
    usual = "ids are VOLT's minus 2: </s> is 0 and <unk> is 1, and there is no <s> and no <pad>"
    id_note = lists.id_note(vocabulary, usual, "Marian")
    return [id_note, *lists.spelling_notes(vocabulary, has_counts=False)]


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    return lists.vocabulary_of(path, rows(path), merges=merges, joined=True)


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line is a key and a number, and </s> is among them."""
    return bool(_ENDS.search(head)) and lists.all_lines(head, re.compile(rf"---|{_ROW.pattern}"))


def rows(path: Path) -> Iterator[lists.ListEntry]:
    """Yield the tokens by id, without Marian's own </s> and <unk>."""
    entries = dict[int, lists.ListEntry]()
    for line, text in lists.lines_of(path):
        if text == "---" and line == 1:
            continue
        match = _ROW.fullmatch(text)
        if match is None:
            raise VocabularyError(
                f"{path}:{line}: expected 'piece: id', found {text[:60]!r}; fix the line"
            )
        try:
            entry = lists.ListEntry(line, unquoted(match[1]))
        except (KeyError, ValueError):
            raise VocabularyError(
                f"{path}:{line}: {match[1][:60]!r} is not a YAML string; fix the line"
            ) from None
        if not lists.is_number(match[2]):
            raise VocabularyError(
                f"{path}:{line}: {match[2][:40]!r} is not an id; give a whole number from 0 up"
            )
        first = entries.setdefault(int(match[2]), entry)
        if first != entry:
            raise VocabularyError(
                f"{path}:{line}: id {int(match[2])} repeats line {first.line}; "
                "give every piece its own id"
            )
    for number, entry in sorted(entries.items(), key=itemgetter(0)):
        if entry.piece not in (EOS, UNK) and _OTHER_NAMES.get(entry.piece) != number:
            yield entry


def quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    if ord(character) < 0x10000:
        return f"\\u{ord(character):04x}"
    return f"\\U{ord(character):08x}"


def unquoted(text: str) -> str:
    """Return the string that a YAML key on one line stands for. Raises KeyError for an unknown escape.

    >>> unquoted("'it''s'"), unquoted("lo")
    ("it's", 'lo')
    """
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        return _ESCAPE.sub(_unescaped, text[1:-1])
    return text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED[code]
