r"""Parse YAML into plain values, and record the line of every key and item.

A place is the path of keys and indices from the root to a value. In `sources: {wmt: [a, b]}`, the
place of b is ("sources", "wmt", 1).

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
_MAYBE_OCTAL = re.compile(r"[-+]?0o?[0-9_]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BRACKETED = ("quoted scalar", "flow sequence", "flow mapping")  # what a bracket or quote opens
_HINTS = {  # the parser's problem → a remedy
    "found character '\\t' that cannot start any token": "; indent with spaces",
    "mapping values are not allowed here": '; quote text that contains ": "',
}


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    path: the file's path, for errors, and for paths relative to the file
    value: the content, as JSON values
    lines: the line of each place, from 1; {} if the values do not come from a file
    hint: text added to every error
    """

    path: str
    value: Any
    lines: dict[Place, int]
    hint: str = ""

    @property
    def folder(self) -> Path:
        return Path(self.path).parent

    def find_enclosing(self, place: Place) -> Place:
        """Return a place, or the place of the nearest enclosing value in the file."""
        while place and self.lines and place not in self.lines:
            place = place[:-1]
        return place

    def find_line(self, place: Place) -> int:
        """Return the line of a place, or of the nearest enclosing value in the file."""
        return self.lines.get(self.find_enclosing(place), 1)

    def describe(self, place: Place) -> str:
        """Return the file, line and keys of a place.

        >>> Document("stream.yaml", {}, {("sources", "wmt"): 4}).describe(("sources", "wmt", "path", 0))
        'stream.yaml:4: sources.wmt.path[1]'
        """
        name = self.path
        if self.lines:
            name += f":{self.find_line(place)}"
        if not place:
            return name
        keys = ""
        for key in place:
            keys += f"[{key + 1}]" if isinstance(key, int) else f".{key}"
        return f"{name}: {keys.removeprefix('.')}"


def parse_yaml(text: str, *, path: str, line_numbers: Sequence[int] = ()) -> Document:
    """Parse a configuration.

    Raises ConfigError with the line of invalid YAML, or of a repeated key.

    path: the file's path
    line_numbers: for each line of the text, the number to report in errors; by default, its own

    >>> parse_yaml("seed: 1\\nsources:\\n  wmt: {path: a.tsv}\\n", path="stream.yaml").lines[("sources", "wmt")]
    3
    """
    try:
        loader = _Loader(text, path, line_numbers)
        root = loader.get_single_node()
        if root is None:
            remedy = "`volt stream example` writes one to start from"
            raise ConfigError(f"{path}:1: the file is empty; {remedy}")
        return Document(path, loader.build_value(root), loader.lines)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{path}:{_explain(error, line_numbers)}") from None
    except RecursionError:  # raised by chains of merge keys
        fault = "merge keys are nested too deep; write the values out"
        raise ConfigError(f"{path}:1: {fault}") from None
    except yaml.reader.ReaderError as error:  # characters that YAML forbids
        line = _number_line(line_numbers, text.count("\n", 0, error.position))
        raise ConfigError(f"{path}:{line}: not YAML: {error.reason}") from None


class _Loader(yaml.SafeLoader):
    """Builds values from YAML, and collects the line of each place in `lines`.

    Lines are counted as editors count them, by "\\n"; YAML 1.1 also ends lines at U+0085, U+2028
    and U+2029.
    """

    def __init__(self, text: str, path: str, line_numbers: Sequence[int]) -> None:
        self.lines = dict[Place, int]()
        self._depth = 0
        self._n_nodes = 0
        self._path = path
        self._line_numbers = line_numbers
        self._line_ends = [index for index, character in enumerate(text) if character == "\n"]
        super().__init__(text)

    def get_mark(self) -> yaml.Mark:
        mark: yaml.Mark = super().get_mark()
        mark.line = bisect_left(self._line_ends, mark.index)
        return mark

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise self._refusal(event, f"values are nested more than {_MAX_DEPTH} deep; nest less")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if _SURROGATE.search(node.value):
            fault = f"{node.value!r} contains half a character; write the whole character"
            raise self._refusal(node, fault)
        return node

    def build_value(self, node: yaml.Node, place: Place = ()) -> Any:
        """Return the value of a node."""
        self._n_nodes += 1
        if len(place) > _MAX_DEPTH or self._n_nodes > _MAX_NODES:
            fault = "aliases make the file endless, or far too large; write the values out"
            raise self._refusal(node, fault)
        self.lines.setdefault(place, self._find_line(node))
        if isinstance(node, yaml.MappingNode):
            items = self._iterate_items(node, place)
            return {key: self.build_value(item, (*place, key)) for key, item in items}
        if isinstance(node, yaml.SequenceNode):
            indexed = enumerate(node.value)
            return [self.build_value(item, (*place, index)) for index, item in indexed]
        return self._build_scalar(node)

    def _iterate_items(
        self, node: yaml.MappingNode, place: Place
    ) -> Iterator[tuple[str, yaml.Node]]:
        own_keys = dict[str, yaml.Node]()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refusal(key_node, "a key must be text; write it without brackets")
            key = key_node.value
            if key in own_keys:
                fault = f"key {key!r} repeats line {self._find_line(own_keys[key])}; remove one"
                raise self._refusal(key_node, fault)
            own_keys[key] = key_node
        self.flatten_mapping(node)  # merge keys (<<) add the keys that the mapping itself lacks
        pairs = {pair[0].value: pair for pair in node.value}
        for key_node, item in pairs.values():
            self.lines.setdefault((*place, key_node.value), self._find_line(key_node))
            yield key_node.value, item

    def _build_scalar(self, node: yaml.Node) -> Any:
        try:
            value = self.construct_object(node)
        except ValueError as error:
            raise self._refusal(node, str(error)) from None
        fault = _find_ambiguity(node, value)
        if fault:
            raise self._refusal(node, f"{fault}, or quote it if it is text: '{node.value}'")
        if not isinstance(value, str | int | float | bool | None):
            raise self._refusal(node, f"{node.value!r} is not a plain value; quote it")
        if isinstance(value, float) and value.is_integer() and "." not in node.value:
            return int(value)  # 1e6 may be a number of lines
        return value

    def _find_line(self, node: yaml.Node) -> int:
        return _number_line(self._line_numbers, node.start_mark.line)

    def _refusal(self, node: yaml.Node, message: str) -> ConfigError:
        return ConfigError(f"{self._path}:{self._find_line(node)}: {message}")


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(  # 1e3, which YAML 1.1 takes for text
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _find_ambiguity(node: yaml.Node, value: object) -> str:
    """Return the meanings of a scalar in YAML 1.1 and 1.2, and the remedy; "" if they are equal.

    value: the meaning in YAML 1.1
    """
    text = node.value
    if isinstance(value, bool) and text.lower() not in ("true", "false"):
        word = str(value).lower()
        return f"{text} is {word} or text; write {word}"
    if isinstance(value, int | float) and ":" in text:
        return f"{text} is {value} in YAML 1.1 and text in YAML 1.2; write {value}"
    if isinstance(node, yaml.ScalarNode) and node.style is None and _MAYBE_OCTAL.fullmatch(text):
        return f"{text} starts with 0, so it may be octal; write the number without 0"
    return ""


def _number_line(line_numbers: Sequence[int], index: int) -> int:
    """Return the number to report for a line. index: the line's index, from 0"""
    return line_numbers[min(index, len(line_numbers) - 1)] if line_numbers else index + 1


def _explain(error: yaml.MarkedYAMLError, line_numbers: Sequence[int]) -> str:
    """Return the line of a parser's error, the problem and a remedy.

    If a bracket or quote is not closed, the line is that of the bracket or quote.
    """
    context = error.context or ""
    problem = error.problem or ""
    is_unclosed = context.endswith(_BRACKETED)
    mark = error.problem_mark or error.context_mark
    if is_unclosed and error.context_mark:
        mark = error.context_mark
    line = _number_line(line_numbers, mark.line if mark else 0)
    hint = _HINTS.get(problem, "")
    if problem.startswith("expected <block end>"):
        hint = "; fix its indentation, or a quote left open above"
    if is_unclosed and error.problem_mark:
        problem = f"{problem} in line {_number_line(line_numbers, error.problem_mark.line)}"
        hint = hint or "; close it, or fix that line"
    return f"{line}: not YAML: {context} {problem}".replace("  ", " ").rstrip() + hint
