"""The layout of a vocabulary file: JSON, versioned first, one token or merge per line, so that a fault has a line.

    {"volt": 1,
    "fingerprint": "…",
    …
    "tokens": [
    ["the</w>", 1234],
    …],
    "merges": [
    ["t", "h"],
    …]}

What the entries mean is the business of volt.vocabulary.vocabulary. A file may come from anywhere, so it is measured
before it is parsed: 64 MB and eight million values are the most, which a million tokens and a million merges need.

>>> print(dump({"fingerprint": "ab"}, merges=[("t", "h")]), end="")
{"volt": 1,
"fingerprint": "ab",
"merges": [
["t", "h"]]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volt.errors import VocabularyError, quoted, shown, shown_path
from volt.files.whole import read_text

PLAIN, FORMAT = 1, 2  # the version of files that need nothing newer, and the newest
MOST_BYTES, MOST_ROWS, _MOST_MARKS = 64 << 20, 1 << 20, 8 << 20
_HINT = "; make one with volt.search"
_FOREIGN = {
    "#version:": "subword-nmt codes",
    "{": "the JSON of another program",
    "<unk>\t": "a sentencepiece .vocab file",
}


def dump(head: Mapping[str, Any], *, version: int = PLAIN, **lists: Sequence[Sequence[object]]) -> str:
    """The text of a file: the version, the head's entries, then the lists with one row a line.

    version: of the format

    Raises VocabularyError if a list is longer than can be read.

    >>> dump({}, tokens=[("lo", 7)])
    '{"volt": 1,\\n"tokens": [\\n["lo", 7]]}\\n'
    """
    for name, rows in lists.items():
        if len(rows) > MOST_ROWS:
            raise VocabularyError(f"{len(rows):,} {name}: at most {MOST_ROWS:,} can be saved; choose a smaller size")
    lines = [f"{_json(key)}: {_json(value)}" for key, value in {"volt": version, **head}.items()]
    lines += [f"{_json(name)}: [\n" + ",\n".join(map(_json, rows)) + "]" for name, rows in lists.items()]
    return "{" + ",\n".join(lines) + "}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class VocabularyFile:
    """A file of a version that we can read: its path, its text and the JSON object in it, with values unchecked."""

    path: Path
    text: str
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> VocabularyFile:
        """Read a file. Raises VocabularyError that names file and line if it is foreign, damaged or newer."""
        remedy, name = f", so no VOLT vocabulary{_HINT}", shown_path(path)
        text = read_text(path, kind=VocabularyError, remedy=remedy, most=MOST_BYTES)
        if not text.startswith('{"volt"'):
            raise VocabularyError(f"{name}:1: not a VOLT vocabulary, but {_looks_like(text)}{_HINT}")
        if sum(map(text.count, ",[{:")) > _MOST_MARKS:
            raise VocabularyError(
                f"{name}: more values than {MOST_ROWS:,} tokens and as many merges take; choose a smaller vocabulary"
            )
        try:
            data = json.loads(text, object_pairs_hook=_unrepeated)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise VocabularyError(f"{name}:{line}: damaged or cut short here ({error}); restore the file") from None
        version = data["volt"]
        if type(version) is not int or version < 1:
            raise VocabularyError(f"{name}:1: the format version is {shown(version)}; restore the file")
        if version > FORMAT:
            found = f"{name}:1: format {shown(version)} of a newer VOLT, and this one reads {FORMAT}"
            raise VocabularyError(f"{found}; pip install -U volt-vocab")
        return cls(path, text, data)

    def value(self, name: str, kind: type) -> Any:
        """The entry of the head or list with this name and JSON type."""
        if not isinstance(self.data.get(name), kind):
            raise VocabularyError(f"{self.where(name)}: {name!r} is missing or no {kind.__name__}; restore the file")
        return self.data[name]

    def rows(self, name: str, *kinds: type) -> list[list[Any]]:
        """The rows of a list, each of which holds one value of each type, and no empty string."""
        for index in range(len(self.value(name, list))):
            self.check_row(name, index, *kinds)
        return list(self.data[name])

    def check_row(self, name: str, index: int, *kinds: type) -> None:
        """Raise VocabularyError, with its line, if a row is not one value of each type, or holds an empty string."""
        row = self.data[name][index]
        if not (isinstance(row, list) and [type(value) for value in row] == list(kinds) and "" not in row):
            shape = ", ".join(kind.__name__ for kind in kinds)
            raise VocabularyError(
                f"{self.where(name, index)}: found {shown(_json(row))} where [{shape}] belongs; restore it"
            )

    def where(self, name: str, index: int | None = None) -> str:
        """path:line of an entry, or of row `index` of a list, in the layout that `dump` writes; else path and row."""
        if found := re.search(f'^[{{ ]*"{re.escape(name)}"', self.text, re.MULTILINE):
            number = self.text.count("\n", 0, found.start()) + 1
            return f"{shown_path(self.path)}:{number if index is None else number + 1 + index}"
        return shown_path(self.path) if index is None else f"{shown_path(self.path)}: {name}, row {index + 1}"


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError if it has a key twice, of which readers would see one or the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {quoted(next(key for key in keys if keys.count(key) > 1))} occurs twice")
    return found


def _looks_like(text: str) -> str:
    found = (what for start, what in _FOREIGN.items() if text.lstrip().startswith(start))
    return next(found, "some other text" if text.strip() else "an empty file")
