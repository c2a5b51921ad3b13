"""`volt encode`: text → pieces or ids, line by line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from volt.errors import ConfigError
from volt_cli.lines import open_output, read_lines
from volt_cli.models import load_model


def encode(
    files: Annotated[list[str] | None, typer.Argument(help="Files, globs or folders; default: stdin.")] = None,
    model: Annotated[Path, typer.Option("-m", "--model", help="A vocabulary file, VOLT's or another.")] = ...,  # type: ignore[assignment]
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write; default: stdout.")] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print ids instead of pieces.")] = False,
    separator: Annotated[
        str, typer.Option(help="Mark pieces that do not end a word, as subword-nmt does with @@.")
    ] = "",
    dropout: Annotated[float, typer.Option(help="Probability of passing over a merge.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="What dropout draws from.")] = None,
    encoding_errors: Annotated[str, typer.Option(help="Lines that are not UTF-8: strict, replace or skip.")] = "strict",
) -> None:
    """Encode text with a vocabulary: one line of pieces, with a space between two, per line of text."""
    from volt.encoder import Encoder

    encoder, done = Encoder(load_model(model)), 0
    if separator and (ids or encoder.vocabulary.marker != "suffix"):
        raise ConfigError("--separator goes with pieces of a vocabulary whose marker is suffix; leave it out")
    with open_output(out) as file:
        for lines in read_lines(files, errors=encoding_errors):
            encoded = encoder.encode_lines(lines, dropout=dropout, seed=seed, first=done)
            done += len(lines)
            for pieces in encoded:
                if ids:
                    row = " ".join(map(str, encoder.ids(pieces).tolist()))
                else:
                    row = " ".join(joined(pieces, separator) if separator else pieces)
                file.write(row.encode() + b"\n")
    sys.stdout.flush()


def joined(pieces: list[str], separator: str) -> list[str]:
    """Pieces in subword-nmt's convention: the separator follows those that do not end their word.

    >>> joined(["lo", "w</w>"], "@@")
    ['lo@@', 'w']
    """
    from volt.atoms import SUFFIX

    spelled: list[str] = []
    for piece in pieces:
        if piece == SUFFIX and spelled:  # the word ends behind a user token or a byte
            spelled[-1] = spelled[-1].removesuffix(separator)
        else:
            spelled.append(piece.removesuffix(SUFFIX) if piece.endswith(SUFFIX) else piece + separator)
    return spelled
