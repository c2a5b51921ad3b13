"""Normalised line → pre-tokens: declared once, saved by name, applied when counting and when encoding.

A cut is a Polars expression or a compiled loop (`cutter`), the same for a column of a corpus and a single string.
A pre-tokeniser either drops the white space between words or keeps it (`keeps_spaces`). If it drops it,
words are joined again with one space. If it keeps it, "▁" stands for a space inside the pre-tokens; decoding joins
these, turns each "▁" into a space, and drops the dummy "▁" that `dummy_prefix` pre-tokenisers put before a line.

>>> PreTokenizer.parse("metaspace").split("lower newest")
['▁lower', '▁newest']
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from volt import arguments
from volt.errors import ConfigError
from volt.text import characters
from volt.text.characters import SPACE, SPLIT_CLASS
from volt.text.normalizer import _over_text
from volt.text.patterns.published import BYTES, cutter_of, cutter_of_regex, declared, drops_rest, is_declared, splits_of

if TYPE_CHECKING:
    import polars as pl

    from volt.text.patterns.splitter import Split, WordCutter

Level: TypeAlias = Literal["characters", "bytes"]

_WHITESPACE = f"[^{SPLIT_CLASS}]+"
_UNICODE = rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}+|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]+|{SPACE}+"
_METASPACE, _METASPACE_RUNS = rf"{SPACE}[^{SPACE}]*", rf"{SPACE}+[^{SPACE}]*"
_LOSSLESS = {
    "unicode": _UNICODE, "metaspace": _METASPACE, "metaspace-runs": _METASPACE_RUNS, "metaspace-line": r"[\s\S]+",
    "gpt2": characters.CUT_MARKED,
}  # fmt: skip
IF_ABSENT = "-if-absent"
_LOSSLESS |= {name + IF_ABSENT: _LOSSLESS[name] for name in _LOSSLESS if name.startswith("metaspace")}


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """Cuts a normalised line into pre-tokens, the units of counting. No pre-token is empty or holds U+0020.

    name: one of these
        "whitespace"     the line is cut as by str.split()
        "unicode"        into runs of letters with their marks, of numbers, and of other symbols
        "gpt2"           by GPT-2's pattern
        "bytes"          by GPT-2's pattern, and each byte becomes a character, as in GPT-2
        "metaspace"      before every space, as in sentencepiece
        "metaspace-runs" before every run of spaces, for pieces of sentencepiece that are several spaces
        "metaspace-line" not at all: a line is one word, for pieces of sentencepiece that span words
        "metaspace-if-absent", and so the others
                         the same, but a line that starts with a space gets no "▁" more, as in tokenizers' Metaspace
        "regex:PATTERN"  into the matches of a Rust regex
        "split:PATTERN"  into the matches of a pattern, and what lies between them
        "splits:JSON"    so several times
        "matches:PATTERN"
                         into the matches of a pattern; what lies between them is dropped
        "bytes+split:PATTERN", "bytes+splits:JSON", "bytes+matches:PATTERN"
                         the same with bytes as characters: see volt.text.patterns.published

    Raises ConfigError if the name or the pattern is invalid.

    >>> PreTokenizer("gpt2").split("It's  42!")
    ['It', "'s", '▁', '▁42', '!']
    """

    name: str = "whitespace"

    def __post_init__(self) -> None:
        if arguments.storable(self.name, "name").startswith("regex:"):
            _keeps_lone_space(self.pattern)
        elif is_declared(self.name):
            cutter_of(self.name)
        elif self.name not in {"whitespace", "bytes", *_LOSSLESS}:
            usual = [name for name in _LOSSLESS if not name.endswith(IF_ABSENT)]
            names = ", ".join(
                ["whitespace", *usual, "bytes", f"metaspace{IF_ABSENT}", "regex:PATTERN", "split:PATTERN"]
            )
            raise ConfigError(f"unknown pre-tokenizer {self.name!r}; choose from {names}")

    @classmethod
    def parse(cls, name: str) -> PreTokenizer:
        """Read a name: the inverse of `.name`.

        name: one of those above

        >>> PreTokenizer.parse(r"regex:\\w+").split("a-b c")
        ['a', 'b', 'c']
        """
        return cls(name)

    @classmethod
    def of_pattern(cls, pattern: str, *, level: Level = "characters") -> PreTokenizer:
        """Return the pre-tokeniser that cuts by a pattern; its name holds the pattern itself.

        pattern: the name of a published one, such as gpt2, cl100k or llama3 (see volt.text.patterns.published), or a
            regular expression
        level: what is merged in its words: "characters" or "bytes"
        Raises ConfigError if it is neither, or no expression that can be cut by.

        >>> PreTokenizer.of_pattern("cl100k").split("It's 12345")
        ['It', "'s", '▁', '123', '45']
        >>> PreTokenizer.of_pattern("[0-9]", level="bytes").name
        'bytes+split:[0-9]'
        """
        arguments.choice(level, "level", get_args(Level))
        return cls(declared(arguments.text(pattern, "pattern"), is_bytes=level == "bytes"))

    @property
    def pattern(self) -> str:
        """The regex whose matches are the pre-tokens (for gpt2, after its runs of white space are cut).

        >>> PreTokenizer("regex:[a-z]+").pattern
        '[a-z]+'
        """
        if self.name.startswith("regex:"):
            return self.name.removeprefix("regex:")
        return _LOSSLESS.get(self.name, _WHITESPACE)

    @property
    def has_own_pattern(self) -> bool:
        """Whether its name holds what it cuts by.

        >>> PreTokenizer("split:a+").has_own_pattern, PreTokenizer("gpt2").has_own_pattern
        (True, False)
        """
        return self.name.startswith("regex:") or is_declared(self.name)

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that its name holds; none if it holds no splits.

        >>> PreTokenizer("split:a+").splits, PreTokenizer("gpt2").splits
        ((Split(pattern='a+', from_end=False),), ())
        """
        return splits_of(self.name) if is_declared(self.name) else ()

    @property
    def cutter(self) -> WordCutter | None:
        """What cuts many lines at once by the pattern that its name holds, or means; None if Polars does it."""
        if self.is_bytes or is_declared(self.name):
            return cutter_of(self.name)
        return cutter_of_regex(self.pattern) if self.name.startswith("regex:") else None

    @property
    def keeps_spaces(self) -> bool:
        """Whether spaces survive, as "▁", inside the pre-tokens; a regex keeps them if it matches a lone one.

        >>> PreTokenizer("unicode").keeps_spaces, PreTokenizer("whitespace").keeps_spaces
        (True, False)
        """
        if self.name.startswith("regex:"):
            return _keeps_lone_space(self.pattern)
        if drops_rest(self.name):
            return cutter_of(self.name).cut_text(" ") != []
        return self.name in _LOSSLESS or self.is_bytes or is_declared(self.name)

    @property
    def is_bytes(self) -> bool:
        """Whether pre-tokens are bytes, spelled with GPT-2's alphabet (see volt.text.characters).

        >>> PreTokenizer("bytes").split("é à")
        ['Ã©', 'ĠÃł']
        """
        return self.name == "bytes" or (self.name.startswith(BYTES) and is_declared(self.name))

    @property
    def dummy_prefix(self) -> bool:
        """Whether a "▁" that is not in the text starts every line; decoding strips it.

        >>> PreTokenizer("metaspace").dummy_prefix, PreTokenizer("gpt2").dummy_prefix
        (True, False)
        """
        return self.name == "unicode" or self.name.startswith("metaspace")

    def dummy_of(self, text: str) -> str:
        """Return the "▁" that starts the words of a text and is not in it, if there is one.

        text: normalised

        >>> PreTokenizer("metaspace").dummy_of(" a"), PreTokenizer("metaspace-if-absent").dummy_of(" a")
        ('▁', '')
        """
        is_there = self.name.endswith(IF_ABSENT) and text.startswith((" ", SPACE))
        return SPACE * (self.dummy_prefix and text != "" and not is_there)

    @property
    def isolates_users(self) -> bool:
        """Whether user tokens are no words, so that no marker ends them, as in CLIP.

        >>> PreTokenizer("bytes+matches:[a-z]+").isolates_users, PreTokenizer("bytes").isolates_users
        (True, False)
        """
        return drops_rest(self.name)

    def extract(self, expr: pl.Expr, *, hidden: bool = True) -> pl.Expr:
        """String expression → list-of-String expression: the pre-tokens of each value.

        expr: of Polars
        hidden: whether private characters from U+10F000 on stand for user tokens (see volt.text.special_tokens); where
            a table of moves or of bytes cuts, each is a pre-token by itself then

        >>> import polars as pl
        >>> pl.select(PreTokenizer().extract(pl.lit("a  b"))).item().to_list()
        ['a', 'b']
        """
        if self.name == "whitespace":
            return expr.str.extract_all(_WHITESPACE)
        if self.is_bytes or is_declared(self.name):  # of a regex, Polars makes lists of words 1.2 times as fast
            cutter = cutter_of(self.name) if hidden else cutter_of(self.name).without_user_tokens
            return expr.map_batches(cutter.cut_series, return_dtype=_list_of_words(), is_elementwise=True)
        if self.name not in _LOSSLESS:
            return _extract_regex(expr, self.pattern)
        if self.name == "metaspace":
            return _extract_metaspace(expr)
        marked = expr.str.replace_all(" ", SPACE, literal=True)
        if self.name == "gpt2":
            return marked.str.replace_all(characters.MARKED_RUN, "$1 $2").str.extract_all(characters.CUT_MARKED)
        started = _with_dummy(marked, is_always=not self.name.endswith(IF_ABSENT))
        return started.str.extract_all(_LOSSLESS[self.name])

    def split(self, text: str, *, hidden: bool = True) -> list[str]:
        """Return the pre-tokens of one normalised string.

        text: normalised
        hidden: whether private characters from U+10F000 on stand for user tokens

        Raises CorpusError if it holds a lone surrogate.

        >>> PreTokenizer("unicode").split("Hello, world!")
        ['▁Hello', ',', '▁world', '!']
        """
        text = arguments.text(text, "text")
        if (cutter := self.cutter) is not None:
            return (cutter if hidden else cutter.without_user_tokens).cut_text(text)
        return list(_over_text(self.extract, text).item())


def as_pretokenizer(value: str | PreTokenizer) -> PreTokenizer:
    """Return a pre-tokeniser, given itself or its name. Raises ConfigError if there is none of that name.

    >>> as_pretokenizer("unicode").name
    'unicode'
    """
    if isinstance(value, PreTokenizer):
        return value
    remedy = "give a name, such as 'metaspace', or a PreTokenizer"
    return PreTokenizer(arguments.text(value, "pretokenizer", remedy=remedy))


def _list_of_words() -> pl.DataType:
    import polars as pl

    return pl.List(pl.String)


def _with_dummy(marked: pl.Expr, *, is_always: bool) -> pl.Expr:
    import polars as pl

    is_there = (marked == "") if is_always else (marked == "") | marked.str.starts_with(SPACE)
    return pl.when(is_there).then(marked).otherwise(pl.lit(SPACE) + marked)


def _extract_metaspace(expr: pl.Expr) -> pl.Expr:
    """Return the matches of `_METASPACE`. Cutting at spaces that are put before every ▁ takes half the time."""
    import polars as pl

    spaced = expr.str.replace_all(SPACE, " ", literal=True).str.replace_all(" ", f" {SPACE}", literal=True)
    words = (pl.lit(SPACE) + spaced).str.split(" ")
    return pl.when(expr == "").then(pl.lit([], dtype=pl.List(pl.String))).otherwise(words)


def _extract_regex(expr: pl.Expr, pattern: str) -> pl.Expr:
    import polars as pl

    text = expr.str.replace_all(SPACE, " ", literal=True) if _keeps_lone_space(pattern) else expr
    word = pl.element()
    return text.str.extract_all(pattern).list.eval(word.filter(word != "").str.replace_all(" ", SPACE, literal=True))


@lru_cache(maxsize=64)  # a pure function of the pattern, which takes half a millisecond
def _keeps_lone_space(pattern: str) -> bool:
    """Check whether the pattern matches " ". Raises ConfigError with the reason if it is no regex."""
    from polars.exceptions import ComputeError

    try:
        return " " in _over_text(lambda expr: expr.str.extract_all(pattern), " ").item()
    except ComputeError as error:
        reason = str(error).split("\n\nThis error occurred")[0]
        raise ConfigError(f"invalid pre-tokenizer regex {pattern!r}: {reason}") from None
