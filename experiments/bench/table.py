"""JSON of the benchmarks → one Markdown page: a table for each case, what was aimed at, machine and date.

    python experiments/bench/table.py bench/*.json [-o TABLE.md]

>>> print(as_markdown([{"script": "count", "machine": None, "rows": [], "claims": []}]))
<BLANKLINE>
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from measure import BUSY, MARK, describe, markdown_table
from rows import FORMAT, PHASES, Claim, Row

NAMES = {"make": "start s", "first": "first", "cold": "cold", "warm": "warm", "wall": "whole process"}


def as_markdown(found: Sequence[dict[str, Any]]) -> str:
    """The page. found: what the scripts wrote."""
    return "\n".join(line for data in found for line in _page(data))


def _page(data: dict[str, Any]) -> Iterator[str]:
    rows = [Row(**row) for row in data["rows"]]
    if data["machine"]:
        yield f"Machine: {describe(data['machine'])}\n"
    for case, group in groupby(rows, key=lambda row: row.case):
        yield f"### {data['script']}: {case}\n"
        yield from _case(list(group))
    if data["claims"]:
        yield f"### {data['script']}: what was aimed at\n"
        yield markdown_table(["figure", "aim", "found", ""], map(_aim, data["claims"])) + "\n"


def _case(rows: Sequence[Row]) -> Iterator[str]:
    """One case: speeds where text is worked through, else seconds; then what went wrong, and notes."""
    done = [row for row in rows if not row.error]
    phases = [phase for phase in PHASES if any(phase in row.seconds for row in done)]
    if done:
        against = any(row.ratios for row in done)
        header = ["text", "program", "threads", *(_name(phase, done) for phase in phases), "peak MB", "runs"]
        if against:
            header += ["÷ VOLT, s per MB: " + ", ".join(phase for phase in phases if phase != "make"), "equal"]
        yield markdown_table(header, [_cells(row, phases, against) for row in done], n_text=2) + "\n"
    notes = dict.fromkeys(f"- {row.program}: {row.note}" for row in rows if row.note)
    errors = [f"- {row.text}, {row.program}, {row.threads} threads: {row.error}" for row in rows if row.error]
    marked = [f"- {MARK} Other processes kept more than {BUSY} cores busy meanwhile."] * any(row.busy for row in done)
    if said := [*notes, *errors, *marked]:
        yield "\n".join(said) + "\n"


def _name(phase: str, rows: Sequence[Row]) -> str:
    unit = " MB/s" if any(row.mb for row in rows) else " s"
    return NAMES[phase] + ("" if phase == "make" else unit)


def _cells(row: Row, phases: Sequence[str], against: bool) -> list[str]:
    mark = MARK if row.busy else ""
    figures = [_figure(row, phase) for phase in phases]
    cells = [row.text, row.program, f"{row.threads}{mark}", *figures, f"{row.peak:,.0f}", str(row.n_runs)]
    ratios = ", ".join(f"{row.ratios[phase]:.2f}" for phase in phases if phase in row.ratios and phase != "make")
    return [*cells, ratios or "–", row.equal or "–"] if against else cells


def _figure(row: Row, phase: str) -> str:
    """MB/s, or seconds where no text is worked through."""
    if phase not in row.seconds:
        return "–"
    seconds = row.seconds[phase]
    if phase == "make" or not row.mb:
        return f"{seconds:.3f}"
    speed = row.mb / seconds
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"


def _aim(claim: dict[str, Any]) -> list[str]:
    """A line of what was aimed at."""
    one = Claim(**claim)
    sign, found = ("≥" if one.at_least else "≤"), "not measured" if one.found is None else f"{one.found:.2f} {one.unit}"
    return [one.name, f"{sign} {one.wanted:g} {one.unit}", found, "yes" if one.holds else "no" if one.found else "–"]


def main() -> None:
    """Merge the files named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found = [json.loads(path.read_text(encoding="utf-8")) for path in options.files]
    page = as_markdown([data for data in found if data.get("format") == FORMAT])
    if options.output:
        options.output.write_text(page + "\n", encoding="utf-8")
    else:
        print(page)


if __name__ == "__main__":
    main()
