"""Word counts → as many merges as `trained` and `balanced` need to pick a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from volt.choose.exact_curve import muv_search
from volt.choose.rules import ExactCurve, checked_training, may_grow
from volt.choose.scaling_law import LanguageModel
from volt.choose.training_law import Training
from volt.count.word_counts import WordCounts
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates
from volt.text.atoms import Marker

MOST_GROWN = 1 << 18  # merges; their number doubles at each step


def learn_enough(
    counts: WordCounts | Mapping[str, int],
    *,
    marker: Marker | None = None,
    min_pair_count: int = 2,
    coverage: float = 1.0,
    training: Training | None = None,
    model: LanguageModel | None = None,
    report: Callable[[int], object] | None = None,
) -> Candidates:
    """Learn merges until more could not change the picks of `trained` and `balanced`.

    At most 262,144 merges are learned.

    counts, marker, min_pair_count, coverage, report: as in `learn_bpe`
    training: the length of the training, as in `search`
    model: a language model; learning continues up to the size that it deserves

    >>> learn_enough({"low": 5, "lower": 2})
    <Candidates: 11 tokens, 6 atoms, 5 merges, suffix, from 7 words>
    """
    learn = partial(
        learn_bpe,
        counts,
        marker=marker,
        min_pair_count=min_pair_count,
        coverage=coverage,
        report=report,
    )
    return learned_until_decided(learn, training, model)


def learned_until_decided(
    learn: Callable[..., Candidates], training: Training | None, model: LanguageModel | None
) -> Candidates:
    """Learn more and more merges, until `trained`, `balanced` and `model` decide on sizes."""
    candidates = learn()
    training = checked_training(training)
    while may_grow(candidates) and candidates.n_merges < MOST_GROWN:
        curve = ExactCurve(candidates, muv_search(candidates))
        picks = [curve.balanced(), curve.trained(training)]
        if model:
            picks.append(curve.scaling(model))
        if not any(pick.at_least for pick in picks):
            break
        candidates = learn(min(2 * candidates.n_merges, MOST_GROWN))
    return candidates
