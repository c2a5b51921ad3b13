"""The sizes that a search measures: round ones or those asked for, and beside them what the rules pick.

>>> from volt.count.word_counts import WordCounts
>>> from volt.learn.bpe import learn_bpe
>>> candidates = learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2}), n_merges=3)
>>> default_sizes(candidates), checked_sizes(candidates, range(6, 10, 2))
([6, 7, 8, 9], [6, 8])
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from volt import arguments
from volt.errors import CandidateError
from volt.learn.candidates import Candidates

LARGEST, MOST = 30_000, 24  # of the sizes that are searched where none are given: tokens, and how many


def default_sizes(candidates: Candidates) -> list[int]:
    """At most 24 round sizes, up to 30,000 tokens, or twice the smallest, as far as the candidates reach."""
    low = candidates.smallest
    high = min(candidates.n_tokens, max(LARGEST, 2 * low))
    step = next(step for k in range(9) for step in (10**k, 2 * 10**k, 5 * 10**k) if (high - low) / step <= MOST)
    return [size for size in range(step, high + 1, step) if size >= low] or [high]


def checked_sizes(candidates: Candidates, sizes: Sequence[int]) -> list[int]:
    """The sizes. Raises CandidateError if one is out of range or they do not increase."""
    if isinstance(sizes, int | float):
        raise arguments.refusal(sizes, "sizes", f"did you mean sizes=[{sizes}], or select={sizes}?")
    if isinstance(sizes, range) and sizes:
        checked_size(candidates, min(sizes[0], sizes[-1]))  # before a range of billions is listed
        checked_size(candidates, max(sizes[0], sizes[-1]))
    sizes = arguments.wholes(sizes, "sizes")
    for size, following in pairwise(sizes):
        if following <= size:
            raise CandidateError(f"sizes must increase, but {following} follows {size}")
    if not sizes:
        raise CandidateError("no sizes: give at least one, such as sizes=range(1000, 10000, 1000)")
    return [checked_size(candidates, size) for size in sizes]


def checked_size(candidates: Candidates, size: int) -> int:
    """A size that the candidates offer. Raises CandidateError for others."""
    if candidates.extends and size < candidates.smallest:
        raise CandidateError(
            f"size {size} is below the {candidates.smallest} tokens that are extended, those that it only makes on "
            f"the way and new atoms included; start at {candidates.smallest} or more"
        )
    if size < candidates.n_atoms:
        raise CandidateError(
            f"size {size} is below the {candidates.n_atoms} atoms of this corpus, which every vocabulary holds; "
            f"start at {candidates.n_atoms} or more, or drop rare characters with min_count"
        )
    if size > candidates.n_tokens:
        raise CandidateError(
            f"size {size} is above the {candidates.n_tokens} tokens that {candidates.n_merges} merges make; "
            f"stop at {candidates.n_tokens} or less, or {remedy(candidates)}"
        )
    return size


def remedy(candidates: Candidates) -> str:
    """What to do for more tokens than the candidates offer."""
    return "give more text: no pair is left to merge" if candidates.left == 0 else "raise n_merges"


def as_text(sizes: Sequence[int]) -> str:
    """Sizes as a signature tells them: FIRST:LAST:STEP where they are evenly spaced, otherwise their list.

    >>> as_text([1000, 2000, 3000]), as_text([1, 2, 4])
    ('1000:3000:1000', '1,2,4')
    """
    steps = {following - size for size, following in pairwise(sizes)}
    return f"{sizes[0]}:{sizes[-1]}:{steps.pop()}" if len(steps) == 1 else ",".join(map(str, sizes))
