"""`volt decode`: pieces or ids → text, line by line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from volt.display import counted
from volt.errors import CorpusError
from volt.text.atoms import PREFIX, SUFFIX
from volt_cli.console import say
from volt_cli.io import (
    check_distinct_files,
    choose_wait,
    decode_lines,
    load_model,
    open_output,
    read_text_blocks,
    write_and_flush_each,
)
from volt_cli.options import ModelAndText, Output, Separator, check_separator, option

if TYPE_CHECKING:
    from volt.encode.files import Arrays
    from volt.files.blocks import Block
    from volt.vocabulary import Vocabulary


MOST_SHOWN = 40  # characters of a word
N_LINES = 1 << 16  # lines of an array that are decoded together


def decode(
    text: ModelAndText,
    out: Output = Path("-"),
    form: Annotated[
        Literal["pieces", "ids", "npy", "bin"],
        option("FORM", "Form of the input, as in volt encode."),
    ] = "pieces",
    separator: Separator = None,
) -> None:
    """Decode pieces or ids to text, line by line.

    This reverses `volt encode`.
    """
    from volt.encode.files import read_arrays, refuse_arrays
    from volt.errors import ConfigError

    check_distinct_files([out], text.files, model=text.model)
    mark = check_separator(separator)
    vocabulary = load_model(text.model, texts=text.files, pattern=text.pattern)
    if mark and (form != "pieces" or vocabulary.marker != "suffix"):
        raise ConfigError(
            "--separator works only with pieces of a vocabulary whose marker is suffix; remove it"
        )
    reading = {**text.limits, "wait": choose_wait(out)}
    check = _Check(vocabulary)
    if form in ("npy", "bin"):
        lines = _from_arrays(vocabulary, [read_arrays(path, form) for path in text.files])
    else:
        for path in text.files:
            refuse_arrays(path)
        lines = _from_ids(vocabulary, text.files, **reading)
        if form == "pieces":
            lines = _from_pieces(vocabulary, text.files, check=check, separator=mark, **reading)
    with open_output(out) as file:
        write_and_flush_each(file, lines)
    check.report()


def _from_arrays(vocabulary: Vocabulary, arrays: Iterable[Arrays]) -> Iterator[bytes]:
    from volt.encode.decoder import Decoder

    decoder = Decoder.of(vocabulary)
    for ids, offsets in arrays:
        for first in range(0, len(offsets) - 1, N_LINES):
            bounds = offsets[first : first + N_LINES + 1]
            yield decoder.decode_bytes(ids[bounds[0] : bounds[-1]], bounds - bounds[0])


def _from_ids(vocabulary: Vocabulary, files: list[str], **reading: Any) -> Iterator[bytes]:
    from volt.encode.decoder import Decoder

    decoder = Decoder.of(vocabulary)
    for block in read_text_blocks(files, **reading):
        yield decoder.decode_text(block.data, place=block.place)


def _from_pieces(
    vocabulary: Vocabulary, files: list[str], *, check: _Check, separator: str, **reading: Any
) -> Iterator[bytes]:
    from volt.encode.decoder import decode
    from volt.encode.rendering import without_spaces

    is_bytes = vocabulary.pretokenizer.is_bytes
    tokens_with_spaces = dict[str, str]()  # as encode writes them → as they are
    for token in vocabulary.special.spaced:
        written = without_spaces(token, is_bytes=is_bytes)
        if written not in vocabulary.ids:
            tokens_with_spaces[written] = token

    for block in read_text_blocks(files, **reading):
        rows = []
        for line in decode_lines(block):
            row = [tokens_with_spaces.get(piece, piece) for piece in line.split(" ") if piece]
            if separator:
                row = marked(row, separator, whole=check.whole)
            rows.append(row)
        check(block, rows)
        yield "".join(decode(vocabulary, row) + "\n" for row in rows).encode()


class _Check:
    """Looks for lines that `volt encode` does not write: unknown pieces are single characters, and words have marks."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        from volt.text.byte_alphabet import BYTE_TOKENS

        self.whole = {*vocabulary.special.user, *BYTE_TOKENS}
        self._known = {*vocabulary.pieces, *self.whole}
        self._unmarked = {*vocabulary.special.all, *self.whole}
        self._vocabulary = vocabulary
        self._n_lines = 0
        self._n_strange = 0
        self._n_foreign = 0  # strange lines with a word that is not a piece
        self._first = ""

    def __call__(self, block: Block, rows: Sequence[list[str]]) -> None:
        """Raise CorpusError for a line of ids, and if no word of the first lines is a piece."""
        if self._vocabulary.fuse_unk:  # any text can be an unknown piece
            return
        for number, row in enumerate(rows):
            self._n_lines += 1
            piece = self._strange(row)
            if piece is None:
                continue
            if all(map(str.isdecimal, row)):
                message = f"{block.place(number)}: these are ids, not pieces of the vocabulary; decode them with"
                raise CorpusError(message, hint={"form": "ids"})
            self._n_strange += 1
            self._n_foreign += piece not in self._known
            self._first = self._first or f"{block.place(number)}: {piece[:MOST_SHOWN]!r}"
        words = {piece for row in rows for piece in row}
        if self._n_strange and self._n_lines == len(rows) and words.isdisjoint(self._known):
            raise CorpusError(
                f"{self._first} is not a piece of the vocabulary, nor is any other word; give its pieces"
            )

    def _strange(self, row: list[str]) -> str | None:
        """Return the first piece that is neither known nor one character, or that lacks its mark."""
        for piece in row:
            is_long = len(piece.removesuffix(SUFFIX).removeprefix(PREFIX)) > 1
            if is_long and piece not in self._known:
                return piece
        if not row:
            return None
        cut = self._vocabulary.pretokenizer
        marker = self._vocabulary.marker
        is_strange = False
        piece = row[0]
        if marker == "suffix" and not cut.keeps_spaces:
            piece = row[-1]
            is_strange = not piece.endswith(SUFFIX)
        elif marker == "prefix" and not cut.is_bytes:
            is_strange = not piece.startswith(PREFIX)
        return piece if is_strange and piece not in self._unmarked else None

    def report(self) -> None:
        """Note strange lines. Raises CorpusError if every line has a word that is not a piece."""
        if self._n_foreign and self._n_foreign == self._n_lines:
            fault = f"{self._first} is not a piece of the vocabulary"
            if self._n_lines > 1:
                fault += ", and all other lines have such words"
            raise CorpusError(f"{fault}; give pieces, or the vocabulary that made them")
        if self._n_strange:
            lines = f"{self._n_strange:,} of {counted(self._n_lines, 'line')}"
            say(
                f"note: in {lines}, words are not pieces as volt encode writes them, so the text may be wrong; "
                f"first {self._first}"
            )


def marked(pieces: list[str], separator: str, *, whole: Collection[str] = ()) -> list[str]:
    """Convert subword-nmt's pieces to VOLT's. whole: special and byte tokens; "</w>" follows them as a separate piece

    >>> marked(["lo@@", "w", "<url>"], "@@", whole=["<url>"])
    ['lo', 'w</w>', '<url>', '</w>']
    """
    spelled = list[str]()
    for piece in pieces:
        if piece.endswith(separator):
            spelled.append(piece.removesuffix(separator))
        elif piece in whole:
            spelled += [piece, SUFFIX]
        else:
            spelled.append(piece + SUFFIX)
    return spelled
