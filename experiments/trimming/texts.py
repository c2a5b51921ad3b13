"""$VOLT_DATA → training and held-out word counts by name; without it, the documentation that ships with Python.

>>> [(name, len(train) > len(heldout) > 0) for name, (train, heldout) in texts(None).items()]
[('Python topics', True)]
"""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

TRAINED_AND_HELD_OUT = {
    "Multi30k en": ("multi30k/train.en.gz", "multi30k/val.en.gz"),
    "Multi30k de": ("multi30k/train.de.gz", "multi30k/val.de.gz"),
    "TED Finnish": ("ted/Finnish.txt.gz", ""),
}
Words = Counter[str]


def texts(data: Path | None) -> dict[str, tuple[Words, Words]]:
    """Name → the words of the training text and of a held-out text, which is every tenth line where there is no other.

    data: the folder that holds multi30k/ and ted/, or None
    """
    if data is None:
        from pydoc_data.topics import topics

        return {"Python topics": parted("\n".join(topics.values()).splitlines())}
    return {name: _read(data, *files) for name, files in TRAINED_AND_HELD_OUT.items()}


def parted(lines: list[str]) -> tuple[Words, Words]:
    """The words of all lines but every tenth, and of these.

    >>> parted(["a b"] * 9 + ["b c"])
    (Counter({'a': 9, 'b': 9}), Counter({'b': 1, 'c': 1}))
    """
    heldout = lines[9::10]
    del lines[9::10]
    return words(lines), words(heldout)


def words(lines: list[str]) -> Words:
    """The words between white space, counted."""
    return Counter(word for line in lines for word in line.split())


def _read(data: Path, train: str, heldout: str) -> tuple[Words, Words]:
    lines = _lines(data / train)
    return (words(lines), words(_lines(data / heldout))) if heldout else parted(lines)


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().split("\n")
