r"""Parse YAML into plain values, and record the line of every key and item.

No YAML tag can create an object. Unlike in `yaml.safe_load`, keys may not repeat, 1e3 is a number,
dates stay text, and values that YAML 1.1 and 1.2 read differently are refused: `no` (false, text),
`010` (8, 10), `1:30` (90, text).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from volt.errors import ConfigError

Place = tuple[str | int, ...]
Values = dict[str, Any]
_MAX_NODES = 100_000  # aliases may repeat a node; a short file must not become a large one
_MAX_DEPTH = 50
_ZERO = re.compile(r"[-+]?0o?[0-9_]+")
_HALF = re.compile("[\ud800-\udfff]")
_OPEN = ("quoted scalar", "flow sequence", "flow mapping")  # what brackets and quotes open
_HINTS = {
    "found character '\\t' that cannot start any token": "; indent with spaces",
    "mapping values are not allowed here": '; quote text that contains ": "',
}


class _Loader(yaml.SafeLoader):
    """Turns YAML into values, and collects the line of each place in `places`.

    Lines are counted as editors count them, by "\\n"; YAML 1.1 also ends lines at U+0085, U+2028
    and U+2029.
    """

    depth = 0
    n_nodes = 0

    def __init__(self, text: str, path: str, lines: Sequence[int]) -> None:
        self.places = dict[Place, int]()
        self._path = path
        self._lines = lines
        self._line_ends = [place for place, sign in enumerate(text) if sign == "\n"]
        super().__init__(text)

    def get_mark(self) -> yaml.Mark:
        mark: yaml.Mark = super().get_mark()
        mark.line = bisect_left(self._line_ends, mark.index)
        return mark

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise self._refusal(event, f"values are nested more than {_MAX_DEPTH} deep; nest less")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if _HALF.search(node.value):
            fault = f"{node.value!r} contains half a character; write the whole character"
            raise self._refusal(node, fault)
        return node

    def value(self, node: yaml.Node, place: Place = ()) -> Any:
        self.n_nodes += 1
        if len(place) > _MAX_DEPTH or self.n_nodes > _MAX_NODES:
            fault = "aliases make the file endless, or far too large; write the values out"
            raise self._refusal(node, fault)
        self.places.setdefault(place, self._line(node))
        if isinstance(node, yaml.MappingNode):
            return {key: self.value(item, (*place, key)) for key, item in self._items(node, place)}
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*place, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _items(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, yaml.Node]]:
        own = dict[str, yaml.Node]()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refusal(key_node, "a key must be text; write it without brackets")
            key = key_node.value
            if key in own:
                fault = f"key {key!r} repeats line {self._line(own[key])}; remove one"
                raise self._refusal(key_node, fault)
            own[key] = key_node
        self.flatten_mapping(node)  # merge keys (<<) add the keys that the mapping itself lacks
        pairs = {pair[0].value: pair for pair in node.value}
        for key_node, item in pairs.values():
            self.places.setdefault((*place, key_node.value), self._line(key_node))
            yield key_node.value, item

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            value = self.construct_object(node)
        except ValueError as error:
            raise self._refusal(node, str(error)) from None
        fault = _double_meaning(node, value)
        if fault:
            raise self._refusal(node, f"{fault}, or quote it if it is text: '{node.value}'")
        if not isinstance(value, str | int | float | bool | None):
            raise self._refusal(node, f"{node.value!r} is not a plain value; quote it")
        if isinstance(value, float) and value.is_integer() and "." not in node.value:
            return int(value)  # 1e6 may be a number of lines
        return value

    def _line(self, node: yaml.Node) -> int:
        return _line(self._lines, node.start_mark.line)

    def _refusal(self, node: yaml.Node, message: str) -> ConfigError:
        return ConfigError(f"{self._path}:{self._line(node)}: {message}")


def _double_meaning(node: yaml.Node, value: object) -> str:
    """Return the two meanings of a scalar in YAML 1.1 and 1.2, and the remedy; "" if it has only
    one."""
    text = node.value
    if isinstance(value, bool) and text.lower() not in ("true", "false"):
        word = str(value).lower()
        return f"{text} is {word} or text; write {word}"
    if isinstance(value, int | float) and ":" in text:
        return f"{text} is {value} in YAML 1.1 and text in YAML 1.2; write {value}"
    if isinstance(node, yaml.ScalarNode) and node.style is None and _ZERO.fullmatch(text):
        return f"{text} starts with 0, so it may be octal; write the number without 0"
    return ""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    value: the content, JSON-able.
    lines: place (path of keys) of each key and item → its line, from 1; {} if the values are not
        from a file.
    hint: text added to every error.
    """

    path: str
    value: Any
    lines: dict[Place, int]
    hint: str = ""

    @property
    def folder(self) -> Path:
        return Path(self.path).parent

    def line(self, place: Place) -> int:
        """Return the line of a place (path of keys), or of the nearest enclosing value in the file."""
        return self.lines.get(self.nearest(place), 1)

    def name_of(self, place: Place) -> str:
        """Name the file, line and keys of a place for people: "stream.yaml:4:
        sources.wmt.transforms[1].lower"."""
        line = f":{self.line(place)}" if self.lines else ""
        name = f"{self.path}{line}"
        if not place:
            return name
        keys = ""
        for key in place:
            keys += f"[{key + 1}]" if isinstance(key, int) else f".{key}"
        return f"{name}: {keys.removeprefix('.')}"

    def nearest(self, place: Place) -> Place:
        """Return a place (path of keys), or the place of the nearest enclosing value in the file."""
        while place and self.lines and place not in self.lines:
            place = place[:-1]
        return place


def parse(text: str, *, path: str, lines: Sequence[int] = ()) -> Document:
    """Parse a configuration.

    Raises ConfigError with the line of invalid YAML, or of a repeated key.

    lines: for each line of the text, the line number to report in errors

    >>> parse("seed: 1\\nsources:\\n  wmt: {path: a.tsv}\\n", path="stream.yaml").line(("sources", "wmt"))
    3
    """
    try:
        loader = _Loader(text, path, lines)
        root = loader.get_single_node()
        if root is None:
            remedy = "`volt stream example` writes one to start from"
            raise ConfigError(f"{path}:1: the file is empty; {remedy}")
        return Document(path, loader.value(root), loader.places)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{path}:{_explained(error, lines)}") from None
    except RecursionError:  # raised by chains of merge keys
        fault = "merge keys are nested too deep; write the values out"
        raise ConfigError(f"{path}:1: {fault}") from None
    except yaml.reader.ReaderError as error:  # characters that YAML forbids
        line = _line(lines, text.count("\n", 0, error.position))
        raise ConfigError(f"{path}:{line}: not YAML: {error.reason}") from None


def _line(lines: Sequence[int], index: int) -> int:
    return lines[min(index, len(lines) - 1)] if lines else index + 1


def _explained(error: yaml.MarkedYAMLError, lines: Sequence[int]) -> str:
    context = error.context or ""
    problem = error.problem or ""
    is_open = context.endswith(_OPEN)
    mark = error.problem_mark or error.context_mark
    if is_open and error.context_mark:
        mark = error.context_mark
    line = _line(lines, mark.line if mark else 0)
    hint = _HINTS.get(problem, "")
    if problem.startswith("expected <block end>"):
        hint = "; fix its indentation, or a quote left open above"
    if is_open and error.problem_mark:
        problem = f"{problem} in line {_line(lines, error.problem_mark.line)}"
        hint = hint or "; close it, or fix that line"
    return f"{line}: not YAML: {context} {problem}".replace("  ", " ").rstrip() + hint
