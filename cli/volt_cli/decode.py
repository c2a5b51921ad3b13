"""`volt decode`: pieces or ids → text, line by line.

Any list of words can be decoded as pieces, but the text is wrong if they are not the vocabulary's.
So pieces are checked while they are decoded (`_PieceCheck`): a note or an error reports lines that
`volt encode` does not write.
"""

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
    from volt.encode.array_files import Arrays
    from volt.files.blocks import Block
    from volt.vocabulary import Vocabulary

MAX_SHOWN_WORD = 40  # characters of a doubtful word that a message shows
ARRAY_LINES = 1 << 16  # lines of an array that are decoded together


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
    from volt.encode.array_files import read_arrays, refuse_arrays
    from volt.errors import ConfigError

    files = text.files
    check_distinct_files([out], files, model=text.model)
    separator = check_separator(separator)
    vocabulary = load_model(text.model, texts=files, pattern=text.pattern)
    if separator and (form != "pieces" or vocabulary.marker != "suffix"):
        raise ConfigError(
            "--separator works only with pieces of a vocabulary whose marker is suffix; remove it"
        )
    reading = {**text.limits, "wait": choose_wait(out)}
    check = _PieceCheck(vocabulary)
    if form in ("npy", "bin"):
        lines = _decode_arrays(vocabulary, [read_arrays(path, form) for path in files])
    else:
        for path in files:
            refuse_arrays(path)
        if form == "ids":
            lines = _decode_ids(vocabulary, files, **reading)
        else:
            lines = _decode_pieces(vocabulary, files, check=check, separator=separator, **reading)
    with open_output(out) as file:
        write_and_flush_each(file, lines)
    check.report()


def _decode_arrays(vocabulary: Vocabulary, arrays: Iterable[Arrays]) -> Iterator[bytes]:
    """Yield the text of arrays of ids.

    Line n of an array has the ids from offsets[n] to offsets[n + 1].
    """
    from volt.encode.decoder import Decoder

    decoder = Decoder.of(vocabulary)
    for ids, offsets in arrays:
        for first_line in range(0, len(offsets) - 1, ARRAY_LINES):
            bounds = offsets[first_line : first_line + ARRAY_LINES + 1]
            yield decoder.decode_bytes(ids[bounds[0] : bounds[-1]], bounds - bounds[0])


def _decode_ids(vocabulary: Vocabulary, files: list[str], **reading: Any) -> Iterator[bytes]:
    from volt.encode.decoder import Decoder

    decoder = Decoder.of(vocabulary)
    for block in read_text_blocks(files, **reading):
        yield decoder.decode_text(block.data, place=block.place)


def _decode_pieces(
    vocabulary: Vocabulary, files: list[str], *, check: _PieceCheck, separator: str, **reading: Any
) -> Iterator[bytes]:
    from volt.encode.decoder import decode
    from volt.encode.rendering import without_spaces

    is_bytes = vocabulary.pretokenizer.is_bytes
    tokens_with_spaces = dict[str, str]()  # their spelling in encode's output → the tokens
    for token in vocabulary.special.spaced:
        spelling = without_spaces(token, is_bytes=is_bytes)
        if spelling not in vocabulary.ids:
            tokens_with_spaces[spelling] = token

    for block in read_text_blocks(files, **reading):
        lines = []
        for line in decode_lines(block):
            pieces = [tokens_with_spaces.get(piece, piece) for piece in line.split(" ") if piece]
            if separator:
                pieces = replace_separators(pieces, separator, whole_tokens=check.whole_tokens)
            lines.append(pieces)
        check.add(block, lines)
        yield "".join(decode(vocabulary, pieces) + "\n" for pieces in lines).encode()


def replace_separators(
    pieces: list[str], separator: str, *, whole_tokens: Collection[str] = ()
) -> list[str]:
    """Convert subword-nmt's pieces, which mark where words continue, to pieces that mark their end.

    whole_tokens: special and byte tokens, which carry no mark; an end of word after them is a piece
        of its own

    >>> replace_separators(["lo@@", "w", "<url>"], "@@", whole_tokens=["<url>"])
    ['lo', 'w</w>', '<url>', '</w>']
    """
    converted = list[str]()
    for piece in pieces:
        if piece.endswith(separator):
            converted.append(piece.removesuffix(separator))
        elif piece in whole_tokens:
            converted += [piece, SUFFIX]
        else:
            converted.append(piece + SUFFIX)
    return converted


class _PieceCheck:
    """Looks for doubtful lines: lines that `volt encode` does not write.

    A line is doubtful if it has a piece of several characters that the vocabulary lacks (unknown
    text is encoded as single characters), or if it lacks the marker where a word must end or start.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        from volt.text.byte_alphabet import BYTE_TOKENS

        self.whole_tokens = {*vocabulary.special.user, *BYTE_TOKENS}
        self._vocabulary = vocabulary
        self._known_pieces = {*vocabulary.pieces, *self.whole_tokens}
        self._unmarked_pieces = {*vocabulary.special.all, *self.whole_tokens}
        self._n_lines = 0
        self._n_doubtful = 0
        self._n_foreign = 0  # doubtful lines with an unknown piece
        self._first_doubtful = ""  # its place and piece

    def add(self, block: Block, lines: Sequence[list[str]]) -> None:
        """Check the lines of a block.

        Raises CorpusError for a line of ids, and if no word of the first block is known.
        """
        if self._vocabulary.fuse_unk:  # any text can be an unknown piece
            return
        for line_index, pieces in enumerate(lines):
            self._n_lines += 1
            piece = self._find_doubtful_piece(pieces)
            if piece is None:
                continue
            if all(map(str.isdecimal, pieces)):
                message = f"{block.place(line_index)}: these are ids, not pieces of the vocabulary; decode them with"
                raise CorpusError(message, hint={"form": "ids"})
            self._n_doubtful += 1
            self._n_foreign += piece not in self._known_pieces
            if not self._first_doubtful:
                self._first_doubtful = f"{block.place(line_index)}: {piece[:MAX_SHOWN_WORD]!r}"
        is_first_block = self._n_lines == len(lines)
        words = {piece for pieces in lines for piece in pieces}
        if self._n_doubtful and is_first_block and words.isdisjoint(self._known_pieces):
            raise CorpusError(
                f"{self._first_doubtful} is not a piece of the vocabulary, nor is any other word; give its pieces"
            )

    def _find_doubtful_piece(self, pieces: list[str]) -> str | None:
        """Return the piece that makes a line doubtful, or None.

        It is the first long piece that is unknown, or the piece that lacks the marker.
        """
        for piece in pieces:
            n_characters = len(piece.removesuffix(SUFFIX).removeprefix(PREFIX))
            if n_characters > 1 and piece not in self._known_pieces:
                return piece
        if not pieces:
            return None
        pretokenizer = self._vocabulary.pretokenizer
        marker = self._vocabulary.marker
        lacks_marker = False
        marked_piece = pieces[0]
        if marker == "suffix" and not pretokenizer.keeps_spaces:
            marked_piece = pieces[-1]
            lacks_marker = not marked_piece.endswith(SUFFIX)
        elif marker == "prefix" and not pretokenizer.is_bytes:
            lacks_marker = not marked_piece.startswith(PREFIX)
        is_doubtful = lacks_marker and marked_piece not in self._unmarked_pieces
        return marked_piece if is_doubtful else None

    def report(self) -> None:
        """Note doubtful lines. Raises CorpusError if every line has an unknown piece."""
        if self._n_foreign and self._n_foreign == self._n_lines:
            fault = f"{self._first_doubtful} is not a piece of the vocabulary"
            if self._n_lines > 1:
                fault += ", and all other lines have such words"
            raise CorpusError(f"{fault}; give pieces, or the vocabulary that made them")
        if self._n_doubtful:
            lines = f"{self._n_doubtful:,} of {counted(self._n_lines, 'line')}"
            say(
                f"note: in {lines}, words are not pieces as volt encode writes them, so the text may be wrong; "
                f"first {self._first_doubtful}"
            )
