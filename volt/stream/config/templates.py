"""A template and what fills its places → text, and the line of the template that each of its lines comes from.

Templates are written in a part of Jinja's language: `{{key}}`, `{% if %}`, `{% for %}`, a few filters and tests, and
`range`. Only what stands between `{%` and `%}` goes: what is around it stays, line ends and indents too, which leaves
blank lines. What reaches into Python's objects, or could fill the memory or take for ever, is refused. A text without
`{{` and `{%` is no template and stays as it is.

>>> expanded("src: {{src}}\\n{% for n in range(2) %}\\n- {{n}}{% endfor %}\\n", {"src": "de"}, path="stream.yaml")
Expanded(text='src: de\\n\\n- 0\\n- 1\\n', lines=(1, 2, 3, 3, 4))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from volt import arguments
from volt.errors import ConfigError, shown
from volt.files.small_files import read_text
from volt.stream.config.document import Document, near, parse

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

MOST_CHARS = 1 << 20  # of a template, of a value, and of what becomes of it
MOST_ROUNDS = 10_000  # of all loops together
_PLACE = re.compile(r"\{\{|\{%")
_MARK = re.compile("\x00([0-9]*)\x00")
_FILTERS = ("default", "int", "float", "lower", "upper", "trim", "length", "first", "last")
_TESTS = ("defined", "undefined", "none")
_NODES = (
    "Template", "Output", "TemplateData", "Name", "Const", "For", "If", "CondExpr", "Filter", "Test", "Compare",
    "Operand", "And", "Or", "Not", "Add", "Sub", "Mul", "Neg", "Pos", "Concat", "List", "Tuple", "Getitem", "Getattr",
    "Call",
)  # fmt: skip
_SPELLINGS = {"Pow": "**", "Mod": "%", "Div": "/", "FloorDiv": "//"}
_NO_LOOP = "loop(…) goes over a list within a list, which is no part of templates here; write another for"
_HINT = "write {% raw %}…{% endraw %} around braces that are meant as they stand"


class Expanded(NamedTuple):
    """What has become of a template.

    text: the configuration.
    lines: for each line of the text, that of the template; () where every line is its own.
    """

    text: str
    lines: tuple[int, ...] = ()


def expanded(text: str, values: Mapping[str, object] | None = None, *, path: str) -> Expanded:
    """Fill the places of a template.

    values: text or a number for each key
    path: what errors call the file
    Raises ConfigError, with its line, for a key without a value, and for what a template must not hold; and for a value
    that no place wants.
    """
    inputs = _checked(values or {})
    if not _PLACE.search(text):
        _refuse_others(inputs, set(), path)
        return Expanded(text)
    if len(text) > MOST_CHARS or "\x00" in text:
        raise ConfigError(f"{path}:1: a template of more than {MOST_CHARS:,} characters, or no text; write it shorter")
    return _filled(text, inputs, path)


def read(path: str | Path, *, values: Mapping[str, object] | None = None) -> Document:
    """Parse a configuration file, which may be a template. Raises ConfigError if it cannot be read or is no YAML.

    values: what fills the template's places
    """
    return _parsed(expanded_file(path, values=values), str(path))


def expanded_file(path: str | Path, *, values: Mapping[str, object] | None = None) -> Expanded:
    """Fill the places of a template in a file. Raises ConfigError as `expanded` does, or if it cannot be read."""
    text = read_text(path, kind=ConfigError)
    return expanded(text.removeprefix("\ufeff"), values, path=str(path))


def parse_template(text: str, *, path: str, values: Mapping[str, object] | None = None) -> Document:
    """Parse a configuration that may be a template. Errors name the lines of the template.

    >>> document = parse_template("{% if a %}\\n{% endif %}\\nseed: {{n}}\\n", path="a", values={"a": 1, "n": 7})
    >>> document.value, document.line(("seed",))
    ({'seed': 7}, 3)
    """
    return _parsed(expanded(text, values, path=path), path)


def _parsed(values: Expanded, path: str) -> Document:
    if not values.lines:
        return parse(values.text, path=path)
    shown_by = f"volt.stream.config.templates.expanded_file({path!r})"
    hint = f"\n(the file is a template; {shown_by} shows what it becomes)"
    try:
        result = parse(values.text, path=path, lines=values.lines)
    except ConfigError as error:
        raise ConfigError(f"{error}{hint}") from None
    return replace(result, hint=hint)


def _checked(values: Mapping[str, object]) -> dict[str, object]:
    data = dict(arguments.mapping(values, "values"))
    for key, value in data.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise ConfigError(f"values: {shown(key)} is no key; give a word, such as src")
        if not isinstance(value, str | int | float):
            raise arguments.refusal(value, f"values[{key!r}]", "give text or a number")
        if len(str(value)) > MOST_CHARS or "\x00" in str(value):
            raise ConfigError(f"values[{key!r}]: more than {MOST_CHARS:,} characters, or no text; give less")
    return data


def _refuse_others(inputs: Mapping[str, object], wanted: set[str], path: str) -> None:
    """Raise ConfigError if a value has no place."""
    for key in inputs.keys() - wanted:
        remedy = near(key, sorted(wanted)) if wanted else "leave it out"
        raise ConfigError(f"{path}: no place for {key!r}: the file has no {{{{{key}}}}}; {remedy}")


def _filled(text: str, inputs: Mapping[str, object], path: str) -> Expanded:
    from jinja2 import TemplateError, meta

    environment = _environment()
    try:
        tree = environment.parse(text)
        _check(tree, path)
        _refuse_others(inputs, meta.find_undeclared_variables(tree), path)
        _mark_lines(tree)
        marked = _bounded(environment.from_string(tree).generate(inputs), path)
    except ConfigError:
        raise
    except TemplateError as error:
        raise _explained(error, path, _opening(environment, text, getattr(error, "lineno", 0))) from None
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:  # of filters and operators
        raise ConfigError(f"{path}:{_line_of(error)}: {error}; mend the template") from None
    except (SyntaxError, RecursionError, MemoryError):  # what Python says of nesting without end
        raise ConfigError(f"{path}:1: values within values, more than 50 deep; write it flatter") from None
    return _unmarked(marked)


def _environment() -> Environment:
    """Return a sandbox in which keys without a value are errors, loops have an end, and text is not multiplied."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset("*")

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            for value in (left, right):
                if not isinstance(value, int | float):
                    raise TypeError(f"{operator} takes numbers, not {shown(value)}; write {{{{n|int * 2}}}}, say")
            return left * right

    environment = Sandbox(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters = {name: environment.filters[name] for name in _FILTERS} | {"rounds": _rounds()}
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    environment.globals = {"range": _range}
    return environment


def _range(*bounds: int) -> range:
    result = range(*bounds)
    if not -MOST_ROUNDS <= len(result) <= MOST_ROUNDS:
        raise ValueError(f"range of {len(result):,} numbers, more than {MOST_ROUNDS:,}")
    return result


def _rounds() -> Callable[[Iterable[object]], Iterator[object]]:
    """What gives the items of all loops of a template, up to a number that they share."""
    left = MOST_ROUNDS

    def rounds(items: Iterable[object]) -> Iterator[object]:
        nonlocal left
        for item in items:
            if (left := left - 1) < 0:
                raise ValueError(f"loops of more than {MOST_ROUNDS:,} rounds, all together")
            yield item

    return rounds


def _check(tree: nodes.Template, path: str) -> None:
    """Raise ConfigError for what a template must not hold; give each loop its end."""
    from jinja2 import nodes

    for node in [*tree.find_all(nodes.Node)]:
        kind, name = type(node).__name__, getattr(node, "name", None)
        if isinstance(node, nodes.Filter) and name not in _FILTERS:
            _refuse(node, path, f"no filter {name!r}; {near(str(name), _FILTERS)}")
        if isinstance(node, nodes.Test) and name not in _TESTS:
            _refuse(node, path, f"no test {name!r}; {near(str(name), _TESTS)}")
        if isinstance(node, nodes.Getattr) and not _is_named(node.node, "loop"):
            _refuse(node, path, f".{node.attr} reaches into a value; only loop.index and the like can be had")
        if isinstance(node, nodes.Call) and not _is_named(node.node, "range"):
            _refuse(node, path, _NO_LOOP if _is_named(node.node, "loop") else "nothing can be called but range")
        if isinstance(node, nodes.For) and (node.recursive or node.test):
            _refuse(node, path, "a loop takes no condition of its own; write {% if %} within it")
        if kind not in _NODES or name == "self":
            _refuse(
                node,
                path,
                f"{_SPELLINGS.get(kind, kind.lower())} is no part of templates here; write places, if and for",
            )
    for loop in [*tree.find_all(nodes.For)]:
        loop.iter = nodes.Filter(loop.iter, "rounds", [], [], None, None, lineno=loop.lineno)


def _is_named(node: nodes.Node, name: str) -> bool:
    return type(node).__name__ == "Name" and getattr(node, "name", "") == name


def _refuse(node: nodes.Node, path: str, message: str) -> NoReturn:
    raise ConfigError(f"{path}:{node.lineno}: {message}; or {_HINT}")


def _opening(environment: Environment, text: str, line: int) -> int:
    """Return the line where the place opens that holds a line, as far as the text can be read."""
    from jinja2 import TemplateSyntaxError

    result = line
    with suppress(TemplateSyntaxError):
        for number, kind, _ in environment.lex(text):
            if number > line:
                break
            result = number if kind in ("variable_begin", "block_begin") else result
    return result


def _explained(error: Any, path: str, opening: int) -> ConfigError:
    """What Jinja found, with the line and what can be done. opening: where a place opens that cannot be read"""
    from jinja2 import TemplateSyntaxError, UndefinedError

    if isinstance(error, UndefinedError):
        key = re.match(r"'(\w+)' is undefined", str(error))
        message = (
            f"{{{{{key[1]}}}}} has no value; give values={{'{key[1]}': …}}" if key else f"{error}; mend the template"
        )
        return ConfigError(f"{path}:{_line_of(error)}: {message}, or {_HINT}")
    line = opening if isinstance(error, TemplateSyntaxError) else _line_of(error)
    return ConfigError(f"{path}:{line}: no template: {error.message or error}; mend it, or {_HINT}")


def _line_of(error: BaseException) -> int:
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _mark_lines(tree: nodes.Template) -> None:
    """Put before each value, each piece of text, and behind each line end, the number of its line."""
    from jinja2 import nodes

    for output in tree.find_all(nodes.Output):
        output.nodes = [marked for node in output.nodes for marked in _marked(node)]


def _marked(node: nodes.Expr) -> Iterator[nodes.Expr]:
    """Yield a part of what is written, with the numbers of its lines in it or before it."""
    from jinja2 import nodes

    pieces = node.data.split("\n") if isinstance(node, nodes.TemplateData) else [""]
    marks = (f"\x00{node.lineno + number}\x00{piece}" for number, piece in enumerate(pieces))
    yield nodes.TemplateData("\n".join(marks), lineno=node.lineno)
    if not isinstance(node, nodes.TemplateData):
        yield node


def _bounded(pieces: Iterable[str], path: str) -> str:
    """Return the text of its pieces. Raises ConfigError where it becomes too long."""
    result, left = list[str](), 2 * MOST_CHARS  # half of it for the marks
    for piece in pieces:
        if (left := left - len(piece)) < 0:
            raise ConfigError(
                f"{path}:1: expands to more than {MOST_CHARS:,} characters; loop less, or write two files"
            )
        result.append(piece)
    return "".join(result)


def _unmarked(marked: str) -> Expanded:
    """Return the text without marks, and the line of the template that each line's first letter comes from."""
    lines, line = list[int](), 1
    for piece in marked.split("\n"):
        before, *rest = _MARK.split(piece)  # text, and then numbers and texts in turn
        numbers, texts = [line, *map(int, rest[::2])], [before, *rest[1::2]]
        first = next((number for number, text in zip(numbers, texts, strict=True) if text.strip()), numbers[-1])
        lines.append(first)
        line = numbers[-1]
    return Expanded(_MARK.sub("", marked), tuple(lines))
