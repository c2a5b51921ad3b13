"""Candidates → the entropy and the marginal utility (MUV) of the vocabulary at every size.

A size is a number of tokens. Sizes go from the atoms alone to all candidates, one by one:

    H_t   = −(1/l) Σ_j P(j) log P(j)                     (Eq. 2) of the first t candidates
    MUV_t = −(H_t − H_{t−1}) / (t − (t−1))               (Eq. 1), which MUV-search maximises

No size is encoded. With n_j the count of token j and N = Σ n_j,

    −Σ P log P = log N − (Σ n_j log n_j) / N

so the sums of n_j and of n_j log n_j suffice, and a merge changes three of their summands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import numpy as np

from volt import arguments
from volt.array_types import Array, Floats, Longs
from volt.choose.criteria import Length, muv
from volt.display import counted
from volt.learn.candidates import Candidates


@dataclass(frozen=True, slots=True, eq=False)
class EntropyCurve:
    """Every size from the atoms to all candidates, and the measures of each size.

    sizes: (n,) tokens
    entropies: (n,) nats per character
    muv: (n − 1,) Eq. 1 of each size but the first
    n_pieces: (n,) the number of pieces in the corpus
    """

    sizes: Longs
    entropies: Floats
    muv: Floats
    n_pieces: Longs

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.sizes), 'size')} from {self.sizes[0]:,} to {self.sizes[-1]:,}"
        entropies = f"{self.entropies[0]:.4f} to {self.entropies[-1]:.4f}"
        return f"<EntropyCurve: {sizes}, entropy {entropies}>"


def muv_search(candidates: Candidates, *, length: Length = "type") -> EntropyCurve:
    """Compute entropy and MUV at every size from exact counts.

    This is the paper's MUV-search at full resolution.

    candidates: the result of `learn_bpe` or `replay_bpe`
    length: whether the mean length l is taken over tokens ("type") or occurrences ("occurrence")

    >>> from volt.learn.bpe import learn_bpe
    >>> curve = muv_search(learn_bpe({"low": 5, "lower": 2}, n_merges=3))
    >>> curve.sizes, curve.n_pieces
    (array([6, 7, 8, 9]), array([25, 18, 13, 11]))
    """
    candidates = arguments.instance(candidates, Candidates, "candidates")
    arguments.choice(length, "length", get_args(Length))
    sizes = np.arange(candidates.smallest, candidates.n_tokens + 1)
    lengths = candidates.lengths

    n = sum_at_every_size(candidates, lambda counts, _: counts)
    n_log_n = sum_at_every_size(
        candidates, lambda counts, _: counts * np.log(np.maximum(counts, 1))
    )
    if length == "type":
        mean_lengths = np.cumsum(lengths)[sizes - 1] / sizes
    else:
        n_characters = sum_at_every_size(candidates, lambda counts, j: counts * lengths[j])
        mean_lengths = n_characters / n
    entropies = (np.log(n) - n_log_n / n) / mean_lengths
    return EntropyCurve(sizes, entropies, muv(entropies, sizes), n.astype(np.int64))


def sum_at_every_size(candidates: Candidates, term: Callable[[Longs, Array], Array]) -> Floats:
    """Return Σ_j term(n_j, j) over the tokens j of each size, (n_sizes,).

    term: maps counts (n,) and token numbers (n,) to summands (n,), and a count of 0 to 0
    """
    return candidates.curve(term)[merges_at_every_size(candidates)]


def merges_at_every_size(candidates: Candidates) -> Longs:
    """Return the number of merges of each size, (n_sizes,)."""
    sizes = np.arange(candidates.smallest, candidates.n_tokens + 1)
    return np.searchsorted(candidates.sizes_after(), sizes, side="right") - 1
