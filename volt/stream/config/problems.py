"""Check the values of a document, and collect all problems: pairs of a place and a message.

Checks do not stop at the first problem. In the end, `Problems.to_error` returns one error:

    stream.yaml:3: sources.wmt.weight: should be a valid number, not 'x'
    stream.yaml:7: sources.wmt.pth: unknown key; did you mean path?
"""

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

_MOST_SHOWN = 30  # maximum number of problems in an error
_MAX_VALUE = 60  # maximum number of characters of a value in a message
_MISSING = ("missing", "missing_argument")  # pydantic's types of errors
_OPTION = re.compile(r"(\w+)(?:: | is | ')")  # the option that a message begins with


class Problems:
    """The problems of a document.

    entries: (place, message) pairs, in the order of the checks
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.entries = list[tuple[Place, str]]()

    def add(self, place: Place, message: str) -> None:
        self.entries.append((place, message))

    def make_adder(self, *place: str | int) -> Callable[..., None]:
        """Return a function that adds a message at `place`, or at a key below it.

        >>> problems = Problems(Document("stream.yaml", {}, {}))
        >>> add = problems.make_adder("sources", "wmt")
        >>> add("is -1; give a number from 0 up", "weight")
        >>> print(problems.to_error())
        stream.yaml: sources.wmt.weight: is -1; give a number from 0 up
        """
        return lambda message, *keys: self.add((*place, *keys), message)

    @contextmanager
    def catch_errors(self, *places: Place) -> Iterator[None]:
        """Catch a VoltError raised in the context, and add its message.

        If the message begins with an option that is a key at one of the places, it is added at that
        key, otherwise at places[0].
        """
        try:
            yield
        except VoltError as error:
            message = str(error)
            option = _OPTION.match(message)
            keys = [(*place, option[1]) for place in places] if option else []
            for key in keys:
                if key in self.document.lines:
                    return self.add(key, message.removeprefix(f"{key[-1]}: "))
            self.add(places[0], message)

    def check_field_names(self, names: Iterable[str], place: Place) -> None:
        for name in names:
            if not name.isidentifier():
                fault = f"{name!r} is not a name for a field; give a word, such as src"
                self.add((*place, name), fault)

    def validate(
        self, adapter: TypeAdapter[T], value: object, place: Place, *, is_part: bool = False
    ) -> T | None:
        """Return a value validated by pydantic, strictly: "3" is not a number; None if it is
        invalid.

        is_part: whether keys may be missing
        """
        from pydantic import ValidationError

        with self.catch_errors(place):
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

    def _add_invalid(self, problem: Mapping[str, Any], schema: Values, root: Place) -> None:
        """Add one of pydantic's errors.

        root: the place of the validated value, to which the error's location is relative
        """
        keys = problem["loc"]
        kind = problem["type"]
        value = problem["input"]
        shown = "nothing" if value is None else repr(value)
        if len(shown) > _MAX_VALUE:
            shown = f"{shown[: _MAX_VALUE - 3]}…"
        place = self.find_place(keys, root)
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            *outer, key = keys
            place = (*self.find_place(outer, root), key)
            fault = f"unknown key; {suggest_name(str(key), list_allowed_keys(schema, outer))}"
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

    def find_place(self, keys: Sequence[str | int], root: Place) -> Place:
        """Return the place of keys below `root`, without the keys that are not in the file.

        Pydantic's locations contain such keys: the tags of a union's alternatives.
        """
        place = root
        for key in keys:
            if (*place, key) in self.document.lines:
                place = (*place, key)
        return place

    def build(self, make: Callable[..., T], place: Place, /, **options: Any) -> T | None:
        """Return make(**options); None if it raises a VoltError, which is added."""
        with self.catch_errors(place):
            return make(**options)
        return None

    def resolve_path(self, text: str, place: Place) -> str:
        """Return a path relative to the document's folder, with `~` and `$NAME` replaced."""
        folder = self.document.folder
        with self.catch_errors(place):
            if not text.strip():
                raise ConfigError("is empty; name a file or folder")
            if url_of(text):
                return arguments.path(expand_user(text))
            return arguments.path(str(folder / expand_user(plain_path(text))))
        return str(folder / text)

    def to_error(self) -> ConfigError:
        """Return all problems as one error, in the order of their lines, with only the first
        problem of each place."""
        first_messages = dict(reversed(self.entries))
        places = sorted(dict(self.entries), key=self.document.find_line)
        lines = list[str]()
        for place in places[:_MOST_SHOWN]:
            lines.append(f"{self.document.describe(place)}: {first_messages[place]}")
        if len(places) > _MOST_SHOWN:
            lines.append(f"and {len(places) - _MOST_SHOWN:,} more like these")
        return ConfigError("\n".join(lines) + self.document.hint)


def suggest_name(name: str, allowed: Sequence[str]) -> str:
    """Return a remedy for an unknown name: the most similar allowed name, or all allowed names.

    >>> suggest_name("wieght", ["weight", "path"]), suggest_name("x", ["weight", "path"])
    ('did you mean weight?', 'choose from weight, path')
    """
    if not allowed:
        return "no key is allowed; remove it"
    similar = get_close_matches(name, allowed, n=1, cutoff=0.6)
    return f"did you mean {similar[0]}?" if similar else f"choose from {', '.join(allowed)}"


def list_allowed_keys(schema: Values, location: Sequence[str | int]) -> list[str]:
    """Return the keys that a JSON schema allows in the value at a location.

    location: keys and indices; keys that the schema lacks, such as pydantic's tags, are skipped
    """
    nodes = [schema]
    for key in location:
        inner_nodes = list[Values]()
        for node in _expand_nodes(schema, nodes):
            if key in node.get("properties", {}):
                inner_nodes.append(node["properties"][key])
            elif isinstance(node.get("additionalProperties"), dict):
                inner_nodes.append(node["additionalProperties"])
            elif "items" in node:
                inner_nodes.append(node["items"])
        nodes = inner_nodes or nodes
    result = list[str]()
    for node in _expand_nodes(schema, nodes):
        result += node.get("properties", {})
    return result


def _expand_nodes(schema: Values, nodes: list[Values]) -> Iterator[Values]:
    """Yield nodes of a JSON schema, the definitions that they refer to, and their alternatives."""
    for node in nodes:
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            yield from _expand_nodes(schema, [schema["$defs"][name]])
        yield from _expand_nodes(schema, node.get("oneOf", []))
        yield from _expand_nodes(schema, node.get("anyOf", []))
        yield node
