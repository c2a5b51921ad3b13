"""Options that several commands share, and groups of options.

A group of options is a frozen dataclass that a command takes as one parameter. typer does not accept such parameters,
so `expanded` replaces each group by its fields.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Sound:
...     PANEL = "Sound"
...     volume: Annotated[int, OptionInfo(help="From 0 to 11.")] = 5
>>> def play(song: Annotated[str, OptionInfo()], sound: Sound) -> None:
...     print(song, sound.volume)
>>> list(signature(expanded(play)).parameters)
['song', 'volume']
>>> expanded(play)(song="Lilith", volume=11)
Lilith 11
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, is_dataclass
from functools import cache, partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from volt.arguments import MAX_LINE, parse_max_line, shortened
from volt.errors import ConfigError, CorpusError, VocabularyError, VoltError, shown
from volt.files.paths import check_readable, expand
from volt.formats import registry
from volt.urls import plain_path

if TYPE_CHECKING:
    from volt.choose.scaling_law import LanguageModel
    from volt.choose.size_steps import SearchParameters
    from volt.choose.training_law import Training
    from volt.text.pretokenizer import PreTokenizer
    from volt.text.special_tokens import SpecialTokens


Command = Callable[..., None]


def expanded(command: Command) -> Command:
    """Return the command with one parameter per field of its option groups; groups may contain groups."""

    @wraps(command)
    def run(**values: Any) -> None:
        _called(command, values)

    parameters = sorted(
        _parameters(command), key=lambda parameter: parameter.default is not Parameter.empty
    )
    vars(run)["__signature__"] = Signature(parameters)
    return run


_hints = cache(partial(get_type_hints, include_extras=True))


def _called(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    hints = _hints(function)
    names = signature(function).parameters
    arguments = dict[str, Any]()
    for name in names:
        is_group = is_dataclass(hints[name])
        arguments[name] = _called(hints[name], values) if is_group else values[name]
    return function(**arguments)


def _parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    for name, parameter in signature(function).parameters.items():
        hint = _hints(function)[name]
        if is_dataclass(hint):
            yield from _parameters(cast(type, hint))
            continue
        kind, declared = get_args(hint)
        option: OptionInfo = copy(declared)
        option.rich_help_panel = getattr(function, "PANEL", None)
        yield parameter.replace(annotation=Annotated[kind, option], kind=Parameter.KEYWORD_ONLY)


# Argument of the library → its option, where the names differ.
_OPTIONS = {
    "errors": "encoding-errors",
    "format": "from",
    "keep_atoms": "drop-atoms",
    "n_merges": "candidates",
    "unit": "parity-unit",
}


def as_option(argument: str, value: object) -> str:
    """Return the command-line option for an argument of the library.

    >>> as_option("errors", "replace"), as_option("keep_atoms", False), as_option("accept", ["data", "weights"])
    ('--encoding-errors replace', '--drop-atoms', '--accept data --accept weights')
    """
    option = f"--{_OPTIONS.get(argument, argument).replace('_', '-')}"
    if isinstance(value, bool):
        return option
    values = value if isinstance(value, list) else [value]
    return " ".join(f"{option} {each}" for each in values)


def with_options(message: str) -> str:
    """Name command-line options, instead of the library's parameters, in a message. `as_option` does this for hints."""
    trust = "remove --no-user-code" if "--no-user-code" in sys.argv else "add --trust"
    options = {
        "export it closed": "add --closed",
        "requires a file of merges": "requires --merges FILE",
        "raise max_line": "raise --max-line",
        "raise retry_for": "retry longer: volt --retry-for 1h",
        "retry_for is ": "--retry-for is ",
        "then trust it (user_code)": f"then {trust}",
        "has no value; set ": "has no value; give --set ",
        "; find one on your corpus": "; find one with `volt search CORPUS -o NAME.volt`",
    }
    for advice, option in options.items():
        message = message.replace(advice, option)
    return message


MOST_WORKERS = 256  # equals volt.files.threads.MOST_WORKERS, whose import would load numpy
MOST_ASKED = 10**9  # merges; equals volt.learn.bpe.MOST_REQUESTED, whose import would load numpy
FORMATS = tuple(registry.FORMATS)
NORMALIZERS = ("none", "nfc", "nfkc", "lowercase", "nfc+lowercase", "nfkc+lowercase")
PATTERNS = ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "qwen3.5", "tekken", "deepseek3", "kimi2")
PRETOKENIZERS = ("whitespace", "unicode", "gpt2", "metaspace")
# The fields of volt.choose.size_steps.SearchParameters, whose import would load numpy, and values.
TRANSPORT_KEYS = {
    "length": "type or occurrence",
    "mass": "tokens or characters",
    "epsilon": "1",
    "row_tau": "1",
    "column_tau": "0.5",
    "min_share": "0.001",
    "solver": "sinkhorn or pot",
    "threshold": "1e-6",
    "max_iters": "1000",
}
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


def option(metavar: str, help: str, *names: str, words: Sequence[str] = (), **others: Any) -> Any:
    """Return an option, by default named after its parameter. words: values that the shell completes"""
    if words:
        others["autocompletion"] = lambda incomplete: [
            word for word in words if word.startswith(incomplete)
        ]
    return typer.Option(*names, metavar=metavar, help=help, **others)


def flag(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help)


def argument(metavar: str, help: str, **others: Any) -> Any:
    return typer.Argument(metavar=metavar, help=help, **others)


def readable(kind: type[VoltError]) -> Callable[[Path | None], Path | None]:
    """Return an option's callback, which raises an error of class `kind` if the option's file cannot be read."""

    def checked(path: Path | None) -> Path | None:
        if path is None:
            return None
        # sentencepiece's files may be named without .model
        is_name = kind is VocabularyError and os.path.isfile(f"{path}.model")
        if not is_name:
            check_readable(path, kind=kind)
        return Path(plain_path(str(path)))

    return checked


def input_paths(texts: list[str] | None) -> list[str]:
    """Expand files, globs and folders to paths; default: stdin. Raises CorpusError if a path is unreadable."""
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
        callback=input_paths,
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
            raise ConfigError(f"{option} {setting}: gives no value; write {option} {setting}=VALUE")
        if not key.isidentifier():
            raise ConfigError(
                f"{option} {setting}: {key!r} is not a key; give a word before =, such as src=de"
            )
        if key in result:
            raise ConfigError(f"{option} {setting}: {key} is given twice; remove one")
        result[key] = value
    return result


def parse_characters(text: str) -> float:
    """Return a number of characters such as 500M or 2e9. K, M, G and T are powers of 1,000.

    >>> parse_characters("500M"), parse_characters("2e9")
    (500000000.0, 2000000000.0)
    """
    unit = text[-1:].upper()
    try:
        if not unit.isalpha():
            return float(text)
        return float(text[:-1]) * 1000.0 ** " KMGT".index(unit)
    except ValueError:
        raise ConfigError(
            f"--read {shortened(repr(text))}: not a number; write 500M or 2e9, say"
        ) from None


def check_separator(mark: str | None) -> str:
    if mark == "":
        raise ConfigError(
            "--separator '': marks nothing; give a mark such as @@, or remove the option"
        )
    return mark or ""


@dataclass(frozen=True, kw_only=True)
class Reading:
    encoding_errors: EncodingErrors = "strict"
    max_line: MaxLine = MAX_LINE

    @property
    def limits(self) -> dict[str, Any]:
        return {"errors": self.encoding_errors, "max_line": self.max_line}


@dataclass(frozen=True, kw_only=True)
class ModelAndText(Reading):
    model: Model
    files: Files
    pattern: Pattern = None


@dataclass(frozen=True)
class SizeOptions:
    PANEL = "Sizes"

    sizes: Annotated[
        str, option("START:STOP:STEP", "Sizes to measure besides the picks; default: about 20.")
    ] = ""
    select: Select = "trained"
    multiple_of: Annotated[
        int, option("N", "Round the number of ids up to a multiple of N, such as 64.", min=1)
    ] = 1


@dataclass(frozen=True)
class LengthOptions:
    PANEL = "Training"

    epochs: Annotated[
        float | None,
        option("E", "How often a training reads the corpus; default: 5.", show_default=False),
    ] = None
    read: Annotated[
        float | None,
        option(
            "N",
            "Instead: characters that a training reads, such as 500M or 2e9.",
            parser=parse_characters,
        ),
    ] = None

    def length(self) -> Training:
        """Return the length of the training. Raises ConfigError if it is not positive, or given twice."""
        from volt.choose.training_law import Training

        return Training(self.epochs, self.read)


@dataclass(frozen=True)
class TrainingOptions(LengthOptions):
    PANEL = "Training and model"

    model_params: Annotated[
        float | None, option("N", "Parameters except the embedding's, such as 1.2e9.")
    ] = None
    model_width: Annotated[int | None, option("N", "Width d of the model, such as 2048.")] = None

    def model(self, rule: str) -> LanguageModel | None:
        """Return the language model, if any. Raises ConfigError if it is incomplete, or if `rule` needs one."""
        from volt.choose.rules import SCALING
        from volt.choose.scaling_law import LanguageModel

        if self.model_params is None and self.model_width is None:
            if rule == SCALING:
                raise ConfigError(
                    f"the rule {SCALING} needs a language model; give --model-params and --model-width"
                )
            return None
        if self.model_params is None or self.model_width is None:
            missing = "--model-params" if self.model_params is None else "--model-width"
            raise ConfigError(
                f"{missing} is missing: a language model needs both --model-params and --model-width"
            )
        return LanguageModel(self.model_params, self.model_width)


@dataclass(frozen=True, kw_only=True)
class CountOptions(Reading):
    PANEL = "Reading and counting"

    normalizer: Annotated[
        str, option("NAME", f"Normalisation: {', '.join(NORMALIZERS)}.", words=NORMALIZERS)
    ] = "none"
    pretokenizer: Annotated[
        str,
        option(
            "NAME",
            "Split by whitespace, unicode, gpt2, metaspace or regex:PATTERN.",
            words=PRETOKENIZERS,
        ),
    ] = "whitespace"
    pattern: Annotated[
        str | None,
        option(
            "PATTERN",
            "Split words as a published tokenizer (cl100k, llama3, …) does, or by your own regex.",
            words=PATTERNS,
        ),
    ] = None
    level: Annotated[
        Literal["characters", "bytes"],
        option(
            "WHAT",
            "Merge characters or bytes. For bytes, words are split as in GPT-2, or by --pattern.",
        ),
    ] = "characters"
    fields: Annotated[
        str, option("N,N", "Columns of tab-separated text, counted from 1: 2 or 1,2.")
    ] = ""
    column: Annotated[str, option("NAME", "Text column of .jsonl or .parquet files.")] = ""
    word_counts: Annotated[bool, flag("The corpus is a table: word, count.", "--word-counts")] = (
        False
    )
    min_count: Annotated[int, option("N", "Drop words that occur less than N times.", min=1)] = 1

    def cut(self) -> PreTokenizer:
        from volt.text.pretokenizer import PreTokenizer

        if self.pattern is not None:
            if self.pretokenizer != "whitespace":
                raise ConfigError(
                    "--pattern and --pretokenizer both define how text is split; remove one"
                )
            return PreTokenizer.of_pattern(self.pattern, level=self.level)
        if self.level == "characters":
            return PreTokenizer(self.pretokenizer)
        if self.pretokenizer not in ("whitespace", "gpt2", "bytes"):
            raise ConfigError(
                "--level bytes splits with GPT-2's pattern; remove --pretokenizer, or give --pattern"
            )
        return PreTokenizer("bytes")


@dataclass(frozen=True)
class CandidateOptions:
    PANEL = "Candidates"

    candidates: Annotated[
        str,
        option(
            "N|FILE",
            "Number of merges to learn, or a file of merges (codes, .model); default: enough for the pick.",
        ),
    ] = ""
    marker: Annotated[
        Literal["suffix", "prefix", "none"] | None,
        option(
            "KIND",
            "suffix: </w> after a word; prefix: ▁ before a word; none; default: depends on the words.",
        ),
    ] = None
    min_pair_count: Annotated[
        int,
        option(
            "N",
            "Minimum count of a pair to merge; with --parity, in the source that chooses.",
            min=1,
        ),
    ] = 2

    extend: Annotated[
        Path | None,
        option(
            "MODEL",
            "Vocabulary to extend: it keeps its tokens and ids, and new merges follow its own.",
            callback=readable(VocabularyError),
        ),
    ] = None
    new_atoms: Annotated[
        Literal["add", "leave"] | None,
        option(
            "HOW",
            "With --extend: add or leave out characters that MODEL lacks; default: add, unless bytes spell them.",
        ),
    ] = None
    coverage: Annotated[
        float,
        option(
            "SHARE",
            "Keep the most frequent characters, up to this share of the text, such as 0.9995.",
        ),
    ] = 1.0

    @property
    def file(self) -> str | None:
        if not self.candidates or is_number(self.candidates):
            return None
        return self.candidates

    @property
    def n_merges(self) -> int | None:
        if not self.candidates or self.file:
            return None
        number = self.candidates.lstrip("+")
        if len(number) > len(str(MOST_ASKED)) or not 1 <= int(number) <= MOST_ASKED:
            raise ConfigError(
                f"--candidates {shown(self.candidates)}: give 1 to {MOST_ASKED:,} merges, or a file"
            )
        return int(number)


@dataclass(frozen=True)
class SpecialOptions:
    PANEL = "Special tokens"

    special: Annotated[
        list[str] | None, option("TOKEN", "A token never split; may be repeated.", "--special")
    ] = None
    unk: Annotated[str, option("TOKEN", "Spelling of the unknown token.")] = "<unk>"
    bos: Annotated[str, option("TOKEN", "Spelling of the begin-of-sentence token.")] = "<s>"
    eos: Annotated[str, option("TOKEN", "Spelling of the end-of-sentence token.")] = "</s>"
    pad: Annotated[str, option("TOKEN", "Spelling of the padding token.")] = "<pad>"
    byte_fallback: Annotated[
        bool, flag("Spell unknown characters as bytes.", "--byte-fallback")
    ] = False

    def tokens(self) -> SpecialTokens:
        from volt.text.special_tokens import SpecialTokens

        return SpecialTokens(self.unk, self.bos, self.eos, self.pad, tuple(self.special or ()))


@dataclass(frozen=True)
class TransportOptions:
    PANEL = "Transport"

    transport: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE",
            "Change a parameter of the criteria or the transport, such as epsilon=0.5; may be repeated. "
            f"Defaults: {', '.join(map('='.join, TRANSPORT_KEYS.items()))}; see volt.SearchParameters.",
            "--transport",
        ),
    ] = None

    def parameters(self) -> SearchParameters:
        from volt.choose.size_steps import SearchParameters

        defaults = SearchParameters()
        changed = dict[str, Any]()
        for key, text in parse_settings(self.transport, "--transport").items():
            if key not in TRANSPORT_KEYS:
                raise ConfigError(
                    f"--transport {shown(key)}: is unknown; use {', '.join(TRANSPORT_KEYS)}"
                )
            default = getattr(defaults, key)
            try:
                changed[key] = type(default)(text)
            except ValueError:
                kind = "whole number" if isinstance(default, int) else "number"
                raise ConfigError(
                    f"--transport {key}={shown(text)}: not a {kind}; write {key}={default}, say"
                ) from None
        return SearchParameters(**changed)
