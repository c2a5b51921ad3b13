"""Load: a stream of eight sources with a slow consumer for minutes, and thousands of streams opened and closed.

slow    `volt stream run` with two workers in a process of its own; its consumer reads a little, waits, and falls
        behind. The memory of the process and its workers (RSS, summed) is noted four times a second. After a third
        of the time, which is for warming up, the median of the first quarter of what is left is held against the
        median of the last: they may differ by 2 %
opened  streams are opened, read for a few lines and closed, most of them without workers. Descriptors, threads,
        processes and temporary files afterwards are those of before; how memory has grown is told
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from experiments.faults.child import module_path
from experiments.faults.stage import words
from experiments.faults.table import Finding, Row

N_SOURCES = 8
WARM = 1 / 3  # the share of the time that is for warming up
FLAT = 0.02  # of the median, that memory may differ by
PAUSE = 0.02  # seconds between two reads of the slow consumer
BITE = 2048  # bytes that it reads
SAMPLE = 0.25  # seconds
WORKERS_EVERY = 100  # one of so many streams has a worker


def campaign(folder: Path, *, until: float, seconds: float, n_opened: int, planted: str = "") -> Iterator[Row]:
    """A row for each. seconds: of the slow consumer;  n_opened: streams to open and close;  planted: one of ours."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_config(folder)
    if seconds:
        yield _slow(folder, seconds, planted)
    if n_opened:
        yield _opened(folder, n_opened, until, planted)


def _write_config(folder: Path) -> None:
    sources = []
    for number in range(N_SOURCES):
        (folder / f"s{number}.tsv").write_text("".join(f"{line}\tx\n" for line in words(number, 2000).splitlines()))
        step = ("lower", "upper", 'tag: "[A]"', "repeat: 2", 'regex: "ba"', "skip_blank", "title", "copy")[number]
        sources.append(
            f"  s{number}:\n    path: s{number}.tsv\n    weight: {number + 1}\n    block_lines: {100 + 50 * number}\n"
            f"    transforms: [{{{step}}}]\n" if ":" in step else
            f"  s{number}:\n    path: s{number}.tsv\n    weight: {number + 1}\n    block_lines: {100 + 50 * number}\n"
            f"    transforms: [{step}]\n"
        )  # fmt: skip
    (folder / "load.yaml").write_text("seed: 3\nsources:\n" + "".join(sources))
    (folder / "little.tsv").write_text(words(1, 30))
    (folder / "little.yaml").write_text("seed: 1\nsources: {one: {path: little.tsv, transforms: [lower]}}\n")


def _slow(folder: Path, seconds: float, planted: str) -> Row:
    row, again = Row("load", "slow consumer, s", planned=round(seconds)), "python -m experiments.faults load"
    own = {"PYTHONPATH": module_path(), "XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder)}
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "volt_cli", "stream", "run", str(folder / "load.yaml"), "--workers", "2", "-q"],
            cwd=folder, env=os.environ | own, start_new_session=True, stdout=subprocess.PIPE, stderr=told,
        )  # fmt: skip
        try:
            samples, n_lines = _sampled(process, seconds, leak=planted == "memory")
            end = process.poll()
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
        told.seek(0)
        if end is not None:
            said = told.read().decode(errors="replace")[-300:]
            row.findings.append(Finding("load", "status", "slow", f"ended with {end} on its own: {said}", again))
    row.done = row.seconds = round(samples[-1][0]) if samples else 0
    first, last = _quarters([rss for moment, rss in samples if moment > WARM * seconds])
    grown = last / first - 1 if first else 0.0
    _tell(f"load: memory {first / 1e6:.1f} MB, then {last / 1e6:.1f} MB ({grown:+.2%}); {n_lines:,} lines were read")
    if abs(grown) > FLAT:
        row.findings.append(
            Finding("load", "memory", "slow", f"{first / 1e6:.1f} MB became {last / 1e6:.1f} MB", again)
        )
    return row


def _sampled(process: subprocess.Popen[bytes], seconds: float, *, leak: bool) -> tuple[list[tuple[float, int]], int]:
    """Moments and memory while the consumer reads, slowly; and how many lines it has read."""
    assert process.stdout is not None
    start, samples, n_lines, due, told = time.monotonic(), [], 0, 0.0, 0.0
    while (now := time.monotonic() - start) < seconds and process.poll() is None:
        n_lines += os.read(process.stdout.fileno(), BITE).count(b"\n")
        if now >= due:
            samples.append((now, group_memory(process.pid) + (int(now * 1e8) if leak else 0)))
            due = now + SAMPLE
        if now > told + 10:
            told = now
            _tell(f"load: {now:,.0f} of {seconds:,.0f} s, {samples[-1][1] / 1e6:.1f} MB")
        time.sleep(PAUSE)
    return samples, n_lines


def _quarters(values: Sequence[int]) -> tuple[float, float]:
    """The medians of the first and of the last quarter.

    >>> _quarters([1, 1, 2, 2, 3, 3, 4, 4])
    (1.0, 4.0)
    """
    size = max(1, len(values) // 4)
    return (float(statistics.median(values[:size])), float(statistics.median(values[-size:]))) if values else (0.0, 0.0)


def group_memory(group: int) -> int:
    """Bytes of memory in use by the processes of a group."""
    page, total = resource.getpagesize(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                total += int((folder / "statm").read_text().split()[1]) * page
        except (OSError, ValueError, IndexError):
            continue
    return total


def _opened(folder: Path, n: int, until: float, planted: str) -> Row:
    """In a process of its own, so that what it holds is its own."""
    row, start = Row("load", "streams opened", planned=n), time.monotonic()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    limit = max(1.0, until - start)
    process = context.Process(target=_open_and_close, args=(folder, n, limit, theirs, planted))
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(limit + 120) else None
    except EOFError:
        found = None
    process.join(10)
    process.kill()
    again = f"python -m experiments.faults load --opened {n}"
    if found is None:
        row.findings.append(Finding("load", "hung", "opened", f"no answer; exit status {process.exitcode}", again))
    else:
        row.done, before, after, memory = found
        differ = [f"{name}: {before[name]}, then {after[name]}" for name in before if after[name] != before[name]]
        _tell(f"load: {row.done:,} streams; memory {memory[0] / 1e6:.1f} MB, then {memory[1] / 1e6:.1f} MB; {after}")
        if differ:
            row.findings.append(Finding("load", "left", "opened", "; ".join(differ), again))
    row.seconds = time.monotonic() - start
    return row


def _open_and_close(folder: Path, n: int, limit: float, answer: object, planted: str) -> None:
    from volt.stream import Stream

    private, end, kept = folder / "tmp", time.monotonic() + limit, []
    private.mkdir(exist_ok=True)
    tempfile.tempdir = str(private)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    before: dict[str, int] = {}
    memory, done = 0, 0
    for number in range(n):
        if number == min(n // 10, 200):
            before, memory = _held(private), _own_memory()
        if time.monotonic() > end:
            break
        workers = int(number % WORKERS_EVERY == 1)
        with Stream.from_config(folder / "little.yaml", n_workers=workers, start_method="fork") as stream:
            list(islice(stream, 5))
        if planted == "descriptor":
            kept.append(open(os.devnull))  # noqa: SIM115
        done += 1
    gc.collect()
    answer.send((done, before, _held(private), (memory, _own_memory())))  # type: ignore[attr-defined]


def _held(private: Path) -> dict[str, int]:
    """How many of what a process must give back it has."""
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "processes": len(multiprocessing.active_children()),
        "temporary files": sum(1 for _ in private.rglob("*")),
    }


def _own_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
