"""Results of trials, one JSON object on a line, under a key that names everything the result follows from.

Lines are only appended, by one process at a time. A last line that a kill cut short does not count, and is removed when
the file is opened for appending; its trial runs again.

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

_NEEDED: dict[str, Any] = {"key": str, "kind": str, "corpus": str, "size": int, "seed": int, "seconds": (int, float)}
_SCORES = {
    "lm": {"dev": list, "test": list, "operations": list},
    "nmt": dict.fromkeys(("test", "BLEU", "chrF2"), (int, float)),
}


class Results:
    """The results in a file that one process appends to. rows: in file order."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        data = file.read()
        self.rows, end = whole_lines(data, str(path))
        file.truncate(end)
        if data[:end] and not data[:end].endswith(b"\n"):  # as some editors leave it
            file.write(b"\n")
            file.flush()

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Results]:
        """Open a file, or create it. Raises ConfigError while another process appends to it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{path}: another run adds to it; wait for its end") from None
            file.seek(0)
            yield cls(file, path)

    def __contains__(self, key: str) -> bool:
        return any(row["key"] == key for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Append a result and wait until it is on disk. Raises ConfigError if the file was replaced meanwhile."""
        if not self._path.exists() or not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno())):
            raise ConfigError(
                f"{self._path}: was replaced during the run; the result of {row['key']} is lost; run again"
            )
        self._file.write((json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows.append(row)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the results in a file; none without a file."""
    return whole_lines(path.read_bytes(), str(path))[0] if path.exists() else []


def whole_lines(data: bytes, name: str) -> tuple[list[dict[str, Any]], int]:
    """Return the results in whole lines, and their end. Raises ConfigError with the line that is not a result.

    The last line may lack its line end if it is whole.
    """
    end = data.rfind(b"\n") + 1
    if _is_whole(data[end:]):
        end = len(data)
    rows, keys = list[dict[str, Any]](), set[str]()
    for number, line in enumerate(data[:end].split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = _row(line)
            if row["key"] in keys:
                raise ValueError("the key of an earlier line")
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{name}:{number}: {error}; fix or remove the line") from None
        rows.append(row)
        keys.add(row["key"])
    return rows, end


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _row(line: bytes) -> dict[str, Any]:
    row: Any = json.loads(line, parse_constant=_refuse)
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    for name, kind in (_NEEDED | _SCORES.get(row.get("kind", ""), {})).items():
        if not isinstance(row.get(name), kind):
            raise ValueError(f"{name} is missing or not of its type")
    if (
        len({len(value) for value in (row.get(name) for name in ("dev", "test", "operations")) if row["kind"] == "lm"})
        > 1
    ):
        raise ValueError("dev, test and operations differ in length")
    return row


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not a score")
