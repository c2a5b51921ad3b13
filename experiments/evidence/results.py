"""Results of the trials: which values each kind has (volt/trial/results.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from volt.trial.results import Row, parse

_NEEDED = {
    "key": str,
    "kind": str,
    "corpus": str,
    "size": int,
    "seed": int,
    "seconds": (int, float),
}
_SCORES = {
    "lm": dict.fromkeys(("dev", "test", "operations"), list),
    "nmt": dict.fromkeys(("test", "BLEU", "chrF2"), (int, float)),
}


def check(row: Row) -> bool:
    """Return True, as all results count. Raises ValueError with the name of a value that a result lacks."""
    needed = _NEEDED | _SCORES.get(row.get("kind", ""), {})
    if missing := [name for name, kind in needed.items() if not isinstance(row.get(name), kind)]:
        raise ValueError(f"{missing[0]} is missing")
    return True


def read(path: Path) -> list[dict[str, Any]]:
    return parse(path.read_bytes(), path, check) if path.exists() else []
