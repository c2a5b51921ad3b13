"""The results of trainings: the file that stores them, the score of one, and the curve of all.

A file has a JSON object on each line, one for each finished training ("row"):

    {"key": "text:…|size:4000|seed:1|…", "millions": [1, 2], "dev": [2.7, 2.6], "test": [2.6, 2.5]}

`key` names everything that the result follows from, so a finished training is never run twice. The
lists have a value for each reading, a measurement during the training: the millions of characters
that the model had learned from, and the bits per character of the texts dev and test.

One process at a time appends to a file. A last line without a line end was cut short when the
process was killed: it does not count, and is removed when the file is opened.

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
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from volt.array_types import Floats, Longs
from volt.display import counted
from volt.errors import ConfigError

ENOUGH = 1_000_000  # characters read, below which models have hardly begun to learn
CLOSE = 1.005  # a size is close to the best if its bits are at most so many times the best bits
Row = Mapping[str, Any]
# Returns whether a row counts as a finished training; raises ValueError if it is not a result.
RowCheck = Callable[[Row], bool]


def check_types(row: Row, types: Mapping[str, Any]) -> None:
    """Raise ValueError if a row lacks a value, or its type is wrong.

    types: name of a value → its type, or a tuple of types
    """
    for name, expected in types.items():
        if not isinstance(row.get(name), expected):
            raise ValueError(f"{name} is missing")


def has_key(row: Row) -> bool:
    """Return True. Raises ValueError if the row has no key."""
    check_types(row, {"key": str})
    return True


@dataclass(frozen=True, slots=True)
class TrainingChoice:
    """The sizes and the seed of a training, which distinguish it from others of the same trial.

    size: the number of tokens
    seed: decides the first weights, the dropped values and the order of the text
    superwords: how many of these tokens are learned across spaces, from 0. None: words contain no
        spaces, as in trials of sizes
    source: the number of tokens of the source; `size` is then the target's. None: no translation

    >>> print(TrainingChoice(4000, 1), TrainingChoice(4000, 1, 200), TrainingChoice(900, 1, source=4000), sep=" | ")
    4,000 tokens, seed 1 | 4,000 tokens, 200 superwords, seed 1 | 4,000 + 900 tokens, seed 1
    """

    size: int
    seed: int
    superwords: int | None = None
    source: int | None = None

    @classmethod
    def of(cls, row: Row) -> TrainingChoice:
        return cls(row["size"], row["seed"], row.get("superwords"), row.get("source"))

    @property
    def point(self) -> tuple[int, ...]:
        """The sizes: of the source, if there is one, and of the text that is scored."""
        return (self.size,) if self.source is None else (self.source, self.size)

    @property
    def labels(self) -> dict[str, int]:
        """The fields that are not None, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        joined = "" if self.superwords is None else f", {counted(self.superwords, 'superword')}"
        sizes = " + ".join(f"{size:,}" for size in self.point)
        return f"{sizes} tokens{joined}, seed {self.seed}"


class Results:
    """An open file of results. rows: the results that count, in the order of the file"""

    def __init__(self, file: BinaryIO, path: Path, counts: RowCheck) -> None:
        self._file = file
        self._path = path
        data = file.read()
        self.rows = parse(data, path, counts)
        file.truncate(data.rfind(b"\n") + 1)

    @classmethod
    @contextmanager
    def open(cls, path: Path, counts: RowCheck = has_key) -> Iterator[Results]:
        """Open or create a file, and lock it.

        counts: returns whether a row counts
        Raises ConfigError if another process has the file open, or a line is not a result.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{path}: another run adds to it; wait for its end") from None
            file.seek(0)
            yield cls(file, path, counts)

    def __contains__(self, key: str) -> bool:
        return any(row["key"] == key for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Append a result to the file, and wait until it is on disk.

        Raises ConfigError if the path now names another file, or none.
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


def parse(data: bytes, path: Path, counts: RowCheck = has_key) -> list[dict[str, Any]]:
    """Return the results in the lines of a file, without a last line that has no line end.

    data: the content of the file
    path: its path, for errors
    counts: returns whether a row counts; rows that do not count are left out
    Raises ConfigError if a line is not a result, or repeats the key of an earlier line.
    """
    rows = dict[str, dict[str, Any]]()
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            row: Any = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("no JSON object")
            if not counts(row):
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
    """Return the bits per character of test at the reading with the fewest bits of dev.

    most: a shorter length of training, in the unit of `along`; the result is the score that the
        training would have had if it had ended there. Between two readings, the bits of dev and
        test are interpolated over the logarithm of the length
    along: the values that measure the length: "millions" of characters, or "operations"

    >>> row = {"millions": [1.0, 4.0], "dev": [3.0, 2.0], "test": [3.1, 2.1]}
    >>> score(row), round(score(row, 2.0), 6)
    (2.1, 2.6)
    """
    lengths = np.array(row[along], float)
    dev = row["dev"]
    test = row["test"]
    if most < lengths[-1]:
        n = int(np.searchsorted(lengths, most, side="right"))
        interpolate = partial(np.interp, np.log(most), np.log(lengths))
        dev = [*dev[:n], interpolate(dev)]
        test = [*test[:n], interpolate(test)]
    return float(test[np.argmin(dev)])


def amount(characters: float) -> str:
    """Return a number of characters as text, in millions from a million on.

    >>> amount(5_060_000), amount(98_100)
    ('5.06 M', '98,100')
    """
    return f"{characters / 1e6:,.3g} M" if characters >= 1e6 else f"{characters:,.0f}"


@dataclass(frozen=True)
class TrialOutcome:
    """The trainings of a trial.

    rows: the result of each training
    requested: the number of characters that each training should read
    characters: the number of characters that each training was allowed to read
    left: the trainings that the time did not allow
    """

    rows: tuple[Row, ...]
    requested: int
    characters: int
    left: tuple[TrainingChoice, ...]

    @property
    def training_data(self) -> dict[str, Any]:
        """The results of trainings, and the trainings that are left, as JSON data."""
        return {"trainings": list(self.rows), "left": [choice.labels for choice in self.left]}

    @property
    def notes(self) -> list[str]:
        """Sentences below the tables."""
        return []

    def time_warnings(self, change: str, effect: str, among: str = "") -> Iterator[str]:
        """Yield warnings of short trainings and of missing ones.

        change: what changes as trainings get longer
        effect: how very short trainings mislead
        among: what is among the missing trainings
        """
        if self.characters < self.requested:
            yield (
                f"the time allows each training to read {amount(self.characters)} of "
                f"{amount(self.requested)} characters; {change}. Give more time to check it"
            )
        if self.characters < ENOUGH:
            yield (
                f"after {amount(self.characters)} characters, models have hardly begun to learn, "
                f"and {effect}; let trainings read {amount(ENOUGH)} or more"
            )
        if self.left:
            yield (
                f"the time was over before {counted(len(self.left), 'more training')}{among}: give "
                "more hours, and run again to continue"
            )


@dataclass(frozen=True, slots=True)
class Curve:
    """The scores of several sizes on a corpus; the size with the smallest mean score is best.

    sizes: (n,) tokens, ascending
    scores: for each size, (n_seeds,) the scores of its trainings
    """

    corpus: str
    sizes: Longs
    scores: tuple[Floats, ...]

    @property
    def means(self) -> Floats:
        """(n,) the mean score of each size."""
        return np.array([float(scores.mean()) for scores in self.scores])

    @property
    def best(self) -> float:
        """The smallest mean score."""
        return float(self.means.min())

    @property
    def best_size(self) -> int:
        """The size with the smallest mean score."""
        return int(self.sizes[np.argmin(self.means)])

    @property
    def close_sizes(self) -> tuple[int, int]:
        """The smallest and largest size around the best one whose scores are within 0.5 %."""
        grid = np.geomspace(self.sizes[0], self.sizes[-1], 500)
        sizes = np.union1d(grid.round().astype(int), self.best_size)
        far = sizes[[self.at(size) > CLOSE * self.best for size in sizes]]
        below = far[far < self.best_size].max(initial=0)
        above = far[far > self.best_size].min(initial=sizes[-1] + 1)
        close = sizes[(sizes > below) & (sizes < above)]
        return int(close[0]), int(close[-1])

    def at(self, size: int) -> float:
        """Return the mean score of any size, interpolated over the logarithm of the size.

        A size beyond the sizes of the curve has the score of the nearest one.
        """
        return float(np.interp(np.log(size), np.log(self.sizes), self.means))
