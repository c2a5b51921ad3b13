"""`volt import`: the file of another library → a VOLT vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volt_cli.console import say


def import_(
    path: Annotated[Path, typer.Argument(help="A file, or a folder for huggingface.")],
    out: Annotated[Path, typer.Option("-o", "--output", help="Where to write the vocabulary.")],
    format: Annotated[str, typer.Option("--from", help="Its format; default: told by the content.")] = "",
    merges: Annotated[
        Path | None,
        typer.Option(help="For lists of tokens: subword-nmt codes, a sentencepiece .model or a VOLT vocabulary."),
    ] = None,
) -> None:
    """Read a vocabulary of another library and write it as a VOLT vocabulary."""
    from volt.files.atomic import check_writable
    from volt.formats.registry import read_vocabulary

    check_writable(out)
    vocabulary = read_vocabulary(path, format=format or None, merges=merges)
    vocabulary.save(out)
    say(f"wrote {out}: {vocabulary.size:,} tokens, {len(vocabulary.merges):,} merges")
