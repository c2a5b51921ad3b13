"""What a stream has given so far, in numbers: for the end of a run, and for whoever asks in between.

>>> Summary(n=10, n_lines=10, seconds=0.5, n_read=12, n_faults=2).lines_per_second
20.0

Virtual epochs: a mixture of endless sources, cut every V lines, and what each source gives in such an epoch.

V lines are so many that the largest source is read once, see `volt.stream.mixing.mixture`. Sources go on where they
stood when a virtual epoch ends, so that each is read as a whole before a line of it comes again, however few lines of
it an epoch takes. Where a pass over a source ends within a virtual epoch, a line can come before and after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from volt.display import counted
from volt.errors import ConfigError
from volt.stream.mixing.mixture import Mixture, Sampling, virtual_size
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.sampler import BlockRange
from volt.stream.running.blocks import most_of, rows_of
from volt.stream.running.state import Cursor, Opening


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """What a stream has taken from one source so far.

    lines: how many it has given.
    requested: how many its weight asks for.
    epochs: how often it has been read, counting the block in use as far as it has been read.
    ended: whether it has no more lines.
    """

    lines: int
    requested: float
    epochs: float
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """What a stream has given so far.

    n: how many lines, over all runs.
    n_lines, seconds: how many lines since it was opened or restored, and in how much time.
    n_read, n_faults: how many lines of the sources were read, and how many of them were unfit.
    reasons: kind of reason → how many lines were unfit for it.
    fields: number of fields → how many lines have so many, in a sample: the first 256 lines of each block.
    sources: source by source.
    left_out: files that could not be read.
    epoch_lines: lines of a virtual epoch, see `Stream.epoch_lines`.

    >>> Summary(n=10, n_lines=10, seconds=0.5, n_read=12, n_faults=2)
    <Summary: 10 lines given, 20 per second, 12 read, 2 unfit>
    """

    n: int
    n_lines: int
    seconds: float
    n_read: int
    n_faults: int
    reasons: dict[str, int] = field(default_factory=dict)
    fields: dict[int, int] = field(default_factory=dict)
    sources: dict[str, SourceSummary] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    epoch_lines: int | None = None

    def __repr__(self) -> str:
        inputs = f"{counted(self.n, 'line')} given, {self.lines_per_second:,.0f} per second"
        return f"<Summary: {inputs}, {self.n_read:,} read, {self.n_faults:,} unfit>"

    @property
    def lines_per_second(self) -> float:
        """Lines given per second, 0 before any time has passed."""
        return self.n_lines / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values. That `fields` is of a sample is said beside it.

        >>> Summary(n=1, n_lines=1, seconds=0.5, n_read=1, n_faults=0, fields={2: 1}).to_json()["fields"]
        {'2': 1}
        """
        fields = {str(number): count for number, count in sorted(self.fields.items())}
        rounded = {"seconds": round(self.seconds, 3), "lines_per_second": round(self.lines_per_second, 1)}
        sampled = {"fields": fields, "fields_sampled": True}
        return {**asdict(self), **rounded, **sampled, "left_out": list(self.left_out)}


def epochs_read(source: OpenSource, cursor: Cursor, opening: Opening | None) -> float:
    """Return how often a source has been read, by the share of lines of its epoch that were read.

    cursor: how far it has been read.
    opening: the block that its last line came from; None if it is not known.

    Inside a block, the lines that it gives stand for those that it was made from.
    """
    part = opening.part if opening else BlockRange(cursor.epoch, cursor.start or 0, source.block_lines)
    low, high = rows_of(cursor.chunk, n_lines=part.n_lines, most=most_of(source, part))
    inside = cursor.inside / opening.size * (high - low) if opening and opening.size else 0.0
    return cursor.epoch + (part.start + low + inside) / source.n_lines


def source_summaries(
    sources: Sequence[OpenSource], cursors: Sequence[Cursor], mixture: Mixture, in_use: Mapping[int, Opening]
) -> dict[str, SourceSummary]:
    """Return each source's summary, by name.

    cursors: how far each has been read; in_use: the block that its last line came from
    """
    owed = mixture.owed(sum(cursor.lines for cursor in cursors))
    return {
        source.name: SourceSummary(
            lines=cursor.lines,
            requested=round(owed[index], 6),
            epochs=round(epochs_read(source, cursor, in_use.get(index)), 6),
            ended=index in mixture.ended,
        )
        for index, (source, cursor) in enumerate(zip(sources, cursors, strict=True))
    }


@dataclass(frozen=True, slots=True)
class SourcePasses:
    """What a virtual epoch has of a source.

    lines: how many it has given in this epoch.
    passes: how often all its lines have been read, since the stream began.
    wanted, realised: its share of the epoch's lines, as the mixture wants it and as it is so far.
    """

    lines: int
    passes: int
    wanted: float
    realised: float


@dataclass(frozen=True, slots=True)
class VirtualEpoch:
    """A virtual epoch, as far as a stream has given it.

    number: from 0.
    n_lines: how many lines it has; in a stream of one rank, how many that rank gives.
    given: how many of them have been given.
    sources: by name.

    >>> VirtualEpoch(number=0, n_lines=1200, given=400, sources={})
    <VirtualEpoch 0: 400 of 1,200 lines, 0 sources>
    """

    number: int
    n_lines: int
    given: int
    sources: dict[str, SourcePasses]

    def __repr__(self) -> str:
        inputs = f"{self.given:,} of {counted(self.n_lines, 'line')}"
        return f"<VirtualEpoch {self.number}: {inputs}, {counted(len(self.sources), 'source')}>"

    def to_json(self) -> dict[str, Any]:
        """Return the epoch as JSON values.

        >>> VirtualEpoch(0, 3, 1, {"de": SourcePasses(1, 0, 1.0, 1.0)}).to_json()["sources"]["de"]["lines"]
        1
        """
        return asdict(self)


def mixed_by_size(sources: Sequence[OpenSource], mix: Sampling) -> tuple[OpenSource, ...]:
    """Return the sources with the weights that follow from their lines.

    Raises ConfigError if one has a weight of its own, or an end, or would get nothing.
    """
    for source in (opened.source for opened in sources):
        if source.weight != 1:
            raise ConfigError(
                f"source {source.name!r}: weight={source.weight} goes not with mix; leave one of them out"
            )
        if source.epochs is not None:
            raise ConfigError(
                f"source {source.name!r}: epochs={source.epochs} goes not with mix; leave one of them out"
            )
    weights = mix.weights({source.name: source.n_lines for source in sources})
    return tuple(source.weighing(weights[source.name]) for source in sources)


def epoch_lines(sources: Sequence[OpenSource]) -> int | None:
    """Lines of a virtual epoch; of one source, its lines. None if weights change, or one of several sources ends."""
    if len(sources) == 1:
        return sources[0].n_lines
    weights = [opened.source.weight for opened in sources if opened.source.epochs is None]
    fixed = [weight for weight in weights if isinstance(weight, float | int)]
    return virtual_size([source.n_lines for source in sources], fixed) if len(fixed) == len(sources) else None


def virtual_epoch(
    sources: Sequence[OpenSource], in_use: Mapping[int, Opening], cursors: Sequence[Cursor], mixture: Mixture,
    *, n_lines: int, rank: int = 0, world: int = 1,
) -> VirtualEpoch:  # fmt: skip
    """Return the virtual epoch of the line that was given last.

    in_use: the block that the last line of each source came from
    cursors: how far each source has been read
    mixture: with at most as many turns dealt as the cursors have lines
    n_lines: V, of all ranks together
    rank, world: each of the ranks gives V / world lines of an epoch, within one
    """
    n = sum(cursor.lines for cursor in cursors)
    number = max(0, (n - mixture.since) * world - 1 - rank) // n_lines
    start, end = (mixture.since + (epoch * n_lines + rank) // world for epoch in (number, number + 1))
    before, wanted = mixture.counts_at(start).tolist(), mixture.shares()
    inputs = [cursor.lines - count for cursor, count in zip(cursors, before, strict=True)]
    passes = [int(epochs_read(source, cursors[k], in_use.get(k))) for k, source in enumerate(sources)]
    parts = {
        source.name: SourcePasses(lines, n_passes, share, lines / max(1, n - start))
        for source, n_passes, lines, share in zip(sources, passes, inputs, wanted, strict=True)
    }
    return VirtualEpoch(number, end - start, n - start, parts)
