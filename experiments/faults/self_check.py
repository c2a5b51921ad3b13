"""Does the campaign find what is wrong? Faults of our own are planted, and each must be told as what it is.

>>> [check.planted for check in CHECKS if check.part == "load"]
['memory', 'descriptor']
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.faults import disk, fuzz, kills, load
from experiments.faults.runner import Server
from experiments.faults.stage import make_inputs
from experiments.faults.table import Finding, Row

SECONDS = 300.0  # for each part, far more than it needs


@dataclass(frozen=True, slots=True)
class Check:
    """planted: the fault;  kind: what it must be told as;  case: under which it is looked for."""

    part: str
    planted: str
    kind: str
    case: str = ""


CHECKS = (
    Check("io", "in place", "lost", "search/write:1:ENOSPC/old/python"),
    Check("io", "ignored", "lost", "search/write:1:EIO/new/python"),
    Check("io", "input", "lost", "search/rename:1:EIO/new/python"),
    Check("io", "part", "left", "search/rename:1:EIO/new/python"),
    Check("io", "crash", "traceback", "search/rename:1:ENOSPC/new/python"),
    Check("io", "hang", "hung", "search/rename:1:EIO/old/python"),
    Check("io", "child", "left", "search/read:1:half/new/python"),
    Check("io", "folder", "left", "search/read:1:half/new/python"),
    Check("kills", "slow", "lost", "search/SIGKILL/8.000000/forked/new"),
    Check("kills", "child", "left", "search/SIGKILL/0.300000/forked/new"),
    Check("kills", "folder", "left", "search/SIGTERM/0.300000/forked/new"),
    Check("fuzz", "an exception", "traceback", "planted"),
    Check("fuzz", "no end", "hung", "planted"),
    Check("fuzz", "too much memory", "memory", "planted"),
    Check("fuzz", "a crash", "crash", "planted"),
    Check("load", "memory", "memory"),
    Check("load", "descriptor", "left"),
)


def missed(folder: Path, *, jobs: int) -> list[Check]:
    """The planted faults that were not found; all are printed."""
    with Server(None) as server:
        make_inputs(folder / "inputs", server, n_lines=150, formats=())
    fuzzed = _of(fuzz.campaign(
        folder / "fuzz", folder / "kept", seed=1, jobs=1, until=time.monotonic() + SECONDS, most=1, only=["planted"],
        portion=1,
    ))  # fmt: skip
    left = []
    for check in CHECKS:
        found = fuzzed if check.part == "fuzz" else list(_found(check, folder, jobs))
        told = next((finding.told for finding in found if finding.kind == check.kind), "")
        print(f"{check.part:6}{check.planted:18}{'found' if told else 'MISSED':8}{told[:90]}", flush=True)
        left += [] if told else [check]
    print(f"{len(CHECKS) - len(left)} of {len(CHECKS)} planted faults were found")
    return left


def _found(check: Check, folder: Path, jobs: int) -> Iterator[Finding]:
    until, inputs = time.monotonic() + SECONDS, folder / "inputs"
    if check.part == "io":
        yield from _of(disk.campaign(
            folder, inputs, None, seed=1, jobs=jobs, until=until, most=1, only=[check.case], planted=check.planted
        ))  # fmt: skip
    elif check.part == "kills":
        yield from _of(kills.campaign(
            folder, inputs, seed=1, jobs=jobs, until=until, most=1, only=[check.case], planted=check.planted
        ))  # fmt: skip
    else:
        seconds, n_opened = (8.0, 0) if check.planted == "memory" else (0.0, 40)
        yield from _of(load.campaign(
            folder / "load", until=until, seconds=seconds, n_opened=n_opened, planted=check.planted
        ))  # fmt: skip


def _of(rows: Iterator[Row]) -> list[Finding]:
    return [finding for row in list(rows) for finding in row.findings]
