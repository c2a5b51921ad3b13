"""The options of transforms: how a configuration gives them, and what they must be.

>>> check_fields((1, 2))
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.fields import Fields, index_of, is_breaking


class ConfiguredTransform:
    """Base of the transforms that a configuration can name; says how pydantic checks and documents their options."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "alias_generator": lambda name: name.rstrip("_"),  # `from_` is `from` in YAML
    }


def check_text_option(text: str, *, option: str) -> None:
    """Raise ConfigError if a constant of the configuration holds a tab or a line break.

    >>> check_text_option("[BT]", option="text")
    """
    if is_breaking(arguments.text(text, option)) or "\r" in text:
        raise ConfigError(
            f"{option}: {text!r} holds a tab or a line break, which separate fields and lines; leave it out"
        )


def check_fields(fields: Fields | None, *, option: str = "fields", n_fields: int | None = None) -> None:
    """Raise ConfigError if no field is named, one is below 1 or named twice, or there are not `n_fields` of them.

    >>> check_fields((2, 2))
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: fields: 2 is given twice; name each field once
    """
    if fields is None:
        return
    if not isinstance(fields, tuple | list):
        raise arguments.refusal(fields, option, "give a tuple of numbers, such as (1, 2)")
    if not fields or (n_fields and len(fields) != n_fields):
        raise ConfigError(f"{option}: {len(fields)} fields; give {n_fields or 'one or more'}")
    for place, field in enumerate(fields):
        check_field(field, option=option)
        if field in fields[:place]:
            raise ConfigError(f"{option}: {field} is given twice; name each field once")


def take_file(transform: object, option: str) -> None:
    """Let a transform's option be a Path, which marks files, where it was given as a str. For its own constructor."""
    path = arguments.path(getattr(transform, option), option)
    if not path:
        raise ConfigError(f"{option} is empty; give the path of a file")
    object.__setattr__(transform, option, Path(path))


def check_field(field: int | None, *, option: str) -> None:
    """Raise ConfigError if no field can have this number; None names no field and passes.

    >>> check_field(2, option="to")
    """
    if field is not None:
        index_of(field, option=option)
