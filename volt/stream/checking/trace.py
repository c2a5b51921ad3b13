"""`trace`: find the origin of a line of the stream, and its text after each step (transform).

    line 4 of the stream  ←  line 2 of train.tsv: "B", lower → "b"

`debug` shows each source's first lines after each step, also lines that a step drops. `debug_page`
shows them as HTML, which works offline: a content security policy forbids scripts and network, and
the template escapes all texts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from functools import partial
from importlib.resources import files
from itertools import takewhile, zip_longest
from typing import Any, NamedTuple

from volt import arguments
from volt.display import counted
from volt.errors import StreamError, visible
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import (
    Address,
    Traced,
    full_chunk_lines,
    n_chunks,
    shown_lines,
    trace_chunk,
)
from volt.stream.running.state import State
from volt.stream.running.stream import Stream
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.transform import SharedCache
from volt.urls import name_of

N_LINES = 20  # that `debug` shows of each source
_MOST_COMPARED = 1 << 20  # pairs of tokens; longer lines are compared as sets of tokens


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A transform, and the lines from one origin before and after it."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """The origin of line n of the stream.

    n: the line's number, from 0.
    source: the source's name.
    path, line: the file, and the line's number in it, from 1.
    epoch, start, chunk, offset: the position in the source: the epoch, the block's first line, the
        chunk of the block, and the number of lines before this line in the chunk.
    raw: the line as it was read.
    steps: the lines before and after each transform, in order.
    text: the resulting line of the stream.

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
        """Return the trace as JSON values."""
        return asdict(self)


def trace(
    stream: Stream, numbers: Iterable[int], *, state: Mapping[str, Any] | None = None
) -> Iterator[Trace]:
    r"""Trace lines of a stream. Raises StreamError if the stream ends before a line.

    stream: its position does not change
    numbers: the lines' numbers, from 0
    state: an earlier state to start from; by default the start of the stream

    >>> import tempfile
    >>> from volt.stream.reading.source_definition import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\nb\nc\n") and file.flush()
    ...     [trace.line for trace in trace(Stream([Source("letters", (file.name,), shuffle="none")]), [0, 2])]
    [1, 3]
    """
    arguments.instance(stream, Stream, "stream")
    if isinstance(numbers, str) or not hasattr(numbers, "__iter__"):
        raise arguments.refusal(numbers, "numbers", "give the numbers of lines, such as [0, 7]")
    chunks = SharedCache(most=8)  # several of the lines may be in one chunk
    with stream.rehearsal() as rehearsal:
        if state is not None:
            rehearsal.restore(state)
        for n in numbers:
            if arguments.whole(n, "numbers", low=0) < rehearsal.n:
                rehearsal.restore(State(0, {}, rehearsal.configuration).to_json())
            rehearsal.skip(n - rehearsal.n)
            place = rehearsal.place()
            if place is None:
                problem = f"line {n}: the stream has only {rehearsal.n} lines"
                raise StreamError(f"{problem}; ask for an earlier one")
            index, address, offset = place
            source = rehearsal.sources[index]
            traced = chunks.get((source.name, address), partial(trace_chunk, source, address))
            origin = int(traced.output.origins[offset])
            path, line = source.place_of(origin)
            yield Trace(
                n,
                source.name,
                path,
                line,
                epoch=address.block.epoch,
                start=address.block.start,
                chunk=address.chunk,
                offset=offset,
                raw=_lines_from(traced.raw, origin)[0],
                steps=_steps_from(traced, origin),
                text=traced.output.take([offset]).lines[0],
            )


def _steps_from(traced: Traced, origin: int) -> tuple[TraceStep, ...]:
    return tuple(
        TraceStep(name, _lines_from(before, origin), _lines_from(after, origin))
        for name, before, after in traced.steps
    )


def _lines_from(batch: Batch, origin: int) -> tuple[str, ...]:
    """Return the lines of a batch that come from one line of the source."""
    return tuple(shown_lines(batch.take(batch.origins == origin)))


@dataclass(frozen=True, slots=True)
class DebugLine:
    """One line of a source, before and after every step.

    source: the source's name.
    path, line: the file, and the line's number in it, from 1.
    raw: the line as it was read.
    steps: the lines made from it, before and after each step, up to the step that dropped them all.
    faults: why the line, or a copy of it, was unfit, as in "step name: reason".
    text: the resulting lines of the stream.

    >>> DebugLine("wmt", "data/train.tsv", 2, raw="a", steps=(), faults=(), text=("a",))
    <DebugLine: line 2 of train.tsv>
    """

    source: str
    path: str
    line: int
    raw: str
    steps: tuple[TraceStep, ...]
    faults: tuple[str, ...]
    text: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<DebugLine: line {self.line:,} of {arguments.shortened(name_of(self.path))}>"

    @property
    def fate(self) -> str:
        """The reason for a missing line: "unfit" or "dropped"; empty if the stream has the line."""
        if self.text:
            return ""
        return "unfit" if self.faults else "dropped"

    @property
    def dropped_by(self) -> str:
        """The step that dropped the line; empty if no step did."""
        if self.text or not self.steps or self.steps[-1].after:
            return ""
        return self.steps[-1].name

    def to_json(self) -> dict[str, Any]:
        """Return the line as JSON values."""
        return {**asdict(self), "dropped_by": self.dropped_by}


def debug(stream: Stream, *, n_lines: int = N_LINES) -> Iterator[DebugLine]:
    r"""Yield each source's first lines, also dropped ones, before and after every step, in reading
    order.

    stream: its position does not change
    n_lines: the maximum number of lines of each source

    >>> import tempfile
    >>> from volt.stream.reading.source_definition import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\nb\n") and file.flush()
    ...     list(debug(Stream([Source("letters", (file.name,), shuffle="none")]), n_lines=1))[0].text
    ('a',)
    """
    n_lines = arguments.whole(n_lines, "n_lines", low=1)
    for source in arguments.instance(stream, Stream, "stream").sources:
        yield from _first_lines(source, n_lines)


def _first_lines(source: OpenSource, n_lines: int) -> Iterator[DebugLine]:
    n_remaining = min(n_lines, source.n_lines)
    for address in _first_addresses(source, n_remaining):
        traced = trace_chunk(source, address)
        reasons = defaultdict[tuple[str, int], list[str]](list)  # (path, line) → its faults
        for fault in traced.faults:
            if fault.reason not in reasons[fault.path, fault.line]:  # copies may share a reason
                reasons[fault.path, fault.line].append(fault.reason)
        for origin in traced.raw.origins[:n_remaining].tolist():
            place = source.place_of(origin)
            [raw] = _lines_from(traced.raw, origin)
            faults = tuple(reasons[place])
            steps = _select_reached(source, _steps_from(traced, origin), raw, faults)
            text = _lines_from(traced.output, origin)
            yield DebugLine(source.name, *place, raw, steps, faults, text)
        n_remaining -= min(n_remaining, len(traced.raw))


def _first_addresses(source: OpenSource, n_lines: int) -> Iterator[Address]:
    """Yield the addresses of chunks with at least `n_lines` lines, in file order.

    Blocks are cut to `n_lines` lines, unless their lines depend on the whole block.
    """
    is_whole = source.joins_lines or (source.source.shuffle == "lines" and not source.permutes_late)
    size = source.block_lines if is_whole else min(source.block_lines, n_lines)
    for start in range(0, source.n_lines, size):
        block = LineBlock(0, start, min(size, source.n_lines - start))
        most = full_chunk_lines(source, block)
        for chunk in range(n_chunks(block.n_lines, most=most)):
            yield Address(block, chunk)


def _select_reached(
    source: OpenSource, steps: Sequence[TraceStep], raw: str, faults: Sequence[str]
) -> tuple[TraceStep, ...]:
    """Return the steps up to the one that dropped the line, or that refused all of its copies."""
    reached = tuple(takewhile(lambda step: step.before, steps))
    lines = reached[-1].after if reached else (raw,)
    if lines and len(reached) < len(source.transforms):
        name = source.transforms[len(reached)].name
        if any(fault.startswith(f"{name}: ") for fault in faults):
            return (*reached, TraceStep(name, lines, ()))
    return reached


class Token(NamedTuple):
    text: str
    is_changed: bool


Fields = list[list[Token]]  # for each field of a line, its tokens


def compare_lines(step: TraceStep) -> tuple[list[Fields], list[Fields]]:
    """Return the lines before and after a step, as fields of tokens, with changed tokens marked.

    Line i is compared with line i; further lines are compared with the last line of the other side.
    """
    if not step.before or not step.after:
        return split_into_tokens(step.before), split_into_tokens(step.after)
    marked_before = list[Fields]()
    marked_after = list[Fields]()
    for index in range(max(len(step.before), len(step.after))):
        before = step.before[min(index, len(step.before) - 1)]
        after = step.after[min(index, len(step.after) - 1)]
        before_fields, after_fields = _compare_fields(before, after)
        marked_before.append(before_fields)
        marked_after.append(after_fields)
    return marked_before[: len(step.before)], marked_after[: len(step.after)]


def split_into_tokens(lines: Sequence[str]) -> list[Fields]:
    """Return lines as fields of tokens, none of which is marked as changed."""
    return [
        [[Token(text, False) for text in field.split(" ")] for field in line.split("\t")]
        for line in lines
    ]


def _compare_fields(before: str, after: str) -> tuple[Fields, Fields]:
    marked_before = Fields()
    marked_after = Fields()
    for old, new in zip_longest(before.split("\t"), after.split("\t")):
        old_tokens, new_tokens = _mark_changed((old or "").split(" "), (new or "").split(" "))
        if old is not None:
            marked_before.append(old_tokens)
        if new is not None:
            marked_after.append(new_tokens)
    return marked_before, marked_after


def _mark_changed(old: list[str], new: list[str]) -> tuple[list[Token], list[Token]]:
    if len(old) * len(new) > _MOST_COMPARED:
        common = {*old} & {*new}
        old_tokens = [Token(text, text not in common) for text in old]
        return old_tokens, [Token(text, text not in common) for text in new]
    old_tokens = [Token(text, True) for text in old]
    new_tokens = [Token(text, True) for text in new]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for old_start, new_start, n in matcher.get_matching_blocks():
        equal = [Token(text, False) for text in old[old_start : old_start + n]]
        old_tokens[old_start : old_start + n] = equal
        new_tokens[new_start : new_start + n] = equal
    return old_tokens, new_tokens


def debug_page(lines: Sequence[DebugLine], *, title: str) -> str:
    """Return an HTML page that shows lines before and after every step.

    lines: as `debug` yields them
    title: the page's title, such as the configuration's name
    """
    from jinja2 import Environment, StrictUndefined

    template = files("volt.stream.checking").joinpath("debug_page.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    n_dropped = sum(not line.text for line in lines)
    summary = f"{counted(len(lines), 'line')}, {n_dropped:,} dropped"
    page = environment.from_string(template)
    return page.render(
        lines=lines,
        title=title,
        summary=summary,
        compare_lines=compare_lines,
        split_into_tokens=split_into_tokens,
    )
