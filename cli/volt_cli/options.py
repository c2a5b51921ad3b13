"""Options that several commands share, with the same name, help and checks.

An option is an annotated type, which a command or a group of options (see `option_groups`) uses for
a parameter:

    def encode(model: Model, quiet: Quiet = False) -> None: ...

Errors of the library name its arguments; `show_as_option` and `name_options` reword them for the
command line.

The start-up of every command imports this module, so it imports no numpy; lists that repeat the
library's are compared with these by a test.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from volt.arguments import MAX_LINE, parse_max_line
from volt.errors import ConfigError, CorpusError, VocabularyError, VoltError
from volt.files.paths import check_readable, expand
from volt.formats import registry
from volt.urls import plain_path

MOST_WORKERS = 256  # equals volt.files.threads.MOST_WORKERS, whose import would load numpy
FORMATS = tuple(registry.FORMATS)
PATTERNS = (
    "gpt2",
    "cl100k",
    "o200k",
    "llama3",
    "qwen2",
    "qwen3.5",
    "tekken",
    "deepseek3",
    "kimi2",
    "superbpe",
)
# The names of volt.choose.rules.rules(), and scaling; importing that module would load numpy
RULES = (
    "trained",
    "balanced",
    "utility",
    "median500",
    "knee",
    "f95",
    "muv",
    "renyi",
    "tokens",
    "scaling",
)

# Argument of the library → its option, where the names differ.
_RENAMED_OPTIONS = {
    "errors": "encoding-errors",
    "format": "from",
    "keep_atoms": "drop-atoms",
    "n_merges": "candidates",
    "unit": "parity-unit",
}


def option(metavar: str, help: str, *names: str, words: Sequence[str] = (), **others: Any) -> Any:
    """Return an option, by default named after its parameter.

    words: values that the shell completes
    """
    if words:
        others["autocompletion"] = lambda incomplete: [
            word for word in words if word.startswith(incomplete)
        ]
    return typer.Option(*names, metavar=metavar, help=help, **others)


def flag(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help)


def argument(metavar: str, help: str, **others: Any) -> Any:
    return typer.Argument(metavar=metavar, help=help, **others)


def readable(error_class: type[VoltError]) -> Callable[[Path | None], Path | None]:
    """Return a callback for typer that raises `error_class` if the file cannot be read."""

    def check(path: Path | None) -> Path | None:
        if path is None:
            return None
        # sentencepiece's files may be named without .model
        is_stem = error_class is VocabularyError and os.path.isfile(f"{path}.model")
        if not is_stem:
            check_readable(path, kind=error_class)
        return Path(plain_path(str(path)))

    return check


def expand_inputs(texts: list[str] | None) -> list[str]:
    """Expand files, globs and folders to paths; the default is stdin.

    Raises CorpusError if a path cannot be read.
    """
    paths = expand(texts or ["-"])
    for path in paths:
        check_readable(path, kind=CorpusError)
    return paths


def is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").removeprefix("+").isdecimal()


Model = Annotated[
    Path,
    option(
        "MODEL",
        "The vocabulary: a file in VOLT's or another library's format, or - for stdin.",
        "-m",
        "--model",
        callback=readable(VocabularyError),
    ),
]
Pattern = Annotated[
    str | None,
    option(
        "PATTERN",
        "Pattern that splits text into words, if MODEL has no pattern (tiktoken): cl100k, llama3, … or a regex.",
        words=PATTERNS,
    ),
]
Files = Annotated[
    list[str],
    argument(
        "FILE",
        "Files, globs or folders; default: stdin.",
        callback=expand_inputs,
        default_factory=list,
        show_default=False,
    ),
]
Output = Annotated[Path, option("FILE", "Where to write, or - for stdout.", "-o", "--output")]
Json = Annotated[bool, flag("Print JSON on stdout instead of text.", "--json")]
Quiet = Annotated[bool, flag("Print errors only.", "-q", "--quiet")]
EncodingErrors = Annotated[
    Literal["strict", "replace", "skip"],
    option(
        "HOW", "Lines that are not UTF-8: strict stops, replace inserts U+FFFD, skip drops them."
    ),
]
MaxLine = Annotated[
    int | None,
    option(
        "BYTES",
        "Maximum length of a line, such as 1G; 0 or none: no limit. Default: 64M.",
        parser=lambda text: parse_max_line(str(text), "--max-line"),
        show_default=False,
    ),
]
Separator = Annotated[
    str | None,
    option("MARK", "Mark after pieces that do not end a word, such as subword-nmt's @@."),
]
Select = Annotated[
    str, option("RULE", f"Rule that picks the size: {', '.join(RULES)}, fixed:N.", words=RULES)
]
Config = Annotated[
    Path,
    argument(
        "CONFIG",
        "A YAML file; `volt stream schema` documents every key.",
        callback=readable(ConfigError),
    ),
]
Trust = Annotated[bool, flag("Run the Python files that the configuration names.", "--trust")]
Seed = Annotated[int | None, option("N", "Seed that replaces the configuration's.", min=0)]
Workers = Annotated[
    int | None,
    option(
        "N",
        "Workers that compute ahead; any number gives the same output.",
        min=0,
        max=MOST_WORKERS,
    ),
]
Rank = Annotated[
    int | None,
    option("N", "This process's number, from 0; default: set by torchrun, MPI or Slurm."),
]
World = Annotated[
    int | None,
    option("N", "Number of processes that share the stream; default: set as for --rank."),
]


def parse_settings(settings: list[str] | None, option: str = "--set") -> dict[str, str]:
    """Parse KEY=VALUE settings; return the value of each key.

    >>> parse_settings(["src=de", "n=3"])
    {'src': 'de', 'n': '3'}
    """
    result = dict[str, str]()
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"{option} {setting}: no value; write {option} {setting}=VALUE")
        if not key.isidentifier():
            raise ConfigError(f"{option} {setting}: {key!r} is not a key; give a word before =")
        if key in result:
            raise ConfigError(f"{option} {setting}: {key} is given twice; remove one")
        result[key] = value
    return result


def check_separator(mark: str | None) -> str:
    if mark == "":
        raise ConfigError(
            "--separator '': marks nothing; give a mark such as @@, or remove the option"
        )
    return mark or ""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options of commands that read lines of text."""

    encoding_errors: EncodingErrors = "strict"
    max_line: MaxLine = MAX_LINE

    @property
    def limits(self) -> dict[str, Any]:
        """The options as arguments of the library, such as `volt.count_words`."""
        return {"errors": self.encoding_errors, "max_line": self.max_line}


@dataclass(frozen=True, kw_only=True)
class TableReading(Reading):
    """Options of commands that read lines of text, or the texts of a table."""

    fields: Annotated[
        str, option("N,N", "Columns of tab-separated text, counted from 1: 2 or 1,2.")
    ] = ""
    column: Annotated[
        str,
        option(
            "NAME",
            "Column of text in JSON lines, Parquet, Arrow, or CSV with a header: text, body.text or "
            "chat[].text.",
        ),
    ] = ""

    @property
    def names_columns(self) -> bool:
        return bool(self.fields or self.column)

    @property
    def limits(self) -> dict[str, Any]:
        """The options as arguments of the library, such as `volt.count_words`."""
        return {**super().limits, "fields": self.fields or None, "column": self.column or None}


@dataclass(frozen=True, kw_only=True)
class ReadingPanel(TableReading):
    PANEL = "Reading"


@dataclass(frozen=True, kw_only=True)
class ModelAndText(Reading):
    model: Model
    files: Files
    pattern: Pattern = None


@dataclass(frozen=True, kw_only=True)
class ModelAndTable(ModelAndText, TableReading):
    """Options of commands that encode lines of text, or the texts of a table."""


def show_as_option(argument: str, value: object) -> str:
    """Return the command-line option for an argument of the library.

    >>> show_as_option("errors", "replace"), show_as_option("keep_atoms", False)
    ('--encoding-errors replace', '--drop-atoms')
    >>> show_as_option("accept", ["data", "weights"])
    '--accept data --accept weights'
    """
    option = f"--{_RENAMED_OPTIONS.get(argument, argument).replace('_', '-')}"
    if isinstance(value, bool):
        return option
    values = value if isinstance(value, list) else [value]
    return " ".join(f"{option} {each}" for each in values)


def name_options(message: str) -> str:
    """Replace the advice that names an argument of the library by advice that names an option."""
    trust = "remove --no-user-code" if "--no-user-code" in sys.argv else "add --trust"
    options = {
        "export it closed": "add --closed",
        "requires a file of merges": "requires --merges FILE",
        "raise max_line": "raise --max-line",
        "leave across out": "remove --across",
        "choose another to_column": "choose another --to-column",
        "to_column needs": "--to-column needs",
        "fields and column exclude": "--fields and --column exclude",
        "fields='": "--fields '",
        "pass fields or column": "give --fields N,N, or --column NAME",
        "raise retry_for": "retry longer: volt --retry-for 1h",
        "retry_for is ": "--retry-for is ",
        "then trust it (user_code)": f"then {trust}",
        "has no value; set ": "has no value; give --set ",
        ", or read another library's file by volt.read_vocabulary": "",
        "; find one on your corpus": "; find one with `volt search CORPUS -o NAME.volt`",
    }
    for advice, option in options.items():
        message = message.replace(advice, option)
    return re.sub(
        r"\b(coverage|epochs|level|pretokenizer|select)='?([\w:.]+)'?(?=[ ,)])", r"--\1 \2", message
    )
