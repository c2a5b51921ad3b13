"""`compute_chunk`: read a chunk of a source, and apply the transforms of the source to its lines.

    lines of the block → permute → valid UTF-8 → the rows of the chunk → checks
    → transform 0 → transform 1 → … → bytes

A chunk depends only on its source and its address, so that any worker can compute it. Unfit lines
are removed, and recorded as `Fault`s.

    address   source 3, block of epoch 0 from line 4,096 on, chunk 2 of this block
    chunk     data "ein Haus\\ta house\\n…", ends [17, …], faults [train.tsv:4,100: blank: no text]

Compiled transforms get a whole block at a time. Python code gets growing chunks, so that the first
lines come soon: 16 rows, 32, 64, … up to the maximum, and then this maximum (`chunk_rows`).
"""

from __future__ import annotations

import re
import traceback
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from volt.array_types import Bytes, Longs
from volt.errors import StreamError, VoltError
from volt.files.text_checks import is_utf8_array
from volt.stream.reading.error_policy import ErrorPolicy, Fault
from volt.stream.reading.open_source import OpenSource, line_order, permuted_late, read_block
from volt.stream.reading.shard import shifting_lines
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.transforms.column import make_read_only
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.transform import LineFault, Transform, joins_lines
from volt.stream.transforms.user_file import format_traceback

SMALL = 1 << 18  # maximum bytes of a source whose transformed lines are cached between epochs
FIRST = 1 << 4  # rows of the first of several chunks
N_SAMPLED = 256  # maximum lines of a chunk whose fields are counted
# If all lines of a chunk fail with one of these errors, the program has a bug. At least 8 lines,
# because fewer may fail by chance.
_MOST_BY_CHANCE = 8
_MISTAKES = re.compile(
    r": (TypeError|NameError|AttributeError|UnboundLocalError|ImportError|ModuleNotFoundError): "
)
_REMEDY = "fix the line, or write errors: {on_fault: skip} at the top level of the configuration"
_NO_LINES = make_read_only(np.zeros(0, np.uint8)), np.zeros(0, np.int64)

Form = Literal["lines", "columns"]  # the content of computed chunks
Step = tuple[str, Batch, Batch]  # a transform's name, and the lines before and after it
Reasons = dict[int, str]  # line index → why the line is unfit, optionally followed by a traceback


class Address(NamedTuple):
    """A block of a source, and the number of a chunk in it."""

    block: LineBlock
    chunk: int


def full_chunk_lines(source: OpenSource, block: LineBlock) -> int:
    """Return the maximum rows of a chunk. A block that other ranks have begun is a single chunk."""
    return block.n_lines if block.is_begun else source.chunk_lines


def chunk_rows(chunk: int, *, n_lines: int, most: int) -> tuple[int, int]:
    """Return the first row of a chunk in its block of `n_lines` rows, and the end of its rows.

    most: the maximum rows of a chunk

    >>> [chunk_rows(chunk, n_lines=250, most=100) for chunk in range(4)]
    [(0, 16), (16, 48), (48, 148), (148, 248)]
    """
    return _chunk_start(chunk, n_lines, most), _chunk_start(chunk + 1, n_lines, most)


def n_chunks(n_lines: int, *, most: int) -> int:
    starts = range(n_lines)
    return bisect_left(starts, n_lines, key=lambda chunk: _chunk_start(chunk, n_lines, most))


def _chunk_start(chunk: int, n_lines: int, most: int) -> int:
    if most >= n_lines:
        return n_lines * min(chunk, 1)
    # k chunks that double from 16 rows on have 16 + 32 + … = 16 · (2ᵏ − 1) rows
    n_doubling = max(0, (most // FIRST).bit_length() - 1)
    start = FIRST * ((1 << min(chunk, n_doubling)) - 1) + most * max(0, chunk - n_doubling)
    return min(start, n_lines)


@dataclass(frozen=True, slots=True, eq=False)
class ComputedChunk:
    """A chunk after all transforms.

    data: the lines with line ends; empty if `batch` contains the lines.
    ends: (n_lines,) where each line ends in `data`.
    n_read: lines read to compute the chunk.
    error: the message of an error to raise when the stream reaches this chunk.
    fields: number of fields → how many of the first 256 lines have this number.
    """

    data: Bytes
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


Job = tuple[int, Address]  # the index of a source, and the address of one of its chunks
JobResult = tuple[int, Address, ComputedChunk]


def compute_job(
    job: Job, sources: Sequence[OpenSource], policy: ErrorPolicy, form: Form
) -> JobResult:
    source, address = job
    return source, address, compute_chunk(sources[source], address, policy, form=form)


def compute_chunk(
    source: OpenSource,
    address: Address,
    policy: ErrorPolicy,
    on_step: Callable[[int], object] | None = None,
    *,
    form: Form = "lines",
) -> ComputedChunk:
    """Return the chunk at an address; if it cannot be computed, the chunk contains the error.

    on_step: called with the index of each transform, before it runs
    """
    run = _Run(source, address, keeps_text=policy.on_fault == "quarantine", on_step=on_step)
    try:
        batch, n_read = run.transform_chunk()
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
        fields=dict(Counter(sample.n_fields.tolist())),
        batch=batch if form == "columns" else None,
    )


class Traced(NamedTuple):
    """A chunk before its transforms, before and after each transform, and after all of them."""

    raw: Batch
    steps: list[Step]
    output: Batch
    faults: tuple[Fault, ...]


def trace_chunk(source: OpenSource, address: Address) -> Traced:
    run = _Run(source, address, steps=[])
    raw, _ = run.read_rows()
    output, _ = run.transform_chunk()
    return Traced(raw, run.steps or [], output, tuple(run.faults))


@dataclass(slots=True)
class _Run:
    """One computation of a chunk. It collects faults and, for some callers, more.

    keeps_text: store the text of each unfit line in its fault.
    on_step: called with the index of each transform, before it runs.
    steps: if not None, collects the lines before and after each transform.
    random_uses: if not None, collects each use of random numbers by a transform.
    """

    source: OpenSource
    address: Address
    keeps_text: bool = False
    on_step: Callable[[int], object] | None = None
    steps: list[Step] | None = None
    random_uses: list[str] | None = None
    faults: list[Fault] = field(default_factory=list)

    def transform_chunk(self) -> tuple[Batch, int]:
        """Return the chunk after all transforms, and the number of lines read to compute it."""
        source = self.source
        block = self.address.block
        cached = None
        if self._is_whole_small_source():
            source.shards[0].check_unchanged()
            cached = source.epochs.get(self.keeps_text, self._transform_for_all_epochs)
        if cached is None:
            batch, origins_read = self._transform_rows()
        else:
            batch, origins_read, faults = cached
            self.faults += faults

        if source.source.shuffle == "outputs":
            batch = batch.take(line_order(source, block, len(batch)))
        if source.permutes_late:
            batch = permuted_late(source, block, origins_read, batch)
        if not source.is_compiled:
            batch = self._remove_unfit(batch, unwritable_lines(batch))
        if block.is_begun:
            batch = batch.take(block.unread_outputs(len(batch)))
        return batch, len(origins_read)

    def read_rows(self) -> tuple[Batch, Reasons]:
        """Return the lines of the chunk, and the invalid ones among them."""
        block = self.address.block
        most = full_chunk_lines(self.source, block)
        if most >= block.n_lines:
            return self._read_block()
        batch, invalid = self.source.blocks.get(block, self._read_block)
        low, high = chunk_rows(self.address.chunk, n_lines=block.n_lines, most=most)
        reasons = {index - low: reason for index, reason in invalid.items() if low <= index < high}
        return batch.take(np.arange(low, high)).compact(), reasons

    def _read_block(self) -> tuple[Batch, Reasons]:
        batch = read_block(self.source, self.address.block)
        reasons = {} if self.source.is_clean else shifting_lines(batch.columns)
        if not self.source.is_utf8:
            reasons |= invalid_lines(batch)
        return batch, reasons

    def _is_whole_small_source(self) -> bool:
        """Return whether the block is a whole small source, whose lines can be cached."""
        source = self.source
        is_small = source.permutes_late and len(source.sizes) == 1 and source.n_bytes <= SMALL
        is_whole = self.address.block.n_lines >= source.n_lines
        return is_small and is_whole and self.steps is None and self.on_step is None

    def _transform_for_all_epochs(self) -> tuple[Batch, Longs, tuple[Fault, ...]] | None:
        """Return lines after all transforms, origins read, and faults, equal in all epochs.

        Return None if a transform uses random numbers, which differ between epochs.
        """
        trial = _Run(self.source, self.address, self.keeps_text, random_uses=[])
        batch, origins_read = trial._transform_rows()
        if trial.random_uses:
            return None
        return batch.compact(), origins_read, tuple(trial.faults)

    def _transform_rows(self) -> tuple[Batch, Longs]:
        batch, invalid = self.read_rows()
        origins_read = batch.origins
        batch = self._remove_unfit(batch, invalid)
        batch = self._remove_unfit(batch, self.source.source.checks.reasons(batch))
        for index, transform in enumerate(self.source.transforms):
            if self.on_step is not None:
                self.on_step(index)
            batch = self._apply(index, transform, batch)
        return batch, origins_read

    def _remove_unfit(self, batch: Batch, reasons: Reasons) -> Batch:
        """Return the lines without a reason, and record a fault for each other line."""
        if not reasons:
            return batch
        unfit = sorted(reasons)
        texts = [""] * len(unfit)
        if self.keeps_text:
            texts = shown_lines(batch.take(unfit))
        for index, text in zip(unfit, texts, strict=True):
            path, line = self.source.place_of(int(batch.origins[index]))
            reason, _, trace = reasons[index].partition("\n")
            self.faults.append(Fault(path, line, reason, text, trace))
        is_fit = np.ones(len(batch), bool)
        is_fit[unfit] = False
        return batch.take(is_fit)

    def _apply(self, index: int, transform: Transform, batch: Batch) -> Batch:
        """Apply a transform. If lines fail, remove them, and apply it to the others."""
        while len(batch):
            result, reasons = self._attempt(index, transform, batch)
            self._refuse_mistake(transform, batch, reasons)
            batch = self._remove_unfit(batch, reasons)
            if result is not None:
                if self.steps is not None:
                    self.steps.append((transform.name, batch, result))
                return result
        return batch

    def _attempt(
        self, index: int, transform: Transform, batch: Batch
    ) -> tuple[Batch | None, Reasons]:
        """Return the transform's result, or None if it fails, and the lines that fail."""
        try:
            return self._call(index, transform, batch), {}
        except LineFault as fault:
            reasons = fault.reasons.items()
            return fault.result, {line: f"{transform.name}: {why}" for line, why in reasons}
        except Exception as error:
            failing = self._find_failing_lines(index, transform, batch)
            if failing:
                return None, failing
            trace = format_traceback(error) or "".join(traceback.format_exception(error)).rstrip()
            problem = "fails on the chunk, but not on any of its lines alone"
            raise StreamError(f"{self._describe(transform)} {problem}:\n{trace}") from error

    def _call(self, index: int, transform: Transform, batch: Batch) -> Batch:
        rng = LineRng.of(self.source.seed, self.source.name, self.address.block.epoch, index)
        if self.random_uses is not None:
            rng = cast(LineRng, _WatchedRng(rng, self.random_uses))
        result = transform(batch, rng)
        if not isinstance(result, Batch) or any(
            len(column) != len(result) for column in result.columns
        ):
            raise StreamError(
                f"transform {transform.name!r} must return a Batch with an origin for each line"
            )
        return result

    def _find_failing_lines(self, index: int, transform: Transform, batch: Batch) -> Reasons:
        """Return the lines that fail alone.

        Halve failing batches down to single lines; if the transform joins lines, try each line.
        """
        size = 1 if joins_lines(transform) else len(batch)
        reasons = Reasons()
        untried = [*np.arange(len(batch)).reshape(-1, size)]
        while untried:
            lines = untried.pop()
            try:
                self._call(index, transform, batch.take(lines))
            except Exception as error:
                middle = len(lines) // 2
                if middle:
                    untried += [lines[middle:], lines[:middle]]
                    continue
                why = f"{type(error).__name__}: {error}"
                if isinstance(error, LineFault):
                    why = error.reasons[0]
                reasons[int(lines[0])] = f"{transform.name}: {why}"
        return reasons

    def _refuse_mistake(self, transform: Transform, batch: Batch, reasons: Reasons) -> None:
        """Raise StreamError if each line fails with the same type of error, a bug in user code."""
        if len(reasons) < max(_MOST_BY_CHANCE, len(batch)):
            return
        matches = [_MISTAKES.search(reason) for reason in reasons.values()]
        error_types = {match and match[1] for match in matches}
        if len(error_types) > 1 or None in error_types:
            return
        first, end, trace = reasons[min(reasons)].partition("\n")
        remedy = "install the module" if "ModuleNotFoundError: " in first else "fix it"
        problem = f"fails on each of {len(batch)} lines: {first}"
        raise StreamError(f"{self._describe(transform)} {problem}; {remedy}{end}{trace}")

    def _describe(self, transform: Transform) -> str:
        return f"{describe_block(self.source, self.address.block)}: transform {transform.name!r}"


class _WatchedRng:
    """Random numbers of a `LineRng`, whose uses are recorded."""

    def __init__(self, rng: LineRng, uses: list[str]) -> None:
        self._rng = rng
        self._uses = uses

    def __getattr__(self, name: str) -> Any:
        self._uses.append(name)
        return getattr(self._rng, name)


def invalid_lines(batch: Batch) -> Reasons:
    """Return line index → reason, for lines that are not valid UTF-8."""
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


def unwritable_lines(batch: Batch) -> Reasons:
    """Return line index → reason, for lines that contain a line end or a lone surrogate."""
    data, ends = batch.packed()
    if np.count_nonzero(data == ord("\n")) == len(ends) and is_utf8_array(data):
        return {}
    message = "unwritable: a transform left a line end or a lone surrogate"
    lines = enumerate(_split_lines(batch))
    return {index: message for index, line in lines if b"\n" in line or _utf8_fault(line)}


def _utf8_fault(line: bytes) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode()) + 1
        return f"invalid UTF-8: byte 0x{line[error.start]:02x} at column {column}"
    return ""


def shown_lines(batch: Batch) -> list[str]:
    return [line.decode(errors="replace") for line in _split_lines(batch)]


def _split_lines(batch: Batch) -> Iterator[bytes]:
    data, ends = batch.packed()
    for start, end in pairwise([0, *ends.tolist()]):
        yield data[start : end - 1].tobytes()


def describe_block(source: OpenSource, block: LineBlock) -> str:
    return f"source {source.name!r}, epoch {block.epoch}, lines from {block.start} on"
