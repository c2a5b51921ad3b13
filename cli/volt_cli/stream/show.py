"""What `volt stream` shows to people: a line's history, a plan, an audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from volt.stream.checking.audit import Audit
    from volt.stream.checking.plan import Plan
    from volt.stream.checking.trace import Trace, TraceStep

_TAB = "  ⇥  "


def trace_panel(trace: Trace, *, changed: bool = False) -> Text:
    """Where a line comes from, then the line after every step. changed: only steps that changed it."""
    told = Text()
    told.append(f"line {trace.n}", "bold")
    place = f"{trace.path}:{trace.line}, epoch {trace.epoch}, block {trace.block}, place {trace.offset}"
    told.append(f"  {trace.source}  {place}\n", "dim")
    width = max(map(len, ["read", *(step.name for step in trace.steps)])) + 2
    told.append(f"  {'read':{width}}", "cyan")
    told.append(_shown(trace.raw))
    for step in trace.steps:
        if not changed or step.before != step.after:
            _append_step(told, step, width)
    return told


def _append_step(told: Text, step: TraceStep, width: int) -> None:
    told.append(f"\n  {step.name:{width}}", "cyan")
    if step.before == step.after:
        told.append("as it was", "dim")
    elif not step.after:
        told.append("dropped", "red")
    else:
        told.append(f"\n  {'':{width}}".join(map(_shown, step.after)), "green")


def _shown(line: str) -> str:
    return line.replace("\t", _TAB)


def plan_table(plan: Plan, *, demand: float | None) -> Iterator[Table | Text]:
    """Epochs per source at the planned line; memory and speed below."""
    table = Table(title=f"at line {plan.at:,}", title_justify="left", box=None, header_style="dim", pad_edge=False)
    table.add_column("source")
    for column in ("lines of it", "lines in its files", "out per line in", "epochs", "lines per block"):
        table.add_column(column, justify="right")
    for name, part in plan.sources.items():
        shares = f"{part.lines:,.0f}", f"{part.n_lines:,}", f"{part.yield_:.3f}"
        table.add_row(name, *shares, f"{part.epochs:,.2f}", f"{part.block_lines:,}")
    yield table
    speed = f"{plan.lines_per_second:,.0f} lines/s" if plan.lines_per_second else "not measured: the stream ended"
    against = f", {(plan.lines_per_second or 0) / demand:.1f} × the demand of {demand:,.0f}" if demand else ""
    yield Text(f"memory for data   about {plan.memory / 1e6:,.0f} MB\nspeed here        {speed}{against}")


def audit_table(audit: Audit) -> Table:
    """One row per source."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("source")
    for column in ("lines", "epochs", "blocks", "missing", "repeated", "content"):
        table.add_column(column, justify="right")
    for source in audit.sources:
        numbers = source.n_lines, source.epochs, source.n_blocks, source.missing, source.repeated
        content = {None: "not read", True: "the same", False: "differs"}[source.content]
        table.add_row(source.name, *(f"{number:,}" for number in numbers), content)
    return table
