"""Laws of errors."""

from __future__ import annotations

import inspect
import pickle

import pytest

from volt import errors
from volt.errors import CorpusError, VocabularyError, VoltError


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, VoltError)]
)
def test_errors_cross_to_another_process(kind: type[VoltError]) -> None:
    """An error that is pickled and read back is the same: its kind, its text, and the place of a vocabulary's fault."""
    found = pickle.loads(pickle.dumps(kind("what; do this")))
    assert (type(found), str(found), found.args) == (kind, "what; do this", ("what; do this",))
    error = VocabularyError("no merge makes it", place=("tokens", 2))
    found = pickle.loads(pickle.dumps(error))
    assert (str(found), vars(found)) == (str(error), vars(error))


def test_hints_stay_with_errors() -> None:
    """A hint crosses to another process, and stays when the message or the kind changes."""
    error = VocabularyError("no marker; learn with", place=("merges", 0), hint={"marker": "none"})
    for same in (pickle.loads(pickle.dumps(error)), error.reworded(error.message)):
        assert str(same) == "merges, entry 1: no marker; learn with marker='none'"
        assert same.text(lambda name, value: f"--{name} {value}") == f"{error.message} --marker none"
    assert str(error.reworded("a.txt: learn with", CorpusError)) == "a.txt: learn with marker='none'"
