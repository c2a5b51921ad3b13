"""Rules of style that a machine can check, over volt/ and cli/. A ceiling is the count of the day: it only falls."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from places import ROOT

MODULES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for wing in ("volt", "cli")
    for path in sorted((ROOT / wing).rglob("*.py"))
}
MOST_LINES = 620  # of a module
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
VAGUE_OPENING = re.compile(r"(What|Whether|That|Those)\b")
CEILINGS = {
    "told": 0,
    "found": 0,
    "made": 3,
    "kept": 8,
    "asked": 1,
    "given": 2,
    "beside": 2,
    "behind": 0,
    "here": 0,
}
MOST_RELEASE_NOTES = 120  # lines of a section of CHANGELOG.md


@cache
def trees() -> dict[str, ast.Module]:
    """Parse all modules, once and only where a test needs them."""
    return {path: ast.parse(text) for path, text in MODULES.items()}


def test_modules_are_short() -> None:
    """No module has more than 620 lines."""
    assert {path: n for path, text in MODULES.items() if (n := text.count("\n")) > MOST_LINES} == {}


def test_a_class_name_stands_for_one_class() -> None:
    """In volt/, no two public classes share a name."""
    nodes = [
        node
        for path, tree in trees().items()
        if path.startswith("volt/")
        for node in ast.walk(tree)
    ]
    counts = Counter(
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, n in counts.items() if n > 1] == []


@pytest.mark.parametrize(("name", "most"), CEILINGS.items())
def test_vague_names_become_fewer(name: str, most: int) -> None:
    """Variables, parameters and functions say what they hold or do; these names do not."""
    places = [f"{path}:{line}" for path, each, line in names_of_all() if each.strip("_") == name]
    assert len(places) <= most, "\n".join(places)


@cache
def names_of_all() -> list[tuple[str, str, int]]:
    """Return path, name and line of each name in the modules, which are walked once for all names."""
    return [(path, name, line) for path, tree in trees().items() for name, line in named(tree)]


def named(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each name that code binds to a value or function, and its line.

    >>> list(named(ast.parse("def f(x): y = x")))
    [('f', 1), ('x', 1), ('y', 1)]
    """
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno


def test_summaries_of_functions_start_with_a_verb() -> None:
    """The docstring of a function does not open with What, Whether, That or Those."""
    places = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and VAGUE_OPENING.match(ast.get_docstring(node) or "")
    ]
    assert places == [], "\n".join(places)


def test_notes_on_a_release_are_short() -> None:
    """Each section of CHANGELOG.md has at most 120 lines."""
    sections = re.split(r"(?m)^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[1:]
    assert any(section.startswith("[0.1.0]") for section in sections)
    assert [
        section.splitlines()[0] for section in sections if section.count("\n") > MOST_RELEASE_NOTES
    ] == []
