"""Ctrl-C ends a command with 130 and no traceback, from the first import on to the last moment of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from commands import VOLT
from drawn import in_turns

from volt.vocabulary import Vocabulary

# Interrupts the process itself when a module is looked for, so that no test depends on how fast a machine is.
HOOK = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
"""
MODULES = ("typer", "volt_cli.search", "volt_cli.stream.commands", "numba", "volt.encode.encoder")
SCRIPT = [sys.executable, "-c", "from volt_cli.start import main; main()"]


@pytest.mark.parametrize(("module", "command"), in_turns(product(MODULES, [VOLT, SCRIPT]), 2))
def test_an_interrupted_import_prints_no_traceback(
    command: list[str], module: str, tmp_path: Path
) -> None:
    """Whatever is being imported: of the command line before it can report it, or of a command."""
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    environment = {
        **os.environ,
        "AT": module,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
    }
    model = tmp_path / "a.volt"
    Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo")).save(model)
    found = subprocess.run(
        [*command, "encode", "-m", str(model)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert found.returncode == 130
    assert found.stderr in (b"", b"interrupted \n", b"interrupted\n")


def test_a_job_that_ignores_interrupts_keeps_ignoring_them(tmp_path: Path) -> None:
    """A shell starts jobs in the background so; Ctrl-C is meant for another."""
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    environment = {
        **os.environ,
        "AT": "typer",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
    }
    found = subprocess.run(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *VOLT, "--version"],
        env=environment,
        capture_output=True,
    )
    assert (found.returncode, found.stderr) == (0, b"")
