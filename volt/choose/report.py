"""`SearchResult` → its report: a renderable for a rich console, or its values as JSON data.

The report reads, from top to bottom: the answer, the sizes for other lengths of training, how sure
the answer is, and what to do next; warnings; the sizes around the answer; sample words with their pieces; characters
that were left out. The full report also has all sizes, the pick of each rule, and the signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from volt.choose.rules import AMONG_STEPS
from volt.choose.search import readable_cuts, sample_cuts
from volt.count.corpus_statistics import text_bytes
from volt.display import Grid, LabelledText, at_bars, counted
from volt.encode.score_tables import UNKNOWN_PENALTY
from volt.errors import MOST_SHOWN, shown
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import readable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.choose.size_steps import SizeStep
    from volt.vocabulary import Vocabulary

Seconds = Mapping[str, float]  # phase of a command → its time

N_ROWS = 5  # sizes around the answer
_CROSSED = re.compile(r"\S ")
_NEAR_HEADS = "size", "pieces", "per word"


def as_data(result: SearchResult, *, seconds: Seconds | None = None) -> dict[str, Any]:
    """Return all values of the report as JSON data.

    seconds: the time of each phase of the command, if it was measured
    """
    candidates = result.candidates
    counts = candidates.counts
    measured = [result.best, *result.steps]
    if result.merged:
        measured.append(result.merged)
    costs = _serving_costs(result, measured)
    steps = [asdict(step) | cost for step, cost in zip(measured, costs, strict=True)]
    for values in steps:
        del values["kept"]  # one Boolean for each token
    merged = steps.pop() if result.merged else None
    return {
        "signature": result.signature,
        "fingerprint": result.vocabulary.fingerprint,
        "best": steps[0],
        "merged": merged,
        "answer": list(result.answer),
        "composition": result.composition,
        "pick": asdict(result.pick),
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
    model: dict[str, Any] = {
        "merges": len(vocabulary.merges),
        "scaffolding": len(vocabulary.scaffolding),
    }
    if vocabulary.is_unigram:
        model = {
            "model": "unigram",
            "best_score": max(vocabulary.scores),
            "worst_score": min(vocabulary.scores),
            "unknown_score": min(vocabulary.scores) - UNKNOWN_PENALTY,
        }
    return {
        "tokens": vocabulary.size,
        "atoms": len(vocabulary.atoms),
        **model,
        "special": list(vocabulary.special.all),
        "ids": len(vocabulary.pieces),
        "byte_fallback": vocabulary.byte_fallback,
        "marker": vocabulary.marker,
        "normalizer": vocabulary.normalizer.label,
        "pretokenizer": vocabulary.pretokenizer.name,
    }


def crosses_space(token: str, *, is_bytes: bool) -> bool:
    """Check whether a token has a space after a character that is not white space.

    >>> [crosses_space(token, is_bytes=True) for token in ("ofĠthe", "Ġthe", "ĊĠĠ")]
    [True, False, False]
    """
    text = readable(token) if is_bytes else token.replace(SPACE, " ")
    return _CROSSED.search(text) is not None


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
    advice: Iterable[tuple[str, Sequence[str]]] = (),
    reword: Callable[[str], str] = str,
) -> RenderableType:
    """Return the report for a rich console, which must print it with `crop=False`.

    seconds: the time of each phase of the command, if it was measured
    full: whether to add all sizes and their transports, the pick of each rule, and the signature
    advice: further texts after the answer, each with its label, in unbreakable parts
    reword: called with each sentence that may name an argument of the library
    """
    from rich.console import Group

    lines: list[RenderableType] = []
    labels = ("answer", "tokens", "lengths", "how sure", "next")
    answer, *others = result.answer
    for label, text in zip(labels, (answer, result.saving, *others), strict=True):
        if text:
            parts = re.split(" (?!%)", reword(text))  # a number stays with its %
            lines.append(LabelledText(f"{label:10}", parts))
    lines += [LabelledText(f"{label:10}", parts) for label, parts in advice]
    lines += [*warning_lines(map(reword, result.warnings)), ""]
    lines += [*_sizes_table(result, full=full), ""]
    if not full:
        return Group(*lines, *_sample_lines(result))

    picks = []
    for rule, pick in result.picks.items():
        picks.append((rule, pick.size_text, reword(pick.reason)))
    picked_row = list(result.picks).index(result.pick.rule)
    rules = Grid(("rule", "size", "why"), picks, numbers=[1], strong=picked_row)
    lines += [rules, "", *_sample_lines(result), ""]
    if seconds:
        lines.append(seconds_line({**seconds, "total": sum(seconds.values())}))
    return Group(*lines, signature_line(result.signature))


def warning_lines(warnings: Iterable[str]) -> list[RenderableType]:
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


def _sizes_table(result: SearchResult, *, full: bool) -> list[RenderableType]:
    """Return a table with a row for each size, or the answer and its neighbours, and a note."""
    from rich.text import Text

    rows = []
    for step, cost in zip(result.steps, _serving_costs(result, result.steps), strict=True):
        rules = [rule for rule, pick in result.picks.items() if pick.size == step.size]
        cells = {
            "size": f"{step.size:,}",
            "kept": f"{step.n_kept:,}",
            "entropy": f"{step.entropy:.4f}",
            "transported": f"{step.transport_entropy:.4f}",
            "iterations": f"{step.n_iters}",
            "MUV ·10⁶": "" if step.muv is None else f"{step.muv * 1e6:,.1f}",
            "pieces": f"{step.n_pieces:,}",
            "per word": f"{step.n_pieces / result.candidates.counts.total:.2f}",
            "tokens/byte": f"{cost['tokens_per_byte']:.4f}",
        }
        if result.model:
            cells["GFLOP/byte"] = f"{cost['serving_flops_per_byte'] / 1e9:#.3g}"
        cells["F95"] = f"{step.f95:,.0f}"
        cells["Rényi"] = f"{step.renyi:.3f}"
        cells["picked by"] = ", ".join(rules)
        rows.append(cells)

    heads: Sequence[str] = list(rows[0])
    numbers = range(len(heads) - 1)  # all columns but the last
    picked = rows[result.pick.index]
    searched = result.searched
    *first_rules, last_rule = AMONG_STEPS
    note = (
        "transported: the entropy after the transport. MUV and the rules "
        f"{', '.join(first_rules)} and {last_rule} compare the {counted(len(searched), 'size')} "
        f"searched, {searched[0]:,} to {searched[-1]:,}; the other rows are sizes that other rules "
        "pick."
    )
    if not full:
        heads = _NEAR_HEADS
        note = "pieces: the text's length in tokens; per word: pieces of a word, on average"
        if result.merged:
            note += "; both with BPE's tokens"
        sizes = {*searched, result.pick.size}
        near = []
        for step, cells in zip(result.steps, rows, strict=True):
            if step.size in sizes:
                near.append(cells)
        first = min(near.index(picked) - N_ROWS // 2, len(near) - N_ROWS)
        rows = near[max(first, 0) :][:N_ROWS]
    texts = [[cells[head] for head in heads] for cells in rows]
    table = Grid(heads, texts, numbers, strong=rows.index(picked))
    return [table, Text(note, style="dim")]


def _sample_lines(result: SearchResult) -> list[LabelledText]:
    """Return a line for each sample word, with its pieces, and one about characters left out."""
    from rich.cells import cell_len, set_cell_size

    samples = sample_cuts(result.candidates, result.vocabulary)
    cuts = [
        (shown(word), shown(pieces, 2 * MOST_SHOWN))
        for word, pieces in readable_cuts(samples, result.vocabulary)
    ]
    width = max((cell_len(word) for word, _ in cuts), default=0) + 2
    lines = [LabelledText(set_cell_size(word, width), [pieces]) for word, pieces in cuts]
    coverage = result.candidates.coverage
    if not coverage:
        return lines
    characters = counted(len(coverage.left_out), "distinct character")
    text = (
        f"{characters}, {100 * coverage.n_left_out / coverage.n_characters:.3g} % of all, beyond "
        f"{100 * coverage.share:g} %: {shown(coverage.left_out, 20)}"
    )
    return [*lines, LabelledText("left out  ", text.split(" "))]
