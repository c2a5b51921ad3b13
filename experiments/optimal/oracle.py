"""How close do exchanges come to the fewest pieces of a small text? HiGHS solves it with whole tokens.

    python -m experiments.optimal.oracle TEXT …

For the 300 most frequent words of each text, with 30, 100 and 200 tokens of several characters, prints pieces:
of BPE, of optimal tokens, the fewest (or a bound on them, if HiGHS ends after a minute), the fewest with fractions of
tokens (linear programming), and the bound of sweeps.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from experiments.optimal.vocabularies import PRETOKENIZER, find_vocabularies
from volt.choose.certificate import build_lattice
from volt.count.corpus import count_words
from volt.count.word_counts import WordCounts
from volt.kernels.arrays import Words
from volt.kernels.piece_bound import WordLattice
from volt.learn.bpe import split_into_atoms

N_WORDS = 300
N_FREE = (30, 100, 200)
SECONDS = 60.0


def solve(lattice: WordLattice, n_free: int, *, is_whole: bool) -> tuple[float, float]:
    """Return the pieces of the best solution with n_free tokens, and a bound on those of any.

    Variables are the tokens, then the ways through words: atoms, then edges. Pieces are at least 1
    for each way. Each place of a word but its first has as many ways in as out; its first has 1 out.
    """
    n_tokens = int(lattice.tokens.max()) + 1
    n_places = len(lattice.first_edges) - 1
    n_edges = len(lattice.tokens)
    places = np.arange(n_places)
    starts = np.append(places, np.repeat(places, np.diff(lattice.first_edges)))
    goals = starts + np.append(np.ones(n_places, int), lattice.sizes)
    words = np.searchsorted(lattice.ends, starts, side="right")
    ways = n_tokens + np.arange(n_places + n_edges)
    n_variables = n_tokens + len(ways)

    is_inner = goals < lattice.ends[words]
    balance = coo_array(
        (
            np.append(np.ones(len(ways)), -np.ones(is_inner.sum())),
            (np.append(starts, goals[is_inner]), np.append(ways, ways[is_inner])),
        ),
        shape=(n_places, n_variables),
    )
    supply = np.zeros(n_places)
    supply[np.append(0, lattice.ends[:-1])] = 1
    edges = np.arange(n_edges)
    use = coo_array(
        (
            np.repeat([1.0, -1.0], n_edges),
            (np.append(edges, edges), np.append(ways[n_places:], lattice.tokens)),
        ),
        shape=(n_edges, n_variables),
    )
    is_token = np.arange(n_variables) < n_tokens
    solution = milp(
        np.append(np.zeros(n_tokens), lattice.counts[words]),
        integrality=is_token & is_whole,
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(balance, supply, supply),
            LinearConstraint(use, -np.inf, 0),
            LinearConstraint(is_token[None].astype(float), 0, n_free),
        ],
        options={"time_limit": SECONDS},
    )
    bound = solution.mip_dual_bound if is_whole else solution.fun
    return float(solution.fun), float(bound)


def most_frequent(counts: WordCounts) -> WordCounts:
    """Return the most frequent words, with their pre-tokenizer."""
    by_word = Counter(dict(zip(counts.words, counts.counts.tolist(), strict=True)))
    return WordCounts.from_pairs(
        dict(by_word.most_common(N_WORDS)),
        normalizer=counts.normalizer,
        pretokenizer=counts.pretokenizer,
    )


def main() -> None:
    for path in sys.argv[1:]:
        counts = most_frequent(count_words([path], pretokenizer=PRETOKENIZER))
        words = Words(*split_into_atoms(counts, "none"))
        lattice = build_lattice(words, 1)
        n_atoms = len(np.unique(words.symbols))
        for n_free in N_FREE:
            found = find_vocabularies(counts, n_atoms + n_free)
            fractional, _ = solve(lattice, n_free, is_whole=False)
            fewest, bound = solve(lattice, n_free, is_whole=True)
            vocabulary = found.vocabularies["ranked"]
            n_ranked = sum(vocabulary.counts)
            print(
                f"{path}: {n_free} tokens: BPE {n_ranked:,}, optimal {found.n_pieces['optimal']:,}, "
                f"exchanged {found.n_pieces['exchanged']:,}, whole {fewest:,.0f} (≥ {bound:,.1f}), "
                f"fractional {fractional:,.1f}, sweeps {found.bound:,}",
                flush=True,
            )


if __name__ == "__main__":
    main()
