"""Split a stream into windows, the samples that are batched together; write and read the state of steps.

A window's samples come from stretches of lines. To read a stretch again, its stream state and number of lines suffice:

    {"format": "volt.steps", "version": 1, "n": 812, "window": 3, "steps": 20, "world": 8, "stretches": [{"stream": …,
     "n_lines": 16384, "wanted": null}, …], "configuration": …}

`wanted` is a bit for each sample of a stretch, as base64 of zlib.
"""

from __future__ import annotations

import binascii
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from volt import arguments
from volt.batches.argument_checks import Longs
from volt.batches.batch_sampler import ByPacks, ByTokens, WindowPlan
from volt.batches.samples import SampleFormat, Samples, joined_samples, taken_samples
from volt.errors import StreamError, shown_path
from volt.stream.running import state_checks as schema
from volt.stream.running.source_buffer import StreamBatch
from volt.stream.running.state_checks import check_checksum, checksum, refusal
from volt.stream.running.stream import Stream

Size = int | Literal["epoch"]


@dataclass(frozen=True, slots=True, eq=False)
class LineRun:
    """A stretch: consecutive lines of a stream.

    state: the stream's state at the first of these lines
    places: (n_lines, 2) int64, each line's source and number in the source
    wanted: int64, the samples not yet used, in order; None for all
    """

    state: Mapping[str, Any]
    n_lines: int
    places: Longs
    wanted: Longs | None = None

    def of(self, samples: Longs) -> LineRun:
        return replace(self, wanted=samples if self.wanted is None else self.wanted[samples])


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Samples and their steps.

    number: the window's number, from 0
    world: the number of ranks that share each step
    stretches: the lines that the samples come from, newest last
    starts: (n_stretches + 1,) int64, the bounds of each stretch's samples
    is_last: whether the stream ends with it
    """

    number: int
    world: int
    stretches: tuple[LineRun, ...]
    starts: Longs
    samples: Samples
    is_last: bool
    planned: WindowPlan

    @property
    def n_left(self) -> int:
        """The number of samples at the stream's end that do not fill a step."""
        return len(self.planned.batches.left) if self.is_last else 0

    def only(self, rows: Longs) -> list[tuple[LineRun, Samples]]:
        """Return the samples of some rows, by stretch. rows: in order"""
        cuts = np.searchsorted(rows, self.starts).tolist()
        pieces = [rows[start:end] for start, end in pairwise(cuts)]
        bounds = pairwise(self.starts.tolist())
        return [
            (stretch if len(piece) == end - start else stretch.of(piece - start), taken_samples(self.samples, piece))
            for stretch, (start, end), piece in zip(self.stretches, bounds, pieces, strict=True)
            if len(piece)
        ]


class Windows:
    """The windows of a stream, made one after the other.

    size: the number of lines of each window, or "epoch"
    world: the number of ranks
    """

    def __init__(
        self, stream: Stream, samples: SampleFormat, rule: ByTokens | ByPacks, *, size: Size, world: int,
        pad_to_multiple: int = 1,
    ) -> None:  # fmt: skip
        self.stream, self.format, self.rule, self.size, self.world = stream, samples, rule, size, world
        self.pad_to_multiple = pad_to_multiple
        self.is_stopped = False  # whether a thread must not finish its window

    def after(self, window: Window | None, *, first: int) -> Window | None:
        """Return the next window; None at the end of the stream. first: the number of the first window"""
        if window is None:
            return self._with_next(first, [])
        return None if window.is_last else self._with_next(window.number + 1, window.only(window.planned.batches.left))

    def again(self, number: int, world: int, stretches: Sequence[LineRun]) -> Window:
        """Read a window again, from its stretches, and leave the stream at its end."""
        parts = []
        for stored in stretches:
            self.stream.restore(stored.state)
            stretch, samples = self._sampled(self.stream.batches(limit=stored.n_lines), stored.state)
            if stretch.n_lines != stored.n_lines:
                raise refusal(f"the state has a stretch of {stored.n_lines:,} lines, and there are {stretch.n_lines:,}")
            if stored.wanted is not None:
                if len(stored.wanted) and stored.wanted[-1] >= len(samples):
                    raise refusal(f"the state wants sample {stored.wanted[-1]:,} of {len(samples):,}")
                stretch, samples = stretch.of(stored.wanted), taken_samples(samples, stored.wanted)
            parts.append((stretch, samples))
        return self._planned(number, world, parts)

    def rest(self, window: Window, n_steps: int) -> Window | None:
        """Return the rest of a window after n_steps steps, for the current ranks; None if it is empty."""
        parts = window.only(window.planned.rest(n_steps))
        return self._planned(window.number, self.world, parts) if parts else None

    def _with_next(self, number: int, retained: list[tuple[LineRun, Samples]]) -> Window:
        state = self.stream.state()
        lines = self._epoch() if self.size == "epoch" else self.stream.batches(limit=self.size)
        try:
            read = self._sampled(lines, state)
            return self._planned(number, self.world, _appended(retained, read))
        except BaseException:
            self.stream.restore(state)  # so that no line is lost if reading continues
            raise

    def _planned(self, number: int, world: int, parts: Sequence[tuple[LineRun, Samples]]) -> Window:
        samples = joined_samples([some for _, some in parts])
        starts = np.cumsum([0, *(len(some) for _, some in parts)])
        is_last = self.stream.place() is None
        planned = self.rule.planned(
            samples, world=world, seed=self.stream.seed, window=number, n_old=int(starts[-2]), is_last=is_last,
            pad_to_multiple=self.pad_to_multiple,
        )  # fmt: skip
        window = Window(number, world, tuple(stretch for stretch, _ in parts), starts, samples, is_last, planned)
        too_long = planned.batches.too_long
        if self.rule.on_long == "raise" and len(too_long):
            name, limit = self.rule.limit(self.pad_to_multiple)
            size = int(samples.lengths[too_long[0]].max())
            raise StreamError(
                f"{self.shown(window, int(too_long[0]))}: has {size:,} ids; {name} is {limit:,}; raise it, drop such "
                "lines with the filter length, or set on_long to report"
            )
        return window

    def shown(self, window: Window, row: int) -> str:
        """Return the file and line of a sample."""
        stretch = window.stretches[int(np.searchsorted(window.starts, row, side="right")) - 1]
        number = int(window.samples.numbers[row])
        source, line = stretch.places[number - stretch.state["n"]].tolist()
        path, at = self.stream.sources[source].place_of(line)
        return f"{shown_path(path)}:{at} (line {number:,} of the stream)"

    # reading

    def _epoch(self) -> Iterator[StreamBatch]:
        """Yield the lines of an epoch; of several sources, a virtual epoch, or all lines."""
        if len(self.stream.sources) > 1:
            yield from self.stream.batches(limit=self.stream.epoch_lines)
            return
        epoch = -1
        while (place := self.stream.place()) is not None and epoch in (-1, place[1].part.epoch):
            epoch = place[1].part.epoch
            yield next(self.stream.batches())

    def _sampled(self, lines: Iterator[StreamBatch], state: Mapping[str, Any]) -> tuple[LineRun, Samples]:
        places, parts = [np.empty((0, 2), np.int64)], [Samples.of({name: [] for name in self.format.vocabularies})]
        for batch in lines:
            if self.is_stopped:
                raise StreamError("the steps were closed while a window was read; continue reading to make it again")
            places.append(np.stack([batch.sources, batch.lines.origins], axis=1))
            parts.append(self.format.samples(batch))
        joined = np.concatenate(places)
        return LineRun(state, len(joined), joined), self.rule.prepared(joined_samples(parts))


def _appended(retained: list[tuple[LineRun, Samples]], read: tuple[LineRun, Samples]) -> list[tuple[LineRun, Samples]]:
    """Append new lines to the retained stretches: to the last one, if all of its samples are wanted."""
    if not retained:
        return [read]
    (last, samples), (stretch, new) = retained[-1], read
    if not len(new):
        return retained
    if last.wanted is not None or last.state["n"] + last.n_lines != stretch.state["n"]:
        return [*retained, read]
    places = np.concatenate([last.places, stretch.places])
    return [*retained[:-1], (LineRun(last.state, len(places), places), joined_samples([samples, new]))]


FORMAT, VERSION = "volt.steps", 1
_NUMBERS = ("n", "window", "steps", "world")
_KEYS = ("format", "version", *_NUMBERS, "stretches", "configuration", "checksum")
_MOST_BYTES = 1 << 28  # of bits: two thousand million samples


@dataclass(frozen=True, slots=True)
class StepsState:
    """The position of steps, and what they depend on.

    n: steps so far
    steps: steps so far of the window
    world: the number of ranks of the window's steps
    stretches: the window's stretches; before the first window, one without lines
    configuration: fingerprints and options that steps depend on, by name
    """

    n: int
    window: int
    steps: int
    world: int
    stretches: tuple[LineRun, ...]
    configuration: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        stretches = [
            {"stream": one.state, "n_lines": one.n_lines, "wanted": None if one.wanted is None else bits_of(one.wanted)}
            for one in self.stretches
        ]
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        values = {**numbers, "stretches": stretches, "configuration": self.configuration}
        values = json.loads(json.dumps({"format": FORMAT, "version": VERSION, **values}))
        return {**values, "checksum": checksum(values)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> StepsState:
        """Return the state that `to_json` wrote. Raises StreamError, with the key, for anything else."""
        arguments.mapping(stored, "state", remedy="give what Steps.state returns")
        if stored.get("format") == "volt.stream":
            raise refusal("the state belongs to a stream of lines, not to steps")
        if stored.get("format") != FORMAT:
            raise refusal("this is not a state of steps")
        if stored.get("version") != VERSION:
            raise refusal(f"the state has version {arguments.shortened(repr(stored.get('version')))}, not {VERSION}")
        schema.check_keys(stored, _KEYS)
        stretches = enumerate(schema.listed(stored["stretches"], "stretches"))
        result = cls(
            **{name: schema.whole(stored[name], name, low=int(name == "world")) for name in _NUMBERS},
            stretches=tuple(_stretch(one, f"stretches.{at}") for at, one in stretches),
            configuration=dict(schema.mapping(stored["configuration"], "configuration")),
        )
        check_checksum(stored)
        if not result.stretches:
            raise refusal("the state has no stretches")
        return result


def configuration_of(
    samples: SampleFormat, rule: ByTokens | ByPacks, window: Size, pad_to_multiple: int
) -> dict[str, Any]:
    """Return `StepsState.configuration`."""
    fields = {
        f"field {place} ({name})": {"vocabulary": numbering.fingerprint, "prefix": [*samples.prefix.get(name, ())]}
        for place, (name, numbering) in enumerate(samples.vocabularies.items(), start=1)
    }
    own = ("holds", "bos", "eos", "max_length", "beyond", "unknown")
    options = {name: getattr(samples, name) for name in own}
    padding = {"pad_to_multiple": pad_to_multiple} if isinstance(rule, ByTokens) and pad_to_multiple > 1 else {}
    values: dict[str, Any] = {"fields": fields, "samples": options, rule.name: asdict(rule) | padding, "window": window}
    return dict(json.loads(json.dumps(values)))


def _stretch(stored: object, at: str) -> LineRun:
    data = schema.mapping(stored, at)
    schema.check_keys(data, ("stream", "n_lines", "wanted"), at)
    wanted = None if data["wanted"] is None else samples_of(schema.text(data["wanted"], f"{at}.wanted"), f"{at}.wanted")
    lines = schema.whole(data["n_lines"], f"{at}.n_lines")
    return LineRun(dict(schema.mapping(data["stream"], f"{at}.stream")), lines, np.empty((0, 2), np.int64), wanted)


def bits_of(samples: Longs) -> str:
    """Return rising numbers as bits, in base64 of zlib.

    >>> samples_of(bits_of(np.array([0, 2])), "wanted").tolist()
    [0, 2]
    """
    bits = np.zeros(int(samples.max(initial=-1)) + 1, bool)
    bits[samples] = True
    return b64encode(zlib.compress(np.packbits(bits).tobytes(), 9)).decode()


def samples_of(bits: str, at: str) -> Longs:
    """Return the numbers that `bits_of` wrote. at: the key of the state, for errors"""
    try:
        data = zlib.decompressobj().decompress(b64decode(bits.encode(), validate=True), _MOST_BYTES)
    except (zlib.error, binascii.Error, UnicodeEncodeError):
        raise refusal(f"the state's {at} does not contain bits") from None
    return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8)))
