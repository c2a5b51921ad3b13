"""Measure the steps that a trainer takes: tokens, padding, throughput, and how long the trainer
waited.

    step → `counts_of` → `Totals`, added up by `Steps` (`steps.totals`) and by `Progress`
    steps → `Counted`, which numbers them → `Progress`, which makes a `Report` every few steps

A step is the dict of arrays that `collate` returns. A rank counts its own batches, but samples that
are too long or too short for all ranks, because every rank sees all lengths.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TextIO, TypeVar

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, OutputError, reason, shown_path

T = TypeVar("T")
Destination = TextIO | str | os.PathLike[str] | Callable[["Report"], object]
_GIVE = "give an open file, such as sys.stderr, the path of a file for JSON lines, or a function"


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of one step, or of all steps of a rank since they were opened or restored.

    n_steps, n_samples: number of steps, and of samples in the rank's batches
    n_tokens, n_laid_out: number of ids of all fields, without and with padding
    seconds: how long the rank's trainer has waited for steps
    n_too_long, n_too_short: number of samples, of all ranks, that are too long or too short for any
        batch
    too_long: the positions of the first ten lines that are too long
    n_left: number of samples at the stream's end that do not fill a step

    >>> Totals(n_tokens=75, n_laid_out=100).padding_share
    0.25
    """

    n_steps: int = 0
    n_samples: int = 0
    n_tokens: int = 0
    n_laid_out: int = 0
    seconds: float = 0.0
    n_too_long: int = 0
    n_too_short: int = 0
    too_long: tuple[str, ...] = ()
    n_left: int = 0

    def plus(self, other: Totals) -> Totals:
        values = [getattr(self, name) + getattr(other, name) for name in Totals.__slots__]
        return Totals(*values)

    @property
    def first_too_long(self) -> str:
        """The position of the first line that is too long; empty without such a line."""
        return self.too_long[0] if self.too_long else ""

    @property
    def padding_share(self) -> float:
        """The share of padding in all arrays."""
        if not self.n_laid_out:
            return 0.0
        return 1 - self.n_tokens / self.n_laid_out


def counts_of(step: object) -> tuple[Totals, int]:
    """Return the totals of a step from `collate` or `collate_packed`, and the width of its widest
    array, in ids."""
    if not isinstance(step, Mapping) or "ntokens" not in step:
        raise arguments.refusal(
            step, "a step", "give a step of volt.batches.Steps, or a result of collate"
        )
    inputs = step["net_input"]
    arrays = [step["target"]]
    n_ids = int(step["ntokens"])
    if "prev_output_tokens" in inputs:  # the samples have two fields
        arrays.append(inputs["src_tokens"])
        n_ids += int(inputs["src_lengths"].sum())
    totals = Totals(
        n_steps=1,
        n_samples=int(step["nsentences"]),
        n_tokens=n_ids,
        n_laid_out=sum(math.prod(array.shape) for array in arrays),
    )
    return totals, max(int(array.shape[1]) for array in arrays)


class Counted(Generic[T]):
    """An iterator that counts its steps. `n` is the number of steps so far, over all runs.

    steps: any iterable; counting starts from its attribute `n`, if it has one
    start: the step to continue at; earlier steps are skipped

    >>> counted = Counted("abcde", start=3)
    >>> next(counted), counted.n, list(counted), counted.n
    ('d', 4, ['e'], 5)
    """

    def __init__(self, steps: Iterable[T], *, start: int | None = None) -> None:
        if not hasattr(steps, "__iter__"):
            remedy = "give an iterable, such as volt.batches.Steps"
            raise arguments.refusal(steps, "steps", remedy)
        self.steps = steps
        self.n = int(getattr(steps, "n", 0))
        start = self.n if start is None else arguments.whole(start, "start", low=0)
        if start < self.n:
            raise ConfigError(
                f"start is {start:,}, but {counted(self.n, 'step')} were taken; restore an earlier state"
            )
        self._iterator: Iterator[T] | None = None  # None before the first step, and after a skip
        if self.skip(start - self.n) or self.n < start:
            raise ConfigError(
                f"start is {start:,}, but there are {counted(self.n, 'step')}; give an earlier one"
            )

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._iterator is None:
            self._iterator = iter(self.steps)
        step = next(self._iterator)
        self.n += 1
        return step

    def skip(self, n: int) -> int:
        """Skip `n` steps. Return how many were missing because the steps ended."""
        n = arguments.whole(n, "n", low=0)
        if n and hasattr(self.steps, "skip"):
            n_skipped = int(self.steps.skip(n))
            self._iterator = None
            self.n += n_skipped
        else:
            n_skipped = sum(1 for _ in zip(range(n), self, strict=False))
        return n - n_skipped


@dataclass(frozen=True, slots=True)
class Report:
    """The progress of a rank. Its fields are the keys of a line of JSON, in this order.

    step: steps so far, over all runs
    rank, world: the reporting rank, and the number of ranks
    seconds: seconds since the first step of this run was requested
    sentences, tokens: the counts of this run; tokens are ids of all fields
    padding: the share of padding in the arrays of this run
    longest: width of the widest array of this run, in ids
    tokens_per_second: tokens per second since the last report
    waited: share of the time since the last report spent waiting for steps
    first_wait: seconds until the first step of this run
    too_long, too_short: rows of this run, of all ranks, that are too long or too short for any
        batch
    """

    step: int = 0
    rank: int = 0
    world: int = 1
    seconds: float = 0.0
    sentences: int = 0
    tokens: int = 0
    padding: float = 0.0
    longest: int = 0
    tokens_per_second: float = 0.0
    waited: float = 0.0
    first_wait: float = 0.0
    too_long: int = 0
    too_short: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            key: round(value, 6) if isinstance(value, float) else value
            for key, value in asdict(self).items()
        }

    def line(self) -> str:
        """Return the report as a line of text."""
        columns = [
            f"step {self.step:,}",
            f"{self.tokens_per_second:,.0f} tokens/s",
            f"padding {self.padding:.1%}",
            f"waited {self.waited:.0%}",
            counted(self.sentences, "sentence"),
            counted(self.tokens, "token"),
        ]
        for fault, n_rows in (("long", self.too_long), ("short", self.too_short)):
            if n_rows:
                columns.append(f"{counted(n_rows, 'row')} too {fault}")
        return "  ".join(columns).replace("%", " %")


class Progress(Generic[T]):
    """An iterator over steps that reports progress every few steps, and at the end.

    steps: dicts of arrays, as `collate` returns them
    every: number of steps between two reports
    to: where rank 0 writes reports: an open text file, the path of a file for lines of JSON, a
        function, or None
    rank, world: by default the attributes of `steps`, or 0 and 1

    >>> import sys
    >>> import numpy as np
    >>> step = {"nsentences": 2, "ntokens": 6, "target": np.zeros((2, 4)), "net_input": {}}
    >>> for step in Progress([step] * 2, every=2, to=sys.stdout):
    ...     pass  # doctest: +ELLIPSIS
    step 2  ... tokens/s  padding 25.0 %  waited ... %  4 sentences  12 tokens
    """

    def __init__(
        self,
        steps: Iterable[T],
        *,
        every: int = 100,
        to: Destination | None = None,
        rank: int | None = None,
        world: int | None = None,
    ) -> None:
        from volt.files.atomic import check_writable
        from volt.stream.reading.ranks import check_rank

        self._steps: Counted[T] = steps if isinstance(steps, Counted) else Counted(steps)
        self._every = arguments.whole(every, "every", low=1)
        self._to: Any = to
        if not (to is None or callable(to) or hasattr(to, "write")):
            self._to = arguments.path(to, "to", remedy=_GIVE)
            check_writable(self._to)
        if rank is None:
            rank = getattr(self._steps.steps, "rank", 0)
        if world is None:
            world = getattr(self._steps.steps, "world", 1)
        self._rank, self._world = check_rank(rank, world)
        self._totals = Totals()  # of this run
        self._longest = 0  # ids, the width of the widest array
        self._start = 0.0  # time of the first request of this run
        self._seconds_waited = 0.0
        self._first_wait = 0.0  # seconds
        self._last_report = Report(step=self._steps.n)
        self._reported_wait = 0.0  # seconds waited until the last report

    def __iter__(self) -> Iterator[T]:
        """Count each step, then yield it."""
        self._start = self._start or time.perf_counter()
        while True:
            requested = time.perf_counter()
            step = next(self._steps, None)
            seconds = time.perf_counter() - requested
            self._seconds_waited += seconds
            if step is None:
                break
            self._first_wait = self._first_wait or seconds
            totals, longest = counts_of(step)
            self._totals = self._totals.plus(totals)
            self._longest = max(self._longest, longest)
            if self._totals.n_steps % self._every == 0:
                self._send()
            yield step
        if self._steps.n > self._last_report.step:
            self._send()

    def report(self) -> Report:
        """Return the progress so far, with rates since the last report."""
        elapsed = 0.0
        if self._start:
            elapsed = time.perf_counter() - self._start
        seconds = max(elapsed - self._last_report.seconds, 1e-9)
        new_tokens = self._totals.n_tokens - self._last_report.tokens
        waited = (self._seconds_waited - self._reported_wait) / seconds
        steps_totals = getattr(self._steps.steps, "totals", Totals())
        return Report(
            step=self._steps.n,
            rank=self._rank,
            world=self._world,
            seconds=elapsed,
            sentences=self._totals.n_samples,
            tokens=self._totals.n_tokens,
            padding=self._totals.padding_share,
            longest=self._longest,
            tokens_per_second=new_tokens / seconds,
            waited=min(1.0, waited),
            first_wait=self._first_wait,
            too_long=steps_totals.n_too_long,
            too_short=steps_totals.n_too_short,
        )

    def _send(self) -> None:
        """Report the progress since the last report; rank 0 also writes the report."""
        report = self.report()
        self._last_report = report
        self._reported_wait = self._seconds_waited
        if self._rank != 0 or self._to is None:
            return
        if callable(self._to):
            self._to(report)
        elif isinstance(self._to, str):
            try:
                with open(self._to, "a", encoding="utf-8") as file:
                    file.write(json.dumps(report.to_json()) + "\n")
            except OSError as error:
                raise OutputError(
                    f"{shown_path(self._to)}: {reason(error)}; give another place"
                ) from None
        else:
            _print(report, self._to)


def _print(report: Report, file: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    step, rest = report.line().split("  ", 1)
    text = Text.assemble(step, "  ", (rest, "dim"))
    Console(file=file, highlight=False, soft_wrap=True).print(text, soft_wrap=True)
