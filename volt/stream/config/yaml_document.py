r"""Parse YAML to plain values with the line of every key and item; report mistakes by file, line and key.

No YAML tag can create an object. Unlike in `yaml.safe_load`, keys may not repeat, 1e3 is a number, dates stay text, and
values that YAML 1.1 and 1.2 read differently are refused: `no` (false, text), `010` (8, 10), `1:30` (90, text).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from volt import arguments
from volt.errors import ConfigError, VoltError
from volt.files.paths import expand_user
from volt.urls import plain_path, url_of

if TYPE_CHECKING:
    from pydantic import ValidationError


Place = tuple[str | int, ...]
_MAX_NODES = 100_000  # aliases may repeat a node; a short file must not become a large one
_MAX_DEPTH = 50
_ZERO = re.compile(r"[-+]?0o?[0-9_]+")
_TRUE = ("true", "false")
_OPEN = ("quoted scalar", "flow sequence", "flow mapping")  # what brackets and quotes open


class _Loader(yaml.SafeLoader):
    """Count lines as editors do, by "\\n"; YAML 1.1 also ends them at U+0085, U+2028 and U+2029."""

    depth = 0

    def __init__(self, text: str) -> None:
        self._line_ends = [place for place, sign in enumerate(text) if sign == "\n"]
        super().__init__(text)

    def get_mark(self) -> yaml.Mark:
        """Return the position, with the line as editors count it."""
        mark: yaml.Mark = super().get_mark()
        mark.line = bisect_left(self._line_ends, mark.index)
        return mark

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node. Raises _TooDeep, with its line, if it is nested too deeply."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _TooDeep(problem_mark=self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _TooDeep(yaml.MarkedYAMLError):
    pass


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    value: the content, JSON-able.
    lines: place (path of keys) of each key and item → its line, from 1; {} if the values are not from a file.
    hint: text added to every error.
    """

    path: str
    value: Any
    lines: dict[Place, int]
    hint: str = ""

    def line(self, place: Place) -> int:
        """Return the line of a place, or of the nearest enclosing value in the file."""
        return self.lines.get(self.nearest(place), 1)

    def nearest(self, place: Place) -> Place:
        """Return a place, or the place of the nearest enclosing value in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return place


def parse(text: str, *, path: str, lines: Sequence[int] = ()) -> Document:
    """Parse a configuration. Raises ConfigError with the line of invalid YAML, or of a repeated key.

    lines: for each line of the text, the line number to report in errors

    >>> parse("seed: 1\\nsources:\\n  wmt: {path: a.tsv}\\n", path="stream.yaml").line(("sources", "wmt"))
    3
    """
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        walker = _Walker(path, loader, lines)
        if root is None:
            raise ConfigError(f"{path}:1: the file is empty; `volt stream example` writes one to start from")
        return Document(path, walker.value(root, (), ()), walker.places)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{path}:{_explained(error, lines)}") from None
    except RecursionError:  # of merge keys, which may lead from one to the next
        raise ConfigError(f"{path}:1: merge keys within merge keys, deeper than can be read; write it out") from None
    except yaml.YAMLError as error:  # characters that YAML forbids
        line = _line(lines, text.count("\n", 0, getattr(error, "position", 0)))
        raise ConfigError(f"{path}:{line}: no YAML: {getattr(error, 'reason', error)}") from None


def _line(lines: Sequence[int], index: int) -> int:
    return lines[min(index, len(lines) - 1)] if lines else index + 1


def _explained(error: yaml.MarkedYAMLError, lines: Sequence[int]) -> str:
    context, problem = error.context or "", error.problem or ""
    is_open = error.context_mark is not None and context.endswith(_OPEN)
    mark = error.context_mark if is_open else error.problem_mark or error.context_mark
    line = _line(lines, mark.line if mark else 0)
    if isinstance(error, _TooDeep):
        return f"{line}: values are nested more than {_MAX_DEPTH} deep; nest less"
    hint = {
        "found character '\\t' that cannot start any token": "; indent with spaces",
        "mapping values are not allowed here": '; quote text that holds ": "',
    }.get(problem, "")
    if problem.startswith("expected <block end>"):
        hint = "; fix its indentation, or a quote left open above"
    if context.endswith(_OPEN) and error.problem_mark:
        problem = f"{problem} in line {_line(lines, error.problem_mark.line)}"
        hint = hint or "; close it, or fix that line"
    return f"{line}: no YAML: {context} {problem}".replace("  ", " ").rstrip() + hint


@dataclass(slots=True)
class _Walker:
    """Turns nodes into values, and collects the line of each place in `places`."""

    path: str
    loader: yaml.SafeLoader
    lines: Sequence[int]
    places: dict[Place, int] = field(default_factory=dict)
    n_nodes: int = 0

    def _line(self, node: yaml.Node) -> int:
        return _line(self.lines, node.start_mark.line)

    def value(self, node: yaml.Node, place: Place, above: tuple[int, ...]) -> Any:
        """Return the value of a node; `above` are the ids of the enclosing nodes, to detect a cycle."""
        self.n_nodes += 1
        if id(node) in above or len(above) > _MAX_DEPTH or self.n_nodes > _MAX_NODES:
            raise self._refusal(node, "aliases make the file endless, or far too large; write it out")
        self.places.setdefault(place, self._line(node))
        around = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            return {key: self.value(item, (*place, key), around) for key, item in self._items(node, place)}
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*place, index), around) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _items(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, yaml.Node]]:
        own: dict[str, yaml.Node] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refusal(key_node, "a key must be text; write it without brackets")
            self._refuse_half_characters(key_node)
            if key in own:
                raise self._refusal(key_node, f"key {key!r} is given twice; first in line {self._line(own[key])}")
            own[key] = key_node
        self.loader.flatten_mapping(node)  # merge keys (<<) give what the mapping itself has not
        merged = {key_node.value: (key_node, item) for key_node, item in node.value}
        for key, (key_node, item) in merged.items():
            self.places.setdefault((*place, key), self._line(key_node))
            yield key, item

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            value = self.loader.construct_object(node)
            self._refuse_double_meaning(node, value)
        except ValueError as error:
            raise self._refusal(node, str(error)) from None
        if isinstance(value, str):
            self._refuse_half_characters(node)
        if not isinstance(value, str | int | float | bool | None):
            raise self._refusal(node, f"{node.value!r} is not a plain value; quote it")
        if isinstance(value, float) and value.is_integer() and "." not in node.value:
            return int(value)  # 1e6 may be a number of lines
        return value

    def _refuse_half_characters(self, node: yaml.Node) -> None:
        # escapes such as \ud800 stand for no character alone
        if any("\ud800" <= sign <= "\udfff" for sign in node.value):
            raise self._refusal(node, f"{node.value!r} contains half a character; write the whole character")

    def _refuse_double_meaning(self, node: yaml.Node, value: Any) -> None:
        text, is_plain = node.value, isinstance(node, yaml.ScalarNode) and node.style is None
        quoted = f"or quote it if it is text: '{text}'"
        if isinstance(value, bool) and text.lower() not in _TRUE:
            raise self._refusal(node, f"{text} is {str(value).lower()} or text; write {str(value).lower()}, {quoted}")
        if isinstance(value, int | float) and ":" in text:
            raise self._refusal(node, f"{text} is {value} in YAML 1.1 and text in YAML 1.2; write {value}, {quoted}")
        if is_plain and _ZERO.fullmatch(text):
            raise self._refusal(node, f"{text} starts with 0: octal or not; write the number without it, {quoted}")

    def _refusal(self, node: yaml.Node, message: str) -> ConfigError:
        return ConfigError(f"{self.path}:{self._line(node)}: {message}")


_MOST = 30  # problems that are reported
_OPTION = re.compile(r"(?P<option>\w+)(: | is | ')")


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a configuration: its place and a message; `is_gap` if a key is missing at the place."""

    place: Place
    message: str
    is_gap: bool = False


class Notes:
    """Checks the values of a document, and collects the `problems`."""

    def __init__(self, document: Document) -> None:
        self.document, self.problems = document, list[Problem]()

    def add(self, place: Place, message: object) -> None:
        """Add a problem."""
        self.problems.append(Problem(place, str(message)))

    def note(self, error: VoltError, place: Place) -> None:
        """Add an error; if its text starts with an option of the file, add it at that option."""
        message = str(error)
        result = _OPTION.match(message)
        if result and (*place, result["option"]) in self.document.lines:
            place, message = (*place, result["option"]), message.removeprefix(f"{result['option']}: ")
        self.add(place, message)

    @contextmanager
    def catching(self, place: Place) -> Iterator[None]:
        """Catch an error of the block and add it."""
        try:
            yield
        except VoltError as error:
            self.add(place, error)

    def checked(self, model: Any, value: object, place: Place, *, is_part: bool = False) -> Any | None:
        """Validate a value with pydantic, strictly: "3" is not a number; `is_part` allows missing keys."""
        from pydantic import TypeAdapter, ValidationError

        adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
        try:
            return adapter.validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            result = _problems(error, adapter.json_schema(), at=place, document=self.document)
            self.problems += (problem for problem in result if not (is_part and problem.is_gap))
        except VoltError as error:
            if not is_part:
                self.note(error, place)
        return None

    def build(self, kind: Any, place: Place, /, **options: Any) -> Any | None:
        """Return an object with these options; None if they are invalid."""
        try:
            return kind(**options)
        except VoltError as error:
            self.note(error, place)
        return None

    def file(self, folder: Path, text: str, place: Place) -> str:
        """Return a path relative to a folder, with `~` and `$NAME` replaced."""
        with self.catching(place):
            if not text.strip():
                raise ConfigError("is empty; name a file or folder")
            return arguments.path(expand_user(text) if url_of(text) else str(folder / expand_user(plain_path(text))))
        return str(folder / text)


def as_error(problems: Iterable[Problem], document: Document) -> ConfigError:
    """Return all problems as one error, in the order of their lines, only the first for each place."""
    first: dict[Place, Problem] = {}
    for problem in problems:
        first.setdefault(problem.place, problem)
    lines = list[str]()
    for problem in sorted(first.values(), key=lambda problem: document.line(problem.place)):
        line = f":{document.line(problem.place)}" if document.lines else ""
        keys = "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in problem.place)
        where = keys.removeprefix(".") + ": " * bool(keys)  # sources.wmt.transforms[1].lower
        lines.append(f"{document.path}{line}: {where}{problem.message}")
    more = [f"and {len(lines) - _MOST:,} more like these"] * (len(lines) > _MOST)
    return ConfigError("\n".join([*lines[:_MOST], *more]) + document.hint)


def near(name: str, known: Sequence[str]) -> str:
    """Return a hint: the most similar known name, or all known names.

    >>> near("wieght", ["weight", "path"]), near("x", ["weight", "path"]), near("x", [])
    ('did you mean weight?', 'choose from weight, path', 'there is none here; remove it')
    """
    if not known:
        return "there is none here; remove it"
    result = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {result[0]}?" if result else f"choose from {', '.join(known)}"


def _problems(error: ValidationError, schema: dict[str, Any], *, at: Place, document: Document) -> Iterator[Problem]:
    from volt.stream.config.schema import known_keys

    for result in error.errors(include_url=False):
        inner, kind, value = result["loc"], result["type"], result["input"]
        text = "nothing" if value is None else repr(value)
        shown = text if len(text) <= 60 else f"{text[:57]}…"
        place = _place_in_file(inner, at, document)
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            hint = near(str(inner[-1]), known_keys(schema, inner[:-1]))
            yield Problem((*_place_in_file(inner[:-1], at, document), str(inner[-1])), f"unknown key; {hint}")
        elif kind in ("missing", "missing_argument"):
            yield Problem(place, f"key {inner[-1]!r} is missing; give it", is_gap=True)
        elif kind == "too_short":
            yield Problem(place, "is empty; give at least one")
        elif kind in ("model_type", "dataclass_type", "dict_type"):
            yield Problem(place, f"should be a mapping of keys to values, not {shown}")
        else:
            expected = result["msg"].removeprefix("Input ").replace("tuple", "list").replace("array", "list")
            hint = "; quote it" * (kind == "string_type" and isinstance(value, int | float))
            yield Problem(place, f"{expected}, not {shown}{hint}")


def _place_in_file(inner: Place, at: Place, document: Document) -> Place:
    """Return a place without pydantic's tags of alternatives, which are not in the file."""
    for key in inner:
        if (*at, key) in document.lines:
            at = (*at, key)
    return at
