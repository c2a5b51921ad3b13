"""The faces of packages: what `volt` and its wings hand on, whatever has been imported before."""

import subprocess
import sys
from importlib import import_module

import pytest

import volt

WINGS = (
    "batches",
    "choose",
    "comparison",
    "count",
    "encode",
    "files",
    "formats",
    "learn",
    "stream",
    "text",
    "trial",
    "vocabulary",
)


@pytest.mark.parametrize("wing", WINGS)
def test_every_wing_exports_the_names_that_it_lists(wing):
    """Names in the `__all__` of a wing resolve, and dir() lists them; other names raise
    AttributeError."""
    if wing == "trial":
        pytest.importorskip("torch", reason="trials need torch")
    face = import_module(f"volt.{wing}")
    assert face.__all__ == sorted(face.__all__) == dir(face)
    assert all(getattr(face, name) is not None for name in face.__all__)
    with pytest.raises(AttributeError, match=f"'volt.{wing}' has no attribute 'Nothing'"):
        _ = face.Nothing


def test_public_names_resolve_in_any_order():
    """In a new process, `volt.text` needs no import, and `volt.search` stays the function after the
    module of this name is imported."""
    script = (
        "import volt, sys; light = not {'numpy', 'numba', 'polars'} & set(sys.modules); "
        f"wings = [getattr(volt, wing).__name__ for wing in {WINGS!r}]; "
        "import volt.choose.search, volt.comparison.compare; "
        "print(light, len(wings), callable(volt.search), callable(volt.compare), volt.Encoder is volt.encode.Encoder)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"True {len(WINGS)} True True True\n", done.stderr


def test_every_public_name_of_volt_resolves():
    """All names that `volt` lists, and its version, resolve."""
    assert volt.__all__ == dir(volt)
    assert all(getattr(volt, name) is not None for name in (*volt.__all__, "__version__"))
