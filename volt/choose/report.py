"""`SearchResult` → what people read in a terminal, and the same as JSON data.

>>> from volt.count.word_counts import WordCounts
>>> from volt.learn.bpe import learn_bpe
>>> from volt.choose.search import search
>>> counts = WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3})
>>> result = search(learn_bpe(counts, n_merges=9), sizes=[14, 16, 18])
>>> data = as_data(result)
>>> data["pick"]["rule"], data["best"]["size"], [step["n_kept"] for step in data["steps"]]
('balanced', 20, [11, 13, 15, 14, 15, 16])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from volt.choose.notebook import readable_cuts, sample_cuts
from volt.choose.serving import ServingCost, serving_costs
from volt.display import counted
from volt.errors import MOST_SHOWN, shown
from volt.text.layout import Entry, Grid, at_bars

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.choose.size_steps import SizeStep
    from volt.count.coverage import Coverage
    from volt.count.word_counts import WordCounts
    from volt.vocabulary import Vocabulary

Seconds = Mapping[str, float]


def as_data(result: SearchResult, *, seconds: Seconds | None = None) -> dict[str, Any]:
    """Everything that the terminal report shows, as JSON values. seconds: of each phase."""
    costs, coverage = serving_costs(result), result.candidates.coverage
    [best] = serving_costs(result, [result.best])
    return {
        "signature": result.signature,
        "fingerprint": result.vocabulary.fingerprint,
        "best": _step_data(result.best, best),
        "pick": asdict(result.pick),
        "range": list(result.range),
        "support": result.support,
        "counts": _count_data(result.candidates.counts) | {"certain_merges": result.n_certain},
        "picks": {rule: asdict(pick) for rule, pick in result.picks.items()},
        "steps": [_step_data(step, cost) for step, cost in zip(result.steps, costs, strict=True)],
        "vocabulary": vocabulary_data(result.vocabulary),
        "warnings": list(result.warnings),
        "coverage": asdict(coverage) if coverage else None,
        "cuts": dict(sample_cuts(result.candidates, result.vocabulary)),
        "seconds": dict(seconds or {}),
    }


def _count_data(counts: WordCounts) -> dict[str, int]:
    return {
        "words": counts.n_words,
        "occurrences": counts.total,
        "left_out": counts.n_left_out,
        "bound": counts.bound,
        "lines": counts.n_lines,
        "bytes": counts.n_bytes,
    }


def _step_data(step: SizeStep, cost: ServingCost) -> dict[str, Any]:
    return {name: value for name, value in asdict(step).items() if name != "kept"} | asdict(cost)


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
    """The report of a search, for a rich console; print it with `crop=False`. seconds: of each phase."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_steps_table(result), "", _picks_table(result), ""]
    parts += [_answer(result), ""]
    for warning in result.warnings:
        parts += [Text.assemble(("warning ", "bold yellow"), warning), ""]
    cuts = readable_cuts(sample_cuts(result.candidates, result.vocabulary), result.vocabulary)
    parts += [*_cuts(cuts), ""]
    if coverage := result.candidates.coverage:
        parts.append(Entry("left out  ", _left_out(coverage).split(" ")))
    if seconds:
        spent = {**seconds, "total": sum(seconds.values())}
        parts.append(Entry("seconds   ", [f"{phase} {value:.2f}" for phase, value in spent.items()], gap="   "))
    parts.append(Entry("signature ", at_bars(result.signature), gap=""))
    return Group(*parts)


def _left_out(coverage: Coverage) -> str:
    """What a share of all characters leaves out, and the commonest of it.

    >>> from volt.count.coverage import Coverage
    >>> _left_out(Coverage(0.9, "ö", 1, 24))
    '1 distinct character, 4.17 % of all, beyond 90 %: ö'
    """
    share = 100 * coverage.n_left_out / coverage.n_characters
    kinds = f"{counted(len(coverage.left_out), 'distinct character')}, {share:.3g} % of all"
    return f"{kinds}, beyond {100 * coverage.share:g} %: {shown(coverage.left_out, 20)}"


def _steps_table(result: SearchResult) -> Grid:
    """One row for each size. The chosen row stands out, and each rule stands at the size that it picks."""
    more, costs = _cost_columns(result)
    heads = ("size", "kept", "entropy", "MUV ·10⁶", "pieces", *more, "F95", "Rényi", "iter.", "picked by")
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
            f"{step.n_iters}" if step.converged else f"{step.n_iters}!",
            ", ".join(rule for rule, pick in result.picks.items() if pick.index == index),
        )
        for index, step in enumerate(result.steps)
    ]
    numbers, spare = range(len(heads) - 1), [heads.index(name) for name in ("iter.", "kept", "F95", "Rényi", *more)]
    return Grid(heads, rows, numbers, strong=result.pick.index, spare=spare)


def _answer(result: SearchResult) -> Entry:
    """The pick, the range around it, and what supports it."""
    low, high = (f"{size:,}" for size in result.range)
    sentences = [f"{result.pick.rule} picks {result.pick.told} tokens", result.rounded_up, result.support]
    between = f"utility and fed are {low} and {high}" if low != high else f"utility and fed agree on {low}"
    told = list(filter(None, [*sentences, between]))
    words = " ".join([*(f"{sentence};" for sentence in told[:-1]), f"{told[-1]}."]).split(" ")
    return Entry("answer    ", words)


def _cost_columns(result: SearchResult) -> tuple[list[str], list[list[str]]]:
    """The heads of the columns of what each size takes to be used, and their cells in each row."""
    costs = serving_costs(result)
    tokens, flops = [f"{cost.tokens_per_byte:.4f}" for cost in costs], [cost.serving_flops_per_byte for cost in costs]
    if result.model is None:
        return ["tokens/byte"], [[cell] for cell in tokens]
    cells = [f"{value / 1e9:#.3g}" for value in flops if value is not None]
    return ["tokens/byte", "GFLOP/byte"], [list(row) for row in zip(tokens, cells, strict=True)]


def _picks_table(result: SearchResult) -> Grid:
    """What every rule would pick, and why."""
    picks = list(result.picks.values())
    rows = [(rule, pick.told, pick.reason) for rule, pick in result.picks.items()]
    return Grid(("rule", "size", "why"), rows, numbers=[1], strong=picks.index(result.pick))


def _cuts(cuts: Iterable[tuple[str, str]]) -> list[RenderableType]:
    """Words beside their pieces."""
    found = [(shown(word), shown(pieces, 2 * MOST_SHOWN)) for word, pieces in cuts]
    width = max((len(word) for word, _ in found), default=0) + 2
    return [Entry(f"{word:{width}}", [pieces]) for word, pieces in found]
