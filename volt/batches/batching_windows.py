"""Read a stream in windows: samples that are batched together, and the plan of their steps.

    stream → window 0 → window 1 → …
             └ left over ─┘

Samples that do not fill a step are left over, and become the first samples of the next window. So a
window has samples of several stretches of lines (see `volt.batches.steps_state`), the oldest first.
A stretch whose samples are all left over is joined with the new lines, as its lines precede them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from volt.array_types import Longs
from volt.batches.batching_rules import ByPacks, ByTokens, WindowContext, WindowPlan
from volt.batches.samples import SampleFormat, Samples, joined_samples, taken_samples
from volt.batches.steps_state import Size, Stretch
from volt.errors import StreamError, shown_path
from volt.stream.running.state_validation import refusal
from volt.stream.running.stream import Stream
from volt.stream.running.stream_batch import StreamBatch

# A stretch of lines, and its unused samples
SampledStretch = tuple[Stretch, Samples]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Samples and their steps.

    number: the window's number, from 0
    stretches: the lines that the samples come from, newest last
    bounds: (n_stretches + 1,) int64; stretch i has the samples from bounds[i] to bounds[i + 1]
    is_last: whether the stream ends with this window
    """

    number: int
    stretches: tuple[Stretch, ...]
    bounds: Longs
    samples: Samples
    is_last: bool
    plan: WindowPlan

    @property
    def n_left(self) -> int:
        """The number of samples at the stream's end that do not fill a step."""
        return len(self.plan.batches.left) if self.is_last else 0

    def select(self, rows: Longs) -> list[SampledStretch]:
        """Return the samples of some rows, grouped by stretch.

        The newest stretch is always among them, even if it has none of the rows: the stream
        continues at its end.

        rows: in ascending order
        """
        result = list[SampledStretch]()
        for stretch, (start, end) in zip(
            self.stretches, pairwise(self.bounds.tolist()), strict=True
        ):
            stretch_rows = rows[(rows >= start) & (rows < end)]
            if len(stretch_rows) or stretch is self.stretches[-1]:
                if len(stretch_rows) < end - start:
                    stretch = stretch.select_unused(stretch_rows - start)
                result.append((stretch, taken_samples(self.samples, stretch_rows)))
        return result


@dataclass(slots=True)
class Windows:
    """Read the windows of a stream, one after the other.

    size: the number of lines of each window, or "epoch"
    world: the number of ranks
    is_stopped: whether the thread that reads a window must abandon it; set by `Steps`
    """

    stream: Stream
    format: SampleFormat
    rule: ByTokens | ByPacks
    size: Size
    world: int
    pad_to_multiple: int = 1
    is_stopped: bool = False

    def read_after(self, window: Window | None, *, first: int) -> Window | None:
        """Read the window after `window`; return None at the stream's end.

        first: the number of the window if `window` is None
        """
        if window is None:
            return self._read(first, [])
        if window.is_last:
            return None
        return self._read(window.number + 1, window.select(window.plan.batches.left))

    def read_again(self, number: int, world: int, stored: Sequence[Stretch]) -> Window:
        """Read a window again. Afterwards, the stream is at the window's end.

        number, world: of the window
        stored: its stretches, without `origins`
        """
        sampled = list[SampledStretch]()
        for old in stored:
            self.stream.restore(old.state)
            lines = self.stream.batches(limit=old.n_lines)
            stretch, samples = self._read_samples(lines, old.state)
            if stretch.n_lines != old.n_lines:
                raise refusal(
                    f"the state has a stretch of {old.n_lines:,} lines, but {stretch.n_lines:,} follow"
                )
            if old.unused is not None:
                if len(old.unused) and old.unused[-1] >= len(samples):
                    raise refusal(
                        f"the state has sample {old.unused[-1]:,} (from 0) of only {len(samples):,}"
                    )
                stretch = stretch.select_unused(old.unused)
                samples = taken_samples(samples, old.unused)
            sampled.append((stretch, samples))
        return self._plan(number, world, sampled)

    def replan(self, window: Window, n_steps: int) -> Window | None:
        """Plan the samples after a window's first `n_steps` steps anew, for the current ranks.

        Return None if no sample remains.
        """
        rows = window.plan.unused_rows(n_steps)
        if not len(rows):
            return None
        return self._plan(window.number, self.world, window.select(rows))

    def describe_line(self, window: Window, row: int) -> str:
        """Return the file and line of a sample."""
        index = int(np.searchsorted(window.bounds, row, side="right")) - 1
        stretch = window.stretches[index]
        number = int(window.samples.numbers[row])  # of the line, in the stream
        source, source_line = stretch.origins[number - stretch.state["n"]].tolist()
        path, line = self.stream.sources[source].place_of(source_line)
        return f"{shown_path(path)}:{line} (line {number:,} of the stream)"

    def _read(self, number: int, left_over: list[SampledStretch]) -> Window:
        """Read new lines, and plan their samples after those of `left_over`."""
        state = self.stream.state()
        lines = self._read_epoch() if self.size == "epoch" else self.stream.batches(limit=self.size)
        try:
            stretch, samples = self._read_samples(lines, state)
            if left_over:
                last, last_samples = left_over[-1]
                if not len(last_samples):
                    left_over = left_over[:-1]
                elif last.unused is None:  # its lines precede the new lines
                    left_over = left_over[:-1]
                    origins = np.concatenate([last.origins, stretch.origins])
                    stretch = Stretch(last.state, len(origins), origins)
                    samples = joined_samples([last_samples, samples])
            return self._plan(number, self.world, [*left_over, (stretch, samples)])
        except BaseException:
            self.stream.restore(state)  # so that no line is lost if reading continues
            raise

    def _read_epoch(self) -> Iterator[StreamBatch]:
        """Yield an epoch; for several sources, a virtual epoch or, if the stream ends, all
        lines."""
        if len(self.stream.sources) > 1:
            yield from self.stream.batches(limit=self.stream.epoch_lines)
            return
        epoch = -1
        while (place := self.stream.place()) is not None and epoch in (-1, place[1].block.epoch):
            epoch = place[1].block.epoch
            yield next(self.stream.batches())

    def _read_samples(
        self, lines: Iterator[StreamBatch], state: Mapping[str, Any]
    ) -> SampledStretch:
        """Return lines as a stretch, and their samples.

        state: the stream's state at the first line
        """
        origins = [np.empty((0, 2), np.int64)]
        parts = [Samples.of({name: [] for name in self.format.vocabularies})]
        for batch in lines:
            if self.is_stopped:
                raise StreamError(
                    "the steps were closed while a window was read; iterate again to read it anew"
                )
            origins.append(np.stack([batch.sources, batch.lines.origins], axis=1))
            parts.append(self.format.samples(batch))
        all_origins = np.concatenate(origins)
        samples = self.rule.prepare(joined_samples(parts))
        return Stretch(state, len(all_origins), all_origins), samples

    def _plan(self, number: int, world: int, sampled: Sequence[SampledStretch]) -> Window:
        """Return the window of these samples.

        Raises StreamError if one is too long for the rule.
        """
        samples = joined_samples([some for _, some in sampled])
        bounds = np.cumsum([0, *(len(some) for _, some in sampled)])
        is_last = self.stream.place() is None
        context = WindowContext(
            world=world,
            seed=self.stream.seed,
            window=number,
            n_old=int(bounds[-2]),
            is_last=is_last,
            pad_to_multiple=self.pad_to_multiple,
        )
        plan = self.rule.plan(samples, context)
        stretches = tuple(stretch for stretch, _ in sampled)
        window = Window(number, stretches, bounds, samples, is_last, plan)
        too_long = plan.batches.too_long
        if self.rule.on_long == "raise" and len(too_long):
            raise self._too_long_error(window, int(too_long[0]))
        return window

    def _too_long_error(self, window: Window, row: int) -> StreamError:
        name, limit = self.rule.limit(self.pad_to_multiple)
        section = "batches"
        if name == "length":
            section = "batches.pack"
        elif name == "max_length":
            name = "max_length (longest in a configuration)"
        n_ids = int(window.samples.lengths[row].max())
        fault = f"{self.describe_line(window, row)}: has {n_ids:,} ids; {name} is {limit:,}"
        remedy = "raise it, drop such lines with the filter length, or set on_long to report in"
        return StreamError(f"{fault}; {remedy} {section}")
