"""Defaults and numbers that runs rely on without naming them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import pytest
from golden import check


def defaults_of(module: ModuleType) -> Iterator[str]:
    """Yield the numbers that a module defines, and the defaults of its functions, classes and methods."""
    for name, value in [one for one in vars(module).items() if not one[0].startswith("_")]:
        if isinstance(value, int | float) and f"\n{name} = " in inspect.getsource(module):
            yield f"{name} = {value}"
        elif getattr(value, "__module__", None) == module.__name__ and callable(value):
            yield from _defaults(value, name)
            for own in vars(value) if inspect.isclass(value) else ():
                if not own.startswith("_") and callable(method := getattr(value, own)):
                    yield from _defaults(method, f"{name}.{own}")


def _defaults(function: Any, name: str) -> Iterator[str]:
    values = [one for one in inspect.signature(function).parameters.values() if one.default is not one.empty]
    if values and repr(values[0].default) != "<factory>":
        yield f"{name}({', '.join(f'{one.name}={one.default!r}' for one in values)})"


@pytest.mark.parametrize("package", ["checking", "reading", "running", "tasks"])
def test_defaults_stay_as_they_are(package: str) -> None:
    """Another default changes the runs that do not name the option."""
    path = f"volt.stream.{package}"
    names = sorted(one.name for one in iter_modules(import_module(path).__path__))
    check(
        f"stream defaults {package}", [line for name in names for line in defaults_of(import_module(f"{path}.{name}"))]
    )
