"""A corpus → three texts of one kind: to train on, to choose by (dev) and to test on.

A line of a text is a segment: consecutive lines of the corpus, joined by spaces, of 400 characters
or more. Of every twenty segments the eighth is for dev and the eighteenth for the test.

>>> [len(segment) for segment in segments(["a" * 150] * 5)]
[452, 301]
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volt.display import counted
from volt.errors import CorpusError
from volt.files.atomic import make_folder, write_atomic
from volt.files.blocks import Errors, read_blocks

SPLITS = ("train", "dev", "test")
MOST_READ = 400  # segments of dev and of the test, which each training reads ten times
LEAST = 10_000  # characters of a corpus
_LENGTH = 400  # characters of a segment
_OF_TWENTY = {7: "dev", 17: "test"}
_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Texts:
    """The three texts in a folder.

    characters, n_bytes: of each text, with line ends;  fingerprint: of all three
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
        """Describe texts that a folder contains. encoded: in the order of SPLITS"""
        characters = {split: len(text.decode()) for split, text in encoded.items()}
        n_bytes = {split: len(text) for split, text in encoded.items()}
        return cls(folder, characters, n_bytes, fingerprint(encoded))

    def path(self, split: str) -> Path:
        return self.folder / f"{split}.txt"


def segments(lines: Iterable[str]) -> Iterator[str]:
    """Join lines until they have 400 characters; white space becomes one space."""
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
    """Return the text to which a segment belongs. number: of the segment, from 0

    >>> [split_of(number) for number in (6, 7, 17, 27)]
    ['train', 'dev', 'test', 'dev']
    """
    return _OF_TWENTY.get(number % 20, "train")


def read_texts(paths: Iterable[str], *, errors: Errors = "strict") -> dict[str, bytes]:
    """Read the files of a corpus, and return its three texts.

    Raises CorpusError if the corpus is too small.
    """
    by_split: dict[str, list[str]] = {split: [] for split in SPLITS}
    n_segments = 0
    n_characters = 0
    for segment in segments(_lines(paths, errors)):
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
            f"trainings need {max(_OF_TWENTY) + 1}. Break its lines"
        )
    for split in ("dev", "test"):
        by_split[split] = by_split[split][:: math.ceil(len(by_split[split]) / MOST_READ)]
    return encode(by_split)


def _lines(paths: Iterable[str], errors: Errors) -> Iterator[str]:
    for path in paths:
        for block in read_blocks(path, block_size=_BLOCK, errors=errors):
            yield from block.data.decode().split("\n")


def encode(by_split: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    return {
        split: "".join(f"{segment}\n" for segment in rows).encode()
        for split, rows in by_split.items()
    }


def fingerprint(encoded: Mapping[str, bytes]) -> str:
    return hashlib.sha256(b"\0".join(encoded.values())).hexdigest()[:12]


def write_texts(encoded: Mapping[str, bytes], folder: Path) -> Texts:
    """Write the texts that a folder lacks."""
    make_folder(folder)
    for split, text in encoded.items():
        path = folder / f"{split}.txt"
        if not path.exists() or path.read_bytes() != text:
            with write_atomic(path) as file:
                file.write(text)
    return Texts.of(folder, encoded)
