"""Fill in the placeholders of a template, and record the template's line for each line of the result.

Templates use a part of Jinja's language. Line ends and indents around tags are preserved. Jinja's sandbox hides
Python's objects; this module limits memory and time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple

from volt import arguments
from volt.errors import ConfigError, shown
from volt.files.small_files import read_text
from volt.stream.config.problems import near
from volt.stream.config.yaml_document import Document, parse

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

MOST_CHARS = 1 << 20  # maximum of a template, of a value, and of the expanded text
MOST_ROUNDS = 10_000  # maximum of all loops together
_PLACE = re.compile(r"\{\{|\{%")
_MARK = re.compile("\x00([0-9]*)\x00")
_FILTERS = ("default", "int", "float", "lower", "upper", "trim", "length", "first", "last")
_TESTS = ("defined", "undefined", "none")
_NODES = (
    "Template",
    "Output",
    "TemplateData",
    "Name",
    "Const",
    "For",
    "If",
    "CondExpr",
    "Filter",
    "Test",
    "Compare",
    "Operand",
    "And",
    "Or",
    "Not",
    "Add",
    "Sub",
    "Mul",
    "Neg",
    "Pos",
    "Concat",
    "List",
    "Tuple",
    "Getitem",
    "Getattr",
    "Call",
)
_HINT = "write {% raw %}…{% endraw %} around braces that are plain text"


class Expanded(NamedTuple):
    """The text of a filled template, and the template's line number for each of its lines; () if no numbers differ."""

    text: str
    lines: tuple[int, ...] = ()


def read(path: str | Path, *, values: Mapping[str, object] | None = None) -> Document:
    """Parse a configuration file, which may be a template. Raises ConfigError if it cannot be read or is not YAML."""
    return parse_template(
        read_text(path, kind=ConfigError).removeprefix("\ufeff"), path=str(path), values=values
    )


def parse_template(text: str, *, path: str, values: Mapping[str, object] | None = None) -> Document:
    """Parse a configuration that may be a template. Errors contain lines of the template."""
    result = expanded(text, values, path=path)
    if not result.lines:
        return parse(result.text, path=path)
    hint = "\n(the file is a template; expand it to see the text that is read)"
    try:
        return replace(parse(result.text, path=path, lines=result.lines), hint=hint)
    except ConfigError as error:
        raise ConfigError(f"{error}{hint}") from None


def expanded_file(path: str | Path, *, values: Mapping[str, object] | None = None) -> Expanded:
    """Fill the placeholders of a template in a file. Raises ConfigError as `expanded` does, or if it cannot be read."""
    return expanded(
        read_text(path, kind=ConfigError).removeprefix("\ufeff"), values, path=str(path)
    )


def expanded(text: str, values: Mapping[str, object] | None = None, *, path: str) -> Expanded:
    """Fill the placeholders of a template.

    values: text or a number for each key
    path: the file's name in errors
    Raises ConfigError if a value has no placeholder; with line, if the syntax is invalid or a placeholder has no value.

    >>> expanded("src: {{src}}\\n{% for n in range(2) %}\\n- {{n}}{% endfor %}\\n", {"src": "de"}, path="stream.yaml")
    Expanded(text='src: de\\n\\n- 0\\n- 1\\n', lines=(1, 2, 3, 3, 4))
    """
    inputs = _checked(values or {})
    if not _PLACE.search(text):
        _refuse_unused(inputs, set(), path)
        return Expanded(text)
    if len(text) > MOST_CHARS or "\x00" in text:
        raise ConfigError(
            f"{path}:1: the template is binary, or longer than {MOST_CHARS:,} characters; shorten it"
        )
    from jinja2 import TemplateError, TemplateSyntaxError, UndefinedError, meta

    environment = _environment()
    try:
        tree = environment.parse(text)
        _refuse_syntax(tree, path)
        _refuse_unused(inputs, meta.find_undeclared_variables(tree), path)
        _bound_loops(tree)
        _mark_lines(tree)
        return _unmarked(_joined(environment.from_string(tree).generate(inputs), path))
    except UndefinedError as error:
        key = re.match(r"'(\w+)' is undefined", str(error))
        message = (
            f"{{{{{key[1]}}}}} has no value; set {key[1]}" if key else f"{error}; fix the template"
        )
        raise ConfigError(f"{path}:{_line_of(error)}: {message}, or {_HINT}") from None
    except TemplateError as error:
        line = _line_of(error)
        if isinstance(error, TemplateSyntaxError):
            line = _opening(environment, text, error.lineno)
        reason = str(error.message).rstrip(".")
        raise ConfigError(
            f"{path}:{line}: not a valid template: {reason}; fix it, or {_HINT}"
        ) from None
    except (
        ValueError,
        TypeError,
        ArithmeticError,
        LookupError,
    ) as error:  # of filters and operators
        raise ConfigError(f"{path}:{_line_of(error)}: {error}; fix the template") from None
    except (
        SyntaxError,
        RecursionError,
        MemoryError,
    ):  # Python's errors for nesting that is too deep
        raise ConfigError(f"{path}:1: values are nested more than 50 deep; nest less") from None


def _checked(values: Mapping[str, object]) -> dict[str, object]:
    data = dict(arguments.mapping(values, "values"))
    for key, value in data.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise ConfigError(f"values: {shown(key)} is not a key; give a word, such as src")
        if not isinstance(value, str | int | float):
            raise arguments.refusal(value, f"values[{key!r}]", "give text or a number")
        if len(str(value)) > MOST_CHARS or "\x00" in str(value):
            raise ConfigError(
                f"values[{key!r}]: binary, or longer than {MOST_CHARS:,} characters; give a shorter text"
            )
    return data


def _refuse_unused(inputs: Mapping[str, object], wanted: Set[str], path: str) -> None:
    for key in inputs.keys() - wanted:
        remedy = near(key, sorted(wanted))
        raise ConfigError(
            f"{path}: the value {key!r} is not used: the file has no {{{{{key}}}}}; {remedy}"
        )


def _environment() -> Environment:
    """Return a sandbox that calls only `range`, multiplies only numbers, and refuses placeholders without a value."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset("*")

        def is_safe_callable(self, obj: Any) -> bool:
            return obj is self.globals["range"]

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if not (isinstance(left, int | float) and isinstance(right, int | float)):
                raise TypeError("* takes numbers, not text; write {{n|int * 2}}")
            return left * right

    environment = Sandbox(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters = {name: environment.filters[name] for name in _FILTERS} | {
        "rounds": _rounds()
    }
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    environment.globals = {"range": environment.globals["range"]}
    return environment


def _rounds() -> Callable[[Iterable[object]], Iterator[object]]:
    numbers = count(1)

    def rounds(items: Iterable[object]) -> Iterator[object]:
        for item in items:
            if next(numbers) > MOST_ROUNDS:
                raise ValueError(f"all loops together have more than {MOST_ROUNDS:,} rounds")
            yield item

    return rounds


def _bound_loops(tree: nodes.Template) -> None:
    from jinja2 import nodes

    for loop in [*tree.find_all(nodes.For)]:
        loop.iter = nodes.Filter(loop.iter, "rounds", [], [], None, None, lineno=loop.lineno)


def _refuse_syntax(tree: nodes.Template, path: str) -> None:
    from jinja2 import nodes

    for node in tree.find_all(nodes.Node):
        kind = type(node).__name__
        if kind not in _NODES or getattr(node, "name", None) == "self":
            what = f"{kind.lower()} is not allowed in templates; use placeholders, if and for; or {_HINT}"
            raise ConfigError(f"{path}:{node.lineno}: {what}")


def _opening(environment: Environment, text: str, line: int) -> int:
    """Return the line on which the tag that extends to `line` begins; later tags may be invalid."""
    from jinja2 import TemplateSyntaxError

    result = line
    with suppress(TemplateSyntaxError):
        for number, kind, _ in environment.lex(text):
            if number <= line and kind in ("variable_begin", "block_begin"):
                result = number
    return result


def _line_of(error: BaseException) -> int:
    lines = [
        line
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename == "<template>"
    ]
    return lines[-1] if lines else 1


def _mark_lines(tree: nodes.Template) -> None:
    from jinja2 import nodes

    for output in tree.find_all(nodes.Output):
        marked = list[nodes.Expr]()
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                pieces = enumerate(node.data.split("\n"), node.lineno)
                node.data = "\n".join(f"\x00{line}\x00{piece}" for line, piece in pieces)
            else:
                marked.append(nodes.TemplateData(f"\x00{node.lineno}\x00"))
            marked.append(node)
        output.nodes = marked


def _joined(pieces: Iterable[str], path: str) -> str:
    result = list[str]()
    n_chars = 0
    for piece in pieces:
        n_chars += len(piece)
        if n_chars > 2 * MOST_CHARS:  # half of it for marks
            raise ConfigError(
                f"{path}:1: expands to more than {MOST_CHARS:,} characters; loop less, or split the file"
            )
        result.append(piece)
    return "".join(result)


def _unmarked(marked: str) -> Expanded:
    """Remove the line marks; number each output line as the template line of its first visible text."""
    lines = list[int]()
    line = 1
    for piece in marked.split("\n"):
        before, *rest = _MARK.split(piece)  # text, and then numbers and texts in turn
        numbers = [line, *map(int, rest[::2])]
        texts = [before, *rest[1::2]]
        first = next(
            (number for number, text in zip(numbers, texts, strict=True) if text.strip()),
            numbers[-1],
        )
        lines.append(first)
        line = numbers[-1]
    return Expanded(_MARK.sub("", marked), tuple(lines))
