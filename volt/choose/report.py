"""`SearchResult` → a report for the terminal, and its values as JSON data, with the serving cost of each size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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


def _serving_costs(result: SearchResult, steps: Sequence[SizeStep]) -> list[dict[str, float | None]]:
    """Return the pieces per byte of text at these sizes, spaces included, and the language model's operations."""
    n_bytes, model = text_bytes(result.candidates.counts), result.model
    tokens = [step.n_pieces / n_bytes for step in steps]
    return [
        {"tokens_per_byte": n, "serving_flops_per_byte": model.flops_per_byte(step.size, n) if model else None}
        for step, n in zip(steps, tokens, strict=True)
    ]


Seconds = Mapping[str, float]

MOST_ROWS = 10  # of a short table


def as_data(result: SearchResult, *, seconds: Seconds | None = None) -> dict[str, Any]:
    """Return all values of the report as JSON data. seconds: of each phase"""
    costs, coverage, counts = _serving_costs(result, result.steps), result.candidates.coverage, result.candidates.counts
    [best] = _serving_costs(result, [result.best])
    return {
        "signature": result.signature,
        "fingerprint": result.vocabulary.fingerprint,
        "best": _step_data(result.best, best),
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
        "steps": [_step_data(step, cost) for step, cost in zip(result.steps, costs, strict=True)],
        "vocabulary": vocabulary_data(result.vocabulary),
        "warnings": list(result.warnings),
        "coverage": asdict(coverage) if coverage else None,
        "cuts": dict(sample_cuts(result.candidates, result.vocabulary)),
        "seconds": dict(seconds or {}),
    }


def _step_data(step: SizeStep, cost: Mapping[str, float | None]) -> dict[str, Any]:
    return {name: value for name, value in asdict(step).items() if name != "kept"} | dict(cost)


def vocabulary_data(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the composition of a vocabulary as JSON data."""
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
    parts += [LabelledText(f"{shown(word):{width}}", [shown(pieces, 2 * MOST_SHOWN)]) for word, pieces in cuts]
    parts.append("")
    if coverage := result.candidates.coverage:
        share = 100 * coverage.n_left_out / coverage.n_characters
        kinds = f"{counted(len(coverage.left_out), 'distinct character')}, {share:.3g} % of all"
        beyond = f"{kinds}, beyond {100 * coverage.share:g} %: {shown(coverage.left_out, 20)}"
        parts.append(LabelledText("left out  ", beyond.split(" ")))
    if seconds:
        spent = {**seconds, "total": sum(seconds.values())}
        parts.append(LabelledText("seconds   ", [f"{phase} {value:.2f}" for phase, value in spent.items()], gap="   "))
    parts.append(LabelledText("signature ", at_bars(result.signature), gap=""))
    return Group(*parts)


def _steps_table(result: SearchResult, *, full: bool, hint: str) -> list[RenderableType]:
    from rich.text import Text

    n, picked = len(result.steps), {pick.index for pick in result.picks.values()}
    shown = range(n) if full else rows_shown(n, picked)
    more, costs = _cost_columns(result)
    extra = ("transport entropy", "iterations") * full
    heads = ("size", "kept", "entropy", "MUV ·10⁶", "pieces", *more, "F95", "Rényi", *extra, "picked by")
    rows = [
        (
            f"{step.size:,}",
            f"{step.n_kept:,}",
            f"{step.entropy:.4f}",
            "" if step.muv is None else f"{step.muv * 1e6:,.1f}",
            f"{step.n_pieces:,}",
            *costs[index],
            f"{step.f95:,.0f}",
            f"{step.renyi:.3f}",
            *((f"{step.transport_entropy:.4f}", f"{step.n_iters}{'!' * (not step.converged)}") if full else ()),
            ", ".join(rule for rule, pick in result.picks.items() if pick.index == index),
        )
        for index in shown
        for step in [result.steps[index]]
    ]
    spare = [heads.index(name) for name in (*reversed(extra), "kept", "F95", "Rényi", *more)]
    grid = Grid(heads, rows, range(len(heads) - 1), strong=shown.index(result.pick.index), spare=spare)
    searched = result.searched
    note = (
        f"MUV, and the rules muv, renyi and tokens, compare the {counted(len(searched), 'size')} searched, "
        f"{searched[0]:,} to {searched[-1]:,}; other rows are what the other rules pick."
    )
    if len(shown) < n:
        note = f"{len(shown)} of {n} sizes{hint and f'; {hint}'}. {note}"
    return [grid, Text(note, style="dim")]


def rows_shown(n: int, picked: Collection[int], *, most: int = MOST_ROWS) -> Sequence[int]:
    """Choose which of n rows a short table shows: the picked ones, and others in the widest gaps.

    >>> rows_shown(24, {0, 1, 5}, most=6)
    [0, 1, 5, 9, 14, 23]
    """
    shown = {0, n - 1, *picked}
    while len(shown) < min(most, n):
        before, after = max(pairwise(sorted(shown)), key=lambda gap: gap[1] - gap[0])
        shown.add((before + after) // 2)
    return sorted(shown)


def _cost_columns(result: SearchResult) -> tuple[list[str], list[list[str]]]:
    costs = _serving_costs(result, result.steps)
    cells = [[f"{cost['tokens_per_byte']:.4f}"] for cost in costs]
    if result.model is None:
        return ["tokens/byte"], cells
    flops = [f"{(cost['serving_flops_per_byte'] or 0) / 1e9:#.3g}" for cost in costs]
    return ["tokens/byte", "GFLOP/byte"], [[*row, cell] for row, cell in zip(cells, flops, strict=True)]
