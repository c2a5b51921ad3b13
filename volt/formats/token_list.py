r"""Token list ⇄ vocabulary: one token a line, in the order of ids, without the four tokens with roles.

A list holds no merges: `read` takes them from another file, and tokens that are not listed become scaffolding. The
dictionaries of fairseq, Marian and OpenNMT are token lists too and use these functions. They go with text that
subword-nmt cut, so tokens that do not end a word are spelled with "@@", and no token with "</w>".

>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "low</w>"))
>>> joined_spelling(vocabulary)
['l@@', 'low']
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from volt.errors import VocabularyError
from volt.files.atomic import write_atomic
from volt.files.small_files import read_text
from volt.formats.protocol import HEAD_SIZE, MOST_DIGITS
from volt.formats.registry import read_merges
from volt.text.characters import BYTE_TOKENS, SUFFIX, atom_code
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import ROLES
from volt.vocabulary import Vocabulary

SEPARATOR = "@@"
N_ROLES = 4


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A token of a foreign list.

    line: the number of its line in the file
    piece: the token in the file's spelling
    repeats: whether it may be spelled like an earlier one
    """

    line: int
    piece: str
    count: int = 0
    repeats: bool = False


def listed(vocabulary: Vocabulary) -> list[str]:
    """Return all pieces in the order of their ids, without roles and unused ids.

    >>> from volt.text.special_tokens import SpecialTokens
    >>> listed(Vocabulary(merges=(), tokens=("l",), special=SpecialTokens(control=("[A]",))))
    ['[A]', 'l']
    """
    return [
        piece
        for piece, kind in zip(vocabulary.pieces, vocabulary.kinds, strict=True)
        if kind not in ROLES and kind != "unused"
    ]


def joined_spelling(vocabulary: Vocabulary) -> list[str]:
    """Return the pieces of `listed`; with a suffix marker, tokens in subword-nmt's spelling."""
    if vocabulary.marker != "suffix":
        return listed(vocabulary)
    tokens = set(vocabulary.tokens)
    return [_joined(piece) if piece in tokens else piece for piece in listed(vocabulary)]


def counts(vocabulary: Vocabulary) -> list[int]:
    """Return the counts of the pieces of `listed`; 0 for a piece without count.

    >>> from volt.text.special_tokens import SpecialTokens
    >>> counts(Vocabulary(merges=(), tokens=("l",), counts=(7,), special=SpecialTokens(control=("[A]",))))
    [0, 7]
    """
    known = dict(zip(vocabulary.tokens, vocabulary.counts, strict=False))
    return [known.get(piece, 0) for piece in listed(vocabulary)]


def id_note(vocabulary: Vocabulary, usual: str, library: str) -> str:
    """Return a sentence on how ids relate to VOLT's.

    usual: the sentence for a list whose first piece has VOLT's id 4, the second 5, and so on
    library: the library that numbers pieces by their places in the list
    """
    ids = [vocabulary.ids[piece] for piece in listed(vocabulary)]
    if ids == list(range(N_ROLES, N_ROLES + len(ids))):
        return usual
    return f"ids differ from VOLT's: {library} numbers pieces by their places in the list, which is in VOLT's order"


def _joined(token: str) -> str:
    return token.removesuffix(SUFFIX) if token.endswith(SUFFIX) and token != SUFFIX else token + SEPARATOR


def glued(vocabulary: Vocabulary) -> list[str]:
    """Return user tokens and byte tokens as subword-nmt spells them inside a word.

    Text cut with "@@" holds both: "<0xC3>@@ <0xA9>" is an "é" that ends a word.

    >>> from volt.text.special_tokens import SpecialTokens
    >>> glued(Vocabulary(merges=(), tokens=("l",), special=SpecialTokens(user=("<url>",))))
    ['<url>@@']
    """
    if vocabulary.marker != "suffix":
        return []
    return [piece + SEPARATOR for piece in (*vocabulary.special.user, *BYTE_TOKENS * vocabulary.byte_fallback)]


def glued_notes(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield a sentence on the pieces of `glued`, if there are any."""
    if result := glued(vocabulary):
        yield (
            f"pieces that spell no text of their own, such as {result[0].removesuffix(SEPARATOR)}, are listed "
            f"twice: as VOLT numbers them, and last, as {result[0]}, for where more of the word follows, with ids that "
            f"VOLT does not have; {SUFFIX} is listed but never met"
        )


def vocabulary_of(path: Path, rows: Iterable[ListEntry], *, merges: Path | None, joined: bool = False) -> Vocabulary:
    """Return the vocabulary of listed tokens and a file of merges. joined: the list has subword-nmt's spelling."""
    rows, base = list(rows), _base(path, merges)
    if set(BYTE_TOKENS) <= {row.piece for row in rows}:
        base = replace(base, byte_fallback=True)
    tokens = list(_tokens(path, rows, base, joined=joined and base.marker == "suffix"))
    if not tokens:
        raise VocabularyError(f"{path}: lists no token; restore the file")
    names = tuple(name for name, _ in tokens)
    result = tuple(count for _, count in tokens) if any(count for _, count in tokens) else ()
    if not result and set(names) == set(base.tokens) and base.counts:
        known = dict(zip(base.tokens, base.counts, strict=True))
        result = tuple(known[name] for name in names)
    provenance = {**base.provenance, "imported": path.name}
    return replace(base, tokens=names, counts=result, order=_order(base, names), provenance=provenance)


def _order(base: Vocabulary, names: Sequence[str]) -> tuple[str, ...]:
    """Return the order of ids of a base with its own order: unlisted ids are unused, new tokens come last."""
    if not base.order or names == base.tokens:
        return base.order
    left = {*listed(base), *base.special.all} - set(base.tokens) | set(names)
    retained = [piece if piece in left else "" for piece in base.order]
    if [piece for piece in retained if piece in set(names)] == [name for name in names if name in base.ids]:
        return (*retained, *(name for name in names if name not in base.ids))
    return ()  # the list has another order, so ids are assigned anew


def _base(path: Path, merges: Path | None) -> Vocabulary:
    """Return a vocabulary with the merges, and a VOLT vocabulary's settings."""
    if merges is None:
        raise VocabularyError(
            f"{path}: lists tokens but holds no merges, which are needed to cut text; name the subword-nmt codes, "
            "sentencepiece model or VOLT vocabulary that has them: import it with",
            hint={"merges": "FILE"},
        )
    if merges.is_file() and merges.read_bytes()[:7] == b'{"volt"':
        return Vocabulary.load(merges)
    result = read_merges(merges)
    cut = PreTokenizer("bytes" if result.spells_bytes else "whitespace")
    return Vocabulary(merges=tuple(dict.fromkeys(result.pairs)), tokens=(), marker=result.marker, pretokenizer=cut)


def _tokens(path: Path, rows: Sequence[ListEntry], base: Vocabulary, *, joined: bool) -> Iterator[tuple[str, int]]:
    """Yield every listed token with its count, in VOLT's spelling.

    Raises VocabularyError if a token is listed twice or no merge makes it.
    """
    reserved = set(base.ids) - set(base.tokens)
    reserved |= set(glued(base)) if joined else set()
    output, lines = set(map("".join, base.merges)), dict[str, int]()
    for row in rows:
        fitting = [name for name in _names(row.piece, reserved, joined=joined) if _fits(name, output, reserved, base)]
        if not fitting:
            raise VocabularyError(
                f"{path}:{row.line}: no merge makes {row.piece!r}; give the merges that this list was made with, as a "
                "VOLT vocabulary if it holds user tokens, or remove the line"
            )
        free = [name for name in fitting if name not in lines]
        if not free or (free != fitting and not row.repeats and not _may_share(row.piece, rows)):
            raise VocabularyError(f"{path}:{row.line}: {row.piece!r} repeats line {lines[fitting[0]]}; remove one")
        lines[free[0]] = row.line
        if free[0] not in reserved:
            yield free[0], row.count


def _may_share(piece: str, rows: Sequence[ListEntry]) -> bool:
    """Check whether the piece is listed once: then another spelling has used its first reading."""
    return sum(row.piece == piece for row in rows) == 1


def _names(piece: str, reserved: set[str], *, joined: bool) -> list[str]:
    if not joined:
        return [piece]
    own = [piece] if piece in reserved else []
    if piece.endswith(SEPARATOR) and piece != SEPARATOR:
        return [*own, piece.removesuffix(SEPARATOR), piece + SUFFIX]
    return [*own, piece + SUFFIX]


def _fits(name: str, output: set[str], reserved: set[str], base: Vocabulary) -> bool:
    return name in reserved or name in output or atom_code(name, marker=base.marker) is not None


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers. Raises VocabularyError if it is unreadable, empty or not UTF-8."""
    lines = read_text(path, kind=VocabularyError).split("\n")
    if lines == [""]:
        raise VocabularyError(f"{path}: empty; restore the file")
    for number, text in enumerate(lines if lines[-1] else lines[:-1], 1):
        if not text.rstrip("\r"):
            raise VocabularyError(f"{path}:{number}: an empty line where a token belongs; remove it")
        yield number, text.removesuffix("\r")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write these lines atomically.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     write_lines(Path(file.name), ["l", "lo"])
    ...     list(lines_of(Path(file.name)))
    [(1, 'l'), (2, 'lo')]
    """
    with write_atomic(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def refuse_characters(pieces: Iterable[str], characters: str, path: Path, where: str) -> None:
    """Raise VocabularyError if a piece holds one of these characters, which would end it.

    where: the part of a file that cannot hold them, for the error

    >>> refuse_characters(["lo"], "\\n", Path("a.txt"), "a line")
    """
    bad = set(characters)
    for piece in pieces:
        if not bad.isdisjoint(piece):
            raise VocabularyError(
                f"{path}: token {piece!r} holds white space that {where} cannot hold; export to marian or huggingface, "
                "or count with",
                hint={"pretokenizer": "whitespace"},
            )


def not_listed(vocabulary: Vocabulary, *, counts: bool = False) -> Iterator[str]:
    """Yield a sentence for each property that no list carries. counts: whether the list leaves out counts.

    >>> list(not_listed(Vocabulary(merges=(), tokens=("l",))))
    ['no merges: reading the list back takes a file of them']
    """
    yield "no merges: reading the list back takes a file of them"
    if counts:
        yield "no counts"
    if vocabulary.scaffolding:
        yield (
            f"{len(vocabulary.scaffolding)} merges make tokens that are not listed and have to be split back, as "
            "VOLT and subword-nmt's --vocabulary do; export it closed to list them"
        )


def spelling_notes(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield a sentence on the changes of `joined_spelling`.

    >>> list(spelling_notes(Vocabulary(merges=(), tokens=("l",), marker="none")))
    []
    """
    if vocabulary.marker == "suffix":
        yield "spelled as subword-nmt does, '@@' behind what ends no word: cut text with the separator @@"


def all_lines(head: bytes, fits: Callable[[str], bool]) -> bool:
    """Check whether the first bytes of a file are UTF-8 text with at least one whole line, and all lines fit.

    >>> all_lines(b"1\\n2\\n", str.isdecimal), all_lines(b"1\\nx\\n", str.isdecimal)
    (True, False)
    """
    complete = len(head) < HEAD_SIZE
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=complete)
    except UnicodeDecodeError:
        return False
    lines = text.split("\n")
    lines = lines if complete and lines[-1] else lines[:-1]
    return bool(lines) and all(fits(line.removesuffix("\r")) for line in lines)


def count_of(path: Path, line: int, text: str) -> int:
    """Return a count. Raises VocabularyError if it is not a whole number from 0 up.

    >>> count_of(Path("dict.txt"), 1, "17")
    17
    """
    if not is_number(text):
        raise VocabularyError(f"{path}:{line}: {text[:40]!r} is no count; give a whole number from 0 up")
    return int(text)


def is_number(text: str) -> bool:
    """Check whether a text is a whole number from 0 up, of 1,000 digits at most.

    >>> is_number("17"), is_number("-1"), is_number("9" * 5000)
    (True, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS


def check_unique(vocabulary: Vocabulary, spelled: Sequence[str], path: Path) -> None:
    """Raise VocabularyError if two pieces are spelled alike.

    spelled: the spellings of `listed`, then of `glued`

    >>> check_unique(Vocabulary(merges=(), tokens=("l", "o")), ["l", "o"], Path("a.txt"))
    """
    first = dict[str, str]()
    twice = (*vocabulary.special.user, *BYTE_TOKENS)[: len(glued(vocabulary))]
    for piece, text in zip((*listed(vocabulary), *twice), spelled, strict=True):
        if text in first:
            raise VocabularyError(
                f"{path}: {first[text]!r} and {piece!r} would both be spelled {text!r}; export to fairseq, tokens or "
                "huggingface, which can tell them apart"
            )
        first[text] = piece


_LINE_ENDS = "\n\r"


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the list. Raises VocabularyError if a token holds a line end."""
    pieces = listed(vocabulary)
    refuse_characters(pieces, _LINE_ENDS, path, "a line of a token list")
    write_lines(path, pieces)
    return [
        id_note(vocabulary, "ids are line numbers + 3: the four tokens with roles are not listed", "a list"),
        *not_listed(vocabulary, counts=bool(vocabulary.counts)),
    ]


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Return the listed tokens with these merges. Raises VocabularyError, with file and line, if they do not fit."""
    return vocabulary_of(path, rows(path), merges=merges)


def rows(path: Path) -> Iterator[ListEntry]:
    """Return the listed tokens. Raises VocabularyError if the file cannot be read."""
    return (ListEntry(*numbered) for numbered in lines_of(path))


def recognises(path: Path, head: bytes) -> bool:
    """Check whether every line holds one word and nothing else; other formats are tried before.

    >>> recognises(Path("tokens.txt"), b"l\\no\\nlo\\n"), recognises(Path("a.txt"), b"two words\\n")
    (True, False)
    """
    return not head.startswith((b'{"', b"{\n", b"#version")) and all_lines(head, lambda line: line.split() == [line])
