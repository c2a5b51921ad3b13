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

What the entries mean is the business of volt.vocabulary.vocabulary.

>>> print(dump({"fingerprint": "ab"}, merges=[("t", "h")]), end="")
{"volt": 1,
"fingerprint": "ab",
"merges": [
["t", "h"]]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volt.errors import VocabularyError
from volt.files.whole import read_text

FORMAT = 1
_HINT = "; make one with volt.search"
_FOREIGN = {
    "#version:": "subword-nmt codes",
    "{": "the JSON of another program",
    "<unk>\t": "a sentencepiece .vocab file",
}


def dump(head: Mapping[str, Any], **lists: Iterable[Sequence[object]]) -> str:
    """The text of a file: the version, the head's entries, then the lists with one row a line.

    >>> dump({}, tokens=[("lo", 7)])
    '{"volt": 1,\\n"tokens": [\\n["lo", 7]]}\\n'
    """
    lines = [f"{_json(key)}: {_json(value)}" for key, value in {"volt": FORMAT, **head}.items()]
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
        text = read_text(path, kind=VocabularyError, remedy=f", so no VOLT vocabulary{_HINT}")
        if not text.startswith('{"volt"'):
            raise VocabularyError(f"{path}:1: not a VOLT vocabulary, but {_looks_like(text)}{_HINT}")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise VocabularyError(f"{path}:{line}: damaged or cut short here ({error}); restore the file") from None
        version = data["volt"]
        if type(version) is not int or version < 1:
            raise VocabularyError(f"{path}:1: the format version is {version!r}; restore the file")
        if version > FORMAT:
            found = f"{path}:1: format {version} of a newer VOLT, and this one reads {FORMAT}"
            raise VocabularyError(f"{found}; pip install -U volt-vocab")
        return cls(path, text, data)

    def value(self, name: str, kind: type) -> Any:
        """The entry of the head or list with this name and JSON type."""
        if not isinstance(self.data.get(name), kind):
            raise VocabularyError(f"{self.where(name)}: {name!r} is missing or no {kind.__name__}; restore the file")
        return self.data[name]

    def rows(self, name: str, *kinds: type) -> list[list[Any]]:
        """The rows of a list, each of which holds one value of each type, and no empty string."""
        for index, row in enumerate(self.value(name, list)):
            fits = isinstance(row, list) and [type(value) for value in row] == list(kinds) and "" not in row
            if not fits:
                shape = ", ".join(kind.__name__ for kind in kinds)
                raise VocabularyError(
                    f"{self.where(name, index)}: found {_json(row)} where [{shape}] belongs; restore it"
                )
        return list(self.data[name])

    def where(self, name: str, index: int | None = None) -> str:
        """path:line of an entry, or of row `index` of a list, in the layout that `dump` writes; else path and row."""
        for number, line in enumerate(self.text.split("\n"), 1):
            if line.lstrip("{ ").startswith(f'"{name}"'):
                return f"{self.path}:{number if index is None else number + 1 + index}"
        return f"{self.path}" if index is None else f"{self.path}: {name}, row {index + 1}"


def _looks_like(text: str) -> str:
    found = (what for start, what in _FOREIGN.items() if text.lstrip().startswith(start))
    return next(found, "some other text" if text.strip() else "an empty file")
