"""A corpus → three texts: train to learn from, dev to choose a model by, and test to score it.

Consecutive lines of the corpus are joined to segments of 400 characters or more, which become the
lines of the texts. Of every twenty segments, the eighth goes to dev and the eighteenth to test.

>>> [len(segment) for segment in segments(["a" * 150] * 5)]
[452, 301]
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.display import counted
from volt.errors import CorpusError
from volt.files.atomic import make_folder, write_atomic
from volt.files.blocks import Errors
from volt.files.table_rows import TextColumns, read_lines

SPLITS = ("train", "dev", "test")
MOST_READ = 400  # segments of dev, and of test, because each training reads them ten times
LEAST = 10_000  # characters of a corpus that can be split
_LENGTH = 400  # characters of a segment
_SPLIT_OF_TWENTY = {7: "dev", 17: "test"}  # position among twenty segments, from 0 → text
_BLOCK_SIZE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Texts:
    """The three texts in a folder, FOLDER/train.txt, dev.txt and test.txt.

    characters, n_bytes: name of a text → the number of its characters and bytes, with line ends
    fingerprint: a digest of all three texts
    """

    folder: Path
    characters: dict[str, int]
    n_bytes: dict[str, int]
    fingerprint: str

    @classmethod
    def read(cls, folder: Path) -> Texts:
        return cls.of(folder, {split: (folder / f"{split}.txt").read_bytes() for split in SPLITS})

    @classmethod
    def of(cls, folder: Path, encoded: Mapping[str, bytes]) -> Texts:
        """Describe the texts of a folder. encoded: their content, in the order of SPLITS"""
        characters = {split: len(text.decode()) for split, text in encoded.items()}
        n_bytes = {split: len(text) for split, text in encoded.items()}
        return cls(folder, characters, n_bytes, fingerprint(encoded))

    def path(self, split: str) -> Path:
        return self.folder / f"{split}.txt"


def segments(lines: Iterable[str]) -> Iterator[str]:
    """Join lines until they have 400 characters; consecutive white space becomes one space."""
    joined = list[str]()
    n_characters = 0
    for line in lines:
        words = " ".join(line.split())
        if words:
            joined.append(words)
            n_characters += len(words)
        if n_characters >= _LENGTH:
            yield " ".join(joined)
            joined.clear()
            n_characters = 0
    if joined:
        yield " ".join(joined)


def split_of(number: int) -> str:
    """Return the name of the text that a segment goes to. number: the segment's number, from 0

    >>> [split_of(number) for number in (6, 7, 17, 27)]
    ['train', 'dev', 'test', 'dev']
    """
    return _SPLIT_OF_TWENTY.get(number % 20, "train")


def read_texts(
    paths: Iterable[str],
    *,
    fields: str | int | Iterable[int] | None = None,
    column: str | None = None,
    errors: Errors = "strict",
    max_line: int | None = MAX_LINE,
) -> dict[str, bytes]:
    """Read the files of a corpus. Return the content of its three texts, by name.

    fields, column, errors, max_line: as in `volt.count_words`
    Raises CorpusError if the corpus is too small, or test would be empty.
    """
    columns = TextColumns(column, fields)
    reading = {
        "errors": arguments.choice(errors, "errors", get_args(Errors)),
        "max_line": checked_max_line(max_line),
    }
    by_split: dict[str, list[str]] = {split: [] for split in SPLITS}
    n_segments = 0
    n_characters = 0
    for segment in segments(_lines(paths, columns, reading)):
        by_split[split_of(n_segments)].append(segment)
        n_segments += 1
        n_characters += len(segment)

    if n_characters < LEAST:
        raise CorpusError(
            f"the text has {n_characters:,} characters; trainings need {LEAST:,} or more. "
            "Give more text"
        )
    if not by_split["test"]:
        raise CorpusError(
            f"the text has {counted(n_segments, 'segment')}, because its lines are long; "
            f"trainings need {max(_SPLIT_OF_TWENTY) + 1}. Break its lines"
        )
    for split in ("dev", "test"):
        step = math.ceil(len(by_split[split]) / MOST_READ)
        by_split[split] = by_split[split][::step]
    return encode(by_split)


def _lines(paths: Iterable[str], columns: TextColumns, reading: Mapping[str, Any]) -> Iterator[str]:
    for path in paths:
        for lines in read_lines(path, columns, block_size=_BLOCK_SIZE, **reading):
            yield from lines.decode().split("\n")


def encode(by_split: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    return {
        split: "".join(f"{segment}\n" for segment in rows).encode()
        for split, rows in by_split.items()
    }


def fingerprint(encoded: Mapping[str, bytes]) -> str:
    return hashlib.sha256(b"\0".join(encoded.values())).hexdigest()[:12]


def write_texts(encoded: Mapping[str, bytes], folder: Path) -> Texts:
    """Write the texts into a folder, unless it contains them already."""
    make_folder(folder)
    for split, text in encoded.items():
        path = folder / f"{split}.txt"
        if not path.exists() or path.read_bytes() != text:
            with write_atomic(path) as file:
                file.write(text)
    return Texts.of(folder, encoded)
