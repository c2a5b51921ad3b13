"""Values that must not change: a JSON file for each wing in golden/.

Rewrite a value only if the change is intended, because it ends runs that were to be resumed, or
changes users' files.
"""

import json
import os
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def digest(data):
    """Return the first digits of a SHA-256."""
    return sha256(data).hexdigest()[:16]


def golden(name, value):
    """Return the stored value with this name; with VOLT_GOLDEN=write, store `value` first.

    name: the wing, a space, and a label in the wing's file
    """
    wing, _, label = name.partition(" ")
    path = FOLDER / f"{wing}.json"
    stored = {}
    if path.exists():
        stored = json.loads(path.read_text())
    if os.environ.get("VOLT_GOLDEN") == "write":
        stored[label] = value
        path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    assert label in stored, f"no value {label!r} in {path.name}; {how_to_write()}"
    return stored[label]


def how_to_write():
    """Return the command that rewrites the values of the current test's file."""
    file = os.environ.get("PYTEST_CURRENT_TEST", "FILE").partition("::")[0]
    return f"if the change is intended, run VOLT_GOLDEN=write pytest -n 0 {file}"


def rounded(value):
    """Return JSON with floats of six digits, and 0 for tiny ones: the last digits depend on the
    processor.
    """
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) > 1e-12 else 0.0
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value


def check(name, value):
    """Assert that a value, as JSON, is the stored one."""
    value = rounded(json.loads(json.dumps(value)))
    assert value == rounded(golden(name, value)), how_to_write()
