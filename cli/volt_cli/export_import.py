"""`volt export` and `volt import`: a vocabulary → the files of another library, and back.

>>> NamedTokens(special=["<|end|>=7", "<url>"], eos="<|end|>").ids()
{'special': {'<|end|>': 7, '<url>': None}, 'eos': {'<|end|>': None}}
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.errors import ConfigError, VocabularyError, quoted, shown_path
from volt.urls import name_of
from volt_cli.console import say
from volt_cli.io import (
    check_destinations,
    check_distinct_files,
    decode_lines,
    is_stdout,
    load_model,
    name_stdout,
    read_text_blocks,
    report_losses,
    report_written,
    rereadable_path,
    save_vocabulary,
    show_destination,
    writable_path,
)
from volt_cli.options import (
    FORMATS,
    Model,
    Pattern,
    Quiet,
    Reading,
    argument,
    flag,
    input_paths,
    option,
    readable,
    with_options,
)

if TYPE_CHECKING:
    from volt.formats.check import Agreement
    from volt.vocabulary import Vocabulary


Texts = Annotated[
    list[str] | None,
    argument(
        "TEXT",
        "With --check: files, globs or folders to encode.",
        callback=lambda text: input_paths(text) if text else None,
    ),
]


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Reading):
    text: Texts = None
    check: Annotated[
        bool, flag("Also encode TEXT with the format's library; fail on differences.", "--check")
    ] = False
    pattern: Pattern = None

    def refuse(self, format: str | None) -> None:
        """Raise ConfigError if TEXT lacks --check, or if no library can check the format."""
        from volt.formats.registry import peer_loader

        if self.text and not self.check:
            raise ConfigError("TEXT works only with --check; add --check, or remove TEXT")
        if self.check and format is not None and peer_loader(format) is None:
            raise ConfigError(
                f"--check: no library can split text with {format} alone; remove --check"
            )

    def lines(self, vocabulary: Vocabulary) -> list[str]:
        """Return the lines of TEXT or, without TEXT, lines made of the vocabulary's tokens."""
        from volt.formats.check import probe_lines

        if not self.text:
            return probe_lines(vocabulary)
        return [
            line
            for block in read_text_blocks(self.text, **self.limits)
            for line in decode_lines(block)
        ]


def print_agreement(agreement: Agreement, out: Path) -> None:
    result = f"{agreement.library}: {agreement.n_equal_pieces:,} of {agreement.n_lines:,} lines have equal pieces"
    if agreement.n_equal_ids is not None:
        result += f", {agreement.n_equal_ids:,} equal ids"
    rows = [result]
    for difference in agreement.differences:
        rows += [
            f"line {difference.line}",
            f"  ours    {' '.join(difference.ours)}",
            f"  theirs  {' '.join(difference.theirs)}",
        ]
    stream = sys.stderr if is_stdout(out) else sys.stdout
    stream.buffer.write("\n".join(rows).encode(errors="backslashreplace") + b"\n")
    stream.flush()
    if not agreement.n_lines:
        say("note: --check: TEXT contains no lines, so nothing was compared")
    if not agreement.is_complete:
        say(f"note: --check: the encoders differ; {show_destination(out)} was written")
        raise typer.Exit(1)


_METAVAR = "TOKEN[=ID]"
_MOST_DIGITS = 18  # of an id


@dataclass(frozen=True)
class NamedTokens:
    PANEL = "Special tokens that the file does not declare"

    special: Annotated[
        list[str] | None,
        option(
            _METAVAR,
            "A token never split; default id: the file's, or the next; may be repeated.",
            "--special",
        ),
    ] = None
    unk: Annotated[str | None, option(_METAVAR, "The unknown token.")] = None
    bos: Annotated[str | None, option(_METAVAR, "The begin-of-sentence token.")] = None
    eos: Annotated[str | None, option(_METAVAR, "The end-of-sentence token.")] = None
    pad: Annotated[str | None, option(_METAVAR, "The padding token.")] = None

    def ids(self) -> dict[str, dict[str, int | None]]:
        result: dict[str, dict[str, int | None]] = {}
        for name, value in vars(self).items():
            for text in [value] if isinstance(value, str) else value or ():
                token, number = token_and_id(text)
                if result.setdefault(name, {}).setdefault(token, number) != number:
                    raise ConfigError(f"--{name} {quoted(token)} has two different ids; remove one")
        return result


def token_and_id(argument: str) -> tuple[str, int | None]:
    """Parse TOKEN or TOKEN=ID; the token may contain "=".

    >>> token_and_id("<|end|>=7"), token_and_id("<a=b>"), token_and_id("=7")
    (('<|end|>', 7), ('<a=b>', None), ('=7', None))
    """
    token, _, number = argument.rpartition("=")
    if token and number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS:
        return token, int(number)
    return argument, None


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    path: Annotated[
        Path,
        argument("PATH", "A file; for huggingface, a folder.", callback=readable(VocabularyError)),
    ]
    out: Annotated[
        Path, option("FILE", "Where to write the vocabulary, or - for stdout.", "-o", "--output")
    ]
    named: NamedTokens
    checking: CheckOptions
    format: Annotated[
        str,
        option(
            "FORMAT", "Format of PATH; default: detected from the content.", "--from", words=FORMATS
        ),
    ] = ""
    merges: Annotated[
        Path | None,
        option(
            "FILE",
            "Merges for a list of tokens: subword-nmt codes, a sentencepiece .model or a VOLT vocabulary.",
            callback=readable(VocabularyError),
        ),
    ] = None
    quiet: Quiet = False


def import_(options: ImportOptions) -> None:
    """Read a vocabulary of another library, and write it as VOLT's.

    Reports on stderr what the file lacks, and what VOLT does differently.
    """
    from volt.formats.check import check as compare_with_library
    from volt.formats.registry import files_read, format_of, read_with_format

    path = options.path
    checking = options.checking
    format = options.format or None
    checking.refuse(None)
    inputs = [*files_read(path, format=format), options.merges, *(checking.text or ())]
    check_destinations({"output": options.out}, inputs)
    with rereadable_path(path) as place:
        if checking.check:
            checking.refuse(format or format_of(place))
        pattern = checking.pattern
        vocabulary, name = read_with_format(
            place, format=format, merges=options.merges, pattern=pattern, **options.named.ids()
        )
        lines = list[str]()
        if checking.check:
            lines = checking.lines(vocabulary)
        save_vocabulary(vocabulary, options.out)
        if not options.quiet:
            report_losses(path, vocabulary)
            n_merges = len(vocabulary.merges)
            report_written(options.out, f"{vocabulary.size:,} tokens, {n_merges:,} merges")
        if not checking.check:
            return
        if vocabulary.provenance.get("pattern") == "assumed" and not options.quiet:
            say(
                "note: --check: the library used a pattern that VOLT assumed; give the real one "
                "with --pattern"
            )
        agreement = compare_with_library(vocabulary, place, name, lines)
        print_agreement(agreement, options.out)


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
    from volt.formats.check import check as compare_with_library
    from volt.formats.registry import closing_order, files_written, write_vocabulary

    to = options.to
    out = options.out
    checking = options.checking
    if is_stdout(out) and to in WRITE_SEVERAL:
        raise ConfigError(
            f"-o -: {to} writes more than one file, but stdout takes only one; name a file or folder"
        )
    checking.refuse(to)
    inputs = [*(checking.text or ()), options.chat_template]
    outputs = [out] if is_stdout(out) else files_written(out, to=to)
    check_distinct_files(outputs, inputs, model=options.model)
    vocabulary = load_model(options.model, texts=checking.text or (), pattern=checking.pattern)
    exported = vocabulary
    if options.closed or to == "huggingface":
        exclude = vocabulary.special.user if to == "huggingface" else ()
        exported = vocabulary.closed(order=closing_order(to), exclude=exclude)
    companion = None  # a vocabulary with the ids of the export
    if exported.pieces != vocabulary.pieces and not is_stdout(out):
        companion = out.with_name(f"{out.name}.closed.volt")
        check_distinct_files([companion], inputs, model=options.model)

    with writable_path(out) as path:
        notes = write_vocabulary(exported, path, to=to, chat_template=options.chat_template)
        agreement = None
        if checking.check:
            compared = exported if options.closed else vocabulary
            agreement = compare_with_library(compared, path, to, checking.lines(compared))
    if companion:
        exported.save(companion)
    if not options.quiet:
        _note_new_ids(vocabulary, exported, options.model, companion)
        for note in notes:
            say(f"note: {with_options(name_stdout(note, out, path))}")
        place = out
        if outputs and outputs[0].parent == out.parent:  # otherwise, `out` is a folder
            place = outputs[0]
        report_written(place, f"{exported.size:,} tokens for {to}")
    if agreement:
        print_agreement(agreement, out)


def _note_new_ids(
    vocabulary: Vocabulary, exported: Vocabulary, model: Path, companion: Path | None
) -> None:
    if exported.pieces == vocabulary.pieces:
        return
    remedy = "import it to encode with its ids"
    if companion:
        remedy = f"encode with {shown_path(companion)}"
    say(
        f"note: ids differ from those of {name_of(model) or model}: the export has "
        f"{len(exported):,} ids (rows of an embedding) instead of {len(vocabulary):,}; "
        f"from now on, {remedy}"
    )
