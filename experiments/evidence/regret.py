"""Curves and the sizes that rules pick → what each rule loses: on average, at worst, and how sure that is.

The interval is a bootstrap over corpora: the mean loss of as many corpora drawn with replacement, 10,000 times, from
the 2.5th to the 97.5th percentile. It says how the mean would move with other corpora of this kind, and nothing of
corpora of other kinds. The floor is what the best size by a smooth fit through the very scores loses; a rule that sees
the text alone can hardly be blamed for as much. Corpora of which fewer than three sizes were tried are left out, and so
are rules that pick a size far beyond those tried on any corpus; a pick somewhat beyond scores as the size next to it.

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
    n_beyond: on how many corpora the pick lies beyond the sizes tried
    """

    rule: str
    by_corpus: Mapping[str, float]
    low: float
    high: float
    n_beyond: int = 0

    @classmethod
    def of(cls, rule: str, by_corpus: Mapping[str, float], *, n_beyond: int = 0) -> Regret:
        """From the losses on all corpora, of which there is one or more."""
        values = np.array([*by_corpus.values()])
        drawn = np.random.default_rng(_SEED).choice(values, (_DRAWS, len(values))).mean(1)
        low, high = np.percentile(drawn, (2.5, 97.5))
        return cls(rule, dict(by_corpus), float(low), float(high), n_beyond)

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
    """What each rule loses on these curves, least first; the floor stands in front. None if too few sizes were tried.

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
