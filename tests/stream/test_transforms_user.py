"""The user's own functions: what they may take and return, and what is told when they fail."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.opening import LoadedFiles
from volt.stream.transforms.transform import LineFault
from volt.stream.transforms.user_code import User

CODE = '''\
"""Functions for tests."""
from collections.abc import Iterator

SEEN = []

def swap(fields):
    return fields[::-1]

def shout(line, *, mark="!"):
    return line.upper() + mark

def short(fields):
    return fields if len(fields[0]) < 3 else None

def both(fields):
    return [fields, [fields[0], "again"]]

def pair(line):
    return [line, line]

def length(fields):
    return str(len(fields[0]))

def coin(line, rng):
    return line + str(rng.integers(1000))

def twice(stream: Iterator[list[str]]):
    for line in stream:
        yield line
        if line[0] == "b":
            yield [*line, "copy"]

def fails(fields):
    if fields[0] == "b":
        raise ValueError("no b, please")
    return fields

def tab(fields): return ["a\\tb"]
def feed(line): return "a\\nb"
def number(fields): return 3
def numbers(fields): return [1, 2]
def empty(fields): return []
def surrogate(line): return "\\ud800"
def broken(stream):
    for line in stream:
        if line[0] == "b":
            raise KeyError(line[0])
        yield line
'''
Make = Callable[..., User]


@pytest.fixture
def user(tmp_path: Path) -> Make:
    """Makes a transform of one of the functions."""
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return lambda function, **options: User(file=path, function=function, **options)


def run(transform: User, lines: list[str], *, seed: int = 0) -> tuple[list[str], list[int]]:
    """Lines and origins after a transform."""
    done = transform(Batch.of(lines), np.random.default_rng(seed))
    return done.lines, done.origins.tolist()


def test_fields_line_and_stream(user: Make) -> None:
    """A function may take and return fields, a line or a stream, drop a line with None, or make several."""
    assert run(user("swap"), ["a\tb", "c"]) == (["b\ta", "c"], [0, 1])
    assert run(user("shout", takes="line", options={"mark": "?"}), ["a\tb"]) == (["A\tB?"], [0])
    assert run(user("short"), ["abc", "a"]) == (["a"], [1])
    assert run(user("both"), ["a", "b"]) == (["a", "a\tagain", "b", "b\tagain"], [0, 0, 1, 1])
    assert run(user("pair", takes="line"), ["a"]) == (["a", "a"], [0, 0])
    assert run(user("twice", takes="stream"), ["a", "b", "c"]) == (["a", "b", "b\tcopy", "c"], [0, 1, 1, 2])
    assert run(user("length", append=True), ["abc\tx"]) == (["abc\tx\t3"], [0])


def test_chance_is_the_blocks(user: Make) -> None:
    """A parameter `rng` is the generator of the block."""
    coin = user("coin", takes="line")
    assert run(coin, ["a", "b"], seed=1) == run(coin, ["a", "b"], seed=1) != run(coin, ["a", "b"], seed=2)


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        ("tab", {}, "returned a field with a tab inside"),
        ("feed", {"takes": "line"}, "returned a line break"),
        ("number", {}, "not a list of strings"),
        ("number", {"append": True}, "not a string"),
        ("numbers", {}, "not a string"),
        ("surrogate", {"takes": "line"}, "surrogates not allowed"),
    ],
)
def test_what_a_function_returns_is_checked(user: Make, function: str, options: dict[str, str], reason: str) -> None:
    """What would break lines or cannot be written makes the line unfit, with the reason."""
    with pytest.raises(LineFault, match=reason):
        run(user(function, **options), ["x"])


def test_an_empty_list_of_lines_drops_the_line(user: Make) -> None:
    """[] is no row but no rows."""
    assert run(user("empty"), ["a"]) == ([], [])


def test_an_error_names_the_lines_and_the_place_in_the_file(user: Make, tmp_path: Path) -> None:
    """Each line for which the function raises is told, with the error and the line of the user's file."""
    with pytest.raises(LineFault) as fault:
        run(user("fails"), ["a", "b", "c", "b\tx"])
    assert sorted(fault.value.reasons) == [1, 3]
    line = CODE.split("\n").index('        raise ValueError("no b, please")') + 1
    assert fault.value.reasons[1] == f"fails: ValueError: no b, please ({tmp_path / 'mine.py'}:{line})"
    with pytest.raises(LineFault) as fault:
        run(user("broken", takes="stream"), ["a", "b", "c"])
    assert list(fault.value.reasons) == [1]


def test_nothing_is_left_behind(user: Make, tmp_path: Path) -> None:
    """Running a user's file changes neither the search path nor the loaded modules, and leaves no byte code."""
    path, modules = list(sys.path), set(sys.modules)
    run(user("swap"), ["a"])
    assert (sys.path, set(sys.modules)) == (path, modules)
    assert [found.name for found in tmp_path.iterdir()] == ["mine.py"]


def test_the_signature_knows_the_code(user: Make, tmp_path: Path) -> None:
    """Another function, option or text of the file is another signature; a transform survives pickling."""
    before = user("swap").signature()
    assert before != user("both").signature()
    assert before != user("swap", options={"x": 1}).signature()
    assert pickle.loads(pickle.dumps(user("swap"))) == user("swap")
    (tmp_path / "mine.py").write_text(CODE + "\n# changed\n")
    assert before != user("swap").signature()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:\n", r"bad.py:1: invalid syntax"),
        ("x = 1\ny = x / 0\n", r"bad.py:2: ZeroDivisionError"),
        ("import nothing_of_this_name\n", r"bad.py:1: ModuleNotFoundError"),
        ("def aling(fields): pass\n", r"no function 'align'; did you mean aling\?"),
        ("align = 3\n", r"no function 'align'; it has none"),
    ],
)
def test_a_file_that_is_no_good(tmp_path: Path, code: str, message: str) -> None:
    """A file that cannot be run, or lacks the function, is a ConfigError with file and line."""
    (tmp_path / "bad.py").write_text(code)
    with pytest.raises(ConfigError, match=message):
        User(file=tmp_path / "bad.py", function="align").opened(LoadedFiles())
    with pytest.raises(ConfigError, match="cannot be read"):
        User(file=tmp_path / "none.py", function="align").opened(LoadedFiles())


def test_append_needs_a_line(tmp_path: Path) -> None:
    """append goes with functions of one line."""
    with pytest.raises(ConfigError, match="append"):
        User(file=tmp_path, function="f", takes="stream", append=True)
