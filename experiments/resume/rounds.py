"""One round, drawn by chance, and the count at its end.

A round is legs: some ranks read the samples together and are killed, others go on from the state that was saved, and
the last read to the end of the epoch. What is the same at a resume and what is not is the round's change.

A sample counts as consumed if its batch was handed out before the state was taken from which the next leg goes on, or
was handed out in the last leg. What was handed out behind that state does not count: it is to be given again.

>>> tally([0, 1, 1, 3], n=4)
Tally(lost=1, repeated=1)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WORLDS = (1, 2, 3, 4)
WORKERS = (0, 1, 2, 3)
BATCHES = (1, 3, 4, 8, 16, 25, 32)
EVERY = (1, 1, 2, 3, 5)
NO_KILL = "no kill"


@dataclass(frozen=True, slots=True)
class Leg:
    """Ranks that read together. kill: the step behind which they are killed, or None;  delay: seconds until then."""

    world: int
    workers: int
    kill: int | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """What happens. batch: samples of a batch;  every: steps from one saved state to the next;  seed: of the loader."""

    change: str
    legs: tuple[Leg, ...]
    batch: int
    every: int
    seed: int


class Tally(NamedTuple):
    """lost: samples never consumed;  repeated: samples consumed more than once."""

    lost: int
    repeated: int


class Outcome(NamedTuple):
    """kind: counted, refused, error or hang;  told: what the loader said."""

    change: str
    kind: str
    lost: int = 0
    repeated: int = 0
    told: str = ""
    round: str = ""


def draw_round(
    name: str, change: str, *, n: int, kills: int = 1, worlds: Sequence[int] = WORLDS, workers: Sequence[int] = WORKERS
) -> Round:
    """The round that follows from a name. kills: the most of them;  n: samples.

    >>> made = draw_round("7", "workers", n=2400)
    >>> len(made.legs), made.legs[0].world == made.legs[1].world, made.legs[0].workers == made.legs[1].workers
    (2, True, False)
    """
    chance = random.Random(name)
    batch, every = chance.choice(BATCHES), chance.choice(EVERY)
    world, k, left, legs = chance.choice(worlds), chance.choice(workers), float(n), list[Leg]()
    for _ in range(0 if change == NO_KILL else chance.randint(1, kills)):
        steps = int(left / (world * batch))
        if steps < every + 1:
            break
        kill = chance.randint(every, steps - 1) if steps > every + 1 else every
        legs.append(Leg(world, k, kill, chance.uniform(0, 0.02)))
        left -= kill * world * batch
        if change in ("workers", "both"):
            k = chance.choice([other for other in workers if other != k])
        if change in ("world", "both"):
            world = chance.choice([other for other in worlds if other != world])
    return Round(change, (*legs, Leg(world, k)), batch, every, chance.randint(0, 1 << 30))


def tally(consumed: Iterable[int], *, n: int) -> Tally:
    """How many of 0 … n−1 were never consumed, and how many more than once. Raises ValueError for another number."""
    counts = Counter(consumed)
    if strange := [number for number in counts if not 0 <= number < n]:
        raise ValueError(f"sample {strange[0]} was never written; there are 0 to {n - 1}")
    return Tally(n - len(counts), sum(count > 1 for count in counts.values()))
