"""Is a training that is killed again and again the one that nothing happens to? Bit for bit?

    python -m experiments.nmt.resume_check --data $VOLT_DATA/multi30k --steps 60 --kills 3

train.py runs once undisturbed. Then it runs in another folder, where SIGKILL ends it at moments drawn by chance, and
the next run goes on, each with another number of workers of the stream. Whatever a run had written when it died must be
what the undisturbed one wrote, and so must the whole in the end: the lines of losses.jsonl are compared as bytes, and
hold losses as hexadecimal floats. The exit status is 1 where they differ.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from experiments.nmt.options import at_least
from experiments.nmt.train import LOG

SMALL = (  # for a machine that does other things as well: threads that wait for each other take long then
    "--width",
    "64",
    "--inner",
    "128",
    "--layers",
    "2",
    "--warmup",
    "40",
    "--every",
    "7",
    "--max-tokens",
    "1024",
    "--threads",
    "1",
)
HUNG = 600.0  # seconds without a step
Process = subprocess.Popen[bytes]


@contextmanager
def training(run: Path, options: Sequence[str], workers: int) -> Iterator[Process]:
    """A training in a process of its own, which ends with the context."""
    command = [sys.executable, "-m", "experiments.nmt.train", "--out", str(run), "--workers", str(workers), *options]
    with said(run).open("ab") as errors, subprocess.Popen(command, stderr=errors) as process:
        try:
            yield process
        finally:
            process.kill()


def said(run: Path) -> Path:
    """Where the words of a run go."""
    return run.parent / f"{run.name}.stderr"


def last_words(run: Path) -> str:
    """The last line that a run said."""
    return (said(run).read_text().strip().splitlines() or ["nothing"])[-1]


def lines(run: Path) -> list[bytes]:
    """The whole lines of the log, in the order of steps."""
    path = run / LOG
    return (
        [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")] if path.exists() else []
    )


def come(process: Process, run: Path, step: int) -> int | None:
    """Wait for the end of a process or until a step has been logged; the exit status if it has ended."""
    seen, since = -1, time.monotonic()
    while process.poll() is None and (n := len(lines(run))) < step:
        if n != seen:
            seen, since = n, time.monotonic()
        if time.monotonic() - since > HUNG:
            raise TimeoutError(f"no step has come for {HUNG:g} s; the last that was said: {last_words(run)}")
        time.sleep(0.002)
    return process.poll()


def differences(found: Sequence[bytes], wanted: Sequence[bytes]) -> Iterator[str]:
    """The steps that differ, and those that are missing or too many.

    >>> list(differences([b"a"], [b"a", b"b"])), list(differences([b"a", b"c"], [b"a", b"b"]))
    (['1 of 2 steps'], ["step 2: b'c', not b'b'"])
    """
    if len(found) != len(wanted):
        yield f"{len(found)} of {len(wanted)} steps"
    for step, (one, other) in enumerate(zip(found, wanted, strict=False), 1):
        if one != other:
            yield f"step {step}: {one!r}, not {other!r}"


def check(folder: Path, options: Sequence[str], *, n_steps: int, kills: int, chance: random.Random) -> list[str]:
    """What is wrong, if anything."""
    whole, killed = folder / "whole", folder / "killed"
    with training(whole, options, workers=0) as process:
        if status := come(process, whole, n_steps + 1):
            return [f"the undisturbed training ended with {status}: {last_words(whole)}"]
    wanted, found = lines(whole), list[str]()
    if len(wanted) < n_steps:
        return [f"the undisturbed training ended behind {len(wanted)} of {n_steps} steps; give fewer --steps"]
    print(f"undisturbed: {len(wanted)} steps", flush=True)
    for number in range(kills):
        workers, delay = number + 1, chance.random() * 0.3
        first = max(1, n_steps * number // kills)
        step = chance.randint(first, max(first, n_steps * (number + 1) // kills - 1))
        with training(killed, options, workers) as process:
            come(process, killed, step)
            time.sleep(delay)
            ended = process.poll()
        seen = lines(killed)
        told = "SIGKILL" if ended is None else f"had ended with {ended}"
        print(f"{workers} workers: {told} {delay:.3f} s after step {step}, {len(seen)} steps logged", flush=True)
        found += differences(seen, wanted[: len(seen)])
    with training(killed, options, workers=0) as process:
        if status := come(process, killed, n_steps + 1):
            return [*found, f"the last run ended with {status}: {last_words(killed)}"]
    return [*found, *differences(lines(killed), wanted)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, and say what was found; 1 if losses differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Other options are those of train.py; the model is small by default.",
    )  # fmt: skip
    parser.add_argument("--data", type=Path, required=True, help="holds train.en, train.de and so on")
    parser.add_argument("--steps", type=at_least(1), default=60)
    parser.add_argument("--kills", type=at_least(1), default=3)
    parser.add_argument(
        "--chance", type=int, default=None, help="the seed of the moments; by default they are others each time"
    )
    given, others = parser.parse_known_args(arguments)
    if given.kills > given.steps:
        parser.error(f"argument --kills: {given.kills}: give at most --steps, {given.steps}")
    if own := [one for one in others if one.partition("=")[0] in ("--out", "--workers")]:
        parser.error(f"argument {own[0]}: this check says it itself; leave it out")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the trainings end, too
    chance = given.chance if given.chance is not None else random.randrange(1 << 30)
    print(f"--chance {chance}")
    options = ["--data", str(given.data), "--steps", str(given.steps), *SMALL, *others]
    with tempfile.TemporaryDirectory() as folder:
        found = check(Path(folder), options, n_steps=given.steps, kills=given.kills, chance=random.Random(chance))
        for fault in found:
            print(fault)
    if not found:
        print(f"{given.steps} losses are equal, bit for bit")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
