"""The wheel and the source distribution: built, looked into, installed into empty environments, used as a user does.

    python experiments/wheel.py [--python 3.12 …] [--no-oldest] [--keep FOLDER]

Each row is a check, and FAULT stands before what is wrong:

    built      the wheel is made of the source distribution, twine accepts both, and the wheel holds what runs alone
    installed  by pip, in an environment of each Python that is found here; "oldest" has the lowest versions that the
               project declares, as uv chooses them
    used       volt search (the first compiles), again, volt demo, volt compare with its page, a script
    typed      mypy and pyright accept the script, and find the one fault of another

Nothing of this folder is on any path: all runs in empty folders, with a home of its own. The exit status is 1 if there
is a fault.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
TOOLS = ("build", "twine", "mypy", "pyright[nodejs]", "uv")
HELD = ("volt/py.typed", "volt/comparison/page/page.html", "volt/stream/checking/debug_page.html", "volt_cli/start.py")
TEXT = "the newest and the widest newer wider lower the lowest of the low\n" * 300
SCRIPT = """\
import volt

counts = volt.count_words("corpus.txt")
result = volt.search(volt.learn_bpe(counts, n_merges=40), select=30)
size: int = result.best.size
encoder = volt.Encoder(result.vocabulary)
pieces: list[str] = encoder.encode("the slowest wide")
print(size, encoder.decode(pieces))
"""
FAULTY = SCRIPT.replace("size: int", "size: str")
Row = tuple[str, str, str]  # where, what, and what is wrong


def run(*command: object, cwd: Path, home: Path | None = None) -> tuple[float, str]:
    """Seconds that a command takes, and what it prints. Raises CalledProcessError if it fails."""
    kept = ("PATH", "TMPDIR", "LANG", "PIP_", "UV_", "SSL_")
    names = {name: value for name, value in os.environ.items() if name.startswith(kept) or name.endswith("_PROXY")}
    env = {**names, "HOME": str(home or Path.home()), "PYTHONNOUSERSITE": "1"}
    start = time.perf_counter()
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout + done.stderr


def pythons(asked: list[str]) -> Iterator[tuple[str, Path]]:
    """Interpreters of these versions that are on the path, or that pyenv has."""
    for version in asked:
        found = shutil.which(f"python{version}")
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        if kept or found:
            yield version, kept[-1] if kept else Path(str(found))


def built(folder: Path) -> Iterator[Row]:
    """The distributions, in folder/dist, made by tools in folder/tools."""
    run(sys.executable, "-m", "venv", folder / "tools", cwd=folder)
    run(folder / "tools/bin/python", "-m", "pip", "install", "-q", *TOOLS, cwd=folder)
    source = folder / "source"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    )
    seconds, _ = run(folder / "tools/bin/python", "-m", "build", source, "-o", folder / "dist", cwd=folder)
    names = sorted(path.name for path in (folder / "dist").iterdir())
    yield "built", f"{', '.join(names)} in {seconds:.0f} s", "" if len(names) == 2 else "not one wheel and one sdist"
    _, told = run(folder / "tools/bin/twine", "check", "--strict", *(folder / "dist").iterdir(), cwd=folder)
    yield "built", "twine check", "" if told.count("PASSED") == 2 else told
    held = set(ZipFile(wheel_of(folder)).namelist())
    missing = [name for name in HELD if name not in held]
    odd = sorted({name.partition("/")[0] for name in held} - {"volt", "volt_cli"})
    odd = [name for name in odd if not name.endswith(".dist-info")]
    yield "built", f"{len(held)} files in the wheel", " ".join(["lacks", *missing] * bool(missing) + odd)


def wheel_of(folder: Path) -> Path:
    """The wheel that was built."""
    return next((folder / "dist").glob("*.whl"))


def used(name: str, python: Path, folder: Path, *, oldest: bool = False) -> Iterator[Row]:
    """An environment of its own: the wheel installed, and used."""
    place, home = folder / name, folder / name / "home"
    for path in (place, home, place / "work"):
        path.mkdir()
    work, bin_ = place / "work", place / "env/bin"
    (work / "corpus.txt").write_text(TEXT)
    (work / "script.py").write_text(SCRIPT)
    (work / "faulty.py").write_text(FAULTY)
    run(python, "-m", "venv", place / "env", cwd=place)
    seconds = 0.0
    if oldest:
        uv = (folder / "tools/bin/uv", "pip", "install", "-q", "--system-certs", "--python", bin_ / "python")
        needed = ("--resolution", "lowest-direct", "-r", folder / "source/pyproject.toml")
        seconds, _ = run(*uv, *needed, cwd=place)
    pip = (bin_ / "python", "-m", "pip", "install", "-q")
    seconds += run(*pip, *(["--no-deps"] * oldest), wheel_of(folder), cwd=place)[0]
    _, numbers = run(bin_ / "python", "-m", "pip", "list", "--format", "freeze", cwd=place)
    shown = ", ".join(line for line in numbers.split() if line.partition("==")[0] in ("numpy", "numba", "polars"))
    yield name, f"installed in {seconds:.0f} s: {shown}", ""
    search = (bin_ / "volt", "search", "corpus.txt", "--candidates", "40", "--force")
    times = [run(*search, cwd=work, home=home)[0] for _ in range(2)]
    yield name, f"first search {times[0]:.1f} s, second {times[1]:.1f} s", ""
    _, told = run(bin_ / "volt", "demo", cwd=work, home=home)
    yield name, "volt demo", "" if "signature" in told else told
    run(bin_ / "volt", "compare", "corpus.txt", "--candidates", "40", "-o", "page.html", cwd=work, home=home)
    page = (work / "page.html").read_text(encoding="utf-8")
    yield (
        name,
        f"volt compare: a page of {len(page) / 1e6:.1f} MB",
        "" if "</html>" in page else "the page does not end",
    )
    _, told = run(bin_ / "python", "script.py", cwd=work, home=home)
    yield name, "script", "" if "the slowest wide" in told else told
    for tool in ("mypy", "pyright"):
        yield name, f"{tool} accepts the script, and finds the fault", typed(tool, folder, bin_ / "python", work)


def typed(tool: str, folder: Path, python: Path, work: Path) -> str:
    """What is wrong with the types that a user gets; nothing if all is well."""
    options = {"mypy": ["--strict", "--python-executable", python], "pyright": ["--pythonpath", python]}[tool]
    command = [folder / "tools/bin" / tool, *options]
    try:
        run(*command, "script.py", cwd=work)
    except subprocess.CalledProcessError as error:
        return str(error.stdout + error.stderr)
    try:
        run(*command, "faulty.py", cwd=work)
    except subprocess.CalledProcessError as error:
        return "" if "faulty.py:5" in error.stdout else str(error.stdout)
    return "the fault was not found"


def rows(asked: list[str], folder: Path, *, oldest: bool) -> Iterator[Row]:
    """All checks, as they are done."""
    yield from built(folder)
    found = [*pythons(asked)]
    yield from ((version, "not found here", "") for version in asked if version not in dict(found))
    for version, python in found:
        yield from told(version, used(version, python, folder))
    if oldest and found:
        yield from told("oldest", used("oldest", found[0][1], folder, oldest=True))


def told(name: str, checks: Iterator[Row]) -> Iterator[Row]:
    """The checks; a command that fails is the last."""
    try:
        yield from checks
    except subprocess.CalledProcessError as error:
        yield name, " ".join(map(str, error.cmd[:4])), (error.stdout + error.stderr)[-2000:]


def main() -> int:
    """Build and check what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=[*PYTHONS], metavar="VERSION")
    parser.add_argument("--no-oldest", action="store_true", help="leave out the lowest versions of what is needed")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the wheel and the source distribution there")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="volt-wheel-") as name:
        folder = Path(name)
        for where, what, wrong in rows(options.python, folder, oldest=not options.no_oldest):
            failed |= bool(wrong)
            print(f"{'FAULT ' * bool(wrong)}{where:8} {what}", *wrong.splitlines(), sep="\n    ", flush=True)
        if options.keep:
            shutil.copytree(folder / "dist", options.keep, dirs_exist_ok=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
