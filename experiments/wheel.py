"""Build the wheel and the source distribution, install them into empty environments, and use them as a user does.

    python experiments/wheel.py [--python 3.12 …] [--keep FOLDER]

built      the wheel comes from the source distribution, twine accepts both, and the wheel holds every needed file
installed  by pip, for each Python of this machine; "oldest" has the lowest declared versions, as uv resolves them
used       volt search (the first compiles), again, volt demo, volt compare with its page, a script
typed      mypy and pyright accept the script, and find the one fault of another

Everything runs in empty folders with a home of its own. A fault makes the exit status 1.
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
TOOLS = ("build", "twine", "mypy", "pyright[nodejs]", "uv")
NEEDED = (
    "volt/py.typed",
    "volt/comparison/page/page.html",
    "volt/stream/checking/debug_page.html",
    "volt/stream/recipes/mixing.yaml",
    "volt_cli/start.py",
)
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
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
Check = tuple[str, str]  # what, and what is wrong


def run(*command: object, cwd: Path, home: Path | None = None) -> str:
    """Run a command without the caller's environment; return its output. Raises CalledProcessError if it fails."""
    kept = ("PATH", "TMPDIR", "LANG", "PIP_", "UV_", "SSL_")
    names = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(kept) or name.endswith("_PROXY")
    }
    env = {**names, "HOME": str(home or Path.home()), "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def python_of(version: str) -> str | None:
    own = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(own[-1]) if own else shutil.which(f"python{version}")


def built(folder: Path) -> Iterator[Check]:
    """Build the distributions in folder/dist, with tools in folder/tools."""
    run(sys.executable, "-m", "venv", folder / "tools", cwd=folder)
    run(folder / "tools/bin/python", "-m", "pip", "install", "-q", *TOOLS, cwd=folder)
    shutil.copytree(ROOT, folder / "source", ignore=LEFT_OUT)
    run(
        folder / "tools/bin/python",
        "-m",
        "build",
        folder / "source",
        "-o",
        folder / "dist",
        cwd=folder,
    )
    files = sorted((folder / "dist").iterdir())
    yield (
        ", ".join(path.name for path in files),
        "" if len(files) == 2 else "not one wheel and one sdist",
    )
    output = run(folder / "tools/bin/twine", "check", "--strict", *files, cwd=folder)
    yield "twine check", "" if output.count("PASSED") == 2 else output
    names = set(ZipFile(wheel_of(folder)).namelist())
    odd = {top for name in names if not (top := name.partition("/")[0]).endswith(".dist-info")} - {
        "volt",
        "volt_cli",
    }
    yield f"{len(names)} files in the wheel", " ".join(sorted(odd | ({*NEEDED} - names)))


def wheel_of(folder: Path) -> Path:
    return next((folder / "dist").glob("*.whl"))


def used(python: str, folder: Path, place: Path, *, oldest: bool) -> Iterator[Check]:
    work, home, bin_ = place / "work", place / "home", place / "env/bin"
    for path in (work, home):
        path.mkdir(parents=True)
    files = {
        "corpus.txt": TEXT,
        "script.py": SCRIPT,
        "faulty.py": SCRIPT.replace("size: int", "size: str"),
    }
    for name, text in files.items():
        (work / name).write_text(text)
    run(python, "-m", "venv", place / "env", cwd=place)
    if oldest:
        uv = (
            folder / "tools/bin/uv",
            "pip",
            "install",
            "-q",
            "--system-certs",
            "--python",
            bin_ / "python",
        )
        run(*uv, "--resolution", "lowest-direct", "-r", folder / "source/pyproject.toml", cwd=place)
    pip = (bin_ / "python", "-m", "pip")
    run(*pip, "install", "-q", *(["--no-deps"] * oldest), wheel_of(folder), cwd=place)
    versions = run(*pip, "list", "--format", "freeze", cwd=place).split()
    yield (
        ", ".join(
            line for line in versions if line.partition("==")[0] in ("numpy", "numba", "polars")
        ),
        "",
    )
    for what in ("first search", "second search"):
        start = time.perf_counter()
        run(
            bin_ / "volt",
            "search",
            "corpus.txt",
            "--candidates",
            "40",
            "--force",
            cwd=work,
            home=home,
        )
        yield f"{what}: {time.perf_counter() - start:.1f} s", ""
    yield (
        "volt demo",
        "" if "signature" in run(bin_ / "volt", "demo", cwd=work, home=home) else "no signature",
    )
    run(
        bin_ / "volt",
        "compare",
        "corpus.txt",
        "--candidates",
        "40",
        "-o",
        "page.html",
        cwd=work,
        home=home,
    )
    yield (
        "volt compare",
        ""
        if "</html>" in (work / "page.html").read_text(encoding="utf-8")
        else "the page is cut short",
    )
    yield (
        "script",
        ""
        if "the slowest wide" in run(bin_ / "python", "script.py", cwd=work, home=home)
        else "wrong output",
    )
    for tool, options in {
        "mypy": ["--strict", "--python-executable"],
        "pyright": ["--pythonpath"],
    }.items():
        command = (folder / "tools/bin" / tool, *options, bin_ / "python")
        run(*command, "script.py", cwd=work)
        try:
            yield tool, f"{run(*command, 'faulty.py', cwd=work)}the fault was not found"
        except subprocess.CalledProcessError as error:
            yield tool, "" if "faulty.py:5" in error.stdout else error.stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", default=["3.11", "3.12", "3.13"], metavar="VERSION")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="copy the wheel and the source distribution there",
    )
    options, failed = parser.parse_args(), False
    with tempfile.TemporaryDirectory(prefix="volt-wheel-") as name:
        folder = Path(name)
        todo = {"built": built(folder)}
        pythons = [
            (version, python) for version in options.python if (python := python_of(version))
        ]
        todo |= {
            version: used(python, folder, folder / version, oldest=False)
            for version, python in pythons
        }
        if pythons:
            todo["oldest"] = used(pythons[0][1], folder, folder / "oldest", oldest=True)
        for where, checks in todo.items():
            try:
                for what, wrong in checks:
                    failed |= bool(wrong)
                    print(
                        f"{'FAULT ' * bool(wrong)}{where:8} {what}",
                        *wrong.splitlines(),
                        sep="\n    ",
                        flush=True,
                    )
            except subprocess.CalledProcessError as error:
                failed = True
                print(f"FAULT {where:8} {error}", error.stdout, error.stderr, sep="\n", flush=True)
        if options.keep:
            shutil.copytree(folder / "dist", options.keep, dirs_exist_ok=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
