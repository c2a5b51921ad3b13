"""CONTRIBUTING.md: its examples run in one session; the modules and files that pages name exist."""

import doctest
import re
from importlib import import_module

import pytest
from support.places import ROOT

from volt.errors import MissingLibraryError

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_additions_work_as_described(tmp_path, monkeypatch):
    """The examples of a new rule, transform, format and loop work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    for module in (block for block in blocks if block.startswith("# ")):
        (tmp_path / module.split()[1]).write_text(module, encoding="utf-8")
    session = "\n".join(block for block in blocks if block.startswith(">>>"))
    examples = doctest.DocTestParser().get_doctest(
        session, {"__name__": "contributing"}, "CONTRIBUTING", None, 0
    )
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples).failed == 0
    assert len(examples.examples) > 20


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs" / "pages").rglob("*.md")),
    ROOT / "examples" / "README.md",
]
PATHS = re.compile(r"(?<![\w/.-])(?:volt|cli|tests|experiments|docs|examples)/[\w/-]+\.(?:py|md)\b")
NAMES = re.compile(r"(?<![\w./-])volt(?:\.[a-z]\w*)+(?:\.[A-Z]\w*)?\b(?!/)")
FILES = {"volt.model"}  # names of files, not of modules


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_and_files_that_pages_name_exist(page):
    """Paths such as volt/choose/rules.py exist; names such as volt.choose.rules resolve."""
    text = page.read_text(encoding="utf-8")
    assert [path for path in set(PATHS.findall(text)) if not (ROOT / path).is_file()] == []
    assert [name for name in set(NAMES.findall(text)) - FILES if not exists(name)] == []


def exists(name):
    """Check whether a dotted name is a module, or a public name in one.

    >>> exists("volt.choose.rules"), exists("volt.search"), exists("volt.choose.rulez")
    (True, True, False)
    """
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module, _, attribute = name.rpartition(".")
    try:
        return bool(module) and exists(module) and hasattr(import_module(module), attribute)
    except MissingLibraryError:  # of an extra that is not installed
        return True


def test_the_rules_that_help_lists_are_those_of_the_dictionaries():
    """`--select` offers and explains each rule of volt.choose.rules."""
    from volt.choose.rules import SCALING, rules
    from volt_cli.options import RULES

    assert (*rules(), SCALING) == RULES
