"""Options of `volt search`, and of the commands that search within other work (`compare`, `trial`).

Each group's methods return what the library takes; they raise ConfigError for values that
contradict each other. They import the library only when they are called, because help pages must
appear at once.

A named source is a text that the user writes as NAME=FILE, such as en=en.txt. With several, one
vocabulary of all is searched, from counts that are mixed by --temperature or balanced by --parity;
or, with --per-source, one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from volt.arguments import shortened
from volt.errors import ConfigError, VocabularyError, shown, shown_path
from volt_cli.console import warn
from volt_cli.io import warn_of_table_columns
from volt_cli.options import (
    PATTERNS,
    Select,
    TableReading,
    flag,
    is_number,
    option,
    parse_settings,
    readable,
)

if TYPE_CHECKING:
    from volt.choose.scaling_law import LanguageModel
    from volt.choose.size_steps import SearchParameters
    from volt.choose.training_law import Training
    from volt.count.word_counts import WordCounts
    from volt.kernels.warmup import Job
    from volt.learn.candidates import Candidates
    from volt.text.pretokenizer import PreTokenizer
    from volt.text.special_tokens import SpecialTokens
    from volt.vocabulary import Vocabulary

MAX_MERGES = 10**9  # merges; equals volt.learn.bpe.MOST_REQUESTED, whose import would load numpy
NORMALIZERS = ("none", "nfc", "nfkc", "lowercase", "nfc+lowercase", "nfkc+lowercase")
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


@dataclass(frozen=True)
class SizeOptions:
    """The sizes that a search measures, and the rule that picks one."""

    PANEL = "Sizes"

    sizes: Annotated[
        str, option("START:STOP:STEP", "Sizes to measure besides the picks; default: about 20.")
    ] = ""
    select: Select = "trained"
    multiple_of: Annotated[
        int, option("N", "Round the number of ids up to a multiple of N, such as 64.", min=1)
    ] = 1

    def parse_sizes(self) -> range | None:
        """Parse --sizes; return None without the option.

        >>> SizeOptions("1000:3000:500").parse_sizes()
        range(1000, 3001, 500)
        """
        text = self.sizes
        if not text:
            return None
        parts = text.split(":")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise ConfigError(
                f"--sizes {text!r}: write START:STOP:STEP in tokens, such as 1000:30000:1000"
            )
        start, stop, step = map(int, parts)
        if step < 1 or start > stop:
            raise ConfigError(
                f"--sizes {text!r}: sizes must increase; write START ≤ STOP and a STEP of at least 1"
            )
        return range(start, stop + 1, step)


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
            f"--read {shortened(repr(text))}: not a number; write a number such as 500M or 2e9"
        ) from None


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
        """Return the length of the training.

        Raises ConfigError if it is not positive, or given twice.
        """
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
        """Return the language model, if any.

        Raises ConfigError if it is incomplete, or if `rule` needs one.
        """
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
class CountOptions(TableReading):
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
    word_counts: Annotated[bool, flag("The corpus is a table: word, count.", "--word-counts")] = (
        False
    )
    min_count: Annotated[int, option("N", "Drop words that occur less than N times.", min=1)] = 1

    def pre_tokenizer(self) -> PreTokenizer:
        """Return the pre-tokenizer.

        Raises ConfigError if --pattern, --pretokenizer and --level contradict each other.
        """
        from volt.text.pretokenizer import choose_pretokenizer

        return choose_pretokenizer(self.pretokenizer, self.pattern, self.level)


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
            "With --extend: add or leave out characters that MODEL lacks; default: add, unless "
            "bytes spell them.",
        ),
    ] = None
    coverage: Annotated[
        float,
        option(
            "SHARE",
            "Keep the most frequent characters, up to this share of the text, such as 0.9995.",
        ),
    ] = 1.0
    tokens: Annotated[
        Literal["bpe", "optimal"],
        option(
            "KIND",
            "bpe: the tokens of merges; optimal: as many, chosen for fewer pieces, in a unigram "
            "model.",
        ),
    ] = "bpe"

    def check_tokens(self, counting: CountOptions, *groups: Any) -> None:
        """Raise ConfigError if other options contradict --tokens optimal.

        counting, groups: all groups of options of a search that may do so
        """
        if self.tokens == "bpe":
            return
        excluded_names = ("extend", "parity", "superwords")
        for excluded in chain.from_iterable(
            options_set(group, *excluded_names) for group in (self, *groups)
        ):
            raise ConfigError(
                f"--tokens optimal and {excluded}: tokens are chosen anew, within words, for all "
                "of the text; remove one"
            )
        if self.marker not in (None, "none"):
            raise ConfigError(
                f"--tokens optimal and --marker {self.marker}: a unigram model has no markers; "
                "remove --marker"
            )
        if self.marker is None and not counting.pre_tokenizer().keeps_spaces:
            raise ConfigError(
                "--tokens optimal needs words that contain their spaces; add --pretokenizer "
                "metaspace, or --level bytes"
            )

    @property
    def file(self) -> str | None:
        """The file of merges, if --candidates names one."""
        if not self.candidates or is_number(self.candidates):
            return None
        return self.candidates

    @property
    def n_merges(self) -> int | None:
        """The number of merges, if --candidates is a number.

        Raises ConfigError if it is out of range.
        """
        if not self.candidates or self.file:
            return None
        number = self.candidates.lstrip("+")
        if len(number) > len(str(MAX_MERGES)) or not 1 <= int(number) <= MAX_MERGES:
            raise ConfigError(
                f"--candidates {shown(self.candidates)}: give 1 to {MAX_MERGES:,} merges, or a file"
            )
        return int(number)


@dataclass(frozen=True)
class SpecialOptions:
    """The tokens that are not learned from the text."""

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
        """Parse --transport. Raises ConfigError for an unknown key or a value of another type."""
        from volt.choose.size_steps import SearchParameters

        defaults = SearchParameters()
        changed = dict[str, Any]()
        for key, text in parse_settings(self.transport, "--transport").items():
            if key not in TRANSPORT_KEYS:
                raise ConfigError(
                    f"--transport {shown(key)}: unknown key; choose from {', '.join(TRANSPORT_KEYS)}"
                )
            default = getattr(defaults, key)
            try:
                changed[key] = type(default)(text)
            except ValueError:
                kind = "whole number" if isinstance(default, int) else "number"
                raise ConfigError(
                    f"--transport {key}={shown(text)}: not a {kind}; write a number, such as {key}={default:g}"
                ) from None
        return SearchParameters(**changed)


@dataclass(frozen=True)
class NamedSourceOptions:
    PANEL = "Named sources"

    temperature: Annotated[
        float, option("T", "Rescale sources' totals n to n^(1/T); T > 1 helps small ones.")
    ] = 1.0
    parity: Annotated[
        bool, flag("Let the source that is compressed worst choose each merge.", "--parity")
    ] = False
    parity_unit: Annotated[
        Literal["character", "byte", "line"] | None,
        option(
            "WHAT",
            "Compare pieces per character, byte, or line of translations; default: character.",
        ),
    ] = None
    per_source: Annotated[
        bool, flag("Write NAME.volt for each source; -o is then a folder.", "--per-source")
    ] = False

    @property
    def unit(self) -> Literal["character", "byte", "line"]:
        return self.parity_unit or "character"

    def check(
        self,
        names: Collection[str],
        candidates: str | None,
        *,
        word_counts: bool,
        coverage: float = 1.0,
    ) -> None:
        """Raise ConfigError if options contradict each other.

        names: names of the sources
        candidates: the file of merges of --candidates, if any
        word_counts: whether the sources are tables of words and counts

        >>> NamedSourceOptions(parity=True).check({}, None, word_counts=False)
        Traceback (most recent call last):
            ...
        volt.errors.ConfigError: --parity needs named sources; write NAME=FILE for each text, as
        en=a.gz
        """
        if not self.temperature >= 1:
            raise ConfigError(
                f"--temperature {self.temperature:g}: give 1 or more; 1 leaves the totals unchanged"
            )
        first_option = next(options_set(self), "")
        if first_option and not names:
            raise ConfigError(
                f"{first_option} needs named sources; write NAME=FILE for each text, as en=a.gz"
            )
        if self.parity_unit and not self.parity:
            raise ConfigError(
                "--parity-unit works only with --parity; add --parity, or remove --parity-unit"
            )
        if self.per_source and (self.parity or self.temperature != 1):
            raise ConfigError(
                f"--per-source and {first_option}: each source has its own vocabulary; remove one"
            )
        if not self.parity:
            return
        if coverage != 1:
            raise ConfigError("--parity keeps all characters; remove --coverage or --parity")
        if len(names) < 2:
            raise ConfigError(
                f"--parity compares sources, but there is only {next(iter(names))!r}; name two or more"
            )
        if candidates:
            raise ConfigError(
                f"--parity learns merges, but --candidates {shown_path(candidates)} already contains "
                "merges; remove one"
            )
        if self.unit == "line" and word_counts:
            raise ConfigError(
                "--parity-unit line: a table of words has no lines of text; choose character or byte"
            )

    @property
    def kernel_jobs(self) -> tuple[Job, ...]:
        """The jobs of `prepare_kernels` that --parity needs besides those of every search."""
        return ("learn", "replay") if self.parity else ()

    def choose_learner(
        self,
        old: Vocabulary | None,
        sources: Mapping[str, WordCounts],
        counts: WordCounts,
        learning: CandidateOptions,
    ) -> Callable[..., Candidates]:
        """Return a function of the number of merges that learns them with the chosen method.

        old: the vocabulary of --extend, if any
        sources: word counts of each source, for --parity
        counts: word counts of all sources together, for the other methods
        """
        options: dict[str, Any] = {"min_pair_count": learning.min_pair_count}
        if old:
            from volt.choose.extend import extend_bpe

            if learning.new_atoms is not None:
                options["new_atoms"] = learning.new_atoms == "add"
            return partial(extend_bpe, old, counts, **options)
        options["marker"] = learning.marker
        if self.parity:
            from volt.learn.parity import learn_parity

            options["temperature"] = self.temperature
            return partial(learn_parity, sources, unit=self.unit, **options)
        from volt.learn.bpe import learn_bpe

        return partial(learn_bpe, counts, coverage=learning.coverage, **options)

    def warn(self, sources: Iterable[Iterable[str]]) -> None:
        """Warn of texts and options that may mislead.

        sources: for each source without a column, its files
        """
        for files in sources:
            warn_of_table_columns(files, "counted")
        if self.parity_unit == "byte":
            warn(
                "bytes per character differ between scripts (1 in Latin, 3 in Devanagari), so pieces per byte mislead "
                "for several scripts; use --parity-unit character, or line for translations"
            )


def check_extend(
    learning: CandidateOptions,
    counting: CountOptions,
    special: SpecialOptions,
    naming: NamedSourceOptions,
) -> None:
    """Raise ConfigError for an option that --extend excludes, or --new-atoms without --extend."""
    if learning.extend is None:
        if learning.new_atoms is not None:
            raise ConfigError(
                "--new-atoms works only with --extend; add --extend MODEL, or remove --new-atoms"
            )
        return
    excluded_options: dict[str, Iterable[str]] = {
        "MODEL defines how words are made": chain(
            options_set(counting, "normalizer", "pretokenizer", "pattern", "level"),
            options_set(learning, "marker"),
        ),
        "MODEL keeps its special tokens": options_set(special),
        "new merges are learned after those of MODEL": chain(
            ["--candidates FILE"] if learning.file else [], options_set(naming, "parity")
        ),
        "use --new-atoms leave to add no characters": (
            f"{name} SHARE" for name in options_set(learning, "coverage")
        ),
    }
    for reason, names in excluded_options.items():
        for name in names:
            raise ConfigError(f"{name} and --extend: {reason}; remove one")


def options_set(group: Any, *field_names: str) -> Iterator[str]:
    """Yield the options of a group that differ from their defaults.

    field_names: the fields to examine; by default all

    >>> list(options_set(NamedSourceOptions(per_source=True)))
    ['--per-source']
    """
    for field in fields(group):
        is_selected = not field_names or field.name in field_names
        if is_selected and getattr(group, field.name) != field.default:
            yield f"--{field.name.replace('_', '-')}"
