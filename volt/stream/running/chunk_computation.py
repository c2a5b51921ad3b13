"""`compute_chunk`: a pure function, which any worker can run: a chunk of a source → its lines after all transforms.

    lines of the block → permute → valid UTF-8 → the rows of the chunk → checks → transform 0 → … → bytes

A chunk consists of lines of a block that are transformed together. Unfit lines are removed and recorded as `Fault`s.
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
from volt.stream.transforms.column import frozen
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import LineFault, Transform, joins_lines
from volt.stream.transforms.user_file import traceback_of

SMALL = 1 << 18  # maximum bytes of a source whose transformed lines are cached between epochs
FIRST = 1 << 4  # lines of the first chunk; each later chunk has twice as many, up to the maximum


class Address(NamedTuple):
    """A block of a source (`LineBlock`), and the number of a chunk in it."""

    block: LineBlock
    chunk: int


def full_chunk_lines(source: OpenSource, block: LineBlock) -> int:
    """Return the number of rows of a full chunk. A block that other ranks have begun is a single chunk."""
    return block.n_lines if block.is_begun else source.chunk_lines


def chunk_rows(chunk: int, *, n_lines: int, most: int) -> tuple[int, int]:
    if most >= n_lines:
        return (0, n_lines) if chunk == 0 else (n_lines, n_lines)
    return _start(chunk, most), min(_start(chunk + 1, most), n_lines)


def _start(chunk: int, most: int) -> int:
    growing = max(0, (most // FIRST).bit_length() - 1)  # the number of chunks below full size
    return FIRST * ((1 << min(chunk, growing)) - 1) + most * max(0, chunk - growing)


def n_chunks(n_lines: int, *, most: int) -> int:
    if most >= n_lines:
        return 1
    return bisect_left(range(n_lines), n_lines, key=lambda chunk: _start(chunk, most))


def invalid_lines(batch: Batch) -> dict[int, str]:
    reasons = dict[int, str]()
    for column in (*batch.columns, *([] if batch.rest is None else [batch.rest])):
        if column.is_ids or is_utf8_array(column.data):
            continue
        for index, (start, size) in enumerate(
            zip(column.starts.tolist(), column.sizes.tolist(), strict=True)
        ):
            if reason := _utf8_fault(column.data[start : start + max(size, 0)].tobytes()):
                reasons.setdefault(index, reason)
    return reasons


def _utf8_fault(line: bytes) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        place = len(line[: error.start].decode()) + 1
        return f"invalid UTF-8: byte 0x{line[error.start]:02x} at column {place}"
    return ""


def unwritable_lines(batch: Batch) -> dict[int, str]:
    """Return line index → reason, for lines that contain a line end or a lone surrogate."""
    data, ends = batch.packed()
    if np.count_nonzero(data == ord("\n")) == len(ends) and is_utf8_array(data):
        return {}
    message = "unwritable: a transform left a line end or a lone surrogate"
    return {
        index: message
        for index, line in enumerate(_lines(batch))
        if b"\n" in line or _utf8_fault(line)
    }


def _lines(batch: Batch) -> Iterator[bytes]:
    data, ends = batch.packed()
    for start, end in pairwise([0, *ends.tolist()]):
        yield data[start : end - 1].tobytes()


N_SAMPLED = 256  # maximum lines of a chunk whose fields are counted
Form = Literal["lines", "columns"]  # the content of blocks
_NO_LINES = np.zeros(0, np.uint8), np.zeros(0, np.int64)
Step = tuple[str, Batch, Batch]  # name, lines before and after it
_MISTAKES = re.compile(
    r": (TypeError|NameError|AttributeError|UnboundLocalError|ImportError|ModuleNotFoundError): "
)
_REMEDY = "fix the line, or write errors: {on_fault: skip} at the top level of the configuration"
_MANY = 8  # lines; if all lines of a chunk, at least so many, fail with one such error, the program has a bug


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
    ends: NDArray[np.int64]
    n_read: int
    faults: tuple[Fault, ...] = ()
    error: str = ""
    fields: dict[int, int] = field(default_factory=dict)
    batch: Batch | None = None

    @property
    def n_lines(self) -> int:
        return len(self.ends) if self.batch is None else len(self.batch)

    def __reduce__(
        self,
    ) -> tuple[type[ComputedChunk], tuple[object, ...]]:  # faster than a dataclass's own state
        return ComputedChunk, (
            self.data,
            self.ends,
            self.n_read,
            self.faults,
            self.error,
            self.fields,
            self.batch,
        )


@dataclass(slots=True)
class _Run:
    source: OpenSource
    address: Address
    keep_text: bool = False
    steps: list[Step] | None = None  # if not None, collects the steps
    on_step: Callable[[int], object] | None = None
    faults: list[Fault] = field(default_factory=list)
    draws: list[str] | None = None  # if not None, collects each use of random numbers

    def rng(self, position: int) -> LineRng:
        rng = LineRng.of(self.source.seed, self.source.name, self.address.block.epoch, position)
        if self.draws is None:
            return rng
        return cast(LineRng, _WatchedRng(rng, self.draws))

    def without(self, batch: Batch, reasons: dict[int, str]) -> Batch:
        if not reasons:
            return batch
        order = sorted(reasons)
        texts = shown_lines(batch.take(order)) if self.keep_text else [""] * len(order)
        for index, text in zip(order, texts, strict=True):
            path, line = self.source.place_of(int(batch.origins[index]))
            reason, _, trace = reasons[index].partition("\n")
            self.faults.append(Fault(path, line, reason, text, trace))
        retained = np.ones(len(batch), bool)
        retained[order] = False
        return batch.take(retained)


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
        batch, n_read = transformed(run)
        data, ends = batch.packed() if form == "lines" else _NO_LINES
        source.check_files()  # last, to detect files that changed during the computation
    except VoltError as error:
        return ComputedChunk(frozen(_NO_LINES[0]), _NO_LINES[1], 0, error=str(error))
    sample = batch if len(batch) <= N_SAMPLED else batch.take(np.arange(N_SAMPLED))
    problem = ""
    if run.faults and policy.on_fault == "raise":
        first = run.faults[0]
        problem = f"{first.place}: {first.reason}; {_REMEDY}"
        problem += f"\n{first.trace}" * bool(first.trace)
    counts, columns = dict(Counter(sample.n_fields.tolist())), batch if form == "columns" else None
    return ComputedChunk(frozen(data), ends, n_read, tuple(run.faults), problem, counts, columns)


class Traced(NamedTuple):
    """A chunk before its steps, around each step (name, input, output), and after all steps."""

    raw: Batch
    steps: list[Step]
    output: Batch
    faults: tuple[Fault, ...]


def trace_chunk(source: OpenSource, address: Address) -> Traced:
    raw, _ = _rows(source, address)
    run = _Run(source, address, steps=[])
    output, _ = transformed(run)
    return Traced(raw, run.steps or [], output, tuple(run.faults))


def _read(source: OpenSource, block: LineBlock) -> tuple[Batch, dict[int, str]]:
    batch = read_block(source, block)
    unfit = {} if source.is_clean else shifting_lines(batch.columns)
    return batch, unfit if source.is_utf8 else unfit | invalid_lines(batch)


def _rows(source: OpenSource, address: Address) -> tuple[Batch, dict[int, str]]:
    block, most = address.block, full_chunk_lines(source, address.block)
    if most >= block.n_lines:
        return _read(source, block)
    batch, invalid = source.blocks.get(block, lambda: _read(source, block))
    low, high = chunk_rows(address.chunk, n_lines=block.n_lines, most=most)
    current = {index - low: reason for index, reason in invalid.items() if low <= index < high}
    return batch.take(np.arange(low, high)).compact(), current


def transformed(run: _Run) -> tuple[Batch, int]:
    """Return a chunk after all steps, and the number of lines read to compute it."""
    source, block = run.source, run.address.block
    cached = None
    is_small = source.permutes_late and len(source.sizes) == 1 and source.n_bytes <= SMALL
    if is_small and block.n_lines >= source.n_lines and run.steps is None and run.on_step is None:
        source.shards[0].check_unchanged()
        cached = source.epochs.get(run.keep_text, lambda: _of_any_epoch(source, run))
    if cached is None:
        batch, read = _unordered(run)
    else:
        batch, read, faults = cached
        run.faults += faults
    if (
        source.source.shuffle == "outputs"
        and (order := line_order(source, block, len(batch))) is not None
    ):
        batch = batch.take(order)
    if source.permutes_late:
        batch = permuted_late(source, block, read, batch)
    if not source.is_compiled:
        batch = run.without(batch, unwritable_lines(batch))
    return batch.take(block.unread_outputs(len(batch))) if block.is_begun else batch, len(read)


def _unordered(run: _Run) -> tuple[Batch, NDArray[np.int64]]:
    batch, invalid = _rows(run.source, run.address)
    read = batch.origins
    batch = run.without(batch, invalid)
    batch = run.without(batch, run.source.source.checks.reasons(batch))
    for position, transform in enumerate(run.source.transforms):
        if run.on_step is not None:
            run.on_step(position)
        batch = _step(run, position, transform, batch)
    return batch, read


def _of_any_epoch(
    source: OpenSource, run: _Run
) -> tuple[Batch, NDArray[np.int64], tuple[Fault, ...]] | None:
    """Return what all epochs share: lines after all steps, origins read, and faults; None if a step is random."""
    trial = _Run(source, run.address, run.keep_text, draws=[])
    batch, read = _unordered(trial)
    return None if trial.draws else (batch.compact(), read, tuple(trial.faults))


class _WatchedRng:
    def __init__(self, rng: LineRng, uses: list[str]) -> None:
        self._rng, self._uses = rng, uses

    def __getattr__(self, name: str) -> Any:
        self._uses.append(name)
        return getattr(self._rng, name)


def _step(run: _Run, position: int, transform: Transform, batch: Batch) -> Batch:
    while len(batch):
        try:
            done = _called(run, position, transform, batch)
            break
        except LineFault as fault:
            result, reasons = (
                fault.result,
                {index: f"{transform.name}: {why}" for index, why in fault.reasons.items()},
            )
        except Exception as error:
            result, reasons = None, _failing_lines(run, position, transform, batch)
            if not reasons:
                trace = traceback_of(error) or "".join(traceback.format_exception(error)).rstrip()
                problem = f"{_where(run, transform)} fails on the chunk, but not on any of its lines alone"
                raise StreamError(f"{problem}:\n{trace}") from error
        _refuse_mistake(run, transform, batch, reasons)
        batch = run.without(batch, reasons)
        if result is not None:
            done = result
            break
    else:
        return batch
    if run.steps is not None:
        run.steps.append((transform.name, batch, done))
    return done


def _called(run: _Run, position: int, transform: Transform, batch: Batch) -> Batch:
    done = transform(batch, run.rng(position))
    if not isinstance(done, Batch) or any(len(column) != len(done) for column in done.columns):
        raise StreamError(
            f"transform {transform.name!r} must return a Batch with an origin for each line"
        )
    return done


def _failing_lines(run: _Run, position: int, transform: Transform, batch: Batch) -> dict[int, str]:
    size = 1 if joins_lines(transform) else len(batch)
    reasons, halves = dict[int, str](), [*np.arange(len(batch)).reshape(-1, size)]
    while halves:
        indices = halves.pop()
        try:
            _called(run, position, transform, batch.take(indices))
        except Exception as error:
            if len(indices) == 1:
                why = (
                    error.reasons[0]
                    if isinstance(error, LineFault)
                    else f"{type(error).__name__}: {error}"
                )
                reasons[int(indices[0])] = f"{transform.name}: {why}"
            else:
                halves += [indices[len(indices) // 2 :], indices[: len(indices) // 2]]
    return reasons


def _refuse_mistake(run: _Run, transform: Transform, batch: Batch, reasons: dict[int, str]) -> None:
    """Raise StreamError if every line fails with the same type of error: the user's code then has a bug."""
    if len(reasons) < max(_MANY, len(batch)):
        return
    kinds = {match[1] if (match := _MISTAKES.search(reason)) else "" for reason in reasons.values()}
    if len(kinds) == 1 and "" not in kinds:
        first, end, trace = reasons[min(reasons)].partition("\n")
        remedy = "install the module" if "ModuleNotFoundError: " in first else "fix it"
        problem = f"{_where(run, transform)} fails on each of {len(batch)} lines: {first}"
        raise StreamError(f"{problem}; {remedy}{end}{trace}")


def _where(run: _Run, transform: Transform) -> str:
    return f"{shown_block(run.source, run.address.block)}: transform {transform.name!r}"


def shown_block(source: OpenSource, block: LineBlock) -> str:
    return f"source {source.name!r}, epoch {block.epoch}, lines from {block.start} on"


def shown_lines(batch: Batch) -> list[str]:
    return [line.decode(errors="replace") for line in _lines(batch)]
