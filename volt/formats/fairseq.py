"""fairseq's dict.txt ⇄ vocabulary: "piece count" a line, in the order of ids, from 4 up.

    l@@ 7
    lo@@ 3

fairseq itself gives <s> <pad> </s> <unk> the ids 0 to 3. So the piece in line n has the id n + 3,
in fairseq and in VOLT. A piece that is spelled like an earlier one, or like one of these four, ends
in "#fairseq:overwrite"; fairseq then reads the line, but finds only the other piece in text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from volt.formats import marian
from volt.formats import token_list as lists
from volt.vocabulary import Vocabulary

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3, whatever the vocabulary calls them
_OVERWRITE = " #fairseq:overwrite"
# fairseq-preprocess adds such words, with the count 0, so that the size is a multiple of 8.
_FILLER = re.compile(r"madeupword\d{4}")
_ROW = re.compile(rf"\S+ \d+({_OVERWRITE})?")


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write dict.txt. Raises VocabularyError if a token contains a space or a line end."""
    rows = lists.rows_to_write(vocabulary)
    lists.refuse_characters((row.text for row in rows), "\n\r ", path, "a line of dict.txt")
    written = set(SPECIAL)
    lines = list[str]()
    repeated = list[str]()
    for row in rows:
        line = f"{row.text} {row.count}"
        if row.text in written:
            repeated.append(row.text)
            line += _OVERWRITE
        written.add(row.text)
        lines.append(line)
    lists.write_lines(path, lines)

    usual = (
        "ids from 4 up equal VOLT's; <s> <pad> </s> <unk> have the ids 0 1 2 3 in fairseq, "
        "and 1 3 2 0 in VOLT"
    )
    notes = [lists.note_ids(vocabulary, usual, "fairseq")]
    notes += lists.note_spelling(vocabulary, has_counts=True)
    if repeated:
        shown = ", ".join(repeated[:3])
        notes.append(f"{shown}: spelled like earlier pieces, which fairseq therefore never finds")
    if any(token.split() != [token] for token in vocabulary.tokens):
        notes.append(
            "some tokens contain white space, where fairseq splits text: it never finds them"
        )
    return notes


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    return lists.build_vocabulary(path, read_rows(path), merges=merges)


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line is a piece, a space and a count, and the file is not Marian's."""
    return lists.all_lines_match(head, _ROW) and not marian.recognises(path, head)


def read_rows(path: Path) -> Iterator[lists.ListEntry]:
    """Yield the listed tokens, without the fillers of fairseq-preprocess."""
    for number, line in lists.read_lines(path):
        bare = line.removesuffix(_OVERWRITE)
        piece, count = lists.parse_counted_line(path, number, bare)
        if count or not _FILLER.fullmatch(piece):
            yield lists.ListEntry(number, piece, count, may_repeat=bare != line)
