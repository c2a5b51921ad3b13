"""Results of trials, one JSON object on a line, under a key that names everything the result follows from.

Lines are only appended, by one process at a time. A last line without an end was cut short by a kill: it does not
count, and is removed when the file is opened for appending; its trial runs again.

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

_NEEDED = {"key": str, "kind": str, "corpus": str, "size": int, "seed": int, "seconds": (int, float)}
_SCORES = {
    "lm": dict.fromkeys(("dev", "test", "operations"), list),
    "nmt": dict.fromkeys(("test", "BLEU", "chrF2"), (int, float)),
}


class Results:
    """The results in a file that one process appends to. rows: in file order."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        data = file.read()
        self.rows = parsed(data, path)
        file.truncate(data.rfind(b"\n") + 1)

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
            raise ConfigError(f"{self._path}: was replaced during the run; a result is lost; run again")
        self._file.write((json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows.append(row)


def read(path: Path) -> list[dict[str, Any]]:
    return parsed(path.read_bytes(), path) if path.exists() else []


def parsed(data: bytes, path: Path) -> list[dict[str, Any]]:
    """Return the results in whole lines. Raises ConfigError with the line that is not a result."""
    rows = dict[str, dict[str, Any]]()
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            row: Any = json.loads(line)
            missing = [name for name, kind in _NEEDED.items() if not isinstance(row.get(name), kind)]
            scores = _SCORES.get(row.get("kind"), {})
            missing += [name for name, kind in scores.items() if not isinstance(row.get(name), kind)]
            if missing or row["key"] in rows:
                raise ValueError(f"{missing[0]} is missing" if missing else "the key of an earlier line")
        except (ValueError, AttributeError) as error:
            raise ConfigError(f"{path}:{number}: not a result ({error}); fix or remove the line") from None
        rows[row["key"]] = row
    return [*rows.values()]
