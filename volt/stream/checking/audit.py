"""A check that every line of every source comes exactly once per epoch, and that sources keep their shares.

>>> import tempfile
>>> from volt.stream.reading.source import Source
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"a\\nb\\nc\\n") and file.flush()
...     found = audit(Stream([Source("letters", (file.name,), block_lines=2)]), epochs=3, content=True)
>>> found.exact, found.sources[0]
(True, SourceAudit(name='letters', n_lines=3, epochs=3, n_blocks=6, missing=0, repeated=0, content=True))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from volt import arguments
from volt.display import counted
from volt.files.blocks import read_raw
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import UNIT, shares_of
from volt.stream.reading.source import OpenSource, addresses, block_slices, line_order, read_block
from volt.stream.reading.text_shard import split_lines
from volt.stream.running.stream import Stream

_WINDOW = 1 << 16


@dataclass(frozen=True, slots=True)
class SourceAudit:
    """What the audit found in one source.

    n_lines: lines in an epoch.
    n_blocks: how many blocks were looked at, of all ranks and epochs.
    missing, repeated: lines that an epoch leaves out, or gives more than once; the sum over all epochs.
    content: whether the lines that were read are those of the files; None if none were read.
    """

    name: str
    n_lines: int
    epochs: int
    n_blocks: int
    missing: int
    repeated: int
    content: bool | None

    @property
    def exact(self) -> bool:
        """Whether each line comes exactly once per epoch."""
        return not self.missing and not self.repeated and self.content is not False


@dataclass(frozen=True, slots=True)
class Audit:
    """What the audit found in a stream.

    sources: source by source.
    n_turns: how many turns of the mixture were looked at.
    deviation: by how many lines, at the worst of these turns, a source had more or fewer than its share.

    >>> Audit((SourceAudit("wmt", n_lines=3, epochs=1, n_blocks=1, missing=0, repeated=0, content=None),), 100, 0.5)
    <Audit: exact, 1 source, 100 turns, at most 0.5 lines off>
    """

    sources: tuple[SourceAudit, ...]
    n_turns: int
    deviation: float

    def __repr__(self) -> str:
        found = f"{'exact' if self.exact else 'not exact'}, {counted(len(self.sources), 'source')}"
        return f"<Audit: {found}, {counted(self.n_turns, 'turn')}, at most {self.deviation:.3g} lines off>"

    @property
    def exact(self) -> bool:
        """Whether all sources are covered exactly and all shares kept within one sample."""
        return all(source.exact for source in self.sources) and self.deviation <= 1 + 1e-6

    def to_json(self) -> dict[str, Any]:
        """The audit as JSON values."""
        return {**asdict(self), "exact": self.exact}


def audit(stream: Stream, *, epochs: int = 1, turns: int = 1_000_000, content: bool = False) -> Audit:
    """Check that every line of every source comes exactly once in each of these epochs, and that shares are kept.

    The positions of lines are computed by the functions that the stream itself uses. Transforms are left out.

    stream: which stays where it is.
    epochs: how many epochs to look at, for all ranks.
    turns: how many turns of the mixture to look at.
    content: also read every block and compare its lines with those of the files, read from start to end.

    >>> import tempfile
    >>> from volt.stream.reading.source import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\\nb\\nc\\n") and file.flush()
    ...     audit(Stream([Source("letters", (file.name,))]), turns=100, content=True).exact
    True
    """
    arguments.instance(stream, Stream, "stream")
    epochs, turns = arguments.whole(epochs, "epochs", low=1), arguments.whole(turns, "turns", low=0)
    covered = tuple(_covered(source, epochs, stream.world, content) for source in stream.sources)
    return Audit(covered, turns, deviation([source.source.weight for source in stream.sources], turns))


def _covered(source: OpenSource, epochs: int, world: int, content: bool) -> SourceAudit:
    """Look at all blocks of all ranks, sorted by epoch."""
    epochs = min(epochs, source.source.epochs or epochs)
    by_epoch: list[list[int]] = [[] for _ in range(epochs)]
    for rank in range(world):
        for epoch, block in addresses(source, rank=rank, world=world):
            if epoch >= epochs:
                break
            by_epoch[epoch].append(block)
    faults = [_uncovered(source, epoch, blocks) for epoch, blocks in enumerate(by_epoch)]
    missing, repeated = map(sum, zip(*faults, strict=True))
    same = all(_same_content(source, epoch, blocks) for epoch, blocks in enumerate(by_epoch)) if content else None
    return SourceAudit(source.name, source.n_lines, epochs, sum(map(len, by_epoch)), missing, repeated, same)


def _uncovered(source: OpenSource, epoch: int, blocks: Iterable[int]) -> tuple[int, int]:
    """How many lines of an epoch are missing and repeated, from the intervals that its blocks read."""
    starts = np.cumsum([0, *source.sizes.tolist()])
    spans = list[tuple[int, int]]()
    missing = repeated = 0
    for block in blocks:
        slices = block_slices(source, epoch, block)
        spans += [(int(starts[part.piece]) + part.first, part.n_lines) for part in slices]
        lost = _lost(source, epoch, block, sum(part.n_lines for part in slices))
        missing, repeated = missing + lost, repeated + lost
    end = 0
    for start, count in sorted(spans):
        missing += max(0, start - end)
        repeated += max(0, min(end, start + count) - start)
        end = max(end, start + count)
    return missing + source.n_lines - end, repeated


def _lost(source: OpenSource, epoch: int, block: int, n: int) -> int:
    """How many of a block's lines its order leaves out (and so repeats others)."""
    order = line_order(source, epoch, block, n)
    return 0 if order is None else n - len(np.unique(order))


def _same_content(source: OpenSource, epoch: int, blocks: Iterable[int]) -> bool:
    """Whether the blocks hold the lines of the files, each as often as there."""
    read = Counter(_digests(line for block in blocks for line in read_block(source, epoch, block).lines))
    return read == Counter(_digests(_file_lines(source)))


def _digests(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (blake2b(line, digest_size=8).digest() for line in lines)


def _file_lines(source: OpenSource) -> Iterator[bytes]:
    for shard in source.shards:
        first = True
        for block in read_raw(shard.path, max_line=source.source.max_line):
            yield from split_lines(block.removeprefix(b"\xef\xbb\xbf") if first else block)
            first = False


def deviation(weights: Iterable[Any], turns: int) -> float:
    """The most by which any source's count differs from its requested share after any of the first turns.

    >>> deviation([2.0, 1.0], 3)
    0.6666666666666667
    """
    mixture = Mixture(list(weights))
    shares, worst = shares_of(mixture.weights), 0.0
    while (start := mixture.n) < turns:
        lags = np.array(mixture.owed()) - mixture.counts
        dealt = mixture.turns(min(_WINDOW, turns - start))
        stretches = np.searchsorted(shares.starts, np.arange(start, start + len(dealt)), side="right") - 1
        owed = np.cumsum(shares.units[stretches] / UNIT, axis=0)
        given = np.cumsum(dealt[:, None] == np.arange(len(lags)), axis=0)
        worst = max(worst, float(np.abs(lags + owed - given).max()))
    return worst
