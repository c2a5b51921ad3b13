r"""A chunk of a source → its lines after all transforms, as bytes: a pure function, computed anywhere, ahead of need.

    lines of the part → permuted → valid UTF-8 → the rows of the chunk → checks → transform 0 → … → bytes

Lines stay views into what was read until they are joined. An unfit line is taken out and noted as a `Fault`. If the
policy is to raise, the block carries the error, and the stream raises it when it gets to the block.

>>> import tempfile
>>> from volt.stream.reading.sampler import BlockRange
>>> from volt.stream.reading.open_source import open_source
>>> from volt.stream.reading.source import Source
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"a\nb\n") and file.flush()
...     source = open_source(Source("letters", (file.name,), shuffle="none"), seed=1)
...     bytes(compute_block(source, Address(BlockRange(0, 0, 2), 0), ErrorPolicy()).data)
b'a\nb\n'

The lines of a block that are transformed together: all of them, or few at a time where Python code takes its time.

Which lines a chunk holds follows from its number alone. Where chunks are small, the first ones of a block are smaller
still, so that a first line comes soon.

>>> [rows_of(chunk, n_lines=100, most=64) for chunk in range(4)], n_chunks(100, most=64)
([(0, 16), (16, 48), (48, 100), (112, 100)], 3)

Lines that are not UTF-8, and lines that a transform has made and that cannot be written.

>>> from volt.stream.transforms.column import Column
>>> invalid_lines(Batch((), Column.cut(b"a\n\xffb\n"), np.arange(2)))
{1: 'invalid UTF-8: byte 0xff at column 1'}
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError, VoltError
from volt.files.utf8 import is_utf8_array
from volt.stream.reading.error_policy import ErrorPolicy, Fault
from volt.stream.reading.open_source import OpenSource, line_order, permuted_late, read_part
from volt.stream.reading.sampler import BlockRange
from volt.stream.reading.shard import shifting_lines
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column, frozen
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import LineFault, Transform, joins_lines
from volt.stream.transforms.user_file import traceback_of

FIRST = 1 << 4  # lines of the first chunk; each that follows has twice as many, until they are full


class Address(NamedTuple):
    """A chunk of a source: the part, and the number of the chunk in it."""

    part: BlockRange
    chunk: int


def most_of(source: OpenSource, part: BlockRange) -> int:
    """Return the rows of a full chunk of a part. A part that others had begun is one chunk: its outputs are counted."""
    return part.n_lines if part.is_begun else source.chunk_lines


def rows_of(chunk: int, *, n_lines: int, most: int) -> tuple[int, int]:
    """Return the first row of a chunk, and the row behind its last. most: rows of a full chunk."""
    if most >= n_lines:
        return (0, n_lines) if chunk == 0 else (n_lines, n_lines)
    return _start(chunk, most), min(_start(chunk + 1, most), n_lines)


def _start(chunk: int, most: int) -> int:
    growing = max(0, (most // FIRST).bit_length() - 1)  # how many chunks are not full
    return FIRST * ((1 << min(chunk, growing)) - 1) + most * max(0, chunk - growing)


def check_chunk(source: OpenSource, part: BlockRange | None, chunk: int) -> None:
    """Raise StreamError if the part of a state does not have this chunk. part: None before the first."""
    if part is not None and chunk >= n_chunks(part.n_lines, most=most_of(source, part)):
        result = f"the state's sources.{source.name}.chunk is {chunk:,}, which its part does not have"
        raise StreamError(f"{result}; take one that a stream has written, or start the stream anew")


def n_chunks(n_lines: int, *, most: int) -> int:
    """Return how many chunks a part has."""
    if most >= n_lines:
        return 1
    chunk = n_lines // most
    while rows_of(chunk, n_lines=n_lines, most=most)[0] < n_lines:
        chunk += 1
    return chunk


_END = 0x0A


def invalid_lines(batch: Batch) -> dict[int, str]:
    """Index → what is wrong, for the lines that are not UTF-8."""
    columns = [*batch.columns, *([] if batch.rest is None else [batch.rest])]
    reasons = dict[int, str]()
    for column in columns:
        if not column.is_ids and not is_utf8_array(column.data):
            reasons |= {index: reason for index, reason in _invalid(column) if index not in reasons}
    return reasons


def _invalid(column: Column) -> list[tuple[int, str]]:
    spans = enumerate(zip(column.starts.tolist(), column.sizes.tolist(), strict=True))
    values = ((index, column.data[start : start + max(size, 0)].tobytes()) for index, (start, size) in spans)
    return [(index, reason) for index, value in values if (reason := _reason(value))]


def _reason(line: bytes) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        place = len(line[: error.start].decode()) + 1
        return f"invalid UTF-8: byte 0x{line[error.start]:02x} at column {place}"
    return ""


def unwritable_lines(batch: Batch) -> dict[int, str]:
    """Index → what is wrong, for lines with a line end inside or a lone surrogate, which no line can hold."""
    data, ends = batch.packed()
    if np.count_nonzero(data == _END) == len(ends) and is_utf8_array(data):
        return {}
    starts = np.concatenate([[0], ends])[:-1].tolist()
    lines = (data[start : end - 1].tobytes() for start, end in zip(starts, ends.tolist(), strict=True))
    message = "unwritable: a transform left a line end or a lone surrogate"
    return {index: message for index, line in enumerate(lines) if b"\n" in line or _reason(line)}


N_SAMPLED = 256  # lines of a block whose fields are counted
Form = Literal["lines", "columns"]  # of what blocks hold
_NO_LINES = np.zeros(0, np.uint8), np.zeros(0, np.int64)
Watch = Callable[[str, Batch, Batch], object]  # step, before, after
_MISTAKES = re.compile(r": (TypeError|NameError|AttributeError|UnboundLocalError|ImportError|ModuleNotFoundError): ")
_MANY = 8  # lines; a mistake in a program that hits so many, and all there are, is no fault of theirs


@dataclass(frozen=True, slots=True, eq=False)
class ComputedBlock:
    """A chunk after all transforms.

    data: n_lines lines, each with its line end.
    ends: (n_lines,) where each line ends in data, its line end included.
    n_read: how many lines of the source it was made from.
    faults: those of them that were unfit.
    error: what the stream is to raise when it gets to this block; empty if nothing.
    fields: number of fields → how many of the first 256 lines have so many.
    batch: the lines as columns, where columns were asked for; data and ends are empty then.
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
        """How many lines."""
        return len(self.ends) if self.batch is None else len(self.batch)


def failed(error: str) -> ComputedBlock:
    """What stands for a block that could not be computed.

    >>> failed("a.tsv: gone").n_lines
    0
    """
    return ComputedBlock(frozen(_NO_LINES[0]), _NO_LINES[1], 0, error=error)


@dataclass(slots=True)
class _Run:
    """One computation of a chunk: what it belongs to, and what it has found on the way."""

    source: OpenSource
    address: Address
    keep_text: bool = False
    watch: Watch | None = None
    on_step: Callable[[int], object] | None = None
    faults: list[Fault] = field(default_factory=list)
    draws: list[str] | None = None  # where it is to be noted that a step draws

    def chance(self, position: int) -> LineRng:
        """Return the chance of the transform at a position."""
        chance = LineRng.of(self.source.seed, self.source.name, self.address.part.epoch, position)
        if self.draws is None:
            return chance
        watched = object.__new__(_WatchedChance)
        for name, value in (("first", chance.first), ("second", chance.second), ("uses", self.draws)):
            object.__setattr__(watched, name, value)
        return watched

    def without(self, batch: Batch, reasons: dict[int, str]) -> Batch:
        """Return the batch without its unfit lines, which are noted."""
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


def compute_block(
    source: OpenSource,
    address: Address,
    policy: ErrorPolicy,
    on_step: Callable[[int], object] | None = None,
    *,
    form: Form = "lines",
) -> ComputedBlock:
    """Return a chunk as the stream yields it. Nothing is raised: what is wrong is in `faults` and `error`.

    on_step: is told the position of each transform before it is called
    form: whether lines are joined, or stay columns
    """
    run = _Run(source, address, keep_text=policy.on_fault == "quarantine", on_step=on_step)
    try:
        batch, n_read = transformed(run)
        data, ends = batch.packed() if form == "lines" else _NO_LINES
        source.check_files()  # behind the block, so that what it was made with is what was opened
    except VoltError as error:
        return failed(str(error))
    columns = batch if form == "columns" else None
    done = ComputedBlock(frozen(data), ends, n_read, tuple(run.faults), fields=_fields(batch), batch=columns)
    if run.faults and policy.on_fault == "raise":
        first = run.faults[0]
        remedy = "mend the line, or set on_fault to skip or quarantine"
        return replace(done, error=f"{first.place}: {first.reason}; {remedy}" + f"\n{first.trace}" * bool(first.trace))
    return done


def _fields(batch: Batch) -> dict[int, int]:
    sample = batch if len(batch) <= N_SAMPLED else batch.take(np.arange(N_SAMPLED))
    return dict(Counter(sample.n_fields.tolist()))


class Traced(NamedTuple):
    """What has become of a chunk, step by step.

    raw: its lines as they were read.
    steps: for each step its name, what went in and what came out, as far as there were lines left.
    made: the lines after all steps.
    faults: the lines that were unfit.
    """

    raw: Batch
    steps: list[tuple[str, Batch, Batch]]
    made: Batch
    faults: tuple[Fault, ...]


def trace_block(source: OpenSource, address: Address) -> Traced:
    """Compute a chunk once more, and keep what goes into every step and comes out of it."""
    raw, _ = _rows(source, address)
    steps: list[tuple[str, Batch, Batch]] = []
    run = _Run(source, address, watch=lambda *step: steps.append(step))
    output, _ = transformed(run)
    return Traced(raw, steps, output, tuple(run.faults))


def _read(source: OpenSource, part: BlockRange) -> tuple[Batch, dict[int, str]]:
    """Return the lines of a part, and which of them are no lines or no UTF-8, and why."""
    batch = read_part(source, part)
    unfit = {} if source.is_clean else shifting_lines(batch.columns)
    return batch, unfit if source.is_utf8 else unfit | invalid_lines(batch)


def _rows(source: OpenSource, address: Address) -> tuple[Batch, dict[int, str]]:
    """Return the lines of a chunk, and which are no UTF-8. Where chunks are small, the part is kept for the next
    one.
    """
    part, most = address.part, most_of(source, address.part)
    if most >= part.n_lines:
        return _read(source, part)
    batch, invalid = source.kept_part(part, lambda: _read(source, part))
    low, high = rows_of(address.chunk, n_lines=part.n_lines, most=most)
    current = {index - low: reason for index, reason in invalid.items() if low <= index < high}
    return batch.take(np.arange(low, high)).compact(), current


def transformed(run: _Run) -> tuple[Batch, int]:
    """Return a chunk after all steps, and how many lines it was made from; the faults are in the run.

    Raises StreamError if a step fails whole.
    """
    source, part = run.source, run.address.part
    batch, read = _repeated(run) or _unordered(run)
    if source.source.shuffle == "outputs" and (order := line_order(source, part, len(batch))) is not None:
        batch = batch.take(order)
    if source.permutes_late:
        batch = permuted_late(source, part, read, batch)
    if not source.is_compiled:
        batch = run.without(batch, unwritable_lines(batch))
    return batch.take(part.chosen(len(batch))) if part.is_begun else batch, len(read)


def _unordered(run: _Run) -> tuple[Batch, NDArray[np.int64]]:
    """Return a chunk after all steps, and the lines that it was made from, in the order in which they were read."""
    batch, invalid = _rows(run.source, run.address)
    read = batch.origins
    batch = run.without(batch, invalid)
    batch = run.without(batch, run.source.source.checks.reasons(batch))
    for position, transform in enumerate(run.source.transforms):
        if run.on_step is not None:
            run.on_step(position)
        batch = _step(run, position, transform, batch)
    return batch, read


def _repeated(run: _Run) -> tuple[Batch, NDArray[np.int64]] | None:
    """Return what `_unordered` returns, kept from an earlier epoch of a small source whose steps draw nothing."""
    source = run.source
    if not source.is_small or run.address.part.n_lines < source.n_lines or run.watch or run.on_step:
        return None
    retained = source.kept_epoch(run.keep_text, lambda: _of_any_epoch(source, run))
    if retained is None:
        return None
    batch, read, faults = retained
    run.faults += faults
    return batch, read


def _of_any_epoch(source: OpenSource, run: _Run) -> tuple[Batch, NDArray[np.int64], tuple[Fault, ...]] | None:
    """Return what the steps make of all lines, and the faults; None if a step draws, so that epochs differ."""
    trial = _Run(source, run.address, run.keep_text, draws=[])
    batch, read = _unordered(trial)
    return None if trial.draws else (batch.compact(), read, tuple(trial.faults))


class _WatchedChance(LineRng):
    """A `LineRng` that notes in `uses` that a step looked at it."""

    __slots__ = ("uses",)

    uses: list[str]

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            object.__getattribute__(self, "uses").append(name)
        return object.__getattribute__(self, name)


def _step(run: _Run, position: int, transform: Transform, batch: Batch) -> Batch:
    """Return the batch after one transform. Lines that it cannot take are taken out, and it is called again."""
    while len(batch):
        try:
            done = _called(run, position, transform, batch)
        except LineFault as fault:
            reasons = {index: f"{transform.name}: {why}" for index, why in fault.reasons.items()}
            _refuse_mistake(run, transform, batch, reasons)
            batch = run.without(batch, reasons)
            if fault.made is not None:
                return _told(run, transform, batch, fault.made)
        except Exception as error:
            reasons = _found(run, position, transform, batch)
            if not reasons:
                raise _whole_failure(run, transform, error) from error
            _refuse_mistake(run, transform, batch, reasons)
            batch = run.without(batch, reasons)
        else:
            return _told(run, transform, batch, done)
    return batch


def _told(run: _Run, transform: Transform, batch: Batch, done: Batch) -> Batch:
    if run.watch:
        run.watch(transform.name, batch, done)
    return done


def _called(run: _Run, position: int, transform: Transform, batch: Batch) -> Batch:
    done = transform(batch, run.chance(position))
    if not isinstance(done, Batch) or any(len(column) != len(done) for column in done.columns):
        raise StreamError(f"transform {transform.name!r} must return a Batch with an origin for each line")
    return done


def _found(run: _Run, position: int, transform: Transform, batch: Batch) -> dict[int, str]:
    """Return which lines make a transform fail, and how: looked for in halves, since a line's result is its own."""
    reasons, halves = dict[int, str](), [np.arange(len(batch))]
    if joins_lines(transform):
        halves = list(np.arange(len(batch)).reshape(-1, 1))
    while halves:
        indices = halves.pop()
        try:
            _called(run, position, transform, batch.take(indices))
        except Exception as error:
            if len(indices) == 1:
                why = error.reasons[0] if isinstance(error, LineFault) else f"{type(error).__name__}: {error}"
                reasons[int(indices[0])] = f"{transform.name}: {why}"
            else:
                halves += [indices[len(indices) // 2 :], indices[: len(indices) // 2]]
    return reasons


def _is_mistake(batch: Batch, reasons: dict[int, str]) -> bool:
    """Check whether it is the program that is wrong, not the lines: the same mistake in each of them."""
    if len(reasons) < max(_MANY, len(batch)):
        return False
    kinds = {match[1] if (match := _MISTAKES.search(reason)) else "" for reason in reasons.values()}
    return len(kinds) == 1 and "" not in kinds


def _refuse_mistake(run: _Run, transform: Transform, batch: Batch, reasons: dict[int, str]) -> None:
    if _is_mistake(batch, reasons):
        first, end, trace = reasons[min(reasons)].partition("\n")
        remedy = "install the module" if "ModuleNotFoundError: " in first else "mend it"
        message = f"{_where(run, transform)} fails on each of {len(batch)} lines: {first}; {remedy}"
        raise StreamError(message + end + trace)


def _where(run: _Run, transform: Transform) -> str:
    epoch, start = run.address.part[:2]
    return f"source {run.source.name!r}, epoch {epoch}, lines from {start} on: transform {transform.name!r}"


def _whole_failure(run: _Run, transform: Transform, error: Exception) -> StreamError:
    message = traceback_of(error) or "".join(traceback.format_exception(error)).rstrip()
    return StreamError(f"{_where(run, transform)} failed on the block, though on none of its lines alone:\n{message}")


def shown_lines(batch: Batch) -> list[str]:
    """Lines as text, whatever bytes they hold.

    >>> shown_lines(Batch.of(["a\\tb"]))
    ['a\\tb']
    """
    data, ends = batch.packed()
    starts = np.concatenate([[0], ends])[:-1]
    return [bytes(data[start : end - 1]).decode(errors="replace") for start, end in zip(starts, ends, strict=True)]
