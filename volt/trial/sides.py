"""The result of a trial of a translation: a size of the source's vocabulary and one of the target's.

Bits per character are those of the target, and those of a pair of sizes are the mean of its seeds. An
interval of 95 % is Student's, from the variance between the seeds of each pair, of all pairs together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from scipy.special import stdtrit

from volt.choose.rules import TRAINED
from volt.display import Grid, counted
from volt.errors import missing
from volt.trial.results import Row, TrialOutcome, score
from volt.trial.schedule import Point
from volt.trial.superwords import UPPER, BitsDifference


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A pair of sizes.

    bits: bits per character, and how many % more they are than those of the best pair
    scores: name of a score → the mean score of the translations
    """

    source: int
    target: int
    bits: BitsDifference
    scores: dict[str, float]
    seeds: int


@dataclass(frozen=True, repr=False)
class SidesResult(TrialOutcome):
    """The results of a trial of a translation.

    rows, requested, characters, left: see `TrialOutcome`; characters are of the target, and rows have
        the values of `score_translations`
    picks: the sizes that the rule `trained` picks for source and target
    first: the pair, of those that may be tried, that is nearest to the picks
    signatures: name of a score → its signature; empty without sacrebleu
    """

    picks: Point
    first: Point
    signatures: dict[str, str]

    @cached_property
    def pairs(self) -> list[ComparedPair]:
        """The pairs, the best one first."""
        rows_of = defaultdict[Point, list[Row]](list)
        for row in self.rows:
            rows_of[(row["source"], row["size"])].append(row)
        bits = {pair: [score(row) for row in rows] for pair, rows in sorted(rows_of.items())}
        pairs = []
        for pair, difference in _compare_with_best(bits).items():
            scores = {}
            for name in self.signatures:
                scores[name] = fmean(row[name] for row in rows_of[pair])
            source, target = pair
            pairs.append(ComparedPair(source, target, difference, scores, len(bits[pair])))
        return pairs

    @property
    def best(self) -> ComparedPair:
        """The pair with the fewest bits per character."""
        return self.pairs[0]

    @property
    def others(self) -> dict[str, ComparedPair]:
        """Name of another way to choose sizes → the pair that it gives, among those tried.

        If one pair was tried, it is empty.
        """
        points = {(pair.source, pair.target): pair for pair in self.pairs}
        others = dict[str, ComparedPair]()
        if len(points) == 1:
            return others
        if self.first in points:
            others[TRAINED] = points[self.first]
        equal = [pair for pair in self.pairs if pair.source == pair.target]
        if equal:
            others["one size for both"] = equal[0]
        return others

    @property
    def answer(self) -> str:
        """A sentence with the best pair, its scores, and what other ways to choose sizes lose."""
        best = self.best
        parts = [f"{best.bits.bits:.4f} bits per character of unseen target text"]
        parts += [f"{name} {value:.1f}" for name, value in best.scores.items()]
        sentence = f"source {best.source:,}, target {best.target:,}: {', '.join(parts)}"
        picks = " and ".join(f"{size:,}" for size in self.picks)
        labels = {TRAINED: f"pair tried that is nearest to the picks of {TRAINED}, {picks}"}
        for name, pair in self.others.items():
            loss = "the same sizes"
            if pair != best:
                loss = f"{pair.source:,} and {pair.target:,}, {pair.bits.more:+.1f} % bits"
            sentence += f"; {labels.get(name, name)}: {loss}"
        return f"{sentence}."

    @property
    def notes(self) -> list[str]:
        """Sentences that say how translations were scored."""
        n_translations = counted(len(self.rows[0]["translations"]), "translation")
        signatures = self.signatures.items()
        return [f"{name} of {n_translations}: {signature}" for name, signature in signatures]

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before trusting this result."""
        among = ""
        if (self.best.source, self.best.target) in [choice.point for choice in self.left]:
            among = ", among them another seed of the best sizes"
        change = "the best sizes fall as a training gets longer"
        effect = "large sizes look better than they are"
        warnings = [*self.time_warnings(change, effect, among)]
        if not self.signatures:
            needed = missing("sacrebleu", extra="translation")
            warnings.append(f"BLEU and chrF++ are left out: {needed}, and run again")
        return warnings

    @property
    def tables(self) -> dict[str, Grid]:
        rows = []
        pairs = sorted(self.pairs, key=lambda pair: (pair.source, pair.target))
        for pair in pairs:
            scores = [f"{value:.1f}" for value in pair.scores.values()]
            cells = [f"{pair.source:,}", f"{pair.target:,}", f"{pair.bits.bits:.4f}"]
            rows.append([*cells, str(pair.bits), *scores, f"{pair.seeds}"])
        heads = ["source", "target", "bits/character", "more %", *self.signatures, "seeds"]
        strong = pairs.index(self.best)
        return {"Sizes of source and target": Grid(heads, rows, range(len(heads)), strong)}

    @property
    def data(self) -> dict[str, Any]:
        """All values of the report as JSON data."""
        return {
            "answer": self.answer,
            "best": asdict(self.best),
            "warnings": self.warnings,
            "characters_requested": self.requested,
            "characters_read": self.characters,
            "pairs": list(map(asdict, self.pairs)),
            "picks": self.picks,
            "others": {name: asdict(pair) for name, pair in self.others.items()},
            "signatures": self.signatures,
            **self.training_data,
        }

    def __repr__(self) -> str:
        return f"<SidesResult: {self.answer}>"


def _compare_with_best(bits: Mapping[Point, Sequence[float]]) -> dict[Point, BitsDifference]:
    """Compare each pair with the one that has the smallest mean; pairs are sorted by their means.

    bits: pair → the bits per character of its seeds
    """
    means = {pair: fmean(values) for pair, values in bits.items()}
    order = sorted(means, key=means.__getitem__)
    best = order[0]
    freedom = 0
    squares = 0.0
    for pair, values in bits.items():
        freedom += len(values) - 1
        squares += sum((100 * (value / means[pair] - 1)) ** 2 for value in values)
    differences = {}
    for pair in order:
        margin = None
        if freedom and pair != best:
            variance = squares / freedom * (1 / len(bits[pair]) + 1 / len(bits[best]))
            margin = float(stdtrit(freedom, UPPER)) * math.sqrt(variance)
        more = 100 * (means[pair] / means[best] - 1)
        differences[pair] = BitsDifference(means[pair], more, margin)
    return differences


def score_translations(
    rows: Iterable[Row], references: Sequence[str]
) -> tuple[list[Row], dict[str, str]]:
    """Return the rows with BLEU and chrF++, and name of a score → its signature.

    Without sacrebleu, the rows are unchanged, and there are no signatures.

    rows: results of trainings, with translations
    references: the translations that people wrote
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return [*rows], {}
    signatures = dict[str, str]()
    scored = list[Row]()
    for row in rows:
        scores = dict[str, float]()
        metrics = {"BLEU": BLEU(force=True), "chrF++": CHRF(word_order=2)}  # force: no warning
        for name, metric in metrics.items():
            scores[name] = metric.corpus_score(row["translations"], [references]).score
            signatures[name] = str(metric.get_signature())
        scored.append({**row, **scores})
    return scored, signatures
