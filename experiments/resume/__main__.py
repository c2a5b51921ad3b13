"""Kill data loaders and resume them with other workers and ranks; count lost and repeated samples.

    python -m experiments.resume                                     all installed loaders, some rounds of each change
    OTHER/bin/python -m experiments.resume --loaders mosaic          a loader that another environment has
    python -m experiments.resume --loaders volt --rounds 100 --changes both

In every round, ranks are processes that read n numbered samples in step, up to a random step, and save their state at
every j-th. SIGKILL ends them and their workers at a random moment of the next step. Other ranks, with the same numbers
of ranks and workers or others, resume from the last state that all ranks have saved, and read to the end of the epoch.

A sample counts as consumed if its batch came before the state from which the next ranks resume, or came in the last
leg. An error before the first batch of a resumed loader is a refusal, a later one an error, a silent rank a hang.
Nothing is downloaded. The exit status is 1 if VOLT lost, repeated or refused anything.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import pickle
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from experiments.resume.loaders import LOADERS, Loader, Place

CHANGES = ("nothing", "workers", "world", "both")
WORLDS, WORKERS, BATCHES, EVERY = (
    (1, 2, 3, 4),
    (0, 1, 2, 3),
    (1, 3, 4, 8, 16, 25, 32),
    (1, 1, 2, 3, 5),
)
PATIENCE = 60.0  # seconds without a step, after which a rank hangs
HEAD = [
    "loader",
    "versions",
    "changed",
    "rounds",
    "exact",
    "lost",
    "repeated",
    "refused",
    "errors",
    "hangs",
    "message",
]
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Round:
    """Two legs of (ranks, workers); the first is killed after step `kill`. every: steps between two states;  batches:
    samples of a rank's batch in each leg."""

    legs: tuple[tuple[int, int], tuple[int, int]]
    kill: int
    delay: float
    batches: tuple[int, int]
    every: int
    seed: int

    @classmethod
    def draw(
        cls,
        name: str,
        change: str,
        *,
        n: int,
        has_workers: bool = True,
        same_global_batch: bool = False,
    ) -> Round:
        """Draw a round that follows from its name. same_global_batch: all ranks' batches hold as many samples in both
        legs, a multiple of both numbers of ranks.

        >>> (world, workers), (other, more) = Round.draw("7", "workers", n=2400).legs
        >>> world == other, workers == more
        (True, False)
        """
        chance = random.Random(name)
        world, workers = chance.choice(WORLDS), chance.choice(WORKERS if has_workers else (0,))
        new_world = (
            chance.choice([one for one in WORLDS if one != world])
            if change in ("world", "both")
            else world
        )
        new_workers = workers
        if change in ("workers", "both") and has_workers:
            new_workers = chance.choice([one for one in WORKERS if one != workers])
        every = chance.choice(EVERY)
        ranks = math.lcm(world, new_world) if same_global_batch else world
        batch = chance.choice([one for one in BATCHES if n // (ranks * one) > every + 1])
        kill = chance.randint(every, n // (ranks * batch) - 1)
        legs = ((world, workers), (new_world, new_workers))
        batches = (batch, batch)
        if same_global_batch:
            batches = (batch * ranks // world, batch * ranks // new_world)
        return cls(legs, kill, chance.uniform(0, 0.02), batches, every, chance.randint(0, 1 << 30))


class Outcome(NamedTuple):
    """kind: counted, refused, error or hang;  message: of the loader."""

    change: str
    kind: str
    lost: int = 0
    repeated: int = 0
    message: str = ""


class Trouble(Exception):
    """A leg that failed: its kind and the loader's message."""


def be_rank(loader: Loader, place: Place, state: bytes | None, every: int, line: Any) -> None:
    """Read batches; after each, send samples and state, and wait for the parent's word."""
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    given = 0
    try:
        reading = loader.open(place, None if state is None else pickle.loads(state))
        for numbers in reading:
            given += 1
            line.send((numbers, pickle.dumps(reading.state()) if given % every == 0 else None))
            line.recv()
        line.send(None)
    except BaseException as error:
        kind = "refused" if state is not None and not given else "error"
        line.send((kind, f"{type(error).__name__}: {error}"))
    line.recv()


def play_leg(
    loader: Loader, places: Sequence[Place], states: Sequence[Any], made: Round, kill: int | None
) -> Any:
    """Run the ranks of a leg; return the consumed samples and the states to resume from. Raises Trouble."""
    lines, ranks = [], []
    for place, state in zip(places, states, strict=True):
        ours, theirs = FORK.Pipe()
        ranks.append(FORK.Process(target=be_rank, args=(loader, place, state, made.every, theirs)))
        ranks[-1].start()
        theirs.close()
        lines.append(ours)
    try:
        return lead(lines, made, kill)
    finally:
        for rank in ranks:
            for end in (os.killpg, os.kill):  # a rank that was just forked leads no group yet
                with suppress(ProcessLookupError, PermissionError):
                    end(rank.pid, signal.SIGKILL)
            rank.join()


def lead(lines: Sequence[Any], made: Round, kill: int | None) -> tuple[list[int], list[Any]]:
    consumed, safe, states = list[int](), list[int](), list[Any]()
    active, step = list(lines), 0
    while active:
        messages = []
        for line in active:
            if not line.poll(PATIENCE):
                raise Trouble("hang", f"no step for {PATIENCE:g} s")
            try:
                messages.append(line.recv())
            except EOFError:
                raise Trouble("error", "a rank died") from None
        if failed := next((one for one in messages if one and isinstance(one[0], str)), None):
            raise Trouble(*failed)
        step += 1
        consumed += [number for one in messages if one for number in one[0]]
        if kill is not None and None in messages:  # an epoch that ended early
            return safe, states
        if all(one and one[1] is not None for one in messages):
            safe, states = list(consumed), [one[1] for one in messages]
        active = [line for line, one in zip(active, messages, strict=True) if one]
        for line in active:
            line.send("continue")
        if step == kill:
            time.sleep(made.delay)
            return safe, states
    return consumed, []


def play(loader: Loader, made: Round, change: str, data: Path, *, n: int) -> Outcome:
    consumed, saved = list[int](), [None]
    try:
        for number, (world, workers) in enumerate(made.legs):
            meet = data.parent / f"meet-{made.seed}-{number}"
            places = [
                Place(data, meet, rank, world, workers, made.batches[number], n, made.seed)
                for rank in range(world)
            ]
            states = [
                saved[rank % len(saved) if loader.state_of == "own" else 0] for rank in range(world)
            ]
            found, saved = play_leg(
                loader, places, states, made, made.kill if number == 0 else None
            )
            consumed, saved = consumed + found, saved or [None]
    except Trouble as trouble:
        return Outcome(change, trouble.args[0], message=trouble.args[1])
    counts = Counter(consumed)
    if not counts.keys() <= {*range(n)}:
        return Outcome(
            change, "error", message=f"samples that were never written: {sorted(counts)[-1]}"
        )
    return Outcome(change, "counted", n - len(counts), sum(count > 1 for count in counts.values()))


def campaign(loader: Loader, given: argparse.Namespace, folder: Path) -> list[Outcome]:
    data, found = folder / "data", list[Outcome]()
    writer = FORK.Process(target=loader.write, args=(data,), kwargs={"n": given.n, "shards": 12})
    writer.start()
    writer.join()
    for change in (one for one in given.changes if one in loader.changes):
        for number in range(given.rounds):
            made = Round.draw(
                f"{given.seed}/{change}/{number}",
                change,
                n=given.n,
                has_workers="workers" in loader.changes,
                same_global_batch=loader.same_global_batch,
            )
            found.append(play(loader, made, change, data, n=given.n))
            if found[-1][1:4] != ("counted", 0, 0):
                print(f"{change} {number}: {made} {found[-1]}", file=sys.stderr, flush=True)
    return found


def rows_of(loader: Loader, outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Format a row for each change."""
    name = (loader.__doc__ or "").split("\n")[0]
    versions, rows = ", ".join(f"{needed} {version(needed)}" for needed in loader.needs), []
    for change in dict.fromkeys(one.change for one in outcomes):
        some = [one for one in outcomes if one.change == change]
        counted = [one for one in some if one.kind == "counted"]
        exact = sum(one.lost == one.repeated == 0 for one in counted)
        n = len(counted) or 1
        means = (sum(one.lost for one in counted) / n, sum(one.repeated for one in counted) / n)
        kinds = [
            str(sum(one.kind == kind for one in some)) for kind in ("refused", "error", "hang")
        ]
        message = next((one.message for one in some if one.message), "")[:110]
        figures = [str(len(some)), str(exact), *(f"{one:,.1f}" for one in means)]
        rows.append([name, versions, change, *figures, *kinds, message])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    real = [name for name in LOADERS if not name.startswith("planted")]
    parser.add_argument("--loaders", nargs="+", default=real, choices=LOADERS)
    parser.add_argument("--rounds", type=int, default=8, help="of each loader and change")
    parser.add_argument("--changes", nargs="+", default=list(CHANGES), choices=CHANGES)
    parser.add_argument(
        "--n", type=int, default=2400, help="samples; a multiple of all worlds and workers"
    )
    parser.add_argument("--seed", type=int, default=1, help="of all rounds")
    parser.add_argument("--json", type=Path, help="also write all outcomes to this file")
    given = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    rows, outcomes = [[*HEAD], ["---"] * len(HEAD)], dict[str, list[Outcome]]()
    for name in given.loaders:
        loader = LOADERS[name]()
        try:
            loader.prepare()
            [version(needed) for needed in loader.needs]
        except (ImportError, PackageNotFoundError) as error:
            print(f"{name}: not installed: {error}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="resume-") as folder:
            outcomes[name] = campaign(loader, given, Path(folder))
        rows += rows_of(loader, outcomes[name])
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    if given.json:
        given.json.write_text(json.dumps(outcomes, indent=1) + "\n")
    return int(any(one[1:4] != ("counted", 0, 0) for one in outcomes.get("volt", ())))


if __name__ == "__main__":
    sys.exit(main())
