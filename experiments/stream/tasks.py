"""A real set-up of tasks from the first command to the last: sharded, streamed, killed, resumed, translated.

    VOLT_DATA=FOLDER python experiments/stream/tasks.py [--lines 400000] [--kills 3]

`tasks.yaml` beside this file has two pairs of languages, a task of one language with noise, a schedule with two points
and a validation set. Its tasks are read from shards. What is checked, and told line by line:

shards     a second `volt shard` writes nothing anew
workers    0, 1, 2 and 5 workers write the same bytes
shares     at each point of the schedule, and at the end, each task is within one line of its share
kills      a run that is killed by SIGKILL at random lines, and goes on with other workers, writes the same bytes
valid      each validation pair comes once, in order, without noise
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
VOLT = (sys.executable, "-m", "volt_cli")
POINTS, WEIGHTS = (0, 25_600, 102_400), {"de": (1, 2, 2), "fr": (1, 1, 2), "fi": (2, 1, 0.5)}


def volt(folder: Path, *arguments: str) -> bytes:
    """What a command writes to stdout. Raises CalledProcessError if it fails."""
    return subprocess.run([*VOLT, *arguments], cwd=folder, check=True, capture_output=True).stdout


def prepare(folder: Path, data: Path) -> None:
    """Learn the vocabulary of all texts, and write the shards."""
    texts = [str(data / "multi30k" / f"train.{language}.gz") for language in ("de", "fr", "en")]
    volt(folder, "search", *texts, str(data / "ted" / "Finnish.txt.gz"), "-o", "joint.volt")
    shutil.copy(HERE / "tasks.yaml", folder)
    volt(folder, "shard", "tasks.yaml")


def check_shards(folder: Path) -> str:
    """A second run writes nothing anew."""
    files = sorted((folder / "shards").rglob("*.zst"))
    before = [path.stat().st_mtime_ns for path in files]
    volt(folder, "shard", "tasks.yaml")
    assert before == [path.stat().st_mtime_ns for path in files]
    return f"{len(files)} files, none written anew"


def check_workers(folder: Path, whole: bytes, n: int) -> str:
    """The number of workers changes no byte."""
    for workers in (1, 2, 5):
        assert volt(folder, "stream", "run", "tasks.yaml", "--limit", str(n), "--workers", str(workers)) == whole
    return f"{n:,} lines, sha256 {hashlib.sha256(whole).hexdigest()[:12]} for 0, 1, 2 and 5 workers"


def shares_at(n: int) -> dict[str, float]:
    """The lines that each task is owed before line n."""
    owed = dict.fromkeys(WEIGHTS, 0.0)
    for first, last, k in zip(POINTS, [*POINTS[1:], n], range(len(POINTS)), strict=True):
        total = sum(weights[k] for weights in WEIGHTS.values())
        for language, weights in WEIGHTS.items():
            owed[language] += max(0, min(last, n) - first) * weights[k] / total
    return owed


def check_shares(whole: bytes) -> str:
    """Every task is within one line of its share at every point."""
    languages = [line.split(b"<FROM_", 1)[1].split(b">", 1)[0].decode() for line in whole.splitlines()]
    told = list[str]()
    for n in [*POINTS[1:], len(languages)]:
        counts, owed = Counter(languages[:n]), shares_at(n)
        worst = max(abs(counts[language] - owed[language]) for language in WEIGHTS)
        assert worst <= 1, (n, counts, owed)
        told.append(f"{n:,}: {dict(sorted(counts.items()))}, {worst:.2f} off at most")
    return "; ".join(told)


def used_lines(folder: Path, arguments: Sequence[str], first: int, kill_after: int | None) -> Iterator[bytes]:
    """The lines that a consumer uses before the run is killed, each acknowledged. first: how many were used before"""
    used = folder / "used"
    command = [*VOLT, "stream", "run", "tasks.yaml", "--state", "state.json", "--ack", "used", "--resume", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for n, line in enumerate(process.stdout or (), 1):
            yield line
            if n % 1000 == 0 or n == kill_after:
                used.write_text(f"{first + n}\n")
            if n == kill_after:
                process.kill()
                return
        used.write_text(f"{first + n}\n")


def check_kills(folder: Path, whole: bytes, n_kills: int) -> str:
    """Killed and resumed with other workers, it is one stream."""
    draw, lines, places = random.Random(7), list[bytes](), list[int]()
    n = whole.count(b"\n")
    while len(lines) < n:
        left, workers = n - len(lines), str(draw.choice((0, 1, 2, 5)))
        kill_after = draw.randrange(1, left) if len(places) < n_kills else None
        lines += used_lines(folder, ["--workers", workers, "--limit", str(left)], len(lines), kill_after)
        places.append(len(lines))
    assert b"".join(lines) == whole
    return f"killed at lines {', '.join(f'{place:,}' for place in places[:-1])}: the same bytes"


def check_valid(folder: Path, data: Path) -> str:
    """Each pair once, in order, as text again behind `translate-output`; and translate-input says the same."""
    lines = volt(folder, "stream", "run", "tasks.yaml", "--split", "valid").splitlines()
    texts = {side: unpacked(data / "multi30k" / f"val.{side}.gz") for side in ("de", "en")}
    assert len(lines) == texts["en"].count(b"\n")
    answers = b"".join(line.split(b"\t")[1] + b"\n" for line in lines)
    assert through(folder, answers, "translate-output") == texts["en"]
    assert through(folder, texts["de"], "translate-input").splitlines() == [line.split(b"\t")[0] for line in lines]
    return f"{len(lines):,} pairs, in order; translate-input gives their sources, translate-output their targets' text"


def unpacked(path: Path) -> bytes:
    """The text of a packed file."""
    return subprocess.run(["gzip", "-dc", path], check=True, capture_output=True).stdout


def through(folder: Path, text: bytes, command: str) -> bytes:
    """A text through a filter of the task."""
    arguments = [*VOLT, command, "tasks.yaml", "--task", "de_en"]
    return subprocess.run(arguments, cwd=folder, input=text, check=True, capture_output=True).stdout


def report(rows: Iterable[tuple[str, str]]) -> None:
    """Print what each check says as soon as it says it."""
    for name, told in rows:
        print(f"{name:8} {told}", flush=True)


def checks(folder: Path, data: Path, n: int, kills: int) -> Iterator[tuple[str, str]]:
    """The checks, one after another."""
    prepare(folder, data)
    yield "shards", check_shards(folder)
    whole = volt(folder, "stream", "run", "tasks.yaml", "--limit", str(n), "--workers", "0")
    yield "workers", check_workers(folder, whole, n)
    yield "shares", check_shares(whole)
    yield "kills", check_kills(folder, whole, kills)
    yield "valid", check_valid(folder, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=400_000)
    parser.add_argument("--kills", type=int, default=3)
    told, data = parser.parse_args(), os.environ.get("VOLT_DATA")
    if data is None:
        sys.exit("VOLT_DATA is not set; let it name a folder with multi30k and ted")
    with tempfile.TemporaryDirectory() as folder:
        report(checks(Path(folder), Path(data), told.lines, told.kills))


if __name__ == "__main__":
    main()
