"""Collect the problems of a configuration, and report each with file, line and place (path of keys)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from volt import arguments
from volt.errors import ConfigError, VoltError
from volt.files.paths import expand_user
from volt.stream.config.yaml_document import Document, Place
from volt.urls import plain_path, url_of

if TYPE_CHECKING:
    from pydantic import ValidationError

_MOST = 30  # maximum number of reported problems
_OPTION = re.compile(r"(\w+)(?:: | is | ')")


class Notes:
    """Checks the values of a document, and collects the problems: pairs of a place and a message."""

    def __init__(self, document: Document) -> None:
        self.document, self.problems = document, list[tuple[Place, str]]()

    def add(self, place: Place, message: object) -> None:
        self.problems.append((place, str(message)))

    @contextmanager
    def catching(self, *places: Place) -> Iterator[None]:
        """Catch a VoltError raised in the context. Note it at the key that its message begins with, or at places[0]."""
        try:
            yield
        except VoltError as error:
            message, option = str(error), _OPTION.match(str(error))
            for place in places:
                if option and (*place, option[1]) in self.document.lines:
                    return self.add((*place, option[1]), message.removeprefix(f"{option[1]}: "))
            self.add(places[0], message)

    def check_names(self, names: Iterable[str], place: Place) -> None:
        for name in names:
            if not name.isidentifier():
                self.add(
                    (*place, name), f"{name!r} is not a name for a field; give a word, such as src"
                )

    def checked(
        self, model: Any, value: object, place: Place, *, is_part: bool = False
    ) -> Any | None:
        """Validate a value with pydantic, strictly: "3" is not a number. is_part: whether keys may be missing"""
        from pydantic import TypeAdapter, ValidationError

        adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
        with self.catching(place):
            try:
                return adapter.validate_json(json.dumps(value), strict=True)
            except ValidationError as error:
                self.problems += _problems(
                    error, adapter.json_schema(), place, self.document, is_part=is_part
                )
            except VoltError:
                if not is_part:
                    raise
        return None

    def build(self, kind: Any, place: Place, /, **options: Any) -> Any | None:
        """Return an object with these options; None if they are invalid."""
        with self.catching(place):
            return kind(**options)
        return None

    def file(self, text: str, place: Place) -> str:
        """Return a path relative to the document's folder, with `~` and `$NAME` replaced."""
        folder = self.document.folder
        with self.catching(place):
            if not text.strip():
                raise ConfigError("is empty; name a file or folder")
            return arguments.path(
                expand_user(text) if url_of(text) else str(folder / expand_user(plain_path(text)))
            )
        return str(folder / text)

    def error(self) -> ConfigError:
        """Return all problems as one error, in the order of their lines, with only the first problem of each place."""
        document, first = self.document, dict(reversed(self.problems))
        places = sorted(dict(self.problems), key=document.line)
        lines = [f"{document.name_of(place)}: {first[place]}" for place in places[:_MOST]]
        more = [f"and {len(places) - _MOST:,} more like these"] * (len(places) > _MOST)
        return ConfigError("\n".join([*lines, *more]) + document.hint)


def near(name: str, known: Sequence[str]) -> str:
    """Return a hint: the most similar known name, or all known names.

    >>> near("wieght", ["weight", "path"]), near("x", ["weight", "path"]), near("x", [])
    ('did you mean weight?', 'choose from weight, path', 'no key is allowed; remove it')
    """
    if not known:
        return "no key is allowed; remove it"
    result = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {result[0]}?" if result else f"choose from {', '.join(known)}"


def _problems(
    error: ValidationError, schema: dict[str, Any], at: Place, document: Document, *, is_part: bool
) -> Iterator[tuple[Place, str]]:
    from volt.stream.config.json_schema import known_keys

    for result in error.errors(include_url=False):
        inner, kind, value = result["loc"], result["type"], result["input"]
        text = "nothing" if value is None else repr(value)
        shown = text if len(text) <= 60 else f"{text[:57]}…"
        place = _place_in_file(inner, at, document)
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            hint = near(str(inner[-1]), known_keys(schema, inner[:-1]))
            yield (
                (*_place_in_file(inner[:-1], at, document), str(inner[-1])),
                f"unknown key; {hint}",
            )
        elif kind in ("missing", "missing_argument"):
            if not is_part:
                yield place, f"key {inner[-1]!r} is missing; give it"
        elif kind == "too_short":
            yield place, "is empty; give at least one"
        elif kind in ("model_type", "dataclass_type", "dict_type"):
            yield place, f"should be a mapping of keys to values, not {shown}"
        else:
            expected = (
                result["msg"]
                .removeprefix("Input ")
                .replace("tuple", "list")
                .replace("array", "list")
            )
            hint = "; quote it" * (kind == "string_type" and isinstance(value, int | float))
            yield place, f"{expected}, not {shown}{hint}"


def _place_in_file(inner: Place, at: Place, document: Document) -> Place:
    """Return a place without pydantic's tags of alternatives, which are not in the file."""
    for key in inner:
        if (*at, key) in document.lines:
            at = (*at, key)
    return at
