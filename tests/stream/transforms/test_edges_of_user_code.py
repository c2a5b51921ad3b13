"""Functions of users at the edge: asynchronous ones, and results that cannot be; where the fault lies is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from streams import deadline

from volt.errors import ConfigError, StreamError
from volt.stream import Stream
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import LineFault, LoadedFiles
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


@pytest.mark.parametrize(
    ("function", "line"), [("later", 4), ("more", 8), ("a_partial", 4), ("an_object", 0)]
)
def test_asynchronous_functions_are_refused_when_a_stream_is_made(
    tmp_path: Path, function: str, line: int
) -> None:
    """One clear error, with the place, before any line is read; nothing is left that was never awaited."""
    with pytest.raises(
        ConfigError, match=rf"function '{function}' is asynchronous, .*; write def, not async"
    ) as error:
        user(tmp_path, function).opened(LoadedFiles())
    assert f"mine.py:{line}: " in str(error.value) if line else "mine.py: " in str(error.value)


@pytest.mark.parametrize(
    ("function", "takes", "error_text", "line"),
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
    tmp_path: Path, function: str, takes: Takes, error_text: str, line: str
) -> None:
    """A fault names the line that raised it; where that is none of the function's, the function's first."""
    step, number = user(tmp_path, function, takes), CODE.split("\n").index(next_line(line)) + 1
    with pytest.raises(LineFault) as fault:
        step(Batch.of(["a"]), LineRng(1, 2))
    assert error_text in fault.value.reasons[0]
    assert fault.value.reasons[0].partition("\n")[0].endswith(f"({tmp_path / 'mine.py'}:{number})")


def next_line(start: str) -> str:
    """The line of the code that starts so."""
    return next(line for line in CODE.split("\n") if line.startswith(start))


def test_a_function_from_elsewhere_has_no_line(tmp_path: Path) -> None:
    """What is no function of the file is at no line of it."""
    assert first_line(len, tmp_path) == first_line(user, tmp_path) == 0
    assert first_line(user, Path(__file__)) > 0


NESTED = """\
import os, sys, time


def helper(words):
    return words["missing"]


def nested(fields):
    return helper({})


def chained(fields):
    try:
        return helper({})
    except KeyError as error:
        raise ValueError("of two\\nlines") from error


def ends(fields):
    sys.exit(0)


def late(fields):
    time.sleep(60)


def from_c(fields):
    os.kill(os.getpid(), 9)


def forks(fields):
    child = os.fork()
    if not child:
        os._exit(7)
    return [str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))]


def writes(fields):
    print("P")
    sys.__stdout__.write("U")
    os.write(1, b"W")
    os.system("echo E")
    return fields
"""


def stream_of(folder: Path, function: str, options: str = "", takes: Takes = "fields") -> Path:
    """A configuration with a function of the code above."""
    (folder / "mine.py").write_text(NESTED)
    (folder / "a.tsv").write_text("a\nb\n")
    step = f"user: {{file: mine.py, function: {function}, takes: {takes}}}"
    config = folder / "stream.yaml"
    config.write_text(
        f"{options}\nsources: {{s: {{path: a.tsv, epochs: 1, transforms: [{step}]}}}}\n"
    )
    return config


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("function", ["nested", "chained"])
def test_an_error_shows_the_frames_of_the_user_alone(
    tmp_path: Path, function: str, workers: int
) -> None:
    """The whole way through the user's file, and what caused the error, is shown; frames of volt are not."""
    config = stream_of(tmp_path, function)
    with Stream.from_config(config, n_workers=workers, start_method="fork") as stream:
        with pytest.raises(StreamError) as error:
            next(iter(stream))
        error_text = str(error.value)
    assert "configuration\nTraceback (most recent call last):\n" in error_text
    assert (
        f", line {NESTED[: NESTED.index('return words')].count(chr(10)) + 1}, in helper\n"
        in error_text
    )
    assert f", in {function}\n" in error_text
    assert "user_code.py" not in error_text
    assert error_text.endswith(
        {"nested": "KeyError: 'missing'", "chained": "ValueError: of two\nlines"}[function]
    )


def test_one_fault_of_many_has_its_traceback(tmp_path: Path) -> None:
    """Lines that are skipped or written to a file have the one-line reason alone."""
    config = stream_of(tmp_path, "nested", "errors: {on_fault: quarantine, quarantine: bad.jsonl}")
    with Stream.from_config(config) as stream:
        assert list(stream) == []
    rows = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert rows
    assert all("KeyError: 'missing'" in row and "Traceback" not in row for row in rows)


@pytest.mark.parametrize("call", ["sys.exit(3)", "[][0]"])
def test_a_file_that_ends_the_process_is_refused(tmp_path: Path, call: str) -> None:
    """What the file does when it is run is an error of the configuration, with its frames; nothing ends silently."""
    config = stream_of(tmp_path, "nested")
    (tmp_path / "mine.py").write_text(f"import os, sys\n\ndef outer():\n    {call}\n\nouter()\n")
    with pytest.raises(ConfigError, match=r"mine\.py:4: (SystemExit|IndexError)") as error:
        Stream.from_config(config)
    assert "line 6, in <module>" in str(error.value)


@pytest.mark.parametrize("options", [{}, {"time_limit": 30.0}, {"n_workers": 1}])
def test_a_function_that_ends_the_process_is_a_fault(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """sys.exit in a function is reported with the line of the source and of the function."""
    error_text = r"a\.tsv:\d: user: ends: SystemExit: 0 \(.*mine\.py:20\)"
    stream = Stream.from_config(stream_of(tmp_path, "ends"), start_method="fork", **options)
    with deadline(30), stream, pytest.raises(StreamError, match=error_text):
        next(iter(stream))
    with Stream.from_config(stream_of(tmp_path, "forks"), start_method="fork", **options) as stream:
        assert list(stream) == ["7", "7"]  # what a function forks ends as it says


def test_a_time_limit_holds_without_workers(tmp_path: Path) -> None:
    """Python code that takes longer, or kills its process, ends the run; the source, the step and the end are named."""
    error_text = {
        "late": "transform 'user' has taken more than 0.5 seconds",
        "from_c": "transform 'user': worker process",
    }
    for function, message in error_text.items():
        config = stream_of(tmp_path, function, "time_limit: 0.5")
        with deadline(30), Stream.from_config(config, start_method="fork") as stream:
            with pytest.raises(
                StreamError, match=rf"source 's', epoch 0, lines from 0 on, chunk 0: {message}"
            ):
                next(iter(stream))
            assert stream.n_workers == 0


@pytest.mark.parametrize(
    "command",
    [
        "preview -n 1 --json --trust",
        "trace 0 --json --trust",
        "debug --json --trust",
        "run",
        "run --workers 1",
    ],
)
def test_what_a_function_writes_to_descriptor_1_is_no_data(
    volt_stream: Run, stream_folder: Path, command: str
) -> None:
    """What it prints, writes to the descriptor or has a program print goes to stderr in every command."""
    stream_of(stream_folder, "writes")
    name, *options = command.split()
    done = volt_stream(name, "stream.yaml", *options)
    lines = done.stdout.decode().splitlines()
    assert lines
    assert all(line in ("a", "b") if name == "run" else json.loads(line) for line in lines)
    assert all(done.stderr.count(letter) >= 1 for letter in (b"P", b"U", b"W", b"E"))
