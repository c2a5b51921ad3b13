"""A method and a number of kept tokens → what the vocabulary is like: pieces, rare types, F95, Rényi efficiency.

>>> words = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
>>> candidates = volt.learn_bpe(words, 9)
>>> row = measured(plain(candidates), 15, candidates=candidates, heldout=Counter({"lowest": 1}))
>>> row.n_kept, row.n_merges, row.train, row.heldout
(15, 4, 48, 2)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import volt
from experiments.trimming import picky as reference
from experiments.trimming.removal import (
    Longs,
    Method,
    merges_for,
    picky,
    plain,
    scaffold,
    scaffold_for_good,
    transport,
)
from volt.choose.criteria import f95, rare_share, renyi_efficiency
from volt.choose.vocabulary_at import vocabulary_at

MIN_SHARES, TAUS = (0.001, 0.1, 0.2, 0.5), (1.0, 0.9, 0.8, 0.7, 0.6)


@dataclass(frozen=True, slots=True)
class Row:
    """A method at a number of kept tokens.

    n_merges: merges that were made; of Picky BPE as published, some twice
    train, heldout: pieces of either text
    rare: the share of the kept tokens that occur fewer than 100 times in the training text
    seconds: of choosing what goes, and for the reference of learning
    """

    method: str
    n_kept: int
    n_merges: int
    train: int
    heldout: int
    rare: float
    f95: float
    renyi: float
    seconds: float
    kept: frozenset[str] = field(repr=False)
    removed: frozenset[str] = field(repr=False)


def measured(method: Method, n_kept: int, *, candidates: volt.Candidates, heldout: Mapping[str, int]) -> Row | None:
    """A method with as many merges as leave n_kept tokens, atoms included; None where no number does."""
    start = time.perf_counter()
    n_merges = merges_for(method, n_kept, candidates=candidates)
    if n_merges is None:
        return None
    removed = method.removed(n_merges)
    seconds = time.perf_counter() - start
    vocabulary = vocabulary_at(candidates, candidates.n_atoms + n_merges, kept=~removed)
    pieces = pieces_of(volt.Encoder(vocabulary).encode_words, heldout)
    gone = frozenset(token for token, goes in zip(candidates.tokens, removed.tolist(), strict=False) if goes)
    return _row(
        method.name, n_merges, np.array(vocabulary.counts), sum(pieces.values()), vocabulary.tokens, gone, seconds
    )


def measured_reference(tau: float, n_kept: int, *, train: Mapping[str, int], heldout: Mapping[str, int]) -> Row:
    """Picky BPE as it is meant, learned anew."""
    start = time.perf_counter()
    model = reference.learn(train, n_tokens=n_kept, tau=tau)
    seconds = time.perf_counter() - start
    trained = pieces_of(lambda words: [model.pieces[word] for word in words], train)
    pieces = pieces_of(lambda words: map(model.encode, words), heldout)
    counts = np.array([trained[token] for token in sorted(model.tokens)])
    name, gone = f"picky as published, τ {tau:g}", frozenset(model.removed)
    n_merges = sum(isinstance(event.thing, tuple) for event in model.events)
    return _row(name, n_merges, counts, sum(pieces.values()), model.tokens, gone, seconds)


def pieces_of(encode: Callable[[list[str]], Iterable[Sequence[str]]], words: Mapping[str, int]) -> Counter[str]:
    """How often each piece occurs in a text, given as its words.

    >>> pieces_of(lambda words: [list(word) for word in words], {"aa": 2, "b": 1})
    Counter({'a': 4, 'b': 1})
    """
    found = Counter[str]()
    for pieces, count in zip(encode(list(words)), words.values(), strict=True):
        for piece in pieces:
            found[piece] += count
    return found


def _row(
    name: str, n_merges: int, counts: Longs, heldout: int, kept: Iterable[str], gone: frozenset[str], seconds: float
) -> Row:
    return Row(
        method=name, n_kept=len(counts), n_merges=n_merges, train=int(counts.sum()), heldout=heldout,
        rare=rare_share(counts), f95=f95(counts), renyi=renyi_efficiency(counts), seconds=seconds,
        kept=frozenset(kept), removed=gone,
    )  # fmt: skip


def study(train: Mapping[str, int], heldout: Mapping[str, int], n_kept: int, *, n_merges: int = 100_000) -> list[Row]:
    """All methods at one number of kept tokens; those that cannot leave as many are missing."""
    candidates = volt.learn_bpe(train, n_merges)
    methods = [
        plain(candidates), *(transport(candidates, min_share=share) for share in MIN_SHARES),
        *(picky(candidates, tau=tau) for tau in TAUS), scaffold(candidates), scaffold_for_good(candidates),
    ]  # fmt: skip
    found = [measured(method, n_kept, candidates=candidates, heldout=heldout) for method in methods]
    rows = [row for row in found if row is not None]
    return rows + [measured_reference(tau, n_kept, train=train, heldout=heldout) for tau in TAUS]


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard's index of two sets; 1 for two that are empty.

    >>> overlap(frozenset("ab"), frozenset("bc"))
    0.3333333333333333
    """
    return len(one & other) / len(one | other) if one | other else 1.0
