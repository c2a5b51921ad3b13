"""Counts → as many candidates as the rules need that are read off the exact curve.

>>> from volt.count.word_counts import WordCounts
>>> words = {f"{a}{b}{c}": 5 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
>>> learn_enough(WordCounts.from_pairs(words))
<Candidates: 93 tokens, 13 atoms, 80 merges, suffix, from 300 words>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from volt.choose.exact import Readings
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
    report: Callable[[int], object] | None = None,
) -> Candidates:
    """Learn merges until `balanced` is decided, no pair is left, or 262,144 merges are made.

    counts, marker, min_pair_count, report: as in `learn_bpe`
    Raises CandidateError if min_pair_count is below 1.

    >>> learn_enough({"low": 5, "lower": 2})
    <Candidates: 11 tokens, 6 atoms, 5 merges, suffix, from 7 words>
    """
    found = learn_bpe(counts, marker=marker, min_pair_count=min_pair_count, report=report)
    while found.left != 0 and found.n_merges < MOST_GROWN and Readings.of(found).balanced().at_least:
        n_merges = min(2 * found.n_merges, MOST_GROWN)
        found = learn_bpe(counts, n_merges, marker=marker, min_pair_count=min_pair_count, report=report)
    return found
