"""What `volt stream batches` has found, for people and as JSON: rows on the way, and what all comes to.

>>> from volt.batches.progress import Report
>>> Paced(Report(tokens=10, seconds=2.0), 1).speed, Paced(Report(tokens=10, seconds=2.0), 2).speed
(None, 5.0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from volt.display import counted
from volt.text.layout import GAP, Entry, Grid

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from volt.batches.progress import Report
    from volt.batches.totals import Totals

_HEADS = ("step", "sentences", "tokens", "padding", "longest", "tokens/s")
_WIDTHS = (4, 10, 12, 7, 7, 9)  # at least
_LEFT_OUT = ("waited", "tokens_per_second")  # nobody has trained, and the speed is another


@dataclass(frozen=True, slots=True)
class Paced:
    """What the steps of a run had come to at some step.

    report: with the seconds since the first step was asked for or, where a state was read, since then
    n_windows: of how many windows there had been steps
    """

    report: Report
    n_windows: int

    @property
    def speed(self) -> float | None:
        """Tokens per second of the run so far, the making of windows included; None before the second window.

        Steps of a window that is made already come at once, and that says nothing of what a trainer gets.
        """
        return self.report.tokens / max(self.report.seconds, 1e-9) if self.n_windows > 1 else None

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        told = {key: value for key, value in self.report.to_json().items() if key not in _LEFT_OUT}
        return {
            **told, "windows": self.n_windows, "tokens_per_second": None if self.speed is None else round(self.speed, 1)
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """What the steps of a run came to.

    whole: all of them;  every: at each so many steps
    n_steps: how many there were in this run
    totals: what the steps say of themselves
    sources: name → lines and epochs that have been read, over all runs, and steps per epoch
    n_read, n_faults, reasons: lines read, unfit ones among them, and how many for each kind of reason, over all runs
    """

    whole: Paced
    every: tuple[Paced, ...]
    n_steps: int
    totals: Totals
    sources: Mapping[str, tuple[int, float, float]]
    n_read: int = 0
    n_faults: int = 0
    reasons: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON values; what a trainer would have waited is not known."""
        sources = {
            name: {"lines": lines, "epochs": epochs, "steps_per_epoch": round(steps, 1)}
            for name, (lines, epochs, steps) in self.sources.items()
        }
        return {
            **self.whole.to_json(), "steps": self.n_steps, "too_long_at": list(self.totals.too_long),
            "left": self.totals.n_left, "n_read": self.n_read, "n_faults": self.n_faults,
            "reasons": dict(self.reasons or {}), "sources": sources, "every": [one.to_json() for one in self.every],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table that grows; a terminal that is too narrow for it gets a text.

    at: what the steps had come to
    last: the last step that there may be, which says how wide the numbers are
    is_first: whether heads stand above it
    """

    at: Paced
    last: int
    is_first: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        cells = self._cells()
        widths = [max(len(f"{self.last:,}"), _WIDTHS[0]), *_WIDTHS[1:]]
        if max(sum(widths), sum(map(len, cells))) + GAP * (len(widths) - 1) > options.max_width:
            words = [f"{cell} {head}" for cell, head in zip(cells[1:], _HEADS[1:], strict=True)]
            yield Entry(f"step {cells[0]}{' ' * GAP}", words, gap="  ")
            return
        if self.is_first:
            yield Text(_aligned(_HEADS, widths), style="dim")
        yield Text(_aligned(cells, widths), no_wrap=True, overflow="ignore")

    def _cells(self) -> tuple[str, ...]:
        report, speed = self.at.report, self.at.speed
        return (
            f"{report.step:,}", f"{report.sentences:,}", f"{report.tokens:,}", _percent(report.padding),
            f"{report.longest:,}", "–" if speed is None else f"{speed:,.0f}",
        )  # fmt: skip


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return (" " * GAP).join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _percent(share: float) -> str:
    """A share for people.

    >>> _percent(0.1234)
    '12.34 %'
    """
    return f"{100 * share:.2f} %"


def summary_parts(found: Found) -> Iterator[RenderableType]:
    """The sources, and what all steps come to."""
    heads = ("source", "lines read", "epochs", "steps per epoch")
    rows = [
        (name, f"{lines:,}", f"{epochs:,.2f}", f"about {steps:,.0f}" if steps else "")
        for name, (lines, epochs, steps) in found.sources.items()
    ]
    yield Grid(heads, rows, numbers=range(1, len(heads)))
    for label, told in [*_given(found), *_left_out(found)]:
        yield Entry(f"{label:14}", told.split(" "), label_style="")


def _given(found: Found) -> Iterator[tuple[str, str]]:
    """Labels and what stands behind them: of steps."""
    report, n = found.whole.report, max(1, found.n_steps)
    rank = f" of rank {report.rank}, one of {report.world}" * (report.world > 1)
    resumed = " in this run" * (report.step > found.n_steps)
    yield "steps", f"{found.n_steps:,}{rank}{resumed}, up to step {report.step:,}"
    yield "sentences", f"{report.sentences:,}, or {report.sentences / n:,.1f} a step"
    yield "tokens", f"{report.tokens:,} without padding, or {report.tokens / n:,.1f} a step"
    yield "padding", f"{_percent(report.padding)} of all that is laid out"
    yield "longest", counted(report.longest, "id")
    yield "first batch", f"after {report.first_wait:,.2f} s"
    yield "speed here", _speed(found)


def _speed(found: Found) -> str:
    speed, report = found.whole.speed, found.whole.report
    if speed is None:
        return (
            f"– after {counted(found.whole.n_windows, 'window')}; two or more say how fast windows are made, raise -n"
        )
    per_second = found.n_steps / max(report.seconds, 1e-9)
    return f"{speed:,.0f} tokens/s, {per_second:,.1f} steps/s, over {counted(found.whole.n_windows, 'window')}"


def _left_out(found: Found) -> Iterator[tuple[str, str]]:
    """Labels and what stands behind them: of lines that are in no step."""
    totals = found.totals
    if found.n_faults:
        yield "unfit", f"{counted(found.n_faults, 'line')}, left out of {found.n_read:,} read"
        yield from (("", f"{n:,} {kind}") for kind, n in sorted((found.reasons or {}).items()))
    if totals.n_too_long:
        yield "too long", counted(totals.n_too_long, "line")
        yield from (("", place) for place in totals.too_long)
        if totals.n_too_long > len(totals.too_long):
            yield "", f"and {totals.n_too_long - len(totals.too_long):,} more"
    if totals.n_too_short:
        yield "too short", counted(totals.n_too_short, "line")
    if totals.n_left:
        yield "left", f"{counted(totals.n_left, 'line')} at the end, too few for a batch for each rank"
