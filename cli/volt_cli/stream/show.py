"""What `volt stream` shows to people: a line's history, a plan, an audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from volt.text.layout import Entry, Grid

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.stream.checking.audit import Audit
    from volt.stream.checking.plan import Plan
    from volt.stream.checking.trace import Trace, TraceStep

_TAB = "  ⇥  "


def trace_entries(trace: Trace, *, changed: bool = False) -> Iterator[Entry]:
    """Where a line comes from, then the line after every step. changed: only steps that changed it."""
    place = f"{trace.path}:{trace.line},", f"epoch {trace.epoch},", f"block at {trace.start},", f"place {trace.offset}"
    yield Entry(f"line {trace.n}  ", [f"{trace.source} ", *place], style="dim", label_style="bold")
    width = max(map(len, ["read", *(step.name for step in trace.steps)])) + 2
    yield Entry(f"  {'read':{width}}", _words(trace.raw), label_style="cyan")
    for step in trace.steps:
        if not changed or step.before != step.after:
            yield from _step_entries(step, width)


def _step_entries(step: TraceStep, width: int) -> Iterator[Entry]:
    """The lines that a step has made of one."""
    label = f"  {step.name:{width}}"
    if step.before == step.after:
        yield Entry(label, ["as it was"], style="dim", label_style="cyan")
    elif not step.after:
        yield Entry(label, ["dropped"], style="red", label_style="cyan")
    for number, line in enumerate(step.after if step.before != step.after else ()):
        yield Entry(" " * len(label) if number else label, _words(line), style="green", label_style="cyan")


def _words(line: str) -> list[str]:
    return line.replace("\t", _TAB).split(" ")


def indented(line: str) -> Entry:
    """A line of text; where it is broken, further lines are indented as it is."""
    text = line.lstrip(" ")
    return Entry(" " * (len(line) - len(text)), text.split(" "))


def plan_parts(plan: Plan, *, demand: float | None) -> Iterator[RenderableType]:
    """Epochs per source at the planned line; what a virtual epoch has of each; memory and speed below."""
    yield Text(f"at line {plan.at:,}", style="italic")
    heads = ("source", "lines of it", "lines in its files", "out per line in", "epochs", "lines per block")
    rows = [
        (
            name, f"{part.lines:,.0f}", f"{part.n_lines:,}", f"{part.yield_:.3f}", f"{part.epochs:,.2f}",
            f"{part.block_lines:,}",
        )
        for name, part in plan.sources.items()
    ]  # fmt: skip
    yield Grid(heads, rows, numbers=range(1, len(heads)))
    yield from _virtual_epoch(plan)
    speed = f"{plan.lines_per_second:,.0f} lines/s" if plan.lines_per_second else "not measured: the stream ended"
    against = f", {(plan.lines_per_second or 0) / demand:.1f} × the demand of {demand:,.0f}" if demand else ""
    yield Entry("memory for data   ", [f"about {plan.memory / 1e6:,.0f} MB"], label_style="")
    yield Entry("speed here        ", f"{speed}{against}".split(" "), label_style="")


def _virtual_epoch(plan: Plan) -> Iterator[RenderableType]:
    """What a virtual epoch has of each source, where several are mixed."""
    if plan.epoch_lines is None or len(plan.sources) < 2:
        return
    yield Text(f"in a virtual epoch of {plan.epoch_lines:,} lines", style="italic")
    heads = ("source", "lines of it", "share", "passes")
    rows = [
        (name, f"{part.epoch_lines:,.0f}", f"{part.share:.2%}", f"{part.epoch_passes:,.2f}")
        for name, part in plan.sources.items()
    ]
    yield Grid(heads, rows, numbers=range(1, len(heads)))


def audit_table(audit: Audit) -> Grid:
    """One row per source."""
    heads = ("source", "lines", "epochs", "parts", "missing", "repeated", "uneven", "content")
    rows = []
    for source in audit.sources:
        numbers = source.n_lines, source.epochs, source.n_parts, source.missing, source.repeated, source.uneven
        content = {None: "not read", True: "the same", False: "differs"}[source.content]
        rows.append((source.name, *(f"{number:,}" for number in numbers), content))
    return Grid(heads, rows, numbers=range(1, len(heads) - 1))
