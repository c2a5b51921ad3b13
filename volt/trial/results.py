"""Results of trainings: a file of them, and the curve of their scores over sizes.

Results are JSON objects, one on a line, under a key that names everything that the result follows
from. Lines are only appended, by one process at a time. A last line without an end was cut short by
a kill: it does not count, and is removed when the file is opened for appending; its training runs
again.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> with Results.open(Path(folder.name) / "trial.jsonl") as results:
...     results.add({"key": "size:4000|seed:1", "test": [2.5]})
...     "size:4000|seed:1" in results, len(results.rows)
(True, 1)
>>> folder.cleanup()
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError

Row = Mapping[str, Any]
Check = Callable[[Row], bool]  # whether a row counts; raises ValueError if it is not a result


def check_types(row: Row, types: Mapping[str, Any]) -> None:
    """Raise ValueError with the name of a value that a row lacks. types: name → type, or types"""
    for name, kind in types.items():
        if not isinstance(row.get(name), kind):
            raise ValueError(f"{name} is missing")


def check_key(row: Row) -> bool:
    check_types(row, {"key": str})
    return True


class Results:
    """The results in a file that one process appends to. rows: in file order."""

    def __init__(self, file: BinaryIO, path: Path, check: Check) -> None:
        self._file = file
        self._path = path
        data = file.read()
        self.rows = parse(data, path, check)
        file.truncate(data.rfind(b"\n") + 1)

    @classmethod
    @contextmanager
    def open(cls, path: Path, check: Check = check_key) -> Iterator[Results]:
        """Open a file, or create it. Raises ConfigError while another process appends to it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{path}: another run adds to it; wait for its end") from None
            file.seek(0)
            yield cls(file, path, check)

    def __contains__(self, key: str) -> bool:
        return any(row["key"] == key for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Append a result and wait until it is on disk.

        Raises ConfigError if the file was replaced meanwhile.
        """
        opened = os.fstat(self._file.fileno())
        if not self._path.exists() or not os.path.samestat(self._path.stat(), opened):
            raise ConfigError(
                f"{self._path}: was replaced during the run; a result is lost; run again"
            )
        self._file.write((json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows.append(row)


def parse(data: bytes, path: Path, check: Check = check_key) -> list[dict[str, Any]]:
    """Return the results in whole lines that count.

    Raises ConfigError with the line that is not a result.
    """
    rows = dict[str, dict[str, Any]]()
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            row: Any = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("no JSON object")
            if not check(row):
                continue
            if row["key"] in rows:
                raise ValueError("the key of an earlier line")
        except ValueError as error:
            raise ConfigError(
                f"{path}:{number}: not a result ({error}); fix or remove the line"
            ) from None
        rows[row["key"]] = row
    return list(rows.values())


def score(row: Row, most: float = np.inf, *, along: str = "millions") -> float:
    """Return the test's bits per character at the reading with the best dev score.

    most: the limit up to which readings count; between two readings, both scores are interpolated
        over the limit's logarithm
    along: what the limit counts: "millions" of characters, or "operations"

    >>> row = {"millions": [1.0, 4.0], "dev": [3.0, 2.0], "test": [3.1, 2.1]}
    >>> score(row), round(score(row, 2.0), 6)
    (2.1, 2.6)
    """
    places = np.array(row[along], float)
    dev = row["dev"]
    test = row["test"]
    if most < places[-1]:
        n = int(np.searchsorted(places, most, side="right"))
        between = partial(np.interp, np.log(most), np.log(places))
        dev = [*dev[:n], between(dev)]
        test = [*test[:n], between(test)]
    return float(test[np.argmin(dev)])


@dataclass(frozen=True, slots=True)
class Curve:
    """The scores of the sizes of a corpus; less is better.

    sizes: (n,) ascending;  scores: of each seed, by size
    """

    corpus: str
    sizes: NDArray[np.int64]
    scores: tuple[NDArray[np.float64], ...]

    @property
    def means(self) -> NDArray[np.float64]:
        return np.array([float(one.mean()) for one in self.scores])

    @property
    def best(self) -> float:
        return float(self.means.min())

    def at(self, size: int) -> float:
        """Interpolate the score of any size over log size.

        A size beyond the tried ones has the score of the nearest one.
        """
        return float(np.interp(np.log(size), np.log(self.sizes), self.means))
