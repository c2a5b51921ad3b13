"""The result of a trial of a translation (`SidesResult`) and its report, as in `volt.trial.report`.

A pair is a size of the source's vocabulary and a size of the target's. Bits per character are those
of the target. How many % more bits a pair has than the best one, and the interval of this number,
follow from the trainings with the same seeds, as in `volt.trial.superwords`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.choose.rules import TRAINED
from volt.display import Grid, counted, html_note, html_page
from volt.errors import missing
from volt.trial.report import amount, html_grid, page, shared_warnings, text
from volt.trial.results import Row, score
from volt.trial.schedule import Point
from volt.trial.superwords import Difference, differences
from volt.trial.training import Choice

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "Sizes of source and target"
ONE_SIZE = "one size for both"
SCORES = ("BLEU", "chrF2++")


@dataclass(frozen=True)
class SidesResult:
    """The results of a trial of a translation.

    rows: the result of each training, as in `volt.trial.results`, with the values of
        `score_translations`
    first: the pair that is nearest to what the rule `trained` picks for the sides
    requested: the number of characters of the target that each training should read
    characters: the number of characters of the target that each training was allowed to read
    signatures: the signatures of the scores of translations; empty without sacrebleu
    left: the trainings that the time did not allow
    """

    rows: tuple[Row, ...]
    first: Point
    requested: int
    characters: int
    signatures: tuple[str, ...]
    left: tuple[Choice, ...]

    @cached_property
    def bits(self) -> dict[Point, dict[int, float]]:
        """Pair → seed → bits per character of the target."""
        bits = dict[Point, dict[int, float]]()
        for row in sorted(self.rows, key=lambda row: Choice.of(row).point):
            bits.setdefault(Choice.of(row).point, {})[row["seed"]] = score(row)
        return bits

    @property
    def best(self) -> Point:
        """The pair with the fewest bits per character."""
        return self._best_of(self.bits)

    def _best_of(self, pairs: Iterable[Point]) -> Point:
        return min(pairs, key=lambda pair: np.mean([*self.bits[pair].values()]))

    @cached_property
    def differences(self) -> dict[Point, Difference]:
        """Pair → how many % more bits it has than the best pair, over the seeds of both."""
        best = self.best
        pairs = [best, *(pair for pair in self.bits if pair != best)]
        by_number = differences({n: self.bits[pair] for n, pair in enumerate(pairs)})
        by_pair = {pairs[n]: difference for n, difference in by_number.items()}
        return {best: Difference(0.0, 0.0), **by_pair}

    @property
    def others(self) -> dict[str, Point]:
        """Name of another way to choose sizes → the pair tried that it chooses."""
        others = {TRAINED: self.first}
        alike = [pair for pair in self.differences if pair[0] == pair[1]]
        if alike:
            others[ONE_SIZE] = self._best_of(alike)
        return others

    @property
    def answer(self) -> str:
        """A sentence with the best pair, its scores, and what other ways to choose sizes lose."""
        [values] = [values for values in pair_data(self) if values["more_percent"] == 0]
        scores = [f"{values['bits']:.4f} bits per character of unseen target text"]
        scores += [f"{name} {values[name]:.1f}" for name in SCORES if name in values]
        parts = [", ".join(scores)]
        for name, pair in self.others.items():
            loss = "the same sizes"
            if pair != self.best:
                loss = f"{pair[0]:,} and {pair[1]:,}, {self.differences[pair]} % bits"
            parts.append(f"{name}: {loss}")
        source, target = self.best
        return f"source {source:,} tokens, target {target:,}: {'; '.join(parts)}."

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before trusting this result."""
        warnings = []
        if self.characters < self.requested:
            warnings.append(
                f"the time allows each training to read {amount(self.characters)} of "
                f"{amount(self.requested)} characters of the target; the best sizes fall as a "
                "training gets longer. Give more time to check them"
            )
        among = ""
        if self.best in [choice.point for choice in self.left]:
            among = ", among them another seed of the best sizes"
        effect = "large sizes look better than they are"
        warnings += shared_warnings(self.characters, effect, len(self.left), among)
        if not self.signatures:
            needed = missing("sacrebleu", extra="translation")
            warnings.append(f"BLEU and chrF++ are left out: {needed}, and run again")
        return warnings

    def __repr__(self) -> str:
        source, target = self.best
        trainings = counted(len(self.rows), "training")
        return (
            f"<SidesResult: source {source:,} and target {target:,} tokens are best, {trainings}>"
        )

    def _repr_html_(self) -> str:
        return html_page(self.answer, *map(html_note, self.warnings), html_grid(_table(self)))


def score_translations(
    rows: Iterable[Row], references: Sequence[str]
) -> tuple[list[Row], list[str]]:
    """Return the rows with BLEU and chrF++, and the signatures of the scores.

    Without sacrebleu, the rows are unchanged, and there are no signatures.

    rows: results of trainings, with translations
    references: the translations that people wrote
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return [*rows], []
    metrics = [BLEU(force=True), CHRF(word_order=2)]  # force: no warnings of split punctuation
    scored = list[Row]()
    for row in rows:
        results = [metric.corpus_score(row["translations"], [references]) for metric in metrics]
        scored.append({**row, **{result.name: result.score for result in results}})
    signatures = [str(metric.get_signature()) for metric in metrics if scored]
    return scored, [": ".join(pair) for pair in zip(SCORES, signatures, strict=False)]


def pair_data(result: SidesResult) -> Iterator[dict[str, Any]]:
    """Yield the values of each pair."""
    choices = {pair: name for name, pair in result.others.items()}
    for pair, by_seed in result.bits.items():
        difference = result.differences.get(pair, Difference(np.nan, np.nan))
        values = {
            "source": pair[0],
            "target": pair[1],
            "bits": float(np.mean([*by_seed.values()])),
            "more_percent": difference.mean,
            "margin_percent": difference.margin,
        }
        rows = [row for row in result.rows if Choice.of(row).point == pair]
        for name in SCORES:
            if name in rows[0]:
                values[name] = float(np.mean([row[name] for row in rows]))
        known = {name: value for name, value in values.items() if not np.isnan(value)}
        yield {**known, "seeds": len(rows), "choice": choices.get(pair, "")}


def _table(result: SidesResult) -> Grid:
    rows = []
    for values in pair_data(result):
        pair = (values["source"], values["target"])
        cells = [f"{size:,}" for size in pair]
        cells += [f"{values['bits']:.4f}", str(result.differences.get(pair, ""))]
        cells += [f"{values[name]:.1f}" for name in SCORES if name in values]
        rows.append([*cells, str(values["seeds"]), values["choice"]])
    heads = ["source", "target", "bits/character", "more %"]
    heads += SCORES[: len(result.signatures)]
    strong = [*result.bits].index(result.best)
    return Grid([*heads, "seeds", "choice of"], rows, range(len(heads) + 1), strong)


def as_data(result: SidesResult) -> dict[str, Any]:
    """Return all values of the report as JSON data."""
    source, target = result.best
    return {
        "answer": result.answer,
        "best": {"source": source, "target": target},
        "warnings": result.warnings,
        "characters_requested": result.requested,
        "characters_read": result.characters,
        "pairs": list(pair_data(result)),
        "signatures": list(result.signatures),
        "trainings": list(result.rows),
        "left": [choice.labels for choice in result.left],
    }


def as_page(result: SidesResult) -> str:
    """Return the report as an HTML page in the style of the page of `volt compare`."""
    sizes = " + ".join(f"{size:,}" for size in result.best)
    return page((sizes, "tokens"), result.answer, result.warnings, {TITLE: _table(result)})


def as_text(result: SidesResult) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    return text(result.answer, result.warnings, [_table(result)])
