"""How far a corpus supports the size that was picked, in words, and what to know before trusting a search.

>>> from volt.count.word_counts import WordCounts
>>> from volt.learn.bpe import learn_bpe
>>> supported(learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2}), n_merges=3), 8)
'weak support: half of the tokens in use occur 2 times or more'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from volt.choose.exact import FED_COUNT
from volt.choose.rules import Pick
from volt.choose.size_steps import SizeStep
from volt.count.spacing import unspaced, warning
from volt.display import counted
from volt.learn.candidates import Candidates

FAIR_COUNT = 50
SMALL_CORPUS = 100_000  # words; in fewer, all but the commonest tokens occur a handful of times


def supported(candidates: Candidates, size: int) -> str:
    """How often half of the tokens in use occur at least, those that occur at all, and what that means."""
    counts = candidates.counts_at(size)[candidates.smallest if candidates.extends else 0 :]
    used = np.sort(counts[counts > 0])
    median = int(used[len(used) // 2]) if len(used) else 0  # of an even number the upper one, as the rule fed has it
    degree = "good" if median >= FED_COUNT else "fair" if median >= FAIR_COUNT else "weak"
    kind = "new token" if candidates.extends else "token"
    return f"{degree} support: half of the {kind}s in use occur {counted(median, 'time')} or more"


def caveats(
    candidates: Candidates, steps: Sequence[SizeStep], searched: Sequence[int], pick: Pick, *, n_certain: int | None
) -> Iterator[str]:
    """Sentences on what to know before trusting the result, and on what to do about it.

    searched: the sizes that were asked for
    n_certain: how many of the first merges are those of all words; None if that is not known
    """
    if pick.at_least:
        yield f"{pick.rule} picks {pick.told}: {_undecided(candidates, pick)}"
    elif pick.on_edge and len(searched) > 1:
        yield (
            f"{pick.rule} picks {pick.size:,}, on the edge of the searched range {searched[0]:,} to "
            f"{searched[-1]:,}: the range decides, not the corpus. Widen it, or choose another rule"
        )
    failed = [step for step in steps if not step.converged]
    if failed:
        found = f"{len(failed)} of {len(steps)} transports did not converge, first at {failed[0].size:,}"
        yield f"{found}: {failed[0].remedy}"
    if text := unspaced(candidates.counts):
        yield warning(text)
    elif candidates.counts.total < SMALL_CORPUS:
        yield (
            f"{candidates.counts.total:,} words are a tiny corpus: most tokens rest on a few occurrences. "
            "Expect another choice from more text"
        )
    if candidates.counts.left_out_pairs.most:
        yield _left_out(candidates, n_certain)
    if candidates.counts.n_bad_lines:
        n_bad = candidates.counts.n_bad_lines
        were = "was" if n_bad == 1 else "were"
        yield f"{counted(n_bad, 'line')} {were} not UTF-8 and {were} repaired or skipped"


def _undecided(candidates: Candidates, pick: Pick) -> str:
    """Why a pick may be greater."""
    if candidates.left == 0:
        return f"no pair is left to merge behind {candidates.n_tokens:,} tokens. Give more text"
    return f"the candidates end at {candidates.n_tokens:,} tokens. Raise n_merges"


def _left_out(candidates: Candidates, n_certain: int | None) -> str:
    """How much of the words was left out, and what that leaves certain."""
    counts = candidates.counts
    share = f"{100 * counts.n_left_out / (counts.n_left_out + counts.total):.3g} % of all"
    if counts.bound:
        told = f"none is too low by more than {counts.bound:,}, and none was when words were left out, {share}"
        told = f"counts are approximate: {told}"
    else:
        told = f"words that occur too rarely were left out, {share}"
    return f"{told}. {_certain(candidates.n_merges, n_certain)}".removesuffix(". ")


def _certain(n_merges: int, n_certain: int | None) -> str:
    """What is known of the merges of all words.

    >>> _certain(9, 9), _certain(9, 1)
    ('All 9 merges are those of all words', 'The first merge is that of all words; later ones could differ')
    """
    if n_certain is None:
        return ""
    if n_certain == n_merges:
        return f"All {counted(n_merges, 'merge')} are those of all words"
    if not n_certain:
        return f"With them each of the {counted(n_merges, 'merge')} could be another"
    one_or_more = f"first {n_certain:,} of {n_merges:,} merges are those" if n_certain > 1 else "first merge is that"
    return f"The {one_or_more} of all words; later ones could differ"
