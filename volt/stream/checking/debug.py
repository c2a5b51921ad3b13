"""What every step does to the first lines of a source, those included that it drops: before and after, side by side.

`volt.stream.checking.trace` starts from lines of the stream; this starts from lines of the files.

>>> import tempfile
>>> from volt.stream.reading.source import Source
>>> from volt.stream.transforms.case import Upper
>>> from volt.stream.transforms.filters import SkipBlank
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"a b\\n\\n") and file.flush()
...     source = Source("letters", (file.name,), shuffle="none", transforms=(SkipBlank(), Upper()))
...     found = list(debugged(Stream([source]), n_lines=9))
>>> [(line.line, line.text, line.dropped_by) for line in found]
[(1, ('A B',), ''), (2, (), 'skip_blank')]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, NamedTuple

from volt import arguments
from volt.stream.checking.trace import TraceStep, lines_with, steps_of
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.shares import Part
from volt.stream.running.blocks import Traced, trace_block
from volt.stream.running.chunks import Address, most_of, n_chunks
from volt.stream.running.stream import Stream
from volt.urls import name_of

N_LINES = 20  # of each source
_MOST_COMPARED = 1 << 20  # pairs of tokens; of longer lines, tokens are compared as sets


@dataclass(frozen=True, slots=True)
class DebugLine:
    """What every step did to one line of a source.

    source: its name.
    path, line: the file and the number of the line in it, from 1.
    raw: the line as it was read.
    steps: what each step did, as far as there was anything left of the line.
    faults: why it, or a copy of it, was unfit; each starts with the name of the step, if one refused it.
    text: what the stream gives of it, a line or several, or none.

    >>> step = TraceStep("upper", ("a",), ("A",))
    >>> DebugLine("wmt", "data/train.tsv", 2, raw="a", steps=(step,), faults=(), text=("A",))
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
        """Where nothing is left of it: "unfit" if a step refused it, else "dropped"."""
        return "" if self.text else "unfit" if self.faults else "dropped"

    @property
    def dropped_by(self) -> str:
        """The step behind which nothing was left of the line; empty if there is something, or no step was reached."""
        return self.steps[-1].name if self.steps and not self.text and not self.steps[-1].after else ""

    def to_json(self) -> dict[str, Any]:
        """The line as JSON values."""
        return {**asdict(self), "dropped_by": self.dropped_by}


def debugged(stream: Stream, *, n_lines: int = N_LINES) -> Iterator[DebugLine]:
    """What every step did to the first lines of each source of a stream, in the order in which they are read.

    stream: stays where it is
    n_lines: of each source, at most; fewer if it has no more

    >>> import tempfile
    >>> from volt.stream.reading.source import Source
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"a\\nb\\n") and file.flush()
    ...     list(debugged(Stream([Source("letters", (file.name,), shuffle="none")]), n_lines=1))[0].text
    ('a',)
    """
    arguments.instance(stream, Stream, "stream")
    n_lines = arguments.whole(n_lines, "n_lines", low=1)
    for source in stream.sources:
        yield from _first_lines(source, n_lines)


def _first_lines(source: OpenSource, n_lines: int) -> Iterator[DebugLine]:
    """Those of one source."""
    left = min(n_lines, source.n_lines)
    for address in _addresses(source, left):
        found = trace_block(source, address)
        reasons = defaultdict[tuple[str, int], list[str]](list)
        for fault in found.faults:
            if fault.reason not in reasons[fault.path, fault.line]:  # of copies of a line, each is told once
                reasons[fault.path, fault.line].append(fault.reason)
        for origin in found.raw.origins[:left].tolist():
            path, line = source.place_of(origin)
            yield _line(source, found, origin, path, line, tuple(reasons[path, line]))
        left -= min(left, len(found.raw))
        if not left:
            return


def _addresses(source: OpenSource, n_lines: int) -> Iterator[Address]:
    """The chunks of the first epoch; no more of a block than is needed, where that changes neither lines nor order."""
    is_whole = source.joins_lines or (source.source.shuffle == "lines" and not source.permutes_late)
    size = source.block_lines if is_whole else min(source.block_lines, n_lines)
    for start in range(0, source.n_lines, size):
        part = Part(0, start, min(size, source.n_lines - start))
        for chunk in range(n_chunks(part.n_lines, most=most_of(source, part))):
            yield Address(part, chunk)


def _line(source: OpenSource, found: Traced, origin: int, path: str, line: int, faults: tuple[str, ...]) -> DebugLine:
    [raw] = lines_with(found.raw, origin)
    steps, text = _reached(source, steps_of(found, origin), raw, faults), lines_with(found.made, origin)
    return DebugLine(source.name, path, line, raw, steps, faults, text)


def _reached(source: OpenSource, steps: Sequence[TraceStep], raw: str, faults: Sequence[str]) -> tuple[TraceStep, ...]:
    """The steps that a line came to, with the one that refused it."""
    reached = list[TraceStep]()
    left: tuple[str, ...] = (raw,)
    for number, transform in enumerate(source.transforms):
        step = steps[number] if number < len(steps) else TraceStep(transform.name, (), ())
        if not step.before:
            refused = any(fault.startswith(f"{transform.name}: ") for fault in faults)
            return (*reached, TraceStep(transform.name, left, ())) if refused and left else tuple(reached)
        reached.append(step)
        left = step.after
    return tuple(reached)


# What a step has changed


class Token(NamedTuple):
    """A token of a line, and whether a step has changed it."""

    text: str
    is_changed: bool


Fields = list[list[Token]]  # of each field of a line, its tokens


def compared(step: TraceStep) -> tuple[list[Fields], list[Fields]]:
    """The lines before and after a step, in fields and tokens, of which those are marked that differ.

    >>> before, after = compared(TraceStep("drop", ("a b\\tc",), ("a\\tc",)))
    >>> [[token.text for token in field if token.is_changed] for field in before[0]], after[0]
    ([['b'], []], [[Token(text='a', is_changed=False)], [Token(text='c', is_changed=False)]])
    """
    if not step.before or not step.after:
        return plain(step.before), plain(step.after)
    left = [_pair(line, step.after[min(k, len(step.after) - 1)])[0] for k, line in enumerate(step.before)]
    right = [_pair(step.before[min(k, len(step.before) - 1)], line)[1] for k, line in enumerate(step.after)]
    return left, right


def plain(lines: Sequence[str]) -> list[Fields]:
    """Lines in fields and tokens, none of them marked.

    >>> plain(["a b"])
    [[[Token(text='a', is_changed=False), Token(text='b', is_changed=False)]]]
    """
    return [[[Token(token, False) for token in field.split(" ")] for field in line.split("\t")] for line in lines]


def _pair(before: str, after: str) -> tuple[Fields, Fields]:
    """Two lines in fields and tokens."""
    fields = zip_longest(before.split("\t"), after.split("\t"))
    both = [_marked((left or "").split(" "), (right or "").split(" ")) for left, right in fields]
    n_left, n_right = before.count("\t") + 1, after.count("\t") + 1
    return [left for left, _ in both[:n_left]], [right for _, right in both[:n_right]]


def _marked(left: list[str], right: list[str]) -> tuple[list[Token], list[Token]]:
    """The tokens of two texts; those are marked that the other one has not, or has elsewhere."""
    if len(left) * len(right) > _MOST_COMPARED:
        ours, theirs = set(left), set(right)
        return [Token(text, text not in theirs) for text in left], [Token(text, text not in ours) for text in right]
    same_left, same_right = set[int](), set[int]()
    for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        same_left.update(range(block.a, block.a + block.size))
        same_right.update(range(block.b, block.b + block.size))
    told = [Token(text, place not in same_left) for place, text in enumerate(left)]
    return told, [Token(text, place not in same_right) for place, text in enumerate(right)]
