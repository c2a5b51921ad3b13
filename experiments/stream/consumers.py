"""A trainer's ranks as a checker plays them: processes that are read line by line, and killed.

Each rank is `volt stream run` in a process of its own, forked from one that has imported it. Its consumer reads whole
lines from the pipe and says with --ack how many it has used, so what was handed out is known exactly, whatever was in
the pipe when the process died: lines that were read and not acknowledged have not happened.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HUNG = 60.0  # seconds without a line
_READ_SIZE = 1 << 16


class CheckError(Exception):
    """A process that did what it should not."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of a rank. workers: that compute ahead;  kill_after: lines that are used before SIGKILL, or None;
    delay: seconds from the start before which it is not killed;  limit: --limit, or None."""

    workers: int
    kill_after: int | None = None
    delay: float = 0.0
    limit: int | None = None


@dataclass(slots=True)
class Rank:
    """A rank from the start of a stage on. start: the merged state that it goes on from;  lines: those used so far."""

    config: Path
    folder: Path
    rank: int
    world: int
    start: Path | None = None
    lines: list[bytes] = field(default_factory=list)
    first: int | None = None  # the number of its first line of the stage, as states count

    @property
    def state(self) -> Path:
        """Where its state is."""
        return self.folder / f"state-{self.rank}.json"

    @property
    def used(self) -> Path:
        """The file in which its consumer says how many lines it has used."""
        return self.folder / f"used-{self.rank}.txt"

    def command(self, *options: object) -> list[str]:
        """The arguments of `volt` with which it goes on."""
        place = ["--rank", self.rank, "--world", self.world, "--state", self.state, "--ack", self.used]
        if self.state.exists() or self.start is None:
            place.append("--resume")
        else:
            place += ["--from-state", self.start]
        return ["stream", "run", str(self.config), "-q", *map(str, [*place, *options])]

    def acknowledge(self, n: int) -> None:
        """Say that so many lines of the stage have been used."""
        told = self.used.with_suffix(".new")
        told.write_text(f"{(self.first or 0) + n}\n")
        os.replace(told, self.used)

    def settle(self) -> Path:
        """Put its state right behind what was used."""
        finish(self.command("--limit", 0), self.folder)
        return self.state

    def undisturbed(self) -> list[bytes]:
        """All lines that the rank gives from the start of the stage on if nothing happens."""
        start = ["--from-state", self.start] if self.start else []
        place = ["--rank", self.rank, "--world", self.world, *start]
        return finish(["stream", "run", str(self.config), "-q", *map(str, place)], self.folder).splitlines(True)


class _Reading:
    """A run of a rank that is under way."""

    def __init__(self, rank: Rank, plan: Plan, chance: random.Random) -> None:
        self.rank, self.plan, self._chance = rank, plan, chance
        every = chance.randint(1, 5000)
        limit = [] if plan.limit is None else ["--limit", plan.limit]
        self.stderr = rank.folder / f"stderr-{rank.rank}.txt"
        self.pid, self.pipe = spawn(
            rank.command("--workers", plan.workers, "--state-every", every, *limit), self.stderr
        )
        self._began, self._rest, self._new = time.monotonic(), b"", list[bytes]()
        self._told, self._every = 0, chance.randint(1, 2000)  # acknowledged, and how often that is done

    @property
    def is_due(self) -> bool:
        """Whether it is time to kill it."""
        after = self.plan.kill_after
        return after is not None and len(self._new) >= after and self._age >= self.plan.delay

    @property
    def _age(self) -> float:
        return time.monotonic() - self._began

    def read(self) -> bool:
        """Use what is in the pipe, up to the place of death; False at its end."""
        data = os.read(self.pipe, self._chance.randint(1, _READ_SIZE))
        if data and self.rank.first is None:
            self.rank.first = json.loads(self.rank.state.read_bytes())["n"]  # saved before any line leaves
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._new += [line + b"\n" for line in whole]
        if self.plan.kill_after is not None:
            del self._new[self.plan.kill_after :]
        if len(self._new) - self._told >= self._every:
            self._acknowledge()
        return bool(data)

    def _acknowledge(self) -> None:
        self._told = len(self._new)
        self.rank.acknowledge(len(self.rank.lines) + self._told)

    def kill(self) -> None:
        """SIGKILL; what was used is what was acknowledged, here and there at the last moment."""
        os.kill(self.pid, signal.SIGKILL)
        if self._chance.random() < 0.5 and self._new:
            self._acknowledge()
        self._close({0, -signal.SIGKILL})

    def end(self) -> None:
        """It has ended by itself."""
        if self._rest:
            raise CheckError(f"rank {self.rank.rank} ended within a line: {self._rest[-80:]!r}")
        if self._new:
            self._acknowledge()
        self._close({0})

    def _close(self, wanted: set[int]) -> None:
        os.close(self.pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.rank.lines += self._new[: self._told]
        if status not in wanted:
            raise CheckError(f"rank {self.rank.rank} ended with {status}: {self.stderr.read_text()[-2000:]}")


def run_leg(ranks: Sequence[Rank], plans: Sequence[Plan], chance: random.Random) -> None:
    """Run all ranks at once until each has been killed or has ended."""
    under_way = dict[int, _Reading]()
    last = time.monotonic()
    with selectors.DefaultSelector() as ready, _none_left(under_way):
        for rank, plan in zip(ranks, plans, strict=True):
            one = _Reading(rank, plan, chance)
            under_way[one.pid] = one
            ready.register(one.pipe, selectors.EVENT_READ, one)
        while under_way:
            for key, _ in ready.select(0.01):
                last = time.monotonic()
                if not key.data.read() and not key.data.is_due:
                    _leave(ready, under_way, key.data).end()
            for one in [one for one in under_way.values() if one.is_due]:
                _leave(ready, under_way, one).kill()
            if time.monotonic() - last > HUNG:
                raise CheckError(f"no line for {HUNG:g} s from {[one.rank.rank for one in under_way.values()]}")


def _leave(ready: selectors.BaseSelector, under_way: dict[int, _Reading], one: _Reading) -> _Reading:
    ready.unregister(one.pipe)
    return under_way.pop(one.pid)


@contextmanager
def _none_left(under_way: dict[int, _Reading]) -> Iterator[None]:
    """Whatever happens inside, no process is left behind."""
    try:
        yield
    finally:
        for one in under_way.values():
            os.kill(one.pid, signal.SIGKILL)
            os.close(one.pipe)
            os.waitpid(one.pid, 0)


def spawn(arguments: Sequence[str], stderr: Path) -> tuple[int, int]:
    """`volt` in a fork of this process, which need not import it again: its id, and the end of its pipe."""
    from volt_cli.__main__ import main

    pipe, out = os.pipe()
    if pid := os.fork():
        os.close(out)
        return pid, pipe
    status = 1
    try:
        os.close(pipe)
        os.dup2(out, 1)
        os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.closerange(3, 256)  # the pipes of other ranks
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["volt", *arguments]
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    finally:
        os._exit(status)


def finish(arguments: Sequence[str], folder: Path) -> bytes:
    """What a command writes until it ends. Raises CheckError unless it ends well."""
    pid, pipe = spawn(arguments, folder / "stderr.txt")
    with open(pipe, "rb") as file:
        data = file.read()
    if status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        told = (folder / "stderr.txt").read_text()[-2000:]
        raise CheckError(f"volt {' '.join(map(str, arguments))} ended with {status}: {told}")
    return data
