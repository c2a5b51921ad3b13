"""The user's own functions: what they may take and return, and what is reported when they fail."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from volt.errors import ConfigError
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import (
    LineFault,
    LoadedFiles,
    is_compiled,
    joins_lines,
    keeps_lines,
)
from volt.stream.transforms.user_code import Takes, User
from volt.stream.transforms.user_file import printing_to_stderr

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

def feed(line): return "a\\nb"
def number(fields): return 3
def empty(fields): return []
def surrogate(line): return "\\ud800"
def broken(stream):
    for line in stream:
        if line[0] == "b":
            raise KeyError(line[0])
        yield line

def late(stream):
    for line in stream:
        yield line
    raise RuntimeError("at the end")

def early(stream):
    raise RuntimeError("before a line")

def counting(stream):
    for line in stream:
        SEEN.append(line[0])
        if line[0].startswith("bad"):
            yield ["half a line"]
            raise ValueError(line[0])
        yield line

def speak(line):
    print("a word", line)
    return line

def choose(table, *, least=0):
    return table.filter([len(value.as_py()) > least for value in table["1"]])

def swapped(table):
    return table.select(["2", "1"])

def shorter(table):
    return table.slice(1).drop_columns(["row"])

def no_table(table):
    return [1]

def strange(table):
    return table.set_column(table.num_columns - 1, "row", [99] * len(table))

def tabs(table):
    return table.set_column(0, "1", ["a" if value.as_py() == "a" else "a\\tb" for value in table["1"]])

def drawn(table, rng):
    return table.set_column(0, "1", [str(number) for number in rng.integers(1000, size=len(table))])

def nothing(): return None
def needs(line, mark, *, end): return line + mark + end
def anything(line, **options): return line + str(sorted(options))
def places(line, mark="!", /): return line + mark
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
    done = transform(Batch.of(lines), LineRng.of(seed))
    return done.lines, done.origins.tolist()


def test_fields_line_and_stream(user: Make) -> None:
    """A function may take and return fields, a line or a stream, drop a line with None, or make several."""
    assert run(user("swap"), ["a\tb", "c"]) == (["b\ta", "c"], [0, 1])
    assert run(user("shout", takes="line", options={"mark": "?"}), ["a\tb"]) == (["A\tB?"], [0])
    assert run(user("short"), ["abc", "a"]) == (["a"], [1])
    assert run(user("both"), ["a", "b"]) == (["a", "a\tagain", "b", "b\tagain"], [0, 0, 1, 1])
    assert run(user("pair", takes="line"), ["a"]) == (["a", "a"], [0, 0])
    assert run(user("twice", takes="stream"), ["a", "b", "c"]) == (
        ["a", "b", "b\tcopy", "c"],
        [0, 1, 1, 2],
    )
    assert run(user("empty"), ["a"]) == ([], [])
    assert run(user("length", append=True), ["abc\tx"]) == (["abc\tx\t3"], [0])


def test_chance_is_the_lines(user: Make) -> None:
    """A parameter `rng` is the generator of the line: neighbours change nothing, copies and epochs draw anew."""
    coin, batch = user("coin", takes="line"), Batch.of(["x"] * 20)
    whole = coin(batch, LineRng.of(1)).lines
    assert len(set(whole)) > 10
    assert coin(batch.take([7, 3]), LineRng.of(1)).lines == [whole[7], whole[3]]
    assert coin(batch, LineRng.of(2)).lines != whole
    assert len(set(coin(batch.take([5] * 20), LineRng.of(1)).lines)) > 10
    drawn = user("drawn", takes="batch")
    assert (
        run(drawn, ["a", "b"], seed=1)
        == run(drawn, ["a", "b"], seed=1)
        != run(drawn, ["a", "b"], seed=2)
    )


def test_a_batch_is_a_record_batch(user: Make) -> None:
    """Columns are fields, in the order in which they come back; `row` says which line each row comes from."""
    pytest.importorskip("pyarrow")
    chosen = user("choose", takes="batch", options={"least": 1})
    assert run(chosen, ["ab\tx", "c\ty", "de"]) == (["ab\tx", "de"], [0, 2])
    assert run(user("swapped", takes="batch"), ["a\tb", "c\td"]) == (["b\ta", "d\tc"], [0, 1])
    done = chosen(Batch.of(["ab", "c", "de", "fg"]).take([3, 1, 0]), LineRng(1, 2))
    assert done.origins.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("function", "error", "reason"),
    [
        ("shorter", ValueError, "returned 1 rows for 2 lines, without the column 'row'"),
        ("no_table", TypeError, "returned list, not a pyarrow RecordBatch"),
        ("strange", ValueError, "'row' that are not in its input"),
        ("tabs", LineFault, "made a tab"),
    ],
)
def test_what_a_function_of_batches_returns_is_checked(
    user: Make, function: str, error: type[Exception], reason: str
) -> None:
    """A result that is no table, or whose rows come from nowhere, is an error."""
    pytest.importorskip("pyarrow")
    with pytest.raises(error, match=reason):
        run(user(function, takes="batch"), ["a", "b"])


def test_faults_of_a_batch_are_those_of_its_lines(user: Make, tmp_path: Path) -> None:
    """A value that breaks a line is the fault of the line that it comes from; an error with one line is that line's."""
    pytest.importorskip("pyarrow")
    with pytest.raises(LineFault) as fault:
        user("tabs", takes="batch")(Batch.of(["a", "b", "a", "c"]).take([3, 2, 1]), LineRng(1, 2))
    assert sorted(fault.value.reasons) == [0, 2]
    with pytest.raises(LineFault, match=rf"swapped: KeyError: .*{tmp_path / 'mine.py'}:\d+\)"):
        run(user("swapped", takes="batch"), ["a"])
    with pytest.raises(KeyError):
        run(user("swapped", takes="batch"), ["a", "b"])


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        ("feed", {"takes": "line"}, "returned a line break"),
        ("number", {"append": True}, "not a string"),
        ("surrogate", {"takes": "line"}, "surrogates not allowed"),
    ],
)
def test_what_a_function_returns_is_checked(
    user: Make, function: str, options: dict[str, str], reason: str
) -> None:
    """What would break lines or cannot be written makes the line unfit, with the reason."""
    with pytest.raises(LineFault, match=reason):
        run(user(function, **options), ["x"])


def test_an_error_names_the_lines_and_the_place_in_the_file(user: Make, tmp_path: Path) -> None:
    """Each line for which the function raises is reported, with the error and the line of the user's file."""
    with pytest.raises(LineFault) as fault:
        run(user("fails"), ["a", "b", "c", "b\tx"])
    assert sorted(fault.value.reasons) == [1, 3]
    line = CODE.split("\n").index('        raise ValueError("no b, please")') + 1
    error_text = f"fails: ValueError: no b, please ({tmp_path / 'mine.py'}:{line})"
    assert fault.value.reasons[1].partition("\n")[0] == fault.value.reasons[3] == error_text
    with pytest.raises(LineFault) as fault:
        run(user("broken", takes="stream"), ["a", "b", "c"])
    assert list(fault.value.reasons) == [1]


def test_a_stream_goes_on_behind_a_fault(user: Make) -> None:
    """The line that a generator raises at is unfit, with what it made of it; every line is handed over once."""
    from volt.stream.transforms.transform import Opened

    counting = user("counting", takes="stream").opened(LoadedFiles())
    assert isinstance(counting, Opened)
    lines = [f"bad {i}" if i % 10 == 3 else f"line {i}" for i in range(200)]
    with pytest.raises(LineFault) as fault:
        counting(Batch.of(lines), LineRng(1, 2))
    good = [i for i in range(200) if i % 10 != 3]
    assert sorted(fault.value.reasons) == list(range(3, 200, 10))
    assert fault.value.result is not None
    assert fault.value.result.lines == [lines[i] for i in good]
    assert fault.value.result.origins.tolist() == good
    assert counting.call.args[0].func.__globals__["SEEN"] == lines  # type: ignore[attr-defined]


def test_a_generator_that_raises_outside_of_lines(user: Make) -> None:
    """One that raises at its end loses the last line; one that raises before it takes a line loses all, and ends."""
    with pytest.raises(LineFault, match="at the end") as fault:
        run(user("late", takes="stream"), ["a", "b", "c"])
    assert (list(fault.value.reasons), fault.value.result and fault.value.result.lines) == (
        [2],
        ["a", "b"],
    )
    with pytest.raises(LineFault, match="before a line") as fault:
        run(user("early", takes="stream"), ["a", "b", "c"])
    assert list(fault.value.reasons) == [0, 1, 2]
    assert run(user("early", takes="stream"), []) == ([], [])


def test_a_fault_brings_what_became_of_the_others(user: Make) -> None:
    """Functions of one line are not called again for the lines that they could take; the fault survives pickling."""
    with pytest.raises(LineFault) as found:
        run(user("fails"), ["a", "b", "c"])
    fault = pickle.loads(pickle.dumps(found.value))
    assert (fault.result.lines, fault.result.origins.tolist(), fault.reasons) == (
        ["a", "c"],
        [0, 2],
        found.value.reasons,
    )


def test_what_is_printed_goes_to_stderr(user: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """In the thread that runs the user's code, and only while it does."""
    stdout = sys.stdout
    assert run(user("speak", takes="line"), ["x"]) == (["x"], [0])
    assert capsys.readouterr() == ("", "a word x\n")
    assert sys.stdout is stdout
    with printing_to_stderr():
        other = threading.Thread(target=print, args=["data"])
        other.start()
        other.join()
        sys.stdout.write("shown\n")
    assert capsys.readouterr() == ("data\n", "shown\n")


def test_printing_is_put_right_whichever_thread_ends_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of threads whose turns overlap, none leaves stdout led to stderr."""
    stdout, inside, done = sys.stdout, threading.Event(), threading.Event()

    def second() -> None:
        with printing_to_stderr():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=second)
    with printing_to_stderr():
        thread.start()
        inside.wait(10)
    sys.stdout.write("between\n")
    done.set()
    thread.join()
    assert sys.stdout is stdout
    assert capsys.readouterr() == ("between\n", "")


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (
            "shout",
            {"marc": "!"},
            "'shout' cannot be called with these options: got an unexpected keyword argument 'marc'; change them",
        ),
        (
            "swap",
            {"zzz": 1},
            "'swap' cannot be called with these options: got an unexpected keyword argument 'zzz'",
        ),
        (
            "needs",
            {"mark": 1},
            "'needs' cannot be called with these options: missing a required argument: 'end'",
        ),
        (
            "swap",
            {"fields": 1},
            "'swap' cannot be called with these options: multiple values for argument 'fields'",
        ),
        (
            "coin",
            {"rng": 1},
            "'coin' cannot be called with these options: .*multiple values for keyword argument 'rng'",
        ),
        ("nothing", {}, "'nothing' has no first parameter for the value to change"),
        ("places", {"mark": "?"}, "'places' cannot be called with these options: .*'mark'"),
    ],
)
def test_options_are_checked_before_a_line_is_read(
    user: Make, function: str, options: dict[str, object], reason: str
) -> None:
    """An option that the function does not know, or one that it needs, is named with file and function."""
    with pytest.raises(ConfigError, match=rf"mine.py: function {reason}"):
        user(function, options=options).opened(LoadedFiles())


def test_options_go_to_the_parameters(user: Make) -> None:
    """By name, also where the function takes any."""
    assert run(user("needs", takes="line", options={"mark": "m", "end": "e"}), ["a"]) == (
        ["ame"],
        [0],
    )
    assert run(user("anything", takes="line", options={"x": 1}), ["a"]) == (["a['x']"], [0])
    assert run(user("places", takes="line"), ["a"]) == (["a!"], [0])


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
    assert user("shout").signature() != user("shout", options={"mark": "?"}).signature()
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


def test_what_a_stream_may_rely_on(user: Make) -> None:
    """Python code is not compiled, and only streams are given whole blocks, opened or not."""
    for takes in get_args(Takes):
        for transform in (
            user("swap", takes=takes),
            user("swap", takes=takes).opened(LoadedFiles()),
        ):
            assert (is_compiled(transform), joins_lines(transform), keeps_lines(transform)) == (
                False,
                takes == "stream",
                False,
            )
