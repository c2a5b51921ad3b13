"""What a stream has given so far, in numbers: for the end of a run, and for whoever asks in between.

>>> Summary(n=10, n_lines=10, seconds=0.5, n_read=12, n_faults=2).lines_per_second
20.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from volt.display import counted
from volt.stream.mixing.mixture import Mixture
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.shares import Part
from volt.stream.running.chunks import most_of, rows_of
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
        given = f"{counted(self.n, 'line')} given, {self.lines_per_second:,.0f} per second"
        return f"<Summary: {given}, {self.n_read:,} read, {self.n_faults:,} unfit>"

    @property
    def lines_per_second(self) -> float:
        """Lines given per second, 0 before any time has passed."""
        return self.n_lines / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values. That `fields` is of a sample is said beside it.

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
    part = opening.part if opening else Part(cursor.epoch, cursor.start or 0, source.block_lines)
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
