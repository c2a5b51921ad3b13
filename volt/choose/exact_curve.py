"""Candidates → the exact entropy of the vocabulary at every size, and its marginal utility (MUV).

MUV(v_t) = −(H_t − H_{t−1}) / (|v_t| − |v_{t−1}|)       (Eq. 1), which MUV-search maximises
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import numpy as np

from volt import arguments
from volt.choose.criteria import Length, muv
from volt.display import counted
from volt.learn.candidates import Candidates, Floats, Longs


@dataclass(frozen=True, slots=True, eq=False)
class EntropyCurve:
    """All sizes, in tokens, that merges reach in turn, and the measures of each size.

    The measures are entropy, MUV and number of pieces.
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
    merges_at = np.searchsorted(candidates.sizes_after(), sizes, side="right") - 1
    lengths = candidates.lengths

    # With N = Σ n:  −Σ P log P = log N − (Σ n log n) / N
    def at_sizes(term: Callable[[Longs, Longs], Floats | Longs]) -> Floats:
        return candidates.curve(term)[merges_at]

    n = at_sizes(lambda counts, _: counts)
    n_log_n = at_sizes(lambda counts, _: counts * np.log(np.maximum(counts, 1)))
    if length == "type":
        means = np.cumsum(lengths)[sizes - 1] / sizes
    else:
        means = at_sizes(lambda counts, tokens: counts * lengths[tokens]) / n
    entropies = (np.log(n) - n_log_n / n) / means
    return EntropyCurve(sizes, entropies, muv(entropies, sizes), n.astype(np.int64))
