"""Import the public names of a package at first use (PEP 562), so that `import volt` is fast.

The package imports its names under `if TYPE_CHECKING:`, which only type checkers execute. Python
compiles these imports nevertheless, so `lazy` reads from the compiled code which module each name
comes from.

>>> get_attribute, list_names, names = lazy("volt")
>>> get_attribute("VoltError").__name__, names[:2], list_names() == names
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

    `__getattr__` also imports modules of the package; `__dir__` and `__all__` do not list these.
    """
    module_of = _find_imports(package)
    names = sorted(module_of)

    def get_attribute(name: str) -> Any:
        if name in module_of:
            value = getattr(import_module(module_of[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if name.isidentifier() and find_spec(f"{package}.{name}"):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get_attribute, lambda: names, names


def _find_imports(package: str) -> dict[str, str]:
    """Return the names that a package imports from its own modules: name → module."""
    spec: Any = sys.modules[package].__spec__
    module = ""
    module_of = dict[str, str]()
    for instruction in dis.get_instructions(spec.loader.get_code(package)):
        if instruction.opname == "IMPORT_NAME":
            module = instruction.argval
        is_own = module.startswith(f"{package}.") and module != __name__
        if instruction.opname == "IMPORT_FROM" and is_own:
            module_of[instruction.argval] = module
    return module_of
