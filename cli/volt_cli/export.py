"""`volt export`: a vocabulary → the files of another library.

If the library needs a closed vocabulary (every intermediate result of a merge is a token), ids
differ from MODEL's. The closed vocabulary is then also written in VOLT's format, as
OUT.closed.volt, to encode text with the new ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from volt.errors import ConfigError, shown_path
from volt.urls import name_of
from volt_cli.console import say
from volt_cli.io import (
    check_distinct_files,
    is_stdout,
    load_model,
    name_stdout,
    report_written,
    writable_path,
)
from volt_cli.library_check import CheckOptions, report_agreement
from volt_cli.options import FORMATS, Model, Quiet, flag, name_options, option, readable

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary

WRITE_SEVERAL = ("subword-nmt", "sentencepiece", "huggingface")  # formats of more than one file


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    model: Model
    to: Annotated[str, option("FORMAT", f"{', '.join(FORMATS)}.", "--to", words=FORMATS)]
    out: Annotated[
        Path, option("PLACE", "The file or folder to write, or - for stdout.", "-o", "--output")
    ]
    checking: CheckOptions
    closed: Annotated[
        bool,
        flag(
            "Keep intermediate results of merges as tokens, as huggingface always does; write that vocabulary, too.",
            "--closed",
        ),
    ] = False
    chat_template: Annotated[
        Path | None,
        option(
            "FILE", "For huggingface: a Jinja template of chats.", callback=readable(ConfigError)
        ),
    ] = None
    quiet: Quiet = False


def export(options: ExportOptions) -> None:
    """Write a vocabulary for another library.

    Reports on stderr what the format cannot store, and what the library does differently.
    """
    from volt.formats.registry import closing_order, files_written, write_vocabulary

    to = options.to
    out = options.out
    checking = options.checking
    if is_stdout(out) and to in WRITE_SEVERAL:
        raise ConfigError(
            f"-o -: {to} writes more than one file, but stdout takes only one; name a file or folder"
        )
    checking.check_format(to)
    inputs = [*(checking.text or ()), options.chat_template]
    outputs = [out] if is_stdout(out) else files_written(out, to=to)
    check_distinct_files(outputs, inputs, model=options.model)
    vocabulary = load_model(
        options.model,
        texts=checking.text or (),
        pattern=checking.pattern,
        quiet=options.quiet,
    )
    exported = vocabulary
    if options.closed or to == "huggingface":
        exclude = vocabulary.special.user if to == "huggingface" else ()
        exported = vocabulary.closed(order=closing_order(to), exclude=exclude)
    has_new_ids = exported.pieces != vocabulary.pieces
    companion = None
    if has_new_ids and not is_stdout(out):
        companion = out.with_name(f"{out.name}.closed.volt")
        check_distinct_files([companion], inputs, model=options.model)

    with writable_path(out) as path:
        notes = write_vocabulary(exported, path, to=to, chat_template=options.chat_template)
        compared = exported if options.closed else vocabulary
        agreement = checking.compare(compared, path, to)
    if companion:
        exported.save(companion)
    if not options.quiet:
        if has_new_ids:
            _note_new_ids(vocabulary, exported, options.model, companion)
        for note in notes:
            say(f"note: {name_options(name_stdout(note, out, path))}")
        main_file = out
        if outputs and outputs[0].parent == out.parent:  # otherwise, `out` is a folder
            main_file = outputs[0]
        report_written(main_file, f"{exported.size:,} tokens for {to}")
    if agreement:
        report_agreement(agreement, out)


def _note_new_ids(
    vocabulary: Vocabulary, exported: Vocabulary, model: Path, companion: Path | None
) -> None:
    remedy = "import it to encode with its ids"
    if companion:
        remedy = f"encode with {shown_path(companion)}"
    say(
        f"note: ids differ from those of {name_of(model) or model}: the export has "
        f"{len(exported):,} ids (rows of an embedding) instead of {len(vocabulary):,}; "
        f"from now on, {remedy}"
    )
