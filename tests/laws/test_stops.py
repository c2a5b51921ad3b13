"""`volt stream run`, ended at chance places in every way there is: what was used is one uninterrupted stream."""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.streams import deadline, write_lines

from volt.stream.running.checkpoint import load_state
from volt.stream.running.stream import Stream
from volt_cli.app import main

CONFIG = """\
seed: 11
sources:
  one:
    path: one.tsv
    block_lines: 3000
    transforms: [choice: [{weight: 3}, {weight: 1, transforms: [upper, repeat: 2]}], regex: "7$"]
  two:
    path: two.tsv
    weight: {kind: linear, points: [[0, 0.2], [60000, 2]]}
    block_lines: 1700
    transforms: [tag: "[BT]", user: {file: mine.py, function: same}]
"""
WAYS = ("SIGINT", "SIGTERM", "SIGKILL", "worker")


class Run(NamedTuple):
    """A forked process that runs the command, and the end of its pipe."""

    pid: int
    pipe: int


def start(*arguments):
    """Run volt stream in a fork of this process, which need not import anything again."""
    pipe, out = os.pipe()
    if pid := os.fork():
        os.close(out)
        return Run(pid, pipe)
    status = 1
    try:
        os.dup2(out, 1)
        os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")  # pytest has put others there
        sys.argv = ["volt", "stream", *map(str, arguments)]
        main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        os._exit(status)


def children(pid):
    """The processes that a process has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            found.append(int(entry.parent.name))
    return found


def read_lines(pipe, n):
    """At least n lines, unless it ends, and perhaps a part of one more."""
    data = b""
    while data.count(b"\n") < n and (part := os.read(pipe, 4096)):
        data += part
    return data


def read_rest(pipe):
    """Return the rest of the stream."""
    parts = []
    while part := os.read(pipe, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def end(run, way):
    """End a run: what else came out of it, and its status. Nothing that it started is left."""
    workers = children(run.pid)
    served = [pid for pid in workers if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    target, number = (
        (served[0], signal.SIGKILL) if way == "worker" else (run.pid, signal.Signals[way])
    )
    os.kill(target, number)
    try:
        rest = read_rest(run.pipe)
    except TimeoutError:
        os.kill(run.pid, signal.SIGKILL)
        raise
    finally:
        os.close(run.pipe)
    status = os.waitstatus_to_exitcode(os.waitpid(run.pid, 0)[1])
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.01)
    return rest, status


@pytest.mark.parametrize(
    "n_stops", [4, pytest.param(12, marks=[pytest.mark.slow, pytest.mark.campaign])]
)
def test_stopped_at_chance_places_in_every_way_it_is_one_stream(tmp_path, monkeypatch, n_stops):
    """A stream that is stopped at random places, and resumed, yields the lines of an uninterrupted
    stream.

    It is stopped by a signal or SIGKILL, to the command or to a worker, and resumed with another
    number of workers; twelve combinations take turns. After SIGKILL of the command, the consumer's
    own count says where to resume, and otherwise the saved state.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_lines(tmp_path / "one.tsv", [f"a{n}\tb{n}" for n in range(50_000)])
    write_lines(tmp_path / "two.tsv", [f"c{n}\td{n}" for n in range(20_000)])
    (tmp_path / "stream.yaml").write_text(CONFIG)
    (tmp_path / "mine.py").write_text(
        "def same(fields):\n    return fields\n"
    )  # so that a worker is a process
    Stream.from_config("stream.yaml").skip(1)  # what can be imported beforehand
    used, random = b"", np.random.default_rng(n_stops)
    for stop in range(n_stops):
        way, n_workers = WAYS[stop % 4], (stop % 3) or int(stop % 4 == 3)
        ack = ["--ack", "ack"] if way == "SIGKILL" else []
        with deadline(30):
            options = [
                "--state",
                "s.json",
                "--state-every",
                int(random.integers(1, 4000)),
                "--workers",
                n_workers,
            ]
            run = start("run", "stream.yaml", "--resume", "-q", *options, *ack)
            found = read_lines(run.pipe, int(random.integers(1, 4000)))
            if way == "SIGKILL":
                found = found[: found.rindex(b"\n") + 1]
                (tmp_path / "ack").write_text(f"{used.count(10) + found.count(10)}\n")
                end(run, way)
            else:
                rest, status = end(run, way)
                found += rest
                assert status == (1 if way == "worker" else 128 + signal.Signals[way]), Path(
                    "stderr"
                ).read_text()
                assert found.endswith(b"\n")
                assert load_state("s.json")["n"] == used.count(10) + found.count(10)
        if way == "worker":
            assert "was killed by SIGKILL" in Path("stderr").read_text()
        used += found
        if way == "SIGKILL":  # go on behind what was used, which the next state then knows
            with deadline(30):
                run = start(
                    "run",
                    "stream.yaml",
                    "--resume",
                    "--limit",
                    0,
                    "-q",
                    "--state",
                    "s.json",
                    "--ack",
                    "ack",
                )
                assert end(run, "SIGCONT") == (b"", 0)
    whole = Stream.from_config("stream.yaml")
    n_lines = used.count(10)
    assert n_lines > 1000 * n_stops
    assert used.decode() == "".join(f"{line}\n" for line in islice(whole, n_lines))
