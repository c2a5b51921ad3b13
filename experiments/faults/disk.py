"""I/O faults: under every command, the n-th call of every kind fails; whatever happens, nothing is lost.

The oracle, after each fault:

    an output is absent, whole (as an undisturbed run writes it), or what stood there before
    the inputs' bytes are as they were, and there is no file that is neither input nor output
    the status is 0 only if the outputs are whole; after an interrupted or a half call it must be 0
    stderr holds no traceback, and tells something where the status is not 0
    some of those that failed, and all that go on where they were, run once more: everything is whole then
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.faults.cases import CASES, STDOUT, Case
from experiments.faults.injector import KINDS, WAYS, Fault
from experiments.faults.pool import over
from experiments.faults.runner import Ended, Server, ServerDied
from experiments.faults.stage import OLD, Stage, environment, parts
from experiments.faults.table import Finding, Row

LIMIT = 60.0  # seconds for a command that takes less than three
LONGEST = 2_000  # characters of a message
PROGRESS = ("state.json", "summary.json", ".volt-encoded.json")
AGAIN = ("encode-folder", "stream")  # commands that go on where they were
_INJECTORS = [("shim", 0.65), ("bare", 0.3), ("python", 1.0)]  # and each one's share of the time that is left
Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Injection:
    """A fault under a command. old: whether its outputs are there before;  injector: shim or python, or bare: the shim
    under a Python that buffers nothing of what goes to stdout."""

    case: Case
    fault: Fault
    old: bool
    injector: str

    @property
    def name(self) -> str:
        """As `parse` reads it."""
        return f"{self.case.name}/{self.fault.text}/{'old' if self.old else 'new'}/{self.injector}"

    @classmethod
    def parse(cls, text: str) -> Injection:
        """An injection from its name."""
        case, fault, old, injector = text.split("/")
        return cls(CASES[case], Fault.parse(fault), old == "old", injector)


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What a command does when nothing fails. counts: calls of each kind."""

    files: Files
    counts: Sequence[int]


def campaign(
    folder: Path, inputs: Path, shim: Path | None, *, seed: int, jobs: int, until: float, most: int,
    only: Sequence[str] = (), planted: str = "",
) -> Iterator[Row]:  # fmt: skip
    """A row for each injector, filled afterwards. most: injections at most;  only: names of them, or commands."""
    for injector, share in _INJECTORS if shim else [("python", 1.0)]:
        library = None if injector == "python" else shim
        asked = [text.split("/")[0] for text in only if "/" not in text or text.endswith(f"/{injector}")]
        chosen = [case for case in CASES.values() if not only or case.name in asked]
        if not chosen:
            continue
        yield (row := Row("io", f"faults ({injector})"))
        start = time.monotonic()
        bounds = start + share * (until - start)
        known = _undisturbed(chosen, folder, inputs, library, jobs=jobs, row=row)
        tasks = _tasks(known, injector, only)
        random.Random(seed).shuffle(tasks)
        row.planned = len(tasks)
        found = over(
            tasks[:most], partial(_inject_in_slot, inputs=inputs, known=known, planted=planted),
            folder=folder, shim=library, jobs=jobs, until=bounds, name=row.what, bare=injector == "bare",
        )  # fmt: skip
        for task, result in found:
            if isinstance(result, ServerDied):
                row.findings.append(_finding(task, "crash", f"the server died: {result}"))
            elif result is not None:
                row.done += 1
                row.findings += result
        row.seconds = time.monotonic() - start


def _undisturbed(
    cases: Sequence[Case], folder: Path, inputs: Path, shim: Path | None, *, jobs: int, row: Row
) -> dict[str, Undisturbed]:
    """Each command's own work. Two runs must agree, or the oracle would know nothing."""

    def work(server: Server, slot: Path, case: Case) -> tuple[Undisturbed, Undisturbed, int, str]:
        stage = Stage(slot / "work", inputs)
        runs = []
        for old in ((), case.old):
            stage.lay(case.inputs, old=old)
            ended = _run(server, stage, case, Fault("", 0, ""))
            runs.append(Undisturbed(stage.look(), ended.counts))
        return runs[0], runs[1], ended.status, stage.told()

    known = {}
    results = over(cases, work, folder=folder, shim=shim, jobs=jobs, until=time.monotonic() + 1e6, name="undisturbed")
    for case, result in results:
        if isinstance(result, ServerDied):
            raise result
        first, second, status, told = result
        if status:
            row.findings.append(
                Finding("io", "status", case.name, f"fails without a fault: {told[-300:]}", case.command)
            )
            continue
        differ = [name for name in first.files if first.files[name] != second.files.get(name)]
        if bad := set(differ) - set(case.volatile):
            row.findings.append(Finding("io", "lost", case.name, f"two runs differ in {bad}", case.command))
        known[case.name] = first
    return known


def _tasks(known: Mapping[str, Undisturbed], injector: str, only: Sequence[str]) -> list[Injection]:
    """Every call of every command, in every way; or those that are named."""
    if named := [Injection.parse(text) for text in only if "/" in text]:
        return [task for task in named if task.injector == injector]
    return [
        Injection(CASES[name], Fault(kind, n, way), old, injector)
        for name, undisturbed in known.items()
        for kind, count in zip(KINDS, undisturbed.counts, strict=False)
        for n in range(1, count + 1)
        for way in WAYS[kind]
        if injector != "python" or way != "EINTR"
        if injector != "bare" or (kind == "write" and CASES[name].grows)
        for old in ((False, True) if CASES[name].old else (False,))
    ]


def _run(server: Server, stage: Stage, case: Case, fault: Fault, planted: str = "") -> Ended:
    """Run the command. Where the fault comes at an odd call, Python ends thoroughly, too."""
    return server.run(
        case.argv, cwd=stage.folder, stdout=stage.folder / STDOUT, stderr=stage.stderr, env=environment(stage.folder),
        fault=fault, folder=stage.folder, planted=planted, limit=10.0 if planted else LIMIT, thorough=fault.n % 2 == 1,
    )  # fmt: skip


def inject(
    server: Server, stage: Stage, task: Injection, known: Mapping[str, Undisturbed], planted: str = ""
) -> list[Finding] | None:
    """What is wrong after one fault; None if it did not happen, because the command did less this time."""
    case, expected = task.case, known[task.case.name].files
    stage.lay(case.inputs, old=case.old if task.old else ())
    before = stage.look()
    ended = _run(server, stage, case, task.fault, planted)
    found = list(judged(task, ended, before, stage.look(), expected, stage.told(), stage.temporary()))
    if not ended.fired:
        return None
    if ended.status and (case.name in AGAIN or task.fault.n % 4 == 1):
        shutil.rmtree(stage.tmp, ignore_errors=True)
        stage.tmp.mkdir()
        (stage.folder / STDOUT).unlink(missing_ok=True)
        ended = _run(server, stage, case, Fault("", 0, ""))
        later = judged(task, ended, before, stage.look(), expected, stage.told(), stage.temporary())
        found += [_finding(task, finding.kind, f"run again: {finding.told}") for finding in later]
    return [_finding(task, finding.kind, finding.told) for finding in found]


def _inject_in_slot(
    server: Server, slot: Path, task: Injection, *, inputs: Path, known: Mapping[str, Undisturbed], planted: str
) -> list[Finding] | None:
    return inject(server, Stage(slot / "work", inputs), task, known, planted)


def judged(
    task: Injection, ended: Ended, before: Files, after: Files, expected: Files, told: str, temporary: Sequence[str]
) -> Iterator[Finding]:
    """What is wrong. before, after: the folder's files;  expected: those of an undisturbed run."""
    case, is_good = task.case, ended.status == 0
    inputs = {name for name in before if name not in case.outputs and name not in case.volatile}
    if ended.late:
        yield _finding(task, "hung", f"no end after {ended.seconds:.0f} s")
    elif ended.status < 0:
        yield _finding(task, "crash", f"ended by signal {-ended.status}: {told[-200:]}")
    if "Traceback" in told:
        yield _finding(task, "traceback", told.strip().splitlines()[-1][-300:])
    elif not is_good and not told.strip():
        yield _finding(task, "silent", f"status {ended.status} without a word")
    elif len(told) > LONGEST:
        yield _finding(task, "message", f"{len(told)} characters: {told[:200]}")
    if task.fault.is_harmless and ended.fired and not is_good:
        yield _finding(
            task, "status", f"status {ended.status} after a {task.fault.way} {task.fault.kind}: {told[-300:]}"
        )
    for name in sorted(inputs):
        if after.get(name) != before[name]:
            yield _finding(task, "lost", f"input {name} was {'changed' if name in after else 'removed'}")
    for name in sorted({*expected, *after} - inputs):
        if fault := _wrong(case, name, after.get(name), expected.get(name), before.get(name), is_good=is_good):
            yield _finding(task, "left" if name in parts(after) else "lost", fault)
    if left := [*temporary, *ended.left]:
        yield _finding(task, "left", f"in the folder for temporary files, or running: {' '.join(left)[:200]}")


def _wrong(
    case: Case, name: str, found: bytes | None, expected: bytes | None, before: bytes | None, *, is_good: bool
) -> str:
    """What is wrong with one file that is no input; empty if nothing is."""
    if expected is None:
        return f"{name} is left behind" if found is not None and before is None else ""
    if found == expected or (found is not None and name in case.volatile and _is_whole(name, found, expected)):
        return ""
    if is_good:
        return f"status 0, but {name} is {_described(found, expected)}"
    if name == STDOUT:
        is_beginning = found is None or not case.grows or name in case.volatile or expected.startswith(found)
        return "" if is_beginning else "stdout is not the beginning of what belongs there"
    if (found is None and before is None) or found == before == OLD or _is_state(name, found):
        return ""
    return f"{name} is {_described(found, expected)}"


def _described(found: bytes | None, expected: bytes) -> str:
    if found is None:
        return "gone"
    return (
        "what stood there before" if found == OLD else f"neither whole nor old ({len(found)} of {len(expected)} bytes)"
    )


def _is_whole(name: str, found: bytes, expected: bytes) -> bool:
    """Whether a file whose figures differ between runs has its beginning and its end."""
    return found == OLD[:0] or (found[:8] == expected[:8] and found[-6:] == expected[-6:])


def _is_state(name: str, found: bytes | None) -> bool:
    """Whether a file tells how far a command has come: of an earlier moment, but whole."""
    with suppress(ValueError):
        return name.endswith(PROGRESS) and isinstance(json.JSONDecoder().raw_decode((found or b"").decode())[0], dict)
    return False


def _finding(task: Injection, kind: str, told: str) -> Finding:
    return Finding("io", kind, task.name, told, f"python -m experiments.faults io --only '{task.name}'")
