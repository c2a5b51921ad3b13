"""`volt import`: a vocabulary file of another library → a VOLT vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from volt.display import counted
from volt.errors import ConfigError, VocabularyError, quoted
from volt_cli.console import say
from volt_cli.io import (
    check_destinations,
    report_losses,
    report_written,
    rereadable_path,
    save_vocabulary,
)
from volt_cli.library_check import CheckOptions, report_agreement
from volt_cli.options import FORMATS, Quiet, argument, option, readable

TOKEN_WITH_ID = "TOKEN[=ID]"
MAX_ID_DIGITS = 18  # more digits belong to the token


@dataclass(frozen=True)
class SpecialTokenOptions:
    PANEL = "Special tokens that the file does not declare"

    special: Annotated[
        list[str] | None,
        option(
            TOKEN_WITH_ID,
            "A token never split; default id: the file's, or the next; may be repeated.",
            "--special",
        ),
    ] = None
    unk: Annotated[str | None, option(TOKEN_WITH_ID, "The unknown token.")] = None
    bos: Annotated[str | None, option(TOKEN_WITH_ID, "The begin-of-sentence token.")] = None
    eos: Annotated[str | None, option(TOKEN_WITH_ID, "The end-of-sentence token.")] = None
    pad: Annotated[str | None, option(TOKEN_WITH_ID, "The padding token.")] = None

    def ids(self) -> dict[str, dict[str, int | None]]:
        """Return role → token → its id, or None if the option gives no id.

        >>> SpecialTokenOptions(special=["<|end|>=7", "<url>"], eos="<|end|>").ids()
        {'special': {'<|end|>': 7, '<url>': None}, 'eos': {'<|end|>': None}}
        """
        result: dict[str, dict[str, int | None]] = {}
        for role, value in vars(self).items():
            arguments = [value] if isinstance(value, str) else value or ()
            for text in arguments:
                token, token_id = parse_token_and_id(text)
                if result.setdefault(role, {}).setdefault(token, token_id) != token_id:
                    raise ConfigError(f"--{role} {quoted(token)} has two different ids; remove one")
        return result


def parse_token_and_id(argument: str) -> tuple[str, int | None]:
    """Parse TOKEN or TOKEN=ID; the token may contain "=".

    >>> parse_token_and_id("<|end|>=7"), parse_token_and_id("<a=b>"), parse_token_and_id("=7")
    (('<|end|>', 7), ('<a=b>', None), ('=7', None))
    """
    token, _, digits = argument.rpartition("=")
    if token and digits.isascii() and digits.isdigit() and len(digits) <= MAX_ID_DIGITS:
        return token, int(digits)
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
    special_tokens: SpecialTokenOptions
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
    from volt.formats.registry import files_read, format_of, read_with_format

    path = options.path
    checking = options.checking
    format = options.format or None
    checking.check_format(None)
    inputs = [*files_read(path, format=format), options.merges, *(checking.text or ())]
    check_destinations({"output": options.out}, inputs)
    with rereadable_path(path) as copy:
        if checking.check:
            checking.check_format(format or format_of(copy))
        vocabulary, format_name = read_with_format(
            copy,
            format=format,
            merges=options.merges,
            pattern=checking.pattern,
            **options.special_tokens.ids(),
        )
        agreement = checking.compare(vocabulary, copy, format_name)
        save_vocabulary(vocabulary, options.out)
    if not options.quiet:
        report_losses(path, vocabulary)
        model = vocabulary.describe_model()
        report_written(options.out, f"{counted(vocabulary.size, 'token')}, {model}")
        if agreement and vocabulary.provenance.get("pattern") == "assumed":
            say(
                "note: --check: the library used a pattern that VOLT assumed; give the real one "
                "with --pattern"
            )
    if agreement:
        report_agreement(agreement, options.out)
