"""Laws of compiled code on disk: it is kept, found again, never older than any part of it, and never in the way.

They are checked in other processes, on a copy of the package with a small loop of its own, part of which is in another
file. They print whether the loop was found on disk, its result, and how often it was loaded rather than compiled.
"""

from __future__ import annotations

import ast
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import volt

compiles = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
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
def kernels(tmp_path: Path) -> Path:
    """The folder of loops of a copy of the package."""
    shutil.copytree(
        Path(volt.__file__).parent, tmp_path / "volt", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "home").mkdir()
    folder = tmp_path / "volt" / "kernels"
    (folder / "part.py").write_text(PART)
    (folder / "loop.py").write_text(LOOP)
    return folder


def start(kernels: Path, script: str, settings: Mapping[str, str]) -> subprocess.Popen[str]:
    """A process that imports the copy of the package, with nothing but these settings for where code is kept."""
    root = kernels.parent.parent
    unset = (
        "XDG_CACHE_HOME",
        "NUMBA_CACHE_DIR",
        "NUMBA_CACHE_LOCATOR_CLASSES",
        "NUMBA_DISABLE_JIT",
    )
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {
        "HOME": str(root / "home"),
        "PYTHONPATH": str(root),
        "PYTHONDONTWRITEBYTECODE": "1",
        **settings,
    }
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment,
        cwd=root,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def output(process: subprocess.Popen[str]) -> str:
    """What a process prints; it must not fail."""
    printed, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors[-2000:]
    return printed


def run(kernels: Path, **settings: str) -> str:
    """What a process finds, and whether it compiles."""
    return output(start(kernels, LOAD + CALL, settings))


def change(kernels: Path, number: int) -> None:
    """Edit the part that is in another file than the loop."""
    (kernels / "part.py").write_text(PART.replace("+ 1", f"+ {number}"))


def make_unwritable(kernels: Path) -> None:
    """Nobody, not even root, can write into the package's cache."""
    (kernels / "__pycache__").write_text("a file in the place of the folder")


def kept(folder: Path) -> set[Path]:
    """Where code of the loop is kept, below a folder."""
    return {path.parent for path in folder.rglob("loop.doubled-*.nbi")}


def age(folder: Path, days: float) -> None:
    """Let a folder be last used so long ago."""
    os.utime(folder, (time.time() - days * 24 * 3600,) * 2)


@compiles
def test_a_loop_is_compiled_anew_when_a_part_of_it_changes_in_another_file(kernels: Path) -> None:
    """Code on disk answers for all files that it is made of; when they are as they were, so is it."""
    assert [run(kernels), run(kernels)] == [COMPILED, LOADED]
    change(kernels, 2)
    assert run(kernels) == "False 14 0\n"
    change(kernels, 1)
    assert run(kernels) == LOADED
    assert kept(kernels.parent.parent) == kept(kernels / "__pycache__")


@compiles
def test_compiled_code_is_cached_per_user_when_the_package_cannot_be_written_to(
    kernels: Path,
) -> None:
    """A second process finds what the first compiled, in the user's folder."""
    make_unwritable(kernels)
    assert [run(kernels), run(kernels)] == [COMPILED, LOADED]
    assert len(kept(kernels.parent.parent / "home")) == 1


@compiles
@pytest.mark.campaign
def test_compiled_code_is_kept_in_the_folder_that_the_user_names(
    kernels: Path, tmp_path: Path
) -> None:
    """NUMBA_CACHE_DIR goes before the package's own folder, and parts that changed count there too."""
    named = str(tmp_path / "named")
    assert [run(kernels, NUMBA_CACHE_DIR=named) for _ in range(2)] == [COMPILED, LOADED]
    change(kernels, 2)
    assert run(kernels, NUMBA_CACHE_DIR=named) == "False 14 0\n"
    assert kept(tmp_path) == kept(tmp_path / "named")
    assert len(kept(tmp_path)) == 2


def give_away(folder: Path) -> None:
    """Give a folder, and all in it, to another user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)


@compiles
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(lambda folder: folder.chmod(0o777), id="writable"),
        pytest.param(
            give_away,
            id="foreign",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
        ),
    ],
)
def test_planted_code_is_never_run(
    kernels: Path, tmp_path: Path, share: Callable[[Path], None]
) -> None:
    """Pickles in a folder that other users can change are not loaded; the loop is compiled, and a warning says why."""
    named, ran = tmp_path / "named", tmp_path / "ran"
    named.mkdir()
    settings = {"NUMBA_CACHE_DIR": str(named)}
    assert run(kernels, **settings) == COMPILED
    stored = [path for path in named.rglob("*") if path.suffix in (".nbi", ".nbc")]
    for path in stored:
        path.write_bytes(pickle.dumps(Planted(str(ran))))
    share(named)
    process = start(kernels, LOAD + CALL, settings)
    printed, errors = process.communicate(timeout=DEADLINE)
    assert len(stored) > 1
    assert not ran.exists()
    assert (printed, errors.count("set NUMBA_CACHE_DIR")) == (COMPILED, 1)


class Planted:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (self.path,)


@compiles
@pytest.mark.campaign
def test_loops_run_from_a_zip_file(kernels: Path, tmp_path: Path) -> None:
    """Where no sources can be compared, every process compiles rather than trust what is on disk."""
    root = tmp_path / "zipped"
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", tmp_path, "volt")
    (root / "home").mkdir(parents=True)
    assert [run(root / "volt" / "kernels", PYTHONPATH=archive) for _ in range(2)] == [COMPILED] * 2


def test_loops_run_as_plain_python(kernels: Path, tmp_path: Path) -> None:
    """With NUMBA_DISABLE_JIT nothing is compiled or kept."""
    script = LOAD + 'print(not warmup.missing("words"), loop.doubled(5))'
    assert output(start(kernels, script, {"NUMBA_DISABLE_JIT": "1"})) == "True 12\n"
    assert not list(tmp_path.rglob("loops-*"))


@compiles
@pytest.mark.campaign
def test_processes_that_start_at_once_share_what_they_compile(kernels: Path) -> None:
    """Whoever comes first, all get the right result, and all later ones find it."""
    for process in [start(kernels, LOAD + CALL, {}) for _ in range(3)]:
        assert output(process).split()[1] == "12"
    assert run(kernels) == LOADED


@compiles
@pytest.mark.campaign
def test_a_process_outlives_the_folder_of_its_code(kernels: Path) -> None:
    """A process of older code, whose folder is removed by one of newer code, runs its own: it compiles it again."""
    assert run(kernels) == COMPILED
    (mine,) = kept(kernels)
    older = start(kernels, LOAD + "print('ready', flush=True); input()" + CALL, {})
    assert older.stdout
    assert older.stdout.readline() == "ready\n"
    age(mine.parent, 2)
    change(kernels, 2)
    assert run(kernels) == "False 14 0\n"
    assert not mine.exists()
    assert older.communicate("\n", timeout=DEADLINE) == (COMPILED, "")
    change(kernels, 1)
    assert run(kernels) == LOADED


def test_all_loops_are_compiled_by_one_module_from_files_beside_it() -> None:
    """Else their code would be kept without regard to its parts, or its parts would not all be looked at."""
    for path in Path(volt.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        compilers = {alias.name for node in froms if node.module == "numba" for alias in node.names}
        if path.name != "jit.py":
            assert not compilers & {
                "njit",
                "jit",
                "vectorize",
                "guvectorize",
                "stencil",
                "cfunc",
            }, path
        if path.parent.name == "kernels":
            modules = {
                node.module or ""
                for node in froms
                if (node.module or "").partition(".")[0] == "volt"
            }
            assert all(
                name.split(".")[1] in ("kernels", "errors", "own_files") for name in modules
            ), path  # no loop has an error
