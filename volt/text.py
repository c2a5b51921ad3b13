"""Line → normalised line → pre-tokens: declared once, saved by name, applied when counting and when encoding.

Both steps are Polars expressions and nothing else, so a column of a corpus and a single string cannot be
treated differently. A pre-tokeniser either drops the white space between words (`keeps_spaces` is False: they
are rejoined with one space) or keeps it, shown as "▁" inside the pre-tokens: decoding is concatenation and
"▁" → " ", less the dummy "▁" that `dummy_prefix` pre-tokenisers put before a line.

>>> Normalizer.parse("nfkc+lowercase").normalize("ＶＯＬＴ ﬁnds")
'volt finds'
>>> PreTokenizer.parse("metaspace").split("lower newest")
['▁lower', '▁newest']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from volt.bytelevel import ALPHABET, HEX
from volt.errors import ConfigError, CorpusError

if TYPE_CHECKING:
    import polars as pl

SPACE = "▁"  # U+2581 stands for a space inside pre-tokens that keep spaces

_FORMS = ("none", "nfc", "nfkc")
_WHITESPACE = r"[^\s\x1c-\x1f]+"  # Unicode White_Space plus the four separators that str.split() adds
_UNICODE = rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}+|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]+|{SPACE}+"
_METASPACE = rf"{SPACE}[^{SPACE}]*"
# GPT-2's pattern over text whose spaces are "▁". Its `\s+(?!\S)` leaves the last of a run of white space to
# what follows; Rust's regex has no lookahead, so a real space, which cannot occur there, is put before it.
_GPT2_RUN = rf"([\s{SPACE}])([\s{SPACE}][^\s{SPACE}])"
_GPT2 = (
    rf"'s|'t|'re|'ve|'m|'ll|'d|{SPACE}?\p{{L}}+|{SPACE}?\p{{N}}+"
    rf"|{SPACE}?[^\s{SPACE}\p{{L}}\p{{N}}]+|[\s{SPACE}--[ ]]+"
)
_LOSSLESS = {"unicode": _UNICODE, "metaspace": _METASPACE, "gpt2": _GPT2}
# The same over bytes: a "▁" of the text steps aside meanwhile (to U+10FFFF, no character), and hidden user tokens
# (U+10F000 on) stand alone.
_ASIDE, _HIDDEN = "\U0010ffff", r"\x{10F000}-\x{10FFFD}"
_BYTES_RUN = rf"([\s{SPACE}])([\s{SPACE}][^\s{SPACE}{_HIDDEN}])"
_BYTES = f"[{_HIDDEN}]|" + _GPT2.replace(rf"[^\s{SPACE}\p{{L}}", rf"[^\s{SPACE}{_HIDDEN}\p{{L}}")


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Unicode normal form (none, nfc, nfkc), then lower case; applying it twice changes nothing more.

    `name` is what a vocabulary stores and `parse` reads back. Raises ConfigError if the form is unknown.

    >>> Normalizer("nfc", lowercase=True).name
    'nfc+lowercase'
    """

    form: str = "none"
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.form not in _FORMS:
            raise ConfigError(f"unknown normal form {self.form!r}; choose from {', '.join(_FORMS)}")

    @classmethod
    def parse(cls, name: str) -> Normalizer:
        """Read "none", "nfc", "nfkc", "lowercase", "nfc+lowercase" or "nfkc+lowercase", in any case.

        >>> Normalizer.parse("NFKC+Lowercase").name
        'nfkc+lowercase'
        """
        named = {one.name: one for form in _FORMS for one in (cls(form), cls(form, lowercase=True))}
        if name.lower() not in named:
            raise ConfigError(f"unknown normalizer {name!r}; choose from {', '.join(named)}")
        return named[name.lower()]

    @property
    def name(self) -> str:
        """What `parse` reads back.

        >>> Normalizer().name, Normalizer(lowercase=True).name
        ('none', 'lowercase')
        """
        parts = [self.form] * (self.form != "none") + ["lowercase"] * self.lowercase
        return "+".join(parts) or "none"

    def apply(self, expr: pl.Expr) -> pl.Expr:
        """Normalise a String expression.

        >>> import polars as pl
        >>> pl.select(Normalizer("nfkc").apply(pl.lit("½"))).item()
        '1⁄2'
        """
        result = self._apply_form(expr)
        return self._apply_form(result.str.to_lowercase()) if self.lowercase else result

    def _apply_form(self, expr: pl.Expr) -> pl.Expr:
        if self.form == "none":
            return expr
        return expr.str.normalize("NFC" if self.form == "nfc" else "NFKC")

    def apply_series(self, series: pl.Series) -> pl.Series:
        """Normalise every string of a series.

        >>> import polars as pl
        >>> Normalizer(lowercase=True).apply_series(pl.Series(["A", "É"])).to_list()
        ['a', 'é']
        """
        return _over_series(self.apply, series)

    def normalize(self, text: str) -> str:
        """Normalise one string. Raises CorpusError if it holds a lone surrogate.

        >>> Normalizer("nfc").normalize("e\\u0301") == "é"
        True
        """
        return str(_over_text(self.apply, text).item())


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """Cuts a normalised line into pre-tokens, the units of counting.

    name: "whitespace" (str.split()), "unicode" (letters with marks, numbers, other symbols), "gpt2" (its
    pattern), "metaspace" (as in sentencepiece), or "regex:PATTERN" (the matches of a Rust regex).
    No pre-token is empty or holds U+0020. Raises ConfigError if the name or the pattern is invalid.

    >>> PreTokenizer("gpt2").split("It's  42!")
    ['It', "'s", '▁', '▁42', '!']
    """

    name: str = "whitespace"

    def __post_init__(self) -> None:
        if self.name.startswith("regex:"):
            _keeps_lone_space(self.pattern)
        elif self.name not in {"whitespace", "bytes", *_LOSSLESS}:
            names = ", ".join(["whitespace", *_LOSSLESS, "bytes", "regex:PATTERN"])
            raise ConfigError(f"unknown pre-tokenizer {self.name!r}; choose from {names}")

    @classmethod
    def parse(cls, name: str) -> PreTokenizer:
        """Read a name; the inverse of `.name`.

        >>> PreTokenizer.parse(r"regex:\\w+").split("a-b c")
        ['a', 'b', 'c']
        """
        return cls(name)

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
    def keeps_spaces(self) -> bool:
        """Whether spaces survive, as "▁", inside the pre-tokens; a regex keeps them if it matches a lone one.

        >>> PreTokenizer("unicode").keeps_spaces, PreTokenizer("whitespace").keeps_spaces
        (True, False)
        """
        if self.name.startswith("regex:"):
            return _keeps_lone_space(self.pattern)
        return self.name in _LOSSLESS or self.is_bytes

    @property
    def is_bytes(self) -> bool:
        """Whether pre-tokens are bytes, spelled with GPT-2's alphabet (see volt.bytelevel).

        >>> PreTokenizer("bytes").split("é à")
        ['Ã©', 'ĠÃł']
        """
        return self.name == "bytes"

    @property
    def dummy_prefix(self) -> bool:
        """Whether a "▁" that is not in the text starts every line; decoding strips it.

        >>> PreTokenizer("metaspace").dummy_prefix, PreTokenizer("gpt2").dummy_prefix
        (True, False)
        """
        return self.name in {"unicode", "metaspace"}

    def extract(self, expr: pl.Expr) -> pl.Expr:
        """String expression → list-of-String expression: the pre-tokens of each value.

        >>> import polars as pl
        >>> pl.select(PreTokenizer().extract(pl.lit("a  b"))).item().to_list()
        ['a', 'b']
        """
        if self.name == "whitespace":
            return expr.str.extract_all(_WHITESPACE)
        if self.is_bytes:
            return _extract_bytes(expr)
        if self.name not in _LOSSLESS:
            return _extract_regex(expr, self.pattern)
        if self.name == "metaspace":
            return _extract_metaspace(expr)
        marked = expr.str.replace_all(" ", SPACE, literal=True)
        if self.name == "gpt2":
            return marked.str.replace_all(_GPT2_RUN, "$1 $2").str.extract_all(_GPT2)
        return _with_dummy(marked).str.extract_all(_UNICODE)

    def split(self, text: str) -> list[str]:
        """The pre-tokens of one normalised string. Raises CorpusError if it holds a lone surrogate.

        >>> PreTokenizer("unicode").split("Hello, world!")
        ['▁Hello', ',', '▁world', '!']
        """
        return list(_over_text(self.extract, text).item())


def _extract_bytes(expr: pl.Expr) -> pl.Expr:
    import polars as pl

    marked = expr.str.replace_all(SPACE, _ASIDE, literal=True).str.replace_all(" ", SPACE, literal=True)
    words = marked.str.replace_all(_BYTES_RUN, "$1 $2").str.extract_all(_BYTES)
    word = pl.element()
    text = word.str.replace_all(SPACE, " ", literal=True).str.replace_all(_ASIDE, SPACE, literal=True)
    spelled = text.str.encode("hex").str.replace_many(list(HEX), list(ALPHABET))
    return words.list.eval(pl.when(word.str.contains(f"^[{_HIDDEN}]$")).then(word).otherwise(spelled))


def _with_dummy(marked: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(marked == "").then(marked).otherwise(pl.lit(SPACE) + marked)


def _extract_metaspace(expr: pl.Expr) -> pl.Expr:
    """The matches of `_METASPACE`, by cutting at spaces put before every ▁, which takes half the time."""
    import polars as pl

    spaced = expr.str.replace_all(SPACE, " ", literal=True).str.replace_all(" ", f" {SPACE}", literal=True)
    words = (pl.lit(SPACE) + spaced).str.split(" ")
    return pl.when(expr == "").then(pl.lit([], dtype=pl.List(pl.String))).otherwise(words)


def _extract_regex(expr: pl.Expr, pattern: str) -> pl.Expr:
    import polars as pl

    text = expr.str.replace_all(SPACE, " ", literal=True) if _keeps_lone_space(pattern) else expr
    word = pl.element()
    return text.str.extract_all(pattern).list.eval(word.filter(word != "").str.replace_all(" ", SPACE, literal=True))


@lru_cache(maxsize=64)
def _keeps_lone_space(pattern: str) -> bool:
    """Whether the pattern matches " ". Raises ConfigError with the reason if it is no regex."""
    from polars.exceptions import ComputeError

    try:
        return " " in _over_text(lambda expr: expr.str.extract_all(pattern), " ").item()
    except ComputeError as error:
        reason = str(error).split("\n\nThis error occurred")[0]
        raise ConfigError(f"invalid pre-tokenizer regex {pattern!r}: {reason}") from None


def _over_series(make: Callable[[pl.Expr], pl.Expr], series: pl.Series) -> pl.Series:
    import polars as pl

    return series.to_frame("text").select(make(pl.col("text"))).to_series().alias(series.name)


def _over_text(make: Callable[[pl.Expr], pl.Expr], text: str) -> pl.Series:
    import polars as pl

    return _over_series(make, pl.Series("text", [check_text(text)], dtype=pl.String))


def check_text(text: str) -> str:
    """The text itself. Raises CorpusError with the position if it holds a lone surrogate.

    >>> check_text("é")
    'é'
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"lone surrogate U+{ord(text[error.start]):04X} at character {error.start} (counted from 0); "
            "it is not text: decode the input as UTF-8 with errors='replace'"
        ) from None
    return text
