"""Results of the trials: which values each kind has (volt/trial/results.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from volt.trial.results import Row, check_types, parse

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
    """Return True, as all results count.

    Raises ValueError with the name of a value that a result lacks.
    """
    check_types(row, _NEEDED | _SCORES.get(row.get("kind", ""), {}))
    return True


def read(path: Path) -> list[dict[str, Any]]:
    return parse(path.read_bytes(), path, check) if path.exists() else []
