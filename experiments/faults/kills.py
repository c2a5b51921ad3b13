"""Kills: a signal at a random moment, then the same command once more; it ends as if nothing had been.

After the signal:  inputs as they were, outputs absent, whole or old, every process gone;  after SIGTERM and SIGHUP,
which can be heard, no part of a file is left, and nothing in the folder for temporary files.

After the second run, which a stream begins where its state says:  the bytes of an undisturbed run, and nothing else in
the folder, in the folder for temporary files, or in shared memory.

A share of the commands run in processes of their own, from the start of the interpreter on; the others are forked.
"""

from __future__ import annotations

import json
import random
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.faults.cases import STDOUT, Case
from experiments.faults.pool import over
from experiments.faults.runner import Ended, Server, ServerDied
from experiments.faults.stage import OLD, Stage, environment, parts
from experiments.faults.table import Finding, Row

LIMIT = 120.0  # seconds for a command that takes less than ten
SHARES = {"search": 0.42, "encode-folder": 0.45, "compare": 0.08, "stream-workers": 0.05}
SIGNALS = (*(["SIGKILL"] * 6), "SIGTERM", "SIGHUP")
FRESH = 0.05  # the share of processes that are not forked
SHARED = Path("/dev/shm")
Files = Mapping[str, bytes]
_PROGRESS = ("state.json", ".volt-encoded.json")

CASES = {
    case.name: case
    for case in (
        Case("search", "search corpus.txt -q -o out.volt", ("corpus.txt",), ("out.volt",)),
        Case("encode-folder", "encode -m model.volt -q --form npy heldout.txt corpus.txt corpus.txt.gz.copy -o out/",
             ("corpus.txt", "corpus.txt.gz.copy", "heldout.txt", "model.volt"),
             ("out/corpus.txt.npy", "out/corpus.txt.offsets.npy", "out/corpus.txt.gz.copy.npy",
              "out/corpus.txt.gz.copy.offsets.npy", "out/heldout.txt.npy", "out/heldout.txt.offsets.npy",
              "out/.volt-encoded.json")),
        Case("compare", "compare corpus.txt --with bpe:300 --with spm-bpe:300 -q -o out.html --markdown out.md",
             ("corpus.txt",), ("out.html", "out.md"), volatile=("out.html", "out.md")),
        Case("stream-workers",
             "stream run ending.yaml -q --workers 2 --state state.json --state-every 50 --resume",
             ("ending.yaml", "one.tsv", "two.tsv.gz", "model.volt"), ("state.json",), grows=True),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kill:
    """A signal at a share of the time that the command takes."""

    case: Case
    signal: str
    share: float
    fresh: bool
    old: bool

    @property
    def name(self) -> str:
        """As `parse` reads it."""
        how = f"{'fresh' if self.fresh else 'forked'}/{'old' if self.old else 'new'}"
        return f"{self.case.name}/{self.signal}/{self.share:.6f}/{how}"

    @classmethod
    def parse(cls, text: str) -> Kill:
        """A kill from its name."""
        case, number, share, fresh, old = text.split("/")
        return cls(CASES[case], number, float(share), fresh == "fresh", old == "old")


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What a command does when it is left alone. seconds: how long it takes, forked and fresh."""

    files: Files
    seconds: tuple[float, float]


def drawn(seed: int, n: int) -> list[Kill]:
    """So many kills; the first of them are the same for any n."""
    rng, names, weights = random.Random(seed), list(SHARES), list(SHARES.values())
    found = []
    for _ in range(n):
        case = CASES[rng.choices(names, weights)[0]]
        number, share, fresh = rng.choice(SIGNALS), rng.uniform(0, 1.02), rng.random() < FRESH
        old = rng.random() < 0.5 and case.name != "stream-workers"
        found.append(Kill(case, number, share, fresh, old))
    return found


def campaign(
    folder: Path, inputs: Path, *, seed: int, jobs: int, until: float, most: int, only: Sequence[str] = (),
    planted: str = "",
) -> Iterator[Row]:  # fmt: skip
    """One row, filled afterwards. most: how many kills;  only: names of kills, or of commands."""
    yield (row := Row("kills", "signals"))
    start, shared = time.monotonic(), _shared()
    tasks = [Kill.parse(text) for text in only if "/" in text] or [
        kill for kill in drawn(seed, most * (5 if only else 1)) if not only or kill.case.name in only
    ][:most]
    row.planned = len(tasks)
    known = _undisturbed({task.case.name: task.case for task in tasks}, folder, inputs, jobs=jobs, row=row)
    found = over(
        [task for task in tasks if task.case.name in known],
        lambda server, slot, task: kill(server, Stage(slot / "work", inputs), task, known[task.case.name], planted),
        folder=folder, shim=None, jobs=jobs, until=until, name="kills",
    )  # fmt: skip
    for task, result in found:
        if isinstance(result, ServerDied):
            row.findings.append(_finding(task, "crash", f"the server died: {result}"))
            continue
        row.done += 1
        row.findings += result
    if left := _left_shared(shared):
        row.findings.append(
            Finding("kills", "left", "shared memory", " ".join(left), "python -m experiments.faults kills")
        )
    row.seconds = time.monotonic() - start


def _undisturbed(
    cases: Mapping[str, Case], folder: Path, inputs: Path, *, jobs: int, row: Row
) -> dict[str, Undisturbed]:
    def work(server: Server, slot: Path, case: Case) -> tuple[Undisturbed, int, str]:
        stage, seconds = Stage(slot / "work", inputs), []
        for fresh in (True, False, False):
            stage.lay(case.inputs)
            ended = _run(server, stage, case, fresh=fresh)
            seconds.append(ended.seconds)
        return Undisturbed(stage.look(), (min(seconds[1:]), seconds[0])), ended.status, stage.told()

    known, until = {}, time.monotonic() + 1e6
    found = over(list(cases.values()), work, folder=folder, shim=None, jobs=jobs, until=until, name="undisturbed")
    for case, result in found:
        if isinstance(result, ServerDied):
            raise result
        undisturbed, status, told = result
        if status:
            row.findings.append(
                Finding("kills", "status", case.name, f"fails undisturbed: {told[-300:]}", case.command)
            )
        else:
            known[case.name] = undisturbed
    return known


def _run(
    server: Server, stage: Stage, case: Case, *, fresh: bool = False, kill: tuple[float, int] | None = None,
    planted: str = "",
) -> Ended:  # fmt: skip
    return server.run(
        case.argv, cwd=stage.folder, limit=LIMIT, stdout=stage.folder / STDOUT, stderr=stage.stderr,
        env=environment(stage.folder), fresh=fresh, kill=kill, planted=planted,
    )  # fmt: skip


def kill(server: Server, stage: Stage, task: Kill, known: Undisturbed, planted: str = "") -> list[Finding]:
    """What is wrong after a kill, and after the run that follows."""
    case = task.case
    stage.lay(case.inputs, old=case.old if task.old else ())
    before = stage.look()
    moment = task.share * known.seconds[task.fresh]
    ended = _run(
        server, stage, case, fresh=task.fresh, kill=(moment, getattr(signal, task.signal)), planted=planted
    )  # fmt: skip
    found = list(_after_kill(task, ended, before, stage, known))
    if case.grows and (fault := _go_back(stage)):
        found.append(_finding(task, "lost", fault))
    stage.stderr.unlink(missing_ok=True)
    ended = _run(server, stage, case)
    return found + list(_after_rerun(task, ended, before, stage, known))


def _after_kill(task: Kill, ended: Ended, before: Files, stage: Stage, known: Undisturbed) -> Iterator[Finding]:
    after, told = stage.look(), stage.told()
    if ended.late:
        yield _finding(task, "hung", f"no end {LIMIT:.0f} s after the signal")
    if "Traceback" in told:
        yield _finding(task, "traceback", told.strip().splitlines()[-1][-300:])
    if ended.left:
        yield _finding(task, "left", f"running after the kill: {' '.join(ended.left)[:200]}")
    yield from _lost_inputs(task, before, after)
    for name in task.case.outputs:
        found, whole = after.get(name), known.files[name]
        fits = found is None or found == OLD or _same(task.case, name, found, whole) or _is_progress(name, found)
        if not fits:
            yield _finding(task, "lost", f"{name} is neither absent, old nor whole ({len(found or b'')} bytes)")
    if ended.killed and task.signal != "SIGKILL" and (left := [*parts(after), *stage.temporary()]):
        yield _finding(task, "left", f"after {task.signal}: {' '.join(left)[:200]}")


def _after_rerun(task: Kill, ended: Ended, before: Files, stage: Stage, known: Undisturbed) -> Iterator[Finding]:
    after, told = stage.look(), stage.told()
    if ended.late:
        yield _finding(task, "hung", f"the second run: no end after {LIMIT:.0f} s")
    elif ended.status:
        kind = "traceback" if "Traceback" in told else "status"
        yield _finding(task, kind, f"the second run: status {ended.status}: {told[-300:]}")
    yield from _lost_inputs(task, before, after)
    for name, whole in known.files.items():
        if not _same(task.case, name, after.get(name), whole) and not (ended.status or ended.late):
            yield _finding(task, "lost", f"{name} is not as an undisturbed run leaves it, after the second run")
    if left := [*(name for name in after if name not in known.files), *stage.temporary()]:
        yield _finding(task, "left", f"after the second run: {' '.join(left)[:200]}")
    if ended.left:
        yield _finding(task, "left", f"running after the second run: {' '.join(ended.left)[:200]}")


def _lost_inputs(task: Kill, before: Files, after: Files) -> Iterator[Finding]:
    for name in sorted(set(before) - set(task.case.outputs)):
        if after.get(name) != before[name]:
            yield _finding(task, "lost", f"input {name} was {'changed' if name in after else 'removed'}")


def _go_back(stage: Stage) -> str:
    """Cut stdout to the lines that the state counts, as a consumer does; what is wrong if there are fewer."""
    out, state = stage.folder / STDOUT, stage.folder / "state.json"
    try:
        n = json.loads(state.read_bytes())["n"] if state.exists() else 0
    except (ValueError, KeyError) as error:
        return f"state.json is no state ({error})"
    lines = (out.read_bytes() if out.exists() else b"").splitlines(keepends=True)
    if len(lines) < n or any(not line.endswith(b"\n") for line in lines[:n]):
        return f"the state counts {n} lines, and {len(lines)} have left"
    out.write_bytes(b"".join(lines[:n]))
    return ""


def _same(case: Case, name: str, found: bytes | None, whole: bytes) -> bool:
    """Whether a file is as it should be; in reports, figures of time and memory do not count."""
    if found is None or name not in case.volatile:
        return found == whole
    return _without_figures(found) == _without_figures(whole)


def _without_figures(data: bytes) -> bytes:
    return re.sub(rb"-?\d[\d.,e+-]*|\s+", b"", data)


def _is_progress(name: str, found: bytes) -> bool:
    try:
        return name.endswith(_PROGRESS) and isinstance(json.JSONDecoder().raw_decode(found.decode())[0], dict)
    except ValueError:
        return False


def _shared() -> set[str]:
    return {path.name for path in SHARED.iterdir()} if SHARED.is_dir() else set()


def _left_shared(before: set[str]) -> list[str]:
    """What has come to shared memory since, and is in nobody's use."""
    deadline = time.monotonic() + 5
    while (new := _shared() - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    used = _maps() if new else ""
    return sorted(name for name in new if f"/dev/shm/{name}" not in used)


def _maps() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/maps"):
        try:
            found.append(path.read_text())
        except OSError:
            continue
    return "\n".join(found)


def _finding(task: Kill, kind: str, told: str) -> Finding:
    return Finding("kills", kind, task.name, told, f"python -m experiments.faults kills --only '{task.name}'")
