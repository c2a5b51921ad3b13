"""All rounds of one loader, in an interpreter that has it: what `python -m experiments.resume` starts for each.

    PYTHON -m experiments.resume.campaign '{"loader": "grain-loader", "rounds": 5, "seed": 1, …}'

It writes one JSON line for the versions, and one for each round as it ends. A loader that cannot be imported is told
in the first line, and nothing follows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any

from experiments.resume.here import play_leg_here
from experiments.resume.loaders import Loader, Place, driver
from experiments.resume.ranks import Trouble, play_leg
from experiments.resume.rounds import NO_KILL, Outcome, Round, draw_round, tally


def main(text: str) -> int:
    """Run what is asked for."""
    asked = json.loads(text)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that ranks are ended
    out = os.fdopen(os.dup(1), "w", buffering=1)
    ensure_running()  # it outlives the ranks, and removes the shared memory that they leave
    os.dup2(2, 1)  # what libraries print is no result
    with tempfile.TemporaryDirectory(prefix="resume-") as folder:
        _offline(Path(folder))
        loader = driver(asked["loader"])
        told: dict[str, Any] = {"told": loader.told, "versions": versions(loader), "missing": ""}
        try:
            loader.prepare()
        except Exception as error:
            told["missing"] = f"{type(error).__name__}: {error}"
        print(json.dumps(told), file=out)
        if not told["missing"]:
            for outcome in outcomes(loader, asked, Path(folder)):
                print(json.dumps(outcome), file=out)
    return 0


def versions(loader: Loader) -> str:
    """Of the distributions that a loader is made of.

    >>> versions(Loader())
    ''
    """
    found = []
    for name in loader.needs:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)


def _offline(folder: Path) -> None:
    """Nothing is downloaded, and caches are in the folder of this campaign."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache"), "GLOO_SOCKET_IFNAME": "lo"}
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    os.environ |= {"LITDATA_CACHE_DIR": str(folder / "cache"), "DATA_OPTIMIZER_CACHE_FOLDER": str(folder / "cache")}


def outcomes(loader: Loader, asked: dict[str, Any], folder: Path) -> Iterator[Outcome]:
    """What came of each round of each change."""
    data = folder / "data"
    _in_child(lambda: loader.write(data, n=asked["n"], shards=asked["shards"]))
    for change in asked["changes"]:
        if change != NO_KILL and change not in loader.changes:
            continue
        for number in range(asked["first"], asked["first"] + asked["rounds"]):
            name = f"{asked['seed']}/{change}/{number}"
            workers = asked["workers"] if "workers" in loader.changes else [0]
            made = draw_round(name, change, n=asked["n"], kills=asked["kills"], worlds=asked["worlds"], workers=workers)
            yield play(loader, made, data, folder / f"{change}-{number}", asked)._replace(round=name)


def play(loader: Loader, made: Round, data: Path, folder: Path, asked: dict[str, Any]) -> Outcome:
    """Let a round happen, and count."""
    play_one = play_leg_here if asked["fast"] else play_leg
    consumed = list[int]()
    states: Sequence[Any] = [None]
    try:
        for number, leg in enumerate(made.legs):
            place = folder / str(number)
            place.mkdir(parents=True)
            places = [
                Place(data, place / "meet", rank, leg.world, leg.workers, made.batch, asked["n"], made.seed)
                for rank in range(leg.world)
            ]
            given = given_states(loader, states, leg.world)
            played = play_one(loader, leg, places, given, every=made.every, limit=asked["limit"])
            consumed += played.consumed
            states = played.states or states
        return Outcome(made.change, "counted", *tally(consumed, n=asked["n"]), told=_legs(made))
    except Trouble as trouble:
        return Outcome(made.change, trouble.kind, told=str(trouble))
    except ValueError as error:
        return Outcome(made.change, "error", told=str(error))


def given_states(loader: Loader, saved: Sequence[Any], world: int) -> list[Any]:
    """The state that each rank of the next leg is given.

    >>> given_states(Loader(), ["a", "b"], 3)
    ['a', 'b', 'a']
    """
    return [saved[rank % len(saved) if loader.state_of == "own" else 0] for rank in range(world)]


def _legs(made: Round) -> str:
    legs = " → ".join(f"{leg.world}×{leg.workers}" + (f" to {leg.kill}" if leg.kill else "") for leg in made.legs)
    return f"{legs}, batches of {made.batch}, state every {made.every}"


def _in_child(work: Any) -> None:
    """Do something in a process of its own, so that no thread of it is left in this one, which forks."""
    if pid := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            sys.exit(f"the samples could not be written (exit status {status})")
        return
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)
