"""The project's own steps: alone in a rank, and within torch's loaders.

What is drawn from a round's seed, so that it is the same in all its legs: one source or three, whether lines are
shuffled, how many lines a window has, and whether batches are rows by tokens or packs. Line i holds the token of sample
i, from two to ten times over; a sample counts as read when it stands in a target, right before an end of sentence.

A batch may have two rows or more. With one row each, ranks do not share the last rows of a stream that ends:
fewer than there are ranks are in no step then, and `Steps.totals.n_left` tells it.

`Steps` counts what stands in the arrays, `StepsById` the numbers of lines that come with them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.resume.loaders import Loader, Place, Reading

ROLES = ("<pad>", "<unk>", "<s>", "</s>")
MOST_TOKENS = 10
TEXTS = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Options:
    """What a round's steps are like. packed: whether rows hold several samples."""

    sources: int
    shuffle: str
    block_lines: int
    window: int | str
    packed: bool
    noise: float
    ahead: bool

    @classmethod
    def drawn(cls, seed: int) -> Options:
        """From a round's seed.

        >>> Options.drawn(1) == Options.drawn(1)
        True
        """
        chance = random.Random(seed)
        sources = chance.choice([1, 1, 3])
        return cls(
            sources, chance.choice(["lines", "lines", "none"]), chance.choice([7, 100, 1 << 17]),
            chance.choice([40, 333, 1000, 1 << 14, *["epoch"] * (sources == 1)]), chance.random() < 0.3,
            chance.choice([0.0, 0.1]), chance.random() < 0.7,
        )  # fmt: skip


class StepsReading:
    """Steps that are open. by_id: whether the numbers of lines are told, rather than what stands in the arrays."""

    def __init__(self, steps: Any, state: Any | None, *, by_id: bool = False) -> None:
        self.steps, self.by_id = steps, by_id
        if state is not None:
            steps.restore(json.loads(state))

    def __iter__(self) -> Iterator[list[int]]:
        for arrays in self.steps:
            yield arrays["id"].tolist() if self.by_id else samples_in(arrays["target"])

    def state(self) -> str:
        """As text, which is how it would be stored."""
        return json.dumps(self.steps.state())

    def close(self) -> None:
        """End its threads."""
        self.steps.close()


def samples_in(target: Any) -> list[int]:
    """The samples in a target: what stands before each end of sentence.

    >>> samples_in(np.array([[9, 9, 3, 4, 4, 3], [5, 5, 5, 3, 0, 0]]))
    [5, 0, 1]
    """
    flat = np.asarray(target).ravel()
    found: list[int] = (flat[np.flatnonzero(flat == ROLES.index("</s>")) - 1] - len(ROLES)).tolist()
    return found


def steps_of(place: Place) -> Any:
    """The steps of one rank."""
    from volt.batches import ByPacks, ByTokens, SampleFormat, Steps
    from volt.stream import Source, Stream

    options = Options.drawn(place.seed)
    paths = [str(path) for path in sorted(place.data.glob("*.txt"))]
    sources = [
        Source(
            TEXTS[number], tuple(paths[number :: options.sources]), epochs=1, weight=1.0 + number,
            shuffle=options.shuffle, block_lines=options.block_lines,
        )
        for number in range(options.sources)
    ]  # fmt: skip
    stream = Stream(sources, seed=place.seed, ends="drop", n_workers=place.workers)
    rows = max(2, place.batch)
    rule: Any = ByTokens(max_tokens=rows * (MOST_TOKENS + 1), max_sentences=rows, noise=options.noise)
    if options.packed:
        rule = ByPacks(length=4 * MOST_TOKENS, rows=max(2, place.batch // 8))
    samples = SampleFormat({"text": [*ROLES, *map(str, range(place.n))]})
    return Steps(stream, samples, rule, window=options.window, rank=place.rank, world=place.world, ahead=options.ahead)


class Steps(Loader):
    """Steps in a rank; the workers are those of its stream."""

    needs = ("volt-vocab", "numpy")
    told = "volt Steps"
    state_of = "first"
    by_id = False

    def prepare(self) -> None:
        """Import what steps are made of."""
        import volt.batches.steps
        import volt.stream  # noqa: F401

    def write(self, data: Path, *, n: int, shards: int) -> None:
        """Text in which the token of a sample stands several times."""
        data.mkdir(parents=True)
        bounds = [n * shard // shards for shard in range(shards + 1)]
        for shard, (first, last) in enumerate(zip(bounds, bounds[1:], strict=False)):
            lines = [" ".join([str(number)] * (2 + number * 7919 % (MOST_TOKENS - 2))) for number in range(first, last)]
            (data / f"{shard:03}.txt").write_text("\n".join(lines) + "\n")

    def open(self, place: Place, state: Any | None) -> Reading:
        """Read in the rank's own process."""
        return StepsReading(steps_of(place), state, by_id=self.by_id)


class StepsById(Steps):
    """The same, judged by the numbers of lines."""

    told = "volt Steps, by id"
    by_id = True
