"""CONTRIBUTING.md: what it says about adding things is done as it says, in one session."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from places import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_additions_work_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule, a transform, a format and a loop work once they have an entry, or none where none is needed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    for module in (block for block in blocks if block.startswith("# ")):
        (tmp_path / module.split()[1]).write_text(module, encoding="utf-8")
    session = "\n".join(block for block in blocks if block.startswith(">>>"))
    examples = doctest.DocTestParser().get_doctest(session, {"__name__": "contributing"}, "CONTRIBUTING", None, 0)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples).failed == 0
    assert len(examples.examples) > 20


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:volt|tests|cli|experiments)/[\w/]+\.\w+)`", TEXT))))
def test_files_that_it_names_are_there(path: str) -> None:
    """Every file that is named exists."""
    assert (ROOT / path).is_file()
