"""The experiments that check the project itself: its dependencies."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "experiments"


@pytest.fixture
def audit():
    return runpy.run_path(str(FOLDER / "audit.py"))


def test_what_is_imported_is_declared_and_what_is_needed_is_imported(audit):
    """Imports are declared, optional ones are late, and installed versions meet the bounds."""
    required, optional = audit["declared"]()
    names, others = (
        {audit["canonicalize_name"](one.name) for one in rows} for rows in (required, optional)
    )
    assert list(audit["faults_of_imports"](names, others)) == []
    assert list(audit["faults_of_versions"](required)) == []
    found = list(audit["faults_of_imports"]((names | {"unheard-of"}) - {"numpy"}, others))
    assert any("numpy is not declared" in fault for fault in found)
    assert "unheard-of is declared as needed, and nothing imports it" in found
