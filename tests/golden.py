"""Values that must not change, in golden.json: `VOLT_GOLDEN=write pytest -n 0 FILE` writes those of a file anew.

Do so only where a change is intended: it ends runs that were to be resumed, or changes files that others have.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden.json"


def digest(data: bytes) -> str:
    """Return the first digits of a SHA-256."""
    return sha256(data).hexdigest()[:16]


def golden(name: str, value: Any) -> Any:
    """Return the stored value; with VOLT_GOLDEN=write, store this one."""
    stored = json.loads(GOLDEN.read_text())
    if os.environ.get("VOLT_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps({**stored, name: value}, indent=1, sort_keys=True) + "\n")
        return value
    return stored[name]


def rounded(value: Any) -> Any:
    """Return JSON with floats of six digits, and 0 for tiny ones: the last digits depend on the processor."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) > 1e-12 else 0.0
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


def check(name: str, value: Any) -> None:
    """Assert that a value, as JSON, is the stored one."""
    value = rounded(json.loads(json.dumps(value)))
    assert value == rounded(golden(name, value))
