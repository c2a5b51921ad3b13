"""Users' files: which functions are refused before a line is read, and what a stream reports about their errors."""

import json
import os
import sys
import threading
from pathlib import Path

import pytest
from support.streams import deadline

from volt.errors import ConfigError, StreamError
from volt.stream import Stream
from volt.stream.transforms.user_file import UserFile, find_first_line, stdout_to_stderr

CODE = """\
from functools import partial


async def later(fields):
    return fields


async def more(fields):
    yield fields


class Later:
    async def __call__(self, fields):
        return fields


an_object, a_partial = Later(), partial(later)


def swap(fields): return fields[::-1]
def coin(fields, rng): return fields
def nothing(): return None
def only_rng(rng): return None
def needs(fields, mark, *, end): return fields
def anything(fields, **options): return fields
def places(fields, mark="!", /): return fields
"""


def user_file(folder, code=CODE):
    path = folder / "mine.py"
    path.write_text(code)
    return UserFile.run(path)


BINDING = "'{}' cannot be called with these options: {}"
REFUSED = [
    (
        "swap",
        {"zzz": 1},
        BINDING.format("swap", "got an unexpected keyword argument 'zzz'; change"),
    ),
    ("swap", {"fields": 1}, BINDING.format("swap", "multiple values for argument 'fields'")),
    ("needs", {"mark": 1}, BINDING.format("needs", "missing a required argument: 'end'")),
    ("coin", {"rng": 1}, BINDING.format("coin", ".*multiple values for keyword argument 'rng'")),
    ("places", {"mark": "?"}, BINDING.format("places", ".*'mark'")),
    ("nothing", {}, "'nothing' has no first parameter for the value to change; add one"),
    ("only_rng", {}, "'only_rng' has no first parameter"),
]


@pytest.mark.parametrize(("function", "options", "reason"), REFUSED)
def test_options_must_fit_the_function(tmp_path, function, options, reason):
    """UserFile.function refuses unknown and missing options, with the names of the file and the
    function."""
    with pytest.raises(ConfigError, match=f"mine.py: function {reason}"):
        user_file(tmp_path).function(function, options)


def test_options_may_be_keywords(tmp_path):
    """UserFile.function accepts any option for `**options`, and parameters with defaults that are
    not set."""
    file = user_file(tmp_path)
    for name, options in {
        "needs": {"mark": 1, "end": 2},
        "anything": {"x": 1},
        "places": {},
    }.items():
        assert file.function(name, options) is vars(file.module)[name]


@pytest.mark.parametrize(
    ("function", "line"), [("later", 4), ("more", 8), ("a_partial", 4), ("an_object", 0)]
)
def test_asynchronous_functions_are_refused(tmp_path, function, line):
    """UserFile.function refuses an asynchronous function with its place, and leaves no coroutine
    that was never awaited."""
    place = f"mine.py:{line}: " if line else "mine.py: "
    message = f"{place}function '{function}' is asynchronous, .*; write def, not async"
    with pytest.raises(ConfigError, match=message):
        user_file(tmp_path).function(function, {})


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:\n", r"mine.py:1: invalid syntax"),
        ("x = 1\ny = x / 0\n", r"mine.py:2: ZeroDivisionError"),
        ("import nothing_of_this_name\n", r"mine.py:1: ModuleNotFoundError"),
        ("def aling(fields): pass\n", r"no function 'align'; did you mean aling\?"),
        ("align = 3\n", r"no function 'align'; it has none"),
    ],
)
def test_unusable_files_are_refused(tmp_path, code, message):
    """UserFile refuses a file that cannot be run, or that lacks the function, with file and line."""
    with pytest.raises(ConfigError, match=message):
        user_file(tmp_path, code).function("align", {})
    with pytest.raises(ConfigError, match="cannot be read"):
        UserFile.run(tmp_path / "none.py")


def test_running_a_file_leaves_no_traces(tmp_path):
    """UserFile.run changes neither the search path nor the loaded modules, and writes no byte code."""
    path = list(sys.path)
    modules = set(sys.modules)
    user_file(tmp_path)
    assert (sys.path, set(sys.modules)) == (path, modules)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.py"]


def test_functions_of_other_files_have_no_line(tmp_path):
    """find_first_line returns 0 for a function that is not defined in the file."""
    assert find_first_line(len, tmp_path) == find_first_line(user_file, tmp_path) == 0
    assert find_first_line(user_file, Path(__file__)) > 0


def test_stdout_is_restored_after_the_last_thread(capfd):
    """After protect_stdout, stdout leads to stderr while at least one thread runs user code, and
    then to stdout again."""
    redirection = type(stdout_to_stderr)()  # the shared one may be in use by threads of other tests
    with redirection:
        os.write(1, b"program ")
    redirection.is_active = True
    is_inside = threading.Event()
    may_end = threading.Event()

    def second():
        with redirection:
            is_inside.set()
            may_end.wait(10)

    thread = threading.Thread(target=second)
    with redirection:
        thread.start()
        is_inside.wait(10)
    os.write(1, b"user ")
    may_end.set()
    thread.join()
    os.write(1, b"data")
    assert capfd.readouterr() == ("program data", "user ")


FAILING = """\
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


def stream_of(folder, function, options=""):
    """Write a configuration with a function of the code above."""
    (folder / "mine.py").write_text(FAILING)
    (folder / "a.tsv").write_text("a\nb\n")
    step = f"user: {{file: mine.py, function: {function}}}"
    config = folder / "stream.yaml"
    config.write_text(
        f"{options}\nsources: {{s: {{path: a.tsv, epochs: 1, transforms: [{step}]}}}}\n"
    )
    return config


@pytest.mark.parametrize("n_workers", [0, 1])
@pytest.mark.parametrize(
    ("function", "end"),
    [("nested", "KeyError: 'missing'"), ("chained", "ValueError: of two\nlines")],
)
def test_tracebacks_have_only_frames_of_the_user(tmp_path, function, end, n_workers):
    """format_traceback shows all frames of the user's file, and the error's cause, but no frame of
    VOLT."""
    config = stream_of(tmp_path, function)
    with Stream.from_config(config, n_workers=n_workers, start_method="fork") as stream:
        with pytest.raises(StreamError) as error:
            next(iter(stream))
        message = str(error.value)
    line = FAILING[: FAILING.index("return words")].count("\n") + 1
    for part in ("configuration\nTraceback (most recent call last):\n", f", in {function}\n"):
        assert part in message
    assert f", line {line}, in helper\n" in message
    assert "user_code.py" not in message
    assert message.endswith(end)


def test_quarantined_lines_have_short_reasons(tmp_path):
    """The quarantine file contains one line for each unfit line, without tracebacks."""
    config = stream_of(tmp_path, "nested", "errors: {on_fault: quarantine, quarantine: bad.jsonl}")
    with Stream.from_config(config) as stream:
        assert list(stream) == []
    rows = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert len(rows) == 2
    assert all("KeyError: 'missing'" in row and "Traceback" not in row for row in rows)


@pytest.mark.parametrize("call", ["sys.exit(3)", "[][0]"])
def test_errors_of_a_file_are_errors_of_the_configuration(tmp_path, call):
    """An error raised when the user's file is run is a ConfigError with the file's frames, also if
    the file ends the process."""
    config = stream_of(tmp_path, "nested")
    (tmp_path / "mine.py").write_text(f"import os, sys\n\ndef outer():\n    {call}\n\nouter()\n")
    with pytest.raises(ConfigError, match=r"mine\.py:4: (SystemExit|IndexError)") as error:
        Stream.from_config(config)
    assert "line 6, in <module>" in str(error.value)


@pytest.mark.parametrize("options", [{}, {"time_limit": 30.0}, {"n_workers": 1}])
def test_a_function_that_exits_is_a_fault(tmp_path, options):
    """sys.exit in a user's function is an error with the lines of the source and of the file; a
    forked process may exit."""
    message = r"a\.tsv:\d: user: ends: SystemExit: 0 \(.*mine\.py:20\)"
    stream = Stream.from_config(stream_of(tmp_path, "ends"), start_method="fork", **options)
    with deadline(30), stream, pytest.raises(StreamError, match=message):
        next(iter(stream))
    with Stream.from_config(stream_of(tmp_path, "forks"), start_method="fork", **options) as stream:
        assert list(stream) == ["7", "7"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [("late", "has taken more than 0.5 seconds"), ("from_c", ": worker process")],
)
def test_a_time_limit_needs_no_workers(tmp_path, function, reason):
    """With time_limit and no workers, a user's function that is too slow, or kills its process,
    ends the run with an error that names the step."""
    config = stream_of(tmp_path, function, "time_limit: 0.5")
    message = f"source 's', epoch 0, lines from 0 on, chunk 0: transform 'user'.*{reason}"
    with deadline(30), Stream.from_config(config, start_method="fork") as stream:
        with pytest.raises(StreamError, match=message):
            next(iter(stream))
        assert stream.workers.n == 0


COMMANDS = """\
preview -n 1 --json --trust
trace 0 --json --trust
debug --json --trust
run
run --workers 1"""


@pytest.mark.parametrize("command", COMMANDS.splitlines())
def test_commands_send_prints_to_stderr(volt_stream, stream_folder, command):
    """Commands send text that a user's function or its subprocess prints, or writes to descriptor
    1, to stderr."""
    stream_of(stream_folder, "writes")
    name, *options = command.split()
    process = volt_stream(name, "stream.yaml", *options)
    lines = process.stdout.decode().splitlines()
    assert lines
    for line in lines:
        assert line in ("a", "b") if name == "run" else json.loads(line)
    assert all(letter in process.stderr for letter in (b"P", b"U", b"W", b"E"))
