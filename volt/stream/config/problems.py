"""Collect the problems of a configuration, and report each with file, line and place (path of
keys)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from volt import arguments
from volt.errors import ConfigError, VoltError
from volt.files.paths import expand_user
from volt.stream.config.yaml_document import Document, Place, Values
from volt.urls import plain_path, url_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_MOST = 30  # maximum number of reported problems
_MISSING = ("missing", "missing_argument")
_OPTION = re.compile(r"(\w+)(?:: | is | ')")


class Notes:
    """Checks the values of a document, and collects the problems: pairs of a place and a message."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems = list[tuple[Place, str]]()

    def add(self, place: Place, message: str) -> None:
        self.problems.append((place, message))

    def at(self, *place: str | int) -> Callable[..., None]:
        """Return a function that notes a message at `place`, or at a key below it.

        >>> notes = Notes(Document("stream.yaml", {}, {}))
        >>> notes.at("sources", "wmt")("is -1; give a number from 0 up", "weight")
        >>> print(notes.error())
        stream.yaml: sources.wmt.weight: is -1; give a number from 0 up
        """
        return lambda message, *keys: self.add((*place, *keys), message)

    @contextmanager
    def catching(self, *places: Place) -> Iterator[None]:
        """Catch a VoltError raised in the context.

        Note it at the key that its message begins with, or at places[0].
        """
        try:
            yield
        except VoltError as error:
            message = str(error)
            option = _OPTION.match(message)
            inner = [(*place, option[1]) for place in places] if option else []
            for place in inner:
                if place in self.document.lines:
                    return self.add(place, message.removeprefix(f"{place[-1]}: "))
            self.add(places[0], message)

    def check_names(self, names: Iterable[str], place: Place) -> None:
        for name in names:
            if not name.isidentifier():
                fault = f"{name!r} is not a name for a field; give a word, such as src"
                self.add((*place, name), fault)

    def checked(
        self, adapter: TypeAdapter[T], value: object, place: Place, *, is_part: bool = False
    ) -> T | None:
        """Validate a value with pydantic, strictly: "3" is not a number. is_part: whether keys may
        be missing"""
        from pydantic import ValidationError

        with self.catching(place):
            try:
                return adapter.validate_json(json.dumps(value), strict=True)
            except ValidationError as error:
                for problem in error.errors(include_url=False):
                    if not (is_part and problem["type"] in _MISSING):
                        self._add_invalid(problem, adapter.json_schema(), place)
            except VoltError:
                if not is_part:
                    raise
        return None

    def _add_invalid(self, problem: Mapping[str, Any], schema: Values, at: Place) -> None:
        keys = problem["loc"]
        kind = problem["type"]
        value = problem["input"]
        shown = "nothing" if value is None else repr(value)
        if len(shown) > 60:
            shown = f"{shown[:57]}…"
        place = self.in_file(keys, at)
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            *outer, key = keys
            place = (*self.in_file(outer, at), key)
            fault = f"unknown key; {near(str(key), known_keys(schema, outer))}"
        elif kind in _MISSING:
            fault = f"key {keys[-1]!r} is missing; give it"
        elif kind == "too_short":
            fault = "is empty; give at least one"
        elif kind in ("model_type", "dataclass_type", "dict_type"):
            fault = f"should be a mapping of keys to values, not {shown}"
        else:
            expected = re.sub("tuple|array", "list", problem["msg"].removeprefix("Input "))
            fault = f"{expected}, not {shown}"
            if kind == "string_type" and isinstance(value, int | float):
                fault += "; quote it"
        self.add(place, fault)

    def in_file(self, keys: Sequence[str | int], place: Place) -> Place:
        """Return a place without pydantic's tags of alternatives, which are not in the file."""
        for key in keys:
            if (*place, key) in self.document.lines:
                place = (*place, key)
        return place

    def build(self, kind: Callable[..., T], place: Place, /, **options: Any) -> T | None:
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
            if url_of(text):
                return arguments.path(expand_user(text))
            return arguments.path(str(folder / expand_user(plain_path(text))))
        return str(folder / text)

    def error(self) -> ConfigError:
        """Return all problems as one error, in the order of their lines, with only the first
        problem of each place."""
        document = self.document
        first = dict(reversed(self.problems))
        places = sorted(dict(self.problems), key=document.line)
        lines = [f"{document.name_of(place)}: {first[place]}" for place in places[:_MOST]]
        if len(places) > _MOST:
            lines.append(f"and {len(places) - _MOST:,} more like these")
        return ConfigError("\n".join(lines) + document.hint)


def near(name: str, known: Sequence[str]) -> str:
    """Return a hint: the most similar known name, or all known names.

    >>> near("wieght", ["weight", "path"]), near("x", ["weight", "path"]), near("x", [])
    ('did you mean weight?', 'choose from weight, path', 'no key is allowed; remove it')
    """
    if not known:
        return "no key is allowed; remove it"
    result = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {result[0]}?" if result else f"choose from {', '.join(known)}"


def known_keys(schema: Values, place: Sequence[str | int]) -> list[str]:
    """Return the keys allowed in the value at `place`, a path of keys and of pydantic's tags, which
    are skipped."""
    nodes = [schema]
    for key in place:
        inner = list[Values]()
        for node in _resolved(schema, nodes):
            if key in node.get("properties", {}):
                inner.append(node["properties"][key])
            elif isinstance(node.get("additionalProperties"), dict):
                inner.append(node["additionalProperties"])
            elif "items" in node:
                inner.append(node["items"])
        nodes = inner or nodes
    result = list[str]()
    for node in _resolved(schema, nodes):
        result += node.get("properties", {})
    return result


def _resolved(schema: Values, nodes: list[Values]) -> Iterator[Values]:
    for node in nodes:
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            yield from _resolved(schema, [schema["$defs"][name]])
        yield from _resolved(schema, node.get("oneOf", []))
        yield from _resolved(schema, node.get("anyOf", []))
        yield node
