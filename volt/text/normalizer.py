r"""`Normalizer`: text in any spelling → text in one Unicode normal form, in lower case if wanted, or
text changed by the steps of another library.

    "ＶＯＬＴ ﬁnds"  → "VOLT finds"   with the normal form nfkc
                     → "volt finds"   with nfkc and lower case
                     → "VOLT-finds"   with the steps nfkc and ["replace", " ", "-", "literal"]

Polars normalises whole columns. A single string is a column of one row. `volt.text.normalizer_steps`
describes steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from sys import intern
from typing import TYPE_CHECKING, Any

from volt import arguments
from volt.errors import ConfigError, CorpusError, VocabularyError
from volt.fork_guard import about_to_use_polars

if TYPE_CHECKING:
    import polars as pl

    from volt.text.normalizer_steps import CompiledSteps

_FORMS = ("none", "nfc", "nfkc")
_STEPS_PREFIX = "steps:"


@dataclass(frozen=True, slots=True, repr=False)
class Normalizer:
    """A Unicode normal form, then lower case. A second application changes nothing. Or the steps of
    another library's normaliser, for which see `of_steps`.

    form: none, nfc or nfkc
    lowercase: whether to change to lower case
    steps: the steps as JSON; then form is none, and lowercase is False

    Raises ConfigError if the form is unknown or a step is invalid, and VocabularyError if the table
    of a charsmap is damaged.

    >>> Normalizer("nfkc", lowercase=True).normalize("ＶＯＬＴ ﬁnds")
    'volt finds'
    """

    form: str = "none"
    lowercase: bool = False
    steps: str = ""

    def __post_init__(self) -> None:
        arguments.choice(self.form, "normal form", _FORMS)
        if arguments.text(self.steps, "steps"):
            # one string for equal steps, so that a look-up in the cache need not compare long strings
            object.__setattr__(self, "steps", intern(str(self.steps)))
            self.compiled()

    def compiled(self) -> CompiledSteps:
        """Return the steps, ready to run."""
        from volt.text.normalizer_steps import compile_steps

        return compile_steps(self.steps)

    def __repr__(self) -> str:
        if self.steps:
            return f"<Normalizer: {self.label}>"
        return f"Normalizer(form={self.form!r}, lowercase={self.lowercase})"

    @classmethod
    def of_steps(cls, steps: Iterable[Sequence[Any]]) -> Normalizer:
        """Return the normalizer that applies steps, each a list of a name and arguments.

        steps: see `volt.text.normalizer_steps`

        Raises ConfigError for an invalid step, VocabularyError for a damaged table.

        >>> normalizer = Normalizer.of_steps([["nfkc"], ["replace", " ", "-", "literal"]])
        >>> normalizer, normalizer.normalize("ＶＯＬＴ ﬁnds")
        (<Normalizer: nfkc+replace>, 'VOLT-finds')
        >>> normalizer.name
        'steps:[["nfkc"],["replace"," ","-","literal"]]'
        """
        rows = list(map(list, steps))
        return cls(steps=json.dumps(rows, ensure_ascii=False, separators=(",", ":")))

    @classmethod
    def parse(cls, name: str) -> Normalizer:
        """Return the normalizer with a name such as "none", "lowercase" or "nfkc+lowercase".

        name: the name, in upper or lower case, or "steps:" and JSON

        Raises ConfigError if the name is unknown or a step is invalid, and VocabularyError if the
        table of a charsmap is damaged.

        >>> Normalizer.parse("NFKC+Lowercase")
        Normalizer(form='nfkc', lowercase=True)
        """
        name = arguments.text(name, "name")
        if name.startswith(_STEPS_PREFIX):
            return cls(steps=name.removeprefix(_STEPS_PREFIX) or "[]")
        combinations = product(_FORMS, (False, True))
        normalizers = {one.name: one for one in (cls(*options) for options in combinations)}
        if name.lower() not in normalizers:
            names = ", ".join(normalizers)
            raise ConfigError(
                f"unknown normalizer {arguments.shortened(name)!r}; choose from {names}"
            )
        return normalizers[name.lower()]

    @property
    def name(self) -> str:
        """The name that a vocabulary stores and `parse` reads."""
        if self.steps:
            return _STEPS_PREFIX + self.steps
        return self.label

    @property
    def rows(self) -> list[list[Any]]:
        """The steps, each a list of a name and arguments; [] without steps."""
        return json.loads(self.steps) if self.steps else []

    @property
    def label(self) -> str:
        """A short name to print, such as "nfkc+lowercase", or the names of the steps."""
        if self.steps:
            return "+".join(self.compiled().names)
        if not self.lowercase:
            return self.form
        return f"{self.form}+lowercase".removeprefix("none+")

    def apply(self, expr: pl.Expr) -> pl.Expr:
        """Return the Polars expression that normalises a String expression.

        expr: a Polars expression of strings

        >>> import polars as pl
        >>> pl.select(Normalizer("nfkc").apply(pl.lit("½"))).item()
        '1⁄2'
        """
        if self.steps:
            for step in self.compiled().steps:
                expr = step.apply(expr)
            return expr
        result = self._apply_form(expr)
        if self.lowercase:  # lower case may not be in the normal form
            result = self._apply_form(result.str.to_lowercase())
        return result

    def _apply_form(self, expr: pl.Expr) -> pl.Expr:
        form: Any = self.form.upper()
        if form == "NONE":
            return expr
        return expr.str.normalize(form)

    def apply_series(self, series: pl.Series) -> pl.Series:
        """Normalise every string of a series.

        series: a Polars series of strings
        """
        return evaluate_on_series(self.apply, series)

    def normalize(self, text: str) -> str:
        r"""Normalise one string. Raises CorpusError if it contains a lone surrogate.

        text: any

        >>> Normalizer("nfc").normalize("e\u0301") == "é"
        True
        """
        return str(evaluate_on_text(self.apply, arguments.text(text, "text")))

    def keeps(self, line: str) -> bool:
        """Check, in less than a microsecond, that a line is normal; some normal lines fail.

        line: any

        >>> Normalizer.of_steps([["nfkc"]]).keeps("VOLT"), Normalizer("none").keeps("ﬁ")
        (True, True)
        """
        if self.steps:
            return _is_plain(line) and self.compiled().keeps_ascii
        return self.name == "none"

    def normalize_lines(self, data: bytes, separator: int) -> bytes:
        r"""Normalise lines of UTF-8.

        data: the lines
        separator: the byte after each line

        Raises VocabularyError if the normalizer writes the separator into a line.

        >>> Normalizer.of_steps([["spaces"]]).normalize_lines(b" a  b \n\n", 10)
        b'a b\n\n'
        """
        from volt.text.normalizer_steps import change_lines

        result = data
        if self.steps:
            for step in self.compiled().steps:
                result = step.normalize_lines(result, separator)
        elif self.name != "none":
            result = change_lines(self.apply, data, separator)
        end = bytes([separator])
        if data.count(end) != result.count(end):
            raise VocabularyError(
                f"the normalizer {self.label} writes line ends into lines; give each line as a text "
                "of its own"
            )
        return result


def _is_plain(line: str) -> bool:
    """Check that a line is printable ASCII, with single spaces between words."""
    is_printable = line.isascii() and line.isprintable()
    return is_printable and "  " not in line and line[:1] != " " and line[-1:] != " "


def as_normalizer(value: str | Normalizer) -> Normalizer:
    """Return a Normalizer: the value itself, or the normalizer that the value names.

    Raises ConfigError if the name is unknown.
    """
    if isinstance(value, Normalizer):
        return value
    remedy = "give a name, such as 'nfkc', or a Normalizer"
    return Normalizer.parse(arguments.text(value, "normalizer", remedy=remedy))


def evaluate_on_series(build: Callable[[pl.Expr], pl.Expr], series: pl.Series) -> pl.Series:
    """Return the values of a Polars expression for a column of strings.

    build: returns the expression for a column of strings
    """
    import polars as pl

    about_to_use_polars()
    return series.to_frame("text").select(build(pl.col("text"))).to_series().alias(series.name)


def evaluate_on_text(build: Callable[[pl.Expr], pl.Expr], text: str) -> Any:
    """Return the value of a Polars expression for one string.

    build: returns the expression for a column of strings

    Raises CorpusError if the string contains a lone surrogate.
    """
    import polars as pl

    series = pl.Series("text", [check_text(text)], dtype=pl.String)
    return evaluate_on_series(build, series).item()


def check_text(text: str) -> str:
    """Return the text itself. Raises CorpusError with the position of a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"lone surrogate U+{ord(text[error.start]):04X} at character {error.start} (counted "
            "from 0); it is not text: decode the input as UTF-8 with errors='replace'"
        ) from None
    return text
