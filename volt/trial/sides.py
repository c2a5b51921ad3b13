"""The result of a trial of a translation (`SidesResult`) and its report, as in `volt.trial.report`.

A pair is a size of the source's vocabulary and a size of the target's. Bits per character are those
of the target. How many % more bits a pair has than the best one, and the interval of this number,
follow from the trainings with the same seeds, as in `volt.trial.superwords`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.choose.rules import TRAINED
from volt.display import Grid, counted, html_note, html_page
from volt.errors import missing
from volt.trial.report import amount, html_grid, page, shared_warnings, text
from volt.trial.results import Row, score
from volt.trial.schedule import Sizes
from volt.trial.superwords import Difference, differences
from volt.trial.training import Choice

if TYPE_CHECKING:
    from rich.console import RenderableType

Pair = tuple[int, ...]  # sizes of the source and of the target
TITLES = ("Sizes of source and target", "What other sizes lose")
ONE_SIZE = "one size for both"
_SIDES = ("source", "target")


@dataclass(frozen=True)
class SidesResult:
    """The results of a trial of a translation.

    rows: the result of each training, as in `volt.trial.results`
    axes: the sizes that may be tried, of the source and of the target
    n_characters: the number of characters of the training text of each side
    requested: the number of characters of the target that each training should read
    characters: the number of characters of the target that each training was allowed to read
    trained: the sizes that the rule `trained` picks for the sides
    quality: for each row, name of a score → the score of its translations; without sacrebleu, none
    signatures: the signatures of the scores
    left: the trainings that the time did not allow
    """

    rows: tuple[Row, ...]
    axes: tuple[Sizes, ...]
    n_characters: tuple[int, ...]
    requested: int
    characters: int
    trained: Pair
    quality: tuple[Mapping[str, float], ...]
    signatures: tuple[str, ...]
    left: tuple[Choice, ...]

    @cached_property
    def bits(self) -> dict[Pair, dict[int, float]]:
        """Pair → seed → bits per character of the target."""
        bits = dict[Pair, dict[int, float]]()
        for row in sorted(self.rows, key=lambda row: (row["source"], row["size"], row["seed"])):
            bits.setdefault(Choice.of(row).point, {})[row["seed"]] = score(row)
        return bits

    @property
    def best(self) -> Pair:
        """The pair with the fewest bits per character."""
        return self._best_of(self.bits)

    def _best_of(self, pairs: Iterable[Pair]) -> Pair:
        return min(pairs, key=lambda pair: np.mean([*self.bits[pair].values()]))

    @cached_property
    def differences(self) -> dict[Pair, Difference]:
        """Pair → how many % more bits it has than the best pair, over the seeds of both."""
        best = self.best
        pairs = [best, *(pair for pair in self.bits if pair != best)]
        by_number = differences({n: self.bits[pair] for n, pair in enumerate(pairs)})
        by_pair = {pairs[n]: difference for n, difference in by_number.items()}
        return {best: Difference(0.0, 0.0), **by_pair}

    @property
    def others(self) -> dict[str, Pair]:
        """Names of other ways to choose sizes → the pair tried that is nearest to their choice."""
        source, target = (axis.start for axis in self.axes)
        others: dict[str, Pair] = {TRAINED: (source, target)}
        alike = [pair for pair in self.bits if pair[0] == pair[1]]
        if alike:
            others[ONE_SIZE] = self._best_of(alike)
        return {name: pair for name, pair in others.items() if pair in self.differences}

    @property
    def answer(self) -> str:
        """A sentence with the best pair, its scores, and what other ways to choose sizes lose."""
        source, target = self.best
        bits = np.mean([*self.bits[self.best].values()])
        parts = [f"{bits:.4f} bits per character of unseen target text"]
        parts += [f"{name} {value:.1f}" for name, value in self.scores(self.best).items()]
        compared = [", ".join(parts)]
        for name, pair in self.others.items():
            loss = "the same pair"
            if pair != self.best:
                loss = f"{pair[0]:,} and {pair[1]:,}, {self.differences[pair]} % bits"
            compared.append(f"{name}: {loss}")
        return f"source {source:,} tokens, target {target:,}: {'; '.join(compared)}."

    def scores(self, pair: Pair) -> dict[str, float]:
        """Return name of a score → the mean score of a pair's translations."""
        quality = [
            values
            for row, values in zip(self.rows, self.quality, strict=True)
            if Choice.of(row).point == pair
        ]
        return {name: float(np.mean([values[name] for values in quality])) for name in quality[0]}

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
            among = ", among them another seed of the best pair"
        effect = "large sizes look better than they are"
        warnings += shared_warnings(self.characters, effect, len(self.left), among)
        for side, axis, size, tried in zip(
            _SIDES, self.axes, self.best, zip(*self.bits, strict=True), strict=True
        ):
            if len({*tried}) == 1:
                warnings.append(f"one size of the {side} alone was tried")
            elif size in (min(tried), max(tried)):
                edge = "smallest" if size == min(tried) else "largest"
                why = "better ones may lie beyond it"
                if size in (axis.values[0], axis.values[-1]):
                    why = "the trial has no size beyond it"
                warnings.append(f"the best size of the {side} is the {edge} one tried; {why}")
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
        tables = map(html_grid, _tables(self).values())
        return html_page(self.answer, *map(html_note, self.warnings), *tables)


def score_translations(
    rows: Iterable[Row], references: Sequence[str]
) -> tuple[list[dict[str, float]], list[str]]:
    """Return the BLEU and chrF++ of each training, and their signatures; without sacrebleu, none.

    rows: results of trainings, with translations
    references: the translations that people wrote
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return [{} for _ in rows], []
    metrics = [BLEU(force=True), CHRF(word_order=2)]  # force: no warnings of split punctuation
    quality = []
    signatures = []
    for row in rows:
        results = [metric.corpus_score(row["translations"], [references]) for metric in metrics]
        quality.append({result.name: result.score for result in results})
        signatures = [
            f"{result.name} {metric.get_signature()}"
            for metric, result in zip(metrics, results, strict=True)
        ]
    return quality, signatures


def pair_data(result: SidesResult) -> Iterator[dict[str, Any]]:
    """Yield the values of each pair."""
    for pair, by_seed in result.bits.items():
        difference = result.differences.get(pair, Difference(np.nan, np.nan))
        yield {
            "source": pair[0],
            "target": pair[1],
            "bits_per_character": float(np.mean([*by_seed.values()])),
            **_as_data(difference),
            **result.scores(pair),
            "seeds": len(by_seed),
        }


def _as_data(difference: Difference) -> dict[str, float | None]:
    values = {"more_percent": difference.mean, "margin_percent": difference.margin}
    return {name: None if np.isnan(value) else value for name, value in values.items()}


def _tables(result: SidesResult) -> dict[str, Grid]:
    """Return title → table: of the pairs, and of other ways to choose sizes."""
    names = [*result.scores(result.best)]
    pairs = []
    for pair, by_seed in result.bits.items():
        bits = np.mean([*by_seed.values()])
        difference = str(result.differences.get(pair, ""))
        scores = [f"{value:.1f}" for value in result.scores(pair).values()]
        sizes = [f"{size:,}" for size in pair]
        pairs.append([*sizes, f"{bits:.4f}", difference, *scores, f"{len(by_seed)}"])
    heads = [*_SIDES, "bits/character", "more %", *names, "seeds"]
    strong = [*result.bits].index(result.best)

    others = [[TRAINED, *(f"{size:,}" for size in result.trained), ""]]
    for name, (source, target) in result.others.items():
        difference = str(result.differences[source, target])
        others.append([f"{name}, tried", f"{source:,}", f"{target:,}", difference])
    tables = [
        Grid(heads, pairs, range(len(heads)), strong),
        Grid(["choice", *_SIDES, "more %"], others, [1, 2, 3]),
    ]
    return dict(zip(TITLES, tables, strict=True))


def as_data(result: SidesResult) -> dict[str, Any]:
    """Return all values of the report as JSON data."""
    others = {}
    for name, pair in result.others.items():
        others[name] = {
            **dict(zip(_SIDES, pair, strict=True)),
            **_as_data(result.differences[pair]),
        }
    return {
        "answer": result.answer,
        "best": dict(zip(_SIDES, result.best, strict=True)),
        "warnings": result.warnings,
        "training_characters": dict(zip(_SIDES, result.n_characters, strict=True)),
        "characters_requested": result.requested,
        "characters_read": result.characters,
        "pairs": list(pair_data(result)),
        "trained": dict(zip(_SIDES, result.trained, strict=True)),
        "others": others,
        "signatures": list(result.signatures),
        "trainings": list(result.rows),
        "left": [choice.labels for choice in result.left],
    }


def as_page(result: SidesResult) -> str:
    """Return the report as an HTML page in the style of the page of `volt compare`."""
    source, target = result.best
    heading = (f"{source:,} + {target:,}", "tokens")
    return page(heading, result.answer, result.warnings, _tables(result))


def as_text(result: SidesResult) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    return text(result.answer, result.warnings, _tables(result).values())
