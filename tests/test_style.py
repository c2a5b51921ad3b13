"""Rules of style that a machine can check, over volt/ and cli/; experiments/density.py checks others."""

import ast
import re
from collections import Counter
from functools import cache

from support.places import ROOT

MODULES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for wing in ("volt", "cli")
    for path in sorted((ROOT / wing).rglob("*.py"))
}
MOST_LINES = 620  # of a module
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
VAGUE_OPENING = re.compile(r"(What|Whether|That|Those)\b")
MOST_RELEASE_NOTES = 120  # lines of a section of CHANGELOG.md


@cache
def trees():
    """Parse all modules, once and only where a test needs them."""
    return {path: ast.parse(text) for path, text in MODULES.items()}


def test_modules_are_short():
    """No module has more than 620 lines."""
    assert {path: n for path, text in MODULES.items() if (n := text.count("\n")) > MOST_LINES} == {}


def test_a_class_name_stands_for_one_class():
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


def test_summaries_of_functions_start_with_a_verb():
    """The docstring of a function does not open with What, Whether, That or Those."""
    places = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and VAGUE_OPENING.match(ast.get_docstring(node) or "")
    ]
    assert places == [], "\n".join(places)


def test_notes_on_a_release_are_short():
    """Each section of CHANGELOG.md has at most 120 lines."""
    sections = re.split(r"(?m)^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[1:]
    assert any(section.startswith("[0.1.0]") for section in sections)
    assert [
        section.splitlines()[0] for section in sections if section.count("\n") > MOST_RELEASE_NOTES
    ] == []
