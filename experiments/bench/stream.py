"""Lines per second that a stream gives to a consumer that counts them, beside sotastream, in one run.

    python experiments/bench/stream.py --lines train.de.gz train.en.gz --peers VENV --json stream.json
    python experiments/bench/stream.py --lines … --pipelines case-noise      only this pipeline
    python experiments/bench/stream.py --lines … --config mine.yaml          only this configuration, without peers

stream_rows.py describes the pipelines. Each text of --lines is a field. VENV is a virtual environment with sotastream.

Each program is a process that writes lines to a pipe; another process counts line ends. The clock runs for --seconds
from the first line on, so neither start-up nor the first block counts. Both programs read the same folders of .gz
shards without end and shuffle equally many lines. `cpu` is CPU seconds per million lines, of all processes of a
program.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from measure import Job, absent_job, figures, parser, publish, run_rounds, stages
from stream_rows import PEERS, PIPELINES, make_data, peer_command

PROFILED = 500_000  # lines
PATIENCE = 90  # seconds to the first line; sotastream waits for ever for a process of its own that has failed
HERE = str(Path(__file__).absolute())


def count_lines(command: Sequence[str], *, folder: str, seconds: float) -> dict[str, float]:
    """Run a command for some seconds from its first line on; return the figures of a million lines."""
    start, lines = time.perf_counter(), 0
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, start_new_session=True)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
    signal.alarm(int(seconds) + PATIENCE)
    try:
        assert process.stdout
        pipe = process.stdout.fileno()
        data = os.read(pipe, 1 << 20)
        first, cpu = time.perf_counter(), cpu_seconds(process.pid)
        while time.perf_counter() < first + seconds and (data := os.read(pipe, 1 << 20)):
            lines += data.count(b"\n")
        wall, cpu = time.perf_counter() - first, cpu_seconds(process.pid) - cpu
    finally:
        end(process)
    if wall < seconds:
        sys.exit("the stream ended by itself")
    scale = 1e6 / max(lines, 1)
    return {"wall": wall * scale, "cpu": cpu * scale, "start": first - start}


def cpu_seconds(group: int) -> float:
    """Return the CPU seconds of the processes of a group and of the children that they have waited for."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def feed(
    config: str, cache: str, n_workers: int, *, limit: int | None = None, out: str = "/dev/stdout"
) -> None:
    from volt.stream import Stream

    with (
        Stream.from_config(config, n_workers=n_workers, cache=cache) as stream,
        open(out, "wb") as pipe,
    ):
        for block in stream.blocks(limit=limit):
            pipe.write(block)


def report(command: Sequence[str], *, folder: str, seconds: float) -> None:
    """Print the figures of a command as JSON; for VOLT, also where the time of a thread that does all the work goes."""
    result: dict[str, Any] = {"seconds": count_lines(command, folder=folder, seconds=seconds)}
    if command[1:3] == [HERE, "feed"]:
        config, cache = command[3:5]
        feed(config, cache, 0, limit=1, out=os.devnull)  # loads what is loaded once
        result["stages"] = stages(partial(feed, config, cache, 0, limit=PROFILED, out=os.devnull))
    print(json.dumps(result))


def jobs(options: Namespace, folder: Path) -> Iterator[Job]:
    """Make the data and all rows. The first run of a pipeline indexes its shards, uncounted."""
    names = [] if options.config else options.pipelines
    make_data(folder, names, texts=options.lines, n_shards=options.n_shards)
    configs = {name: folder / f"{name}.yaml" for name in names} or {
        "given": Path(options.config).absolute()
    }
    count = [sys.executable, HERE, "count", str(options.seconds)]
    for name, config in configs.items():
        if not options.peers and name in PEERS:
            yield absent_job(f"stream, {name}", "sotastream")
        for n in options.workers:
            ours = [sys.executable, HERE, "feed", str(config), str(folder / "cache"), str(n)]
            rows = [("volt", ours, os.getcwd())]
            if n and options.peers and name in PEERS:
                theirs = peer_command(options.peers.absolute(), folder, name, n_processes=n)
                rows.append(("sotastream", theirs, str(folder)))
            for program, command, home in rows:
                yield Job(
                    f"stream, {name}",
                    f"{n} workers",
                    program,
                    [*count, home, *command],
                    1.0,
                    unit="M lines",
                    phased=True,
                    warm_up=program == "volt" and n == options.workers[0],
                )


def main() -> None:
    made = parser(__doc__)
    made.add_argument(
        "--lines", type=Path, nargs="+", required=True, help="parallel texts, plain or .gz"
    )
    made.add_argument("--config", help="a configuration instead of the pipelines")
    made.add_argument("--pipelines", nargs="+", choices=PIPELINES, default=list(PIPELINES))
    made.add_argument(
        "--peers", type=Path, metavar="VENV", help="a virtual environment with sotastream"
    )
    made.add_argument("--n-shards", type=int, default=10)
    made.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    made.add_argument("--seconds", type=float, default=4, help="length of a run")
    options = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="volt-stream-") as folder:
        found = figures(run_rounds(list(jobs(options, Path(folder))), repeats=options.repeats))
        publish("Streams", found, packages=("volt-vocab", "numpy"), path=options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["feed"]:
        feed(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    elif sys.argv[1:2] == ["count"]:
        report(sys.argv[4:], folder=sys.argv[3], seconds=float(sys.argv[2]))
    else:
        main()
