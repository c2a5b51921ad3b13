"""The experiments that check the project itself: dependencies, and what a killed run leaves."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "experiments"


@pytest.fixture
def audit() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "audit.py"))


def test_what_is_imported_is_declared_and_what_is_needed_is_imported(audit: dict[str, Any]) -> None:
    """Every import from elsewhere is a dependency, optional ones come late, each has a lower bound that is met here."""
    required, optional = audit["declared"]()
    names, others = ({audit["canonicalize_name"](one.name) for one in rows} for rows in (required, optional))
    assert list(audit["faults_of_imports"](names, others)) == []
    assert list(audit["faults_of_versions"](required)) == []
    found = list(audit["faults_of_imports"]((names | {"unheard-of"}) - {"numpy"}, others))
    assert any("numpy is not declared" in fault for fault in found)
    assert "unheard-of is declared as needed, and nothing imports it" in found


def test_trees_of_killed_mutants_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run removes the trees of processes that are gone, and no other folder."""
    monkeypatch.setattr(sys, "argv", ["mutants.py"])
    sweep = runpy.run_path(str(FOLDER / "mutants.py"))["_sweep"]
    gone = 2**22 + 1  # above the greatest number of a process
    for name in (f"mutants-{gone}-a", f"mutants-{os.getpid()}-b", "mutants-notes", "mutants-x-1"):
        (tmp_path / name / "within").mkdir(parents=True)
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"mutants-{os.getpid()}-b", "mutants-notes", "mutants-x-1"}
