"""A search → a table of all candidate tokens: where each appears, and where it is most frequent.

A token's count depends on the size: merging "l o" to "lo" makes lo frequent, and a later merge of
"lo w" takes many of its occurrences away.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from volt.choose.search import SearchResult
from volt.learn.candidates import Candidates, Longs


def token_table(search: SearchResult) -> pl.DataFrame:
    """Return a table with a row for each candidate token.

    token, length: the token, and its length in characters
    count, rank: its count and rank in the chosen vocabulary; null if that vocabulary lacks it
    appears: the smallest size that has the token
    peak, peak_count: the size at which its count is greatest, and that count
    scaffolding: the first searched size at which merges make it but the vocabulary drops it, or
        null
    """
    candidates = search.candidates
    n_tokens = candidates.n_tokens
    chosen = dict(zip(search.vocabulary.tokens, search.vocabulary.counts, strict=True))
    counts = pl.Series([chosen.get(token) for token in candidates.tokens])
    # A vocabulary has at least the atoms; token number n is in sizes from n + 1 on.
    first_sizes = np.maximum(np.arange(n_tokens) + 1, candidates.n_atoms)
    dropping_sizes = np.zeros(n_tokens, np.int64)
    for step in reversed(search.steps):
        dropping_sizes[np.flatnonzero(~step.kept)] = step.size

    peaks = _find_peaks(candidates, first_sizes)
    return pl.DataFrame(
        {
            "token": candidates.tokens,
            "length": candidates.lengths,
            "count": counts,
            "rank": counts.rank("ordinal", descending=True),
            "appears": first_sizes,
            "peak": peaks["size"],
            "peak_count": peaks["count"],
            "scaffolding": pl.Series(dropping_sizes).replace(0, None),
        }
    )


def _find_peaks(candidates: Candidates, first_sizes: Longs) -> pl.DataFrame:
    """Return for each token the smallest size with its greatest count, and that count.

    The trajectory lists every change of a count. So the counts at the first sizes, followed by the
    counts after each change, are all counts that a token ever has. If several merges do not change
    the size, the last count holds.
    """
    changes = candidates.trajectory
    first_counts = np.zeros(candidates.n_tokens, np.int64)
    first_counts[: candidates.n_atoms] = candidates.atom_counts
    changed_sizes = candidates.sizes_after()[1:][changes.merges]
    table = pl.DataFrame(
        {
            "token": np.concatenate([np.arange(candidates.n_tokens), changes.tokens]),
            "size": np.concatenate([first_sizes, changed_sizes]),
            "count": np.concatenate([first_counts, changes.after]),
        }
    )
    last_counts = table.unique(["token", "size"], keep="last", maintain_order=True)
    ordered = last_counts.sort("token", "count", "size", descending=[False, True, False])
    return ordered.unique("token", keep="first", maintain_order=True)
