"""Fill in the placeholders of a template, and record the template's line for each line of the
result.

Templates use a part of Jinja's language. Line ends and indents around tags are preserved. Jinja's
sandbox hides Python's objects; this module limits memory and time.

Lines are recorded in four steps: Jinja parses the template to a tree; `_prepare` puts a mark with
its line before each line of text and each placeholder in the tree; Jinja renders the tree with the
marks; `_remove_marks` reads the marks of each rendered line, and removes them.
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
from volt.stream.config.problems import suggest_name
from volt.stream.config.yaml_document import Document, parse_yaml

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

MOST_CHARS = 1 << 20  # maximum of a template, of a value, and of the expanded text
MOST_ROUNDS = 10_000  # maximum of all loops together
_PLACEHOLDER = re.compile(r"\{\{|\{%")
_MARK = re.compile("\x00([0-9]*)\x00")
_FILTERS = ("default", "int", "float", "lower", "upper", "trim", "length", "first", "last")
_TESTS = ("defined", "undefined", "none")
_ALLOWED_NODES = re.compile(
    "Template|Output|TemplateData|Name|Const|For|If|CondExpr|Filter|Test|Compare|Operand|And|Or|Not|"
    "Add|Sub|Mul|Neg|Pos|Concat|List|Tuple|Getitem|Getattr|Call"
)
_HINT = "write {% raw %}…{% endraw %} around braces that are plain text"


class Expanded(NamedTuple):
    """The text of a filled template.

    lines: for each line of the text, its line in the template; () if the file is not a template
    """

    text: str
    lines: tuple[int, ...] = ()


def read_template(path: str | Path) -> str:
    """Return the text of a configuration file, which may be a template. Raises ConfigError if it
    cannot be read."""
    return read_text(path, kind=ConfigError).removeprefix("\ufeff")


def parse_template(text: str, *, path: str, values: Mapping[str, object] | None = None) -> Document:
    """Parse a configuration that may be a template.

    Raises ConfigError, with the template's line, if the template is invalid, or not YAML.

    path: the file's path
    values: placeholder → text or a number
    """
    result = expand_template(text, values, path=path)
    hint = ""
    if result.lines:
        hint = "\n(the file is a template; expand it to see the text that is read)"
    try:
        document = parse_yaml(result.text, path=path, line_numbers=result.lines)
    except ConfigError as error:
        raise ConfigError(f"{error}{hint}") from None
    return replace(document, hint=hint)


def expand_template(
    text: str, values: Mapping[str, object] | None = None, *, path: str
) -> Expanded:
    """Fill the placeholders of a template.

    values: text or a number for each key
    path: the file's name in errors
    Raises ConfigError if a value has no placeholder; with line, if the syntax is invalid or a
    placeholder has no value.

    >>> expand_template("src: {{src}}\\n{% for n in range(2) %}\\n- {{n}}{% endfor %}\\n", {"src": "de"}, path="stream.yaml")
    Expanded(text='src: de\\n\\n- 0\\n- 1\\n', lines=(1, 2, 3, 3, 4))
    """
    inputs = _check_values(values or {})
    if not _PLACEHOLDER.search(text):
        _refuse_unused(inputs, set(), path)
        return Expanded(text)
    if len(text) > MOST_CHARS or "\x00" in text:
        fault = f"the template is binary, or longer than {MOST_CHARS:,} characters; shorten it"
        raise ConfigError(f"{path}:1: {fault}")
    from jinja2 import TemplateError, TemplateSyntaxError, UndefinedError, meta

    environment = _make_environment()
    try:
        tree = environment.parse(text)
        _prepare(tree, path)
        _refuse_unused(inputs, meta.find_undeclared_variables(tree), path)
        rendered = _join(environment.from_string(tree).generate(inputs), path)
        return _remove_marks(rendered)
    except UndefinedError as error:
        key = re.match(r"'(\w+)' is undefined", str(error))
        fault = f"{error}; fix the template"
        if key:
            fault = f"{{{{{key[1]}}}}} has no value; set {key[1]}"
        raise ConfigError(f"{path}:{_find_error_line(error)}: {fault}, or {_HINT}") from None
    except TemplateError as error:
        line = _find_error_line(error)
        if isinstance(error, TemplateSyntaxError):
            line = _find_tag_start(environment, text, error.lineno)
        reason = str(error.message).rstrip(".")
        fault = f"not a valid template: {reason}; fix it, or {_HINT}"
        raise ConfigError(f"{path}:{line}: {fault}") from None
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:  # of filters, operators
        raise ConfigError(f"{path}:{_find_error_line(error)}: {error}; fix the template") from None
    except (SyntaxError, RecursionError, MemoryError):  # Python's errors for too deep nesting
        raise ConfigError(f"{path}:1: values are nested more than 50 deep; nest less") from None


def _check_values(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values. Raises ConfigError if one is not a number or short text."""
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


def _refuse_unused(inputs: Mapping[str, object], placeholders: Set[str], path: str) -> None:
    """Raise ConfigError if an input has no placeholder in the template."""
    for key in inputs.keys() - placeholders:
        fault = f"the value {key!r} is not used: the file has no {{{{{key}}}}}"
        raise ConfigError(f"{path}: {fault}; {suggest_name(key, sorted(placeholders))}")


def _make_environment() -> Environment:
    """Return a sandbox that calls only `range`, multiplies only numbers, refuses placeholders
    without a value, and has a filter `rounds` that limits the rounds of all loops."""
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

    round_numbers = count(1)

    def count_rounds(items: Iterable[object]) -> Iterator[object]:
        for item in items:
            if next(round_numbers) > MOST_ROUNDS:
                raise ValueError(f"all loops together have more than {MOST_ROUNDS:,} rounds")
            yield item

    environment = Sandbox(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    environment.filters["rounds"] = count_rounds
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    environment.globals = {"range": environment.globals["range"]}
    return environment


def _prepare(tree: nodes.Template, path: str) -> None:
    """Refuse syntax that is not allowed, make each loop count its rounds, and mark lines."""
    from jinja2 import nodes

    for node in tree.find_all(nodes.Node):
        kind = type(node).__name__
        if not _ALLOWED_NODES.fullmatch(kind) or getattr(node, "name", None) == "self":
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


def _join(texts: Iterable[str], path: str) -> str:
    """Join the parts of the rendered text, marks included, up to a limit."""
    result = list[str]()
    n_chars = 0
    for text in texts:
        n_chars += len(text)
        if n_chars > 2 * MOST_CHARS:  # half of it for marks
            fault = f"expands to more than {MOST_CHARS:,} characters; loop less, or split the file"
            raise ConfigError(f"{path}:1: {fault}")
        result.append(text)
    return "".join(result)


def _remove_marks(marked: str) -> Expanded:
    r"""Return the text without marks; a line's number is that of its first visible text.

    >>> _remove_marks("\x001\x00src: \x001\x00de\x001\x00\n\x002\x00\x003\x00tgt")
    Expanded(text='src: de\ntgt', lines=(1, 3))
    """
    lines = list[int]()
    last_number = "1"
    for line in marked.split("\n"):
        # Alternating numbers and texts: a text belongs to the number before it
        parts = [last_number, *_MARK.split(line)]
        numbers = parts[::2]
        last_number = numbers[-1]
        line_number = last_number
        for number, text in zip(numbers, parts[1::2], strict=True):
            if text.strip():
                line_number = number
                break
        lines.append(int(line_number))
    return Expanded(_MARK.sub("", marked), tuple(lines))


def _find_tag_start(environment: Environment, text: str, line: int) -> int:
    """Return the line on which the tag that extends to `line` begins; later tags may be invalid."""
    from jinja2 import TemplateSyntaxError

    result = line
    with suppress(TemplateSyntaxError):
        for number, kind, _ in environment.lex(text):
            if number <= line and kind in ("variable_begin", "block_begin"):
                result = number
    return result


def _find_error_line(error: BaseException) -> int:
    """Return the template's line at which an error was raised; 1 if it is unknown."""
    result = 1
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_code.co_filename == "<template>":
            result = line
    return result
