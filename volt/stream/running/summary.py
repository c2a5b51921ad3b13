"""`Summary`: statistics of a stream so far. `VirtualEpoch`: progress in a virtual epoch.

A virtual epoch is so many lines of a mixture of endless sources that the largest source is read
about once; `volt.stream.mixing.mixture` has the equation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from volt.display import counted
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import chunk_rows, full_chunk_lines
from volt.stream.running.openings import Opening
from volt.stream.running.state import Cursor


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """The statistics of a source.

    lines: lines delivered from the source.
    requested: lines due to the source by its weight.
    epochs: how often the source was read.
    ended: True if the source has ended.
    """

    lines: int
    requested: float
    epochs: float
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """The statistics of a stream.

    n: lines delivered, over all runs.
    n_lines, seconds: lines delivered since the stream was opened or restored, and the time that
        this took.
    n_read: lines read from the sources.
    n_faults: unfit lines among the lines read.
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
        return {
            **asdict(self),
            "seconds": round(self.seconds, 3),
            "lines_per_second": round(self.lines_per_second, 1),
            "fields": {str(number): count for number, count in sorted(self.fields.items())},
            "fields_sampled": True,
            "left_out": list(self.left_out),
        }


def epochs_read(source: OpenSource, cursor: Cursor, opening: Opening | None) -> float:
    """Return how often a source was read, as a fraction.

    In a chunk, whose outputs need not correspond to lines, the share of delivered outputs counts:
    3 of 6 outputs of a chunk of 10 lines count as 5 lines.

    opening: the opening of the chunk at the cursor; None if the cursor is before the first chunk
    """
    block = LineBlock(cursor.epoch, cursor.start or 0, source.block_lines)
    if opening is not None:
        block = opening.block
    most = full_chunk_lines(source, block)
    low, high = chunk_rows(cursor.chunk, n_lines=block.n_lines, most=most)
    rows = float(low)
    if opening is not None and opening.n_outputs:
        rows += cursor.chunk_offset / opening.n_outputs * (high - low)
    return cursor.epoch + (block.start + rows) / source.n_lines


@dataclass(frozen=True, slots=True)
class SourcePasses:
    """One source in a virtual epoch.

    lines: lines delivered from the source in this virtual epoch.
    passes: how often the source was read as a whole, since the stream began.
    wanted, realised: the source's share of the stream's lines by weight, and in this virtual epoch.
    """

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
