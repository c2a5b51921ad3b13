"""Curves and the sizes that rules pick → the loss of each rule: mean, worst, and an interval of the mean.

The interval is a bootstrap over corpora (10,000 draws with replacement, 2.5th to 97.5th percentile): it shows how the
mean would move with other corpora of this kind. The floor is the loss of the best size of a smooth fit through the
scores themselves. Corpora with fewer than three tried sizes are left out, and so are rules that pick far beyond the
tried sizes of a corpus; a pick somewhat beyond scores as the nearest size.

>>> found = Regret.of("fed", {"a": 0.0, "b": 2.0, "c": 1.0})
>>> found.mean, found.worst, found.worst_corpus, found.low <= found.mean <= found.high
(1.0, 2.0, 'b', True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.evidence.curves import Curve, Measure

FLOOR = "smooth fit"
_DRAWS, _SEED = 10_000, 1


@dataclass(frozen=True, slots=True)
class Regret:
    """The losses of a rule. low, high: of the mean;  n_beyond: corpora whose pick lies beyond the tried sizes."""

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


def regrets(curves: Sequence[Curve], picks: Mapping[str, Mapping[str, int]], measure: Measure) -> list[Regret]:
    """Return the floor and the losses of all rules, least first; nothing if too few sizes were tried.

    picks: corpus → rule → size
    """
    judged = [one for one in curves if len(one.sizes) > 2]
    if not judged:
        return []
    floor = Regret.of(FLOOR, {one.corpus: measure.regret(one, one.smooth()) for one in judged})
    rules = [
        rule for rule in picks[judged[0].corpus]
        if all(rule in picks[one.corpus] and one.reaches(picks[one.corpus][rule]) for one in judged)
    ]  # fmt: skip
    found = [_of_rule(rule, judged, picks, measure) for rule in rules]
    return [floor, *sorted(found, key=lambda one: (one.mean, one.worst))]


def _of_rule(rule: str, curves: Sequence[Curve], picks: Mapping[str, Mapping[str, int]], measure: Measure) -> Regret:
    chosen = {one.corpus: picks[one.corpus][rule] for one in curves}
    lost = {one.corpus: measure.regret(one, chosen[one.corpus]) for one in curves}
    n_beyond = sum(not one.sizes[0] <= chosen[one.corpus] <= one.sizes[-1] for one in curves)
    return Regret.of(rule, lost, n_beyond=n_beyond)
