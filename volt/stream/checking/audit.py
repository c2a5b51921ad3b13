"""`audit`: check the promises of a stream without running its transforms.

epochs    all ranks together read each line of a source once per epoch, and equally many lines
turns     after any number of turns, each source has its share of the lines, within one line
content   the lines that are read equal the lines of the files, which are read in another way
"""

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

_WINDOW = 1 << 16  # turns, or sentences of ids, at a time


@dataclass(frozen=True, slots=True)
class SourceAudit:
    """The audit of one source.

    n_lines: the number of lines in an epoch.
    epochs: the number of epochs checked.
    n_blocks: the number of blocks checked, over all ranks and epochs.
    missing: the number of lines that an epoch does not read, summed over epochs.
    repeated: the number of lines that an epoch reads again, summed over epochs.
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
        """True if each line is read once per epoch with its content, and ranks' numbers of lines
        differ by at most one."""
        is_complete = not self.missing and not self.repeated
        return is_complete and self.uneven <= 1 and self.content is not False


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of a stream.

    sources: the audit of each source.
    n_turns: the number of checked turns of the mixture; a turn is one line of the stream.
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
    r"""Check that each line is read once per epoch, and that ranks and sources get their shares.

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
    sources = [
        _audit_source(source, epochs=epochs, world=stream.world, content=content)
        for source in stream.sources
    ]
    weights = [source.source.weight for source in stream.sources]
    return Audit(tuple(sources), turns, measure_deviation(weights, turns))


def _audit_source(source: OpenSource, *, epochs: int, world: int, content: bool) -> SourceAudit:
    epochs = min(epochs, source.source.epochs or epochs)
    blocks_by_epoch = [list[LineBlock]() for _ in range(epochs)]
    n_lines = np.zeros((epochs, world), np.int64)  # that each rank reads in each epoch
    for rank in range(world):
        blocks = rank_blocks(
            source.n_lines, source.block_lines, rank=rank, world=world, epochs=epochs
        )
        for block in blocks:
            blocks_by_epoch[block.epoch].append(block)
            n_lines[block.epoch, rank] += block.n_lines
    counts = [_count_missing_and_repeated(source, blocks) for blocks in blocks_by_epoch]
    is_equal = None
    if content:
        expected = Counter(_hash_lines(_file_lines(source)))
        is_equal = all(_hash_blocks(source, blocks) == expected for blocks in blocks_by_epoch)
    return SourceAudit(
        source.name,
        source.n_lines,
        epochs,
        n_blocks=sum(map(len, blocks_by_epoch)),
        missing=sum(missing for missing, _ in counts),
        repeated=sum(repeated for _, repeated in counts),
        uneven=int(np.ptp(np.cumsum(n_lines, axis=0), axis=1).max()),
        content=is_equal,
    )


def _count_missing_and_repeated(source: OpenSource, blocks: Iterable[LineBlock]) -> tuple[int, int]:
    """Return how many lines of the source the blocks of an epoch do not read, and read again."""
    ranges = list[tuple[int, int]]()  # of lines in the source
    n_lost = 0  # lines that a block's permutation lacks; it then repeats as many
    for block in blocks:
        lines = segment_lines(source, block)
        for segment, first, n_lines in lines:
            start = int(source.line_starts[segment]) + first
            ranges.append((start, start + n_lines))
        if source.source.shuffle != "none":
            n_lines = sum(part.n_lines for part in lines)
            n_lost += n_lines - len(np.unique(line_order(source, block, n_lines)))
    missing = n_lost
    repeated = n_lost
    covered_end = 0  # all lines before it were compared with the sorted ranges
    for start, end in sorted(ranges):
        missing += max(0, start - covered_end)
        repeated += max(0, min(covered_end, end) - start)
        covered_end = max(covered_end, end)
    return missing + source.n_lines - covered_end, repeated


def _hash_blocks(source: OpenSource, blocks: Iterable[LineBlock]) -> Counter[bytes]:
    result = Counter[bytes]()
    for block in blocks:
        result.update(_hash_lines(_split_batch(read_block(source, block))))
    return result


def _hash_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (blake2b(line, digest_size=8).digest() for line in lines)


def _split_batch(batch: Batch) -> list[bytes]:
    return bytes(batch.packed()[0]).split(b"\n")[:-1]


def _file_lines(source: OpenSource) -> Iterator[bytes]:
    """Yield the lines of the source's files; of tables, of their split copies."""
    for shard in source.shards:
        fields = list[Iterator[bytes]]()  # for each file, its lines
        for path in shard.paths:
            if are_ids(path):
                if not path.endswith(IDX):
                    fields.append(_id_lines(path))
            else:
                fields.append(_text_lines(path, source.source.max_line))
        if not shard.names:
            yield from fields[0]
        elif len(fields) > 1:
            yield from map(b"\t".join, zip(*fields, strict=True))
        else:
            for segment, n in enumerate(shard.counts):
                yield from _split_batch(Batch(shard.read(segment), None, np.arange(n)))


def _text_lines(path: str, max_line: int | None) -> Iterator[bytes]:
    for index, block in enumerate(read_raw(path, max_line=max_line)):
        yield from split_lines(block if index else block.removeprefix(BYTE_ORDER_MARK))


def _id_lines(path: str) -> Iterator[bytes]:
    dataset = open_ids(path)
    for first in range(0, len(dataset), _WINDOW):
        ids, offsets = dataset.span(first, min(first + _WINDOW, len(dataset)))
        for start, end in pairwise(offsets.tolist()):
            yield b" ".join(b"%d" % id_ for id_ in ids[start:end].tolist())


def measure_deviation(weights: Iterable[Any], n_turns: int) -> float:
    """Return the largest difference between a source's number of lines and its share.

    All numbers of turns from 1 to `n_turns` count. A source's lag is what it is owed, the sum of
    its shares, minus its turns. The lag rises by the share at each turn, and falls by 1 at a turn
    of the source. So its extremes are just before and after the source's turns, and at the end.
    """
    mixture = Mixture(list(weights))
    shares = compute_shares(mixture.weights)
    worst = 0.0
    while mixture.n < n_turns:
        interval, lengths = shares.lengths_from(mixture.n)
        rates = shares.units[interval] / UNIT  # lines owed to each source per turn
        lags = np.array(mixture.owed()) - mixture.counts
        n = min(_WINDOW, n_turns - mixture.n, int(lengths[0]))
        turns = mixture.turns(n)

        by_source = np.argsort(turns, kind="stable")
        sources = turns[by_source]
        n_earlier = np.arange(n) - np.searchsorted(sources, sources)  # turns of the same source
        before = lags[sources] + by_source * rates[sources] - n_earlier
        after = before + rates[sources] - 1
        at_end = lags + n * rates - np.bincount(turns, minlength=len(lags))
        for values in (before, after, at_end):
            worst = max(worst, float(np.abs(values).max()))
    return worst
