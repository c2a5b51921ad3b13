"""OpenNMT-py's vocabulary file ⇄ vocabulary: "piece<TAB>count" a line.

    l@@     7
    low     3

OpenNMT-py itself adds its special tokens, with the first ids. The other order, "count<TAB>piece",
is read as well; its counts may have fractions, as dynamicdata writes for sampled text. Pieces are
in subword-nmt's spelling, unless one ends in "</w>", as in the output of `volt stream vocabulary`:
then all are in VOLT's spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from volt.errors import VocabularyError
from volt.formats import token_list as lists
from volt.text.atoms import SUFFIX
from volt.text.white_space import SPLIT_SPACE
from volt.vocabulary import Vocabulary

_FRACTION = re.compile(r"\d{1,99}(\.\d+)?([eE][+-]?\d{1,3})?")
_ROW = re.compile(r"\S+\t\d+")
_SWAPPED = re.compile(rf"(\d+|{_FRACTION.pattern})\t[^ \t\r\n]+")
_LARGEST = 1e300  # a count with a fraction; larger ones may exceed what a float can store


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the list.

    Raises VocabularyError if a token contains white space or two would be spelled alike.
    """
    texts = [row.text for row in lists.rows_to_write(vocabulary)]
    lists.refuse_characters(texts, SPLIT_SPACE, path, "a piece in OpenNMT's list")
    rows = lists.unique_rows(vocabulary, path)
    lists.write_lines(path, (f"{row.text}\t{row.count}" for row in rows))
    notes = [
        "ids are OpenNMT-py's: its own special tokens, then the pieces in the order of VOLT's ids"
    ]
    notes += lists.note_spelling(vocabulary, has_counts=True)
    if 0 in (vocabulary.counts or (0,)):
        notes.append(
            "OpenNMT-py drops pieces of count 0 if {src,tgt}_words_min_frequency is above 0"
        )
    return notes


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    entries = list(read_rows(path))
    is_ours = any(entry.piece.endswith(SUFFIX) and entry.piece != SUFFIX for entry in entries)
    return lists.build_vocabulary(path, entries, merges=merges, uses_separator=not is_ours)


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line is a piece, a tab and a count, or every line has the other order."""
    return any(lists.all_lines_match(head, row) for row in (_ROW, _SWAPPED))


def find_invalid_line(head: bytes) -> int | None:
    """Return the number of the first line that is not a row of a file that looks like OpenNMT-py's.

    Return None if every line is a row, or if line 1 or most lines are not, so that the file is of
    another format.

    >>> find_invalid_line(b"7\\tl\\n3\\tlo\\nx\\ty\\n"), find_invalid_line(b"a text\\nof two lines\\n")
    (3, None)
    """
    lines = head.decode(errors="replace").replace("\r\n", "\n").split("\n")[:-1]
    for row in (_SWAPPED, _ROW):
        invalid = [number for number, line in enumerate(lines, 1) if not row.fullmatch(line)]
        if invalid and invalid[0] > 1 and 2 * len(invalid) < len(lines):
            return invalid[0]
    return None


def read_rows(path: Path) -> Iterator[lists.ListEntry]:
    """Yield the listed tokens.

    The order of the two fields is the one that fits more lines; in a tie, the piece is the first
    field.
    """
    lines = list(lists.read_lines(path))
    n_usual = sum(bool(_ROW.fullmatch(line)) for _, line in lines)
    n_swapped = sum(bool(_SWAPPED.fullmatch(line)) for _, line in lines)
    for number, line in lines:
        parts = line.split("\t")
        if len(parts) != 2 or not all(parts):
            raise VocabularyError(
                f"{path}:{number}: expected a piece, a tab and a count, found {line[:60]!r}; fix it"
            )
        if n_swapped > n_usual:
            parts.reverse()
        piece, count = parts
        yield lists.ListEntry(number, piece, _parse_count(path, number, count))


def _parse_count(path: Path, line: int, text: str) -> int:
    """Return the count in a text such as "7" or "0.5"; a count with a fraction is rounded up."""
    if lists.is_number(text) or not _FRACTION.fullmatch(text):
        return lists.parse_count(path, line, text)
    count = float(text)
    if count > _LARGEST:
        raise VocabularyError(
            f"{path}:{line}: the count {text} is above {_LARGEST:g}; divide all counts by a constant"
        )
    return int(count) + 1
