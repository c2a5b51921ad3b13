"""Ranks that are processes: they read in step, save their states, and are killed.

Each rank is forked from a process that has imported the loader, and leads a process group of its own, so that SIGKILL
takes its workers as well. It hands out a batch, writes the batch's numbers to its log, saves its state to a new file at
every j-th step, and then waits until all ranks have done so, as the ranks of a trainer wait for each other's gradients.
When the step has come they are let go on, and die at a moment of the next step that nobody chose.
"""

from __future__ import annotations

import json
import os
import pickle
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.resume.loaders import Loader, Place
from experiments.resume.rounds import Leg

STEPPED, ENDED, FAILED = b".", b"Z", b"E"


class Trouble(Exception):
    """A leg that went wrong. kind: refused, error or hang."""

    def __init__(self, kind: str, told: str) -> None:
        super().__init__(told)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Played:
    """A leg that was played. consumed: samples of all ranks;  states: of each rank, to go on from, if one was saved."""

    consumed: list[int]
    states: Sequence[Any] = ()


def play_leg(
    loader: Loader, leg: Leg, places: Sequence[Place], states: Sequence[Any | None], *, every: int, limit: float
) -> Played:
    """Fork the ranks, let them read, and kill them. limit: seconds without a sign of life. Raises Trouble."""
    folder = places[0].meet.parent
    ranks: dict[int, socket.socket] = {}
    with _none_left(ranks):
        for place, state in zip(places, states, strict=True):
            pid, line = _fork(loader, place, state, folder, every, ranks.values())
            ranks[pid] = line
        is_cut = _keep_step([*ranks.values()], leg, folder, limit, states[0] is not None)
    if not is_cut:
        return Played(_consumed(folder, len(places), None))
    at = _saved(folder, len(places))
    if at == 0:
        return Played([])
    return Played(
        _consumed(folder, len(places), at),
        [pickle.loads(_state_path(folder, place.rank, at).read_bytes()) for place in places],
    )


def _keep_step(lines: Sequence[socket.socket], leg: Leg, folder: Path, limit: float, is_resumed: bool) -> bool:
    """Let ranks go on together until they end or are due; True if they are to be killed."""
    under_way, step = list(lines), 0
    while under_way:
        told = _signs(under_way, limit)
        if FAILED in told:
            raise _failure(folder, is_resumed)
        step += 1
        if ENDED in told and leg.kill is not None:
            return True
        under_way = [line for line, sign in zip(under_way, told, strict=True) if sign == STEPPED]
        for line in under_way:
            line.send(b"g")
        if step == leg.kill:
            time.sleep(leg.delay)
            return True
    return False


def _signs(lines: Sequence[socket.socket], limit: float) -> list[bytes]:
    """What each rank says next; at the first failure, no more is waited for."""
    signs: dict[socket.socket, bytes] = {}
    with selectors.DefaultSelector() as ready:
        for line in lines:
            ready.register(line, selectors.EVENT_READ)
        while len(signs) < len(lines):
            events = ready.select(limit)
            if not events:
                raise Trouble("hang", f"no step for {limit:g} s")
            for key, _ in events:
                told: Any = key.fileobj
                signs[told] = told.recv(1) or FAILED
                ready.unregister(told)
            if FAILED in signs.values():
                return [FAILED]
    return [signs[line] for line in lines]


def _failure(folder: Path, is_resumed: bool) -> Trouble:
    """What went wrong in a rank: refused if it was resumed and had given nothing yet."""
    time.sleep(0.05)  # a rank may still be writing
    for path in sorted(folder.glob("fault-*.json")):
        with suppress(ValueError):
            fault = json.loads(path.read_text())
            return Trouble("refused" if is_resumed and not fault["given"] else "error", fault["told"])
    return Trouble("error", "a rank died without a word")


@contextmanager
def _none_left(ranks: dict[int, socket.socket]) -> Iterator[None]:
    """Whatever happens inside, SIGKILL all ranks and their workers at the end."""
    try:
        yield
    finally:
        for kill in (os.killpg, os.kill):  # a rank that was just forked leads no group yet
            for pid in ranks:
                with suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
        for pid, line in ranks.items():
            line.close()
            os.waitpid(pid, 0)


# within a rank


def _fork(
    loader: Loader, place: Place, state: Any | None, folder: Path, every: int, others: Iterable[socket.socket]
) -> tuple[int, socket.socket]:
    """Start a rank. others: the parent's lines to earlier ranks, which are to end with the parent."""
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        theirs.close()
        return pid, ours
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for line in (ours, *others):
            line.close()
        _silence(folder / f"output-{place.rank}.txt")
        _be_rank(loader, place, state, folder, every, theirs)
    finally:
        os._exit(0)


def _silence(path: Path) -> None:
    """What the loader prints goes to a file."""
    out = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(out, number)


def _be_rank(loader: Loader, place: Place, state: Any | None, folder: Path, every: int, line: socket.socket) -> None:
    """Hand out batches, and tell the parent after each; wait for its word, or for death."""
    given = 0
    try:
        reading = loader.open(place, state)
        with _log_path(folder, place.rank).open("wb", buffering=0) as log:
            for given, numbers in enumerate(reading, 1):
                log.write(json.dumps([given, numbers]).encode() + b"\n")
                if given % every == 0:
                    _save(_state_path(folder, place.rank, given), reading.state())
                line.send(STEPPED)
                if not line.recv(1):
                    return
        line.send(ENDED)
    except BaseException as error:
        _tell_fault(folder, place.rank, given, error)
        line.send(FAILED)
    line.recv(1)


def _tell_fault(folder: Path, rank: int, given: int, error: BaseException) -> None:
    traceback.print_exc()
    fault = {"given": given, "told": f"{type(error).__name__}: {error}"[:20_000]}
    path = folder / f"fault-{rank}.json"
    path.with_suffix(".new").write_text(json.dumps(fault))
    path.with_suffix(".new").rename(path)


def _save(path: Path, state: Any) -> None:
    """The state, whole or not at all."""
    path.with_suffix(".new").write_bytes(pickle.dumps(state))
    path.with_suffix(".new").rename(path)


# what ranks left


def _log_path(folder: Path, rank: int) -> Path:
    return folder / f"log-{rank}.jsonl"


def _state_path(folder: Path, rank: int, step: int) -> Path:
    return folder / f"state-{rank}-{step}.pickle"


def _saved(folder: Path, world: int) -> int:
    """The last step at which all ranks saved their states, or 0."""
    steps = [
        {int(path.stem.rpartition("-")[2]) for path in folder.glob(f"state-{rank}-*.pickle")} for rank in range(world)
    ]
    return max(set.intersection(*steps), default=0)


def _consumed(folder: Path, world: int, at: int | None) -> list[int]:
    """The numbers that ranks handed out up to a step, or in all."""
    found = list[int]()
    for rank in range(world):
        whole = _log_path(folder, rank).read_bytes().rpartition(b"\n")[0]
        for step, numbers in map(json.loads, whole.splitlines()):
            if at is None or step <= at:
                found += numbers
    return found
