"""`volt decode`: pieces or ids → text, line by line."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from volt_cli.io import check_places, load_model, open_output, read_lines, text_blocks, waiting_for, write_each
from volt_cli.options import ModelAndText, Separator, checked_separator, option

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


def decode(
    text: ModelAndText,
    out: Annotated[Path, option("FILE", "Where to write, or - for stdout.", "-o", "--output")] = Path("-"),
    form: Annotated[Literal["pieces", "ids"], option("FORM", "Form of the input: pieces or ids.")] = "pieces",
    separator: Separator = None,
) -> None:
    """Decode pieces or ids to text, line by line.

    This reverses `volt encode`.
    """
    from volt.errors import ConfigError

    check_places([out], text.files, model=text.model)
    mark = checked_separator(separator)
    vocabulary = load_model(text.model, texts=text.files, pattern=text.pattern)
    if mark and (form == "ids" or vocabulary.marker != "suffix"):
        raise ConfigError("--separator works only with pieces of a vocabulary whose marker is suffix; remove it")
    reading = {**text.limits, "wait": waiting_for(out)}
    with open_output(out) as file:
        if form == "ids":
            write_each(file, _from_ids(vocabulary, text.files, **reading))
        else:
            write_each(file, _from_pieces(vocabulary, text.files, separator=mark, **reading))


def _from_ids(vocabulary: Vocabulary, files: list[str], **reading: Any) -> Iterator[bytes]:
    from volt.encode.decoder import Decoder

    decoder = Decoder.of(vocabulary)
    for block in text_blocks(files, **reading):
        yield decoder.decode_text(block.data, place=block.place)


def _from_pieces(vocabulary: Vocabulary, files: list[str], *, separator: str, **reading: Any) -> Iterator[bytes]:
    from volt.encode.decoder import decode
    from volt.encode.rendering import without_spaces
    from volt.text.byte_alphabet import BYTE_TOKENS

    whole = {*vocabulary.special.user, *BYTE_TOKENS}
    is_bytes, users = vocabulary.pretokenizer.is_bytes, vocabulary.special.spaced
    spaced = {without_spaces(token, is_bytes=is_bytes): token for token in users}
    spaced = {text: token for text, token in spaced.items() if text not in vocabulary.ids}

    def decoded(line: str) -> str:
        row = [spaced.get(piece, piece) for piece in line.split(" ") if piece]
        return decode(vocabulary, marked(row, separator, whole=whole) if separator else row) + "\n"

    for lines in read_lines(files, **reading):
        yield "".join(map(decoded, lines)).encode()


def marked(pieces: list[str], separator: str, *, whole: Collection[str] = ()) -> list[str]:
    """Convert subword-nmt's pieces to VOLT's. whole: special and byte tokens; "</w>" follows them as a separate piece

    >>> marked(["lo@@", "w", "<url>"], "@@", whole=["<url>"])
    ['lo', 'w</w>', '<url>', '</w>']
    """
    from volt.text.atoms import SUFFIX

    spelled: list[str] = []
    for piece in pieces:
        if piece.endswith(separator):
            spelled.append(piece.removesuffix(separator))
        else:
            spelled += [piece, SUFFIX] if piece in whole else [piece + SUFFIX]
    return spelled
