"""`SearchResult` → a report for the terminal, and its values as JSON data, with the serving cost of each size."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from volt.choose.search import readable_cuts, sample_cuts
from volt.count.corpus_statistics import text_bytes
from volt.display import Grid, LabelledText, at_bars, counted
from volt.errors import MOST_SHOWN, shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.choose.size_steps import SizeStep
    from volt.vocabulary import Vocabulary


def _serving_costs(
    result: SearchResult, steps: Sequence[SizeStep]
) -> Iterator[tuple[float, float | None]]:
    """Yield, for each size, pieces per byte of text, spaces included, and the language model's operations per byte."""
    n_bytes = text_bytes(result.candidates.counts)
    model = result.model
    for step in steps:
        n_tokens = step.n_pieces / n_bytes
        yield n_tokens, model.flops_per_byte(step.size, n_tokens) if model else None


Seconds = Mapping[str, float]

MOST_ROWS = 10  # of a short table
_TRANSPORT, _FLOPS = (
    ("iterations", "transport entropy"),
    ("GFLOP/byte",),
)  # columns that some tables lack


def as_data(result: SearchResult, *, seconds: Seconds | None = None) -> dict[str, Any]:
    """Return all values of the report as JSON data. seconds: the time of each phase"""
    coverage = result.candidates.coverage
    counts = result.candidates.counts
    measured = (result.best, *result.steps)
    steps = [
        {name: value for name, value in asdict(step).items() if name != "kept"}
        | {"tokens_per_byte": n_tokens, "serving_flops_per_byte": flops}
        for step, (n_tokens, flops) in zip(measured, _serving_costs(result, measured), strict=True)
    ]
    return {
        "signature": result.signature,
        "fingerprint": result.vocabulary.fingerprint,
        "best": steps[0],
        "answer": list(result.answer),
        "composition": result.composition,
        "pick": asdict(result.pick),
        "range": list(result.range),
        "support": result.support,
        "counts": {
            "words": counts.n_words,
            "occurrences": counts.total,
            "left_out": counts.n_left_out,
            "bound": counts.bound,
            "lines": counts.n_lines,
            "bytes": counts.n_bytes,
        },
        "picks": {rule: asdict(pick) for rule, pick in result.picks.items()},
        "steps": steps[1:],
        "vocabulary": vocabulary_data(result.vocabulary),
        "warnings": list(result.warnings),
        "coverage": asdict(coverage) if coverage else None,
        "cuts": dict(sample_cuts(result.candidates, result.vocabulary)),
        "seconds": dict(seconds or {}),
    }


def vocabulary_data(vocabulary: Vocabulary) -> dict[str, Any]:
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


def as_text(
    result: SearchResult, *, seconds: Seconds | None = None, full: bool = False, hint: str = ""
) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`.

    full: whether the table shows all sizes and their transports, instead of ten sizes
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        LabelledText(f"{label:10}", line.split(" "))
        for label, line in zip(("answer", "how sure"), result.answer, strict=True)
    ]
    for warning in result.warnings:
        parts += ["", Text.assemble(("warning ", "bold yellow"), warning)]
    picks = [(rule, pick.size_text, pick.reason) for rule, pick in result.picks.items()]
    strong = list(result.picks.values()).index(result.pick)
    parts += ["", *_steps_table(result, full=full, hint=hint), ""]
    parts += [Grid(("rule", "size", "why"), picks, numbers=[1], strong=strong), ""]
    cuts = list(readable_cuts(sample_cuts(result.candidates, result.vocabulary), result.vocabulary))
    width = max((len(shown(word)) for word, _ in cuts), default=0) + 2
    parts += [
        LabelledText(f"{shown(word):{width}}", [shown(pieces, 2 * MOST_SHOWN)])
        for word, pieces in cuts
    ]
    parts.append("")
    if coverage := result.candidates.coverage:
        share = 100 * coverage.n_left_out / coverage.n_characters
        kinds = f"{counted(len(coverage.left_out), 'distinct character')}, {share:.3g} % of all"
        beyond = f"{kinds}, beyond {100 * coverage.share:g} %: {shown(coverage.left_out, 20)}"
        parts.append(LabelledText("left out  ", beyond.split(" ")))
    if seconds:
        spent = {**seconds, "total": sum(seconds.values())}
        parts.append(
            LabelledText(
                "seconds   ", [f"{phase} {value:.2f}" for phase, value in spent.items()], gap="   "
            )
        )
    parts.append(LabelledText("signature ", at_bars(result.signature), gap=""))
    return Group(*parts)


def _steps_table(result: SearchResult, *, full: bool, hint: str) -> list[RenderableType]:
    from rich.text import Text

    n = len(result.steps)
    costs = list(_serving_costs(result, result.steps))
    shown = range(n) if full else rows_shown(n, {pick.index for pick in result.picks.values()})
    hidden = {*_TRANSPORT * (not full), *_FLOPS * (result.model is None)}
    rows = []
    for index in shown:
        step, (n_tokens, flops) = result.steps[index], costs[index]
        row = {
            "size": f"{step.size:,}",
            "kept": f"{step.n_kept:,}",
            "entropy": f"{step.entropy:.4f}",
            "MUV ·10⁶": "" if step.muv is None else f"{step.muv * 1e6:,.1f}",
            "pieces": f"{step.n_pieces:,}",
            "tokens/byte": f"{n_tokens:.4f}",
            "GFLOP/byte": f"{(flops or 0) / 1e9:#.3g}",
            "F95": f"{step.f95:,.0f}",
            "Rényi": f"{step.renyi:.3f}",
            "transport entropy": f"{step.transport_entropy:.4f}",
            "iterations": f"{step.n_iters}{'!' * (not step.converged)}",
            "picked by": ", ".join(
                rule for rule, pick in result.picks.items() if pick.index == index
            ),
        }
        rows.append({head: cell for head, cell in row.items() if head not in hidden})
    heads = list(rows[0])
    cells = [list(row.values()) for row in rows]
    grid = Grid(heads, cells, range(len(heads) - 1), strong=shown.index(result.pick.index))
    searched = result.searched
    note = (
        f"MUV and the rules muv, renyi and tokens compare the {counted(len(searched), 'size')} searched, "
        f"{searched[0]:,} to {searched[-1]:,}; the other rows are sizes that other rules pick."
    )
    if len(shown) < n:
        note = f"{len(shown)} of {n} sizes{hint and f'; {hint}'}. {note}"
    return [grid, Text(note, style="dim")]


def rows_shown(n: int, picked: Collection[int]) -> Sequence[int]:
    """Choose which of n rows a short table shows: the picked ones, and others in the widest gaps."""
    shown = {0, n - 1, *picked}
    while len(shown) < min(MOST_ROWS, n):
        before, after = max(pairwise(sorted(shown)), key=lambda gap: gap[1] - gap[0])
        shown.add((before + after) // 2)
    return sorted(shown)
