"""fairseq dict.txt ⇄ vocabulary: "piece count" a line; ids are line numbers + 3, after <s> <pad> </s> <unk>.

Every id from 4 up equals VOLT's. A piece spelled like an earlier one is marked with "#fairseq:overwrite".

    l@@ 7
    lo@@ 3
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from volt.errors import VocabularyError
from volt.formats import marian
from volt.formats import token_list as lists
from volt.vocabulary import Vocabulary

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3, whatever the vocabulary calls them
_OVERWRITE = " #fairseq:overwrite"
# fairseq-preprocess adds these with the count 0, to round a size up to a multiple of 8
_FILLER = re.compile(r"madeupword\d{4}")
_ROW = re.compile(r"\S+ \d+( #fairseq:overwrite)?")


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write dict.txt. Raises VocabularyError if a token contains a space or a line end."""
    rows = lists.rows_of(vocabulary)
    lists.refuse_characters((row.text for row in rows), "\n\r ", path, "a line of dict.txt")
    seen = set(SPECIAL)
    lines = list[str]()
    repeated = list[str]()
    for row in rows:
        line = f"{row.text} {row.count}"
        if row.text in seen:
            repeated.append(row.text)
            line += _OVERWRITE
        seen.add(row.text)
        lines.append(line)
    lists.write_lines(path, lines)

    usual = (
        "ids from 4 up equal VOLT's; <s> <pad> </s> <unk> have the ids 0 1 2 3 in fairseq, "
        "and 1 3 2 0 in VOLT"
    )
    notes = [lists.id_note(vocabulary, usual, "fairseq")]
    notes += lists.spelling_notes(vocabulary, has_counts=True)
    if repeated:
        shown = ", ".join(repeated[:3])
        notes.append(f"{shown}: spelled like earlier pieces, which fairseq therefore never finds")
    if any(token.split() != [token] for token in vocabulary.tokens):
        notes.append(
            "some tokens contain white space, where fairseq splits text: it never finds them"
        )
    return notes


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    return lists.vocabulary_of(path, rows(path), merges=merges, joined=True)


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line is a piece, a space and a count, and the file is not YAML."""
    return lists.all_lines(head, _ROW) and not marian.recognises(path, head)


def rows(path: Path) -> Iterator[lists.ListEntry]:
    """Yield the listed tokens."""
    for number, line in lists.lines_of(path):
        piece, _, count = line.removesuffix(_OVERWRITE).rpartition(" ")
        if not piece:
            raise VocabularyError(
                f"{path}:{number}: expected 'piece count', found {line[:60]!r}; fix it"
            )
        n = lists.count_of(path, number, count)
        if n or not _FILLER.fullmatch(piece):
            yield lists.ListEntry(number, piece, n, repeats=line.endswith(_OVERWRITE))
