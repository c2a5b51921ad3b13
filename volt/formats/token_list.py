r"""Token list ⇄ vocabulary: one token a line, in the order of ids, without the tokens that have
roles.

This module has the format "tokens", and the parts that the formats fairseq, marian and opennmt
share. A list contains no merges, so `read` takes them from another file. Results of merges that are
not listed become scaffolding.

The lists of fairseq, Marian and OpenNMT fit text that subword-nmt encoded. They spell tokens as
subword-nmt does, with "@@" after a token that does not end a word, where VOLT puts "</w>" after a
token that ends a word:

>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "low</w>"))
>>> [row.text for row in rows_to_write(vocabulary)]
['l@@', 'low']
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from volt.display import counted
from volt.errors import VocabularyError
from volt.files.atomic import write_atomic
from volt.files.small_files import read_text
from volt.formats.protocol import HEAD_SIZE, MOST_DIGITS
from volt.formats.registry import read_merges
from volt.text.atoms import SUFFIX, atom_code
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import ROLES
from volt.vocabulary import Vocabulary

SEPARATOR = "@@"
FIRST_LISTED_ID = 4  # VOLT's first id after the four tokens with roles


@dataclass(frozen=True, slots=True)
class Row:
    """A row to write: a piece of the vocabulary, its spelling in the list, and its count, 0 if
    unknown.
    """

    piece: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A row that was read.

    line: its line in the file, from 1
    piece: its spelling in the file
    may_repeat: whether the file marks it as spelled like an earlier row
    """

    line: int
    piece: str
    count: int = 0
    may_repeat: bool = False


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the list. Raises VocabularyError if a token contains a line end."""
    pieces = _listed_pieces(vocabulary)
    refuse_characters(pieces, "\n\r", path, "a line of a token list")
    write_lines(path, pieces)
    usual = "ids are line numbers + 3: the four tokens with roles are not listed"
    return [note_ids(vocabulary, usual, "a list"), *_note_lacks(vocabulary, has_counts=False)]


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    return build_vocabulary(path, read_rows(path), merges=merges, uses_separator=False)


def read_rows(path: Path) -> Iterator[ListEntry]:
    return (ListEntry(number, line) for number, line in read_lines(path))


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line of a file is one word."""
    is_other = head.startswith((b'{"', b"{\n", b"#version"))
    return not is_other and all_lines_match(head, re.compile(r"\S+"))


def _listed_pieces(vocabulary: Vocabulary) -> list[str]:
    """Return the pieces that a list contains, in the order of ids: all except unused ids and tokens
    with roles.
    """
    pieces = zip(vocabulary.pieces, vocabulary.kinds, strict=True)
    return [piece for piece, kind in pieces if kind not in (*ROLES, "unused")]


def rows_to_write(vocabulary: Vocabulary) -> list[Row]:
    """Return a row for each listed piece; if the marker is "suffix", in subword-nmt's spelling.

    Then, rows for user tokens and byte tokens inside a word follow, because subword-nmt puts "@@"
    after these, too: "<0xC3>@@ <0xA9>" is an "é" at the end of a word.
    """
    count_of_token = dict(zip(vocabulary.tokens, vocabulary.counts, strict=False))
    tokens = set(vocabulary.tokens)
    result = list[Row]()
    for piece in _listed_pieces(vocabulary):
        text = piece
        if vocabulary.marker == "suffix" and piece in tokens:
            text = piece.removesuffix(SUFFIX)
            if text in ("", piece):
                text = piece + SEPARATOR
        result.append(Row(piece, text, count_of_token.get(piece, 0)))
    return result + [Row(piece, piece + SEPARATOR, 0) for piece in _inside_words(vocabulary)]


def _inside_words(vocabulary: Vocabulary) -> list[str]:
    """Return the user tokens and byte tokens that a list in subword-nmt's spelling repeats with
    "@@".
    """
    if vocabulary.marker != "suffix":
        return []
    return [*vocabulary.special.user, *BYTE_TOKENS * vocabulary.byte_fallback]


def unique_rows(vocabulary: Vocabulary, path: Path) -> list[Row]:
    """Return `rows_to_write`. Raises VocabularyError if two pieces are spelled alike."""
    piece_of_text = dict[str, str]()
    result = rows_to_write(vocabulary)
    for row in result:
        if row.text in piece_of_text:
            first = piece_of_text[row.text]
            raise VocabularyError(
                f"{path}: {first!r} and {row.piece!r} would both be spelled {row.text!r}; "
                "export to fairseq, tokens or huggingface"
            )
        piece_of_text[row.text] = row.piece
    return result


def note_ids(vocabulary: Vocabulary, usual: str, library: str) -> str:
    """Return a note on how the library's ids relate to VOLT's.

    usual: the note to return if VOLT's ids of the listed pieces are 4, 5, 6, …
    """
    ids = [vocabulary.ids[piece] for piece in _listed_pieces(vocabulary)]
    if ids == list(range(FIRST_LISTED_ID, FIRST_LISTED_ID + len(ids))):
        return usual
    return (
        f"ids differ from VOLT's: {library} numbers pieces by place in the list, "
        "which keeps the order of VOLT's ids"
    )


def _note_lacks(vocabulary: Vocabulary, *, has_counts: bool) -> Iterator[str]:
    """Yield a note for each property of the vocabulary that its list lacks."""
    if vocabulary.is_unigram:
        yield "the list has no scores, so it cannot be read back: save the vocabulary, too"
    else:
        yield "the list has no merges: reading it back requires a file of merges"
    if vocabulary.counts and not has_counts:
        yield "the list has no counts"
    if vocabulary.scaffolding:
        yield (
            f"the list lacks {counted(len(vocabulary.scaffolding), 'token')} that merges make and "
            "encoding has to split back, as VOLT and subword-nmt's --vocabulary do; "
            "export it closed to list all tokens"
        )


def note_spelling(vocabulary: Vocabulary, *, has_counts: bool) -> Iterator[str]:
    """Yield notes on the spellings of `rows_to_write`, and on properties that the list lacks."""
    if vocabulary.marker == "suffix":
        yield (
            "spelled as subword-nmt does, '@@' after pieces that do not end a word: "
            "encode text with the separator @@"
        )
    yield from _note_lacks(vocabulary, has_counts=has_counts)
    if pieces := _inside_words(vocabulary):
        yield (
            f"user and byte tokens are listed again at the end, as in {pieces[0]}{SEPARATOR}, for "
            f"text inside a word, with ids that VOLT lacks; {SUFFIX} is listed, "
            "but text never contains it"
        )
    if has_counts and not vocabulary.counts:
        yield "the vocabulary has no counts: all are written as 0"


def build_vocabulary(
    path: Path,
    entries: Iterable[ListEntry],
    *,
    merges: Path | None,
    uses_separator: bool = True,
) -> Vocabulary:
    """Return the vocabulary with the listed tokens and the merges of another file.

    path, entries: the list, which errors name, and its rows
    merges: a VOLT vocabulary, whose settings the result has, too; or a file from which
        `read_merges` reads
    uses_separator: whether the list is in subword-nmt's spelling, if the merges have the marker
        "suffix"
    """
    entries = list(entries)
    base = _read_base(path, merges)
    if {entry.piece for entry in entries}.issuperset(BYTE_TOKENS):
        base = replace(base, byte_fallback=True)
    uses_separator = uses_separator and base.marker == "suffix"
    count_of_token = dict(_match_tokens(path, entries, base, uses_separator=uses_separator))
    if not count_of_token:
        raise VocabularyError(f"{path}: lists no token; download or export it again")

    tokens = tuple(count_of_token)
    counts = tuple(count_of_token.values())
    if not any(counts):
        counts = ()
        if base.counts and set(tokens) == set(base.tokens):
            base_counts = dict(zip(base.tokens, base.counts, strict=True))
            counts = tuple(map(base_counts.__getitem__, tokens))
    provenance = {**base.provenance, "imported": path.name}
    order = _retain_ids(base, tokens)
    return replace(base, tokens=tokens, counts=counts, order=order, provenance=provenance)


def _read_base(path: Path, merges: Path | None) -> Vocabulary:
    """Return a vocabulary with the merges of a file.

    If the file is a VOLT vocabulary, the result is this vocabulary; else it has no tokens.
    """
    if merges is None:
        raise VocabularyError(
            f"{path}: lists tokens without merges; import it with the vocabulary, codes or "
            "sentencepiece model of its merges:",
            hint={"merges": "FILE"},
        )
    if merges.is_file() and merges.read_bytes()[:7] == b'{"volt"':
        return Vocabulary.load(merges)
    candidates = read_merges(merges)
    return Vocabulary(
        merges=tuple(dict.fromkeys(candidates.pairs)),
        tokens=(),
        marker=candidates.marker,
        pretokenizer=PreTokenizer("bytes" if candidates.spells_bytes else "whitespace"),
    )


def _retain_ids(base: Vocabulary, tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the pieces by id: as in `base`, with unused ids instead of tokens that are not listed,
    then new tokens.

    Return () if `base` has the usual ids, or if the list has another order, so that ids start anew.
    """
    if not base.order or tokens == base.tokens:
        return base.order
    dropped = set(base.tokens).difference(tokens)
    retained = ["" if piece in dropped else piece for piece in base.order]
    listed = set(tokens)
    in_base_order = [piece for piece in retained if piece in listed]
    if in_base_order != [token for token in tokens if token in base.ids]:
        return ()
    return (*retained, *(token for token in tokens if token not in base.ids))


def _match_tokens(
    path: Path, entries: Sequence[ListEntry], base: Vocabulary, *, uses_separator: bool
) -> Iterator[tuple[str, int]]:
    """Yield each listed token, in VOLT's spelling, and its count, without special and byte tokens.

    uses_separator: whether the list is in subword-nmt's spelling. Then "a" is the token "a</w>".
        "a@@" is the token "a", or "a@@</w>" if `base` has no "a", or if an earlier row is "a".
    """
    reserved = set(base.ids).difference(base.tokens)
    if uses_separator:
        reserved.update(piece + SEPARATOR for piece in _inside_words(base))
    known = reserved.union(base.made)
    n_rows = Counter(entry.piece for entry in entries)
    line_of_token = dict[str, int]()
    for entry in entries:
        piece = entry.piece
        readings = list[str]()
        if piece in reserved or not uses_separator:
            readings.append(piece)
        if uses_separator:
            if piece.endswith(SEPARATOR) and piece != SEPARATOR:
                readings.append(piece.removesuffix(SEPARATOR))
            readings.append(piece + SUFFIX)
        valid = [
            token
            for token in readings
            if token in known or atom_code(token, marker=base.marker) is not None
        ]
        if not valid:
            raise VocabularyError(
                f"{path}:{entry.line}: no merge makes {piece!r}; give the merges that "
                "belong to this list, or remove the line; if it is a user token, give a VOLT "
                "vocabulary that has it"
            )

        unlisted = [token for token in valid if token not in line_of_token]
        is_repeated = unlisted != valid and n_rows[piece] > 1
        if not unlisted or (is_repeated and not entry.may_repeat):
            first_line = line_of_token[valid[0]]
            raise VocabularyError(
                f"{path}:{entry.line}: {piece!r} repeats line {first_line}; remove one"
            )
        token = unlisted[0]
        line_of_token[token] = entry.line
        if token not in reserved:
            yield token, entry.count


def read_lines(
    path: Path, *, remedy: str = "download or export it again"
) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line of a file.

    remedy: what the error for an empty file advises

    Raises VocabularyError if the file or a line is empty, or if the file is not UTF-8.
    """
    text = read_text(path, kind=VocabularyError)
    if not text:
        raise VocabularyError(f"{path}: empty; {remedy}")
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if not line.rstrip("\r"):
            raise VocabularyError(f"{path}:{number}: an empty line instead of a token; remove it")
        yield number, line.removesuffix("\r")


def parse_counted_line(path: Path, number: int, line: str) -> tuple[str, int]:
    """Split "piece count" at the last space.

    Raises VocabularyError, with the line's number, for another form.
    """
    piece, _, count = line.rpartition(" ")
    if not piece:
        raise VocabularyError(
            f"{path}:{number}: expected 'piece count', found {line[:60]!r}; fix it"
        )
    return piece, parse_count(path, number, count)


def parse_count(path: Path, number: int, text: str) -> int:
    """Return the count in a text. Raises VocabularyError, with the line's number, for other text."""
    if not is_number(text):
        raise VocabularyError(
            f"{path}:{number}: {text[:40]!r} is not a count; give a whole number from 0 up"
        )
    return int(text)


def is_number(text: str) -> bool:
    """Check whether a text is a whole number from 0 up, of 1,000 digits at most."""
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS


def all_lines_match(head: bytes, row: re.Pattern[str]) -> bool:
    """Check whether a regex matches each whole line in the first bytes of a file.

    Return False if the bytes are not UTF-8, or contain no whole line.
    """
    is_whole_file = len(head) < HEAD_SIZE
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=is_whole_file)
    except UnicodeDecodeError:
        return False
    lines = text.split("\n")
    if not is_whole_file or not lines[-1]:
        lines.pop()
    return bool(lines) and all(row.fullmatch(line.removesuffix("\r")) for line in lines)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with write_atomic(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def refuse_characters(pieces: Iterable[str], characters: str, path: Path, where: str) -> None:
    """Raise VocabularyError if a piece contains one of these characters.

    where: the part of the file that cannot contain the characters, such as "a line of dict.txt"
    """
    for piece in pieces:
        if not set(characters).isdisjoint(piece):
            raise VocabularyError(
                f"{path}: token {piece!r} has white space, but {where} cannot; "
                "export to marian or huggingface, or count with",
                hint={"pretokenizer": "whitespace"},
            )
