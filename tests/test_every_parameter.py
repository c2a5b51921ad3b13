"""Every parameter of every public function and class takes an odd value, or refuses it in words."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest
from support.held import CANDIDATES, COUNTS, ENCODER, PUBLIC, RESULT, SOURCES, STATE, VOCABULARY

from volt.errors import VoltError

BATCHES = {
    f"volt.batches.{name}": getattr(import_module("volt.batches"), name)
    for name in import_module("volt.batches").__all__
}
ODD = [None, 0, -1, 1.5, "", "a", b"", [None], [1], {"a": None}, object(), object]
USUAL = {
    "counts": COUNTS,
    "candidates": CANDIDATES,
    "vocabulary": VOCABULARY,
    "encoder": ENCODER,
    "sources": SOURCES,
    "path": "nowhere/x",
    "paths": ["nowhere.txt"],
    "folder": Path("nowhere/x"),
    "lines": ["low"],
    "text": "low",
    "size": 14,
    "sizes": [14],
    "to": "tokens",
    "merges": [("l", "o")],
    "tokens": ("a",),
    "n_merges": 3,
    "name": "a",
    "state": STATE,
    "result": RESULT,
    "search": RESULT,
}
OWN = {"report", "map", "progress"}  # functions of the caller, whose errors are the caller's
# volt alone makes them, or they hold results of hot loops, and check nothing
UNCHECKED = (
    "Column",
    "Batch",
    "Parts",
    "Samples",
    "to_torch",
    "Error",
    "Warning",
    "FORMATS",
    "LineFault",
    "Transform",
)


def _calls():
    public = {**PUBLIC, **BATCHES}
    return {
        name: call
        for name, call in public.items()
        if callable(call) and not name.endswith(UNCHECKED)
    }


def _outcome(call, values):
    try:
        made = call(**values)
        if inspect.isgenerator(made):
            next(made, None)
    except VoltError:
        return ""
    except Exception as error:  # what must not reach a user
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("name", _calls())
def test_odd_values_are_taken_or_refused(name, tmp_path, monkeypatch):
    """Values of wrong types or out of range raise only VOLT's errors."""
    monkeypatch.chdir(tmp_path)
    call = _calls()[name]
    parameters = inspect.signature(call).parameters.values()
    named = [
        one
        for one in parameters
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL, one.POSITIONAL_ONLY)
    ]
    needed = [one.name for one in named if one.default is one.empty]
    faults = {}
    for parameter in named:
        for odd in () if parameter.name in OWN else ODD:
            values = {key: USUAL.get(key, odd) for key in needed}
            fault = _outcome(call, values | {parameter.name: odd})
            if fault:
                faults[f"{parameter.name}={odd!r}"] = fault
    assert not faults


def test_every_public_function_is_walked():
    """The walk leaves out only classes that check nothing."""
    assert len(_calls()) > 80
