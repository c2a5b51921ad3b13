r"""Token list ⇄ vocabulary: one token a line, in the order of ids, without the four tokens with roles.

A list contains no merges: `read` takes them from another file, and tokens that are not listed become scaffolding.
Lists of fairseq, Marian and OpenNMT fit text encoded by subword-nmt: "@@" follows tokens that do not end a word.

>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "low</w>"))
>>> [row.text for row in rows_of(vocabulary)]
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
N_ROLES = 4


@dataclass(frozen=True, slots=True)
class Row:
    """A row to write: a piece of the vocabulary, its spelling in the list, and its count, 0 if unknown."""

    piece: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A row that was read, in the file's spelling. repeats: whether it may be spelled like an earlier one"""

    line: int
    piece: str
    count: int = 0
    repeats: bool = False


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the list. Raises VocabularyError if a token contains a line end."""
    pieces = _listed(vocabulary)
    refuse_characters(pieces, "\n\r", path, "a line of a token list")
    write_lines(path, pieces)
    usual = "ids are line numbers + 3: the four tokens with roles are not listed"
    return [id_note(vocabulary, usual, "a list"), *_lacking(vocabulary, has_counts=False)]


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    return vocabulary_of(path, rows(path), merges=merges)


def rows(path: Path) -> Iterator[ListEntry]:
    return (ListEntry(number, line) for number, line in lines_of(path))


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line is one word; other formats are tried first."""
    return not head.startswith((b'{"', b"{\n", b"#version")) and all_lines(head, re.compile(r"\S+"))


def _listed(vocabulary: Vocabulary) -> list[str]:
    """Return all pieces in the order of their ids, without roles and unused ids."""
    pieces = zip(vocabulary.pieces, vocabulary.kinds, strict=True)
    return [piece for piece, kind in pieces if kind not in (*ROLES, "unused")]


def rows_of(vocabulary: Vocabulary) -> list[Row]:
    """Return a row for each listed piece; if the marker is "suffix", in subword-nmt's spelling.

    Then, user tokens and byte tokens follow once more, as subword-nmt spells them inside a word: "<0xC3>@@ <0xA9>" is
    an "é".
    """
    counts = dict(zip(vocabulary.tokens, vocabulary.counts, strict=False))
    tokens = set(vocabulary.tokens)
    result = list[Row]()
    for piece in _listed(vocabulary):
        text = piece
        if vocabulary.marker == "suffix" and piece in tokens:
            text = piece.removesuffix(SUFFIX)
            if text in ("", piece):
                text = piece + SEPARATOR
        result.append(Row(piece, text, counts.get(piece, 0)))
    return result + [Row(piece, piece + SEPARATOR, 0) for piece in _inside_words(vocabulary)]


def _inside_words(vocabulary: Vocabulary) -> list[str]:
    if vocabulary.marker != "suffix":
        return []
    return [*vocabulary.special.user, *BYTE_TOKENS * vocabulary.byte_fallback]


def unique_rows(vocabulary: Vocabulary, path: Path) -> list[Row]:
    """Return `rows_of`. Raises VocabularyError if two pieces are spelled alike."""
    first = dict[str, str]()
    result = rows_of(vocabulary)
    for row in result:
        if row.text in first:
            raise VocabularyError(
                f"{path}: {first[row.text]!r} and {row.piece!r} would both be spelled {row.text!r}; "
                "export to fairseq, tokens or huggingface"
            )
        first[row.text] = row.piece
    return result


def id_note(vocabulary: Vocabulary, usual: str, library: str) -> str:
    """Return a note on how a list's ids relate to VOLT's. usual: the note if the pieces' ids in VOLT are 4, 5, …"""
    ids = [vocabulary.ids[piece] for piece in _listed(vocabulary)]
    if ids == list(range(N_ROLES, N_ROLES + len(ids))):
        return usual
    return (
        f"ids differ from VOLT's: {library} numbers pieces by place in the list, "
        "which keeps the order of VOLT's ids"
    )


def _lacking(vocabulary: Vocabulary, *, has_counts: bool) -> Iterator[str]:
    yield "the list has no merges: reading it back requires a file of merges"
    if vocabulary.counts and not has_counts:
        yield "the list has no counts"
    if vocabulary.scaffolding:
        yield (
            f"the list lacks {counted(len(vocabulary.scaffolding), 'token')} that merges make and "
            "encoding has to split back, as VOLT and subword-nmt's --vocabulary do; "
            "export it closed to list all tokens"
        )


def spelling_notes(vocabulary: Vocabulary, *, has_counts: bool) -> Iterator[str]:
    """Yield notes on what `rows_of` changes, and on properties that the list lacks."""
    if vocabulary.marker == "suffix":
        yield (
            "spelled as subword-nmt does, '@@' after pieces that do not end a word: "
            "encode text with the separator @@"
        )
    yield from _lacking(vocabulary, has_counts=has_counts)
    if pieces := _inside_words(vocabulary):
        yield (
            f"user and byte tokens are listed again at the end, as in {pieces[0]}{SEPARATOR}, for "
            f"text inside a word, with ids that VOLT lacks; {SUFFIX} is listed, "
            "but text never contains it"
        )
    if has_counts and not vocabulary.counts:
        yield "the vocabulary has no counts: all are written as 0"


def vocabulary_of(
    path: Path, entries: Iterable[ListEntry], *, merges: Path | None, joined: bool = False
) -> Vocabulary:
    """Return the vocabulary of listed tokens and a file of merges. joined: whether it is in subword-nmt's spelling"""
    entries = list(entries)
    base = _base(path, merges)
    if {entry.piece for entry in entries}.issuperset(BYTE_TOKENS):
        base = replace(base, byte_fallback=True)
    count_of_token = dict(_tokens(path, entries, base, joined=joined and base.marker == "suffix"))
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
    order = _order(base, tokens)
    return replace(base, tokens=tokens, counts=counts, order=order, provenance=provenance)


def _base(path: Path, merges: Path | None) -> Vocabulary:
    """Return a vocabulary with the merges of a file, and with the settings if the file is a VOLT vocabulary."""
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


def _order(base: Vocabulary, tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the pieces by id as in `base`, or (). Ids of tokens not listed become unused; new tokens follow."""
    if not base.order or tokens == base.tokens:
        return base.order
    dropped = set(base.tokens).difference(tokens)
    retained = ["" if piece in dropped else piece for piece in base.order]
    listed = set(tokens)
    old = [token for token in tokens if token in base.ids]
    if [piece for piece in retained if piece in listed] != old:
        return ()  # the list has another order, so ids are assigned anew
    return (*retained, *(token for token in tokens if token not in base.ids))


def _tokens(
    path: Path, entries: Sequence[ListEntry], base: Vocabulary, *, joined: bool
) -> Iterator[tuple[str, int]]:
    """Yield each listed token, as VOLT spells it, and its count. joined: whether "@@" joins pieces of a word"""
    reserved = set(base.ids).difference(base.tokens)
    if joined:
        reserved.update(piece + SEPARATOR for piece in _inside_words(base))
    known = reserved.union(base.made)
    n_entries = Counter(entry.piece for entry in entries)
    lines = dict[str, int]()
    for entry in entries:
        piece = entry.piece
        readings = list[str]()
        if piece in reserved or not joined:
            readings.append(piece)
        if joined:
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
                f"{path}:{entry.line}: no merge makes {piece!r}; give the merges of this list, "
                "as a VOLT vocabulary if it has user tokens, or remove the line"
            )

        free = [token for token in valid if token not in lines]
        is_repeated = free != valid and n_entries[piece] > 1
        if not free or (is_repeated and not entry.repeats):
            raise VocabularyError(
                f"{path}:{entry.line}: {piece!r} repeats line {lines[valid[0]]}; remove one"
            )
        token = free[0]  # the second reading if an earlier entry has the first
        lines[token] = entry.line
        if token not in reserved:
            yield token, entry.count


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers. Raises VocabularyError if it is empty or not UTF-8."""
    text = read_text(path, kind=VocabularyError)
    if not text:
        raise VocabularyError(f"{path}: empty; download or export it again")
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if not line.rstrip("\r"):
            raise VocabularyError(f"{path}:{number}: an empty line instead of a token; remove it")
        yield number, line.removesuffix("\r")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with write_atomic(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def refuse_characters(pieces: Iterable[str], characters: str, path: Path, where: str) -> None:
    """Raise VocabularyError if a piece contains one of these characters. where: the place that errors name"""
    for piece in pieces:
        if not set(characters).isdisjoint(piece):
            raise VocabularyError(
                f"{path}: token {piece!r} has white space, but {where} cannot; "
                "export to marian or huggingface, or count with",
                hint={"pretokenizer": "whitespace"},
            )


def all_lines(head: bytes, row: re.Pattern[str]) -> bool:
    """Check whether the first bytes of a file are UTF-8 text with at least one whole line, and `row` matches all."""
    is_whole = len(head) < HEAD_SIZE
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=is_whole)
    except UnicodeDecodeError:
        return False
    lines = text.split("\n")
    if not is_whole or not lines[-1]:
        lines.pop()
    return bool(lines) and all(row.fullmatch(line.removesuffix("\r")) for line in lines)


def count_of(path: Path, line: int, text: str) -> int:
    """Return a count. Raises VocabularyError if it is not a whole number from 0 up."""
    if not is_number(text):
        raise VocabularyError(
            f"{path}:{line}: {text[:40]!r} is not a count; give a whole number from 0 up"
        )
    return int(text)


def is_number(text: str) -> bool:
    """Check whether a text is a whole number from 0 up, of 1,000 digits at most."""
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
