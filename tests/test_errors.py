"""Laws of errors: they survive pickling, and their messages are bounded."""

import inspect
import pickle

import pytest

from volt import errors
from volt.errors import CorpusError, VocabularyError, VoltError


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, VoltError)
    ],
)
def test_errors_survive_pickling(kind):
    """An unpickled error has the same class, text and place."""
    found = pickle.loads(pickle.dumps(kind("what; do this")))
    assert (type(found), str(found), found.args) == (kind, "what; do this", ("what; do this",))
    error = VocabularyError("no merge makes it", place=("tokens", 2))
    found = pickle.loads(pickle.dumps(error))
    assert (str(found), vars(found)) == (str(error), vars(error))


def test_hints_stay_with_errors():
    """A hint survives pickling, and a change of the message or class."""
    error = VocabularyError("no marker; learn with", place=("merges", 0), hint={"marker": "none"})
    for same in (pickle.loads(pickle.dumps(error)), error.reworded(error.message)):
        assert str(same) == "merges, entry 1: no marker; learn with marker='none'"
        assert (
            same.text(lambda name, value: f"--{name} {value}") == f"{error.message} --marker none"
        )
    assert (
        str(error.reworded("a.txt: learn with", CorpusError)) == "a.txt: learn with marker='none'"
    )


def test_messages_are_cut_at_their_limits():
    """Long names, lines and messages are cut, and the number of omitted characters is shown."""
    assert [errors.shown("a" * n, 3) for n in (3, 4)] == ["aaa", "aaa… (4 characters)"]
    assert [len(errors.bounded("a" * n)) for n in (2000, 2001)] == [
        2000,
        1450 + 500 + len("… (51 characters left out) …"),
    ]
    assert [errors.bounded("a\n" * n + "a").count("\n") for n in (499, 500, 501)] == [499, 500, 500]
    assert errors.visible("\udc80\udcff\ud800a") == "\\x80\\xff\\ud800a"
