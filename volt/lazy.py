"""Import the public names of a package when they are first used (PEP 562), so that `import volt` is fast.

>>> hand_on, listed, names = lazy("volt", {"errors": ("VoltError",)})
>>> hand_on("VoltError").__name__, names
('VoltError', ['VoltError'])
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package that imports names lazily.

    homes: module name (relative to the package) → its public names. `__dir__` lists these names, but no modules.
    """
    module_of = {name: module for module, names in homes.items() for name in names}
    listed = sorted(module_of)

    def hand_on(name: str) -> Any:
        if name in module_of:
            value = getattr(import_module(f"{package}.{module_of[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        if name.isidentifier() and find_spec(f"{package}.{name}"):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return hand_on, lambda: listed, listed
