"""The paths of the tests' folder and of the project's root."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = next(folder for folder in TESTS.parents if (folder / "pyproject.toml").exists())
