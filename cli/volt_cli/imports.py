"""`volt import`: the file of another library → a VOLT vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volt_cli.inputs import readable_model
from volt_cli.models import say_losses
from volt_cli.options import FORMATS, Quiet, starting
from volt_cli.places import check_place, check_places, save, say_written


def import_(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", callback=readable_model, help="A file, or a folder for huggingface.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the vocabulary, or - for stdout.")
    ],
    format: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FORMAT",
            autocompletion=starting(FORMATS),
            help="Its format; default: told by the content.",
        ),
    ] = "",
    merges: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=readable_model,
            help="For lists of tokens: subword-nmt codes, a sentencepiece .model or a VOLT vocabulary.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Read a vocabulary of another library, and write it as VOLT's.

    Says on stderr what the file does not tell, and what VOLT does differently.
    """
    from volt.formats.registry import files_read, read_vocabulary

    check_places([out], [*files_read(path, format=format or None), merges])
    check_place(out)
    vocabulary = read_vocabulary(path, format=format or None, merges=merges)
    save(vocabulary, out)
    if not quiet:
        say_losses(path, vocabulary)
        say_written(out, f"{vocabulary.size:,} tokens, {len(vocabulary.merges):,} merges")
