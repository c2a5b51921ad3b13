"""Kill workers, machines and drivers of a Ray cluster at random moments; compare the results with one process.

    python experiments/ray_kills.py [--times 10] [--victims worker machine driver]

ray.cluster_utils plays two machines on this one. A driver process counts shards and ranges, searches and writes a
vocabulary, and encodes the shards into a folder. Each time, SIGKILL ends a worker, the second machine (its raylet), or
the driver, which then runs again. All files must equal those of a run
without Ray, byte for byte, and no process of a killed driver may live on. The exit status is 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

VICTIMS = ("worker", "machine", "driver")
PATIENCE = 60.0  # seconds in which processes of a dead driver must end
WORKS = 6.5  # seconds that an undisturbed driver works


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=10, help="kills of each victim")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--victims", nargs="*", choices=VICTIMS, default=list(VICTIMS))
    given, n_faults = parser.parse_args(), 0
    draw = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        corpus, local, out = (Path(name, part) for part in ("corpus", "local", "out"))
        write_corpus(corpus)
        drive("local", str(corpus), str(local))
        for victim in given.victims:
            for number in range(given.times):
                faults = kill(victim, corpus, out, draw)
                wanted, found = contents(local), contents(out)
                faults += [
                    f"{path} differs"
                    for path in wanted.keys() | found
                    if wanted.get(path) != found.get(path)
                ]
                n_faults += bool(faults)
                print(f"{victim} {number + 1}: {', '.join(faults) or 'equal'}", flush=True)
                shutil.rmtree(out, ignore_errors=True)
    print(f"{n_faults} kills left a difference")
    return int(n_faults > 0)


def write_corpus(folder: Path) -> None:
    """Write twelve shards of drawn words, one without a last line end, and one packed."""
    draw, words = random.Random(1), [f"w{number:x}ord" for number in range(20_000)]
    folder.mkdir()
    for shard in range(12):
        lines = (" ".join(draw.choices(words, k=9)) for _ in range(50_000))
        (folder / f"{shard:02}.txt").write_text("\n".join(lines) + "\n" * (shard != 5))
    subprocess.run(["gzip", str(folder / "07.txt")], check=True)


def drive(address: str, corpus: str, out: str) -> None:
    """Count, search, encode: the driver. address: of a cluster, or "local" for this process alone."""
    from volt import Encoder, count_words, learn_bpe, search
    from volt.encode.files import EncodeJob, encode_each

    counting: dict[str, Any] = {}
    writing: dict[str, Any] = {}
    cluster: Any = nullcontext()
    if address != "local":
        from volt.ext.ray import RayMap, RayWriter
        from volt.ext.ray_cluster import connected

        counting, writing = {"map": RayMap(range_size=1 << 20)}, {"write": RayWriter()}
        cluster = connected(address)
    with cluster:
        print("connected", flush=True)
        counts = count_words(corpus, **counting)
        Path(out).mkdir(exist_ok=True)
        Path(out, "counts.txt").write_text(
            f"{counts.fingerprint} {counts.n_lines} {counts.n_bytes}"
        )
        vocabulary = search(learn_bpe(counts, 4000), sizes=range(2000, 4001, 1000)).vocabulary
        vocabulary.save(Path(out, "a.volt"))
        for form in ("pieces", "bin"):
            paths = sorted(map(str, Path(corpus).iterdir()))
            for _ in encode_each(
                Encoder(vocabulary), paths, Path(out, form), job=EncodeJob(form), **writing
            ):
                pass


def contents(folder: Path) -> dict[str, bytes]:
    """Read all files below a folder but the list of outputs, which holds times."""
    files = (
        path for path in folder.rglob("*") if path.is_file() and path.name != ".volt-encoded.json"
    )
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def kill(victim: str, corpus: Path, out: Path, draw: random.Random) -> list[str]:
    """Run a driver, kill the victim meanwhile, and run the driver again if it died; return faults."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        machine = cluster.add_node(num_cpus=1)
        if victim == "driver":
            return kill_driver(cluster.address, corpus, out, draw.uniform(0, WORKS))
        process = start(cluster.address, corpus, out)
        time.sleep(draw.uniform(0, WORKS))
        pids = [one.process.pid for one in machine.all_processes["raylet"]]
        if victim == "worker":
            workers = [
                pid
                for pid, name in ray_processes().items()
                if name.startswith(("ray::_", "ray::IDLE"))
            ]
            pids = draw.sample(workers, min(1, len(workers)))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        status = process.wait(timeout=300)
        return [f"the driver ended with {status}"] if status else []
    finally:
        cluster.shutdown()


def kill_driver(address: str, corpus: Path, out: Path, after: float) -> list[str]:
    before = set(ray_processes())
    process = start(address, corpus, out)
    time.sleep(after)
    process.kill()
    process.wait()
    died, left = time.monotonic(), set(ray_processes()) - before
    while left and time.monotonic() - died < PATIENCE:
        time.sleep(0.1)
        left &= set(ray_processes())
    status = start(address, corpus, out).wait(timeout=300)
    faults = [f"the second driver ended with {status}"] if status else []
    return [f"{len(left)} processes live on", *faults] if left else faults


def start(address: str, corpus: Path, out: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, __file__, "drive", address, corpus, out], stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()
    return process


def ray_processes() -> dict[int, str]:
    lines = subprocess.run(
        ["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    found = {int(pid): name for pid, name in (line.split(maxsplit=1) for line in lines)}
    return {pid: name for pid, name in found.items() if name.startswith("ray::") or "/ray/" in name}


if __name__ == "__main__":
    if sys.argv[1:2] == ["drive"]:
        drive(*sys.argv[2:])
    else:
        sys.exit(main())
