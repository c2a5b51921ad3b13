"""Counts → as many candidates as the rules need that are read off the exact curve.

>>> from volt.count.word_counts import WordCounts
>>> words = {f"{a}{b}{c}": 5 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
>>> learn_enough(WordCounts.from_pairs(words))
<Candidates: 93 tokens, 13 atoms, 80 merges, suffix, from 300 words>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from volt.choose.exact import Readings
from volt.choose.scaling import LanguageModel
from volt.count.word_counts import WordCounts
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates
from volt.text.markers import Marker

MOST_GROWN = 1 << 18  # merges, in steps that double


def learn_enough(
    counts: WordCounts | Mapping[str, int],
    *,
    marker: Marker | None = None,
    min_pair_count: int = 2,
    coverage: float = 1.0,
    model: LanguageModel | None = None,
    report: Callable[[int], object] | None = None,
) -> Candidates:
    """Learn merges until `balanced` is decided, no pair is left, or 262,144 merges are made.

    counts, marker, min_pair_count, coverage, report: as in `learn_bpe`
    model: a language model, whose size is to be reached as well
    Raises CandidateError if min_pair_count is below 1.

    >>> learn_enough({"low": 5, "lower": 2})
    <Candidates: 11 tokens, 6 atoms, 5 merges, suffix, from 7 words>
    """
    learn = partial(learn_bpe, counts, marker=marker, min_pair_count=min_pair_count, coverage=coverage, report=report)
    return learned_until_decided(learn, model)


def learned_until_decided(learn: Callable[..., Candidates], model: LanguageModel | None) -> Candidates:
    """What `learn` learns, called with more and more merges while a rule is undecided and pairs are left.

    learn: takes the number of merges; without one, it decides itself
    """
    found = learn()
    while found.left != 0 and found.n_merges < MOST_GROWN and _is_short(found, model):
        found = learn(min(2 * found.n_merges, MOST_GROWN))
    return found


def _is_short(candidates: Candidates, model: LanguageModel | None) -> bool:
    """Whether a rule is not decided yet."""
    readings = Readings.of(candidates)
    return readings.balanced().at_least or (model is not None and readings.scaling(model).at_least)
