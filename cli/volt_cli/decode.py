"""`volt decode`: pieces or ids → text, line by line."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from volt.errors import ConfigError, CorpusError
from volt_cli.lines import open_output, read_lines
from volt_cli.models import load_model


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
    from volt.encoder import Encoder
    from volt.special import BYTE_TOKENS

    encoder, done = Encoder(load_model(model)), 0
    if separator and (ids or encoder.vocabulary.marker != "suffix"):
        raise ConfigError("--separator goes with pieces of a vocabulary whose marker is suffix; leave it out")
    whole = {*encoder.vocabulary.special.user, *BYTE_TOKENS}
    with open_output(out) as file:
        for lines in read_lines(files, errors=encoding_errors):
            for number, line in enumerate(lines, done + 1):
                row = [piece for piece in line.split(" ") if piece]
                if ids:
                    text = encoder.decode_ids(_numbers(row, number))
                else:
                    text = encoder.decode(marked(row, separator, whole=whole) if separator else row)
                file.write(text.encode() + b"\n")
            done += len(lines)
    sys.stdout.flush()


def _numbers(row: list[str], line: int) -> list[int]:
    for text in row:
        if not text.isdecimal():
            raise CorpusError(f"line {line}: {text!r} is no id; --ids reads whole numbers with spaces between them")
    return [int(text) for text in row]


def marked(pieces: list[str], separator: str, *, whole: Collection[str] = ()) -> list[str]:
    """Pieces in subword-nmt's convention → ours: "</w>" follows what ends a word, by itself behind `whole` ones.

    >>> marked(["lo@@", "w", "<url>"], "@@", whole=["<url>"])
    ['lo', 'w</w>', '<url>', '</w>']
    """
    from volt.atoms import SUFFIX

    spelled: list[str] = []
    for piece in pieces:
        if piece.endswith(separator):
            spelled.append(piece.removesuffix(separator))
        else:
            spelled += [piece, SUFFIX] if piece in whole else [piece + SUFFIX]
    return spelled
