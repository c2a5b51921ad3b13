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
from typing import Any

from volt import arguments
from volt.errors import StreamError
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.blocks import Traced, shown_lines, trace_block
from volt.stream.running.chunks import Address
from volt.stream.running.state import State
from volt.stream.running.stream import Stream
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.opening import Kept
from volt.urls import name_of


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
    epoch, start, chunk, offset: its place in the source: the block of lines of the epoch that begins at `start`, the
        chunk of it that is transformed together, and how many lines of the chunk come before.
    raw: the line of the file as it was read.
    steps: what each transform did, in order.
    text: the line of the stream.

    >>> Trace(4, "wmt", "train.tsv", 2, epoch=1, start=0, chunk=0, offset=1, raw="B", steps=(), text="b")
    <Trace: line 4 is line 2 of train.tsv, epoch 1>
    """

    n: int
    source: str
    path: str
    line: int
    epoch: int
    start: int
    chunk: int
    offset: int
    raw: str
    steps: tuple[TraceStep, ...]
    text: str

    def __repr__(self) -> str:
        place = f"line {self.line:,} of {arguments.shortened(name_of(self.path))}"
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
            source, (address, inside) = rehearsal.sources[place[0]], place[1:]
            yield _trace(n, source, address, inside, _traced_block(source, address, kept))


def _move(stream: Stream, n: int) -> None:
    if n < stream.n:
        stream.restore(State(0, {}, stream.configuration).to_json())
    stream.skip(n - stream.n)


def _traced_block(source: OpenSource, address: Address, kept: Kept) -> Traced:
    return kept.get((source.name, address), lambda: trace_block(source, address))


def _trace(n: int, source: OpenSource, address: Address, inside: int, found: Traced) -> Trace:
    """inside: how many lines of the block come before."""
    origin = int(found.made.origins[inside])
    path, line = source.place_of(origin)
    [text, *_] = lines_with(found.raw, origin)
    [made] = found.made.take([inside]).lines
    part = address.part
    return Trace(
        n, source.name, path, line, part.epoch, part.start, address.chunk, inside, text, steps_of(found, origin), made
    )


def steps_of(found: Traced, origin: int) -> tuple[TraceStep, ...]:
    """What every step made of one line.

    origin: the number of the line in its source
    """
    return tuple(
        TraceStep(name, lines_with(before, origin), lines_with(after, origin)) for name, before, after in found.steps
    )


def lines_with(batch: Batch, origin: int) -> tuple[str, ...]:
    """The lines of a batch that one line was made into, as text."""
    return tuple(shown_lines(batch.take(batch.origins == origin)))
