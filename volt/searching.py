"""Candidates → `SearchResult`: measure a range of sizes, let a rule choose, build the vocabulary.

>>> from volt.bpe import learn_bpe
>>> from volt.word_counts import WordCounts
>>> candidates = learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3}), n_merges=9)
>>> result = search(candidates, sizes=range(13, 21), select="knee")
>>> result.best.size, result.vocabulary.size, result.pick.why
(17, 14, 'entropy 1.276 lies farthest below the chord over the range')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.bpe import Candidates
from volt.criteria import Length, muv
from volt.errors import CandidateError
from volt.selection import Pick, all_picks, parse_rule
from volt.special import SpecialTokens
from volt.steps import Parameters, SizeStep, size_steps
from volt.vocabulary import Vocabulary

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
SMALL_CORPUS = 100_000  # words; below, most tokens beyond the commonest rest on a handful of occurrences


@dataclass(frozen=True, slots=True, eq=False)
class EntropyCurve:
    """Every size of a BPE sweep, from exact counts.

    sizes: (n,) int64;  entropies: (n,) Eq. 2, nats per character;  muv: (n − 1,) Eq. 1;  n_pieces: (n,) int64
    """

    sizes: Longs
    entropies: Floats
    muv: Floats
    n_pieces: Longs


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """What a search found.

    best: the chosen step;  pick: the rule's choice and why;  picks: what every rule would choose;  steps: all sizes
    curve: the sweep at every size;  warnings: what to know before trusting this;  signature: what reproduces it
    """

    best: SizeStep
    pick: Pick
    picks: dict[str, Pick]
    steps: tuple[SizeStep, ...]
    curve: EntropyCurve
    vocabulary: Vocabulary
    warnings: tuple[str, ...]
    signature: str
    candidates: Candidates = field(repr=False)


def search(
    candidates: Candidates,
    *,
    sizes: Sequence[int] | None = None,
    select: str = "knee",
    parameters: Parameters | None = None,
    special: SpecialTokens | None = None,
    byte_fallback: bool = False,
    report: Callable[[int], object] | None = None,
) -> SearchResult:
    """Find the vocabulary that the rule `select` chooses among `sizes` (by default some thirty round ones).

    Sizes count every token, atoms included, special tokens not. report: called with the number of sizes done.
    Raises CandidateError if there are no merges, or a size is below the number of atoms, above what the candidates
    offer, or not above the one before; ConfigError if the rule or a parameter is unknown or out of range.
    """
    if not candidates.n_merges:
        raise CandidateError(
            f"nothing to merge: in {candidates.counts.total:,} words no pair of characters occurs often enough; "
            "give more text, or lower min_pair_count"
        )
    fixed, parameters = parse_rule(select), parameters or Parameters()
    sizes = checked_sizes(candidates, default_sizes(candidates) if sizes is None else sizes, fixed=fixed)
    steps = tuple(size_steps(candidates, sizes, parameters=parameters, report=report))
    picks = all_picks(steps, fixed=fixed)
    pick = picks[select if fixed is None else f"fixed:{fixed}"]
    best = steps[pick.index]
    signature = _signature(candidates, sizes, select, parameters)
    return SearchResult(
        best=best,
        pick=pick,
        picks=picks,
        steps=steps,
        curve=muv_search(candidates, length=parameters.length),
        vocabulary=_vocabulary(candidates, best, signature, special or SpecialTokens(), byte_fallback),
        warnings=tuple(_warnings(candidates, steps, pick)),
        signature=signature,
        candidates=candidates,
    )


def muv_search(candidates: Candidates, *, length: Length = "type") -> EntropyCurve:
    """Entropy and MUV of the BPE sweep at every size from the atoms up: the paper's MUV-search at full resolution.

    >>> from volt.word_counts import WordCounts
    >>> from volt.bpe import learn_bpe
    >>> curve = muv_search(learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2}), n_merges=3))
    >>> curve.sizes, curve.n_pieces
    (array([6, 7, 8, 9]), array([25, 18, 13, 11]))
    """
    sizes = np.arange(candidates.n_atoms, candidates.n_tokens + 1)
    at = np.searchsorted(candidates.sizes_after(), sizes, side="right") - 1
    lengths = candidates.lengths
    n = candidates.curve(lambda counts, _: counts)[at]
    n_log_n = candidates.curve(lambda counts, _: counts * np.log(np.maximum(counts, 1)))[at]
    if length == "type":
        means = (np.cumsum(lengths) / np.arange(1, len(lengths) + 1))[sizes - 1]
    else:
        means = candidates.curve(lambda counts, tokens: counts * lengths[tokens])[at] / n
    entropies = (np.log(n) - n_log_n / n) / means
    return EntropyCurve(sizes, entropies, muv(entropies, sizes), n.astype(np.int64))


def default_sizes(candidates: Candidates) -> list[int]:
    """At most 32 round sizes, as far as the candidates reach.

    >>> from volt.word_counts import WordCounts
    >>> from volt.bpe import learn_bpe
    >>> default_sizes(learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2}), n_merges=3))
    [6, 7, 8, 9]
    """
    low, high = candidates.n_atoms, candidates.n_tokens
    step = next(step for k in range(9) for step in (10**k, 2 * 10**k, 5 * 10**k) if (high - low) / step <= 32)
    return [size for size in range(step, high + 1, step) if size >= low] or [high]


def checked_sizes(candidates: Candidates, sizes: Sequence[int], *, fixed: int | None = None) -> list[int]:
    """The sizes, and among them the fixed one. Raises CandidateError if one is out of range or they do not increase."""
    sizes = [int(size) for size in sizes]
    wanted = sizes if fixed is None else [fixed]
    for size, following in pairwise(sizes):
        if following <= size:
            raise CandidateError(f"sizes must increase, but {following} follows {size}")
    if not sizes:
        raise CandidateError("no sizes: give at least one, such as sizes=range(1000, 10000, 1000)")
    for size in (*sizes, *wanted):
        if size < candidates.n_atoms:
            raise CandidateError(
                f"size {size} is below the {candidates.n_atoms} atoms of this corpus, which every vocabulary holds; "
                f"start at {candidates.n_atoms} or more, or drop rare characters with min_count"
            )
        if size > candidates.n_tokens:
            raise CandidateError(
                f"size {size} is above the {candidates.n_tokens} tokens that {candidates.n_merges} merges make; "
                f"stop at {candidates.n_tokens} or less, or raise n_merges"
            )
    return sorted({*sizes, *wanted})


def _signature(candidates: Candidates, sizes: Sequence[int], select: str, parameters: Parameters) -> str:
    """What a result depends on, in one line."""
    counts = candidates.counts
    return (
        f"volt|corpus:{counts.fingerprint}|norm:{counts.normalizer.name}|pre:{counts.pretokenizer.name}"
        f"|marker:{candidates.marker}|merges:{candidates.n_merges}|sizes:{_range(sizes)}|select:{select}"
        f"|{parameters.signature}|version:{version('volt-vocab')}"
    )


def _range(sizes: Sequence[int]) -> str:
    """START:STOP:STEP where sizes are evenly spaced, otherwise their list."""
    steps = set(np.diff(sizes).tolist())
    return f"{sizes[0]}:{sizes[-1]}:{steps.pop()}" if len(steps) == 1 else ",".join(map(str, sizes))


def _vocabulary(
    candidates: Candidates, step: SizeStep, signature: str, special: SpecialTokens, byte_fallback: bool
) -> Vocabulary:
    """The vocabulary of a step: the merges of its size, its kept tokens, and their counts."""
    reserved = Vocabulary((), (), marker=candidates.marker, special=special, byte_fallback=byte_fallback).pieces
    kept = step.kept & ~np.isin(candidates.tokens[: step.size], reserved)
    counts = counts_of_kept(candidates, kept)
    return Vocabulary(
        merges=tuple(candidates.merges[: candidates.merges_at(step.size)]),
        tokens=tuple(token for token, keep in zip(candidates.tokens, kept, strict=False) if keep),
        counts=tuple(counts[kept].tolist()),
        marker=candidates.marker,
        normalizer=candidates.counts.normalizer,
        pretokenizer=candidates.counts.pretokenizer,
        special=special,
        byte_fallback=byte_fallback,
        provenance={"signature": signature, **_provenance(candidates, step)},
    )


def counts_of_kept(candidates: Candidates, kept: NDArray[np.bool_]) -> Longs:
    """Exact counts of a size's tokens once those not kept are split back into the parts of their first merge.

    kept: (size,) bool. Returns (size,) int64; only the counts of kept tokens mean anything.

    >>> from volt.word_counts import WordCounts
    >>> from volt.bpe import learn_bpe
    >>> candidates = learn_bpe(WordCounts.from_pairs({"low": 5, "lot": 2}), n_merges=2)
    >>> counts_of_kept(candidates, np.array([True] * 4 + [False, True]))[[0, 1, 2, 3, 5]]
    array([2, 2, 0, 2, 5])
    """
    counts = candidates.counts_at(len(kept))
    results, first_merges = np.unique(candidates.results, return_index=True)
    parts = dict(zip(results.tolist(), candidates.parts[first_merges].tolist(), strict=True))
    for token in np.flatnonzero(~kept)[::-1].tolist():
        for part in parts.get(token, ()):
            counts[part] += counts[token]
    return counts


def _provenance(candidates: Candidates, step: SizeStep) -> dict[str, Any]:
    counts = candidates.counts
    return {
        "words": counts.total,
        "distinct_words": counts.n_words,
        "lines": counts.n_lines,
        "candidates": candidates.n_tokens,
        "size": step.size,
        "entropy": step.entropy,
        "converged": step.converged,
        "iterations": step.n_iters,
    }


def _warnings(candidates: Candidates, steps: Sequence[SizeStep], pick: Pick) -> Iterator[str]:
    """What to know before trusting the result, and what to do about it."""
    if pick.on_edge and len(steps) > 1:
        yield (
            f"{pick.rule} picks {pick.size:,}, on the edge of the searched range {steps[0].size:,} to "
            f"{steps[-1].size:,}: the range decides, not the corpus. Widen it, or choose another rule"
        )
    failed = [step for step in steps if not step.converged]
    if failed:
        found = f"{len(failed)} of {len(steps)} transports did not converge, first at {failed[0].size:,}"
        yield f"{found}: {failed[0].remedy}"
    if candidates.counts.total < SMALL_CORPUS:
        yield (
            f"{candidates.counts.total:,} words are a tiny corpus: most tokens rest on a few occurrences. "
            "Expect another choice from more text"
        )
    if candidates.counts.n_bad_lines:
        yield f"{candidates.counts.n_bad_lines:,} lines were not UTF-8 and were repaired or skipped"
