"""Word counts → as many merges as the default rule needs to pick a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from volt.choose.exact_curve import muv_search
from volt.choose.rules import ExactCurve
from volt.choose.scaling_law import LanguageModel
from volt.count.word_counts import WordCounts
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates
from volt.text.atoms import Marker

MOST_GROWN = 1 << 18  # merges; their number doubles at each step


def learn_enough(
    counts: WordCounts | Mapping[str, int], *, marker: Marker | None = None, min_pair_count: int = 2,
    coverage: float = 1.0, model: LanguageModel | None = None, report: Callable[[int], object] | None = None,
) -> Candidates:  # fmt: skip
    """Learn merges until more could not change the pick of `balanced`, no pair is left, or there are 262,144 merges.

    counts, marker, min_pair_count, coverage, report: as in `learn_bpe`
    model: a language model; learning continues up to the size that it deserves

    >>> learn_enough({"low": 5, "lower": 2})
    <Candidates: 11 tokens, 6 atoms, 5 merges, suffix, from 7 words>
    """
    learn = partial(learn_bpe, counts, marker=marker, min_pair_count=min_pair_count, coverage=coverage, report=report)
    return learned_until_decided(learn, model)


def learned_until_decided(learn: Callable[..., Candidates], model: LanguageModel | None) -> Candidates:
    """Learn more and more merges, until further merges could not change the picks of `balanced` and of `model`."""
    result = learn()
    while result.left != 0 and result.n_merges < MOST_GROWN:
        curve = ExactCurve(result, muv_search(result))
        if not (curve.balanced().at_least or (model and curve.scaling(model).at_least)):
            break
        result = learn(min(2 * result.n_merges, MOST_GROWN))
    return result
