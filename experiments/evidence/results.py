"""Results of trials, one JSON object on a line, under a key that says all that the result follows from.

Lines are only ever appended, by one process at a time. A last line that a kill cut short is left out, and removed when
the file is opened to add to it; the trial of it is run again.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, Results.open(Path(folder) / "lm.jsonl") as results:
...     results.add({"key": "lm|ted-fi|4000|1", "test": [2.5]})
...     "lm|ted-fi|4000|1" in results, len(results.rows)
(True, 1)
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from volt.errors import ConfigError

_NEEDED: dict[str, Any] = {"key": str, "kind": str, "corpus": str, "size": int, "seed": int}
_READINGS = {"lm": ("dev", "test", "operations")}  # of each kind: as many numbers as there were readings
_SCORES = {"nmt": ("test", "BLEU", "chrF2")}
_MOST = 1e100


class Results:
    """The results in a file, for one process to add to.

    rows: the results, in the order in which they came
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        data = file.read()
        self.rows, end = whole_lines(data, name)
        file.truncate(end)
        if data[:end] and not data[:end].endswith(b"\n"):  # as some editors leave it
            file.write(b"\n")
            file.flush()
        self._keys = {row["key"] for row in self.rows}

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Results]:
        """Those of a file, which is made if it is not there. Raises ConfigError if another process adds to it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{path}: another run adds to it; wait for its end") from None
            file.seek(0)
            yield cls(file, str(path))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, row: dict[str, Any]) -> None:
        """Append a result; it is on the disk when this returns. Raises ConfigError if another file is there by now.

        Raises ValueError if a number in it is not finite.
        """
        if row["key"] in self._keys:
            raise ConfigError(f"a result for {row['key']} is there already")
        path = Path(self._name)
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(self._file.fileno())):
            raise ConfigError(f"{path}: was replaced while results came; the one for {row['key']} is lost; start again")
        self._file.write((json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._keys.add(row["key"])
        self.rows.append(row)


def read(path: Path) -> list[dict[str, Any]]:
    """The results in a file, none if there is no file."""
    return whole_lines(path.read_bytes(), str(path))[0] if path.exists() else []


def whole_lines(data: bytes, name: str) -> tuple[list[dict[str, Any]], int]:
    """The results in whole lines, and where these end. Raises ConfigError, with the line, if one is no result.

    The last line may lack its end, if it is a result as it is.

    >>> line = (b'{"key": "a", "kind": "lm", "corpus": "ted-fi", "size": 4000, "seed": 1, "seconds": 9, '
    ...         b'"dev": [3.1], "test": [3.0], "operations": [8.0]}\\n')
    >>> rows, end = whole_lines(line + b'{"key": "b', "lm.jsonl")
    >>> rows[0]["size"], end == len(line)
    (4000, True)
    """
    end = data.rfind(b"\n") + 1
    if _is_whole(data[end:]):
        end = len(data)
    rows = list[dict[str, Any]]()
    lines = dict[str, int]()
    for number, line in enumerate(data[:end].split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = _row(line)
            if (first := lines.setdefault(row["key"], number)) != number:
                raise ValueError(f"the key of line {first} again")
        except ValueError as error:
            raise ConfigError(f"{name}:{number}: {error}; mend or remove the line") from None
        rows.append(row)
    return rows, end


def _is_whole(line: bytes) -> bool:
    """Whether a line that may be cut short is JSON as it is."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _row(line: bytes) -> dict[str, Any]:
    try:
        row: Any = json.loads(line, parse_constant=_refused)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(row, dict):
        raise ValueError("no object")
    for name, kind in _NEEDED.items():
        if not isinstance(row.get(name), kind):
            raise ValueError(f"no {name}")
    for name in ("seconds", *_SCORES.get(row["kind"], ())):
        if not _is_number(row.get(name)):
            raise ValueError(f"no {name}")
    names = _READINGS.get(row["kind"], ())
    if not all(_are_numbers(row.get(name)) and len(row[name]) == len(row[names[0]]) for name in names):
        raise ValueError(f"{', '.join(names)} are not lists of as many numbers")
    signatures = row.get("signatures", [])
    if not isinstance(signatures, list) or not all(isinstance(one, str) for one in signatures):
        raise ValueError("signatures are no list of texts")
    return row


def _are_numbers(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(map(_is_number, values))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < _MOST


def _refused(text: str) -> None:
    raise ValueError(f"{text} is no score")
