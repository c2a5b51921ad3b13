"""The README: every command and every Python example in it runs, and prints what it says."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

README = ROOT / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
COMMANDS = [
    command
    for kind, text in BLOCKS
    if kind == "console"
    for command in re.findall(r"^\$ (volt .*)$", text, re.MULTILINE)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the corpus that the README speaks of: the topics of pydoc."""
    from pydoc_data.topics import topics

    folder = tmp_path_factory.mktemp("readme")
    (folder / "corpus.txt").write_text("\n".join(topics.values()), encoding="utf-8")
    return folder


def test_there_are_commands() -> None:
    """The README shows the main commands."""
    assert {command.split()[1] for command in COMMANDS} >= {"search", "encode", "decode", "inspect"}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs(command: str, folder: Path) -> None:
    """Each command of the README, in its order, ends with status 0."""
    shell = re.sub(r"(?<![.\w])volt ", f"{sys.executable} -m volt_cli ", command)
    done = subprocess.run(shell, shell=True, cwd=folder, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()


def test_python_examples_print_what_they_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python sessions of the README are doctests."""
    monkeypatch.chdir(folder)
    session = "\n".join(text for kind, text in BLOCKS if kind == "python")
    test = doctest.DocTestParser().get_doctest(session, {}, "README", str(README), 0)
    assert test.examples
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test)
    assert results.failed == 0
