"""`user`: which functions it accepts, what they may return, and how their errors are reported."""

import pickle
from collections.abc import Callable

import pytest

from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.transform import (
    LineFault,
    LoadedFiles,
    is_compiled,
    joins_lines,
    keeps_lines,
)
from volt.stream.transforms.user_code import User

CODE = '''\
"""Functions for tests."""
from functools import wraps

SEEN = []

def swap(fields): return fields[::-1]
def add(fields, *, mark="!"): return [*fields, mark]
def short(fields): return fields if len(fields[0]) < 3 else None
def both(fields): return [fields, [fields[0], "again"]]
def none(fields): return []
def coin(fields, rng): return [str(rng.integers(1000))]

def twice(stream):
    for fields in stream:
        yield fields
        if fields[0] == "b":
            yield [*fields, "copy"]

def coins(stream, rng):
    for fields in stream:
        yield [*fields, str(rng.integers(1000))]

def number(fields): return 3
def mixed(fields): return ["a", 3]
def tabbed(fields): return ["a\\tb"]
def feed(fields): return ["a\\nb"]
def surrogate(fields): return ["\\ud800"]

def numbers(stream):
    for fields in stream:
        yield 3

def loud(function):
    @wraps(function)
    def called(fields):
        return function(fields)
    return called

@loud
def wrapped(fields):
    return 3

def fails(fields):
    if fields[0] == "b":
        raise ValueError("no b, please")
    return fields

def late(stream):
    yield from stream
    raise RuntimeError("at the end")

def early(stream):
    raise RuntimeError("before a line")

def counting(stream):
    for fields in stream:
        SEEN.append(fields[0])
        if fields[0].startswith("bad"):
            yield ["half a line"]
            raise ValueError(fields[0])
        yield fields
'''
MakeUser = Callable[..., User]


@pytest.fixture
def user(tmp_path):
    """A function that returns a transform with a function of the code above."""
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return lambda function, **options: User(file=path, function=function, **options)


def run(transform, lines, *, seed=0):
    """Lines and origins after a transform."""
    batch = transform(Batch.of(lines), LineRng.of(seed))
    return batch.lines, batch.origins.tolist()


def describe_error(transform, lines):
    with pytest.raises(LineFault) as fault:
        run(transform, lines)
    return fault.value


def test_functions_return_one_line_or_several_or_none(user):
    """A function of `user` may return fields, a list of fields for each new line, or None to drop
    the line; a generator yields fields."""
    assert run(user("swap"), ["a\tb", "c"]) == (["b\ta", "c"], [0, 1])
    assert run(user("add", options={"mark": "?"}), ["a\tb"]) == (["a\tb\t?"], [0])
    assert run(user("short"), ["abc", "a"]) == (["a"], [1])
    assert run(user("both"), ["a", "b"]) == (["a", "a\tagain", "b", "b\tagain"], [0, 0, 1, 1])
    assert run(user("none"), ["a"]) == ([], [])
    lines = ["a", "b", "b\tcopy", "c"]
    assert run(user("twice", takes="stream"), ["a", "b", "c"]) == (lines, [0, 1, 1, 2])


def test_random_numbers_belong_to_the_line(user):
    """A function of `user` draws different random numbers for each line, copy of a line and seed."""
    coin = user("coin")
    batch = Batch.of(["x"] * 20)
    lines = coin(batch, LineRng.of(1)).lines
    assert len(set(lines)) > 10
    assert coin(batch, LineRng.of(2)).lines != lines
    assert len(set(coin(batch.take([5] * 20), LineRng.of(1)).lines)) > 10
    coins = user("coins", takes="stream")
    first, same, other = (run(coins, ["a", "b"], seed=seed) for seed in (1, 1, 2))
    assert first == same != other


@pytest.mark.parametrize(
    ("function", "takes", "reason", "place"),
    [
        ("number", "fields", "returned 3, not a list", "def number"),
        ("mixed", "fields", "expected str instance, int found", "def mixed"),
        ("tabbed", "fields", "a tab or a line break inside", "def tabbed"),
        ("feed", "fields", "a tab or a line break inside", "def feed"),
        ("surrogate", "fields", "surrogates not allowed", "def surrogate"),
        ("numbers", "stream", "returned 3, not a list", "def numbers"),
        ("wrapped", "fields", "returned 3, not a list", "@loud"),
        ("fails", "fields", "ValueError: no b, please", "        raise ValueError("),
    ],
)
def test_a_fault_names_the_reason_and_the_line_of_the_file(
    user, tmp_path, function, takes, reason, place
):
    """A LineFault of `user` names the error and the line of the file that raised it, or the
    function's first line for a wrong result."""
    lines = CODE.split("\n")
    number = 1 + next(i for i, line in enumerate(lines) if line.startswith(place))
    fault = describe_error(user(function, takes=takes), ["b"])
    summary = fault.reasons[0].partition("\n")[0]
    assert reason in summary
    assert summary.endswith(f"({tmp_path / 'mine.py'}:{number})")


def test_a_fault_contains_the_other_lines(user):
    """A LineFault of `user` contains the fit lines, also after pickling, and a traceback only for
    the first unfit line."""
    fault = describe_error(user("fails"), ["a", "b", "c", "b\tx"])
    assert sorted(fault.reasons) == [1, 3]
    assert "Traceback" in fault.reasons[1]
    assert "Traceback" not in fault.reasons[3]
    copy = pickle.loads(pickle.dumps(fault))
    assert copy.reasons == fault.reasons
    assert (copy.result.lines, copy.result.origins.tolist()) == (["a", "c"], [0, 2])


def test_a_stream_continues_after_a_fault(user):
    """A generator of `user` that raises is restarted after the line; that line is unfit, and what
    was yielded for it is dropped."""
    from volt.stream.transforms.transform import Opened

    counting = user("counting", takes="stream").opened(LoadedFiles())
    assert isinstance(counting, Opened)
    lines = [f"bad {i}" if i % 10 == 3 else f"line {i}" for i in range(200)]
    with pytest.raises(LineFault) as fault:
        counting(Batch.of(lines), LineRng(1, 2))
    fit = [i for i in range(200) if i % 10 != 3]
    assert sorted(fault.value.reasons) == list(range(3, 200, 10))
    assert fault.value.result is not None
    assert fault.value.result.lines == [lines[i] for i in fit]
    assert fault.value.result.origins.tolist() == fit
    assert counting.call.args[0].func.__globals__["SEEN"] == lines


def test_a_generator_may_raise_before_and_after_its_lines(user):
    """A generator of `user` that raises after its last line makes that line unfit; one that raises
    before it reads makes all lines unfit."""
    fault = describe_error(user("late", takes="stream"), ["a", "b", "c"])
    assert list(fault.reasons) == [2]
    assert fault.result is not None
    assert fault.result.lines == ["a", "b"]
    assert list(describe_error(user("early", takes="stream"), ["a", "b", "c"]).reasons) == [0, 1, 2]
    assert run(user("early", takes="stream"), []) == ([], [])


def test_signatures_depend_on_the_code_and_the_options(user, tmp_path):
    """The signature of `user` differs for another function, option or content of the file."""
    signature = user("swap").signature()
    assert signature != user("both").signature()
    assert user("add").signature() != user("add", options={"mark": "?"}).signature()
    (tmp_path / "mine.py").write_text(CODE + "\n# changed\n")
    assert signature != user("swap").signature()


@pytest.mark.parametrize("takes", ["fields", "stream"])
def test_only_streams_receive_whole_blocks(user, takes):
    """`user` joins lines only with takes: stream, and is never compiled, whether or not its file is
    loaded."""
    step = user("swap", takes=takes)
    for transform in (step, step.opened(LoadedFiles())):
        assert joins_lines(transform) == (takes == "stream")
        assert not is_compiled(transform)
        assert not keeps_lines(transform)
