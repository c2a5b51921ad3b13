"""Base classes of transforms, and the types of their options: a type also names the function that checks a value."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import MOST_COPIES, Call, LoadedFiles, Opened, signature

MOST_FIELDS = 1 << 16  # that a number may name: `copy` makes the fields before the one that it writes
_CAPITAL = re.compile("(?<!^)(?=[A-Z])")


def field_number(value: int, option: str = "field") -> int:
    if (field := arguments.whole(value, option)) < 1:
        raise ConfigError(f"{option}: {field}; fields count from 1, the first is field 1")
    if field > MOST_FIELDS:
        raise ConfigError(f"{option}: {field}; a field's number is {MOST_FIELDS:,} at most")
    return field


def check_fields(fields: tuple[int, ...], option: str = "fields", *, n_fields: int | None = None) -> tuple[int, ...]:
    """Return the fields. Raises ConfigError unless they are `n_fields` distinct numbers from 1."""
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


def number_between(value: float, option: str, *, low: float = 0, high: float = sys.float_info.max) -> float:
    if not low <= arguments.number(value, option) <= high:
        noun, limit = "probability" if high == 1 else "number", f"to {high:,g}" if high < sys.float_info.max else "up"
        raise ConfigError(f"{option}: {value}; give a {noun} from {low:g} {limit}")
    return value


def whole_between(value: int, option: str, *, low: float = 0, high: float = math.inf) -> int:
    return int(number_between(arguments.whole(value, option), option, low=low, high=high))


def _file(value: object, option: str) -> Path:
    if not (path := arguments.path(value, option)):
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


@cache
def _checks(kind: type[Any]) -> list[tuple[str, bool, Callable[[Any, str], object]]]:
    hints, result = get_type_hints(kind, include_extras=True), list[tuple[str, bool, Callable[[Any, str], object]]]()
    for option in dataclasses.fields(kind):
        args = get_args(hint := hints[option.name])
        for one in args if NoneType in args else (hint,):
            names = [partial(arguments.choice, choices=get_args(one))] if get_origin(one) is Literal else []
            result += [(option.name, NoneType in args, check) for check in getattr(one, "__metadata__", names)]
    return result


class ConfiguredTransform:
    """Base class of transforms that a configuration can name. A name is the class's in snake case.

    The function that an option's type names checks it. Attribute docstrings become the schema's descriptions.
    """

    __slots__ = ()
    name: ClassVar[str]
    __pydantic_config__: ClassVar[dict[str, object]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "alias_generator": lambda name: name.rstrip("_"),  # `from_` is `from` in YAML
    }

    def __init_subclass__(cls) -> None:
        cls.name = _CAPITAL.sub("_", cls.__name__).lower()

    def __post_init__(self) -> None:
        for option, is_optional, check in _checks(type(self)):  # type: ignore[arg-type]  # mypy: a class is not Hashable
            value = getattr(self, option)
            if value is not None or not is_optional:
                object.__setattr__(self, option, check(value, option.rstrip("_")))
        self.check()

    def check(self) -> None:
        """Raise ConfigError if options do not fit together."""


class LineTransform(ConfiguredTransform):
    __slots__ = ()
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True


class FileTransform(ConfiguredTransform):
    __slots__ = ()

    def load(self, files: LoadedFiles) -> tuple[Call, dict[str, str]]:
        """Return the call with the loaded file, and option → the file's fingerprint."""
        raise NotImplementedError

    def opened(self, files: LoadedFiles) -> Opened:
        call, fingerprints = self.load(files)
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        options = {name.rstrip("_"): signature(getattr(self, name)) for name in names if name not in fingerprints}
        return Opened(self, call, {"type": type(self).__name__, **options, **fingerprints})

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def signature(self) -> dict[str, Any]:
        return self.opened(LoadedFiles()).values
