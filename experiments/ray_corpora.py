"""Search corpora that strain a cluster, on Ray and in one process; compare the vocabularies, seconds and memory.

    python -m experiments.ray_corpora TEXT [--nodes 2] [--files 20_000] [--packed 500_000_000] [--refused 0.3]

TEXT is repeated, a number after each line, into many files of 5 kB, one .gz file of `packed` bytes of text, and 20
files of a web server that refuses a share of the requests. ray.cluster_utils plays the nodes on this machine, one
core each, so seconds show what a cluster adds to the work, not what it saves. CPU seconds are those of all processes
of the cluster, without its start. The exit status is 1 if a vocabulary differs.
"""

from __future__ import annotations

import argparse
import gzip
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import IO

import psutil

from experiments.bench.measure import describe, machine, markdown_table

SMALL, N_SERVED = 5_000, 20


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--packed", type=int, default=500_000_000)
    parser.add_argument("--refused", type=float, default=0.3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corpora-") as name:
        folder = Path(name)
        write_corpora(given.text, folder, n_files=given.files, packed=given.packed)
        with server(folder / "served", refused=given.refused) as url:
            corpora = {
                f"{given.files:,} files of 5 kB": str(folder / "small"),
                f"one .gz of {given.packed / 1e6:,.0f} MB": str(folder / "packed.txt.gz"),
                f"{given.refused:.0%} of requests refused": f"{url}/*.txt",
            }
            rows = [
                compared(title, corpus, folder, given.nodes) for title, corpus in corpora.items()
            ]
    table = [row for pair in rows for row in pair]
    header = ["corpus", "where", "wall s", "CPU s", "driver, peak MB", "worker, peak MB", "result"]
    print(
        describe(machine("volt-vocab", "ray")), markdown_table(header, table, n_text=2), sep="\n\n"
    )
    return int(any(row[-1] == "differs" for row in table))


def write_corpora(text: Path, folder: Path, *, n_files: int, packed: int) -> None:
    """Write the three corpora. Numbers after the lines make the files differ."""
    lines = text.read_text(encoding="utf-8").splitlines()
    numbered = (f"{lines[number % len(lines)]} {number % 1_000}\n".encode() for number in count())
    for name, n, size in (("small", n_files, SMALL), ("served", N_SERVED, 1_000_000)):
        (folder / name).mkdir()
        for number in range(n):
            (folder / name / f"{number:06}.txt").write_bytes(b"".join(up_to(size, numbered)))
    with gzip.open(folder / "packed.txt.gz", "wb", compresslevel=3) as file:
        file.writelines(up_to(packed, numbered))


def up_to(size: int, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines until they have `size` bytes."""
    while size > 0:
        yield (line := next(lines))
        size -= len(line)


@contextmanager
def server(folder: Path, *, refused: float) -> Iterator[str]:
    """Serve a folder with its list, whole files only, refusing a share of the requests for a second."""
    draw = random.Random(1)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def copyfile(self, source: IO[bytes], outputfile: IO[bytes]) -> None:  # type: ignore[override]
            with suppress(ConnectionError):  # of readers that need only the first bytes
                super().copyfile(source, outputfile)

        def send_head(self) -> object:  # type: ignore[override]
            if draw.random() < refused:
                self.send_response(503)
                self.send_header("Retry-After", "1")
                self.end_headers()
                return None
            return super().send_head()

    web = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Handler(*args, directory=str(folder)))
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{web.server_address[1]}"
    web.shutdown()


def compared(title: str, corpus: str, folder: Path, n_nodes: int) -> list[list[str]]:
    """Search a corpus in one process and on a cluster: a row of the table for each."""
    from ray.cluster_utils import Cluster

    local, spread = folder / "local.volt", folder / "ray.volt"
    one = [title, "one process", *searched(corpus, local), ""]
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        for _ in range(n_nodes - 1):
            cluster.add_node(num_cpus=1)
        figures = searched(corpus, spread, "--engine", "ray", "--address", cluster.address)
    finally:
        cluster.shutdown()
    result = "equal" if local.read_bytes() == spread.read_bytes() else "differs"
    return [one, ["", f"Ray, {n_nodes} nodes", *figures, result]]


def searched(corpus: str, output: Path, *options: str) -> list[str]:
    """Search a corpus by the command: wall and CPU seconds, the driver's and the largest worker's peak in MB."""
    before, start = cpu_seconds(), time.monotonic()
    command = [
        sys.executable,
        "-m",
        "volt_cli",
        "search",
        corpus,
        "--select",
        "fixed:4000",
        "-q",
        "--force",
    ]
    driver = psutil.Popen([*command, "-o", str(output), *options], stdout=subprocess.DEVNULL)
    peaks, used = {"driver": 0, "worker": 0}, before
    while driver.poll() is None:
        used = max(used, cpu_seconds())
        for process in psutil.Process().children(recursive=True):
            kind = "driver" if process.pid == driver.pid else "worker"
            peaks[kind] = max(
                peaks[kind], resident(process) if kind == "driver" or is_worker(process) else 0
            )
        time.sleep(0.1)
    if driver.returncode:
        raise SystemExit(f"the search of {corpus} failed")
    return [
        f"{time.monotonic() - start:.1f}",
        f"{used - before:.1f}",
        *(f"{peak / 1e6:,.0f}" for peak in peaks.values()),
    ]


def cpu_seconds() -> float:
    """Return the CPU seconds of the processes started here, with their ended children."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def is_worker(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[:1] != [] and process.cmdline()[0].startswith("ray::")
    except psutil.Error:
        return False


def resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


if __name__ == "__main__":
    sys.exit(main())
