r"""Token list ⇄ vocabulary: one token a line, in the order of ids, without the four tokens with roles.

A list contains no merges: `read` takes them from another file, and tokens that are not listed become scaffolding.
Lists of fairseq, Marian and OpenNMT fit text encoded by subword-nmt: "@@" follows tokens that do not end a word.

>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "low</w>"))
>>> spelled(vocabulary)
['l@@', 'low']
"""

from __future__ import annotations

import codecs
import re
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
class ListEntry:
    """A token of a list, in the file's spelling. repeats: whether it may be spelled like an earlier token"""

    line: int
    piece: str
    count: int = 0
    repeats: bool = False


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the list. Raises VocabularyError if a token contains a line end."""
    pieces = listed(vocabulary)
    refuse_characters(pieces, "\n\r", path, "a line of a token list")
    write_lines(path, pieces)
    usual = "ids are line numbers + 3: the four tokens with roles are not listed"
    return [id_note(vocabulary, usual, "a list"), *_not_listed(vocabulary, has_counts=False)]


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    return vocabulary_of(path, rows(path), merges=merges)


def rows(path: Path) -> Iterator[ListEntry]:
    return (ListEntry(*numbered) for numbered in lines_of(path))


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line is one word; other formats are tried first."""
    return not head.startswith((b'{"', b"{\n", b"#version")) and all_lines(head, re.compile(r"\S+"))


def listed(vocabulary: Vocabulary) -> list[str]:
    """Return all pieces in the order of their ids, without roles and unused ids."""
    pieces = zip(vocabulary.pieces, vocabulary.kinds, strict=True)
    return [piece for piece, kind in pieces if kind not in ROLES and kind != "unused"]


def spelled(vocabulary: Vocabulary) -> list[str]:
    """Return the pieces of `listed`, then of `glued`; if the marker is "suffix", tokens as subword-nmt spells them."""
    pieces = listed(vocabulary)
    if vocabulary.marker == "suffix":
        tokens = set(vocabulary.tokens)
        ends = {token for token in tokens if token.endswith(SUFFIX) and token != SUFFIX}
        pieces = [
            piece.removesuffix(SUFFIX)
            if piece in ends
            else piece + SEPARATOR
            if piece in tokens
            else piece
            for piece in pieces
        ]
    return pieces + glued(vocabulary)


def glued(vocabulary: Vocabulary) -> list[str]:
    """Return user tokens and byte tokens as subword-nmt spells them inside a word: "<0xC3>@@ <0xA9>" is an "é"."""
    if vocabulary.marker != "suffix":
        return []
    return [
        piece + SEPARATOR
        for piece in (*vocabulary.special.user, *BYTE_TOKENS * vocabulary.byte_fallback)
    ]


def counts(vocabulary: Vocabulary) -> list[int]:
    """Return the counts of the pieces of `spelled`; 0 for a piece without count."""
    known = dict(zip(vocabulary.tokens, vocabulary.counts, strict=False))
    return [known.get(piece, 0) for piece in listed(vocabulary)] + [0] * len(glued(vocabulary))


def unique_spelling(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Return the pieces of `spelled`. Raises VocabularyError if two are spelled alike."""
    first, pieces = dict[str, str](), spelled(vocabulary)
    twice = (*vocabulary.special.user, *BYTE_TOKENS)[: len(glued(vocabulary))]
    for piece, text in zip((*listed(vocabulary), *twice), pieces, strict=True):
        if text in first:
            both = f"{first[text]!r} and {piece!r} would both be spelled {text!r}"
            raise VocabularyError(f"{path}: {both}; export to fairseq, tokens or huggingface")
        first[text] = piece
    return pieces


def id_note(vocabulary: Vocabulary, usual: str, library: str) -> str:
    """Return a note on how a list's ids relate to VOLT's. usual: the note if the pieces' ids in VOLT are 4, 5, …"""
    ids = [vocabulary.ids[piece] for piece in listed(vocabulary)]
    if ids == list(range(N_ROLES, N_ROLES + len(ids))):
        return usual
    return f"ids differ from VOLT's: {library} numbers pieces by place in the list, which keeps the order of VOLT's ids"


def _not_listed(vocabulary: Vocabulary, *, has_counts: bool) -> Iterator[str]:
    yield "the list has no merges: reading it back requires a file of merges"
    if vocabulary.counts and not has_counts:
        yield "the list has no counts"
    if vocabulary.scaffolding:
        lacking = counted(len(vocabulary.scaffolding), "token")
        what = f"the list lacks {lacking} that merges make and encoding has to split back"
        yield f"{what}, as VOLT and subword-nmt's --vocabulary do; export it closed to list all tokens"


def spelling_notes(vocabulary: Vocabulary, *, has_counts: bool) -> Iterator[str]:
    """Yield notes on what `spelled` changes, and on properties that the list lacks."""
    if vocabulary.marker == "suffix":
        yield "spelled as subword-nmt does, '@@' after pieces that do not end a word: encode text with the separator @@"
    yield from _not_listed(vocabulary, has_counts=has_counts)
    if pieces := glued(vocabulary):
        twice = f"user and byte tokens are listed again at the end, as in {pieces[0]}, for text inside a word"
        yield f"{twice}, with ids that VOLT lacks; {SUFFIX} is listed, but text never contains it"
    if has_counts and not vocabulary.counts:
        yield "the vocabulary has no counts: all are written as 0"


def vocabulary_of(
    path: Path, rows: Iterable[ListEntry], *, merges: Path | None, joined: bool = False
) -> Vocabulary:
    """Return the vocabulary of listed tokens and a file of merges. joined: whether it is in subword-nmt's spelling"""
    rows, base = list(rows), _base(path, merges)
    if set(BYTE_TOKENS) <= {row.piece for row in rows}:
        base = replace(base, byte_fallback=True)
    tokens = list(_tokens(path, rows, base, joined=joined and base.marker == "suffix"))
    if not tokens:
        raise VocabularyError(f"{path}: lists no token; download or export it again")
    names = tuple(name for name, _ in tokens)
    result = tuple(count for _, count in tokens) if any(count for _, count in tokens) else ()
    if not result and set(names) == set(base.tokens) and base.counts:
        known = dict(zip(base.tokens, base.counts, strict=True))
        result = tuple(known[name] for name in names)
    provenance = {**base.provenance, "imported": path.name}
    return replace(
        base, tokens=names, counts=result, order=_order(base, names), provenance=provenance
    )


def _order(base: Vocabulary, names: Sequence[str]) -> tuple[str, ...]:
    """Return the pieces by id as in `base`, or (). Ids of tokens not in `names` become unused; new tokens follow."""
    if not base.order or names == base.tokens:
        return base.order
    left = {*listed(base), *base.special.all} - set(base.tokens) | set(names)
    retained = [piece if piece in left else "" for piece in base.order]
    if [piece for piece in retained if piece in set(names)] == [
        name for name in names if name in base.ids
    ]:
        return (*retained, *(name for name in names if name not in base.ids))
    return ()  # the list has another order, so ids are assigned anew


def _base(path: Path, merges: Path | None) -> Vocabulary:
    """Return a vocabulary with the merges of a file, and with the settings if the file is a VOLT vocabulary."""
    if merges is None:
        what = "lists tokens without merges; import it with the vocabulary, codes or sentencepiece model of its merges:"
        raise VocabularyError(f"{path}: {what}", hint={"merges": "FILE"})
    if merges.is_file() and merges.read_bytes()[:7] == b'{"volt"':
        return Vocabulary.load(merges)
    result = read_merges(merges)
    cut = PreTokenizer("bytes" if result.spells_bytes else "whitespace")
    return Vocabulary(
        merges=tuple(dict.fromkeys(result.pairs)), tokens=(), marker=result.marker, pretokenizer=cut
    )


def _tokens(
    path: Path, rows: Sequence[ListEntry], base: Vocabulary, *, joined: bool
) -> Iterator[tuple[str, int]]:
    reserved = set(base.ids) - set(base.tokens)
    reserved |= set(glued(base)) if joined else set()
    known, lines = {*base.made, *reserved}, dict[str, int]()
    for row in rows:
        names = [row.piece] if row.piece in reserved or not joined else []
        if joined and row.piece.endswith(SEPARATOR) and row.piece != SEPARATOR:
            names.append(row.piece.removesuffix(SEPARATOR))
        names += [row.piece + SUFFIX] * joined
        fitting = [
            name
            for name in names
            if name in known or atom_code(name, marker=base.marker) is not None
        ]
        if not fitting:
            remedy = "give the merges of this list, as a VOLT vocabulary if it has user tokens, or remove the line"
            raise VocabularyError(f"{path}:{row.line}: no merge makes {row.piece!r}; {remedy}")
        free = [name for name in fitting if name not in lines]
        is_repeated = free != fitting and sum(other.piece == row.piece for other in rows) > 1
        if not free or (
            is_repeated and not row.repeats
        ):  # else the first reading is taken: use the second
            raise VocabularyError(
                f"{path}:{row.line}: {row.piece!r} repeats line {lines[fitting[0]]}; remove one"
            )
        lines[free[0]] = row.line
        if free[0] not in reserved:
            yield free[0], row.count


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers. Raises VocabularyError if it is empty or not UTF-8."""
    lines = read_text(path, kind=VocabularyError).split("\n")
    if lines == [""]:
        raise VocabularyError(f"{path}: empty; download or export it again")
    for number, text in enumerate(lines if lines[-1] else lines[:-1], 1):
        if not text.rstrip("\r"):
            raise VocabularyError(f"{path}:{number}: an empty line instead of a token; remove it")
        yield number, text.removesuffix("\r")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with write_atomic(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def refuse_characters(pieces: Iterable[str], characters: str, path: Path, where: str) -> None:
    """Raise VocabularyError if a piece contains one of these characters. where: the place that errors name"""
    bad = set(characters)
    if piece := next((piece for piece in pieces if not bad.isdisjoint(piece)), None):
        what = f"token {piece!r} has white space, but {where} cannot; export to marian or huggingface, or count with"
        raise VocabularyError(f"{path}: {what}", hint={"pretokenizer": "whitespace"})


def all_lines(head: bytes, row: re.Pattern[str]) -> bool:
    """Check whether the first bytes of a file are UTF-8 text with at least one whole line, and `row` matches all."""
    complete = len(head) < HEAD_SIZE
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=complete)
    except UnicodeDecodeError:
        return False
    lines = text.split("\n")
    lines = lines if complete and lines[-1] else lines[:-1]
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
