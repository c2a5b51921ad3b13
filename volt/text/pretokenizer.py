"""`PreTokenizer`: a normalised line → pre-tokens, by a rule whose name vocabularies store.

    "whitespace"   "two  words"   →   "two", "words"          white space is dropped
    "metaspace"    "two words"    →   "▁two", "▁words"        a "▁" stands for each space
    "bytes"        "two words"    →   "two", "Ġwords"         in GPT-2's alphabet of bytes

If a rule drops white space, decoding joins words with one space. With `dummy_prefix`, as in
"metaspace", each line starts with a "▁" that decoding drops.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from volt import arguments
from volt.errors import ConfigError
from volt.text.atoms import SPACE
from volt.text.normalizer import evaluate_on_text
from volt.text.patterns.published import (
    BYTES,
    GPT2_CUT_MARKED,
    GPT2_MARKED_RUN,
    cutter_of,
    cutter_of_regex,
    declared,
    drops_rest,
    is_declared,
    splits_of,
)
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN
from volt.text.white_space import SPLIT_CLASS

if TYPE_CHECKING:
    import polars as pl

    from volt.text.patterns.splitter import Split
    from volt.text.patterns.word_cutter import WordCutter

Level: TypeAlias = Literal["characters", "bytes"]

_WHITESPACE = f"[^{SPLIT_CLASS}]+"
_UNICODE = (
    rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}+|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]+|{SPACE}+"
)
_LOSSLESS = {
    "unicode": _UNICODE,
    "metaspace": rf"{SPACE}[^{SPACE}]*",
    "metaspace-runs": rf"{SPACE}+[^{SPACE}]*",
    "metaspace-line": r"[\s\S]+",
    "gpt2": GPT2_CUT_MARKED,
}
_HIDDEN = f"{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}"
_ALONE = {  # the same, with each user token as a word, which needs no "▁" in front
    "metaspace": f"[{_HIDDEN}]|{SPACE}[^{SPACE}{_HIDDEN}]*|[^{SPACE}{_HIDDEN}]+",
    "metaspace-runs": f"[{_HIDDEN}]|{SPACE}+[^{SPACE}{_HIDDEN}]*|[^{SPACE}{_HIDDEN}]+",
    "metaspace-line": f"[{_HIDDEN}]|[^{_HIDDEN}]+",
}
RUNS_UNMARKED = "split: +[^ ]*|[^ ]+"  # like metaspace-runs, without "▁" before the line
UNMARKED_LINE = r"split:[\s\S]+"  # like metaspace-line, without "▁" before the line
IF_ABSENT = "-if-absent"
PER_SEGMENT = "-per-segment"
_SUFFIXES = (IF_ABSENT, PER_SEGMENT, IF_ABSENT + PER_SEGMENT)
_LOSSLESS |= {name + suffix: _LOSSLESS[name] for name in _ALONE for suffix in _SUFFIXES}


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """Splits a normalised line into pre-tokens, the units of counting.

    No pre-token is empty or contains U+0020.

    name: one of these
        "whitespace"      at white space, as str.split() does
        "unicode"         into runs of letters with their marks, of numbers, and of other symbols
        "gpt2"            by GPT-2's pattern
        "bytes"           by GPT-2's pattern, in GPT-2's byte alphabet
        "metaspace"       before every space, as in sentencepiece
        "metaspace-runs"  before every run of spaces, for sentencepiece pieces of several spaces
        "metaspace-line"  not at all: a line is one word, for sentencepiece pieces that span words
        "metaspace-if-absent", "metaspace-runs-if-absent", "metaspace-line-if-absent"
                          the same, but no dummy "▁" before a space or a user token, as in Metaspace
                          of `tokenizers`
        "metaspace-per-segment", "metaspace-if-absent-per-segment", and so on
                          the same, with a dummy "▁" before each segment of text between user tokens
        "regex:PATTERN"   into the matches of a Rust regex
        "split:PATTERN", "splits:JSON", "matches:PATTERN", also with "bytes+" in front
                          see volt.text.patterns.published

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
            usual = [name for name in _LOSSLESS if not name.endswith(_SUFFIXES)]
            raise ConfigError(
                f"unknown pre-tokenizer {self.name!r}; choose from whitespace, {', '.join(usual)}, "
                f"bytes, metaspace{IF_ABSENT}, metaspace{PER_SEGMENT}, regex:PATTERN, split:PATTERN"
            )

    @classmethod
    def parse(cls, name: str) -> PreTokenizer:
        r"""Return the pre-tokenizer with a name: the inverse of `.name`.

        name: see the class

        >>> PreTokenizer.parse(r"regex:\w+").split("a-b c")
        ['a', 'b', 'c']
        """
        return cls(name)

    @classmethod
    def of_pattern(cls, pattern: str, *, level: Level = "characters") -> PreTokenizer:
        """Return the pre-tokenizer that splits by a pattern. Its name contains the pattern.

        pattern: a regular expression, or a name of volt.text.patterns.published, such as "cl100k"
        level: what merging starts from, "characters" or "bytes"
        Raises ConfigError if the pattern is neither, or is not supported.

        >>> PreTokenizer.of_pattern("cl100k").split("It's 12345")
        ['It', "'s", '▁', '123', '45']
        """
        arguments.choice(level, "level", get_args(Level))
        return cls(declared(arguments.text(pattern, "pattern"), is_bytes=level == "bytes"))

    @property
    def pattern(self) -> str:
        """The regex that pre-tokens match.

        For "gpt2", a run of white space before text was divided before its last character.
        """
        if self.name.startswith("regex:"):
            return self.name.removeprefix("regex:")
        return _LOSSLESS.get(self.name, _WHITESPACE)

    @property
    def has_own_pattern(self) -> bool:
        """Return whether the name contains a pattern."""
        return self.name.startswith("regex:") or is_declared(self.name)

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that the name contains; none if it is a rule's name."""
        if is_declared(self.name):
            return splits_of(self.name)
        return ()

    @property
    def cutter(self) -> WordCutter | None:
        """The compiled splitter of many lines; None if Polars splits them."""
        if self.is_bytes or is_declared(self.name):
            return cutter_of(self.name)
        if self.name.startswith("regex:"):
            return cutter_of_regex(self.pattern)
        return None

    @property
    def keeps_spaces(self) -> bool:
        """Return whether pre-tokens contain the text's spaces, as "▁".

        Pre-tokens of a regex do if it matches a lone space.
        """
        if self.name.startswith("regex:"):
            return _keeps_lone_space(self.pattern)
        if drops_rest(self.name):
            return cutter_of(self.name).cut_text(" ") != []
        return self.name in _LOSSLESS or self.is_bytes or is_declared(self.name)

    @property
    def is_bytes(self) -> bool:
        """Return whether pre-tokens are spelled in GPT-2's byte alphabet."""
        return self.name == "bytes" or (self.name.startswith(BYTES) and is_declared(self.name))

    @property
    def dummy_prefix(self) -> bool:
        """Return whether a "▁" that is not in the text starts every line; decoding strips it."""
        return self.name == "unicode" or self.name.startswith("metaspace")

    @property
    def if_absent(self) -> bool:
        """Return whether text that starts with a space gets no dummy "▁"."""
        return self.name.removesuffix(PER_SEGMENT).endswith(IF_ABSENT)

    @property
    def of_lines(self) -> PreTokenizer:
        """The pre-tokenizer without "-per-segment": it puts a dummy "▁" only before lines."""
        return PreTokenizer(self.name.removesuffix(PER_SEGMENT))

    def dummy_places(self, text: str, *, hidden: bool = True) -> list[int]:
        """Return the indices of the characters before which `dummy_prefix` puts a "▁".

        text: normalised
        hidden: whether private characters from U+10C000 on stand for user tokens

        >>> text = "a\U0010c000b"
        >>> PreTokenizer("metaspace").dummy_places(text)
        [0]
        >>> PreTokenizer("metaspace-per-segment").dummy_places(text)
        [0, 2]
        """
        if not self.dummy_prefix or not text:
            return []
        users, first_character = self._segment_start(hidden=hidden)
        starts = "^"
        if users and self.of_lines != self:
            starts = f"(?:^|(?<=[{users}]))"
        return [match.start() for match in re.finditer(starts + first_character, text)]

    def _segment_start(self, *, hidden: bool) -> tuple[str, str]:
        """Describe where a dummy "▁" goes.

        Return a range of private characters, of user tokens that get none and end a segment; and a
        regex of the characters before which it is put, at the start of a segment.
        """
        users = ""
        if hidden and (self.if_absent or self.of_lines != self):
            users = _HIDDEN
        if self.if_absent:
            return users, f"[^{users} {SPACE}]"
        if users:
            return users, f"[^{users}]"
        return users, r"[\s\S]"

    @property
    def isolates_users(self) -> bool:
        """Return whether user tokens get no marker of words, as in CLIP."""
        return drops_rest(self.name)

    def extract(self, expr: pl.Expr, *, hidden: bool = True) -> pl.Expr:
        """Return an expression for the list of pre-tokens of each string.

        expr: a Polars expression
        hidden: whether private characters from U+10C000 on stand for user tokens (see
            volt.text.special_tokens)

        >>> import polars as pl
        >>> pl.select(PreTokenizer().extract(pl.lit("a  b"))).item().to_list()
        ['a', 'b']
        """
        import polars as pl

        words = pl.List(pl.String)
        if self.name == "whitespace":
            return expr.str.extract_all(_WHITESPACE)
        if self.is_bytes or is_declared(self.name):
            cutter = cutter_of(self.name)
            if not hidden:
                cutter = cutter.without_user_tokens
            return expr.map_batches(cutter.cut_series, return_dtype=words, is_elementwise=True)
        unmarked = expr.str.replace_all(SPACE, " ", literal=True)
        if self.name.startswith("regex:"):  # Polars makes these lists 1.2 times as fast as our loop
            text = unmarked if self.keeps_spaces else expr
            word = pl.element().filter(pl.element() != "").str.replace_all(" ", SPACE, literal=True)
            return text.str.extract_all(self.pattern).list.eval(word)
        # A space before every "▁", then split(" "), takes half the time of matching.
        if self.name == "metaspace":
            spaced = unmarked.str.replace_all(" ", f" {SPACE}", literal=True)
            split = (pl.lit(SPACE) + spaced).str.split(" ")
            return pl.when(expr == "").then(pl.lit([], dtype=words)).otherwise(split)
        marked = expr.str.replace_all(" ", SPACE, literal=True)
        if self.name == "gpt2":
            return marked.str.replace_all(GPT2_MARKED_RUN, "$1 $2").str.extract_all(GPT2_CUT_MARKED)
        users, first_character = self._segment_start(hidden=hidden)
        started = marked.str.replace(f"^({first_character})", f"{SPACE}${{1}}")
        if not users:
            return started.str.extract_all(_LOSSLESS[self.name])
        if self.of_lines != self:
            started = started.str.replace_all(
                f"([{users}])({first_character})", f"${{1}}{SPACE}${{2}}"
            )
        return started.str.extract_all(_ALONE[self.of_lines.name.removesuffix(IF_ABSENT)])

    def split(self, text: str, *, hidden: bool = True) -> list[str]:
        """Return the pre-tokens of one string. Raises CorpusError if it contains a lone surrogate.

        text: normalised
        hidden: whether private characters from U+10C000 on stand for user tokens

        >>> PreTokenizer("unicode").split("Hello, world!")
        ['▁Hello', ',', '▁world', '!']
        """
        text = arguments.text(text, "text")
        cutter = self.cutter
        if cutter is None:
            return list(evaluate_on_text(partial(self.extract, hidden=hidden), text))
        if not hidden:
            cutter = cutter.without_user_tokens
        return cutter.cut_text(text)


def as_pretokenizer(value: str | PreTokenizer) -> PreTokenizer:
    """Return the value if it is a PreTokenizer, or the one with this name.

    Raises ConfigError for an unknown name.
    """
    if isinstance(value, PreTokenizer):
        return value
    remedy = "give a name, such as 'metaspace', or a PreTokenizer"
    return PreTokenizer(arguments.text(value, "pretokenizer", remedy=remedy))


def choose_pretokenizer(
    pretokenizer: str | PreTokenizer, pattern: str | None, level: Level
) -> PreTokenizer:
    """Return the pre-tokenizer of a pattern or, without a pattern, the given one.

    level: "bytes" needs a pattern, or splits with GPT-2's
    Raises ConfigError if the arguments contradict each other.

    >>> choose_pretokenizer("whitespace", None, "bytes").name
    'bytes'
    """
    chosen = as_pretokenizer(pretokenizer)
    arguments.choice(level, "level", get_args(Level))
    if pattern is not None:
        if chosen.name != "whitespace":
            raise ConfigError(
                "text can be split in one way only; remove",
                hint={"pattern": pattern, "pretokenizer": chosen.name},
            )
        return PreTokenizer.of_pattern(pattern, level=level)
    if level == "characters":
        return chosen
    if chosen.name not in ("whitespace", "gpt2", "bytes"):
        raise ConfigError(
            "level bytes splits with GPT-2's pattern, or with the one of pattern; remove",
            hint={"pretokenizer": chosen.name},
        )
    return PreTokenizer("bytes")


@lru_cache(maxsize=64)  # a call takes half a millisecond
def _keeps_lone_space(pattern: str) -> bool:
    from polars.exceptions import ComputeError

    try:
        return " " in evaluate_on_text(lambda expr: expr.str.extract_all(pattern), " ")
    except ComputeError as error:
        reason = str(error).split("\n\nThis error occurred")[0]
        raise ConfigError(f"invalid pre-tokenizer regex {pattern!r}: {reason}") from None
