"""Apply Unicode normal forms and lower case to strings, series and expressions of Polars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from volt import arguments
from volt.errors import ConfigError, CorpusError
from volt.fork_guard import about_to_use_polars

if TYPE_CHECKING:
    import polars as pl


_FORMS = ("none", "nfc", "nfkc")


@dataclass(frozen=True, slots=True)
class Normalizer:
    """A Unicode normal form, then lower case. A second application changes nothing.

    form: none, nfc or nfkc
    lowercase: whether to change to lower case

    Raises ConfigError if the form is unknown.

    >>> Normalizer("nfkc", lowercase=True).normalize("ＶＯＬＴ ﬁnds")
    'volt finds'
    """

    form: str = "none"
    lowercase: bool = False

    def __post_init__(self) -> None:
        arguments.choice(self.form, "normal form", _FORMS)

    @classmethod
    def parse(cls, name: str) -> Normalizer:
        """Read a name such as "none", "lowercase", "nfc" or "nfkc+lowercase", in any case.

        name: the name of the normaliser

        >>> Normalizer.parse("NFKC+Lowercase")
        Normalizer(form='nfkc', lowercase=True)
        """
        name = arguments.text(name, "name")
        known = [cls(form, lowercase) for form, lowercase in product(_FORMS, (False, True))]
        for normalizer in known:
            if normalizer.name == name.lower():
                return normalizer
        names = ", ".join(normalizer.name for normalizer in known)
        raise ConfigError(f"unknown normalizer {name!r}; choose from {names}")

    @property
    def name(self) -> str:
        """The name that a vocabulary stores and `parse` reads."""
        if not self.lowercase:
            return self.form
        return f"{self.form}+lowercase".removeprefix("none+")

    def apply(self, expr: pl.Expr) -> pl.Expr:
        """Normalise a String expression.

        expr: a Polars expression

        >>> import polars as pl
        >>> pl.select(Normalizer("nfkc").apply(pl.lit("½"))).item()
        '1⁄2'
        """
        result = self._apply_form(expr)
        if self.lowercase:
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
        return _over_series(self.apply, series)

    def normalize(self, text: str) -> str:
        r"""Normalise one string. Raises CorpusError if it contains a lone surrogate.

        text: any

        >>> Normalizer("nfc").normalize("e\u0301") == "é"
        True
        """
        return str(_over_text(self.apply, arguments.text(text, "text")).item())


def as_normalizer(value: str | Normalizer) -> Normalizer:
    """Return the value if it is a Normalizer, or the one with this name.

    Raises ConfigError if the name is unknown.
    """
    if isinstance(value, Normalizer):
        return value
    remedy = "give a name, such as 'nfkc', or a Normalizer"
    return Normalizer.parse(arguments.text(value, "normalizer", remedy=remedy))


def _over_series(make: Callable[[pl.Expr], pl.Expr], series: pl.Series) -> pl.Series:
    import polars as pl

    about_to_use_polars()
    return series.to_frame("text").select(make(pl.col("text"))).to_series().alias(series.name)


def _over_text(make: Callable[[pl.Expr], pl.Expr], text: str) -> pl.Series:
    import polars as pl

    return _over_series(make, pl.Series("text", [check_text(text)], dtype=pl.String))


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
