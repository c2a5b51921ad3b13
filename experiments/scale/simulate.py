"""The plan's counting and tree on machines that are slow or die: a distribution of seconds, by simulation.

Cores take shards from one queue. A machine's speed is drawn once: log-normal, median 1. It dies after a time that is
exponential; then all that it has counted, and what it was counting, goes back to the queue, and the machine is there
again after a while. When nothing is left, tables are added as the plan says, each pair at the speed of the machine that
receives. Deaths during the tree, which is short beside them, are left out. With equal speeds, no deaths, and as many
shards on each core, the seconds are those of the formula.

>>> even = Trouble(spread=0, deaths_per_hour=0)
>>> simulate(even, seed=1, n_machines=2, n_cores=2, n_shards=8, shard_seconds=3, levels=[(0.5, False), (1, True)])
7.5
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volt.errors import ConfigError

Levels = Sequence[tuple[float, bool]]
_PATIENCE = 100  # how often each shard may be handed out on average before it is said that there is no end


@dataclass(frozen=True, slots=True)
class Trouble:
    """spread: σ of the logarithm of speeds;  deaths_per_hour: of a machine;  restart: seconds until it is back."""

    spread: float = 0.1
    deaths_per_hour: float = 0.01
    restart: float = 120.0


def simulate(
    trouble: Trouble, *, seed: int, n_machines: int, n_cores: int, n_shards: int, shard_seconds: float, levels: Levels
) -> float:
    """Seconds until the sum of all tables is there, once. levels: seconds of a pair, and whether across machines.

    Raises ConfigError if machines die so often that no end is in sight.
    """
    random = np.random.default_rng(seed)
    slowness = np.exp(random.normal(0, trouble.spread, n_machines))
    counted = _count(trouble, random, slowness, n_cores=n_cores, n_shards=n_shards, shard_seconds=shard_seconds)
    ready = [counted] * n_machines
    for seconds, across in levels:
        if not across:
            ready = [time + seconds * slow for time, slow in zip(ready, slowness, strict=True)]
    at = list(range(n_machines))
    for seconds, across in levels:
        if across:
            for one, other in zip(at[::2], at[1::2], strict=False):
                ready[one] = max(ready[one], ready[other]) + seconds * slowness[one]
            at = at[::2]
    return float(ready[0])


def _count(
    trouble: Trouble, random: np.random.Generator, slowness: np.ndarray, *, n_cores: int, n_shards: int,
    shard_seconds: float,
) -> float:  # fmt: skip
    """Seconds until every shard is counted on a machine that is still there."""
    n_machines = len(slowness)
    queue, done, busy = deque(range(n_shards)), [set[int]() for _ in slowness], [set[int]() for _ in slowness]
    lives, idle, n_done, now = [0] * n_machines, [n_cores] * n_machines, 0, 0.0
    events: list[tuple[float, int, int, int, int]] = []  # time, number, machine, its life, shard or what happens
    dead, back = -1, -2
    number = n_handed_out = 0

    def tell(time: float, machine: int, what: int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (time, number, machine, lives[machine], what))

    def live(machine: int) -> None:
        if trouble.deaths_per_hour:
            tell(now + random.exponential(3600 / trouble.deaths_per_hour), machine, dead)

    def hand_out() -> None:
        nonlocal n_handed_out
        while queue and any(idle):
            machine = int(np.argmax(idle))
            shard = queue.popleft()
            n_handed_out += 1
            busy[machine].add(shard)
            idle[machine] -= 1
            tell(now + shard_seconds * slowness[machine], machine, shard)

    for machine in range(n_machines):
        live(machine)
    hand_out()
    while n_done < n_shards:
        if n_handed_out > _PATIENCE * n_shards:
            raise ConfigError(
                f"with {trouble.deaths_per_hour:g} deaths per machine and hour counting never ends: each shard of "
                f"{shard_seconds:,.1f} s was begun {_PATIENCE} times; give fewer deaths, or more machines"
            )
        now, _, machine, life, what = heapq.heappop(events)
        if life != lives[machine]:
            continue  # of a life that is over
        if what == dead:
            n_done -= len(done[machine])
            queue.extend(sorted(done[machine] | busy[machine]))
            done[machine], busy[machine], idle[machine] = set(), set(), 0
            lives[machine] += 1
            tell(now + trouble.restart, machine, back)
        elif what == back:
            idle[machine] = n_cores
            live(machine)
        else:
            busy[machine].remove(what)
            done[machine].add(what)
            idle[machine] += 1
            n_done += 1
        hand_out()
    return now
