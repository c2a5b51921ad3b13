"""A filter by a condition in SQL, which Polars works out for all lines at once.

>>> where = Where(condition="length(f1) <= 7 AND f2 <> ''")
>>> where(Batch.of(["a house\\tein Haus", "a house\\t", "a house", "the houses\\tHäuser"]), Chance(1, 2)).lines
['a house\\tein Haus']
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from volt import arguments
from volt.errors import ConfigError, StreamError
from volt.forks import about_to_use_polars
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.fields import index_of
from volt.stream.transforms.filters import Filter, kept

if TYPE_CHECKING:
    import polars as pl

# Functions of one line, so that a line passes or not whatever lines stand beside it
_FUNCTIONS = """
    abs array_contains array_length bit_length btrim cast ceil ceiling char_length character_length coalesce concat
    concat_ws div ends_with exp floor greatest if ifnull initcap least left length ln log log10 log2 lower ltrim mod
    normalize nullif octet_length pow power regexp_like replace reverse right round rtrim sign split_part sqrt
    starts_with string_to_array strpos substr substring trim try_cast upper
"""
_WORDS = "and between case else from in is like ilike not on or regexp rlike then to when"
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"[^"]*\"""")
_CALLED = re.compile(r"(\w+)\s*\(")
_NUMBERED = re.compile(r"f([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Where(Filter):
    """Keep the lines for which a condition in the SQL of Polars is true, as length(f1) <= 400 AND f2 <> ''."""

    name: ClassVar[str] = "where"
    condition: str
    """What must be true. The fields are f1, f2 and so on; one that a line lacks is NULL; length counts characters."""
    names: tuple[str, ...] = ()
    """What else the fields are called, field 1 first; by default as a `pair` names them."""

    def __post_init__(self) -> None:
        import polars as pl

        arguments.texts(self.names, "names", one="give a tuple of names")
        expression = self._expression()
        schema = dict.fromkeys(self._numbers(expression), pl.String())
        try:
            (kind,) = pl.LazyFrame(schema=schema).select(expression).collect_schema().values()
        except pl.exceptions.PolarsError as error:
            raise self._refusal(_first_line(error)) from None
        if kind != pl.Boolean():
            raise self._refusal(f"it gives {kind}, not true or false; compare it with something")

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        import polars as pl

        about_to_use_polars()
        expression = self._expression()
        numbers = self._numbers(expression)
        batch = batch.split(max(numbers.values()))
        arrays = {name: batch.columns[number - 1].as_text().to_arrow() for name, number in numbers.items()}
        frame = pl.DataFrame({name: pl.from_arrow(array) for name, array in arrays.items()})
        try:
            wanted = frame.select(expression.fill_null(False)).to_series()
        except pl.exceptions.PolarsError as error:
            raise StreamError(f"where: {self.condition!r} has no value for some line: {_first_line(error)}") from None
        return kept(batch, wanted.to_numpy())

    def _expression(self) -> pl.Expr:
        import polars as pl

        bare = _QUOTED.sub("''", arguments.text(self.condition, "condition"))
        if others := sorted({name.lower() for name in _CALLED.findall(bare)} - {*_FUNCTIONS.split(), *_WORDS.split()}):
            raise self._refusal(f"{others[0]} is no function of one line; these are: {' '.join(_FUNCTIONS.split())}")
        try:
            return pl.sql_expr(self.condition)
        except (pl.exceptions.PolarsError, UnicodeEncodeError) as error:
            raise self._refusal(_first_line(error)) from None

    def _numbers(self, expression: pl.Expr) -> dict[str, int]:
        """The columns that the condition names → their fields' numbers."""
        numbers = {name: self._number(name) for name in expression.meta.root_names()}
        if not numbers:
            raise self._refusal("it names no field; field 1 is f1")
        return numbers

    def _number(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name) + 1
        if not (found := _NUMBERED.fullmatch(name)):
            raise self._refusal(f"there is no field {name!r}; field 1 is {' or '.join([*self.names[:1], 'f1'])}")
        return index_of(int(found[1]), option="condition") + 1

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"condition: {self.condition!r} cannot be used: {reason}; mend it")


def _first_line(error: Exception) -> str:
    """What Polars says first; a plan or a list of hints follows."""
    return str(error).split("\n")[0]
