"""`volt inspect`: what is in a vocabulary file, and how it cuts a text of yours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.errors import ConfigError, shown
from volt_cli.console import loading, output, print_json
from volt_cli.models import load_model
from volt_cli.options import Json, Model

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary

MOST_OF_VALUE = 1000  # characters of an entry of the provenance, or of a setting


def inspect(
    model: Model,
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Text to cut.")] = None,
    n: Annotated[int, typer.Option("-n", metavar="N", help="How many tokens to list.")] = 10,
    as_json: Json = False,
) -> None:
    """Show what is in a vocabulary, and how it cuts a text.

    Prints sizes, settings, provenance, the most frequent and the longest tokens.
    """
    if n < 0:
        raise ConfigError(f"-n {n}: give how many tokens to list, 0 or more")
    line = " ".join(text or [])
    with loading():
        data = _data(model, line, n)
    if as_json:
        print_json(data, indent=1)
    else:
        _show(data, line)


def _data(model: Path, line: str, n: int) -> dict[str, Any]:
    """All that is shown, as JSON values."""
    from volt.choose.report import vocabulary_data

    vocabulary = load_model(model)
    counted = list(zip(vocabulary.tokens, vocabulary.counts or [0] * vocabulary.size, strict=True))
    return {
        "file": str(model),
        "fingerprint": vocabulary.fingerprint,
        **vocabulary_data(vocabulary),
        "provenance": dict(vocabulary.provenance),
        "most_frequent": sorted(counted, key=lambda row: -row[1])[:n],
        "longest": sorted(counted, key=lambda row: (-len(row[0]), -row[1]))[:n],
        "pieces": _cut(vocabulary, line) if line else [],
    }


def _cut(vocabulary: Vocabulary, line: str) -> list[str]:
    from volt.encode.encoder import Encoder

    return Encoder(vocabulary).encode(line)


def _show(data: dict[str, Any], line: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in data.items():
        if name == "provenance":
            for key, entry in value.items():
                table.add_row(Text(shown(key.replace("_", " "))), Text(_plain(entry)))
        elif name in ("most_frequent", "longest"):
            table.add_row(
                name.replace("_", " "), Text("  ".join(f"{shown(token)} {count:,}" for token, count in value))
            )
        elif name == "pieces":
            if line:
                table.add_row("cut", Text(" ".join(map(shown, value))))
        else:
            text = " ".join(map(shown, value)) if isinstance(value, list) else _plain(value)
            table.add_row(name.replace("_", " "), Text(text))
    output().print(table, soft_wrap=True)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else shown(value, MOST_OF_VALUE)
