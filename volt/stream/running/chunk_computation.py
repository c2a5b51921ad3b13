"""`compute_chunk`: a pure function, which any worker can run: a chunk of a source → its lines after all transforms.

    lines of the block → permute → valid UTF-8 → the rows of the chunk → checks → transform 0 → … → bytes

Unfit lines are removed, and recorded as `Fault`s.
"""

from __future__ import annotations

import re
import traceback
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError, VoltError
from volt.files.text_checks import is_utf8_array
from volt.stream.reading.error_policy import ErrorPolicy, Fault
from volt.stream.reading.open_source import OpenSource, line_order, permuted_late, read_block
from volt.stream.reading.shard import shifting_lines
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.transforms.column import Longs, make_read_only
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.transform import LineFault, Transform, joins_lines
from volt.stream.transforms.user_file import traceback_of

SMALL = 1 << 18  # maximum bytes of a source whose transformed lines are cached between epochs
FIRST = 1 << 4  # lines of the first chunk; each later chunk has twice as many, up to the maximum
N_SAMPLED = 256  # maximum lines of a chunk whose fields are counted
Form = Literal["lines", "columns"]  # the content of computed chunks
Step = tuple[str, Batch, Batch]  # name, lines before and after it
Reasons = dict[int, str]  # line index → why the line is unfit, optionally followed by a traceback
_NO_LINES = make_read_only(np.zeros(0, np.uint8)), np.zeros(0, np.int64)


class Address(NamedTuple):
    """A block of a source, and the number of a chunk in it."""

    block: LineBlock
    chunk: int


def full_chunk_lines(source: OpenSource, block: LineBlock) -> int:
    """Return the number of rows of a full chunk. A block that other ranks have begun is a single chunk."""
    return block.n_lines if block.is_begun else source.chunk_lines


def _chunk_start(chunk: int, n_lines: int, most: int) -> int:
    if most >= n_lines:
        return n_lines * min(chunk, 1)
    n_growing = max(0, (most // FIRST).bit_length() - 1)  # the number of chunks below full size
    start = FIRST * ((1 << min(chunk, n_growing)) - 1) + most * max(0, chunk - n_growing)
    return min(start, n_lines)


def chunk_rows(chunk: int, *, n_lines: int, most: int) -> tuple[int, int]:
    """Return the first row of a chunk in its block, and the end of its rows. most: rows of a full chunk"""
    return _chunk_start(chunk, n_lines, most), _chunk_start(chunk + 1, n_lines, most)


def n_chunks(n_lines: int, *, most: int) -> int:
    starts = range(n_lines)
    return bisect_left(starts, n_lines, key=lambda chunk: _chunk_start(chunk, n_lines, most))


def invalid_lines(batch: Batch) -> Reasons:
    reasons = Reasons()
    for column in batch.all_columns():
        if column.is_ids or is_utf8_array(column.data):
            continue
        views = zip(column.starts.tolist(), column.sizes.tolist(), strict=True)
        for index, (start, size) in enumerate(views):
            reason = _utf8_fault(column.data[start : start + max(size, 0)].tobytes())
            if reason:
                reasons.setdefault(index, reason)
    return reasons


def _utf8_fault(line: bytes) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        place = len(line[: error.start].decode()) + 1
        return f"invalid UTF-8: byte 0x{line[error.start]:02x} at column {place}"
    return ""


def unwritable_lines(batch: Batch) -> Reasons:
    """Return line index → reason, for lines that contain a line end or a lone surrogate."""
    data, ends = batch.packed()
    if np.count_nonzero(data == ord("\n")) == len(ends) and is_utf8_array(data):
        return {}
    message = "unwritable: a transform left a line end or a lone surrogate"
    lines = enumerate(_lines(batch))
    return {index: message for index, line in lines if b"\n" in line or _utf8_fault(line)}


def _lines(batch: Batch) -> Iterator[bytes]:
    data, ends = batch.packed()
    for start, end in pairwise([0, *ends.tolist()]):
        yield data[start : end - 1].tobytes()


def shown_lines(batch: Batch) -> list[str]:
    return [line.decode(errors="replace") for line in _lines(batch)]


def shown_block(source: OpenSource, block: LineBlock) -> str:
    return f"source {source.name!r}, epoch {block.epoch}, lines from {block.start} on"


@dataclass(frozen=True, slots=True, eq=False)
class ComputedChunk:
    """A chunk after all transforms.

    data: the lines with line ends; empty if `batch` contains the lines.
    ends: (n_lines,) where each line ends in `data`.
    n_read: lines read to compute the chunk.
    error: the message of an error to raise when the stream reaches this chunk.
    fields: number of fields → how many of the first 256 lines have this number.
    """

    data: NDArray[np.uint8]
    ends: Longs
    n_read: int
    faults: tuple[Fault, ...] = ()
    error: str = ""
    fields: dict[int, int] = field(default_factory=dict)
    batch: Batch | None = None

    @property
    def n_lines(self) -> int:
        return len(self.ends) if self.batch is None else len(self.batch)

    def __reduce__(self) -> tuple[type[ComputedChunk], tuple[object, ...]]:
        # faster than a dataclass's own state
        return ComputedChunk, tuple(getattr(self, name) for name in self.__slots__)


def compute_chunk(
    source: OpenSource,
    address: Address,
    policy: ErrorPolicy,
    on_step: Callable[[int], object] | None = None,
    *,
    form: Form = "lines",
) -> ComputedChunk:
    """Return a chunk, with its faults and error. on_step: called with a transform's position before it runs"""
    run = _Run(source, address, keep_text=policy.on_fault == "quarantine", on_step=on_step)
    try:
        batch, n_read = run.transformed()
        data, ends = batch.packed() if form == "lines" else _NO_LINES
        source.check_files()  # last, to detect files that changed during the computation
    except VoltError as error:
        return ComputedChunk(*_NO_LINES, 0, error=str(error))

    problem = ""
    if run.faults and policy.on_fault == "raise":
        fault = run.faults[0]
        problem = f"{fault.place}: {fault.reason}; {_REMEDY}"
        if fault.trace:
            problem += f"\n{fault.trace}"
    sample = batch if len(batch) <= N_SAMPLED else batch.take(np.arange(N_SAMPLED))
    return ComputedChunk(
        make_read_only(data),
        ends,
        n_read,
        tuple(run.faults),
        problem,
        dict(Counter(sample.n_fields.tolist())),
        batch if form == "columns" else None,
    )


class Traced(NamedTuple):
    """A chunk before its steps, around each step (name, input, output), and after all steps."""

    raw: Batch
    steps: list[Step]
    output: Batch
    faults: tuple[Fault, ...]


def trace_chunk(source: OpenSource, address: Address) -> Traced:
    steps = list[Step]()
    run = _Run(source, address, steps=steps)
    raw, _ = run.rows()
    output, _ = run.transformed()
    return Traced(raw, steps, output, tuple(run.faults))


_MISTAKES = re.compile(
    r": (TypeError|NameError|AttributeError|UnboundLocalError|ImportError|ModuleNotFoundError): "
)
_REMEDY = "fix the line, or write errors: {on_fault: skip} at the top level of the configuration"
_MANY = 8  # lines; if all lines of a chunk, at least so many, fail with one such error, the program has a bug


@dataclass(slots=True)
class _Run:
    """One computation of a chunk.

    steps, draws: if not None, they collect the steps, and each use of random numbers.
    """

    source: OpenSource
    address: Address
    keep_text: bool = False
    steps: list[Step] | None = None
    on_step: Callable[[int], object] | None = None
    faults: list[Fault] = field(default_factory=list)
    draws: list[str] | None = None

    def transformed(self) -> tuple[Batch, int]:
        """Return the chunk after all steps, and the number of lines read to compute it."""
        source = self.source
        block = self.address.block
        cached = None
        if self._is_same_in_all_epochs():
            source.shards[0].check_unchanged()
            cached = source.epochs.get(self.keep_text, self._of_any_epoch)
        if cached is None:
            batch, read = self._unordered()
        else:
            batch, read, faults = cached
            self.faults += faults

        order = None
        if source.source.shuffle == "outputs":
            order = line_order(source, block, len(batch))
        if order is not None:
            batch = batch.take(order)
        if source.permutes_late:
            batch = permuted_late(source, block, read, batch)
        if not source.is_compiled:
            batch = self._without(batch, unwritable_lines(batch))
        if block.is_begun:
            batch = batch.take(block.unread_outputs(len(batch)))
        return batch, len(read)

    def rows(self) -> tuple[Batch, Reasons]:
        """Return the lines of the chunk, and the invalid ones among them."""
        block = self.address.block
        most = full_chunk_lines(self.source, block)
        if most >= block.n_lines:
            return self._read_block()
        batch, invalid = self.source.blocks.get(block, self._read_block)
        low, high = chunk_rows(self.address.chunk, n_lines=block.n_lines, most=most)
        own = {index - low: reason for index, reason in invalid.items() if low <= index < high}
        return batch.take(np.arange(low, high)).compact(), own

    def _read_block(self) -> tuple[Batch, Reasons]:
        batch = read_block(self.source, self.address.block)
        reasons = {} if self.source.is_clean else shifting_lines(batch.columns)
        if not self.source.is_utf8:
            reasons |= invalid_lines(batch)
        return batch, reasons

    def _is_same_in_all_epochs(self) -> bool:
        """Return whether the block is the whole of a small source, so that its lines can be cached."""
        source = self.source
        is_small = source.permutes_late and len(source.sizes) == 1 and source.n_bytes <= SMALL
        is_whole = self.address.block.n_lines >= source.n_lines
        return is_small and is_whole and self.steps is None and self.on_step is None

    def _of_any_epoch(self) -> tuple[Batch, Longs, tuple[Fault, ...]] | None:
        """Return lines after all steps, origins read, and faults; None if a step draws random numbers."""
        trial = _Run(self.source, self.address, self.keep_text, draws=[])
        batch, read = trial._unordered()
        if trial.draws:
            return None
        return batch.compact(), read, tuple(trial.faults)

    def _unordered(self) -> tuple[Batch, Longs]:
        batch, invalid = self.rows()
        read = batch.origins
        batch = self._without(batch, invalid)
        batch = self._without(batch, self.source.source.checks.reasons(batch))
        for position, transform in enumerate(self.source.transforms):
            if self.on_step is not None:
                self.on_step(position)
            batch = self._step(position, transform, batch)
        return batch, read

    def _without(self, batch: Batch, reasons: Reasons) -> Batch:
        if not reasons:
            return batch
        order = sorted(reasons)
        texts = [""] * len(order)
        if self.keep_text:
            texts = shown_lines(batch.take(order))
        for index, text in zip(order, texts, strict=True):
            path, line = self.source.place_of(int(batch.origins[index]))
            reason, _, trace = reasons[index].partition("\n")
            self.faults.append(Fault(path, line, reason, text, trace))
        retained = np.ones(len(batch), bool)
        retained[order] = False
        return batch.take(retained)

    def _step(self, position: int, transform: Transform, batch: Batch) -> Batch:
        while len(batch):
            result, reasons = self._attempt(position, transform, batch)
            self._refuse_mistake(transform, batch, reasons)
            batch = self._without(batch, reasons)
            if result is not None:
                if self.steps is not None:
                    self.steps.append((transform.name, batch, result))
                return result
        return batch

    def _attempt(
        self, position: int, transform: Transform, batch: Batch
    ) -> tuple[Batch | None, Reasons]:
        """Return the step's result, if there is one, and the lines that fail."""
        try:
            return self._called(position, transform, batch), {}
        except LineFault as fault:
            reasons = fault.reasons.items()
            return fault.result, {index: f"{transform.name}: {why}" for index, why in reasons}
        except Exception as error:
            failing = self._failing_lines(position, transform, batch)
            if failing:
                return None, failing
            trace = traceback_of(error) or "".join(traceback.format_exception(error)).rstrip()
            problem = "fails on the chunk, but not on any of its lines alone"
            raise StreamError(f"{self._where(transform)} {problem}:\n{trace}") from error

    def _called(self, position: int, transform: Transform, batch: Batch) -> Batch:
        rng = LineRng.of(self.source.seed, self.source.name, self.address.block.epoch, position)
        if self.draws is not None:
            rng = cast(LineRng, _WatchedRng(rng, self.draws))
        result = transform(batch, rng)
        if not isinstance(result, Batch) or any(len(one) != len(result) for one in result.columns):
            raise StreamError(
                f"transform {transform.name!r} must return a Batch with an origin for each line"
            )
        return result

    def _failing_lines(self, position: int, transform: Transform, batch: Batch) -> Reasons:
        """Return the lines that fail alone; found by halves, unless the transform joins lines."""
        size = 1 if joins_lines(transform) else len(batch)
        reasons = Reasons()
        halves = [*np.arange(len(batch)).reshape(-1, size)]
        while halves:
            indices = halves.pop()
            try:
                self._called(position, transform, batch.take(indices))
            except Exception as error:
                middle = len(indices) // 2
                if middle:
                    halves += [indices[middle:], indices[:middle]]
                    continue
                why = f"{type(error).__name__}: {error}"
                if isinstance(error, LineFault):
                    why = error.reasons[0]
                reasons[int(indices[0])] = f"{transform.name}: {why}"
        return reasons

    def _refuse_mistake(self, transform: Transform, batch: Batch, reasons: Reasons) -> None:
        """Raise StreamError if every line fails with the same type of error: the user's code then has a bug."""
        if len(reasons) < max(_MANY, len(batch)):
            return
        matches = [_MISTAKES.search(reason) for reason in reasons.values()]
        kinds = {match and match[1] for match in matches}
        if len(kinds) > 1 or None in kinds:
            return
        first, end, trace = reasons[min(reasons)].partition("\n")
        remedy = "install the module" if "ModuleNotFoundError: " in first else "fix it"
        problem = f"fails on each of {len(batch)} lines: {first}"
        raise StreamError(f"{self._where(transform)} {problem}; {remedy}{end}{trace}")

    def _where(self, transform: Transform) -> str:
        return f"{shown_block(self.source, self.address.block)}: transform {transform.name!r}"


class _WatchedRng:
    def __init__(self, rng: LineRng, uses: list[str]) -> None:
        self._rng = rng
        self._uses = uses

    def __getattr__(self, name: str) -> Any:
        self._uses.append(name)
        return getattr(self._rng, name)
