"""A corpus → three texts: train to learn from, dev to choose a model by, and test to score it.

Consecutive lines of the corpus are joined to segments of 400 characters or more, which become the
lines of the texts. Of every twenty segments, the eighth goes to dev and the eighteenth to test.

A translation has two files, whose lines are pairs. Pairs are split like segments, and each text has
two files, of a source and of a target: train.src and train.tgt.

>>> [len(segment) for segment in segments(["a" * 150] * 5)]
[452, 301]
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.display import counted
from volt.errors import ConfigError, CorpusError, shown_path
from volt.files.atomic import make_folder, write_atomic
from volt.files.blocks import Errors
from volt.files.table_rows import TextColumns, read_lines
from volt.files.table_rows import read_texts as read_rows

SPLITS = ("train", "dev", "test")
SIDES = ("src", "tgt")  # the endings of the files of a translation: source and target
MOST_READ = 400  # segments of dev, and of test, because each training reads them ten times
LEAST_PAIRS = 500  # of files that can be split
MOST_PAIRS = 1_000  # pairs of dev, and of test
MOST_OF_PAIR = 1_000  # characters of each side of a pair
LEAST = 10_000  # characters of a corpus that can be split
_LENGTH = 400  # characters of a segment
_SPLIT_OF_TWENTY = {7: "dev", 17: "test"}  # position among twenty segments, from 0 → text
_BLOCK_SIZE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Texts:
    """The three texts in a folder: FOLDER/train.txt, dev.txt and test.txt, or pairs of files.

    sides: the endings of the files of a text: txt, or src and tgt
    characters, n_bytes: name of a text → the number of its characters and bytes, with line ends. Of
        a translation, "train" is the target of train, and "train.src" its source
    fingerprint: a digest of all texts
    """

    folder: Path
    sides: tuple[str, ...]
    characters: dict[str, int]
    n_bytes: dict[str, int]
    fingerprint: str

    @classmethod
    def read(cls, folder: Path, sides: Sequence[str] = ("txt",)) -> Texts:
        names = [f"{split}.{side}" for split in SPLITS for side in sides]
        return cls.of(folder, {name: (folder / name).read_bytes() for name in names})

    @classmethod
    def of(cls, folder: Path, encoded: Mapping[str, bytes]) -> Texts:
        """Describe the texts of a folder. encoded: file name → content, in the order of SPLITS"""
        sides = list[str]()
        characters = dict[str, int]()
        n_bytes = dict[str, int]()
        for name, text in encoded.items():
            split, _, side = name.partition(".")
            sides.append(side)
            label = name if side == SIDES[0] else split
            characters[label] = len(text.decode())
            n_bytes[label] = len(text)
        return cls(folder, tuple(dict.fromkeys(sides)), characters, n_bytes, fingerprint(encoded))

    def paths(self, split: str) -> tuple[Path, ...]:
        """Return the files of a text: one, or source and target."""
        return tuple(self.folder / f"{split}.{side}" for side in self.sides)

    def path(self, split: str) -> Path:
        """Return the file of a text whose ids are scored: the only one, or the target."""
        return self.paths(split)[-1]


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


def read_texts(paths: Iterable[str], **reading: Any) -> dict[str, bytes]:
    """Read the files of a corpus. Return the content of its three texts, by file name.

    reading: see `_rows_of`
    Raises CorpusError if the corpus is too small, or test would be empty.
    """
    rows = chain.from_iterable(map(_rows_of(**reading), paths))
    lines = chain.from_iterable(row.split("\n") for row in rows)
    by_name: dict[str, list[str]] = {f"{split}.txt": [] for split in SPLITS}
    n_segments = 0
    n_characters = 0
    for segment in segments(lines):
        by_name[f"{split_of(n_segments)}.txt"].append(segment)
        n_segments += 1
        n_characters += len(segment)

    if n_characters < LEAST:
        raise CorpusError(
            f"the text has {n_characters:,} characters; trainings need {LEAST:,} or more. "
            "Give more text"
        )
    if not by_name["test.txt"]:
        raise CorpusError(
            f"the text has {counted(n_segments, 'segment')}, because its lines are long; "
            f"trainings need {max(_SPLIT_OF_TWENTY) + 1}. Break its lines"
        )
    _thin_out(by_name, MOST_READ)
    return encode(by_name)


def read_pairs(
    source: str, target: str, *, report: Callable[[str], object], **reading: Any
) -> dict[str, bytes]:
    """Read two files whose lines are pairs. Return the content of the six texts, by file name.

    source, target: files with equally many lines, each line a translation of the other's
    report: receives a line if pairs are left out, because a side is empty or very long
    reading: of both files, see `_rows_of`; `errors` is not skip
    Raises CorpusError if the files have different numbers of lines, equal texts, or too few pairs.
    """
    rows_of = _rows_of(**reading)
    if reading.get("errors") == "skip":
        raise ConfigError(
            "a line that is skipped in one file would shift its pairs; pass",
            hint={"errors": "replace"},
        )
    sides = [[" ".join(row.split()) for row in rows_of(path)] for path in (source, target)]
    n_source, n_target = map(len, sides)
    if n_source != n_target:
        raise CorpusError(
            f"{shown_path(source)} has {counted(n_source, 'line')}, and {shown_path(target)} has "
            f"{n_target:,}; each line must be the translation of the other file's line"
        )

    by_name: dict[str, list[str]] = {f"{split}.{side}": [] for split in SPLITS for side in SIDES}
    n_pairs = 0
    for pair in zip(*sides, strict=True):
        lengths = [len(line) for line in pair]
        if min(lengths) == 0 or max(lengths) > MOST_OF_PAIR:
            continue
        for side, line in zip(SIDES, pair, strict=True):
            by_name[f"{split_of(n_pairs)}.{side}"].append(line)
        n_pairs += 1

    if n_pairs < n_source:
        report(
            f"left out {counted(n_source - n_pairs, 'pair')} of {n_source:,}: a side is empty, or "
            f"has more than {MOST_OF_PAIR:,} characters"
        )
    if n_pairs < LEAST_PAIRS:
        raise CorpusError(
            f"{shown_path(source)}: {n_pairs:,} of {counted(n_source, 'pair')} with 1 to "
            f"{MOST_OF_PAIR:,} characters on each side; trainings need {LEAST_PAIRS:,} or more. "
            "Give more text"
        )
    if sides[0] == sides[1]:
        raise CorpusError(
            "source and target are the same text; name two files, with a column each of a table"
        )
    _thin_out(by_name, MOST_PAIRS)
    return encode(by_name)


def _thin_out(by_name: dict[str, list[str]], most: int) -> None:
    """Keep at most `most` lines of each file of dev and of test, at equal distances."""
    for name, lines in by_name.items():
        if not name.startswith("train"):
            step = max(math.ceil(len(lines) / most), 1)
            by_name[name] = lines[::step]


def _rows_of(
    *,
    fields: str | int | Iterable[int] | None = None,
    column: str | None = None,
    errors: Errors = "strict",
    max_line: int | None = MAX_LINE,
) -> Callable[[str], Iterator[str]]:
    """Return a function that yields the lines of a file, or the texts of a table.

    fields, column, errors, max_line: as in `volt.count_words`
    """
    columns = TextColumns(column, fields)
    reading: dict[str, Any] = {
        "errors": arguments.choice(errors, "errors", get_args(Errors)),
        "max_line": checked_max_line(max_line),
        "block_size": _BLOCK_SIZE,
    }

    def rows_of(path: str) -> Iterator[str]:
        if columns:
            for rows in read_rows(path, columns, **reading):
                yield from rows.texts.to_pylist()
            return
        for lines in read_lines(path, columns, **reading):
            if lines:
                yield from lines.decode().removesuffix("\n").split("\n")

    return rows_of


def encode(by_name: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """Return the content of files. by_name: file name → lines"""
    return {
        name: "".join(f"{line}\n" for line in lines).encode() for name, lines in by_name.items()
    }


def fingerprint(encoded: Mapping[str, bytes]) -> str:
    return hashlib.sha256(b"\0".join(encoded.values())).hexdigest()[:12]


def write_texts(encoded: Mapping[str, bytes], folder: Path) -> Texts:
    """Write the texts into a folder, unless it contains them already."""
    make_folder(folder)
    for name, text in encoded.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != text:
            with write_atomic(path) as file:
                file.write(text)
    return Texts.of(folder, encoded)
