"""`SearchResult` → its report: a renderable for a rich console, or its values as JSON data.

The report reads, from top to bottom: the answer, the sizes for other lengths of training, and how
sure the answer is; warnings; the sizes around the answer; sample words with their pieces; characters
that were left out. The full report also has all sizes, the pick of each rule, and the signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from volt.choose.rules import AMONG_STEPS
from volt.choose.search import readable_cuts, sample_cuts
from volt.count.corpus_statistics import text_bytes
from volt.display import Grid, LabelledText, at_bars, counted
from volt.errors import MOST_SHOWN, shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.choose.size_steps import SizeStep
    from volt.vocabulary import Vocabulary

Seconds = Mapping[str, float]  # phase of a command → its time

N_ROWS = 5  # sizes around the answer


def as_data(result: SearchResult, *, seconds: Seconds | None = None) -> dict[str, Any]:
    """Return all values of the report as JSON data.

    seconds: the time of each phase of the command, if it was measured
    """
    candidates = result.candidates
    counts = candidates.counts
    measured = (result.best, *result.steps)
    costs = _serving_costs(result, measured)
    steps = [asdict(step) | cost for step, cost in zip(measured, costs, strict=True)]
    for values in steps:
        del values["kept"]  # one Boolean for each token
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
    """Return the numbers and the settings of a vocabulary as JSON data."""
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


def _serving_costs(result: SearchResult, steps: Sequence[SizeStep]) -> list[dict[str, Any]]:
    """Return for each step its pieces per byte of text, and the model's operations per byte."""
    n_bytes = text_bytes(result.candidates.counts)
    costs = []
    for step in steps:
        pieces_per_byte = step.n_pieces / n_bytes
        flops = None
        if result.model:
            flops = result.model.flops_per_byte(step.size, pieces_per_byte)
        costs.append({"tokens_per_byte": pieces_per_byte, "serving_flops_per_byte": flops})
    return costs


def as_text(
    result: SearchResult,
    *,
    seconds: Seconds | None = None,
    full: bool = False,
    advice: Sequence[str] = (),
    hint: str = "",
) -> RenderableType:
    """Return the report for a rich console, which must print it with `crop=False`.

    seconds: the time of each phase of the command, if it was measured
    full: whether to add all sizes and their transports, the pick of each rule, and the signature
    advice: further sentences about how sure the answer is
    hint: how to see what is left out
    """
    from rich.console import Group

    answer, lengths, *certainty = result.answer
    lines: list[RenderableType] = [
        LabelledText("answer    ", answer.split(" ")),
        LabelledText("lengths   ", lengths.split(" ")),
    ]
    label = "how sure  "
    for sentence in (*certainty, *advice):
        lines.append(LabelledText(label, sentence.split(" ")))
        label = "".ljust(len(label))
    lines += [*warning_lines(result.warnings), ""]
    if not full:
        return Group(*lines, *_near_table(result, hint), "", *_sample_lines(result))

    picks = [(rule, pick.size_text, pick.reason) for rule, pick in result.picks.items()]
    picked_row = list(result.picks).index(result.pick.rule)
    lines += [
        *_sizes_table(result),
        "",
        Grid(("rule", "size", "why"), picks, numbers=[1], strong=picked_row),
        "",
        *_sample_lines(result),
        "",
    ]
    if seconds:
        lines.append(seconds_line({**seconds, "total": sum(seconds.values())}))
    return Group(*lines, signature_line(result.signature))


def warning_lines(warnings: Sequence[str]) -> list[RenderableType]:
    """Return an empty line and a line with the label "warning" for each warning."""
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


def _near_table(result: SearchResult, hint: str) -> list[RenderableType]:
    """Return a table of the answer and the nearest searched sizes, and a note."""
    from rich.text import Text

    n_words = result.candidates.counts.total
    sizes = {*result.searched, result.pick.size}
    steps = [step for step in result.steps if step.size in sizes]
    picked = steps.index(result.steps[result.pick.index])
    first = max(min(picked - N_ROWS // 2, len(steps) - N_ROWS), 0)
    rows = []
    for step in steps[first : first + N_ROWS]:
        per_word = f"{step.n_pieces / n_words:.2f}"
        rows.append((f"{step.size:,}", f"{step.n_pieces:,}", per_word, f"{step.entropy:.4f}"))
    heads = ("size", "pieces", "per word", "entropy")
    note = "pieces: the text's length in tokens"
    if hint:
        note += f"; {hint}"
    table = Grid(heads, rows, numbers=range(len(heads)), strong=picked - first)
    return [table, Text(note, style="dim")]


def _sizes_table(result: SearchResult) -> list[RenderableType]:
    """Return a table with a row for each size, and a note about the sizes."""
    from rich.text import Text

    rules_at = dict[int, list[str]]()
    for rule, pick in result.picks.items():
        rules_at.setdefault(pick.index, []).append(rule)
    costs = _serving_costs(result, result.steps)

    rows = []
    for index, step in enumerate(result.steps):
        flag = "" if step.converged else "!"
        cells = {
            "size": f"{step.size:,}",
            "kept": f"{step.n_kept:,}",
            "entropy": f"{step.entropy:.4f}",
            "transport entropy": f"{step.transport_entropy:.4f}",
            "iterations": f"{step.n_iters}{flag}",
            "MUV ·10⁶": "" if step.muv is None else f"{step.muv * 1e6:,.1f}",
            "pieces": f"{step.n_pieces:,}",
            "tokens/byte": f"{costs[index]['tokens_per_byte']:.4f}",
        }
        flops = costs[index]["serving_flops_per_byte"]
        if flops is not None:
            cells["GFLOP/byte"] = f"{flops / 1e9:#.3g}"
        cells["F95"] = f"{step.f95:,.0f}"
        cells["Rényi"] = f"{step.renyi:.3f}"
        cells["picked by"] = ", ".join(rules_at.get(index, ()))
        rows.append(cells)

    heads = list(rows[0])
    table = Grid(
        heads,
        [list(cells.values()) for cells in rows],
        numbers=range(len(heads) - 1),
        strong=result.pick.index,
    )
    searched = result.searched
    *first_rules, last_rule = AMONG_STEPS
    note = (
        f"MUV and the rules {', '.join(first_rules)} and {last_rule} compare the {counted(len(searched), 'size')} "
        f"searched, {searched[0]:,} to {searched[-1]:,}; the other rows are sizes that other rules "
        "pick."
    )
    return [table, Text(note, style="dim")]


def _sample_lines(result: SearchResult) -> list[LabelledText]:
    """Return a line for each sample word, with its pieces, and one about characters left out."""
    samples = sample_cuts(result.candidates, result.vocabulary)
    cuts = [
        (shown(word), shown(pieces, 2 * MOST_SHOWN))
        for word, pieces in readable_cuts(samples, result.vocabulary)
    ]
    width = max((len(word) for word, _ in cuts), default=0) + 2
    lines = [LabelledText(f"{word:{width}}", [pieces]) for word, pieces in cuts]
    coverage = result.candidates.coverage
    if not coverage:
        return lines
    percent = 100 * coverage.n_left_out / coverage.n_characters
    characters = counted(len(coverage.left_out), "distinct character")
    text = (
        f"{characters}, {percent:.3g} % of all, beyond {100 * coverage.share:g} %: "
        f"{shown(coverage.left_out, 20)}"
    )
    return [*lines, LabelledText("left out  ", text.split(" "))]
