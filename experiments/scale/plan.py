"""Points of a sample, and machines → what a corpus of n bytes will cost them: seconds, memory, bytes on the network.

N machines of C cores count L = N·C equal parts, and add their tables two by two, first within each machine, then
across. V is Heaps' law of all words, V' that of the words kept. r, e: CPU seconds of counting and encoding a byte;
a: of adding a row; λ: of learning from a word; w, m, μ: bytes of a word on the wire, counted, and learned from.

    counting            n/L · r,  or n/N / disk where that is slower
    adding, level l     2a · V(n·s/L),  s = 2^(l-1) parts in each of the two tables
    sending, level l    w · V(n·s/L) / network,  where the two lie on different machines
    shuffled, level l   w · V(n·s/L) · pairs
    memory, counting    start + m · C · V(n/L)
    memory, adding      start + m · V(n)                    the machine that holds the sum
    memory, learning    start + μ · V'(n)
    spilling            2 · (what exceeds the memory) / disk    written once, and read once
    learning            λ · V'(n)                           one core
    encoding            n/L · e,  or n/N / disk

Only the tables of words can be spilled. Where learning needs more than a machine has, a larger --min-count or a larger
machine is needed; the plan says so and does not change its seconds.

A rate is the slope between the two largest sizes, so that what is paid once at the start does not count. A sample that
is too small to need more memory than the start says nothing of memory, and the plan neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.scale.heaps import Law, fit
from experiments.scale.sample import Point


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines that are alike. memory: bytes of each;  network, disk: bytes per second of each."""

    n_machines: int = 64
    n_cores: int = 16
    memory: float = 64e9
    network: float = 1.25e9
    disk: float = 0.5e9

    @property
    def n_parts(self) -> int:
        """Cores of all machines."""
        return self.n_machines * self.n_cores


@dataclass(frozen=True, slots=True)
class Rates:
    """What the formulas are filled with; the letters stand in the module's docstring.

    counted, learned: None where the sample does not say
    """

    words: Law
    kept: Law
    count: float
    encode: float
    add: float
    learn: float
    wire: float
    start: float
    counted: float | None
    learned: float | None


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the tree. pairs: of tables;  words: in each;  sent: bytes in all;  seconds: of sending and adding."""

    pairs: int
    words: float
    sent: float
    sending: float
    adding: float

    @property
    def seconds(self) -> float:
        """Of a pair."""
        return self.sending + self.adding


@dataclass(frozen=True, slots=True)
class Plan:
    """What a corpus costs: seconds of each step, and bytes of the machine that needs most memory; None: unknown."""

    n_words: float
    n_kept: float
    counting: float
    levels: tuple[Level, ...]
    spilling: float
    learning: float
    encoding: float
    memory: dict[str, float | None]

    @property
    def adding(self) -> float:
        """Seconds of the whole tree."""
        return sum(level.seconds for level in self.levels)

    @property
    def shuffled(self) -> float:
        """Bytes over the network."""
        return sum(level.sent for level in self.levels)

    @property
    def total(self) -> float:
        """Seconds of all steps, one behind the other."""
        return self.counting + self.adding + self.spilling + self.learning + self.encoding


def rates_of(points: Sequence[Point]) -> Rates:
    """The rates of at least three sizes, which grow."""
    sizes = [point.n_bytes for point in points]
    words, kept = [point.n_words for point in points], [point.n_kept for point in points]
    last = points[-1]
    return Rates(
        words=fit(sizes, words), kept=fit(sizes, kept),
        count=slope(sizes, [point.count for point in points]), encode=last.encode,
        add=slope(words, [point.add for point in points]) / 2, learn=slope(kept, [point.learn for point in points]),
        wire=last.wire / last.n_words, start=last.start,
        counted=slope(words, [point.counted - point.start for point in points]) or None,
        learned=slope(kept, [point.learned - point.start for point in points]) or None,
    )  # fmt: skip


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the two last points; of the last alone where those two do not rise, as happens in noise.

    >>> slope([1, 2, 3], [5, 7, 9]), slope([1, 2, 4], [5, 7, 6])
    (2.0, 1.5)
    """
    if x[-1] > x[-2] and y[-1] > y[-2]:
        return (y[-1] - y[-2]) / (x[-1] - x[-2])
    return y[-1] / x[-1]


def plan(rates: Rates, cluster: Cluster, n_bytes: float) -> Plan:
    """Fill in the formulas."""
    part, share = n_bytes / cluster.n_parts, n_bytes / cluster.n_machines
    n_words, n_kept = rates.words(n_bytes), min(rates.kept(n_bytes), rates.words(n_bytes))
    held = {
        "counting": (rates.counted, cluster.n_cores * rates.words(part)), "adding": (rates.counted, n_words),
        "learning": (rates.learned, n_kept),
    }  # fmt: skip
    memory = {name: None if rate is None else rates.start + rate * n for name, (rate, n) in held.items()}
    over = sum(max(0.0, (memory[name] or 0.0) - cluster.memory) for name in ("counting", "adding"))
    return Plan(
        n_words=n_words, n_kept=n_kept, counting=max(part * rates.count, share / cluster.disk),
        levels=tuple(levels(rates, cluster, n_bytes)), spilling=2 * over / cluster.disk,
        learning=rates.learn * n_kept, encoding=max(part * rates.encode, share / cluster.disk), memory=memory,
    )  # fmt: skip


def levels(rates: Rates, cluster: Cluster, n_bytes: float) -> Iterator[Level]:
    """The tree: within each machine, then across. Where tables are odd in number, the last waits for the next level."""
    part, merged = n_bytes / cluster.n_parts, 1.0
    for n_tables, times, across in ((cluster.n_cores, cluster.n_machines, False), (cluster.n_machines, 1, True)):
        most = merged * n_tables
        while n_tables > 1:
            words = rates.words(part * merged)
            pairs, sent = n_tables // 2 * times, rates.wire * words * across
            yield Level(pairs, words, sent * pairs, sent / cluster.network, 2 * rates.add * words)
            n_tables, merged = n_tables - n_tables // 2, min(2 * merged, most)
        merged = most
