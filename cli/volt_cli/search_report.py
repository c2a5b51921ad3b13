"""Print the result of `volt search`, as text or JSON: the size, why, and which files were written.

The report goes to stderr if a vocabulary goes to stdout. A dict by source has the key "" for the
one vocabulary of all sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.display import Grid
from volt.errors import shown
from volt_cli.console import print_json, show
from volt_cli.io import choose_report_console, report_written

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.learn.parity import Parity


def report_search(
    result: SearchResult,
    destination: Path,
    *,
    seconds: Mapping[str, float],
    parity: Parity | None,
    as_json: bool,
    shows_all_sizes: bool,
) -> None:
    """Print the search of one vocabulary.

    seconds: phase → its duration; parity: measured with --parity
    """
    from volt.choose.report import as_data, as_text

    if as_json:
        data = as_data(result, seconds=seconds)
        if parity:
            data["parity"] = _parity_data(parity)
        print_json({**data, "output": str(destination)}, indent=1)
        return
    report = as_text(result, seconds=seconds, full=shows_all_sizes, hint="--all shows all")
    parts: list[RenderableType] = [report]
    if parity:
        parts += _parity_parts(parity)
    show(*parts, console=choose_report_console(destination))
    report_written(destination, result.composition)


def _parity_data(parity: Parity) -> dict[str, Any]:
    sources = {}
    for source in parity.sources:
        sources[source.name] = {
            "units": source.n_units,
            "plain_pieces": source.plain,
            "pieces": source.fair,
        }
    plain_ratio, ratio = parity.ratios
    return {
        "unit": parity.unit,
        "size": parity.size,
        "sources": sources,
        "plain_ratio": plain_ratio,
        "ratio": ratio,
        "cost": parity.cost,
    }


def _parity_parts(parity: Parity) -> list[RenderableType]:
    """Return a table of each source's pieces with plain BPE and with --parity, and a note."""
    from rich.text import Text

    heads = (f"pieces per {parity.unit}", f"{parity.unit}s", "plain BPE", "parity")
    rows = []
    for source in parity.sources:
        plain = source.plain / source.n_units
        fair = source.fair / source.n_units
        rows.append((shown(source.name), f"{source.n_units:,}", f"{plain:.3f}", f"{fair:.3f}"))
    plain_ratio, ratio = parity.ratios
    rows.append(("worst ÷ best", "", f"{plain_ratio:.3f}", f"{ratio:.3f}"))
    table = Grid(heads, rows, range(1, 4), strong=len(rows) - 1)
    note = f"with all {parity.size:,} tokens; {parity.cost:+.1%} pieces in total, compared with plain BPE"
    return ["", table, Text(note)]


def report_searches(
    results: Mapping[str, SearchResult],
    destinations: Mapping[str, Path],
    *,
    seconds: Mapping[str, float],
    as_json: bool,
) -> None:
    """Print the searches of --per-source: source → its result and destination."""
    from volt.choose.report import as_data

    if as_json:
        sources = {}
        for name, result in results.items():
            sources[name] = {**as_data(result), "output": str(destinations[name])}
        print_json({"sources": sources, "seconds": seconds}, indent=1)
        return
    rows = []
    for name, result in results.items():
        n_words = f"{result.candidates.counts.total:,}"
        rows.append((shown(name), n_words, f"{result.best.size:,}", result.pick.why))
    show(Grid(("source", "words", "size", "why"), rows, [1, 2]))
    for name, result in results.items():
        report_written(destinations[name], result.composition)
