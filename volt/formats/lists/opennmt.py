"""OpenNMT vocabulary ⇄ vocabulary: "count<TAB>piece" a line; OpenNMT puts its own special tokens before them.

The other order, "piece<TAB>count", which onmt_build_vocab of OpenNMT-py writes, is read as well. A list that can be
read both ways, because all its pieces are numbers, is taken to have its counts first.

>>> import tempfile
>>> from volt.vocabulary import Vocabulary
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "vocab.txt")
...     notes = write(Vocabulary(merges=(("l", "o"),), tokens=("l", "lo"), counts=(7, 3)), path)
...     path.read_text().split("\\n")
['7\\tl@@', '3\\tlo@@', '']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from volt.errors import VocabularyError
from volt.formats.lists import shared as lists
from volt.text.white_space import SPLIT_SPACE
from volt.vocabulary import Vocabulary

_ROW, _SWAPPED = re.compile(r"\d+\t\S+"), re.compile(r"\S+\t\d+")


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the list. Raises VocabularyError if a token holds white space or two would be spelled alike."""
    pieces = lists.joined_spelling(vocabulary)
    counts = (0,) * (len(pieces) - vocabulary.size) + (vocabulary.counts or (0,) * vocabulary.size)
    lists.refuse_characters(pieces, SPLIT_SPACE, path, "OpenNMT, which cuts lines there,")
    lists.check_unique(vocabulary, pieces, path)
    lists.write_lines(path, (f"{count}\t{piece}" for piece, count in zip(pieces, counts, strict=True)))
    return list(_notes(vocabulary))


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """The listed tokens, with these merges. Raises VocabularyError, with file and line, for a list they do not fit."""
    return lists.vocabulary_of(path, _rows(path), merges=merges, joined=True)


def recognises(path: Path, head: bytes) -> bool:
    """Whether every line is a count, a tab and a piece, or all are the other way round.

    >>> recognises(Path("a.txt"), b"7\\tl@@\\n3\\tlo\\n"), recognises(Path("a.txt"), b"l@@ 7\\n")
    (True, False)
    """
    return any(lists.all_lines(head, partial(_matches, row)) for row in (_ROW, _SWAPPED))


def _matches(row: re.Pattern[str], line: str) -> bool:
    return row.fullmatch(line) is not None


def _rows(path: Path) -> Iterator[lists.Row]:
    lines = list(lists.lines_of(path))
    swapped = all(_SWAPPED.fullmatch(line) for _, line in lines) and not all(_ROW.fullmatch(line) for _, line in lines)
    for number, line in lines:
        parts = line.split("\t")
        if len(parts) != 2 or not all(parts):
            raise VocabularyError(f"{path}:{number}: expected a count, a tab and a piece, found {line[:60]!r}")
        count, piece = reversed(parts) if swapped else parts
        yield lists.Row(number, piece, lists.count_of(path, number, count))


def _notes(vocabulary: Vocabulary) -> Iterator[str]:
    yield "counts come first; OpenNMT-py asks for the piece first: swap the columns with awk -F'\\t' '{print $2 FS $1}'"
    yield "ids are OpenNMT's: its own special tokens, then the pieces in the order of VOLT's ids"
    yield from lists.spelling_notes(vocabulary)
    yield from lists.not_listed(vocabulary)
    if not vocabulary.counts:
        yield "the vocabulary has no counts: all are written as 0"
