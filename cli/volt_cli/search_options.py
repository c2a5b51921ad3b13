"""Options of `volt search`, and of the commands that search within other work (`compare`, `trial`).

Each group's methods return what the library takes; they raise ConfigError for values that
contradict each other. They import the library only when they are called, because help pages must
appear at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from volt.arguments import shortened
from volt.errors import ConfigError, VocabularyError, shown
from volt_cli.options import (
    PATTERNS,
    Reading,
    Select,
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
    from volt.text.pretokenizer import PreTokenizer
    from volt.text.special_tokens import SpecialTokens

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
    """Which sizes a search measures, and how it picks one."""

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
            f"--read {shortened(repr(text))}: not a number; write 500M or 2e9, say"
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

    def pre_tokenizer(self) -> PreTokenizer:
        """Return the pre-tokenizer.

        Raises ConfigError if --pattern, --pretokenizer and --level contradict each other.
        """
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
