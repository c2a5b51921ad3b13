"""Where the tests find what is not imported."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = next(folder for folder in TESTS.parents if (folder / "pyproject.toml").exists())
