"""`volt decode`: pieces or ids → text, line by line."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt_cli.lines import BLOCK_SIZE, open_output, read_lines
from volt_cli.models import load_model

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


def decode(
    model: Annotated[Path, typer.Option("-m", "--model", help="A vocabulary file, VOLT's or another.")],
    files: Annotated[list[str] | None, typer.Argument(help="Files, globs or folders; default: stdin.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write; default: stdout.")] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Read ids instead of pieces.")] = False,
    separator: Annotated[
        str, typer.Option(help="What marks pieces that do not end a word, such as subword-nmt's @@.")
    ] = "",
    encoding_errors: Annotated[str, typer.Option(help="Lines that are not UTF-8: strict, replace or skip.")] = "strict",
) -> None:
    """Undo `volt encode`."""
    from volt.errors import ConfigError

    vocabulary = load_model(model)
    if separator and (ids or vocabulary.marker != "suffix"):
        raise ConfigError("--separator goes with pieces of a vocabulary whose marker is suffix; leave it out")
    with open_output(out) as file:
        if ids:
            file.writelines(_from_ids(vocabulary, files, errors=encoding_errors))
        else:
            file.writelines(_from_pieces(vocabulary, files, separator=separator, errors=encoding_errors))
    sys.stdout.flush()


def _from_ids(vocabulary: Vocabulary, files: list[str] | None, *, errors: Any) -> Iterator[bytes]:
    """The text of files of ids, block by block."""
    from volt.encode.decoder import Decoder
    from volt.files.blocks import read_blocks
    from volt.files.paths import expand

    decoder = Decoder.of(vocabulary)
    for path in expand(files or ["-"]):
        for block in read_blocks(path, block_size=BLOCK_SIZE, errors=errors):
            yield decoder.decode_text(block.data, place=block.place)


def _from_pieces(vocabulary: Vocabulary, files: list[str] | None, *, separator: str, errors: str) -> Iterator[bytes]:
    """The text of files of pieces, line by line."""
    from volt.encode.decoder import decode
    from volt.text.markers import BYTE_TOKENS

    whole = {*vocabulary.special.user, *BYTE_TOKENS}
    for lines in read_lines(files, errors=errors):
        for line in lines:
            row = [piece for piece in line.split(" ") if piece]
            yield decode(vocabulary, marked(row, separator, whole=whole) if separator else row).encode() + b"\n"


def marked(pieces: list[str], separator: str, *, whole: Collection[str] = ()) -> list[str]:
    """Pieces in subword-nmt's convention → ours: "</w>" follows what ends a word, by itself behind `whole` ones.

    >>> marked(["lo@@", "w", "<url>"], "@@", whole=["<url>"])
    ['lo', 'w</w>', '<url>', '</w>']
    """
    from volt.text.markers import SUFFIX

    spelled: list[str] = []
    for piece in pieces:
        if piece.endswith(separator):
            spelled.append(piece.removesuffix(separator))
        else:
            spelled += [piece, SUFFIX] if piece in whole else [piece + SUFFIX]
    return spelled
