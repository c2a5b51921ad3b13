"""Results and picks → TABLES.md: the score of each size on each corpus, and the loss of each rule.

The interval of a rule's mean loss is a bootstrap over corpora: how it would move with other corpora of this kind. The
floor is the loss of the best size of a smooth fit through the scores themselves. Corpora with fewer than three tried
sizes are left out, and so are rules that pick far beyond the tried sizes; a pick somewhat beyond scores as the nearest.

>>> curve = Curve("ted-fi", np.array([1000, 4000]), (np.array([2.5, 2.5]), np.array([2.4])))
>>> print(scores_table([curve], MEASURES["text"], {"ted-fi": {"balanced": 2345}}))
| corpus | 1 k | 4 k | `balanced` |
| --- | --: | --: | --: |
| ted-fi | 2.500 | **2.400** | 2,345 |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.evidence.curves import MEASURES, Measure, curves
from volt.display import counted
from volt.trial.results import Curve

FLOOR = "smooth fit"
_DRAWS, _SEED = 10_000, 1
Picks = Mapping[str, Mapping[str, int]]
TITLES = {
    "text": "Language models: bits per character when every size learned from the same text",
    "longer": "Language models: bits per character with four times the text to learn from",
    "compute": "Language models: bits per character at the operations that the cheapest size needed",
    "translation": "Translation: bits per character of the target",
    "BLEU": "Translation: BLEU",
    "chrF2": "Translation: chrF2",
}

_ABOUT = """\
Written by `python -m experiments.evidence report`. A size counts tokens before those that no longer occur are dropped,
so there are up to 10 % fewer ids. The best size of a corpus is bold; in brackets stands how many pieces a text has, if
they are fewer than the size. *Beyond* says on how many corpora a rule's pick lies beyond the sizes tried (by at most
a factor of two; it scores as the one next to it); a rule that goes farther is left out, and so are corpora of which
fewer than three sizes were tried. Bits per byte are bits per character times the characters of a text over its bytes,
both of which the results hold, so the losses in per cent are the same."""


@dataclass(frozen=True, slots=True)
class Regret:
    """The losses of a rule. low, high: of the mean;  n_beyond: corpora whose pick lies beyond the tried sizes.

    >>> found = Regret.of("median500", {"a": 0.0, "b": 2.0, "c": 1.0})
    >>> found.mean, found.worst, found.worst_corpus, found.low <= found.mean <= found.high
    (1.0, 2.0, 'b', True)
    """

    rule: str
    by_corpus: Mapping[str, float]
    low: float
    high: float
    n_beyond: int = 0

    @classmethod
    def of(cls, rule: str, by_corpus: Mapping[str, float], *, n_beyond: int = 0) -> Regret:
        values = np.array([*by_corpus.values()])
        drawn = np.random.default_rng(_SEED).choice(values, (_DRAWS, len(values))).mean(1)
        low, high = np.percentile(drawn, (2.5, 97.5))
        return cls(rule, dict(by_corpus), float(low), float(high), n_beyond)

    @property
    def mean(self) -> float:
        return float(np.mean([*self.by_corpus.values()]))

    @property
    def worst(self) -> float:
        return max(self.by_corpus.values())

    @property
    def worst_corpus(self) -> str:
        return max(self.by_corpus, key=self.by_corpus.__getitem__)


def regrets(
    curves: Sequence[Curve], picks: Mapping[str, Mapping[str, int]], measure: Measure
) -> list[Regret]:
    """Return the floor and the losses of all rules, least first; nothing if too few sizes were tried.

    picks: corpus → rule → size
    """
    judged = [one for one in curves if len(one.sizes) > 2]
    if not judged:
        return []
    floor = Regret.of(FLOOR, {one.corpus: measure.regret(one, smooth_best(one)) for one in judged})
    rules = [
        rule
        for rule in picks[judged[0].corpus]
        if all(
            rule in picks[one.corpus] and is_near(one, picks[one.corpus][rule]) for one in judged
        )
    ]
    found = [_of_rule(rule, judged, picks, measure) for rule in rules]
    return [floor, *sorted(found, key=lambda one: (one.mean, one.worst))]


def is_near(curve: Curve, size: int) -> bool:
    """Check that a size is at most a factor of two beyond the tried sizes."""
    return bool(curve.sizes[0] <= 2 * size and size <= 2 * curve.sizes[-1])


def smooth_best(curve: Curve) -> int:
    """Return the best size of a parabola over log size, fitted through all scores."""
    places = np.repeat(np.log(curve.sizes), [len(one) for one in curve.scores])
    fit = np.polynomial.Polynomial.fit(
        places, np.concatenate(curve.scores), min(2, len(curve.sizes) - 1)
    )
    inner = np.linspace(places.min(), places.max(), 1001)
    return round(float(np.exp(inner[np.argmin(fit(inner))])))


def _of_rule(
    rule: str, curves: Sequence[Curve], picks: Mapping[str, Mapping[str, int]], measure: Measure
) -> Regret:
    chosen = {one.corpus: picks[one.corpus][rule] for one in curves}
    lost = {one.corpus: measure.regret(one, chosen[one.corpus]) for one in curves}
    n_beyond = sum(not one.sizes[0] <= chosen[one.corpus] <= one.sizes[-1] for one in curves)
    return Regret.of(rule, lost, n_beyond=n_beyond)


def document(
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    picks: Picks,
    longer: Sequence[Mapping[str, Any]],
) -> str:
    """Write TABLES.md. rows: kind → results;  longer: results of language models that learned from more text."""
    parts = ["# What each size scored, and what each rule loses", _ABOUT]
    for name, measure in MEASURES.items():
        parts += section(TITLES[name], rows[measure.kind], measure, picks)
    parts += section(TITLES["longer"], longer, MEASURES["text"], picks)
    return "\n\n".join(parts) + "\n"


def section(
    title: str, rows: Sequence[Mapping[str, Any]], measure: Measure, picks: Picks
) -> Iterator[str]:
    if not rows:
        return
    drawn = curves(rows, measure)
    yield from (f"## {title}", about(rows, measure), scores_table(drawn, measure, picks))
    if found := regrets(drawn, picks, measure):
        yield from (f"Over {', '.join(found[0].by_corpus)}:", regrets_table(found, measure))


def about(rows: Sequence[Mapping[str, Any]], measure: Measure) -> str:
    """Write the number of trainings, the spread between seeds, and the signatures of scores."""
    drawn = curves(rows, measure)
    spread = [float(np.ptp(one)) for curve in drawn for one in curve.scores if len(one) > 1]
    text = f"{counted(len(rows), 'training')}, {sum(row['seconds'] for row in rows) / 3600:.1f} hours of one core."
    if spread:
        text += f" Between two seeds a score moves by {np.median(spread):.3f} (median), {max(spread):.3f} at most."
    signatures = sorted({one for row in rows for one in row.get("signatures", ())})
    return text + "".join(f" `{one}`" for one in signatures)


def scores_table(drawn: Sequence[Curve], measure: Measure, picks: Picks) -> str:
    """Write a row for each corpus and a column for each size; the best is bold, a text with fewer pieces says so."""
    sizes = sorted({asked(int(size)) for curve in drawn for size in curve.sizes})
    rows = [
        [curve.corpus, *_cells(curve, sizes, measure), f"{picks[curve.corpus]['balanced']:,}"]
        for curve in drawn
    ]
    return table(["corpus", *map(short, sizes), "`balanced`"], rows)


def _cells(curve: Curve, sizes: Sequence[int], measure: Measure) -> Iterator[str]:
    by_column = {
        asked(size): (size, mean)
        for size, mean in zip(curve.sizes.tolist(), curve.means.tolist(), strict=True)
    }
    digits = 3 if measure.unit == "%" else 1
    for column in sizes:
        size, mean = by_column.get(column, (column, np.nan))
        shown = "–" if np.isnan(mean) else f"{measure.sign * mean:.{digits}f}"
        shown = f"**{shown}**" if mean == curve.best else shown
        yield shown if size == column else f"{shown} ({short(round(size, -2))})"


def asked(size: int) -> int:
    """Return the grid's size that a training with all pieces of a text stands for.

    >>> asked(500), asked(16_000), asked(12_682)
    (500, 16000, 16000)
    """
    return int(500 * 2 ** np.ceil(np.log2(size / 500)))


def regrets_table(found: Sequence[Regret], measure: Measure) -> str:
    rows = [
        [
            named(one.rule),
            f"{one.mean:.2f}",
            f"{one.low:.2f}–{one.high:.2f}",
            f"{one.worst:.2f}",
            one.worst_corpus,
            str(one.n_beyond or ""),
        ]
        for one in found
    ]
    return table(
        ["rule", f"loses on average, {measure.unit}", "95 %", "at worst", "on", "beyond"], rows
    )


def named(rule: str) -> str:
    """Format a rule.

    >>> named("median500"), named("always 8,000"), named(FLOOR)
    ('`median500`', 'always 8,000', 'smooth fit')
    """
    return rule if rule.startswith("always") or rule == FLOOR else f"`{rule}`"


def short(size: int) -> str:
    """Format a size in thousands.

    >>> short(500), short(16_000)
    ('0.5 k', '16 k')
    """
    return f"{size / 1000:g} k"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(head), ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
