"""Workers, machines and drivers of a Ray cluster killed at random moments: are the results those of one process?

    python experiments/ray_kills.py --times 10

Two machines are played on this one by ray.cluster_utils. A driver, a process of its own, counts shards and ranges,
finds and writes a vocabulary, and encodes the shards into a folder. Each time something is sent SIGKILL at a moment
between the connection and the end: a worker, the second machine (its raylet), or the driver, which is then run again.
A driver with a cluster of its own is killed as well. Counts, vocabulary and encoded files must be those of a run
without Ray, byte for byte, no part of a file may be left, and after a driver no process of its may live on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VICTIMS = ("worker", "node", "driver", "driver with a cluster of its own")
PATIENCE = 60.0  # seconds that processes of a dead driver have to end
_RANGE = 1 << 20


def main() -> None:
    """Print a row for each kill; the exit status says whether all were as they should be."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=10, help="how often each is killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--victims", nargs="*", choices=VICTIMS, default=list(VICTIMS))
    parser.add_argument("--drive", nargs=3, metavar=("ADDRESS", "CORPUS", "OUT"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.drive:
        drive(*asked.drive)
        return
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        sys.exit(campaign(Path(name), asked.times, asked.victims, random.Random(asked.seed)))


def campaign(folder: Path, times: int, victims: list[str], draw: random.Random) -> int:
    """How many kills left something that should not be."""
    corpus, local = folder / "corpus", folder / "local"
    write_corpus(corpus)
    drive("local", str(corpus), str(local))
    wanted, n_faults = contents(local), 0
    for victim in victims:
        for number in range(times):
            found = killed(victim, corpus, folder / "out", draw)
            faults = [*found["faults"], *differences(wanted, contents(folder / "out"))]
            n_faults += bool(faults)
            told = f"{victim} {number + 1}: after {found['after']:.2f} s, {found['what']}; {found['took']:.1f} s"
            print(f"{told}: {', '.join(faults) or 'equal'}", flush=True)
            shutil.rmtree(folder / "out")
    print(f"{n_faults} of {times * len(victims)} kills left something that differs")
    return int(n_faults > 0)


def write_corpus(folder: Path) -> None:
    """Twelve shards of drawn words, one of them without a last line end, and one that is packed."""
    draw, words = random.Random(1), [f"w{number:x}ord" for number in range(20_000)]
    folder.mkdir()
    for shard in range(12):
        lines = (" ".join(draw.choices(words, k=9)) for _ in range(50_000))
        (folder / f"{shard:02}.txt").write_text("\n".join(lines) + "\n" * (shard != 5))
    subprocess.run(["gzip", str(folder / "07.txt")], check=True)


def drive(address: str, corpus: str, out: str) -> None:
    """Count, search, encode: what is killed. address: local for this process alone, own for a cluster of its own."""
    from contextlib import nullcontext

    from volt import Encoder, count_words, learn_bpe, search
    from volt.encode.files import Job, encode_each
    from volt.files.atomic import write_atomic

    options: list[dict[str, Any]] = [{}, {}]
    is_local = address == "local"
    if not is_local:
        from volt.ext.ray import RayMap, RayWriter
        from volt.ext.ray_cluster import connected

        options = [{"map": RayMap(range_size=_RANGE)}, {"write": RayWriter()}]
    with nullcontext() if is_local else connected(None if address == "own" else address):
        print("connected", flush=True)
        counts = count_words(corpus, **options[0])
        Path(out).mkdir(exist_ok=True)
        numbers = counts.fingerprint, counts.n_lines, counts.n_bytes, counts.n_bad_lines
        with write_atomic(Path(out, "counts.json")) as file:
            file.write(json.dumps(numbers).encode())
        vocabulary = search(learn_bpe(counts, 4000), sizes=range(2000, 4001, 1000)).vocabulary
        vocabulary.save(Path(out, "a.volt"))
        for form in ("pieces", "bin"):
            paths = sorted(map(str, Path(corpus).iterdir()))
            for _ in encode_each(Encoder(vocabulary), paths, Path(out, form), job=Job(form), **options[1]):
                pass


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder but for what says when outputs were made."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".volt-encoded.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def differences(wanted: dict[str, bytes], found: dict[str, bytes]) -> list[str]:
    """What is missing, too much, or other."""
    return [f"{name} differs" for name in sorted(wanted.keys() | found) if wanted.get(name) != found.get(name)]


def killed(victim: str, corpus: Path, out: Path, draw: random.Random) -> dict[str, Any]:
    """Run a driver, kill something meanwhile, run the driver again if it was the victim."""
    if victim == VICTIMS[3]:
        return kill_driver("own", corpus, out, draw, whole=_STARTS)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        node = cluster.add_node(num_cpus=1)
        if victim == "driver":
            return kill_driver(cluster.address, corpus, out, draw, whole=0.0)
        start = time.monotonic()
        process, after = started(cluster.address, corpus, out), draw.uniform(0, _WORKS)
        time.sleep(after)
        was_running = process.poll() is None
        what = kill_worker(draw) if victim == "worker" else kill_raylet(node)
        status = process.wait(timeout=300)
        faults = [f"the driver ended with {status}"] if status else []
        if not was_running:
            what = "it was done already"
        return {"after": after, "what": what, "took": time.monotonic() - start, "faults": faults}
    finally:
        cluster.shutdown()


_WORKS, _STARTS = 6.5, 4.0  # seconds that a driver works when nothing is killed, and that a cluster of its own starts


def kill_driver(address: str, corpus: Path, out: Path, draw: random.Random, *, whole: float) -> dict[str, Any]:
    """Kill a driver; see what it left; run it again. whole: seconds before its work when it may be killed, too."""
    start = time.monotonic()
    before = set(ray_processes())
    process = started(address, corpus, out, wait=not whole)
    after = draw.uniform(0, _WORKS + whole)
    time.sleep(after)
    process.kill()
    process.wait()
    n_done = len(contents(out)) if out.exists() else 0
    left = set(ray_processes()) - before
    died = time.monotonic()
    while left and time.monotonic() - died < PATIENCE:
        time.sleep(0.1)
        left &= set(ray_processes())
    faults = [f"{len(left)} processes live on"] if left else []
    what = f"{n_done} files were there, its last process ended after {time.monotonic() - died:.1f} s"
    status = started(address, corpus, out).wait(timeout=300)
    faults += [f"the second driver ended with {status}"] if status else []
    return {"after": after, "what": what, "took": time.monotonic() - start, "faults": faults}


def started(address: str, corpus: Path, out: Path, *, wait: bool = True) -> subprocess.Popen[bytes]:
    """A driver, when it is connected."""
    command = [sys.executable, __file__, "--drive", address, str(corpus), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    if wait and process.stdout is not None:
        process.stdout.readline()
    return process


def kill_worker(draw: random.Random) -> str:
    """Kill one of the processes that run tasks, if there is one."""
    workers = [pid for pid, name in ray_processes().items() if name.startswith(("ray::_", "ray::IDLE"))]
    for pid in draw.sample(workers, min(1, len(workers))):
        os.kill(pid, signal.SIGKILL)
        return "one of " + str(len(workers)) + " workers"
    return "no worker was there"


def kill_raylet(node: Any) -> str:
    """Kill what runs a machine; its workers follow."""
    for process in node.all_processes["raylet"]:
        os.kill(process.process.pid, signal.SIGKILL)
    return "the second machine"


def ray_processes() -> dict[int, str]:
    """The processes of Ray, with how they were called."""
    return {pid: name for pid, name in _processes() if name.startswith("ray::") or "/ray/" in name}


def _processes() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue


if __name__ == "__main__":
    main()
