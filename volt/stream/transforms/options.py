"""Types of transform options; each type contains the function that checks a value."""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from volt import arguments
from volt.errors import ConfigError

MOST_COPIES = 10_000  # maximum number of copies of a line, or of a field
MOST_FIELDS = 1 << 16  # largest number of a field; `copy` adds all missing fields before it


def field_number(value: int, option: str = "field") -> int:
    field = arguments.whole(value, option)
    if field < 1:
        raise ConfigError(f"{option}: {field}; fields count from 1, the first is field 1")
    if field > MOST_FIELDS:
        raise ConfigError(f"{option}: {field}; a field's number is {MOST_FIELDS:,} at most")
    return field


def check_fields(
    fields: tuple[int, ...], option: str = "fields", *, n_fields: int | None = None
) -> tuple[int, ...]:
    """Return the fields. Raises ConfigError if they are not `n_fields` distinct numbers from 1
    on."""
    if not isinstance(fields, tuple | list):
        raise arguments.refusal(fields, option, "give a tuple of numbers, such as (1, 2)")
    if not fields or (n_fields and len(fields) != n_fields):
        raise ConfigError(f"{option}: {len(fields)} fields; give {n_fields or 'one or more'}")
    for place, field in enumerate(fields):
        if field_number(field, option) in fields[:place]:
            raise ConfigError(f"{option}: {field} is given twice; name each field once")
    return fields


def _field_text(text: str, option: str) -> str:
    if not {"\t", "\n", "\r"}.isdisjoint(arguments.text(text, option)):
        raise ConfigError(f"{option}: {text!r} contains a tab or a line break; remove it")
    return text


def number_between(
    value: float, option: str, *, low: float = 0, high: float = sys.float_info.max
) -> float:
    if not low <= arguments.number(value, option) <= high:
        noun = "probability" if high == 1 else "number"
        limit = f"to {high:,g}" if high < sys.float_info.max else "up"
        raise ConfigError(f"{option}: {value}; give a {noun} from {low:g} {limit}")
    return value


def whole_between(value: int, option: str, *, low: float = 0, high: float = math.inf) -> int:
    return int(number_between(arguments.whole(value, option), option, low=low, high=high))


def _file(value: object, option: str) -> Path:
    path = arguments.path(value, option)
    if not path:
        raise ConfigError(f"{option} is empty; give the path of a file")
    return Path(path)


Fields = Annotated[tuple[int, ...], check_fields]  # numbers of fields, from 1
TwoFields = Annotated[tuple[int, ...], partial(check_fields, n_fields=2)]
FieldNumber = Annotated[int, field_number]
FieldText = Annotated[str, _field_text]
Amount = Annotated[float, number_between]
Probability = Annotated[float, partial(number_between, high=1)]
Number = Annotated[int, partial(whole_between, low=1)]
Size = Annotated[int, whole_between]
Copies = Annotated[int, partial(whole_between, low=1, high=MOST_COPIES)]
Exponent = Annotated[float, partial(number_between, high=math.inf)]
File = Annotated[Path, _file]
