"""Lines per second that a stream gives to a consumer that counts them, beside sotastream, in one run.

    python experiments/bench/stream.py --lines train.de.gz train.en.gz --peers VENV --json stream.json
    python experiments/bench/stream.py --lines … --pipelines case-noise      only this pipeline
    python experiments/bench/stream.py --lines … --config mine.yaml          only this configuration, without peers

stream_rows.py describes the pipelines. Each text of --lines is a field; --languages names the parallel texts of the
five pairs of `languages`, by default those of --lines. VENV is a virtual environment with sotastream 1.0.1.

Each program is a process that writes lines to a pipe; this process counts line ends. The clock runs for --seconds from
the first line on, so neither start-up nor the first block counts. Both programs read the same folders of .gz shards
without end and shuffle equally many lines. Rounds go through all programs in turn; figures are medians. Lines per CPU
second change less where other processes are busy; such rows are marked.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from measure import BUSY, MARK, busy_seconds, describe, machine, markdown_table, parser, say, write_json
from stream_rows import PEERS, PIPELINES, make_data, peer_command

WORKERS = (1, 2)
PATIENCE = 90  # seconds to the first line; sotastream waits for ever for a process of its own that has failed


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline in a program, with a number of workers, and the command that runs it in a folder."""

    pipeline: str
    program: str
    n_workers: int
    command: Sequence[str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Flow:
    """One run: lines counted, seconds from the first to the last, and to the first; CPU seconds of all its processes
    meanwhile;  others: cores that other processes kept busy;  error: why it failed."""

    lines: int
    seconds: float
    first: float
    cpu: float = 0.0
    others: float = 0.0
    error: str = ""


def flow(job: Job, *, seconds: float) -> Flow:
    """Run a command for some seconds from its first line on, and end it."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            job.command, cwd=job.folder, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.alarm(int(seconds) + PATIENCE)
        try:
            measured = _count(process, seconds, start)
        finally:
            signal.alarm(0)
            end(process)
        errors.seek(0)
        error = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    return measured if measured.seconds >= seconds else Flow(0, 0, 0, error=error or "it ended by itself")


def _count(process: subprocess.Popen[bytes], seconds: float, start: float) -> Flow:
    assert process.stdout
    pipe, lines = process.stdout.fileno(), 0
    data = os.read(pipe, 1 << 20)
    first, cpu, busy, own = time.perf_counter(), cpu_seconds(process.pid), busy_seconds(), time.process_time()
    while time.perf_counter() < first + seconds and (data := os.read(pipe, 1 << 20)):
        lines += data.count(b"\n")
    wall, cpu, busy = time.perf_counter() - first, cpu_seconds(process.pid) - cpu, busy_seconds() - busy
    others = max(0.0, busy - cpu - (time.process_time() - own)) / wall
    return Flow(lines, wall, first - start, cpu=cpu, others=round(others, 2))


def cpu_seconds(group: int) -> float:
    """Return the CPU seconds of the processes of a group and of the children that they have waited for.

    >>> cpu_seconds(os.getpgrp()) >= 0
    True
    """
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and its children."""
    assert process.stdout
    process.stdout.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def feed(config: str, cache: str, n_workers: int) -> None:
    """Write a stream to stdout."""
    from volt.stream import Stream

    with Stream.from_config(config, n_workers=n_workers, cache=cache) as stream:
        for block in stream.blocks():
            sys.stdout.buffer.write(block)


def jobs(options: Namespace, folder: Path) -> Iterator[Job]:
    """Make the data and all rows."""
    names = [] if options.config else options.pipelines
    make_data(
        folder, names, texts=options.lines, languages=options.languages or options.lines, n_shards=options.n_shards
    )
    configs = {name: folder / f"{name}.yaml" for name in names} or {"given": Path(options.config).absolute()}
    for name, config in configs.items():
        for n in WORKERS:
            command = [
                sys.executable,
                str(Path(__file__).absolute()),
                "feed",
                str(config),
                str(folder / "cache"),
                str(n),
            ]
            yield Job(name, "volt", n, command, Path.cwd())
        for n in WORKERS if options.peers and name in PEERS else ():
            command = peer_command(options.peers.absolute(), folder, name, n_processes=n)
            yield Job(name, "sotastream", n, command, folder)


def as_table(todo: Sequence[Job], flows: Sequence[Sequence[Flow]]) -> str:
    """Format the medians, and the ratio of VOLT's speed to the peer's."""
    rates = {}
    for job, done in zip(todo, flows, strict=True):
        if not any(one.error for one in done):
            rates[job.pipeline, job.program, job.n_workers] = median(one.lines / one.seconds for one in done)
    rows = []
    for job, done in zip(todo, flows, strict=True):
        rate = rates.get((job.pipeline, job.program, job.n_workers))
        if rate is None:
            rows.append([job.pipeline, job.program, str(job.n_workers), done[-1].error, *[""] * 3])
            continue
        peer = rates.get((job.pipeline, "sotastream", job.n_workers)) if job.program == "volt" else None
        mark = MARK if median(one.others for one in done) > BUSY else ""
        thrift = median(one.lines / one.cpu if one.cpu else 0 for one in done)
        first = median(one.first for one in done)
        ratio = f"{rate / peer:.1f}" if peer else "–"
        rows.append(
            [
                job.pipeline,
                job.program,
                f"{job.n_workers}{mark}",
                f"{rate:,.0f}",
                ratio,
                f"{thrift:,.0f}",
                f"{first:.2f}",
            ]
        )
    header = ["pipeline", "program", "workers", "lines/s", "ratio", "lines per CPU s", "s to the first line"]
    return markdown_table(header, rows, n_text=2)


def main() -> None:
    """Measure what the command line asks for."""
    made = parser(__doc__)
    made.add_argument("--lines", type=Path, nargs="+", required=True, help="parallel texts, plain or .gz")
    made.add_argument("--languages", type=Path, nargs="+", help="parallel texts in languages, TEXT.LANGUAGE.gz")
    made.add_argument("--config", help="a configuration instead of the pipelines")
    made.add_argument("--pipelines", nargs="+", choices=PIPELINES, default=list(PIPELINES))
    made.add_argument("--peers", type=Path, metavar="VENV", help="a virtual environment with sotastream")
    made.add_argument("--n-shards", type=int, default=10)
    made.add_argument("--seconds", type=float, default=4, help="length of a run")
    options = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="volt-stream-") as folder:
        todo, facts = list(jobs(options, Path(folder))), machine("volt-vocab", "numpy")
        flow(todo[0], seconds=0)  # indexes the shards
        flows: list[list[Flow]] = [[] for _ in todo]
        for _ in range(options.repeats):
            for job, done in zip(todo, flows, strict=True):
                if not any(one.error for one in done):
                    done.append(flow(job, seconds=options.seconds))
                    say(f"{job.pipeline}, {job.program}, {job.n_workers} workers: {done[-1]}")
    print(describe(facts), as_table(todo, flows), sep="\n\n")
    if options.json:
        rows = [
            {
                "pipeline": job.pipeline,
                "program": job.program,
                "n_workers": job.n_workers,
                "runs": list(map(asdict, done)),
            }
            for job, done in zip(todo, flows, strict=True)
        ]
        write_json(options.json, {"machine": facts, "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["feed"]:
        feed(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
