"""Small faults put into the code one by one → which of them the tests notice.

    python experiments/mutants.py [--only PATTERN] [--jobs N] [--timeout SECONDS] [--list | --check]

Each entry of mutants.txt changes one place of one file and names the tests that should fail then. The change is made in
a temporary copy of the tree, never here. A mutant is

    killed           a test failed, a module could not be imported, or the process crashed
    timed out        the tests did not end within the limit: counted as killed, and told apart
    survived         every test passed; told with the reason if the list says why no test can tell the two apart
    does not apply   the old lines do not stand in the file exactly once, the new are no Python, or a test is missing

Compiled loops run as plain Python (NUMBA_DISABLE_JIT=1), so nothing is compiled and no cache can hold an unchanged copy
of what was changed. A mutant marked "compiled" runs as users do: in a kernel with a cache of its own, which costs a
minute, because numba keeps a function by its own file and does not see that one copied into it has changed. Hypothesis
draws the same examples every time, as many as in campaigns, and does not simplify what fails.

Last, the tests that noticed something run once on the unchanged copy: if one fails there too, what it noticed means
nothing. The exit status is 1 if a mutant survived without a reason or does not apply, 2 if the unchanged copy fails.

--check runs no tests: it tells, in a second, which mutants no longer apply, because the code has moved on.

A mutant takes 4 to 80 s (measured: 11 s on average, on two cores that do other work besides; half of that with
--jobs 2), and the unchanged copy some minutes. --list tells how many there are.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("mutants.txt")
COPIED = ("volt", "cli", "tests", "experiments", "pyproject.toml", "README.md")
KERNELS = "volt/kernels/"
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "few_examples", "-m", "not slow", "--no-header", "--tb=no")
PREFIX = "mutants-"  # of a run's folder; its process number follows
RUNNING: set[int] = set()  # the processes, and their groups, that run tests now
STOPPED = Event()
NO_TESTS = 5  # pytest's exit status where nothing was selected
NOTICED = ("killed", "timed out")
PLUGIN = """
from hypothesis import HealthCheck, Phase, settings
settings.register_profile(
    "mutants", derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
)
settings.load_profile("mutants")
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """name: what the code then does wrongly;  file: the one that is changed;  old: lines that stand in it once;  new:
    what takes their place;  tests: files, or file::test;  compiled: whether they need compiled loops;  equivalent: why
    it is no fault, if it is none."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    compiled: bool = False
    equivalent: str = ""

    @classmethod
    def parse(cls, text: str) -> Mutant:
        """A mutant as the list has it.

        >>> Mutant.parse("# nothing is left\\na.py: tests/test_a.py\\n-    return 1\\n+    return 0\\n").old
        '    return 1\\n'
        """
        name, place, *lines = text.splitlines()
        file, _, tests = place.partition(": ")
        told = {mark: [line[1:] for line in lines if line[:1] == mark] for mark in "-+=!"}
        old, new = ("".join(f"{line}\n" for line in told[mark]) for mark in "-+")
        return cls(
            name.removeprefix("# "), file, old, new, tuple(tests.split()), bool(told["!"]), "".join(told["="]).strip()
        )

    def count(self, text: str) -> int:
        """How often the old lines stand in a text."""
        return f"\n{text}".count(f"\n{self.old}")

    def applied(self, text: str) -> str:
        """The text with the new lines in place of the old."""
        return f"\n{text}".replace(f"\n{self.old}", f"\n{self.new}")[1:]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant. outcome: see above;  said: the first line of what tells more."""

    mutant: Mutant
    outcome: str
    seconds: float = 0.0
    said: str = ""

    @property
    def is_told(self) -> bool:
        """Whether it is as it should be: noticed, or known to be no fault."""
        return self.outcome in NOTICED or (self.outcome == "survived" and self.mutant.equivalent != "")

    @property
    def failed(self) -> tuple[str, ...]:
        """The test that noticed it, with its parameters unless they were cut off; all that ran, if none is told."""
        found = re.match(r"(?:FAILED|ERROR) ([^\[ ]+(?:\[.*?\](?= - |$))?)", self.said)
        return (found[1],) if found else self.mutant.tests


def main() -> int:
    """Run what is asked for; the exit status."""
    options, mutants = _options(), _listed()
    chosen = [mutant for mutant in mutants if re.search(options.only, f"{mutant.file}: {mutant.name}")]
    if not chosen or options.jobs < 1:
        print(f"{len(chosen)} mutants hold {options.only.pattern!r}, {options.jobs} jobs: choose one or more of each")
        return 2
    if options.list:
        print("\n".join(f"{mutant.file}: {mutant.name}" for mutant in chosen))
        return 0
    if options.check:
        faults = [f"{mutant.file}: {mutant.name}: {fault}" for mutant in chosen if (fault := _fault(mutant))]
        print("\n".join([*faults, f"{len(chosen)} mutants: {len(faults)} do not apply"]))
        return int(bool(faults))
    print(f"{len(chosen)} of {len(mutants)} mutants, {options.jobs} at a time, {options.timeout} s each at most")
    _sweep(Path(tempfile.gettempdir()))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as folder:
        trees = [_copied(Path(folder, str(number))) for number in range(options.jobs)]
        results = list(_reported(_run_all(chosen, trees, timeout=options.timeout)))
        said = _unchanged(trees[0], results, timeout=options.timeout)
    _summarise(results)
    if said:
        print(f"what this noticed means nothing, for it fails on the unchanged tree too: {said}", file=sys.stderr)
        return 2
    return int(not all(result.is_told for result in results))


def _sweep(folder: Path) -> None:
    """Remove the trees of runs that were killed."""
    for tree in folder.glob(f"{PREFIX}[0-9]*-*"):
        owner = tree.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not _is_alive(int(owner)):
            shutil.rmtree(tree, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _stop(number: int, frame: object) -> None:
    """End the tests that run, and this process in such a way that its trees are removed."""
    STOPPED.set()
    for process in tuple(RUNNING):
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    raise SystemExit(128 + number)


def _listed() -> list[Mutant]:
    entries = re.split(r"^(?=# )", LIST.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [Mutant.parse(re.split(r"^## |\n\n", entry)[0]) for entry in entries]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regex: {error}") from None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Which small faults do the tests notice?")
    parser.add_argument(
        "--only", type=_pattern, default="", metavar="PATTERN", help="a regex that file and name must hold"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many to run at a time")
    parser.add_argument("--timeout", type=float, default=180, metavar="SECONDS", help="for the tests of one mutant")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="name the mutants and stop")
    instead.add_argument("--check", action="store_true", help="tell which mutants do not apply and stop")
    return parser.parse_args()


def _copied(tree: Path) -> Path:
    """A copy of the tree, with what numba has compiled, and a plugin that tells Hypothesis what to draw."""
    for name in COPIED:
        source, target = ROOT / name, tree / name
        if source.is_dir():
            shutil.copytree(source, target)  # times of change too, by which numba knows its files
        else:
            shutil.copy2(source, target)
    (tree / "few_examples.py").write_text(PLUGIN)
    found = _python(tree, "-c", "import volt; print(volt.__file__)", compiled=False, timeout=60).stdout.strip()
    if not Path(found).is_relative_to(tree.resolve()):
        raise SystemExit(f"the copy would test {found}; uninstall volt-vocab here, or let PYTHONPATH reach Python")
    return tree


def _unchanged(tree: Path, results: Sequence[Result], *, timeout: float) -> str:
    """What fails, of the tests that noticed a mutant, without any change; empty if nothing does."""
    for compiled in (False, True):
        noticed = [r for r in results if r.outcome in NOTICED and r.mutant.compiled == compiled]
        at_once = sorted({test for result in noticed if result.outcome == "killed" for test in result.failed})
        alone = [result.mutant.tests for result in noticed if result.outcome == "timed out"]
        for tests, limit in [(at_once, None), *((tests, timeout) for tests in dict.fromkeys(alone))]:
            try:
                if tests and (done := _tested(tree, tests, compiled=compiled, timeout=limit)).returncode:
                    return _last_line(done)
            except subprocess.TimeoutExpired:
                return f"{' '.join(tests)} take more than {limit:g} s"
    return ""


def _run_all(mutants: Sequence[Mutant], trees: Sequence[Path], *, timeout: float) -> Iterator[Result]:
    """The result of each mutant, in order; as many at a time as there are trees."""
    free: SimpleQueue[Path] = SimpleQueue()
    for tree in trees:
        free.put(tree)
    with ThreadPoolExecutor(len(trees)) as pool:
        yield from pool.map(partial(_run_in_one, free=free, timeout=timeout), mutants)


def _run_in_one(mutant: Mutant, *, free: SimpleQueue[Path], timeout: float) -> Result:
    tree, start = free.get(), time.perf_counter()
    try:
        outcome, said = _run(mutant, tree, timeout=timeout)
    finally:
        free.put(tree)
    return Result(mutant, outcome, time.perf_counter() - start, said)


def _run(mutant: Mutant, tree: Path, *, timeout: float) -> tuple[str, str]:
    """The outcome, and what tells more."""
    if fault := _fault(mutant):
        return "does not apply", fault
    with _changed(tree / mutant.file, mutant), tempfile.TemporaryDirectory() as cache:
        own = cache if mutant.compiled and mutant.file.startswith(KERNELS) else None
        try:
            done = _tested(tree, mutant.tests, compiled=mutant.compiled, timeout=timeout, cache=own)
        except subprocess.TimeoutExpired:
            return "timed out", f"after {timeout:g} s"
    if done.returncode == NO_TESTS:
        return "does not apply", "no test was selected"
    return "survived" if done.returncode == 0 else "killed", _last_line(done)


def _fault(mutant: Mutant) -> str:
    """Why a mutant cannot be made or tested; empty if it can."""
    path = ROOT / mutant.file
    if not path.is_file():
        return f"{mutant.file} is not there"
    text = path.read_text(encoding="utf-8")
    if not mutant.old or (n := mutant.count(text)) != 1:
        return f"the old lines occur {n} times" if mutant.old else "the list gives no old lines"
    try:
        compile(mutant.applied(text), mutant.file, "exec")
    except SyntaxError as error:
        return f"the new lines are no Python: {error}"
    missing = [test for test in mutant.tests if not _is_there(test)]
    return f"{missing[0]} is not there" if missing else ""


def _is_there(test: str) -> bool:
    """Whether a test file holds the test that is named behind "::"."""
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.is_file() and (not name or f"def {name.partition('[')[0]}(" in path.read_text(encoding="utf-8"))


@contextmanager
def _changed(path: Path, mutant: Mutant) -> Iterator[None]:
    """The file with the change in it; then as before, its time too, so that what was compiled stays valid."""
    text, times = path.read_bytes(), path.stat()
    try:
        path.write_bytes(mutant.applied(text.decode()).encode())
        yield
    finally:
        path.write_bytes(text)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _tested(
    tree: Path, tests: Iterable[str], *, compiled: bool, timeout: float | None, cache: str | None = None
) -> subprocess.CompletedProcess[str]:
    return _python(tree, "-m", "pytest", *OPTIONS, *tests, compiled=compiled, timeout=timeout, cache=cache)


def _python(
    tree: Path, *arguments: str, compiled: bool, timeout: float | None, cache: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python in a tree. cache: a folder for what numba compiles; None: beside the code."""
    own = {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'cli'}", "PYTHONDONTWRITEBYTECODE": "1", "VOLT_EXAMPLES": "all"}
    own |= {"NUMBA_CACHE_DIR": cache} if cache else {}
    own |= {} if compiled else {"NUMBA_DISABLE_JIT": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    with subprocess.Popen(
        command, cwd=tree, env=kept | own, text=True, start_new_session=True, stdout=pipe, stderr=subprocess.STDOUT
    ) as process:
        RUNNING.add(process.pid)
        try:
            if STOPPED.is_set():
                raise KeyboardInterrupt
            output, _ = process.communicate(timeout=timeout)
        except BaseException:  # those that a test has started, too
            os.killpg(process.pid, 9)
            raise
        finally:
            RUNNING.discard(process.pid)
    return subprocess.CompletedProcess(command, process.returncode, output)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The failing test, or whatever pytest said last."""
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (told or lines or [f"exit status {done.returncode}"])[-1 if not told else 0][:150]


def _reported(results: Iterable[Result]) -> Iterator[Result]:
    """The same results; each is shown when it comes."""
    for result in results:
        print(f"{result.outcome:<14} {result.seconds:6.1f} s  {result.mutant.file}: {result.mutant.name}")
        print(f"{'':<26}{result.said}", flush=True)
        yield result


def _summarise(results: Sequence[Result]) -> None:
    """Counts, then each mutant that no test noticed."""
    counts = Counter(result.outcome for result in results)
    n_known = sum(result.outcome == "survived" and result.is_told for result in results)
    print(f"\n{len(results)} mutants: {', '.join(f'{counts[outcome]} {outcome}' for outcome in sorted(counts))}")
    faults = counts["killed"] + counts["timed out"] + counts["survived"] - n_known
    if faults:
        print(f"noticed: {(faults - counts['survived'] + n_known) / faults:.1%} of those that are faults")
    for result in results:
        if result.outcome not in NOTICED:
            why = f"equivalent: {result.mutant.equivalent}" if result.mutant.equivalent else result.said
            print(f"{result.outcome}: {result.mutant.file}: {result.mutant.name}: {why}")
        elif result.mutant.equivalent:
            print(f"said to be equivalent, but {result.outcome}: {result.mutant.file}: {result.mutant.name}")


if __name__ == "__main__":
    sys.exit(main())
