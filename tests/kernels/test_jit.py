"""Compiled code is stored on disk, loaded again, never older than its source, and never planted by another user.

Most laws are checked in other processes, on a copy of the package with a small loop, part of which is in another file.
They print whether the loop was on disk, its result, and whether numba was imported to compile it.
"""

import ast
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import volt
from volt.kernels import jit
from volt.kernels.arrays import ByteArray, IntArray, LongTable, TextArray

compiles = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
DEADLINE = 120  # seconds
PART = """
from volt.kernels.jit import inlined

@inlined
def more(number: int) -> int:
    return number + 1
"""
LOOP = """
from volt.kernels.jit import releasing
from volt.kernels.part import more

@releasing
def doubled(number: int) -> int:
    return 2 * more(number)
"""
LOAD = """
import sys
from volt.kernels import loop, warmup

warmup.JOBS["words"] = ("loop.doubled",)
"""
CALL = """
print(not warmup.missing("words"), loop.doubled(5), "numba" in sys.modules)
"""
COMPILED, LOADED = "False 12 True\n", "True 12 False\n"


@pytest.fixture
def kernels(tmp_path):
    """The folder of loops in a copy of the package."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(volt.__file__).parent, tmp_path / "volt", ignore=ignore)
    (tmp_path / "home").mkdir()
    folder = tmp_path / "volt" / "kernels"
    (folder / "part.py").write_text(PART)
    (folder / "loop.py").write_text(LOOP)
    return folder


def start(kernels, script, settings):
    """Start a process that imports the copy of the package, with only these settings for where code is stored."""
    root = kernels.parent.parent
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "XDG_CACHE_HOME" and not name.startswith("NUMBA_")
    }
    own = {"HOME": str(root / "home"), "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment | own | settings,
        cwd=root,
        text=True,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
    )


def output(process):
    printed, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors[-2000:]
    return printed


def run(kernels, **settings):
    return output(start(kernels, LOAD + CALL, settings))


def change(kernels, number):
    """Edit the part that is in another file than the loop."""
    (kernels / "part.py").write_text(PART.replace("+ 1", f"+ {number}"))


def folders_with_code(folder):
    return {path.parent for path in folder.rglob("loop.doubled-*.code")}


@compiles
def test_a_loop_is_compiled_again_when_a_part_in_another_file_changes(kernels):
    """Stored code of a loop is loaded only while all source files are unchanged, also those of
    parts in other files."""
    assert [run(kernels), run(kernels)] == [COMPILED, LOADED]
    change(kernels, 2)
    assert run(kernels) == "False 14 True\n"
    change(kernels, 1)
    assert run(kernels) == LOADED
    assert folders_with_code(kernels.parent.parent) == folders_with_code(kernels / "__pycache__")


@compiles
def test_code_is_stored_per_user_if_the_package_is_not_writable(kernels):
    """If the package's folder is not writable, a second process loads what the first compiled from
    the user's cache folder."""
    (kernels / "__pycache__").write_text("a file in the place of the folder")
    assert [run(kernels), run(kernels)] == [COMPILED, LOADED]
    assert len(folders_with_code(kernels.parent.parent / "home")) == 1


@compiles
def test_a_process_that_was_forked_while_a_loop_was_loaded_can_load_loops(kernels):
    """If another thread is loading a loop when a process is forked, the forked process does not wait
    for that thread, which it lacks."""
    script = """
import os, threading
from volt.kernels import jit, loop
is_held = threading.Event()
def hold():
    with jit._loading:
        is_held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
is_held.wait()
process = os.fork()
if not process:
    os._exit(loop.doubled(5))
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
os._exit(0)
"""
    assert [run(kernels), output(start(kernels, script, {}))] == [COMPILED, "12\n"]


@compiles
@pytest.mark.campaign
def test_code_is_stored_in_the_folder_that_the_user_sets(kernels, tmp_path):
    """NUMBA_CACHE_DIR takes precedence over the package's own folder; a changed part is compiled
    again there, too."""
    own = str(tmp_path / "own")
    assert [run(kernels, NUMBA_CACHE_DIR=own) for _ in range(2)] == [COMPILED, LOADED]
    change(kernels, 2)
    assert run(kernels, NUMBA_CACHE_DIR=own) == "False 14 True\n"
    assert folders_with_code(tmp_path) == folders_with_code(tmp_path / "own")
    assert len(folders_with_code(tmp_path)) == 2


def give_away(folder):
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)


@compiles
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(lambda folder: folder.chmod(0o777), id="writable"),
        pytest.param(give_away, id="foreign", marks=as_root),
    ],
)
def test_planted_code_is_never_run(kernels, tmp_path, share):
    """Code in a folder that other users can change is not loaded; the loop is compiled, with one warning."""
    named = tmp_path / "named"
    named.mkdir()
    settings = {"NUMBA_CACHE_DIR": str(named)}
    assert run(kernels, **settings) == COMPILED
    assert run(kernels, **settings) == LOADED
    share(named)
    printed, errors = start(kernels, LOAD + CALL, settings).communicate(timeout=DEADLINE)
    assert (printed, errors.count("set NUMBA_CACHE_DIR")) == (COMPILED, 1)


@compiles
@pytest.mark.campaign
def test_loops_run_from_a_zip_file(kernels, tmp_path):
    """From a zip file, whose sources cannot be compared, every process compiles loops instead of
    loading them from disk."""
    root = tmp_path / "zipped"
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", tmp_path, "volt")
    (root / "home").mkdir(parents=True)
    assert [run(root / "volt" / "kernels", PYTHONPATH=archive) for _ in range(2)] == [COMPILED] * 2


def test_loops_run_as_plain_python(kernels, tmp_path):
    """With NUMBA_DISABLE_JIT, loops run as plain Python, and nothing is compiled or stored."""
    script = LOAD + 'print(not warmup.missing("words"), loop.doubled(5))'
    assert output(start(kernels, script, {"NUMBA_DISABLE_JIT": "1"})) == "True 12\n"
    assert not list(tmp_path.rglob("loops-*"))


@compiles
@pytest.mark.campaign
def test_processes_that_compile_at_the_same_time_share_the_result(kernels):
    """Three processes that compile a loop at the same time compute the right result, and a later
    process loads the code."""
    for process in [start(kernels, LOAD + CALL, {}) for _ in range(3)]:
        assert output(process).split()[1] == "12"
    assert run(kernels) == LOADED


@compiles
@pytest.mark.campaign
def test_a_process_outlives_the_folder_of_its_code(kernels):
    """If a process with newer sources removes the folder of a running process, the running process
    compiles its loop again."""
    assert run(kernels) == COMPILED
    (own,) = folders_with_code(kernels)
    older = start(kernels, LOAD + "print('ready', flush=True); input()" + CALL, {})
    assert older.stdout
    assert older.stdout.readline() == "ready\n"
    os.utime(own, (time.time() - 2 * jit.UNUSED,) * 2)
    change(kernels, 2)
    assert run(kernels) == "False 14 True\n"
    assert not own.exists()
    assert older.communicate("\n", timeout=DEADLINE) == (COMPILED, "")
    change(kernels, 1)
    assert run(kernels) == LOADED


def test_loops_are_compiled_only_from_files_of_the_package():
    """Only compiling.py imports numba, and files of volt/kernels/ import only each other;
    other code would not be compiled again when it changes."""
    allowed = ("kernels", "errors", "own_files")  # no loop uses errors
    for path in Path(volt.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            assert not (node.module or "").startswith("numba") or path.name == "compiling.py", path
            package, _, name = (node.module or "").partition(".")
            if path.parent.name == "kernels" and package == "volt":
                assert name.partition(".")[0] in allowed, path


@compiles
@pytest.mark.parametrize("cut", [0, 10, 40, -1])
def test_damaged_code_is_compiled_again(kernels, cut):
    """A file of code that a full disk cut short, or that was changed, is compiled again."""
    assert run(kernels) == COMPILED
    [path] = kernels.rglob("loop.doubled-*.code")
    content = path.read_bytes()
    path.write_bytes(content[:cut] if cut >= 0 else content[:-1] + bytes([content[-1] ^ 1]))
    assert run(kernels) == "True 12 True\n"
    assert path.read_bytes() == content
    assert run(kernels) == LOADED


@compiles
@pytest.mark.parametrize("put", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_not_a_file_is_replaced(kernels, put):
    """A folder, a pipe or a broken link in the place of code is replaced by the code."""
    assert run(kernels) == COMPILED
    [path] = kernels.rglob("loop.doubled-*.code")
    content = path.read_bytes()
    path.unlink()
    put(path)
    assert run(kernels) == COMPILED
    assert path.read_bytes() == content
    assert run(kernels) == LOADED


SAFE = """
import threading
results = []
threads = [threading.Thread(target=lambda: results.append(loop.doubled(5))) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(results)
"""


@compiles
def test_threads_may_call_a_loop_first_at_the_same_time(kernels):
    """Eight threads that call a loop for the first time get the right result, compiled or loaded."""
    for _ in range(2):
        assert output(start(kernels, LOAD + SAFE, {})) == f"{[12] * 8}\n"


FORK = """
import os
child = os.fork()
doubled = loop.doubled(5)
if child:
    assert os.waitpid(child, 0)[1] == 0
print(doubled, flush=True)
"""


@compiles
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_calls_loops(kernels):
    """After a fork, both processes call a loop, loaded before the fork or after it."""
    assert run(kernels) == COMPILED
    for before in ("", "loop.doubled(1)\n"):
        assert output(start(kernels, LOAD + before + FORK, {})) == "12\n12\n"


class Pair(NamedTuple):
    ids: IntArray
    table: LongTable


def everything(
    pair: Pair, text: TextArray, number: int, share: float, key: np.uint64, flag: bool
) -> int:
    ids, table = pair
    return ids[1] + table[1, 0] + text[0] + number + int(share) + np.int64(key) + flag


def is_negative(number: int) -> bool:
    return number < 0


def clear(values: ByteArray | IntArray) -> None:
    for i in range(len(values)):
        values[i] = 0


def divide(number: int, by: int) -> int:
    return number // by


def pair_of(ids, table):
    return Pair(np.array(ids, np.int32), np.array(table))


PAIR = pair_of([1, 20], [[1, 2], [300, 4]])
ARGUMENTS = (PAIR, np.frombuffer(b"\x05", np.uint8), -7, 2.5, np.uint64(1 << 40), True)


@compiles
def test_loops_return_what_python_returns(monkeypatch):
    """A loop takes arrays, tuples and all numbers, and returns a number; bound or not."""
    monkeypatch.setattr(jit, "code_folder", lambda: None)
    expected = 20 + 300 + 5 - 7 + 2 + (1 << 40) + 1
    loop = jit.CompiledLoop(everything)
    assert loop(*ARGUMENTS) == expected == everything(*ARGUMENTS)
    assert jit.bind(loop, *ARGUMENTS[:2])(*ARGUMENTS[2:]) == expected
    assert [jit.CompiledLoop(is_negative)(number) for number in (-1, 0)] == [1, 0]
    clearing = jit.CompiledLoop(clear)
    for dtype in (np.uint8, np.int32):
        values = np.ones(3, dtype)
        clearing(values)
        assert not values.any()


@compiles
def test_wrong_arguments_raise_errors(monkeypatch):
    """Arguments that machine code would misread raise TypeError, which names the loop and the
    argument. An error of a loop raises RuntimeError."""
    monkeypatch.setattr(jit, "code_folder", lambda: None)
    loop = jit.CompiledLoop(everything)
    pair, text, *numbers = ARGUMENTS
    unaligned = np.zeros(pair.table.nbytes + 1, np.uint8)[1:].view(pair.table.dtype)
    for wrong, message in (
        (
            (pair._replace(ids=pair.ids.astype(np.int64)), text),
            "pair.ids: not .*int32.* but int64",
        ),
        ((pair._replace(table=pair.table[:, ::2]), text), "pair.table"),
        ((pair._replace(table=pair.table.ravel()), text), "pair.table"),
        ((pair._replace(table=unaligned.reshape(pair.table.shape)), text), "pair.table"),
        ((pair._replace(ids=[1, 2]), text), "pair.ids: not .* but .*list"),
        ((pair, text.astype(np.int8)), "text"),
        ((pair,), "test_jit.everything"),
    ):
        with pytest.raises(TypeError, match=message):
            loop(*wrong, *numbers)
    with pytest.raises(TypeError, match=r"test_jit\.everything"):
        loop(pair, text, 1 << 63, *numbers[1:])
    with pytest.raises(TypeError, match=r"test_jit\.clear, values"):
        jit.CompiledLoop(clear)(np.ones(3))
    with pytest.raises(RuntimeError, match=r"test_jit\.divide failed"):
        jit.CompiledLoop(divide)(1, 0)


find_folder = jit.code_folder.__wrapped__


def test_the_folder_is_inside_the_first_place_that_can_be_written_to(tmp_path, monkeypatch):
    """`code_folder` returns a folder inside the first writable place, named by a digest of the
    sources. It removes unused folders."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(jit, "_places", lambda: [tmp_path / "file", tmp_path / "place"])
    sources = sorted(Path(jit.__file__).parent.glob("*.py"))
    other = tmp_path / "place" / "loops-old"
    folder = tmp_path / "place" / jit._folder_name(jit._digest(sources))
    other.mkdir(parents=True)
    os.utime(other, (0, 0))
    assert find_folder() == str(folder)
    assert not other.exists()
    os.utime(folder, (0, 0))
    assert find_folder() == str(folder)
    assert folder.stat().st_mtime > 0


def test_code_is_not_stored_without_a_folder_or_sources(tmp_path, monkeypatch):
    """`code_folder` returns None if no folder can be written to, or if there are no sources. A
    frozen program contains all sources."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(jit, "_places", lambda: [tmp_path / "file"])
    assert find_folder() is None
    monkeypatch.setattr(jit, "_places", lambda: [tmp_path])
    monkeypatch.setattr(jit, "_SOURCES", jit._digest([]))
    assert find_folder() is None
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(jit, "_SOURCES", jit._digest([]))
    assert Path(find_folder()).parent == tmp_path
    tmp_path.chmod(0o777)
    with pytest.warns(jit.CompilingWarning, match="NUMBA_CACHE_DIR"):
        assert find_folder() is None


def test_the_package_comes_before_the_users_cache_folder(monkeypatch):
    """NUMBA_CACHE_DIR replaces the folder of the package and the user's cache folder."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/mine")
    assert jit._places() == [str(Path(jit.__file__).parent / "__pycache__"), "/mine/volt"]
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/own")
    assert jit._places() == ["/own"]


def test_code_of_another_processor_is_not_loaded(monkeypatch):
    """The folder's name depends on the processor's name and features."""
    binding = pytest.importorskip("llvmlite.binding")
    digests = {jit._folder_name("")}
    with monkeypatch.context() as context:
        context.setattr(binding, "get_host_cpu_name", lambda: "other")
        digests.add(jit._folder_name(""))
    features = binding.get_host_cpu_features()
    features["other"] = True
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: features)
    assert len(digests | {jit._folder_name("")}) == 3


def test_code_folder_uses_no_folder_that_others_can_change(tmp_path, monkeypatch):
    """`code_folder` returns None for a folder that other users can change, also through a link or
    in such a folder, with one warning that names the unsafe folder."""
    shared = tmp_path / "shared"
    (shared / "place").mkdir(parents=True)
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared / "place")
    for place in (shared / "place", tmp_path / "link"):
        monkeypatch.setattr(jit, "_places", lambda place=place: [place])
        with pytest.warns(jit.CompilingWarning) as warned:
            assert find_folder() is None
        assert [str(one.message).partition(":")[0] for one in warned] == [str(shared.resolve())]
    shared.chmod(0o755)
    folder = Path(find_folder())
    assert folder.parent == shared.resolve() / "place"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.warns(jit.CompilingWarning, match=folder.name):
        assert find_folder() is None


@as_root
def test_files_of_other_users_are_removed(tmp_path):
    """Files of other users, which may be planted, are removed from the folder of code; so is a file
    that others could change."""
    own = tmp_path / "own.code"
    theirs = tmp_path / "theirs.code"
    for path in (own, theirs):
        path.write_bytes(b"")
    os.chown(theirs, 65534, 65534)
    jit._remove_unsafe(tmp_path)
    assert [*tmp_path.iterdir()] == [own]
    for mode in (0o700, 0o755):  # others reach the file only in the second case
        own.chmod(0o666)
        tmp_path.chmod(mode)
        jit._remove_unsafe(tmp_path)
        assert own.exists() == (mode == 0o700)


def test_the_digest_depends_on_names_and_contents(tmp_path):
    """Bytes that move from one source to the next, and a new name, change the digest."""
    paths = [tmp_path / "a", tmp_path / "b"]
    digests = set()
    for contents in (("x", "yz"), ("xy", "z"), ("xy", "w")):
        for path, content in zip(paths, contents, strict=True):
            path.write_text(content)
        digests.add(jit._digest(paths))
    digests.add(jit._digest([paths[1].rename(tmp_path / "c"), paths[0]]))
    assert [len(digest) for digest in digests] == [16] * 4


def test_folders_that_were_not_used_for_a_day_are_removed(tmp_path, monkeypatch):
    """Folders of code that were not used for a day are removed.

    The current folder, and folders with another purpose, are not.
    """
    monkeypatch.setattr(jit, "time", lambda: 1e9)
    ages = {"loops-old": 86_401, "loops-day": 86_400, "other": 1e6, "loops-mine": 1e6}
    for name, age in ages.items():
        (tmp_path / name / "inner").mkdir(parents=True)
        os.utime(tmp_path / name, (1e9 - age,) * 2)
    jit._remove_unused(tmp_path / "loops-mine")
    assert {path.name for path in tmp_path.iterdir()} == {*ages} - {"loops-old"}


def test_a_long_compilation_is_reported_once(monkeypatch, capsys):
    """A warning follows the loop with which the sum of compile times exceeds two seconds; a
    terminal shows the notice during compilation. Either is shown once."""
    times = iter([10.0, 11.0, 20.0, 21.0, 30.0, 30.5, 40.0, 49.0])
    timers = []

    def timer(delay, act):
        nothing = SimpleNamespace(start=lambda: None, cancel=lambda: None, delay=delay, act=act)
        timers.append(nothing)
        return nothing

    monkeypatch.setattr(jit, "monotonic", lambda: next(times))
    monkeypatch.setattr(jit, "Timer", timer)
    notice = jit._Notice()
    n_warnings = []
    for _ in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            notice.begin()
            notice.end()
        n_warnings.append(len(caught))
        assert all(one.category is jit.CompilingWarning for one in caught)
    assert n_warnings == [0, 0, 1, 0]
    assert len(timers) == 1  # stderr is not a terminal

    times = iter([10.0, 10.5, 20.0, 23.0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    notice = jit._Notice()
    notice.begin()
    notice.end()
    notice.begin()
    for _ in range(2):
        timers[-1].act()
    notice.end()
    assert [one.delay for one in timers[2:]] == [2.0, 1.5]
    assert capsys.readouterr().err == f"{jit.MESSAGE}\n"
