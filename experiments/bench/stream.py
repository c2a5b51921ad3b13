"""Lines per second that a stream gives to a consumer that counts them, against sotastream, in one run.

    python experiments/bench/stream.py --lines train.de.gz train.en.gz --peers VENV -o stream.json
    python experiments/bench/stream.py --lines … --pipelines case-noise      of the pipelines, this one alone
    python experiments/bench/stream.py --lines … --config mine.yaml          this configuration alone, without peers

The pipelines are described in stream_rows.py. Each text of --lines is a field; --languages names the parallel texts of
which the five pairs of `p3-languages` are made, by default those of --lines.

Each program runs as a process of its own and writes lines to a pipe; this process reads the pipe and counts line ends.
The clock runs from the first line on for --seconds (what a trainer sees), so neither start-up nor the first block
count; the time to the first line is told beside it, and so is the one-time cost of indexing. What had been computed
ahead when the first line came is a few blocks, which so many seconds make small. Both programs read the same folders
of .gz shards without end and hold the same number of lines for shuffling. Rounds go through all programs in turn, so
that a change of the machine's load meets each; the median over rounds is told. A program that has failed is not run
again. Lines per processor second are told as well, since they change less where other processes are busy; such rows
are marked. Where lines go through a function of the user's, the table tells what share of the processor time that
function would take alone. VENV is a virtual environment with sotastream 1.0.1 installed; without it only VOLT runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from measure import BUSY, MARK, busy_seconds, describe, machine, markdown_table, write_json
from rows import Claim
from stream_rows import CONFIGS, SHARD_LINES, Data, make_data, peer_command, peers_of

WORKERS = (1, 2)
PATIENCE = 90  # seconds to the first line; sotastream waits for ever for a process of its own that has failed
AIMS = {"user": 3.0, "user-light": 3.0}  # how many times as fast as sotastream, where not 8
AIM, AIM_OF_WORKERS = 8.0, 1.7


@dataclass(frozen=True, slots=True)
class Job:
    """What is measured: a pipeline in a program, with so many workers, by a command that runs in a folder."""

    pipeline: str
    program: str
    n_workers: int
    command: Sequence[str]
    folder: Path

    @property
    def name(self) -> str:
        """How it is told."""
        unit = "worker" if self.program == "volt" else "process"
        ending = "es" if unit == "process" else "s"
        return f"{self.pipeline}: {self.program}, {self.n_workers} {unit}{ending * (self.n_workers > 1)}"


@dataclass(frozen=True, slots=True)
class Flow:
    """One run: lines counted, seconds from the first to the last, and to the first; processor seconds meanwhile, all
    its processes together;  others: cores that other processes kept busy;  error: why it failed."""

    lines: int
    seconds: float
    first: float
    cpu: float = 0.0
    others: float = 0.0
    error: str = ""

    @property
    def rate(self) -> float:
        """Lines per second."""
        return self.lines / self.seconds if self.seconds else 0.0

    @property
    def thrift(self) -> float:
        """Lines per processor second, which other processes change less."""
        return self.lines / self.cpu if self.cpu else 0.0


def flow(job: Job, *, seconds: float) -> Flow:
    """Run a command for so many seconds from its first line on, and end it."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            job.command, cwd=job.folder, stdout=subprocess.PIPE, stderr=told, start_new_session=True
        )
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.alarm(int(seconds) + PATIENCE)
        try:
            found = _count(process, seconds, start)
        finally:
            signal.alarm(0)
            end(process)
        told.seek(0)
        error = told.read().decode(errors="replace").strip().rpartition("\n")[2]
    return found if found.seconds >= seconds else Flow(0, 0, 0, error=error or "it ended by itself")


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
    """Processor seconds that the processes of a group have used, those that they have waited for included.

    >>> cpu_seconds(os.getpgrp()) >= 0
    True
    """
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            told = path.read_text().rpartition(")")[2].split()
            if int(told[2]) == group:
                ticks += sum(map(int, told[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and those that it started."""
    assert process.stdout
    process.stdout.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def feed(arguments: argparse.Namespace) -> None:
    """Write a stream to stdout: what the other process counts."""
    from volt.stream import Stream

    with Stream.from_config(arguments.config, n_workers=arguments.workers, cache=arguments.cache) as stream:
        for block in stream.blocks():
            sys.stdout.buffer.write(block)


def jobs(arguments: argparse.Namespace, data: Data) -> Iterator[Job]:
    """Everything that is measured."""
    configs = {name: str(data.folder / f"{name}.yaml") for name in arguments.pipelines}
    if arguments.config:
        configs = {"given": str(Path(arguments.config).absolute())}
    for name, config in configs.items():
        for n in WORKERS:
            own = [sys.executable, str(Path(__file__).absolute()), "feed", "--config", config]
            command = [*own, "--cache", str(data.folder / "cache"), "--workers", str(n)]
            yield Job(name, "volt", n, command, Path.cwd())
        for n in peers_of(name) if arguments.peers else ():
            yield Job(
                name, "sotastream", n, peer_command(arguments.peers.absolute(), data, name, n_processes=n), data.folder
            )


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure all, in rounds."""
    with tempfile.TemporaryDirectory(prefix="volt-stream-") as folder:
        names = [] if arguments.config else arguments.pipelines
        texts, languages = arguments.lines, arguments.languages or arguments.lines
        data = make_data(Path(folder), names, texts=texts, languages=languages, n_shards=arguments.n_shards)
        todo, facts = list(jobs(arguments, data)), machine("volt-vocab", "numpy")
        indexed = flow(todo[0], seconds=0)
        flows: dict[str, list[Flow]] = {job.name: [] for job in todo}
        for _ in range(arguments.rounds):
            for job in todo:
                if not any(one.error for one in flows[job.name]):
                    flows[job.name].append(flow(job, seconds=arguments.seconds))
                    print(job.name, flows[job.name][-1], file=sys.stderr)
    rows = {job.name: _row(job, flows[job.name], own=data.own_seconds.get(job.pipeline, 0.0)) for job in todo}
    first = {"seconds": round(indexed.first, 2), "error": indexed.error}
    size = {"shards": arguments.n_shards, "shard_lines": SHARD_LINES, "seconds": arguments.seconds}
    told = {**size, "lines_each": dict(data.lines_each), "first_start": first, "programs": rows}
    return {"machine": facts, **told, "claims": [asdict(claim) for claim in claims(list(rows.values()))]}


def _row(job: Job, found: Sequence[Flow], *, own: float) -> dict[str, Any]:
    """The medians. own: processor seconds that the user's function takes for a line."""
    good = [one for one in found if not one.error]
    row: dict[str, Any] = {"pipeline": job.pipeline, "program": job.program, "n_workers": job.n_workers}
    row["runs"] = [asdict(one) for one in found]
    if good:
        row["lines_per_second"] = round(median(one.rate for one in good))
        row["lines_per_cpu_second"] = round(median(one.thrift for one in good))
        row["own_share"] = round(own * row["lines_per_cpu_second"], 2)
        row["others"] = median(one.others for one in good)
        row["seconds_to_first_line"] = round(median(one.first for one in good), 2)
    return row


def claims(rows: Sequence[dict[str, Any]]) -> Iterator[Claim]:
    """What is aimed at, and what was found.

    >>> row = {"pipeline": "user", "program": "volt", "n_workers": 1, "lines_per_second": 600}
    >>> peer = row | {"program": "sotastream", "lines_per_second": 200}
    >>> [(claim.name, claim.found, claim.holds) for claim in claims([row, peer])]
    [('user, 1 worker: volt ÷ sotastream', 3.0, True)]
    """
    speeds = {(row["pipeline"], row["program"], row["n_workers"]): row.get("lines_per_second", 0) for row in rows}
    for (pipeline, program, n), speed in speeds.items():
        if program == "volt" and (other := speeds.get((pipeline, "sotastream", n))):
            name = f"{pipeline}, {n} worker{'s' * (n > 1)}: volt ÷ sotastream"
            yield Claim(name, AIMS.get(pipeline, AIM), round(speed / other, 2))
        if program == "volt" and n > 1 and (one := speeds.get((pipeline, program, 1))):
            yield Claim(f"{pipeline}: {n} workers ÷ 1", AIM_OF_WORKERS, round(speed / one, 2))


def tables(result: dict[str, Any]) -> Iterator[str]:
    """The medians, and what was aimed at, as Markdown."""
    rows = [_cells(name, row) for name, row in result["programs"].items()]
    yield markdown_table(["program", "lines/s", "lines per CPU s", "the user's function", "s to the first line"], rows)
    if any(row.get("others", 0) > BUSY for row in result["programs"].values()):
        yield f"\n{MARK} Other processes kept more than {BUSY} cores busy meanwhile."
    yield from (f"\n{name}: one line of {n:.1f} that were read" for name, n in result["lines_each"].items())
    found = [Claim(**claim) for claim in result["claims"]]
    told = [[one.name, f"≥ {one.wanted:g}", f"{one.found}", "yes" if one.holds else "no"] for one in found]
    yield "\n" + markdown_table(["figure", "aim", "found", ""], told)


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    if "lines_per_second" not in row:
        return [name, row["runs"][-1]["error"], "", "", ""]
    mark = MARK if row["others"] > BUSY else ""
    return [
        name,
        f"{row['lines_per_second']:,}{mark}",
        f"{row['lines_per_cpu_second']:,}",
        f"{row['own_share']:.0%} of the CPU s" if row["own_share"] else "",
        f"{row['seconds_to_first_line']}",
    ]


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", nargs="?", choices=["compare", "feed"], default="compare")
    parser.add_argument("--lines", type=Path, nargs="+", help="parallel texts, plain or .gz, of which shards are made")
    parser.add_argument(
        "--languages", type=Path, nargs="+", help="parallel texts in several languages, TEXT.LANGUAGE.gz"
    )
    parser.add_argument("--cache", help="feed: the folder for indices")
    parser.add_argument("--workers", type=int, default=1, help="feed: workers")
    parser.add_argument("--config", help="a configuration instead of the pipelines; feed: what to read")
    parser.add_argument("--pipelines", nargs="+", choices=CONFIGS, default=list(CONFIGS))
    parser.add_argument("--peers", type=Path, help="a virtual environment with sotastream")
    parser.add_argument("--n-shards", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=4, help="how long a run is measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    if arguments.job == "feed":
        feed(arguments)
        return
    if not arguments.lines:
        parser.error("name a text with --lines")
    result = compare(arguments)
    print(describe(result["machine"]), "", *tables(result), sep="\n")
    if arguments.output:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
