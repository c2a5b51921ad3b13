"""Candidates → which tokens a method removes, on the unchanged course of BPE; what is removed is split back.

    transport    the transport's mass of a token falls below min_share · b_j (volt.choose)
    picky        a merge of (a, b) takes at least the share τ of all a: a goes, and likewise b (Chizhov et al. 2024)
    scaffold     a part of a merge is rarer than the next candidate, until it is no longer (Lian et al. 2024)

Chizhov et al. write IoS(a | a, b) = n(ab) / n(a), with the counts before the merge; that is the share of a that the
merge takes, but for a = b, where a merge of n takes 2 n. Their removal splits the tokens at once, so it changes later
merges, and a removed token may come back; here later merges are those of BPE (see experiments.trimming.picky).

>>> candidates = volt.learn_bpe({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 9)
>>> [candidates.tokens[token] for token in np.flatnonzero(picky(candidates, tau=1.0).removed(9))]
['st</w>', 'west</w>', 'ne', 'wi']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import volt
from volt.choose.size_steps import size_steps
from volt.errors import ConfigError

Flags = NDArray[np.bool_]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Course:
    """The counts around each merge. All (n_merges, …) int64.

    before, after: (n_merges, 2), the counts of the two parts
    made: (n_merges,), how often the merge was made, weighted by word count
    """

    before: Longs
    after: Longs
    made: Longs

    @classmethod
    def of(cls, candidates: volt.Candidates) -> Course:
        """The course of learned candidates."""
        change, n_tokens = candidates.trajectory, candidates.n_tokens
        keys = change.merges.astype(np.int64) * n_tokens + change.tokens
        order = np.argsort(keys)
        merges = np.arange(candidates.n_merges, dtype=np.int64)
        wanted = merges[:, None] * n_tokens + np.column_stack([candidates.parts, candidates.results])
        rows = order[np.searchsorted(keys[order], wanted)]
        return cls(change.before[rows[:, :2]], change.after[rows[:, :2]], change.after[rows[:, 2]])


@dataclass(frozen=True, slots=True)
class Method:
    """A way to remove tokens.

    name: as in the table
    removed: the number of merges → (n_atoms + n_merges,) bool, which tokens go
    """

    name: str
    removed: Callable[[int], Flags] = field(repr=False)


def plain(candidates: volt.Candidates) -> Method:
    """BPE itself, which keeps all."""
    return Method("BPE", lambda n: np.zeros(candidates.n_atoms + n, bool))


def transport(candidates: volt.Candidates, *, min_share: float) -> Method:
    """What the transport of VOLT drops. Raises ConfigError if min_share is outside [0, 1]."""
    parameters = volt.Parameters(min_share=min_share)

    def removed(n: int) -> Flags:
        [step] = size_steps(candidates, [candidates.n_atoms + n], parameters=parameters)
        return ~step.kept

    return Method(f"transport, min_share {min_share:g}", removed)


def picky(candidates: volt.Candidates, *, tau: float) -> Method:
    """What a merge uses up: a part of which it takes at least the share tau. Raises ConfigError outside (0, 1]."""
    check_tau(tau)
    course = Course.of(candidates)
    taken = course.before - course.after
    goes_at = _first(candidates, taken >= tau * course.before)
    return Method(f"picky, τ {tau:g}", lambda n: goes_at[: candidates.n_atoms + n] < n)


def check_tau(tau: float) -> None:
    """Raise ConfigError if tau is no share above 0.

    >>> check_tau(0.9)
    """
    if not 0 < tau <= 1:
        raise ConfigError(f"tau is {tau}; give a number above 0 and at most 1")


def scaffold(candidates: volt.Candidates) -> Method:
    """Parts of merges that are rarer than the next candidate, now: one that was rarer may be common enough later."""
    course = Course.of(candidates)
    part_at = _first(candidates, np.ones_like(course.before, bool))

    def removed(n: int) -> Flags:
        size = candidates.n_atoms + n
        is_made = np.arange(size) >= candidates.n_atoms
        return is_made & (part_at[:size] < n) & (candidates.counts_at(size) < _next(course, n))

    return Method("scaffold", removed)


def scaffold_for_good(candidates: volt.Candidates) -> Method:
    """The same, where a part that is rarer than the next candidate once never comes back."""
    course = Course.of(candidates)
    following = np.append(course.made[1:], 0)
    goes_at = _first(candidates, course.after < following[:, None])
    return Method("scaffold, for good", lambda n: goes_at[: candidates.n_atoms + n] < n)


def _next(course: Course, n: int) -> int:
    """The count of the candidate behind the first n merges."""
    return int(course.made[n]) if n < len(course.made) else 0


def _first(candidates: volt.Candidates, goes: Flags) -> Longs:
    """(n_tokens,) the first merge at which a token goes as one of its parts; for atoms and others the number of merges.

    goes: (n_merges, 2)
    """
    first = np.full(candidates.n_tokens, candidates.n_merges)
    merges = np.repeat(np.arange(candidates.n_merges), 2)[goes.ravel()]
    np.minimum.at(first, candidates.parts.ravel()[goes.ravel()], merges)
    first[: candidates.n_atoms] = candidates.n_merges
    return first


def merges_for(method: Method, n_kept: int, *, candidates: volt.Candidates) -> int | None:
    """How many merges leave this many tokens; the nearest, where no number does; None if all leave fewer.

    >>> candidates = volt.learn_bpe({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 9)
    >>> merges_for(plain(candidates), 15, candidates=candidates) == 15 - candidates.n_atoms
    True
    """

    def kept(n: int) -> int:
        return int((~method.removed(n)).sum())

    low, high = n_kept - candidates.n_atoms, candidates.n_merges
    if low < 0 or high < low or kept(high) < n_kept:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept(middle) < n_kept else (low, middle)
    return min((low, high), key=lambda n: abs(kept(n) - n_kept))
