r"""Marian's .yml ⇄ vocabulary: "piece": id a line; </s> has the id 0, <unk> 1, and the pieces
follow.

`write` makes every piece a double-quoted YAML string with unprintable characters escaped, so that
no YAML reader takes a piece for a number, a truth value, a comment or a line end. `read` accepts
plain and single-quoted strings, too.

>>> quote("a"), quote("\x85😀\U000f0000"), unquote(quote('\u2028"')) == '\u2028"'
('"a"', '"\\u0085😀\\U000f0000"', True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import yaml

from volt.errors import VocabularyError
from volt.formats import token_list as lists
from volt.vocabulary import Vocabulary

EOS = "</s>"
UNK = "<unk>"
LONGEST_KEY = 1000  # characters; YAML allows 1024 for a key on one line
_OLD_NAMES = {"eos": 0, "UNK": 1}  # names of </s> and <unk> in older files, and their ids
_ROW = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#].*?):\s+(-?\d+)\s*""")
_EOS_ROW = re.compile(rb"""^(</s>|"</s>"|'</s>'|eos|"eos"):""", re.MULTILINE)


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the dictionary.

    Raises VocabularyError if two tokens would be spelled alike or one is too long for YAML.
    """
    texts = [row.text for row in lists.unique_rows(vocabulary, path)]
    for text in texts:
        if text in (EOS, UNK):
            raise VocabularyError(f"{path}: token {text!r} is spelled like Marian's own; rename it")
        if len(quote(text)) > LONGEST_KEY:
            raise VocabularyError(
                f"{path}: token {text[:20]!r}… is too long for a YAML key; remove it"
            )
    numbered = enumerate([EOS, UNK, *texts])
    lists.write_lines(path, (f"{quote(text)}: {number}" for number, text in numbered))
    usual = "ids are VOLT's minus 2: </s> is 0 and <unk> is 1, and there is no <s> and no <pad>"
    id_note = lists.note_ids(vocabulary, usual, "Marian")
    return [id_note, *lists.note_spelling(vocabulary, has_counts=False)]


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    return lists.build_vocabulary(path, read_rows(path), merges=merges)


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line is a key and a number, and </s> is among them."""
    row = re.compile(rf"---|{_ROW.pattern}")
    return bool(_EOS_ROW.search(head)) and lists.all_lines_match(head, row)


def read_rows(path: Path) -> Iterator[lists.ListEntry]:
    """Yield the tokens of a Marian .yml in the order of their ids, without its </s> and <unk>."""
    entry_of_id = dict[int, lists.ListEntry]()
    for line, text in lists.read_lines(path):
        if text == "---" and line == 1:
            continue
        match = _ROW.fullmatch(text)
        if match is None:
            raise VocabularyError(
                f"{path}:{line}: expected 'piece: id', found {text[:60]!r}; fix the line"
            )
        key, number = match.groups()
        try:
            entry = lists.ListEntry(line, unquote(key))
        except (yaml.YAMLError, ValueError):
            raise VocabularyError(
                f"{path}:{line}: {key[:60]!r} is not a YAML string; fix the line"
            ) from None
        if not lists.is_number(number):
            raise VocabularyError(
                f"{path}:{line}: {number[:40]!r} is not an id; give a whole number from 0 up"
            )
        first = entry_of_id.setdefault(int(number), entry)
        if first != entry:
            raise VocabularyError(
                f"{path}:{line}: id {int(number)} repeats line {first.line}; "
                "give every piece its own id"
            )
    for number_of_row, entry in sorted(entry_of_id.items(), key=itemgetter(0)):
        if entry.piece not in (EOS, UNK) and _OLD_NAMES.get(entry.piece) != number_of_row:
            yield entry


def quote(text: str) -> str:
    """Return a text as a double-quoted YAML string."""
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    if ord(character) < 0x10000:
        return f"\\u{ord(character):04x}"
    return f"\\U{ord(character):08x}"


def unquote(key: str) -> str:
    """Return the string that a YAML key stands for.

    Raises YAMLError or ValueError for an invalid escape.

    >>> unquote("'it''s'"), unquote("lo")
    ("it's", 'lo')
    """
    if key.startswith(("'", '"')):
        return str(yaml.BaseLoader(key).get_single_data())
    return key
