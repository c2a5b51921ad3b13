"""Trace the modules and functions that run in common tasks, and how often each input is opened.

A module counts if one of its functions runs; what runs while a module is imported does not count. Depth is the largest
number of our functions on the stack at once. Compiled loops run outside the interpreter and do not appear.

    python experiments/walk.py            all walks
    python experiments/walk.py encode     one walk, with the functions of each module
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = (str(ROOT / "volt") + os.sep, str(ROOT / "cli" / "volt_cli") + os.sep)
WALKS: dict[str, list[str]] = {
    "search": ["search", "corpus.txt", "-o", "new.volt"],
    "stream run": ["stream", "run", "stream.yaml", "--limit", "1000", "--state", "state.json"],
    "encode": ["encode", "-m", "corpus.volt", "corpus.txt", "-o", "pieces.txt"],
    "two sources": [],
}


class Tracer:
    """Record each function of ours that is called, and each file that is opened."""

    def __init__(self, folder: Path) -> None:
        self.functions: dict[str, set[str]] = defaultdict(set)
        self.opened, self.folder, self.depth, self._local = (
            Counter[str](),
            folder,
            0,
            threading.local(),
        )

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call or a return: the hook of `sys.setprofile`."""
        code, state = frame.f_code, self._local
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGES):
            return
        step = 1 if event == "call" else -1
        if code.co_name == "<module>":
            state.imports = getattr(state, "imports", 0) + step
        elif not getattr(state, "imports", 0):
            state.depth = getattr(state, "depth", 0) + step
            self.depth = max(self.depth, state.depth)
            self.functions[str(Path(code.co_filename).relative_to(ROOT))].add(code.co_qualname)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count an opened file of the folder: the hook of `sys.addaudithook`."""
        if event == "open" and isinstance(arguments[0], str):
            path = Path(arguments[0]).absolute()
            if path.parent == self.folder and path.is_file():
                self.opened[path.name] += 1

    def trace(self, task: Callable[[], object]) -> None:
        """Run a task in this thread and those that it starts."""
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        try:
            task()
        except SystemExit:
            pass
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


def two_sources() -> None:
    """Mix two sources, take a line, keep the state, take the next line."""
    from volt.stream import Source, Stream

    with Stream([Source("a", ("a.tsv",)), Source("b", ("b.tsv",))], seed=1) as stream:
        lines = iter(stream)
        next(lines)
        stream.state()
        next(lines)


def walk(name: str, folder: Path) -> None:
    """Trace a walk in this process and print what was recorded as JSON."""
    os.chdir(folder)
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]
    task: Callable[[], object] = two_sources
    if WALKS[name]:
        from volt_cli.start import main

        sys.argv = ["volt", *WALKS[name]]
        task = main
    tracer = Tracer(folder)
    sys.addaudithook(tracer.audit)
    tracer.trace(task)
    functions = {module: sorted(names) for module, names in sorted(tracer.functions.items())}
    Path("walk.json").write_text(
        json.dumps({"functions": functions, "depth": tracer.depth, "opened": dict(tracer.opened)})
    )


def run(name: str) -> SimpleNamespace:
    """Trace a walk in a process of its own, twice: the first run compiles loops."""
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder).resolve()
        text = "the lowest newest widest words are the words of a low new wide corpus\n" * 200
        (folder / "corpus.txt").write_text(text)
        for source in "ab":
            (folder / f"{source}.tsv").write_text("".join(f"{source} {i}\n" for i in range(2000)))
        (folder / "stream.yaml").write_text(
            "seed: 1\nsources: {a: {path: a.tsv}, b: {path: b.tsv}}\n"
        )
        volt = [sys.executable, "-m", "volt_cli", "search", "corpus.txt", "-q", "-o", "corpus.volt"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
        subprocess.run(volt, cwd=folder, check=True, capture_output=True, env=environment)
        for _ in range(2):
            for path in ("new.volt", "state.json", "pieces.txt"):
                (folder / path).unlink(missing_ok=True)
            command = [sys.executable, __file__, "--trace", name, str(folder)]
            subprocess.run(command, check=True, capture_output=True, env=environment)
        return SimpleNamespace(**json.loads((folder / "walk.json").read_text()))


def main() -> None:
    """Print the walks."""
    if sys.argv[1:2] == ["--trace"]:
        walk(sys.argv[2], Path(sys.argv[3]))
        return
    names = [" ".join(sys.argv[1:])] if sys.argv[1:] else [*WALKS]
    for name in names:
        if name not in WALKS:
            sys.exit(f"{name}: not a walk; choose from {', '.join(WALKS)}")
        result = run(name)
        n_functions = sum(map(len, result.functions.values()))
        opened = ", ".join(f"{path} {n}" for path, n in sorted(result.opened.items()))
        print(
            f"{name:12} {len(result.functions):3} modules, {n_functions:4} functions, depth {result.depth:2}",
            end="",
        )
        print(f"; opened: {opened}")
        for module, functions in result.functions.items() if len(names) == 1 else ():
            print(f"  {module}: {', '.join(functions)}")


if __name__ == "__main__":
    main()
