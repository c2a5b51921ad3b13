"""The options that several commands share, and the groups of options that belong together.

In every command `-o` is a place, `--form` the format written or read, `-m` the vocabulary; `--json` prints
JSON on stdout, `-q` prints errors only. A group of options is a frozen dataclass, taken as one parameter.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Sound:
...     PANEL = "Sound"
...     volume: Annotated[int, OptionInfo(help="From 0 to 11.")] = 5
>>> def play(song: str, sound: Sound) -> None:
...     output.append((song, sound.volume))
>>> output = []
>>> list(signature(expanded(play)).parameters)
['song', 'volume']
>>> expanded(play)(song="Lilith", volume=11)
>>> output
[('Lilith', 11)]

typer reads options from a command's parameters and accepts no dataclasses; `expanded` replaces each by its fields.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from volt.errors import ConfigError, CorpusError, VocabularyError, VoltError, shown
from volt.files.paths import check_readable, expand
from volt.formats import registry
from volt.urls import plain_path

if TYPE_CHECKING:
    from volt.choose.language_model import LanguageModel
    from volt.choose.size_steps import SearchParameters
    from volt.text.pretokenizer import PreTokenizer
    from volt.text.special_tokens import SpecialTokens


Command = Callable[..., None]


def expanded(command: Command) -> Command:
    """Return the same command with a parameter for each field of its option groups.

    A group's PANEL is the heading under which the help shows its options.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    vars(run)["__signature__"] = Signature(list(_parameters(signature(command), hints)))
    return run


def _parameters(of: Signature, hints: dict[str, Any]) -> Iterator[Parameter]:
    for name, parameter in of.parameters.items():
        if is_dataclass(hints[name]):
            yield from _of_group(hints[name])
        else:
            yield parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)


def _of_group(group: Any) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = Parameter.empty if field.default is MISSING else field.default
        annotation = _in_panel(hints[field.name], group.PANEL)
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _in_panel(hint: Any, panel: str) -> Any:
    kind, declared = get_args(hint)
    option: OptionInfo = copy(declared)
    option.rich_help_panel = panel
    return Annotated[kind, option]


# Argument of the library → its option, where the names differ.
_OPTIONS = {
    "errors": "encoding-errors",
    "format": "from",
    "keep_atoms": "drop-atoms",
    "n_merges": "candidates",
    "unit": "parity-unit",
}


def as_option(argument: str, value: object) -> str:
    """Return an argument of the library as the command line takes it.

    >>> as_option("errors", "replace"), as_option("keep_atoms", False), as_option("accept", ["data", "weights"])
    ('--encoding-errors replace', '--drop-atoms', '--accept data --accept weights')
    """
    option = f"--{_OPTIONS.get(argument, argument).replace('_', '-')}"
    if isinstance(value, bool):
        return option
    return " ".join(f"{option} {one}" for one in (value if isinstance(value, list) else [value]))


PathOrStdout = Path  # "-" is stdout: see volt_cli.io

MAX_LINE = "64M"
MOST_WORKERS = 256  # volt.files.threads.MOST_WORKERS, which would load numpy
MOST_ASKED = 10**9  # merges: volt.learn.bpe.MOST_ASKED, which would load numpy
FORMATS = tuple(registry.FORMATS)
NORMALIZERS = ("none", "nfc", "nfkc", "lowercase", "nfc+lowercase", "nfkc+lowercase")
PATTERNS = ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "qwen3.5", "tekken", "deepseek3", "kimi2")
PRETOKENIZERS = ("whitespace", "unicode", "gpt2", "metaspace")
# volt.choose.rules.rules() and scaling, which would load numpy
RULES = ("balanced", "utility", "median500", "knee", "f95", "muv", "renyi", "tokens", "scaling")


def starting(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return the function by which a shell completes one of these names.

    >>> starting(RULES)("m")
    ['median500', 'muv']
    """

    def offered(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return offered


def readable(kind: type[VoltError]) -> Callable[[Path | None], Path | None]:
    """Return the callback of an option that names a file; it raises an error of this kind if it cannot be read."""

    def checked(path: Path | None) -> Path | None:
        if path is None:
            return None
        if not (kind is VocabularyError and os.path.isfile(f"{path}.model")):  # a name of sentencepiece without .model
            check_readable(path, kind=kind)
        return Path(plain_path(str(path)))

    return checked


def input_paths(texts: list[str] | None) -> list[str]:
    """Return the paths of files, globs, folders and -; without any, stdin. Raises CorpusError if one is not readable.

    >>> input_paths(None)
    ['-']
    """
    paths = expand(texts or ["-"])
    for path in paths:
        check_readable(path, kind=CorpusError)
    return paths


def is_number(text: str) -> bool:
    """Check whether this is a whole number, with a sign or without.

    >>> is_number("30000"), is_number("-5"), is_number("merges.txt")
    (True, True, False)
    """
    return text.isascii() and text.removeprefix("-").removeprefix("+").isdecimal()


Model = Annotated[
    Path,
    typer.Option(
        "-m",
        "--model",
        metavar="MODEL",
        callback=readable(VocabularyError),
        help="The vocabulary: a file of VOLT or of another library, or - for stdin.",
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        autocompletion=starting(PATTERNS),
        help="What cuts text into words, where the file does not say it (tiktoken): cl100k, llama3, … or a regex.",
    ),
]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE", callback=input_paths, default_factory=list, show_default=False,
        help="Files, globs or folders; default: stdin.",
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")]
EncodingErrors = Annotated[
    Literal["strict", "replace", "skip"],
    typer.Option(metavar="HOW", help="Lines that are not UTF-8: strict stops there, replace fixes, skip leaves out."),
]
MaxLine = Annotated[
    str,
    typer.Option(
        metavar="BYTES", help="Longest line that is read, such as 1G; 0 or none: any. Default: 64M.", show_default=False
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(metavar="MARK", help="What marks pieces that do not end a word, such as subword-nmt's @@."),
]
Format = Annotated[str, typer.Option(metavar="FORMAT", autocompletion=starting(FORMATS))]
Select = Annotated[
    str,
    typer.Option(
        metavar="RULE",
        autocompletion=starting(RULES),
        help=f"What picks the size: {', '.join(RULES)}, fixed:N.",
    ),
]
Sizes = Annotated[
    str,
    typer.Option(
        metavar="START:STOP:STEP", help="Sizes to measure in addition to those picked; default: some twenty round ones."
    ),
]
Config = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG", callback=readable(ConfigError), help="A YAML file; `volt stream schema` documents every key."
    ),
]
NoUserCode = Annotated[
    bool, typer.Option("--no-user-code", help="Refuse configurations that name Python files to run.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Run the Python files that the configuration names.")]
Seed = Annotated[int | None, typer.Option(metavar="N", min=0, help="Instead of the configuration's.")]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=MOST_WORKERS, help="How many compute ahead; the output does not depend on them."
    ),
]
Rank = Annotated[
    int | None, typer.Option(metavar="N", help="This process's number; default: from torchrun, MPI or Slurm.")
]
World = Annotated[int | None, typer.Option(metavar="N", help="How many processes share the stream; default: the same.")]


def checked_separator(mark: str | None) -> str:
    """Return the mark, empty for None. Raises ConfigError if it is empty.

    >>> checked_separator("@@"), checked_separator(None)
    ('@@', '')
    """
    if mark == "":
        raise ConfigError("--separator '': marks nothing; give a mark such as @@, or leave the option out")
    return mark or ""


@dataclass(frozen=True)
class SizeOptions:
    """The sizes to try, and the rule that picks one."""

    PANEL = "Sizes"

    sizes: Sizes = ""
    select: Select = "balanced"
    multiple_of: Annotated[
        int, typer.Option(metavar="N", min=1, help="Round the number of ids up to a multiple, such as 64.")
    ] = 1


@dataclass(frozen=True)
class ModelOptions:
    """The language model that a vocabulary is for."""

    PANEL = "Language model"

    model_params: Annotated[
        float | None, typer.Option(metavar="N", help="Its parameters without the embedding, such as 1.2e9.")
    ] = None
    model_width: Annotated[int | None, typer.Option(metavar="N", help="Its width d, such as 2048.")] = None

    def model(self, rule: str) -> LanguageModel | None:
        """Return the model, if there is one. Raises ConfigError if half of it, or one for the rule, is missing."""
        from volt.choose.language_model import LanguageModel
        from volt.choose.rules import SCALING

        if self.model_params is None and self.model_width is None:
            if rule == SCALING:
                raise ConfigError(f"the rule {SCALING} needs a language model; give --model-params and --model-width")
            return None
        if self.model_params is None or self.model_width is None:
            missing = "--model-params" if self.model_params is None else "--model-width"
            raise ConfigError(f"{missing} is missing: a language model is given by --model-params and --model-width")
        return LanguageModel(self.model_params, self.model_width)


@dataclass(frozen=True)
class CountOptions:
    """How a corpus is read, cut into words and counted."""

    PANEL = "Reading and counting"

    normalizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=starting(NORMALIZERS),
            help="none, nfc, nfkc, lowercase, nfc+lowercase or nfkc+lowercase.",
        ),
    ] = "none"
    pretokenizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=starting(PRETOKENIZERS),
            help="whitespace, unicode, gpt2, metaspace or regex:PATTERN.",
        ),
    ] = "whitespace"
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            autocompletion=starting(PATTERNS),
            help="Cut as a published tokenizer does, such as cl100k or llama3, or by a regex of your own.",
        ),
    ] = None
    level: Annotated[
        Literal["characters", "bytes"],
        typer.Option(
            metavar="WHAT", help="What is merged: characters, or bytes, which are cut as in GPT-2 or by --pattern."
        ),
    ] = "characters"
    fields: Annotated[
        str, typer.Option(metavar="N,N", help="Columns of tab-separated text, counted from 1: 2 or 1,2.")
    ] = ""
    column: Annotated[str, typer.Option(metavar="NAME", help="Text column of .jsonl or .parquet files.")] = ""
    word_counts: Annotated[bool, typer.Option("--word-counts", help="The corpus is a table: word, count.")] = False
    encoding_errors: EncodingErrors = "strict"
    max_line: MaxLine = MAX_LINE
    min_count: Annotated[int, typer.Option(metavar="N", min=1, help="Leave out words that occur less often.")] = 1

    def cut(self) -> PreTokenizer:
        """Return how text is cut into words. Raises ConfigError if what is asked for contradicts itself."""
        from volt.text.pretokenizer import PreTokenizer

        if self.pattern is not None:
            if self.pretokenizer != "whitespace":
                raise ConfigError("--pattern and --pretokenizer both say how text is cut; leave out one")
            return PreTokenizer.of_pattern(self.pattern, level=self.level)
        if self.level == "characters":
            return PreTokenizer(self.pretokenizer)
        if self.pretokenizer not in ("whitespace", "gpt2", "bytes"):
            raise ConfigError("--level bytes cuts with GPT-2's pattern; leave --pretokenizer out, or give --pattern")
        return PreTokenizer("bytes")

    @property
    def is_table(self) -> bool:
        """True if the options name columns of a text."""
        return bool(self.fields or self.column or self.word_counts)


@dataclass(frozen=True)
class CandidateOptions:
    """Where the merges come from that a vocabulary can have."""

    PANEL = "Candidates"

    candidates: Annotated[
        str,
        typer.Option(
            metavar="N|FILE",
            help="Merges to learn, or a file of them: subword-nmt codes, sentencepiece .model; default: enough.",
        ),
    ] = ""
    marker: Annotated[
        Literal["suffix", "prefix", "none"] | None,
        typer.Option(
            metavar="KIND",
            help="What marks words: suffix is </w> after, prefix is ▁ before, or none; default: as the words need.",
        ),
    ] = None
    min_pair_count: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Merge no pair that occurs less often (--parity: in the source that chooses)."
        ),
    ] = 2

    extend: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            callback=readable(VocabularyError),
            help="A vocabulary that keeps its tokens and ids; merges are learned after its own, and words made as its "
            "are.",
        ),
    ] = None
    new_atoms: Annotated[
        Literal["add", "leave"] | None,
        typer.Option(
            metavar="HOW",
            help="With --extend: add characters that MODEL lacks, or leave them out; default: add, unless bytes spell "
            "them.",
        ),
    ] = None
    coverage: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Leave out the rarest characters, beyond those that make up this share of all, such as 0.9995.",
        ),
    ] = 1.0

    @property
    def file(self) -> str | None:
        """The file of merges, if candidates are not learned."""
        return None if not self.candidates or is_number(self.candidates) else self.candidates

    @property
    def n_merges(self) -> int | None:
        """How many merges to learn, if that is told. Raises ConfigError if it is no number from 1 up."""
        if not self.candidates or self.file:
            return None
        number = self.candidates.lstrip("+")
        if len(number) > len(str(MOST_ASKED)) or not 1 <= int(number) <= MOST_ASKED:
            raise ConfigError(f"--candidates {shown(self.candidates)}: give 1 to {MOST_ASKED:,} merges, or a file")
        return int(number)


@dataclass(frozen=True)
class SpecialOptions:
    """Tokens with a meaning of their own."""

    PANEL = "Special tokens"

    special: Annotated[
        list[str] | None, typer.Option("--special", metavar="TOKEN", help="A token that is never split; may repeat.")
    ] = None
    unk: Annotated[str, typer.Option(metavar="TOKEN", help="Spelling of the unknown token.")] = "<unk>"
    bos: Annotated[str, typer.Option(metavar="TOKEN", help="Spelling of the begin-of-sentence token.")] = "<s>"
    eos: Annotated[str, typer.Option(metavar="TOKEN", help="Spelling of the end-of-sentence token.")] = "</s>"
    pad: Annotated[str, typer.Option(metavar="TOKEN", help="Spelling of the padding token.")] = "<pad>"
    byte_fallback: Annotated[bool, typer.Option("--byte-fallback", help="Spell unknown characters as bytes.")] = False

    def tokens(self) -> SpecialTokens:
        """As a vocabulary has them. Raises ConfigError if one may not be spelled so."""
        from volt.text.special_tokens import SpecialTokens

        return SpecialTokens(self.unk, self.bos, self.eos, self.pad, tuple(self.special or ()))


@dataclass(frozen=True)
class TransportOptions:
    """The transport problem of each size."""

    PANEL = "Transport"

    length: Annotated[
        Literal["type", "occurrence"],
        typer.Option(metavar="OVER", help="What Eq. 2 averages over: each type once, or each occurrence."),
    ] = "type"
    mass: Annotated[
        Literal["tokens", "characters"],
        typer.Option(metavar="OF", help="What token marginals are shares of: tokens or characters."),
    ] = "tokens"
    epsilon: Annotated[float, typer.Option(metavar="X", help="Entropy regularisation ε.")] = 1.0
    row_tau: Annotated[float, typer.Option(metavar="X", help="Hardness τ of the character marginal; 1 is hard.")] = 1.0
    column_tau: Annotated[float, typer.Option(metavar="X", help="Hardness τ of the token marginal; 1 is hard.")] = 0.5
    min_share: Annotated[
        float, typer.Option(metavar="X", help="Least transported share that keeps a token; 0 keeps all.")
    ] = 0.001
    solver: Annotated[
        Literal["sinkhorn", "pot"], typer.Option(metavar="NAME", help="What solves it: sinkhorn or pot.")
    ] = "sinkhorn"
    max_iters: Annotated[int, typer.Option(metavar="N", help="Most iterations per transport.")] = 1_000

    def parameters(self) -> SearchParameters:
        """As the search takes them. Raises ConfigError if one is out of range."""
        from volt.choose.size_steps import SearchParameters

        return SearchParameters(
            length=self.length, mass=self.mass, epsilon=self.epsilon, row_tau=self.row_tau, column_tau=self.column_tau,
            min_share=self.min_share, solver=self.solver, max_iters=self.max_iters,
        )  # fmt: skip
