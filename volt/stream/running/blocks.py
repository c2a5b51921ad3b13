"""A block of a source → its lines after all transforms, as bytes: a pure function, computed anywhere, ahead of need.

    lines of the slices → permuted → valid UTF-8 → checks → transform 0 → transform 1 → … → bytes

Where there is nothing to check or to transform, lines stay bytes and are not looked at one by one. An unfit line is
taken out and noted as a `Fault`. If the policy is to raise, the block carries the error, and the stream raises it when
it gets to the block.

>>> import tempfile
>>> from volt.stream.reading.source import Source, open_source
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"a\\nb\\n") and file.flush()
...     source = open_source(Source("letters", (file.name,), shuffle="none"), seed=1)
...     compute_block(source, 0, 0, Policy()).data
b'a\\nb\\n'
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from volt.errors import StreamError, VoltError
from volt.stream.reading.faults import Fault, Policy
from volt.stream.reading.order import Slice, generator
from volt.stream.reading.source import OpenSource, RawBlock, line_order, place_of, read_block
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.transform import LineFault, Transform

N_SAMPLED = 256  # lines of a block whose fields are counted
Watch = Callable[[str, Batch, Batch], object]  # step, before, after


@dataclass(frozen=True, slots=True)
class ComputedBlock:
    """A block after all transforms.

    data: n_lines lines, each with its line end.
    n_read: how many lines of the source it was made from.
    faults: those of them that were unfit.
    error: what the stream is to raise when it gets to this block; empty if nothing.
    fields: number of fields → how many of the first 256 lines have so many.
    """

    data: bytes
    n_lines: int
    n_read: int
    faults: tuple[Fault, ...] = ()
    error: str = ""
    fields: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """Which block is computed: it names the random generators, and the files and lines of faults."""

    source: OpenSource
    epoch: int
    block: int
    slices: tuple[Slice, ...]
    keep_text: bool

    def fault(self, origin: int, reason: str, text: str) -> Fault:
        path, line = place_of(self.source, self.slices, origin)
        return Fault(path, line, reason, text if self.keep_text else "")

    def generator(self, position: int) -> np.random.Generator:
        return generator(self.source.seed, self.source.name, self.epoch, self.block, position)


def compute_block(source: OpenSource, epoch: int, block: int, policy: Policy) -> ComputedBlock:
    """A block as the stream yields it. Nothing is raised: what is wrong is in `faults` and `error`."""
    try:
        raw = read_block(source, epoch, block)
        place = _Place(source, epoch, block, raw.slices, keep_text=policy.on_fault == "quarantine")
        if (done := _untouched(source, raw)) is None:
            done = _transformed(place, raw)
        source.check_files()  # behind the block, so that what it was made with is what was opened
    except VoltError as error:
        return ComputedBlock(b"", 0, 0, error=str(error))
    if done.faults and policy.on_fault == "raise":
        first = done.faults[0]
        return replace(
            done, error=f"{first.place}: {first.reason}; mend the line, or set on_fault to skip or quarantine"
        )
    return done


def _untouched(source: OpenSource, raw: RawBlock) -> ComputedBlock | None:
    """The block where lines stay as they are, which is fast; None if there are transforms, checks or invalid bytes."""
    if source.source.transforms or source.source.checks.any or source.source.shuffle == "outputs":
        return None
    data = _joined(raw.lines)
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return ComputedBlock(data, len(raw.lines), len(raw.lines), fields=_fields(raw.lines))


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"\n".join([*lines, b""])


def _fields(lines: Sequence[bytes]) -> dict[int, int]:
    return dict(Counter(line.count(b"\t") + 1 for line in lines[:N_SAMPLED]))


def _transformed(place: _Place, raw: RawBlock, watch: Watch | None = None) -> ComputedBlock:
    batch, faults, data = transformed(place, raw, watch)
    fields = Counter(line.count("\t") + 1 for line in batch.lines[:N_SAMPLED])
    return ComputedBlock(data, len(batch), len(raw.lines), tuple(faults), fields=dict(fields))


def trace_block(source: OpenSource, epoch: int, block: int, watch: Watch) -> tuple[Batch, RawBlock]:
    """Compute a block once more, calling `watch` at every step with what went in and what came out of it."""
    raw = read_block(source, epoch, block)
    batch, _, _ = transformed(_Place(source, epoch, block, raw.slices, keep_text=False), raw, watch)
    return batch, raw


def transformed(place: _Place, raw: RawBlock, watch: Watch | None = None) -> tuple[Batch, list[Fault], bytes]:
    """A block after all steps, the faults on the way, and its lines as bytes.

    Raises StreamError if a step fails whole.
    """
    batch, faults = _decoded(place, raw)
    reasons = place.source.source.checks.reasons(batch.lines)
    batch = _without(place, batch, reasons, faults)
    for position, transform in enumerate(place.source.transforms):
        batch = _step(place, position, transform, batch, faults, watch)
    if place.source.source.shuffle == "outputs":
        order = line_order(place.source, place.epoch, place.block, len(batch))
        batch = batch if order is None else batch.take(order)
    if (data := _written(batch.lines)) is None:
        batch = _without(place, batch, _unwritable(batch.lines), faults)
        data = _written(batch.lines) or b""
    return batch, faults, data


def _decoded(place: _Place, raw: RawBlock) -> tuple[Batch, list[Fault]]:
    """Lines as text; those that are not UTF-8 become faults. Origins count in reading order."""
    origins = np.arange(len(raw.lines)) if raw.order is None else raw.order
    try:
        text = b"\n".join(raw.lines).decode()
        return Batch(text.split("\n") if raw.lines else [], origins), []
    except UnicodeDecodeError:
        lines = [line.decode(errors="replace") for line in raw.lines]
    faults = list[Fault]()
    bad = {i: reason for i, line in enumerate(raw.lines) if (reason := _utf8_reason(line))}
    return _without(place, Batch(lines, origins), bad, faults), faults


def _utf8_reason(line: bytes) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode()) + 1
        return f"invalid UTF-8: byte 0x{line[error.start]:02x} at column {column}"
    return ""


def _written(lines: Sequence[str]) -> bytes | None:
    """Lines with their line ends as bytes, or None if some of them cannot be written."""
    try:
        data = "\n".join([*lines, ""]).encode()
    except UnicodeEncodeError:
        return None
    return data if data.count(b"\n") == len(lines) else None


def _unwritable(lines: Sequence[str]) -> dict[int, str]:
    """Lines that a transform made and that cannot be written: with a line end inside, or a lone surrogate."""
    return {
        i: "unwritable: a transform left a line end or a lone surrogate" for i, line in enumerate(lines) if _bad(line)
    }


def _bad(line: str) -> bool:
    return "\n" in line or any("\ud800" <= char <= "\udfff" for char in line)


def _without(place: _Place, batch: Batch, reasons: dict[int, str], faults: list[Fault]) -> Batch:
    """The batch without its unfit lines, which are noted."""
    if not reasons:
        return batch
    for index, reason in sorted(reasons.items()):
        faults.append(place.fault(int(batch.origins[index]), reason, batch.lines[index]))
    kept = np.ones(len(batch), bool)
    kept[list(reasons)] = False
    return batch.take(kept)


def _step(
    place: _Place, position: int, transform: Transform, batch: Batch, faults: list[Fault], watch: Watch | None
) -> Batch:
    """The batch after one transform. Lines that it cannot take are taken out, and it is called again with a generator
    in the same state as before.
    """
    while len(batch):
        try:
            done = _called(place, position, transform, batch)
        except LineFault as fault:
            batch = _without(place, batch, {i: f"{transform.name}: {why}" for i, why in fault.reasons.items()}, faults)
        except Exception as error:
            reasons = _found_singly(place, position, transform, batch)
            if not reasons:
                raise _whole_failure(place, transform, error) from error
            batch = _without(place, batch, reasons, faults)
        else:
            if watch:
                watch(transform.name, batch, done)
            return done
    return batch


def _called(place: _Place, position: int, transform: Transform, batch: Batch) -> Batch:
    done = transform(batch, place.generator(position))
    if not isinstance(done, Batch) or len(done.lines) != len(done.origins):
        raise StreamError(f"transform {transform.name!r} must return a Batch with an origin for each line")
    return done


def _found_singly(place: _Place, position: int, transform: Transform, batch: Batch) -> dict[int, str]:
    """Which lines make a transform fail by themselves, and how."""
    reasons = dict[int, str]()
    for index in range(len(batch)):
        try:
            _called(place, position, transform, batch.take([index]))
        except Exception as error:
            reasons[index] = f"{transform.name}: {type(error).__name__}: {error}"
    return reasons


def _whole_failure(place: _Place, transform: Transform, error: Exception) -> StreamError:
    told = "".join(traceback.format_exception(error)).rstrip()
    where = f"source {place.source.name!r}, epoch {place.epoch}, block {place.block}"
    return StreamError(
        f"{where}: transform {transform.name!r} failed on the block, though on none of its lines alone:\n{told}"
    )
