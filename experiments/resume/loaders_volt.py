"""The project's own steps, alone in a rank.

What is drawn from a round's seed, so that it is the same in all its legs: one source or three, whether lines are
shuffled, how many lines a window has, and whether batches are rows by tokens or packs. Three ways of judging them:

    Steps           line i holds the token of sample i, from two to nine times over; a sample counts as read when it
                    stands in a target, right before an end of sentence
    StepsById       the same, by the numbers of lines that come with the arrays
    StepsByToken    each token stands once in all lines, and is a sample; lines are cut into parts that fill packs

The last rows of a stream that ends may be fewer than there are ranks. They are in no step, `Steps.totals.n_left` tells
it, and the state still names them: the first rank then goes on from it as the only one, and gives them.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from experiments.resume.loaders import Loader, Place, Reading

ROLES = ("<pad>", "<unk>", "<s>", "</s>")
EOS = ROLES.index("</s>")
MOST_TOKENS = 9  # of a line
NAMES = ("a", "b", "c")
Judge = Callable[[dict[str, Any]], list[int]]


@dataclass(frozen=True, slots=True)
class Options:
    """What a round's steps are like. packed: whether rows hold several samples;  length: of packs that cut them."""

    sources: int
    shuffle: Any
    block_lines: int
    window: Any
    packed: bool
    length: int
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
            chance.choice([2, 5, 8]), chance.choice([0.0, 0.1]), chance.random() < 0.7,
        )  # fmt: skip


class StepsReading:
    """Steps that are open.

    judge: arrays → the samples that count as read
    alone: opens the steps of the only rank of one, for what is left at the end
    """

    def __init__(self, steps: Any, state: Any | None, judge: Judge, alone: Callable[[], Any] | None = None) -> None:
        self.steps, self.judge, self.alone = steps, judge, alone
        if state is not None:
            steps.restore(json.loads(state))

    def __iter__(self) -> Iterator[list[int]]:
        yield from map(self.judge, self.steps)
        if self.steps.rank == 0 and self.steps.totals.n_left and self.alone is not None:
            state = self.steps.state()
            self.steps.close()
            self.steps = self.alone()
            self.steps.restore(state)
            yield from map(self.judge, self.steps)

    def state(self) -> str:
        """As text, which is how it would be stored."""
        return json.dumps(self.steps.state())

    def close(self) -> None:
        """End its threads."""
        self.steps.close()


def ended(arrays: dict[str, Any]) -> list[int]:
    """What stands before each end of sentence in the target.

    >>> ended({"target": np.array([[9, 9, 3, 4, 4, 3], [5, 5, 5, 3, 0, 0]])})
    [5, 0, 1]
    """
    flat = np.asarray(arrays["target"]).ravel()
    found: list[int] = (flat[np.flatnonzero(flat == EOS) - 1] - len(ROLES)).tolist()
    return found


def tokens(arrays: dict[str, Any]) -> list[int]:
    """All tokens of the target but those that have a role.

    >>> tokens({"target": np.array([[9, 3, 4, 3, 0]])})
    [5, 0]
    """
    flat = np.asarray(arrays["target"]).ravel()
    found: list[int] = (flat[flat >= len(ROLES)] - len(ROLES)).tolist()
    return found


def numbers(arrays: dict[str, Any]) -> list[int]:
    """The numbers of the lines."""
    found: list[int] = arrays["id"].tolist()
    return found


class Steps(Loader):
    """Steps in a rank; the workers are those of its stream."""

    needs: ClassVar[tuple[str, ...]] = ("volt-vocab", "numpy")
    told = "volt Steps"
    state_of = "first"
    judge: Judge = staticmethod(ended)

    def prepare(self) -> None:
        """Load the kernels, without a thread, so that ranks have them."""
        with tempfile.TemporaryDirectory() as folder:
            self.write(Path(folder) / "data", n=24, shards=3)
            for seed in range(4):
                place = Place(Path(folder) / "data", Path(folder), rank=0, world=1, workers=0, batch=2, n=24, seed=seed)
                options = replace(Options.drawn(seed), ahead=False)
                steps = steps_of(place, options, self.rule(options, place.batch))
                list(StepsReading(steps, None, self.judge))
                steps.close()

    def write(self, data: Path, *, n: int, shards: int) -> None:
        """Each line holds the token of its sample several times."""
        lines = [" ".join([str(number)] * (2 + number * 7919 % (MOST_TOKENS - 1))) for number in range(n)]
        write_lines(data, lines, shards=shards)

    def open(self, place: Place, state: Any | None) -> Reading:
        """Read in the rank's own process."""
        options = Options.drawn(place.seed)
        rule = self.rule(options, place.batch)
        alone = replace(place, rank=0, world=1)
        return StepsReading(steps_of(place, options, rule), state, self.judge, lambda: steps_of(alone, options, rule))

    def rule(self, options: Options, batch: int) -> Any:
        """How samples become steps."""
        from volt.batches import ByPacks, ByTokens

        if options.packed:
            return ByPacks(length=4 * MOST_TOKENS, rows=max(1, batch // 8))
        return ByTokens(max_tokens=batch * (MOST_TOKENS + 1), max_sentences=batch, noise=options.noise)


class StepsById(Steps):
    """The same, judged by the numbers of lines."""

    told = "volt Steps, by id"
    judge: Judge = staticmethod(numbers)


class StepsByToken(Steps):
    """Packs of parts, judged by tokens."""

    told = "volt Steps, by token, lines cut into packs"
    judge: Judge = staticmethod(tokens)

    def write(self, data: Path, *, n: int, shards: int) -> None:
        """Each token stands in one line."""
        chance, bounds = random.Random(n), [0]
        while bounds[-1] < n:
            bounds.append(min(n, bounds[-1] + chance.randint(1, MOST_TOKENS)))
        lines = [" ".join(map(str, range(first, last))) for first, last in pairwise(bounds)]
        write_lines(data, lines, shards=shards)

    def rule(self, options: Options, batch: int) -> Any:
        """Packs shorter than some lines."""
        from volt.batches import ByPacks

        return ByPacks(length=options.length, rows=max(1, batch // options.length), on_long="split")


def steps_of(place: Place, options: Options, rule: Any) -> Any:
    """The steps of one rank."""
    from volt.batches import SampleFormat, Steps
    from volt.stream import Source, Stream

    paths = [str(path) for path in sorted(place.data.glob("*.txt"))]
    sources = [
        Source(
            NAMES[number], tuple(paths[number :: options.sources]), epochs=1, weight=1.0 + number,
            shuffle=options.shuffle, block_lines=options.block_lines,
        )
        for number in range(options.sources)
    ]  # fmt: skip
    stream = Stream(sources, seed=place.seed, ends="drop", n_workers=place.workers)
    samples = SampleFormat({"text": [*ROLES, *map(str, range(place.n))]})
    return Steps(stream, samples, rule, window=options.window, rank=place.rank, world=place.world, ahead=options.ahead)


def write_lines(data: Path, lines: list[str], *, shards: int) -> None:
    """Files of almost equally many lines."""
    data.mkdir(parents=True)
    bounds = [len(lines) * shard // shards for shard in range(shards + 1)]
    for shard, (first, last) in enumerate(pairwise(bounds)):
        (data / f"{shard:03}.txt").write_text("\n".join(lines[first:last]) + "\n")
