"""Fill in the placeholders of a template, and record the template's line for each line of the
result.

Templates use a part of Jinja's language. Line ends and indents around tags are preserved. Jinja's
sandbox hides Python's objects; this module limits memory and time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
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
_ALLOWED = re.compile(  # kinds of Jinja's nodes
    "Template|Output|TemplateData|Name|Const|For|If|CondExpr|Filter|Test|Compare|Operand|And|Or|Not|"
    "Add|Sub|Mul|Neg|Pos|Concat|List|Tuple|Getitem|Getattr|Call"
)
_HINT = "write {% raw %}…{% endraw %} around braces that are plain text"


class Expanded(NamedTuple):
    """The text of a filled template, and the template's line number for each of its lines; () if no
    numbers differ."""

    text: str
    lines: tuple[int, ...] = ()


def read(path: str | Path, *, values: Mapping[str, object] | None = None) -> Document:
    """Parse a configuration file, which may be a template.

    Raises ConfigError if it cannot be read or is not YAML.
    """
    return _parsed(expanded_file(path, values=values), str(path))


def parse_template(text: str, *, path: str, values: Mapping[str, object] | None = None) -> Document:
    """Parse a configuration that may be a template. Errors contain lines of the template."""
    return _parsed(expanded(text, values, path=path), path)


def _parsed(result: Expanded, path: str) -> Document:
    hint = ""
    if result.lines:
        hint = "\n(the file is a template; expand it to see the text that is read)"
    try:
        return replace(parse(result.text, path=path, lines=result.lines), hint=hint)
    except ConfigError as error:
        raise ConfigError(f"{error}{hint}") from None


def expanded_file(path: str | Path, *, values: Mapping[str, object] | None = None) -> Expanded:
    """Fill the placeholders of a template in a file.

    Raises ConfigError as `expanded` does, or if it cannot be read.
    """
    text = read_text(path, kind=ConfigError).removeprefix("\ufeff")
    return expanded(text, values, path=str(path))


def expanded(text: str, values: Mapping[str, object] | None = None, *, path: str) -> Expanded:
    """Fill the placeholders of a template.

    values: text or a number for each key
    path: the file's name in errors
    Raises ConfigError if a value has no placeholder; with line, if the syntax is invalid or a
    placeholder has no value.

    >>> expanded("src: {{src}}\\n{% for n in range(2) %}\\n- {{n}}{% endfor %}\\n", {"src": "de"}, path="stream.yaml")
    Expanded(text='src: de\\n\\n- 0\\n- 1\\n', lines=(1, 2, 3, 3, 4))
    """
    inputs = _checked(values or {})
    if not _PLACE.search(text):
        _refuse_unused(inputs, set(), path)
        return Expanded(text)
    if len(text) > MOST_CHARS or "\x00" in text:
        fault = f"the template is binary, or longer than {MOST_CHARS:,} characters; shorten it"
        raise ConfigError(f"{path}:1: {fault}")
    from jinja2 import TemplateError, TemplateSyntaxError, UndefinedError, meta

    environment = _environment()
    try:
        tree = environment.parse(text)
        _prepare(tree, path)
        _refuse_unused(inputs, meta.find_undeclared_variables(tree), path)
        return _unmarked(_joined(environment.from_string(tree).generate(inputs), path))
    except UndefinedError as error:
        key = re.match(r"'(\w+)' is undefined", str(error))
        fault = f"{error}; fix the template"
        if key:
            fault = f"{{{{{key[1]}}}}} has no value; set {key[1]}"
        raise ConfigError(f"{path}:{_line_of(error)}: {fault}, or {_HINT}") from None
    except TemplateError as error:
        line = _line_of(error)
        if isinstance(error, TemplateSyntaxError):
            line = _opening(environment, text, error.lineno)
        reason = str(error.message).rstrip(".")
        fault = f"not a valid template: {reason}; fix it, or {_HINT}"
        raise ConfigError(f"{path}:{line}: {fault}") from None
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:  # of filters, operators
        raise ConfigError(f"{path}:{_line_of(error)}: {error}; fix the template") from None
    except (SyntaxError, RecursionError, MemoryError):  # Python's errors for too deep nesting
        raise ConfigError(f"{path}:1: values are nested more than 50 deep; nest less") from None


def _checked(values: Mapping[str, object]) -> dict[str, object]:
    result = dict(arguments.mapping(values, "values"))
    for key, value in result.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise ConfigError(f"values: {shown(key)} is not a key; give a word, such as src")
        name = f"values[{key!r}]"
        if not isinstance(value, str | int | float):
            raise arguments.refusal(value, name, "give text or a number")
        if len(str(value)) > MOST_CHARS or "\x00" in str(value):
            fault = f"binary, or longer than {MOST_CHARS:,} characters; give a shorter text"
            raise ConfigError(f"{name}: {fault}")
    return result


def _refuse_unused(inputs: Mapping[str, object], wanted: Set[str], path: str) -> None:
    for key in inputs.keys() - wanted:
        fault = f"the value {key!r} is not used: the file has no {{{{{key}}}}}"
        raise ConfigError(f"{path}: {fault}; {near(key, sorted(wanted))}")


def _environment() -> Environment:
    """Return a sandbox that calls only `range`, multiplies only numbers, and refuses placeholders
    without a value."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset("*")

        def is_safe_callable(self, obj: Any) -> bool:
            return obj is self.globals["range"]

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            for factor in (left, right):
                if not isinstance(factor, int | float):
                    raise TypeError("* takes numbers, not text; write {{n|int * 2}}")
            return left * right

    numbers = count(1)

    def rounds(items: Iterable[object]) -> Iterator[object]:
        for item in items:
            if next(numbers) > MOST_ROUNDS:
                raise ValueError(f"all loops together have more than {MOST_ROUNDS:,} rounds")
            yield item

    environment = Sandbox(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    environment.filters["rounds"] = rounds
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    environment.globals = {"range": environment.globals["range"]}
    return environment


def _prepare(tree: nodes.Template, path: str) -> None:
    """Refuse syntax, make each loop count its rounds, and each output state its line in the
    template."""
    from jinja2 import nodes

    for node in tree.find_all(nodes.Node):
        kind = type(node).__name__
        if not _ALLOWED.fullmatch(kind) or getattr(node, "name", None) == "self":
            remedy = f"use placeholders, if and for; or {_HINT}"
            fault = f"{kind.lower()} is not allowed in templates; {remedy}"
            raise ConfigError(f"{path}:{node.lineno}: {fault}")
    for loop in [*tree.find_all(nodes.For)]:
        loop.iter = nodes.Filter(loop.iter, "rounds", [], [], None, None, lineno=loop.lineno)
    for output in tree.find_all(nodes.Output):
        marked = list[nodes.Expr]()
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                lines = enumerate(node.data.split("\n"), node.lineno)
                node.data = "\n".join(f"\x00{number}\x00{line}" for number, line in lines)
            else:
                marked.append(nodes.TemplateData(f"\x00{node.lineno}\x00"))
            marked.append(node)
        output.nodes = marked


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
    result = 1
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_code.co_filename == "<template>":
            result = line
    return result


def _joined(texts: Iterable[str], path: str) -> str:
    result = list[str]()
    n_chars = 0
    for text in texts:
        n_chars += len(text)
        if n_chars > 2 * MOST_CHARS:  # half of it for marks
            fault = f"expands to more than {MOST_CHARS:,} characters; loop less, or split the file"
            raise ConfigError(f"{path}:1: {fault}")
        result.append(text)
    return "".join(result)


def _unmarked(marked: str) -> Expanded:
    """Remove the line marks; number each output line as the template line of its first visible
    text."""
    lines = list[int]()
    current = "1"  # the last mark
    for line in marked.split("\n"):
        parts = [current, *_MARK.split(line)]  # numbers and texts in turn
        numbers = parts[::2]
        current = numbers[-1]
        first = current
        for number, text in zip(numbers, parts[1::2], strict=True):
            if text.strip():
                first = number
                break
        lines.append(int(first))
    return Expanded(_MARK.sub("", marked), tuple(lines))
