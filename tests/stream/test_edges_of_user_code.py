"""Functions of users at the edge: asynchronous ones, and results that cannot be; where the fault lies is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.opening import LoadedFiles
from volt.stream.transforms.transform import LineFault
from volt.stream.transforms.user_code import Takes, User
from volt.stream.transforms.user_file import first_line

CODE = """\
from functools import partial, wraps


async def later(fields):
    return fields


async def more(fields):
    yield fields


class Later:
    async def __call__(self, fields):
        return fields


an_object, a_partial = Later(), partial(later)


def number(fields):
    return 3


def tabbed(fields):
    return ["a\\tb"]


def numbers(lines):
    for fields in lines:
        yield 3


def twice(batch):
    import pyarrow as pa

    return pa.Table.from_batches([batch, batch]).drop(["row"])


def loud(function):
    @wraps(function)
    def called(fields):
        return function(fields)
    return called


@loud
def wrapped(fields):
    return 3


def broken(fields):
    fields = fields[:]
    return fields[9]
"""


def user(folder: Path, function: str, takes: Takes = "fields") -> User:
    """The step of a function of the code above."""
    (folder / "mine.py").write_text(CODE)
    return User(folder / "mine.py", function, takes)


@pytest.mark.parametrize(("function", "line"), [("later", 4), ("more", 8), ("a_partial", 4), ("an_object", 0)])
def test_asynchronous_functions_are_refused_when_a_stream_is_made(tmp_path: Path, function: str, line: int) -> None:
    """One clear error, with the place, before any line is read; nothing is left that was never awaited."""
    with pytest.raises(ConfigError, match=rf"function '{function}' is asynchronous, .*; write def, not async") as error:
        user(tmp_path, function).opened(LoadedFiles())
    assert f"mine.py:{line}: " in str(error.value) if line else "mine.py: " in str(error.value)


@pytest.mark.parametrize(
    ("function", "takes", "told", "line"),
    [
        ("number", "fields", "returned 3, not a list", "def number"),
        ("number", "line", "returned 3, not a string", "def number"),
        ("tabbed", "fields", "a tab inside", "def tabbed"),
        ("numbers", "stream", "returned 3, not a list", "def numbers"),
        ("twice", "batch", "twice returned 2 rows for 1 lines", "def twice"),
        ("wrapped", "fields", "returned 3, not a list", "@loud"),
        ("broken", "fields", "IndexError", "    return fields[9]"),
    ],
)
def test_what_a_function_returns_wrongly_has_its_line(
    tmp_path: Path, function: str, takes: Takes, told: str, line: str
) -> None:
    """A fault names the line that raised it; where that is none of the function's, the function's first."""
    step, number = user(tmp_path, function, takes), CODE.split("\n").index(next_line(line)) + 1
    with pytest.raises(LineFault) as fault:
        step(Batch.of(["a"]), Chance(1, 2))
    assert told in fault.value.reasons[0]
    assert fault.value.reasons[0].endswith(f"(mine.py:{number})".replace("mine.py", str(tmp_path / "mine.py")))


def next_line(start: str) -> str:
    """The line of the code that starts so."""
    return next(line for line in CODE.split("\n") if line.startswith(start))


def test_a_function_from_elsewhere_has_no_line(tmp_path: Path) -> None:
    """What is no function of the file is at no line of it."""
    assert first_line(len, tmp_path) == first_line(user, tmp_path) == 0
    assert first_line(user, Path(__file__)) > 0
