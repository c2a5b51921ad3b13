"""`audit`: check that each line is read once per epoch, ranks read equally many, and sources keep
their shares."""

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
from volt.files.text_checks import BYTE_ORDER_MARK
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import UNIT, compute_shares
from volt.stream.reading.id_shard import are_ids
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
        """True if each line is read once per epoch, and ranks' numbers of lines differ by at most
        one."""
        is_complete = not self.missing and not self.repeated
        return is_complete and self.uneven <= 1 and self.content is not False


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of a stream.

    sources: the audit of each source.
    n_turns: number of checked turns of the mixture.
    deviation: the largest difference between a source's number of lines and its share, after any
        turn.

    >>> source = SourceAudit("wmt", 3, epochs=1, n_blocks=1, missing=0, repeated=0, uneven=0, content=None)
    >>> Audit((source,), 9, 0.5)
    <Audit: exact, 1 source, 9 turns, at most 0.5 lines off>
    """

    sources: tuple[SourceAudit, ...]
    n_turns: int
    deviation: float

    def __repr__(self) -> str:
        verdict = "exact" if self.exact else "not exact"
        n_sources = counted(len(self.sources), "source")
        n_turns = counted(self.n_turns, "turn")
        return f"<Audit: {verdict}, {n_sources}, {n_turns}, at most {self.deviation:.3g} lines off>"

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
    r"""Check that each line is read once per epoch, ranks read equally many lines, and sources keep
    their shares.

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
    epochs = arguments.whole(epochs, "epochs", low=1)
    turns = arguments.whole(turns, "turns", low=0)
    sources = [_audit_source(source, epochs, stream.world, content) for source in stream.sources]
    weights = [source.source.weight for source in stream.sources]
    return Audit(tuple(sources), turns, deviation(weights, turns))


def _audit_source(source: OpenSource, epochs: int, world: int, content: bool) -> SourceAudit:
    epochs = min(epochs, source.source.epochs or epochs)
    by_epoch = [list[LineBlock]() for _ in range(epochs)]
    n_lines = np.zeros((epochs, world), np.int64)
    for rank in range(world):
        for block in rank_blocks(
            source.n_lines, source.block_lines, rank=rank, world=world, epochs=epochs
        ):
            by_epoch[block.epoch].append(block)
            n_lines[block.epoch, rank] += block.n_lines
    faults = [_missing_and_repeated(source, blocks) for blocks in by_epoch]
    is_equal = None
    if content:
        expected = Counter(_digests(_file_lines(source)))
        is_equal = all(_block_digests(source, blocks) == expected for blocks in by_epoch)
    return SourceAudit(
        source.name,
        source.n_lines,
        epochs,
        n_blocks=sum(map(len, by_epoch)),
        missing=sum(missing for missing, _ in faults),
        repeated=sum(repeated for _, repeated in faults),
        uneven=int(np.ptp(np.cumsum(n_lines, axis=0), axis=1).max()),
        content=is_equal,
    )


def _missing_and_repeated(source: OpenSource, blocks: Iterable[LineBlock]) -> tuple[int, int]:
    ranges = list[tuple[int, int]]()
    n_lost = 0  # missing in a block's order, which then repeats as many lines
    for block in blocks:
        lines = segment_lines(source, block)
        for segment, first, n_lines in lines:
            start = int(source.line_starts[segment]) + first
            ranges.append((start, start + n_lines))
        n = sum(own.n_lines for own in lines)
        if source.source.shuffle != "none":
            n_lost += n - len(np.unique(line_order(source, block, n)))
    missing = n_lost
    repeated = n_lost
    covered = 0
    for start, end in sorted(ranges):
        missing += max(0, start - covered)
        repeated += max(0, min(covered, end) - start)
        covered = max(covered, end)
    return missing + source.n_lines - covered, repeated


def _block_digests(source: OpenSource, blocks: Iterable[LineBlock]) -> Counter[bytes]:
    result = Counter[bytes]()
    for block in blocks:
        result.update(_digests(_lines(read_block(source, block))))
    return result


def _digests(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (blake2b(line, digest_size=8).digest() for line in lines)


def _lines(batch: Batch) -> list[bytes]:
    return bytes(batch.packed()[0]).split(b"\n")[:-1]


def _file_lines(source: OpenSource) -> Iterator[bytes]:
    for shard in source.shards:
        texts = list[Iterator[bytes]]()
        for path in shard.paths:
            if are_ids(path):
                if not path.endswith(IDX):
                    texts.append(_id_lines(path))
            else:
                texts.append(_text_lines(path, source.source.max_line))
        if not shard.names:
            yield from texts[0]
        elif len(texts) > 1:
            yield from map(b"\t".join, zip(*texts, strict=True))
        else:
            for segment, n in enumerate(shard.counts):
                yield from _lines(Batch(shard.read(segment), None, np.arange(n)))


def _text_lines(path: str, max_line: int | None) -> Iterator[bytes]:
    for index, block in enumerate(read_raw(path, max_line=max_line)):
        yield from split_lines(block if index else block.removeprefix(BYTE_ORDER_MARK))


def _id_lines(path: str) -> Iterator[bytes]:
    dataset = open_ids(path)
    for first in range(0, len(dataset), _WINDOW):
        ids, offsets = dataset.span(first, min(first + _WINDOW, len(dataset)))
        for start, end in pairwise(offsets.tolist()):
            yield b" ".join(b"%d" % id_ for id_ in ids[start:end].tolist())


def deviation(weights: Iterable[Any], turns: int) -> float:
    """Return the largest difference between a source's number of lines and its share, after any of
    the first turns.

    What is owed to a source never falls, so the difference is largest just before or after a turn
    of the source.
    """
    mixture = Mixture(list(weights))
    shares = compute_shares(mixture.weights)
    worst = 0.0
    while mixture.n < turns:
        stretch, lengths = shares.lengths_from(mixture.n)
        rates = shares.units[stretch] / UNIT
        lags = np.array(mixture.owed()) - mixture.counts
        n_turns = min(_WINDOW, turns - mixture.n, int(lengths[0]))
        dealt = mixture.turns(n_turns)

        order = np.argsort(dealt, kind="stable")
        sources = dealt[order]
        n_earlier = np.arange(len(dealt)) - np.searchsorted(sources, sources)  # of the same source
        before = lags[sources] + order * rates[sources] - n_earlier
        after = before + rates[sources] - 1
        counts = np.bincount(dealt, minlength=len(lags))
        at_end = lags + n_turns * rates - counts
        for values in (before, after, at_end):
            worst = max(worst, float(np.abs(values).max()))
    return worst
