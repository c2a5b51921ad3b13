"""`volt import`: the file of another library → a VOLT vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volt_cli.agreements import lines_to_check, print_agreement, refuse_unchecked
from volt_cli.console import say
from volt_cli.inputs import readable_model, readable_texts
from volt_cli.models import read_once, say_losses
from volt_cli.named_tokens import NamedTokens
from volt_cli.options import FORMATS, MAX_LINE, EncodingErrors, MaxLine, Pattern, Quiet, starting
from volt_cli.places import check_place, check_places, is_stdout, save, say_written


def import_(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", callback=readable_model, help="A file, or a folder for huggingface.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the vocabulary, or - for stdout.")
    ],
    named: NamedTokens,
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT", callback=readable_texts, help="With --check: files, globs or folders to encode."
        ),
    ] = None,
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
    pattern: Pattern = None,
    check: Annotated[
        bool, typer.Option("--check", help="Encode TEXT here and with the file's own library; fail if they differ.")
    ] = False,
    encoding_errors: EncodingErrors = "strict",
    max_line: MaxLine = MAX_LINE,
    quiet: Quiet = False,
) -> None:
    """Read a vocabulary of another library, and write it as VOLT's.

    Says on stderr what the file does not tell, and what VOLT does differently.
    """
    from volt.files.paths import expand
    from volt.formats.check import check_import
    from volt.formats.registry import files_read, format_of, read_vocabulary

    refuse_unchecked(text, check, None)
    check_places([out], [*files_read(path, format=format or None), merges, *(expand(text) if text else ())])
    check_place(out)
    with read_once(path) as place:
        if check:
            refuse_unchecked(text, check, format or format_of(place))
        vocabulary = read_vocabulary(place, format=format or None, merges=merges, pattern=pattern, **named.ids())
        lines = lines_to_check(vocabulary, text, encoding_errors, max_line) if check else []
        save(vocabulary, out)
        if not quiet:
            say_losses(path, vocabulary)
            say_written(out, f"{vocabulary.size:,} tokens, {len(vocabulary.merges):,} merges")
        if check:
            if vocabulary.provenance.get("pattern") == "assumed" and not quiet:
                say(
                    "note: --check: the library was told the same pattern, which is only assumed; give it with "
                    "--pattern"
                )
            agreement = check_import(vocabulary, place, format or format_of(place), lines, pattern=pattern)
            print_agreement(agreement, written=out, on_stderr=is_stdout(out))
