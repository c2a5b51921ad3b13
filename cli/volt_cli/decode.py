"""`volt decode`: pieces or ids → text, line by line.

The files say whether they are text, arrays of ids, or pairs of `volt binarize`; text whose words are
all numbers is ids, unless its name ends in .pieces. Any list of words can be decoded as pieces, but
the text is wrong if they are not the vocabulary's. So pieces are checked while they are decoded
(`_PieceCheck`): a note or an error reports lines that `volt encode` does not write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from volt.display import counted
from volt.errors import ConfigError, CorpusError, VocabularyError, shown_path
from volt.text.atoms import PREFIX, SUFFIX
from volt_cli.console import say
from volt_cli.io import (
    check_destinations,
    choose_wait,
    decode_lines,
    load_model,
    open_output,
    read_text_blocks,
    warn_of_table_columns,
    write_and_flush_each,
)
from volt_cli.options import ModelAndTable, Output, Separator, check_separator, flag, option

if TYPE_CHECKING:
    from volt.array_types import Ints, Longs
    from volt.encode.decoder import Decoder
    from volt.encode.table_outputs import TableWriter
    from volt.files.blocks import Block
    from volt.files.table_rows import TextColumns, TextRows
    from volt.vocabulary import Vocabulary

MAX_SHOWN_WORD = 40  # characters of a doubtful word that a message shows
ARRAY_KINDS = ("npy", "bin", "idx")
ARRAY_LINES = 1 << 16  # lines of an array that are decoded together
_ID = re.compile("0|[1-9][0-9]*")


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    text: ModelAndTable
    out: Output = Path("-")
    form: Annotated[
        Literal["pieces", "ids", "npy", "bin"] | None,
        option("FORM", "Form of the input, as in volt encode; default: what the files contain."),
    ] = None
    to_column: Annotated[
        str | None, option("NAME", "Write the table of --column, with texts in a new column.")
    ] = None
    separator: Separator = None
    skip_special: Annotated[
        bool,
        flag("Leave out special tokens.", "--skip-special"),
    ] = False


def decode(options: DecodeOptions) -> None:
    """Decode pieces or ids to text, line by line.

    This reverses `volt encode`, and `volt binarize` without its bos and eos around each line. Arrays
    and pairs of files are recognised by their content. Of a table, --column or --fields names the
    ids or pieces, and the output is a table as in `volt encode`.
    """
    from volt.encode.table_outputs import TableWriter
    from volt.files.table_rows import TextColumns
    from volt.files.tables import kind_of_name

    text = options.text
    out = options.out
    form = options.form
    check_destinations({"output": out}, text.files, model=text.model)
    separator = check_separator(options.separator)
    vocabulary = load_model(text.model, texts=text.files, pattern=text.pattern)
    if separator and (form not in ("pieces", None) or vocabulary.marker != "suffix"):
        raise ConfigError(
            "--separator works only with pieces of a vocabulary whose marker is suffix; remove it"
        )
    if separator:
        form = "pieces"
    reading = {**text.limits, "wait": choose_wait(out)}
    columns = TextColumns(reading.pop("column"), reading.pop("fields"))
    if options.to_column and not columns.column:
        raise ConfigError("--to-column needs the column of a table; add --column")
    decoding = _Decoding(vocabulary, separator, skip_special=options.skip_special)
    with open_output(out) as file:
        if columns:
            writer = None
            kind = kind_of_name(out.name)
            if columns.fields or options.to_column or kind:
                kind = kind if columns.column else None
                writer = TableWriter(columns, to_column=options.to_column, kind=kind)
            texts = decoding.decode_tables(text.files, form, columns, writer, **reading)
        else:
            texts = decoding.decode_files(text.files, form, **reading)
        write_and_flush_each(file, texts)
    decoding.check.report()


def _choose_form(form: str | None, path: str) -> str | None:
    """Return the form of a file; None for text that may be pieces or ids.

    form: the value of --form, if any
    """
    from volt.encode.outputs import form_of

    found = form_of(path)
    if found == "text" and form in (None, "pieces", "ids"):
        return form
    if form not in (None, found):
        raise CorpusError(f"{shown_path(path)}: its form is {found}; remove --form or --separator")
    return found


class _Decoding:
    """Decodes files with one vocabulary.

    separator: the mark after pieces that do not end a word; "" for none
    """

    def __init__(
        self, vocabulary: Vocabulary, separator: str, *, skip_special: bool = False
    ) -> None:
        from volt.encode.decoder import skipped_ids
        from volt.encode.rendering import without_spaces

        self.check = _PieceCheck(vocabulary)
        self._vocabulary = vocabulary
        self._skipped = skipped_ids(vocabulary, skip_special)
        self._separator = separator
        self._tokens_with_spaces = dict[str, str]()  # by their spelling in encode's output
        is_bytes = vocabulary.pretokenizer.is_bytes
        for token in vocabulary.special.spaced:
            spelling = without_spaces(token, is_bytes=is_bytes)
            if spelling not in vocabulary.ids:
                self._tokens_with_spaces[spelling] = token

    @cached_property
    def _decoder(self) -> Decoder:
        from volt.encode.decoder import Decoder

        return Decoder.of(self._vocabulary)

    def decode_files(self, paths: list[str], form: str | None, **reading: Any) -> Iterator[bytes]:
        """Yield the text of files. form: the value of --form, if any"""
        from volt.encode.outputs import without_partners

        forms = [(path, _choose_form(form, path)) for path in without_partners(paths)]
        warn_of_table_columns([path for path, kind in forms if kind not in ARRAY_KINDS], "decoded")
        for path, chosen in forms:
            if chosen in ARRAY_KINDS:
                yield from self.decode_arrays(path, chosen)
            else:
                yield from self.decode_text(path, chosen, **reading)

    def decode_tables(
        self,
        paths: list[str],
        form: str | None,
        columns: TextColumns,
        writer: TableWriter | None,
        **reading: Any,
    ) -> Iterator[bytes]:
        """Yield the texts of tables as lines, or the parts of a table that goes to a stream."""
        import numpy as np

        from volt.encode.arrays import EncodedPart
        from volt.files.table_rows import read_texts

        reading |= {"takes_ids": True, "keeps_columns": writer is not None}
        for path in paths:
            chosen = form
            for rows in read_texts(path, columns, **reading):
                lines = [self._split(text) for text in rows.texts.to_pylist()]
                if rows.are_ids:
                    chosen = "ids"
                chosen = chosen or find_form(lines, path, rows.place)
                if chosen == "ids":
                    ids = self._decoder.parse_text(rows.join(b"\n"), place=rows.place)
                    decoded = self._decoder.decode_lines(*ids, skipped=self._skipped)
                else:
                    decoded = self._decode_pieces(rows, lines)
                texts = [f"{text}\n".encode() for text in decoded]
                data = b"".join(texts)
                if writer:
                    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
                    yield writer.add(rows, EncodedPart(np.frombuffer(data, np.uint8), ends))
                elif data.count(b"\n") > len(texts):
                    raise CorpusError(
                        f"{rows.place(0)}: from here on, a text contains a line end; write a table, "
                        "such as -o texts.jsonl"
                    )
                else:
                    yield data
        if writer:
            yield writer.close()

    def _decode_pieces(self, block: Block | TextRows, lines: Sequence[list[str]]) -> list[str]:
        from volt.encode.decoder import decode

        self.check.add(block, lines)
        if self._skipped:
            lines = [[*filter(self._is_retained, pieces)] for pieces in lines]
        return [decode(self._vocabulary, pieces) for pieces in lines]

    def _is_retained(self, piece: str) -> bool:
        return self._vocabulary.ids.get(piece) not in self._skipped

    def _decode_ids(self, ids: Ints, offsets: Longs) -> bytes:
        if self._skipped:
            return _join(self._decoder.decode_lines(ids, offsets, skipped=self._skipped))
        return self._decoder.decode_bytes(ids, offsets)

    def decode_arrays(self, path: str, form: str) -> Iterator[bytes]:
        """Yield the text of the ids in npy, bin or idx files."""
        from volt.encode.outputs import open_arrays

        ids, offsets = open_arrays(path, form)
        for first in range(0, len(offsets) - 1, ARRAY_LINES):
            bounds = offsets[first : first + ARRAY_LINES + 1]
            part = ids[bounds[0] : bounds[-1]].astype("i8")
            try:
                part, bounds = self._decoder.check_ids(part, bounds - bounds[0])
            except VocabularyError as error:
                place = f"{shown_path(path)}: from line {first + 1:,}"
                advice = "give the vocabulary that made the ids, or encode the text again"
                raise error.reworded(f"{place}: {error.message}; {advice}") from None
            if form == "idx":
                part, bounds = self._without_frame(part, bounds)
            yield self._decode_ids(part, bounds)

    def _without_frame(self, ids: Ints, offsets: Longs) -> tuple[Ints, Longs]:
        """Leave out the bos and eos around each line, which `volt binarize` adds."""
        import numpy as np

        special = self._vocabulary.special
        kept = np.ones(len(ids), bool)
        has_ids = offsets[:-1] < offsets[1:]
        for token, places in ((special.bos, offsets[:-1]), (special.eos, offsets[1:] - 1)):
            if token is not None:
                places = places[has_ids]
                kept[places] &= ids[places] != self._vocabulary.ids[token]
        return ids[kept], np.append(0, np.cumsum(kept))[offsets]

    def decode_text(self, path: str, form: str | None, **reading: Any) -> Iterator[bytes]:
        """Yield the text of pieces or ids in a text file. form: None to find it out"""
        for block in read_text_blocks([path], **reading):
            lines = []
            if form != "ids":
                lines = [self._split(line) for line in decode_lines(block)]
                form = form or find_form(lines, path, block.place)
            if form == "ids":
                ids = self._decoder.parse_text(block.data, place=block.place)
                yield self._decode_ids(*ids)
            else:
                yield _join(self._decode_pieces(block, lines))

    def _split(self, line: str) -> list[str]:
        words = line.split(" ")
        pieces = [self._tokens_with_spaces.get(word, word) for word in words if word]
        if self._separator:
            pieces = replace_separators(
                pieces, self._separator, whole_tokens=self.check.whole_tokens
            )
        return pieces


def _join(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


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


def find_form(lines: Sequence[list[str]], path: str, place: Callable[[int], str]) -> str | None:
    """Return the form of a text that starts with these lines; None if they are blank.

    Numbers are ids, unless the file's name says that they are pieces.

    path: the file
    place: maps a line's index to the line's name in messages

    >>> find_form([["12", "7"]], "x.ids", str), find_form([["12", "a"]], "x.ids", str)
    ('ids', 'pieces')
    """
    words = set(chain.from_iterable(lines))
    if not words:
        return None
    ending = Path(path).suffix
    if ending == ".pieces" or not all(map(_ID.fullmatch, words)):
        return "pieces"
    if ending != ".ids":
        say(
            f"note: {place(0)}: these are numbers, and are decoded as ids; for pieces, add --form pieces"
        )
    return "ids"


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

    def add(self, block: Block | TextRows, lines: Sequence[list[str]]) -> None:
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
