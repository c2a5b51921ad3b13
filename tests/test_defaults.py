"""Numbers and flags that callers and results depend on by default: they change only on purpose."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import check, digest

import volt

FOLDER = Path(volt.__file__).parent
PLAIN = (bool, int, float, bytes, tuple, dict, re.Pattern, np.ndarray)  # the texts of messages are not pinned


def shown(value: object) -> str:
    """A value in at most 120 characters, or its digest."""
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    text = re.sub(r"<function (\w+)[^>]*>|<(?:class|built-in)[^>]*?(\w+)'?>", r"\1\2", text)
    return text if len(text) <= 120 else digest(text.encode())


def defaults(function: Any) -> Iterator[str]:
    """The parameters with a plain default, and the fields of a dataclass that it does not show or compare."""
    for one in inspect.signature(function).parameters.values():
        if isinstance(one.default, PLAIN):
            yield f"{one.name}={shown(one.default)}"
    for one in dataclasses.fields(function) if dataclasses.is_dataclass(function) else ():
        hidden = [flag for flag in ("init", "repr", "compare") if not getattr(one, flag)]
        yield from [f"{one.name} without {' and '.join(hidden)}"] * bool(hidden)


def facts(path: Path) -> Iterator[str]:
    """The plain constants of a module, run anew, and the defaults of its functions, classes and methods."""
    module, statements = runpy.run_path(str(path)), ast.parse(path.read_text()).body
    targets = (one for node in statements if isinstance(node, ast.Assign) for one in ast.walk(node))
    assigned = dict.fromkeys(one.id for one in targets if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    constants = (f"{name}={shown(module[name])}" for name in assigned if isinstance(module.get(name), PLAIN))
    rows = {"": [*constants]}
    for name, value in module.items():
        if getattr(value, "__module__", "") == "<run_path>":
            is_record = dataclasses.is_dataclass(value) or hasattr(value, "_fields")
            rows[name] = [*defaults(value)] if is_record or inspect.isfunction(value) else []
            for part, method in vars(value).items() if inspect.isclass(value) else ():
                method = getattr(method, "__func__", method)
                if inspect.isfunction(method) and not (is_record and part.startswith("__") and part != "__call__"):
                    rows[f"{name}.{part}"] = [*defaults(method)]
    return (f"{name}({', '.join(row)})" for name, row in rows.items() if row)


@pytest.mark.parametrize("package", ["files", "count", "choose", "display", "arguments", "errors", "urls"])
def test_defaults_and_limits_stay(package: str) -> None:
    """The constants of modules, and the defaults of functions, are the stored ones."""
    paths = [path for path in (FOLDER / f"{package}.py", *sorted((FOLDER / package).glob("[!_]*.py"))) if path.exists()]
    found = {path.stem: [*facts(path)] for path in paths}
    check(f"{package} defaults", {name: rows for name, rows in found.items() if rows})
