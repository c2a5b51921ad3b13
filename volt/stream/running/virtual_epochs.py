"""Virtual epochs: a mixture of endless sources, cut every V lines, and what each source gives in such an epoch.

V lines are so many that the largest source is read once, see `volt.stream.mixing.sampling`. Sources go on where they
stood when a virtual epoch ends, so that each is read as a whole before a line of it comes again, however few lines of
it an epoch takes. Where a pass over a source ends within a virtual epoch, a line can come before and after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from volt.display import counted
from volt.errors import ConfigError
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.sampling import Sampling, virtual_size
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.state import Cursor, Opening
from volt.stream.running.summary import epochs_read


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
        given = f"{self.given:,} of {counted(self.n_lines, 'line')}"
        return f"<VirtualEpoch {self.number}: {given}, {counted(len(self.sources), 'source')}>"

    def to_json(self) -> dict[str, Any]:
        """The epoch as JSON values.

        >>> VirtualEpoch(0, 3, 1, {"de": SourcePasses(1, 0, 1.0, 1.0)}).to_json()["sources"]["de"]["lines"]
        1
        """
        return asdict(self)


def mixed_by_size(sources: Sequence[OpenSource], mix: Sampling) -> tuple[OpenSource, ...]:
    """The sources with the weights that follow from their lines.

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
    given = [cursor.lines - count for cursor, count in zip(cursors, before, strict=True)]
    passes = [int(epochs_read(source, cursors[k], in_use.get(k))) for k, source in enumerate(sources)]
    parts = {
        source.name: SourcePasses(lines, n_passes, share, lines / max(1, n - start))
        for source, n_passes, lines, share in zip(sources, passes, given, wanted, strict=True)
    }
    return VirtualEpoch(number, end - start, n - start, parts)
