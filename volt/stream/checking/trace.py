"""Where a line of the stream comes from, and what each transform made of it.

>>> import tempfile
>>> from volt.stream.reading.source import Source
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"a\\nb\\nc\\n") and file.flush()
...     found = next(traces(Stream([Source("letters", (file.name,), shuffle="none")]), [4]))
>>> found.source, found.line, found.epoch, found.text
('letters', 2, 1, 'b')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from volt import arguments
from volt.errors import StreamError
from volt.stream.reading.source import OpenSource, RawBlock, place_of
from volt.stream.running.blocks import trace_block
from volt.stream.running.state import Cursor, State
from volt.stream.running.stream import Stream
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.opening import Kept


@dataclass(frozen=True, slots=True)
class TraceStep:
    """What one transform did: the lines of this origin before it, and those after it."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """Where line n of the stream comes from.

    n: its number, from 0.
    source: the name of its source.
    path, line: the file and the number, from 1, of the line that it was made from.
    epoch, block, offset: its place in the source.
    raw: the line of the file as it was read.
    steps: what each transform did, in order.
    text: the line of the stream.

    >>> Trace(4, "wmt", "train.tsv", 2, epoch=1, block=0, offset=1, raw="B", steps=(), text="b")
    <Trace: line 4 is line 2 of train.tsv, epoch 1>
    """

    n: int
    source: str
    path: str
    line: int
    epoch: int
    block: int
    offset: int
    raw: str
    steps: tuple[TraceStep, ...]
    text: str

    def __repr__(self) -> str:
        place = f"line {self.line:,} of {arguments.shortened(Path(self.path).name)}"
        return f"<Trace: line {self.n:,} is {place}, epoch {self.epoch:,}>"

    def to_json(self) -> dict[str, Any]:
        """The trace as JSON values."""
        return asdict(self)


def traces(stream: Stream, numbers: Iterable[int], *, state: Mapping[str, Any] | None = None) -> Iterator[Trace]:
    """Trace lines; the stream itself stays where it is.

    stream: whose lines they are
    numbers: of the lines, from 0
    state: where to start, before these lines; by default the start of the stream

    Lines are found from the start, or from a state before them, since filters decide how far a source gets.
    Raises StreamError if the stream ends before a line.

    >>> import tempfile
    >>> from volt.stream.reading.source import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\\nb\\nc\\n") and file.flush()
    ...     [trace.line for trace in traces(Stream([Source("letters", (file.name,), shuffle="none")]), [0, 2])]
    [1, 3]
    """
    arguments.instance(stream, Stream, "stream")
    if isinstance(numbers, str) or not hasattr(numbers, "__iter__"):
        raise arguments.refusal(numbers, "numbers", "give the numbers of lines, such as [0, 7]")
    kept = Kept(most=8)  # a block holds many lines, and more than one of them may be asked for
    with stream.rehearsal() as rehearsal:
        if state is not None:
            rehearsal.restore(state)
        for n in numbers:
            _move(rehearsal, arguments.whole(n, "numbers", low=0))
            place = rehearsal.place()
            if place is None:
                raise StreamError(f"line {n}: the stream has only {rehearsal.n} lines; ask for an earlier one")
            source, cursor = rehearsal.sources[place[0]], place[1]
            batch, raw, steps = _traced_block(source, cursor, kept)
            yield _trace(n, source, (cursor.epoch, cursor.block, cursor.offset), batch, raw, steps)


def _move(stream: Stream, n: int) -> None:
    if n < stream.n:
        stream.restore(State(0, {}, stream.configuration).to_json())
    stream.skip(n - stream.n)


_Steps = list[tuple[str, Batch, Batch]]


def _traced_block(source: OpenSource, cursor: Cursor, kept: Kept) -> tuple[Batch, RawBlock, _Steps]:
    """The block in which a cursor stands, after every transform and before each of them."""

    def compute() -> tuple[Batch, RawBlock, _Steps]:
        steps: _Steps = []
        batch, raw = trace_block(source, cursor.epoch, cursor.block, lambda *step: steps.append(step))
        return batch, raw, steps

    return kept.get((source.name, cursor.epoch, cursor.block), compute)


def _trace(
    n: int, source: OpenSource, where: tuple[int, int, int], batch: Batch, raw: RawBlock, steps: _Steps
) -> Trace:
    epoch, block, offset = where
    origin = int(batch.origins[offset])
    path, line = place_of(source, raw.slices, origin)
    read = origin if raw.order is None else int(np.flatnonzero(raw.order == origin)[0])
    told = tuple(TraceStep(name, _with(before, origin), _with(after, origin)) for name, before, after in steps)
    text = raw.lines[read].decode(errors="replace")
    return Trace(n, source.name, path, line, epoch, block, offset, text, told, batch.lines[offset])


def _with(batch: Batch, origin: int) -> tuple[str, ...]:
    return tuple(batch.lines[index] for index in np.flatnonzero(batch.origins == origin).tolist())
