"""`Summary`: statistics of a stream and its sources so far. `VirtualEpoch`: progress in a virtual epoch.

A virtual epoch is the number of lines of a mixture of endless sources that reads the largest source about once;
`volt.stream.mixing.mixture` gives the equation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from volt.display import counted
from volt.errors import ConfigError
from volt.stream.mixing.mixture import Mixture, Sampling, virtual_size
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import chunk_rows, full_chunk_lines
from volt.stream.running.state import Cursor, Opening


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """The statistics of a source: lines, lines due by its weight (`requested`), and passes over it (`epochs`)."""

    lines: int
    requested: float
    epochs: float
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """The statistics of a stream.

    n: lines delivered, over all runs.
    n_lines, seconds: lines delivered since the stream was opened or restored, and the time that this took.
    n_read: lines read from the sources.
    n_faults: unfit lines among these.
    reasons: kind of fault → number of unfit lines.
    fields: k → lines with k fields among the first 256 lines of each chunk.
    sources: source name → its statistics.
    left_out: unreadable files, which were skipped.
    epoch_lines: lines of a virtual epoch; see `Stream.epoch_lines`.

    >>> summary = Summary(n=10, n_lines=10, seconds=0.5, n_read=12, n_faults=2, fields={2: 10})
    >>> summary, summary.to_json()["fields"]
    (<Summary: 10 lines given, 20 per second, 12 read, 2 unfit>, {'2': 10})
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
        rate = f"{counted(self.n, 'line')} given, {self.lines_per_second:,.0f} per second"
        return f"<Summary: {rate}, {self.n_read:,} read, {self.n_faults:,} unfit>"

    @property
    def lines_per_second(self) -> float:
        """Lines delivered per second; 0 before the first line."""
        return self.n_lines / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values. `fields_sampled` says that `fields` is a sample."""
        fields = {str(number): count for number, count in sorted(self.fields.items())}
        rounded = {
            "seconds": round(self.seconds, 3),
            "lines_per_second": round(self.lines_per_second, 1),
        }
        sampled = {"fields": fields, "fields_sampled": True}
        return {**asdict(self), **rounded, **sampled, "left_out": list(self.left_out)}


def epochs_read(source: OpenSource, cursor: Cursor, opening: Opening | None) -> float:
    """Return how often a source was read, as a fraction. opening: the chunk that contains its last line, if known"""
    block = (
        opening.block if opening else LineBlock(cursor.epoch, cursor.start or 0, source.block_lines)
    )
    low, high = chunk_rows(
        cursor.chunk, n_lines=block.n_lines, most=full_chunk_lines(source, block)
    )
    inside = cursor.inside / opening.size * (high - low) if opening and opening.size else 0.0
    return cursor.epoch + (block.start + low + inside) / source.n_lines


def source_summaries(
    sources: Sequence[OpenSource],
    cursors: Sequence[Cursor],
    mixture: Mixture,
    in_use: Mapping[int, Opening],
) -> dict[str, SourceSummary]:
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
    """One source in a virtual epoch: its lines, its whole passes so far, and its wanted and realised shares."""

    lines: int
    passes: int
    wanted: float
    realised: float


@dataclass(frozen=True, slots=True)
class VirtualEpoch:
    """A virtual epoch and its progress.

    number: the epoch's number, from 0.
    n_lines: the lines of the epoch; if ranks share the stream, only this rank's lines.
    given: lines of this epoch delivered so far.
    sources: source name → its lines, passes and shares.

    >>> VirtualEpoch(number=0, n_lines=1200, given=400, sources={})
    <VirtualEpoch 0: 400 of 1,200 lines, 0 sources>
    """

    number: int
    n_lines: int
    given: int
    sources: dict[str, SourcePasses]

    def __repr__(self) -> str:
        progress = f"{self.given:,} of {counted(self.n_lines, 'line')}"
        return f"<VirtualEpoch {self.number}: {progress}, {counted(len(self.sources), 'source')}>"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def mixed_by_size(sources: Sequence[OpenSource], mix: Sampling) -> tuple[OpenSource, ...]:
    for source in (opened.source for opened in sources):
        for name, default in (("weight", 1), ("epochs", None)):
            if (value := getattr(source, name)) != default:
                raise ConfigError(
                    f"source {source.name!r}: {name}={value} cannot be used with mix; remove one of them"
                )
    weights = mix.weights({source.name: source.n_lines for source in sources})
    return tuple(
        replace(source, source=replace(source.source, weight=weights[source.name]))
        for source in sources
    )


def epoch_lines(sources: Sequence[OpenSource]) -> int | None:
    """Return the number of lines in a virtual epoch; None if weights change, or a source among several ends."""
    if len(sources) == 1:
        return sources[0].n_lines
    weights = [opened.source.weight for opened in sources if opened.source.epochs is None]
    fixed = [weight for weight in weights if isinstance(weight, float | int)]
    return (
        virtual_size([source.n_lines for source in sources], fixed)
        if len(fixed) == len(sources)
        else None
    )


def virtual_epoch(
    sources: Sequence[OpenSource],
    in_use: Mapping[int, Opening],
    cursors: Sequence[Cursor],
    mixture: Mixture,
    *,
    n_lines: int,
    rank: int = 0,
    world: int = 1,
) -> VirtualEpoch:
    """Return the virtual epoch that contains the last line. n_lines: the epoch's lines for all ranks together"""
    n = sum(cursor.lines for cursor in cursors)
    number = max(0, (n - mixture.since) * world - 1 - rank) // n_lines
    start, end = (
        mixture.since + (epoch * n_lines + rank) // world for epoch in (number, number + 1)
    )
    before, wanted = mixture.counts_at(start).tolist(), mixture.shares()
    passes = {
        source.name: SourcePasses(
            lines := cursor.lines - count,
            int(epochs_read(source, cursor, in_use.get(index))),
            share,
            lines / max(1, n - start),
        )
        for index, (source, cursor, count, share) in enumerate(
            zip(sources, cursors, before, wanted, strict=True)
        )
    }
    return VirtualEpoch(number, end - start, n - start, passes)
