"""Word counts → `Candidates` with enough merges for the rules `trained` and `balanced`.

A rule can pick only a size that the merges reach. A pick has the flag `at_least` if further merges
might move it. So merges are learned anew, twice as many each time, until no pick has the flag:

    merges    largest size    a rule that computes 3,000 tokens picks
     1,000           1,060    at least 1,060
     2,000           2,060    at least 2,060
     4,000           4,060    3,000
"""

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

MAX_MERGES = 1 << 18  # no rule of a text that fits into memory has needed more


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
    """Learn merges until more merges could not change the picks of `trained` and `balanced`.

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
    return learn_until_picked(learn, training, model)


def learn_until_picked(
    learn: Callable[..., Candidates], training: Training | None, model: LanguageModel | None
) -> Candidates:
    """Double the number of merges until `trained`, `balanced` and `model` need no more.

    learn: maps a number of merges, or no argument for the default number, to candidates
    """
    training = checked_training(training)
    candidates = learn()
    while may_grow(candidates) and candidates.n_merges < MAX_MERGES:
        curve = ExactCurve(candidates, muv_search(candidates))
        picks = [curve.balanced(), curve.trained(training)]
        if model:
            picks.append(curve.scaling(model))
        if not any(pick.at_least for pick in picks):
            break
        candidates = learn(min(2 * candidates.n_merges, MAX_MERGES))
    return candidates
