"""Curves and the sizes that rules pick → what each rule loses: on average, at worst, and how sure that is.

The interval is a bootstrap over corpora: the mean loss of as many corpora drawn with replacement, 10,000 times, from
the 2.5th to the 97.5th percentile. It says how the mean would move with other corpora of this kind, and nothing of
corpora of other kinds. The floor is what the smooth fit's best size loses: what no rule can be blamed for.

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
    """What a rule loses.

    rule: its name
    by_corpus: the loss on each corpus
    low, high: the interval of the mean
    """

    rule: str
    by_corpus: Mapping[str, float]
    low: float
    high: float

    @classmethod
    def of(cls, rule: str, by_corpus: Mapping[str, float]) -> Regret:
        """From the losses on all corpora, of which there is one or more."""
        values = np.array([*by_corpus.values()])
        drawn = np.random.default_rng(_SEED).choice(values, (_DRAWS, len(values))).mean(1)
        low, high = np.percentile(drawn, (2.5, 97.5))
        return cls(rule, dict(by_corpus), float(low), float(high))

    @property
    def mean(self) -> float:
        """Over corpora."""
        return float(np.mean([*self.by_corpus.values()]))

    @property
    def worst(self) -> float:
        """Over corpora."""
        return max(self.by_corpus.values())

    @property
    def worst_corpus(self) -> str:
        """Where it loses most."""
        return max(self.by_corpus, key=self.by_corpus.__getitem__)


def regrets(curves: Sequence[Curve], picks: Mapping[str, Mapping[str, int]], measure: Measure) -> list[Regret]:
    """What each rule loses on these curves, least first; the floor stands in front.

    picks: corpus → rule → size
    """
    floor = Regret.of(FLOOR, {one.corpus: measure.regret(one, one.smooth()) for one in curves})
    rules = [rule for rule in picks[curves[0].corpus] if all(rule in picks[one.corpus] for one in curves)]
    found = [
        Regret.of(rule, {one.corpus: measure.regret(one, picks[one.corpus][rule]) for one in curves}) for rule in rules
    ]
    return [floor, *sorted(found, key=lambda one: (one.mean, one.worst))]
