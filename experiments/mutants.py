"""Draw mutants of the code at random, and count how many of them the tests detect.

    python experiments/mutants.py --seed 7 -n 300

A mutant changes one operator, number, argument or statement of volt/ or cli/. Only tests that execute its lines run,
quick ones first, with compiled loops as plain Python. The first call records which tests execute which lines into
build/mutants; later calls repeat this for files of tests that changed, and for all after a change of code. cosmic-ray
and mutmut do not draw from a seed, and do not select tests by the coverage contexts of a suite that runs in several
processes.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any
from zlib import crc32

import pytest

ROOT = Path(__file__).parent.parent
PAIRS = (
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.FloorDiv),
    (ast.BitAnd, ast.BitOr),
    (ast.LShift, ast.RShift),
)
OPERATORS: dict[type, type] = {
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    **dict(PAIRS),
    **{b: a for a, b in PAIRS},
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
LEFT_OUT = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)
WITHOUT_EFFECT = ("annotation", "returns", "decorator_list", "bases", "type_params")
MAX_SECONDS = 60.0  # of recorded time of the tests that run for a mutant
MAX_TESTS = 300
N_MAIN_FILES = 5
N_GROUPS = 48  # processes that record
# until the first test runs; after that, tests may take twice as long as recorded
START_SECONDS = 30.0
GROUP_SECONDS = 600.0  # a test that waits for ever costs its group
TEST_SECONDS = 10.0  # a test that takes longer as plain Python is not recorded


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place: the bytes from start to end of a file become `text`.

    tested_lines: lines, counted from 1, whose tests run; all lines for code that runs on import, such as defaults
    """

    path: str
    line: int
    tested_lines: range
    start: int
    end: int
    text: str


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of a module.

    >>> [mutant.text for mutant in mutants("a.py", "y = x < 1")]
    ['(x <= 1)', '(2)', '(0)']
    """
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in _nodes(tree):
        start, end = (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )
        is_called = any(one.body[0].lineno <= node.lineno <= one.end_lineno for one in functions)
        lines = range(node.lineno, node.end_lineno + 1) if is_called else range(1, len(starts))
        for text in _changes(node):
            yield Mutant(path, node.lineno, lines, start, end, text)


def _nodes(node: ast.AST) -> Iterator[Any]:
    """Yield the statements and expressions with an effect: no annotations, messages, imports or decorators."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if name not in WITHOUT_EFFECT and isinstance(child, ast.AST):
                if isinstance(child, ast.expr | ast.stmt):
                    yield child
                if not isinstance(child, ast.Raise | ast.JoinedStr | ast.ImportFrom | ast.Import):
                    yield from _nodes(child)


def _changes(node: ast.expr | ast.stmt) -> Iterator[str]:
    """Yield the texts that may replace a node."""
    if isinstance(node, ast.Compare):
        yield _changed(node, ops=[OPERATORS[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in OPERATORS:
        yield _changed(node, op=OPERATORS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from (f"({node.value + 1})", f"({node.value - 1})")
    elif isinstance(node, ast.IfExp):
        yield _changed(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield _changed(node, func=ast.Name(CALLS[node.func.id]))
        if node.keywords:
            yield _changed(node, keywords=node.keywords[:-1])
        elif len(node.args) > 1:
            yield _changed(node, args=node.args[:-1])
    elif isinstance(node, LEFT_OUT) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "pass"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return None"


def _changed(node: ast.expr, **fields: object) -> str:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return f"({ast.unparse(changed)})"


def copy_checkout(target: Path) -> Path:
    """Copy the tracked files of the checkout, as they are now, and return the folder."""
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for path in filter(Path.is_file, map(ROOT.joinpath, names.splitlines())):
        copied = target / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copied)
    return target


def command_for(checkout: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs tests of a copy of the checkout, and its environment."""
    variables = {"NUMBA_DISABLE_JIT": "1", "CI": "true"}
    variables["PYTHONPATH"] = f"{checkout}{os.pathsep}{checkout / 'cli'}"
    return [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        *arguments,
    ], os.environ | variables


def record(folder: Path, workers: int) -> Iterator[dict[str, Any]]:
    """Yield the records of all groups of test files: the tests that execute each line, and the seconds of each test.

    Each group runs in a process of its own, so that one that crashes costs only its own results. A record is reused as
    long as the code, the helpers of the tests and the files of its group are the same.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(workers) as pool:
        root = copy_checkout(Path(place))
        code = {
            path.relative_to(root)
            for part in ("volt", "cli")
            for path in root.glob(f"{part}/**/*.py")
        }
        tests = {path.relative_to(root) for path in root.glob("tests/**/*.py")}
        cases = {path for path in tests if path.name.startswith("test_")}
        groups: list[list[Path]] = [[] for _ in range(N_GROUPS)]
        for path in sorted(code | cases):
            groups[crc32(bytes(path)) % N_GROUPS].append(path)

        def record_group(number: int) -> dict[str, Any]:
            sources = [
                (root / path).read_bytes()
                for path in [*sorted(code | tests - cases), *groups[number]]
            ]
            fingerprint, path = (
                hashlib.sha256(b"\0".join(sources)).hexdigest(),
                folder / f"{number}.json",
            )
            if (
                path.exists()
                and (recorded := json.loads(path.read_text()))["fingerprint"] == fingerprint
            ):
                return recorded
            options = [
                "-m",
                "not campaign",
                "-p",
                "no:xdist",
                "-p",
                "experiments.mutants",
                "--tb=native",
            ]
            coverage = ["--cov", "--cov-context=test", "--cov-report="]
            command, variables = command_for(root, *options, *coverage, *map(str, groups[number]))
            contexts, seconds = Path(place, f"{number}.coverage"), Path(place, f"{number}.seconds")
            variables |= {"COVERAGE_FILE": str(contexts), "MUTANTS_SECONDS": str(seconds)}
            with suppress(subprocess.TimeoutExpired):
                silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                subprocess.run(
                    command, cwd=root, env=variables, timeout=GROUP_SECONDS, check=False, **silent
                )
            is_complete = seconds.exists()
            print(
                f"group {number} of {N_GROUPS} {'recorded' if is_complete else 'ended without a record'}",
                flush=True,
            )
            recorded = {"fingerprint": fingerprint, "lines": {}, "seconds": {}}
            if is_complete:
                recorded |= {
                    "lines": _lines(contexts, root),
                    "seconds": json.loads(seconds.read_text()),
                }
                path.write_text(json.dumps(recorded))
            return recorded

        yield from pool.map(record_group, range(N_GROUPS))


def _lines(contexts: Path, root: Path) -> dict[str, dict[int, list[str]]]:
    """Return the tests that execute each line of each file."""
    from coverage import CoverageData

    data = CoverageData(str(contexts))
    data.read()
    return {
        str(Path(path).relative_to(root)): {
            line: sorted({test.partition("|")[0] for test in tests if test})
            for line, tests in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }


class TooSlow(BaseException):
    """A test takes too long; Hypothesis would repeat it after another exception."""


_seconds: dict[
    str, float
] = {}  # of passed tests, while this module serves `record` as a plug-in of pytest


def pytest_runtest_call() -> None:
    """Stop a test that takes too long as plain Python."""

    def stop(_: int, frame: FrameType | None) -> None:
        if frame and "coverage" in frame.f_code.co_filename:  # it may hold a lock
            signal.setitimer(signal.ITIMER_PROF, 0.01)
            return
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the seconds of a test that passed."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    if report.when == "call" and report.passed:
        _seconds[report.nodeid] = report.duration


def pytest_sessionfinish() -> None:
    """Write the seconds."""
    Path(os.environ["MUTANTS_SECONDS"]).write_text(json.dumps(_seconds))


def select_tests(
    mutant: Mutant, lines: dict[str, list[str]], seconds: dict[str, float]
) -> list[list[str]]:
    """Return the quickest tests that execute a mutant's lines, in one or two parts.

    The first part has the tests of the files with most of them. It detects most mutants, and imports few files.
    """
    names = (
        set[str]().union(*(lines.get(str(number), []) for number in mutant.tested_lines))
        & seconds.keys()
    )
    ordered = sorted(names, key=lambda name: (seconds[name], name))[:MAX_TESTS]
    totals = itertools.accumulate(seconds[name] for name in ordered)
    chosen = ordered[: max(1, sum(total <= MAX_SECONDS for total in totals))]
    n_tests = Counter(name.partition("::")[0] for name in chosen)
    main = {file for file, _ in n_tests.most_common(N_MAIN_FILES)}
    parts = [
        [name for name in chosen if (name.partition("::")[0] in main) == is_main]
        for is_main in (True, False)
    ]
    return [part for part in parts if part]


_times = itertools.count()


def survives(mutant: Mutant, tests: list[str], limit: float, checkout: Path) -> bool:
    """Apply a mutant in a copy of the checkout, run tests until one fails, and undo it. limit: in seconds"""
    path = checkout / mutant.path
    source = path.read_bytes()
    _write(path, source[: mutant.start] + mutant.text.encode() + source[mutant.end :])
    command, variables = command_for(checkout, "-x", "-p", "no:xdist", *tests)
    silent = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "stdin": subprocess.DEVNULL,
    }
    process = subprocess.Popen(
        command, cwd=checkout, env=variables, start_new_session=True, **silent
    )
    try:
        return process.wait(limit) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _write(path, source)


def _write(path: Path, source: bytes) -> None:
    """Write a module with a new file time, so that Python does not take bytecode of the old text for current."""
    path.write_bytes(source)
    os.utime(path, (next(_times),) * 2)


def run(seed: int, n: int, folder: Path, workers: int) -> None:
    """Draw n mutants, test them in copies of the checkout, and print the counts and the survivors."""
    lines: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    seconds = dict[str, float]()
    for recorded in record(folder, workers):
        seconds |= recorded["seconds"]
        for path, by_line in recorded["lines"].items():
            for line, tests in by_line.items():
                lines[path][str(line)] += tests
    paths = sorted([*ROOT.glob("volt/**/*.py"), *ROOT.glob("cli/**/*.py")])
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    drawn = random.Random(seed).sample(
        [mutant for path, text in sources.items() for mutant in mutants(path, text)], n
    )
    counts, checkouts = Counter[str](), SimpleQueue[Path]()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(workers) as pool:
        for worker in range(workers):
            checkouts.put(copy_checkout(Path(place, str(worker))))

        def outcome(mutant: Mutant) -> str:
            parts, checkout = select_tests(mutant, lines[mutant.path], seconds), checkouts.get()
            try:
                limits = [START_SECONDS + 2 * sum(seconds[name] for name in part) for part in parts]
                each = (
                    survives(mutant, part, limit, checkout)
                    for part, limit in zip(parts, limits, strict=True)
                )
                return "killed" if not all(each) else "survived" if parts else "uncovered"
            finally:
                checkouts.put(checkout)

        for mutant, word in zip(drawn, pool.map(outcome, drawn), strict=True):
            counts[word] += 1
            if word != "killed":
                before = sources[mutant.path].encode()[mutant.start : mutant.end].decode()
                print(
                    f"{counts.total():4} {word:9} {mutant.path}:{mutant.line}: {before!r} → {mutant.text!r}",
                    flush=True,
                )
    print(
        f"seed {seed}:",
        ", ".join(f"{count} {word}" for word, count in sorted(counts.items())),
        f"of {n}",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--recorded", type=Path, default=ROOT / "build" / "mutants", help="the folder of the record"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("-n", type=int, default=300, help="how many mutants")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    run(options.seed, options.n, options.recorded.absolute(), options.workers)
