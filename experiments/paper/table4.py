"""Table 4's comparable columns: what VOLT and MUV-search find, and what the search costs; nothing is trained.

    python experiments/paper/table4.py [--corpora CORPUS …] [--json TABLE4.json]

The rows that are quoted are the paper's, on another corpus and machine: they show the format, not a race.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from corpora import checked, count, markdown_table, parser, write_json

import volt
from volt.comparison.muv_study import CostRow
from volt.comparison.named_texts import NamedText

SHOWN = ("Multi30k en+de", "TED Georgian", "Bible uk")


def report(name: str, comparison: volt.Comparison) -> str:
    """The costs, where Eq. 1 is greatest, and the warnings."""
    study = comparison.study
    costs = markdown_table(
        ["approach", "size", "wall s", "CPU h", "MB", "GPU h", "covers"], [_cost_cells(row) for row in study.costs]
    )
    rows = [
        [f"{one.over}, {one.length} length", f"{one.floor:,}", f"{one.size:,}{'*' * one.on_edge}", f"{one.muv:.2e}"]
        for one in study.argmaxes
    ]
    argmaxes = markdown_table(["Eq. 1 over", "smallest size", "greatest at", "there"], rows)
    said = "\n".join(f"- {warning}" for warning in study.warnings)
    return f"### {name}\n\n{costs}\n\n{argmaxes}\n\n* on the edge\n\n{said}\n"


def _cost_cells(row: CostRow) -> list[str]:
    wall = f"{row.seconds:.2f}" if row.measured and row.seconds is not None else "–"
    hours = f"{row.seconds / 3600:.1f}" if not row.measured and row.seconds is not None else "–"
    memory = "–" if row.memory_mb is None else f"{row.memory_mb:.0f}"
    return [row.approach, f"{row.size:,}", wall, hours, memory, f"{row.gpu_hours:g}", row.note]


def main() -> None:
    """Print the table of every corpus."""
    options, found = checked(parser(__doc__, corpora=SHOWN)), dict[str, Any]()
    for name in options.corpora:
        comparison = volt.compare([NamedText(name, count(name, data=options.data))], systems=("muv-search",))
        print(report(name, comparison), flush=True)
        found[name] = {"signature": comparison.signature, "made": asdict(comparison.made)}
        found[name] |= {"costs": [asdict(row) for row in comparison.study.costs]}
        found[name] |= {"argmaxes": [asdict(one) for one in comparison.study.argmaxes]}
    write_json(options.json, found)


if __name__ == "__main__":
    main()
