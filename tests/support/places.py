"""The paths of the tests and of the project, and the environment of programs that tests start."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = next(folder for folder in TESTS.parents if (folder / "pyproject.toml").exists())


def environment():
    """Return environment variables by which Python finds VOLT and its command line."""
    return os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}
