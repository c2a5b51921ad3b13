"""`SearchResult` → a report for the terminal, and its values as JSON data.

Both show the serving cost of each size.
"""

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

Seconds = Mapping[str, float]

MOST_ROWS = 10  # of a short table


def _serving_costs(result: SearchResult, steps: Sequence[SizeStep]) -> list[dict[str, Any]]:
    """Return, for each step, its pieces and the language model's operations per byte of text."""
    n_bytes = text_bytes(result.candidates.counts)
    costs = []
    for step in steps:
        rate = step.n_pieces / n_bytes
        flops = result.model.flops_per_byte(step.size, rate) if result.model else None
        costs.append({"tokens_per_byte": rate, "serving_flops_per_byte": flops})
    return costs


def as_data(result: SearchResult, *, seconds: Seconds | None = None) -> dict[str, Any]:
    """Return all values of the report as JSON data. seconds: the time of each phase"""
    candidates = result.candidates
    counts = candidates.counts
    measured = (result.best, *result.steps)
    costs = _serving_costs(result, measured)
    steps = [asdict(step) | cost for step, cost in zip(measured, costs, strict=True)]
    for values in steps:
        del values["kept"]
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
        "coverage": asdict(candidates.coverage) if candidates.coverage else None,
        "cuts": dict(sample_cuts(candidates, result.vocabulary)),
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

    answer, support = result.answer
    picks = [(rule, pick.size_text, pick.reason) for rule, pick in result.picks.items()]
    strong = list(result.picks).index(result.pick.rule)
    lines: list[RenderableType] = [
        LabelledText("answer    ", answer.split(" ")),
        LabelledText("how sure  ", support.split(" ")),
        *warning_lines(result.warnings),
        "",
        *_steps_table(result, full=full, hint=hint),
        "",
        Grid(("rule", "size", "why"), picks, numbers=[1], strong=strong),
        "",
        *_cuts(result),
        "",
        *_left_out(result),
    ]
    if seconds:
        lines.append(seconds_line({**seconds, "total": sum(seconds.values())}))
    return Group(*lines, signature_line(result.signature))


def warning_lines(warnings: Sequence[str]) -> list[RenderableType]:
    """Return the lines of warnings in a report, each after an empty line."""
    from rich.text import Text

    lines: list[RenderableType] = []
    for warning in warnings:
        lines += ["", Text.assemble(("warning ", "bold yellow"), warning)]
    return lines


def seconds_line(seconds: Seconds) -> LabelledText:
    phases = [f"{phase} {value:.2f}" for phase, value in seconds.items()]
    return LabelledText("seconds   ", phases, gap="   ")


def signature_line(signature: str) -> LabelledText:
    return LabelledText("signature ", at_bars(signature), gap="")


def _cuts(result: SearchResult) -> list[LabelledText]:
    """Return sample words with their pieces, in two columns."""
    samples = sample_cuts(result.candidates, result.vocabulary)
    cuts = [
        (shown(word), shown(pieces, 2 * MOST_SHOWN))
        for word, pieces in readable_cuts(samples, result.vocabulary)
    ]
    width = max((len(word) for word, _ in cuts), default=0) + 2
    return [LabelledText(f"{word:{width}}", [pieces]) for word, pieces in cuts]


def _left_out(result: SearchResult) -> list[LabelledText]:
    coverage = result.candidates.coverage
    if not coverage:
        return []
    share = 100 * coverage.n_left_out / coverage.n_characters
    characters = counted(len(coverage.left_out), "distinct character")
    text = (
        f"{characters}, {share:.3g} % of all, beyond {100 * coverage.share:g} %: "
        f"{shown(coverage.left_out, 20)}"
    )
    return [LabelledText("left out  ", text.split(" "))]


def _steps_table(result: SearchResult, *, full: bool, hint: str) -> list[RenderableType]:
    """Return a table with a row for each step, and a note."""
    from rich.text import Text

    costs = _serving_costs(result, result.steps)
    rules_at = dict[int, list[str]]()
    for rule, pick in result.picks.items():
        rules_at.setdefault(pick.index, []).append(rule)

    n = len(result.steps)
    places = range(n) if full else rows_shown(n, rules_at)
    rows = []
    for place in places:
        step = result.steps[place]
        row = {
            "size": f"{step.size:,}",
            "kept": f"{step.n_kept:,}",
            "entropy": f"{step.entropy:.4f}",
            "MUV ·10⁶": "" if step.muv is None else f"{step.muv * 1e6:,.1f}",
            "pieces": f"{step.n_pieces:,}",
            "tokens/byte": f"{costs[place]['tokens_per_byte']:.4f}",
        }
        flops = costs[place]["serving_flops_per_byte"]
        if flops is not None:
            row["GFLOP/byte"] = f"{flops / 1e9:#.3g}"
        row["F95"] = f"{step.f95:,.0f}"
        row["Rényi"] = f"{step.renyi:.3f}"
        if full:
            mark = "" if step.converged else "!"
            row["transport entropy"] = f"{step.transport_entropy:.4f}"
            row["iterations"] = f"{step.n_iters}{mark}"
        row["picked by"] = ", ".join(rules_at.get(place, ()))
        rows.append(row)

    heads = list(rows[0])
    cells = [list(row.values()) for row in rows]
    strong = places.index(result.pick.index)
    searched = result.searched
    note = (
        f"MUV and the rules muv, renyi and tokens compare the {counted(len(searched), 'size')} "
        f"searched, {searched[0]:,} to {searched[-1]:,}; the other rows are sizes that other rules "
        "pick."
    )
    if len(places) < n:
        more = f"; {hint}" if hint else ""
        note = f"{len(places)} of {n} sizes{more}. {note}"
    grid = Grid(heads, cells, range(len(heads) - 1), strong=strong)
    return [grid, Text(note, style="dim")]


def rows_shown(n: int, picked: Collection[int]) -> Sequence[int]:
    """Choose which of n rows a short table shows: the picked ones, and others in the widest gaps."""
    shown = {0, n - 1, *picked}
    while len(shown) < min(MOST_ROWS, n):
        before, after = max(pairwise(sorted(shown)), key=lambda gap: gap[1] - gap[0])
        shown.add((before + after) // 2)
    return sorted(shown)
