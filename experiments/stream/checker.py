"""Streams that are killed, and go on with other ranks and workers: was every line of every epoch used exactly once?

    python experiments/stream/checker.py --rounds 200            all that is promised; 1 if something was found
    python experiments/stream/checker.py --round 17 --seed 3     one round again, with what it did
    python experiments/stream/checker.py --stages 1              without merged states: the same world throughout

A round makes sources whose lines are numbers, each of them once, and a configuration that reads them for so many
epochs. A stage is a number of ranks (a world) that train together. Its legs are ended by SIGKILL of each rank at a
place of its own, before its first line or within a block, or by --limit; the next leg has other numbers of workers.
Between two stages the states of all ranks, each right behind what its consumer has used, are merged:

    volt stream run CONFIG --resume --state S0 --ack U0 --limit 0 --rank 0 --world 2        for each rank
    volt stream merge-states S0 S1 -o MERGED
    volt stream run CONFIG --from-state MERGED --rank 2 --world 3 …                         for each of the new ranks

The last stage runs to the end. What is judged is what consumers used, and nothing else:

cover     each number has come as often as there are epochs, over all stages and ranks
epochs    within a stage, a rank's lines of a source are as many runs without repetition as epochs, or fewer
same      a rank's lines are the beginning, and in the last stage the whole, of an undisturbed run from the same start
shares    in undisturbed runs from the beginning, ranks differ by at most one line of a source, and cover all
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from consumers import CheckError, Plan, Rank, finish, run_leg

BASE = 1_000_000  # source k has the numbers from k · BASE on
SIZES = ((1, 10), (10, 1000), (1000, 30_000))
BLOCKS = (3, 64, 1000, 4096)


@dataclass(frozen=True, slots=True)
class Case:
    """Sources of numbers. sizes: lines of each;  text: the configuration."""

    sizes: tuple[int, ...]
    epochs: int
    text: str

    @property
    def numbers(self) -> Iterator[int]:
        """All that there are."""
        return (source * BASE + i for source, size in enumerate(self.sizes) for i in range(size))

    @property
    def n_lines(self) -> int:
        """Of all epochs."""
        return sum(self.sizes) * self.epochs


@dataclass(frozen=True, slots=True)
class Stage:
    """Ranks that train together. legs: each with one plan for each rank."""

    world: int
    legs: tuple[tuple[Plan, ...], ...]


def make_case(chance: random.Random, *, most_blocks: int = 2000) -> Case:
    """A configuration by chance, without its files."""
    sizes = tuple(chance.randint(*chance.choice(SIZES)) for _ in range(chance.randint(1, 3)))
    epochs, sources = chance.randint(1, 3), ""
    for source, size in enumerate(sizes):
        block = chance.choice([block for block in BLOCKS if size <= block * most_blocks])
        shuffle = chance.choice(["lines", "lines", "outputs", "none"])
        split = chance.choice(["", f", split_lines: {chance.randint(10, 3000)}"])
        weight = round(chance.uniform(0.2, 3), 2)
        sources += f"  s{source}: {{path: [s{source}.0.txt, s{source}.1.txt], epochs: {epochs}, weight: {weight}, "
        sources += f"block_lines: {block}, shuffle: {shuffle}{split}}}\n"
    return Case(sizes, epochs, f"seed: {chance.randint(0, 1 << 30)}\nends: drop\ncache: cache\nsources:\n{sources}")


def write_case(case: Case, folder: Path) -> Path:
    """The sources, each in two files, and the configuration."""
    for source, size in enumerate(case.sizes):
        lines = [f"{source * BASE + i}\n" for i in range(size)]
        middle = (size + 1) // 2
        for shard, part in enumerate([lines[:middle], lines[middle:]]):
            (folder / f"s{source}.{shard}.txt").write_text("".join(part))
    config = folder / "stream.yaml"
    config.write_text(case.text)
    return config


def make_stages(chance: random.Random, case: Case, *, n_stages: int, worlds: Sequence[int]) -> list[Stage]:
    """What happens, by chance: up to so many stages, and no world twice in a row."""
    stages, world = list[Stage](), 0
    for left in range(chance.randint(min(2, n_stages), n_stages), 0, -1):
        world = chance.choice([other for other in worlds if other != world] or list(worlds))
        n_legs = chance.randint(1, 3)
        share = 2 * case.n_lines // (world * left * n_legs + 1)
        legs = [tuple(_plan(chance, share) for _ in range(world)) for _ in range(n_legs)]
        if left == 1:
            legs.append(tuple(Plan(chance.randint(0, 3)) for _ in range(world)))
        stages.append(Stage(world, tuple(legs)))
    return stages


def _plan(chance: random.Random, share: int) -> Plan:
    """An end by chance. share: lines after which it comes, at most."""
    workers, way, n = chance.randint(0, 3), chance.random(), chance.randint(0, share)
    if way < 0.15:
        return Plan(workers, kill_after=0, delay=chance.uniform(0, 0.6))
    return Plan(workers, limit=n) if way < 0.3 else Plan(workers, kill_after=n)


def play(case: Case, stages: Sequence[Stage], folder: Path, chance: random.Random) -> list[list[Rank]]:
    """Let it happen: the ranks of each stage, with what they used."""
    config, start, played = write_case(case, folder), None, list[list[Rank]]()
    for number, stage in enumerate(stages):
        place = folder / f"stage-{number}"
        place.mkdir()
        ranks = [Rank(config, place, rank, stage.world, start) for rank in range(stage.world)]
        for plans in stage.legs:
            run_leg(ranks, plans, chance)
        played.append(ranks)
        if number + 1 < len(stages):
            start = place / "merged.json"
            states = [str(rank.settle()) for rank in ranks]
            finish(["stream", "merge-states", *states, "-o", str(start)], place)
    return played


def faults(case: Case, played: Sequence[Sequence[Rank]]) -> Iterator[str]:
    """What is wrong with what was used."""
    yield from faults_of_cover(case, [rank.lines for ranks in played for rank in ranks])
    for number, ranks in enumerate(played):
        whole = [rank.undisturbed() for rank in ranks]
        for rank, wanted in zip(ranks, whole, strict=True):
            name, found = f"stage {number}, rank {rank.rank} of {rank.world}", rank.lines
            if found != wanted[: len(found)]:
                at = next(i for i, line in enumerate(found) if i >= len(wanted) or line != wanted[i])
                yield f"same: {name}: line {at} of {len(found)} is not that of an undisturbed run"
            elif number == len(played) - 1 and len(found) < len(wanted):
                yield f"same: {name} ended after {len(found)} of {len(wanted)} lines"
            yield from (f"epochs: {name}: {told}" for told in faults_of_epochs(found, case.epochs))
        if number == 0:
            yield from (f"undisturbed {told}" for told in faults_of_cover(case, whole))
            yield from faults_of_shares(whole)


def faults_of_cover(case: Case, used: Sequence[Sequence[bytes]]) -> Iterator[str]:
    r"""Numbers that have not come as often as there are epochs.

    >>> list(faults_of_cover(Case((3,), 1, ""), [[b"0\n", b"1\n"], [b"1\n"]]))
    ['cover: 1 number came 0 times instead of 1, as 2', 'cover: 1 number came 2 times instead of 1, as 1']
    """
    counts = Counter(int(line) for lines in used for line in lines)
    wrong = defaultdict[int, list[int]](list)
    for number in case.numbers:
        if (n := counts.pop(number, 0)) != case.epochs:
            wrong[n].append(number)
    for n, numbers in sorted(wrong.items()):
        told = f"{len(numbers)} number{'s' * (len(numbers) > 1)} came {n} times instead of {case.epochs}"
        yield f"cover: {told}, as {', '.join(map(str, numbers[:3]))}"
    if counts:
        yield f"cover: numbers that no source has, as {min(counts)}"


def faults_of_epochs(lines: Sequence[bytes], epochs: int) -> Iterator[str]:
    r"""Sources whose lines repeat themselves too early.

    >>> list(faults_of_epochs([b"0\n", b"1\n", b"1\n", b"0\n", b"0\n"], 2))
    ['s0 makes 3 runs without repetition in 2 epochs']
    """
    for source, numbers in by_source(lines).items():
        runs, seen = 1, set[int]()
        for number in numbers:
            if number in seen:
                runs, seen = runs + 1, set()
            seen.add(number)
        if runs > epochs:
            yield f"s{source} makes {runs} runs without repetition in {epochs} epochs"


def faults_of_shares(ranks: Sequence[Sequence[bytes]]) -> Iterator[str]:
    r"""Sources of which ranks get unlike numbers of lines.

    >>> list(faults_of_shares([[b"0\n", b"1\n"], [b"1000000\n"]]))
    ['shares: ranks get [2, 0] lines of s0']
    """
    found = [by_source(lines) for lines in ranks]
    for source in sorted({source for rank in found for source in rank}):
        sizes = [len(rank.get(source, ())) for rank in found]
        if max(sizes) - min(sizes) > 1:
            yield f"shares: ranks get {sizes} lines of s{source}"


def by_source(lines: Sequence[bytes]) -> Mapping[int, list[int]]:
    r"""The numbers of each source, in their order.

    >>> dict(by_source([b"1000000\n", b"3\n"]))
    {1: [1000000], 0: [3]}
    """
    found = defaultdict[int, list[int]](list)
    for line in lines:
        found[int(line) // BASE].append(int(line))
    return found


def check_round(number: int, options: argparse.Namespace) -> list[str]:
    """One round: what was found."""
    chance = random.Random(f"{options.seed} {number}")
    case = make_case(chance)
    stages = make_stages(chance, case, n_stages=options.stages, worlds=options.worlds)
    if options.round is not None:
        print(case.text, *stages, sep="\n")
    with tempfile.TemporaryDirectory(prefix="volt-checker-") as name:
        try:
            return list(faults(case, play(case, stages, Path(name), chance)))
        except CheckError as error:
            return [str(error)]


def warm_up() -> None:
    """Load what forks of this process would load each for itself."""
    import volt_cli.stream.run  # noqa: F401
    from volt.stream.running.stream import Stream

    with tempfile.TemporaryDirectory() as name:
        config = write_case(make_case(random.Random(0)), Path(name))
        with Stream.from_config(config, n_workers=0) as stream:
            stream.skip(1)


def main() -> int:
    """Parse arguments and run; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--round", type=int, help="this round alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stages", type=int, default=3, help="the most worlds that follow each other in a round")
    parser.add_argument("--worlds", type=int, nargs="+", default=[1, 2, 3, 4, 5, 7], help="which there may be")
    options = parser.parse_args()
    warm_up()
    began, n_bad = time.monotonic(), 0
    rounds = range(options.rounds) if options.round is None else [options.round]
    for number in rounds:
        found = check_round(number, options)
        n_bad += bool(found)
        for told in found:
            print(f"round {number}: {told}", flush=True)
    seconds = time.monotonic() - began
    print(f"{len(rounds)} rounds, {n_bad} with faults, seed {options.seed}, {seconds:.0f} s", file=sys.stderr)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
