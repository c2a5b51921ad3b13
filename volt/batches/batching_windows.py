"""Split a stream into windows: samples that are batched together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from volt.batches.argument_checks import Longs
from volt.batches.batching_rules import ByPacks, ByTokens, WindowPlan
from volt.batches.samples import SampleFormat, Samples, joined_samples, taken_samples
from volt.batches.steps_state import Size, Stretch
from volt.errors import StreamError, shown_path
from volt.stream.running.state_validation import refusal
from volt.stream.running.stream import Stream
from volt.stream.running.stream_batch import StreamBatch

Part = tuple[Stretch, Samples]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Samples and their steps.

    number: the window's number, from 0
    world: the number of ranks that share each step
    stretches: the lines that the samples come from, newest last
    starts: (n_stretches + 1,) int64, the bounds of each stretch's samples
    is_last: whether the stream ends with this window
    """

    number: int
    world: int
    stretches: tuple[Stretch, ...]
    starts: Longs
    samples: Samples
    is_last: bool
    planned: WindowPlan

    @property
    def n_left(self) -> int:
        """The number of samples at the stream's end that do not fill a step."""
        return len(self.planned.batches.left) if self.is_last else 0

    def only(self, rows: Longs) -> list[Part]:
        """Return the samples of some rows, grouped by stretch.

        The newest stretch is always among them, even if it has none of the rows: the stream
        continues at its end.

        rows: in ascending order
        """
        result = list[Part]()
        bounds = pairwise(self.starts.tolist())
        for stretch, (start, end) in zip(self.stretches, bounds, strict=True):
            own_rows = rows[(rows >= start) & (rows < end)]
            if len(own_rows) or stretch is self.stretches[-1]:
                if len(own_rows) < end - start:
                    stretch = stretch.of(own_rows - start)
                result.append((stretch, taken_samples(self.samples, own_rows)))
        return result


@dataclass(slots=True)
class Windows:
    """The windows of a stream, made one after the other.

    size: the number of lines of each window, or "epoch"
    world: the number of ranks
    is_stopped: whether the thread must abandon its window
    """

    stream: Stream
    format: SampleFormat
    rule: ByTokens | ByPacks
    size: Size
    world: int
    pad_to_multiple: int = 1
    is_stopped: bool = False

    def after(self, window: Window | None, *, first: int) -> Window | None:
        """Return the window after `window`, or None at the stream's end. first: the number of the
        first window"""
        if window is None:
            return self._with_next(first, [])
        if window.is_last:
            return None
        retained = window.only(window.planned.batches.left)
        return self._with_next(window.number + 1, retained)

    def again(self, number: int, world: int, stretches: Sequence[Stretch]) -> Window:
        """Read a window again from its stretches. Afterwards, the stream is at the window's end."""
        parts = []
        for stored in stretches:
            self.stream.restore(stored.state)
            stretch, samples = self._sampled(
                self.stream.batches(limit=stored.n_lines), stored.state
            )
            if stretch.n_lines != stored.n_lines:
                raise refusal(
                    f"the state has a stretch of {stored.n_lines:,} lines, but {stretch.n_lines:,} follow"
                )
            if stored.wanted is not None:
                if len(stored.wanted) and stored.wanted[-1] >= len(samples):
                    raise refusal(
                        f"the state has sample {stored.wanted[-1]:,} (from 0) of only {len(samples):,}"
                    )
                stretch = stretch.of(stored.wanted)
                samples = taken_samples(samples, stored.wanted)
            parts.append((stretch, samples))
        return self._planned(number, world, parts)

    def rest(self, window: Window, n_steps: int) -> Window | None:
        """Return the rest of a window after `n_steps` steps, planned for the current ranks; None if
        nothing remains."""
        rows = window.planned.rest(n_steps)
        if not len(rows):
            return None
        return self._planned(window.number, self.world, window.only(rows))

    def _with_next(self, number: int, retained: list[Part]) -> Window:
        """Read a window. retained: the stretches of samples that are left of the window before"""
        state = self.stream.state()
        lines = self._epoch() if self.size == "epoch" else self.stream.batches(limit=self.size)
        try:
            stretch, samples = self._sampled(lines, state)
            if retained:
                last, last_samples = retained[-1]
                if not len(last_samples):
                    retained = retained[:-1]
                elif last.wanted is None:  # its lines precede the new lines
                    retained = retained[:-1]
                    places = np.concatenate([last.places, stretch.places])
                    stretch = Stretch(last.state, len(places), places)
                    samples = joined_samples([last_samples, samples])
            return self._planned(number, self.world, [*retained, (stretch, samples)])
        except BaseException:
            self.stream.restore(state)  # so that no line is lost if reading continues
            raise

    def _planned(self, number: int, world: int, parts: Sequence[Part]) -> Window:
        samples = joined_samples([some for _, some in parts])
        starts = np.cumsum([0, *(len(some) for _, some in parts)])
        is_last = self.stream.place() is None
        planned = self.rule.planned(
            samples,
            world=world,
            seed=self.stream.seed,
            window=number,
            n_old=int(starts[-2]),
            is_last=is_last,
            pad_to_multiple=self.pad_to_multiple,
        )
        stretches = tuple(stretch for stretch, _ in parts)
        window = Window(number, world, stretches, starts, samples, is_last, planned)
        too_long = planned.batches.too_long
        if self.rule.on_long == "raise" and len(too_long):
            name, limit = self.rule.limit(self.pad_to_multiple)
            line = self.shown(window, int(too_long[0]))
            size = int(samples.lengths[too_long[0]].max())
            remedy = "raise it, drop such lines with the filter length, or set on_long to report in"
            section = "batches"
            if name == "length":
                section = "batches.pack"
            elif name == "max_length":
                name = "max_length (longest in a configuration)"
            fault = f"{line}: has {size:,} ids; {name} is {limit:,}"
            raise StreamError(f"{fault}; {remedy} {section}")
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
        """Yield an epoch; for several sources, a virtual epoch or, if the stream ends, all lines."""
        if len(self.stream.sources) > 1:
            yield from self.stream.batches(limit=self.stream.epoch_lines)
            return
        epoch = -1
        while (place := self.stream.place()) is not None and epoch in (-1, place[1].block.epoch):
            epoch = place[1].block.epoch
            yield next(self.stream.batches())

    def _sampled(self, lines: Iterator[StreamBatch], state: Mapping[str, Any]) -> Part:
        places = [np.empty((0, 2), np.int64)]
        parts = [Samples.of({name: [] for name in self.format.vocabularies})]
        for batch in lines:
            if self.is_stopped:
                raise StreamError(
                    "the steps were closed while a window was read; iterate again to read it anew"
                )
            places.append(np.stack([batch.sources, batch.lines.origins], axis=1))
            parts.append(self.format.samples(batch))
        joined = np.concatenate(places)
        samples = self.rule.prepared(joined_samples(parts))
        return Stretch(state, len(joined), joined), samples
