"""`SearchResult` → what people read in a terminal, and the same as JSON data.

>>> from volt.count.word_counts import WordCounts
>>> from volt.learn.bpe import learn_bpe
>>> from volt.choose.search import search
>>> counts = WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3})
>>> result = search(learn_bpe(counts, n_merges=9), sizes=[14, 16, 18])
>>> data = as_data(result)
>>> data["pick"]["rule"], data["best"]["size"], [step["n_kept"] for step in data["steps"]]
('knee', 14, [13, 15, 15])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from volt.choose.notebook import cut, sample_cuts

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.choose.size_steps import SizeStep
    from volt.vocabulary import Vocabulary

Seconds = Mapping[str, float]


def as_data(result: SearchResult, *, seconds: Seconds | None = None) -> dict[str, Any]:
    """Everything that the terminal report shows, as JSON values. seconds: of each phase."""
    return {
        "signature": result.signature,
        "fingerprint": result.vocabulary.fingerprint,
        "best": _step_data(result.best),
        "pick": asdict(result.pick),
        "picks": {rule: asdict(pick) for rule, pick in result.picks.items()},
        "steps": [_step_data(step) for step in result.steps],
        "vocabulary": vocabulary_data(result.vocabulary),
        "warnings": list(result.warnings),
        "cuts": dict(sample_cuts(result.candidates, result.vocabulary)),
        "seconds": dict(seconds or {}),
    }


def _step_data(step: SizeStep) -> dict[str, Any]:
    return {name: value for name, value in asdict(step).items() if name != "kept"}


def vocabulary_data(vocabulary: Vocabulary) -> dict[str, Any]:
    """How a vocabulary is made up, as JSON values."""
    return {
        "tokens": vocabulary.size,
        "atoms": len(vocabulary.atoms),
        "merges": len(vocabulary.merges),
        "scaffolding": len(vocabulary.scaffolding),
        "special": list(vocabulary.special.all),
        "ids": len(vocabulary.pieces),
        "byte_fallback": vocabulary.byte_fallback,
        "marker": vocabulary.marker,
        "normalizer": vocabulary.normalizer.name,
        "pretokenizer": vocabulary.pretokenizer.name,
    }


def as_text(result: SearchResult, *, seconds: Seconds | None = None) -> RenderableType:
    """The report of a search, for a rich console. seconds: of each phase."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_steps_table(result), "", _picks_table(result), ""]
    for warning in result.warnings:
        parts += [Text.assemble(("warning ", "bold yellow"), warning), ""]
    parts += [_cuts_table(sample_cuts(result.candidates, result.vocabulary)), ""]
    if seconds:
        spent = "   ".join(f"{phase} {value:.2f}" for phase, value in seconds.items())
        parts.append(Text.assemble(("seconds   ", "dim"), spent, f"   total {sum(seconds.values()):.2f}"))
    parts.append(Text.assemble(("signature ", "dim"), result.signature))
    return Group(*parts)


def _steps_table(result: SearchResult) -> RenderableType:
    """One row for each size. The chosen row stands out, and each rule stands at the size that it picks."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("size", "kept", "entropy", "MUV ·10⁶", "pieces", "F95", "Rényi", "iter."):
        table.add_column(name, justify="right")
    table.add_column("picked by")
    for index, step in enumerate(result.steps):
        rules = [rule for rule, pick in result.picks.items() if pick.index == index]
        table.add_row(
            f"{step.size:,}",
            f"{step.n_kept:,}",
            f"{step.entropy:.4f}",
            "" if step.muv is None else f"{step.muv * 1e6:,.1f}",
            f"{step.n_pieces:,}",
            f"{step.f95:,.0f}",
            f"{step.renyi:.3f}",
            f"{step.n_iters}" if step.converged else f"{step.n_iters}!",
            ", ".join(rules),
            style="bold green" if step is result.best else "",
        )
    return table


def _picks_table(result: SearchResult) -> RenderableType:
    """What every rule would pick, and why."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule")
    table.add_column("size", justify="right")
    table.add_column("why")
    for rule, pick in result.picks.items():
        edge = " [yellow](edge of the range)[/]" if pick.on_edge else ""
        table.add_row(rule, f"{pick.size:,}", pick.why + edge, style="bold green" if pick is result.pick else "")
    return table


def _cuts_table(cuts: Iterable[tuple[str, Iterable[str]]]) -> RenderableType:
    """Words beside their pieces."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for word, pieces in cuts:
        table.add_row(Text(word, style="dim"), Text(cut(pieces)))
    return table
