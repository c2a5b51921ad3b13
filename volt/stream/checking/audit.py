"""`audit`: check that each line is read once per epoch, ranks read equally many, and sources keep their shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from volt import arguments
from volt.display import counted
from volt.files.blocks import read_raw
from volt.files.indexed_dataset import IDX, open_ids
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import UNIT, shares_of
from volt.stream.reading.open_shard import are_ids
from volt.stream.reading.open_source import OpenSource, line_order, read_block, segment_lines
from volt.stream.reading.text_shard import split_lines
from volt.stream.reading.unread_lines import LineBlock, rank_blocks
from volt.stream.running.stream import Stream
from volt.stream.transforms.line_batch import Batch

_WINDOW = 1 << 16  # turns


@dataclass(frozen=True, slots=True)
class SourceAudit:
    """The audit of one source.

    n_lines: number of lines in an epoch.
    n_blocks: number of blocks checked, over all ranks and epochs.
    missing: number of lines that an epoch does not read, summed over epochs.
    repeated: number of lines that an epoch reads again, summed over epochs.
    uneven: the largest difference between two ranks' numbers of lines after any epoch.
    content: whether the lines read equal the files' lines; None if not checked.
    """

    name: str
    n_lines: int
    epochs: int
    n_blocks: int
    missing: int
    repeated: int
    uneven: int
    content: bool | None

    @property
    def exact(self) -> bool:
        """True if each line is read once per epoch, and ranks' numbers of lines differ by at most one."""
        return (
            not self.missing
            and not self.repeated
            and self.uneven <= 1
            and self.content is not False
        )


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of a stream.

    sources: the audit of each source.
    n_turns: number of checked turns of the mixture.
    deviation: the largest difference between a source's number of lines and its share, after any turn.

    >>> source = SourceAudit("wmt", 3, epochs=1, n_blocks=1, missing=0, repeated=0, uneven=0, content=None)
    >>> Audit((source,), 9, 0.5)
    <Audit: exact, 1 source, 9 turns, at most 0.5 lines off>
    """

    sources: tuple[SourceAudit, ...]
    n_turns: int
    deviation: float

    def __repr__(self) -> str:
        verdict = (
            f"{'exact' if self.exact else 'not exact'}, {counted(len(self.sources), 'source')}"
        )
        return f"<Audit: {verdict}, {counted(self.n_turns, 'turn')}, at most {self.deviation:.3g} lines off>"

    @property
    def exact(self) -> bool:
        """True if all sources are covered exactly, and shares are right within one line."""
        return all(source.exact for source in self.sources) and self.deviation <= 1 + 1e-6

    def to_json(self) -> dict[str, Any]:
        """Return the audit as JSON values."""
        return {**asdict(self), "exact": self.exact}


def audit(
    stream: Stream, *, epochs: int = 1, turns: int = 1_000_000, content: bool = False
) -> Audit:
    r"""Check that each line is read once per epoch, ranks read equally many lines, and sources keep their shares.

    stream: the stream to check; its transforms do not run, and its position does not change.
    epochs: the number of epochs to check, for all ranks.
    turns: the number of turns of the mixture to check.
    content: whether to read every block and compare its lines with the files.

    >>> import tempfile
    >>> from volt.stream.reading.source_definition import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\nb\nc\n") and file.flush()
    ...     audit(Stream([Source("letters", (file.name,), block_lines=2)]), epochs=3, content=True).exact
    True
    """
    arguments.instance(stream, Stream, "stream")
    epochs, turns = arguments.whole(epochs, "epochs", low=1), arguments.whole(turns, "turns", low=0)
    sources = tuple(
        _audit_source(source, epochs, stream.world, content) for source in stream.sources
    )
    return Audit(
        sources, turns, deviation([source.source.weight for source in stream.sources], turns)
    )


def _audit_source(source: OpenSource, epochs: int, world: int, content: bool) -> SourceAudit:
    epochs = min(epochs, source.source.epochs or epochs)
    ranks = [
        list(rank_blocks(source.n_lines, source.block_lines, rank=rank, world=world, epochs=epochs))
        for rank in range(world)
    ]
    by_epoch = [
        [block for own in ranks for block in own if block.epoch == epoch] for epoch in range(epochs)
    ]
    missing, repeated = map(sum, zip(*(_uncovered(source, own) for own in by_epoch), strict=True))
    same = all(_has_content_of_files(source, own) for own in by_epoch) if content else None
    lines = [
        [sum(block.n_lines for block in own if block.epoch == epoch) for own in ranks]
        for epoch in range(epochs)
    ]
    uneven = int(np.ptp(np.cumsum(lines, axis=0), axis=1).max())
    return SourceAudit(
        source.name, source.n_lines, epochs, sum(map(len, ranks)), missing, repeated, uneven, same
    )


def _uncovered(source: OpenSource, own: Iterable[LineBlock]) -> tuple[int, int]:
    spans = list[tuple[int, int]]()
    missing = repeated = 0
    for block in own:
        slices = segment_lines(source, block)
        spans += [(int(source.line_starts[one.segment]) + one.first, one.n_lines) for one in slices]
        n = sum(one.n_lines for one in slices)
        order = line_order(source, block, n)
        lost = (
            0 if order is None else n - len(np.unique(order))
        )  # for each missing line, another is repeated
        missing, repeated = missing + lost, repeated + lost
    end = 0
    for start, count in sorted(spans):
        missing += max(0, start - end)
        repeated += max(0, min(end, start + count) - start)
        end = max(end, start + count)
    return missing + source.n_lines - end, repeated


def _has_content_of_files(source: OpenSource, own: Iterable[LineBlock]) -> bool:
    read = Counter(_digests(line for block in own for line in _lines(read_block(source, block))))
    return read == Counter(_digests(_file_lines(source)))


def _digests(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (blake2b(line, digest_size=8).digest() for line in lines)


def _lines(batch: Batch) -> list[bytes]:
    return bytes(batch.packed()[0]).split(b"\n")[:-1]


def _file_lines(source: OpenSource) -> Iterator[bytes]:
    for shard in source.shards:
        paths = [path for path in shard.paths if not path.endswith(IDX)]
        texts = [
            _id_lines(path) if are_ids(path) else _text_lines(path, source.source.max_line)
            for path in paths
        ]
        if not shard.names:
            yield from texts[0]
        elif len(texts) > 1:
            yield from map(b"\t".join, zip(*texts, strict=True))
        else:
            for segment, n in enumerate(shard.counts):
                yield from _lines(Batch(shard.read(segment), None, np.arange(n)))


def _text_lines(path: str, max_line: int | None) -> Iterator[bytes]:
    for index, block in enumerate(read_raw(path, max_line=max_line)):
        yield from split_lines(block if index else block.removeprefix(b"\xef\xbb\xbf"))


def _id_lines(path: str) -> Iterator[bytes]:
    dataset = open_ids(path)
    for first in range(0, len(dataset), _WINDOW):
        ids, offsets = dataset.span(first, min(first + _WINDOW, len(dataset)))
        for start, end in pairwise(offsets.tolist()):
            yield b" ".join(b"%d" % id_ for id_ in ids[start:end].tolist())


def deviation(weights: Iterable[Any], turns: int) -> float:
    """Return the largest difference between a source's number of lines and its share, after any of the first turns.

    What is owed to a source never falls, so the difference is largest just before or after a turn of the source.
    """
    mixture = Mixture(list(weights))
    shares = shares_of(mixture.weights)
    worst = 0.0
    while (start := mixture.n) < turns:
        stretch, lengths = shares.lengths(start)
        rates = shares.units[stretch] / UNIT
        lags = np.array(mixture.owed()) - mixture.counts
        dealt = mixture.turns(min(_WINDOW, turns - start, int(lengths[0])))
        places = np.argsort(dealt, kind="stable")
        sources = dealt[places]
        earlier = np.arange(len(dealt)) - np.searchsorted(
            sources, sources
        )  # turns of the same source
        before = lags[sources] + places * rates[sources] - earlier
        after = before + rates[sources] - 1
        at_end = lags + len(dealt) * rates - np.bincount(dealt, minlength=len(lags))
        worst = max(worst, *(float(np.abs(values).max()) for values in (before, after, at_end)))
    return worst
