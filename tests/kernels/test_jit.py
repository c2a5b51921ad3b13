"""Compiled code is stored on disk, loaded again, never older than its source, and never planted by another user.

Most laws are checked in other processes, on a copy of the package with a small loop, part of which is in another file.
They print whether the loop was on disk, its result, and how often it was loaded rather than compiled.
"""

import ast
import os
import pickle
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config, njit

import volt
from volt.kernels import jit
from volt.kernels.warmup import compile_loop

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
from volt.kernels import loop, warmup

warmup.JOBS["words"] = ("loop.doubled",)
"""
CALL = """
print(not warmup.missing("words"), loop.doubled(5), sum(loop.doubled.stats.cache_hits.values()))
"""
COMPILED, LOADED = "False 12 0\n", "True 12 1\n"


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
    return {path.parent for path in folder.rglob("loop.doubled-*.nbi")}


@compiles
def test_a_loop_is_compiled_again_when_a_part_in_another_file_changes(kernels):
    """Stored code of a loop is loaded only while all source files are unchanged, also those of
    parts in other files."""
    assert [run(kernels), run(kernels)] == [COMPILED, LOADED]
    change(kernels, 2)
    assert run(kernels) == "False 14 0\n"
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
@pytest.mark.campaign
def test_code_is_stored_in_the_folder_that_the_user_sets(kernels, tmp_path):
    """NUMBA_CACHE_DIR takes precedence over the package's own folder; a changed part is compiled
    again there, too."""
    own = str(tmp_path / "own")
    assert [run(kernels, NUMBA_CACHE_DIR=own) for _ in range(2)] == [COMPILED, LOADED]
    change(kernels, 2)
    assert run(kernels, NUMBA_CACHE_DIR=own) == "False 14 0\n"
    assert folders_with_code(tmp_path) == folders_with_code(tmp_path / "own")
    assert len(folders_with_code(tmp_path)) == 2


def give_away(folder):
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)


class Planted:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@compiles
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(lambda folder: folder.chmod(0o777), id="writable"),
        pytest.param(give_away, id="foreign", marks=as_root),
    ],
)
def test_planted_code_is_never_run(kernels, tmp_path, share):
    """Pickles in a folder that other users can change are not loaded; the loop is compiled, with one warning."""
    named, ran = tmp_path / "named", tmp_path / "ran"
    named.mkdir()
    settings = {"NUMBA_CACHE_DIR": str(named)}
    assert run(kernels, **settings) == COMPILED
    stored = [path for path in named.rglob("*") if path.suffix in (".nbi", ".nbc")]
    for path in stored:
        path.write_bytes(pickle.dumps(Planted(str(ran))))
    share(named)
    printed, errors = start(kernels, LOAD + CALL, settings).communicate(timeout=DEADLINE)
    assert len(stored) > 1
    assert not ran.exists()
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
    os.utime(own.parent, (time.time() - 2 * jit.UNUSED,) * 2)
    change(kernels, 2)
    assert run(kernels) == "False 14 0\n"
    assert not own.exists()
    assert older.communicate("\n", timeout=DEADLINE) == (COMPILED, "")
    change(kernels, 1)
    assert run(kernels) == LOADED


def test_loops_are_compiled_only_by_jit_from_files_of_the_package():
    """Only jit.py imports compilers of numba, and files of volt/kernels/ import only each other;
    other code would not be compiled again when it changes."""
    allowed = ("kernels", "errors", "own_files")  # no loop uses errors
    compilers = {"njit", "jit", "vectorize", "guvectorize", "stencil", "cfunc"}
    for path in Path(volt.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            if node.module == "numba" and path.name != "jit.py":
                assert not compilers & {alias.name for alias in node.names}, path
            package, _, name = (node.module or "").partition(".")
            if path.parent.name == "kernels" and package == "volt":
                assert name.partition(".")[0] in allowed, path


LOAD_THEN_COMPILE = """
import sys
import numpy as np
from numba import njit
from volt.kernels.columns import shuffle
order = np.arange(3)
shuffle(np.zeros(3, np.uint64), order)
print(order.tolist(), sum(shuffle.stats.cache_hits.values()), "numba.np.linalg" in sys.modules)
print(njit(lambda values: np.sort(values)[0])(np.array([3, 1])), "numba.np.linalg" in sys.modules)
"""


@compiles
def test_a_loop_on_disk_is_loaded_without_the_compiler():
    """A process that only runs stored loops imports no module of the compiler; it can still compile others."""
    compile_loop("columns.shuffle")
    command = [sys.executable, "-c", LOAD_THEN_COMPILE]
    printed = subprocess.check_output(command, text=True, timeout=DEADLINE)
    assert printed == "[1, 2, 0] 1 False\n1 True\n"


def least(values):
    """The loop allocates memory."""
    return np.sort(values.copy())[0]


def same(number):
    """The loop allocates nothing."""
    return number


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(("function", "argument"), [(least, np.array([3, 1])), (same, 1)])
def test_a_stored_loop_returns_what_the_compiled_loop_returned(
    tmp_path,
    monkeypatch,
    function,
    argument,
    alone,
):
    """The result is the same with or without numba's own way of loading; only compiling is reported."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(config, "DISABLE_JIT", 0)
    monkeypatch.setattr(jit, "LOADS_ALONE", alone)
    calls = []
    notice = SimpleNamespace(begin=lambda: calls.append("begin"), end=lambda: calls.append("end"))
    monkeypatch.setattr(jit, "_notice", notice)
    loops = [njit(function), njit(function)]
    for loop in loops:
        jit.keep(loop, allocates=function is least)
    assert [loop(argument) for loop in loops] == [function(argument)] * 2
    assert [sum(loop.stats.cache_hits.values()) for loop in loops] == [0, 1]
    assert calls == ["begin", "end"] * alone


def choosing(place):
    """Return a stand-in for numba that chooses a folder, or raises an error."""

    def compiler(**options):
        if isinstance(place, Exception):
            raise place
        assert options == {"cache": True}
        return lambda function: SimpleNamespace(stats=SimpleNamespace(cache_path=place))

    return compiler


find_folder = jit.code_folder.__wrapped__


def test_the_folder_is_inside_the_folder_that_numba_chooses(tmp_path, monkeypatch):
    """`code_folder` returns a folder inside the folder that numba chooses, named by a digest of the
    sources. It removes unused folders and damaged files."""
    monkeypatch.setattr(jit, "njit", choosing(tmp_path / "place"))
    sources = sorted(Path(jit.__file__).parent.glob("*.py"))
    other = tmp_path / "place" / "loops-old"
    folder = tmp_path / "place" / f"loops-{jit._digest(sources)}"
    other.mkdir(parents=True)
    os.utime(other, (0, 0))
    assert find_folder() == str(folder)
    assert not other.exists()
    (folder / "index").mkdir()
    damaged = folder / "index" / "a.nbi"
    damaged.write_bytes(b"")
    os.utime(folder, (0, 0))
    assert find_folder() == str(folder)
    assert not damaged.exists()
    assert folder.stat().st_mtime > 0


def test_code_is_not_stored_without_a_folder_or_sources(tmp_path, monkeypatch):
    """`code_folder` returns None if there is no folder or no sources, and "" if nothing is
    compiled, or if a frozen program contains all sources."""
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", RuntimeError(), AttributeError()):
        monkeypatch.setattr(jit, "njit", choosing(place))
        with monkeypatch.context() as context:
            context.setattr(config, "DISABLE_JIT", 0)
            assert find_folder() is None
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    assert find_folder() == ""
    monkeypatch.setattr(jit, "njit", choosing(tmp_path))
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "nothing" / "jit.py"))
    assert find_folder() is None
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert find_folder() == ""
    tmp_path.chmod(0o777)
    with pytest.warns(jit.CompilingWarning, match="NUMBA_CACHE_DIR"):
        assert find_folder() is None


def test_code_folder_uses_no_folder_that_others_can_change(tmp_path, monkeypatch):
    """`code_folder` returns None for a folder that other users can change, also through a link or
    in such a folder, with one warning that names the unsafe folder."""
    shared = tmp_path / "shared"
    (shared / "place").mkdir(parents=True)
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared / "place")
    for place in (shared / "place", tmp_path / "link"):
        monkeypatch.setattr(jit, "njit", choosing(place))
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
    """Files and folders of other users, which may be planted, are removed from the folder of code;
    so is a file that others could change."""
    for name in ("mine/own.nbi", "mine/theirs.nbi", "theirs/own.nbi"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\x80.")
    for name in ("mine/theirs.nbi", "theirs"):
        os.chown(tmp_path / name, 65534, 65534)
    jit._remove_unsafe(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.nbi")] == ["mine/own.nbi"]
    for mode in (0o700, 0o755):  # others reach the file only in the second case
        (tmp_path / "mine/own.nbi").chmod(0o666)
        tmp_path.chmod(mode)
        jit._remove_unsafe(tmp_path)
        assert (tmp_path / "mine/own.nbi").exists() == (mode == 0o700)


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


def test_pickles_that_were_cut_short_are_removed(tmp_path):
    """Files of code are removed unless they are whole pickles, which start with 0x80 and end with a
    full stop."""
    index = tmp_path / "index"
    index.mkdir()
    whole = {"a.nbi": b"\x80.", "b.nbc": b"\x80x.", "g.py": b""}
    damaged = {"c.nbi": b"", "d.nbi": b"\x80", "e.nbc": b"\x80x", "f.nbi": b"x."}
    for name, content in (whole | damaged).items():
        (index / name).write_bytes(content)
    jit._remove_unsafe(tmp_path)
    assert {path.name for path in index.iterdir()} == {*whole}


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


def test_in_code_folder_changes_numbas_setting_only_within_the_block(monkeypatch):
    """`in_code_folder` sets numba's cache folder only within its block.

    If nothing can be stored, or numba chooses, the user's own folder applies.
    """
    monkeypatch.setattr(config, "CACHE_DIR", "mine")
    for folder, inside in (("ours", (True, "ours")), ("", (True, "mine")), (None, (False, "mine"))):
        monkeypatch.setattr(jit, "code_folder", lambda folder=folder: folder)
        with jit.in_code_folder() as can_store:
            assert (can_store, config.CACHE_DIR) == inside
        assert config.CACHE_DIR == "mine"


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


def more(number):
    return number + 1


@pytest.mark.parametrize("differs", [True, False])
def test_parts_are_compiled_once_for_all_whole_numbers(monkeypatch, differs):
    """A part is compiled once for all types of whole numbers, and Python calls it as a plain
    function. If numba lacks the private names, numba compiles the part its own way."""
    monkeypatch.setattr(config, "DISABLE_JIT", 0)
    monkeypatch.setattr(jit, "PARTS_DIFFER", differs)
    part = jit._part(_nrt=False)(more)
    loop = njit(lambda number: 2 * part(number))
    assert [loop(5), loop(np.int32(5)), part(2)] == [12, 12, 3]
    assert isinstance(part, jit._Part) is differs
    if differs:
        assert (len(part.overloads), part.signatures) == (1, [(jit.types.int64,)])
    assert jit.LOADS_ALONE
    assert jit.PARTS_DIFFER is differs
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    assert jit._part()(more) is more
