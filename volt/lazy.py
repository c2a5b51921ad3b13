"""Import the public names of a package at first use (PEP 562), so that `import volt` is fast.

The package imports its names under `if TYPE_CHECKING:`, for type checkers; `lazy` reads them from
its compiled code.

>>> hand_on, listed, names = lazy("volt")
>>> hand_on("VoltError").__name__, names[:2], listed() == names
('VoltError', ['Candidates', 'Comparison'], True)
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package that imports names lazily.

    `__dir__` lists the public names, but no modules.
    """
    module_of = _imported(package)
    listed = sorted(module_of)

    def hand_on(name: str) -> Any:
        if name in module_of:
            value = getattr(import_module(module_of[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if name.isidentifier() and find_spec(f"{package}.{name}"):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return hand_on, lambda: listed, listed


def _imported(package: str) -> dict[str, str]:
    """Return the names that a package imports from its own modules, and these modules."""
    spec: Any = sys.modules[package].__spec__
    module = ""
    result = dict[str, str]()
    for step in dis.get_instructions(spec.loader.get_code(package)):
        if step.opname == "IMPORT_NAME":
            module = step.argval
        is_own = module.startswith(f"{package}.") and module != __name__
        if step.opname == "IMPORT_FROM" and is_own:
            result[step.argval] = module
    return result
