"""Tokens that join by rank → the one pair that makes each; and whole words that merging would not make.

Where any neighbours that spell a token may join, lowest rank first, a token is still made of one pair alone, wherever
it stands: until a stretch of text becomes one symbol no join has crossed its ends, so it goes through the same joins
as its characters alone. Those of shorter tokens are known when a token's own turn comes. Dropout passes over joins, so
it needs all the ways to make a token.

>>> spelled = Spelled(np.array([0, 1, 2, 1, 2, 0, 1, 0, 1, 2], np.int32), np.array([1, 2, 3, 5, 7, 10]))
>>> results = np.array([3, 4, 5], np.int32)  # "bc", "ab" and "abc", of "a", "b" and "c"
>>> [int((pairs(spelled, results).pairs != 0).sum()) for pairs in (own_pairs, all_pairs)]
[3, 4]
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from volt.kernels.pair_table import Merges
    from volt.kernels.spellings import Spellings

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class Spelled(NamedTuple):
    """The symbols of tokens.

    symbols: (n_symbols,) int32, token after token
    ends: (n_tokens,) int64, where those of each end
    """

    symbols: Ints
    ends: Longs

    @property
    def sizes(self) -> Longs:
        """How many symbols each token has, (n_tokens,)."""
        return np.diff(self.ends, prepend=0)

    def only(self, chosen: NDArray[np.bool_]) -> Spelled:
        """The chosen tokens; the others have no symbols, so that tokens keep their numbers."""
        sizes = np.where(chosen, self.sizes, 0)
        return Spelled(self.symbols[np.repeat(chosen, self.sizes)], np.cumsum(sizes))


NOTHING = Spelled(np.zeros(0, np.int32), np.zeros(0, np.int64))


def own_pairs(spelled: Spelled, results: Ints) -> Merges:
    """The joins that are met where none is passed over: one for each token that joining makes.

    results: (n_ranks,), the token that each rank makes
    """
    from volt.kernels.pair_table import filled

    return filled(len(results), results, partial(_entered, spelled=spelled), one_by_one=True)


def _entered(merges: Merges, spelled: Spelled) -> bool:
    """Enter the pairs of all tokens, those of shorter ones first. Returns False if the table must be larger."""
    from volt.kernels.pair_table import fill

    ranks, sizes = _ranks(merges.results, len(spelled.ends)), spelled.sizes
    for size in np.unique(sizes[(ranks >= 0) & (sizes > 1)]).tolist():
        tokens = np.flatnonzero((sizes == size) & (ranks >= 0))
        symbols = spelled.symbols[(spelled.ends[tokens] - size)[:, None] + np.arange(size)]
        alike = Spelled(symbols.ravel(), np.arange(1, len(tokens) + 1) * size)
        pieces, ends = _joined(alike, merges)
        are_two = np.diff(ends, prepend=0) == 2
        lefts, rights = (pieces[ends[are_two] - place] for place in (2, 1))
        are_known = (lefts >= 0) & (rights >= 0)
        found = lefts[are_known], rights[are_known], ranks[tokens[are_two][are_known]]
        if not fill(merges.pairs, merges.first_ranks, *found):
            return False
    return True


def _joined(spelled: Spelled, merges: Merges) -> tuple[Ints, Longs]:
    """What tokens are joined into: the symbols, and where each token's end."""
    from volt.kernels.spellings import no_spellings
    from volt.kernels.words import PieceRule, encode_words

    n = int(max(merges.results.max(initial=0), spelled.symbols.max(initial=0))) + 1
    keep = PieceRule(np.ones(n, np.uint8), np.full(n, -1), no_spellings())
    return encode_words(*spelled, merges, keep, 0.0, np.zeros(1, np.int64))


def all_pairs(spelled: Spelled, results: Ints) -> Merges:
    """All ways to join two tokens into one that has a rank. results: see `own_pairs`."""
    from volt.kernels.pair_table import ranked_merges
    from volt.kernels.spellings import cuts, spellings

    ranks = _ranks(results, len(spelled.ends))
    lefts, rights, wholes = cuts(spellings(*spelled))
    is_made = ranks[wholes] >= 0
    return ranked_merges(lefts[is_made], rights[is_made], results, ranks=ranks[wholes[is_made]], one_by_one=True)


def own_tokens(merges: Merges) -> Longs:
    """The tokens that joining their own symbols gives, by their `own_pairs`."""
    from volt.kernels.pair_table import ranks_met

    return merges.results[ranks_met(merges)].astype(np.int64)


def unmerged(spelled: Spelled, merges: Merges, asked: NDArray[np.bool_]) -> Spellings:
    """The tokens that merging their own symbols does not give: those that a word must be looked up for.

    asked: (n_tokens,), which tokens may be among them
    """
    from volt.kernels.spellings import spellings

    chosen = spelled.only(asked & (spelled.sizes > 1))
    pieces, ends = _joined(chosen, merges)
    is_made, numbers = np.diff(ends, prepend=0) == 1, np.arange(len(ends))
    is_made[is_made] = pieces[ends[is_made] - 1] == numbers[is_made]
    return spellings(*chosen.only(~is_made))


def _ranks(results: Ints, n: int) -> Ints:
    """The lowest rank of each of n tokens, or −1."""
    ranks = np.full(n, -1, np.int32)
    ranks[results[::-1]] = np.arange(len(results), dtype=np.int32)[::-1]
    return ranks
