"""Bound from below the number of pieces into which any vocabulary of a size cuts counted words.

A *lattice* has the ways to cut each word: its atoms, and its *edges*, which are the occurrences of
candidates, tokens of several atoms. A vocabulary has room for k candidates. The fewest pieces are

    min Σ n_w · Σ x_e    over paths x_w through each word w, and shares y with Σ y_t ≤ k,
                         where an edge e of token t has x_e ≤ y_t

of which the bound relaxes whole numbers to fractions. With a multiplier μ_e ≥ 0 for each edge,

    bound = Σ n_w · (shortest path with edge costs 1 + μ_e) − (the k largest values Σ n_w μ_e of tokens)

holds for any multipliers (weak duality). `relax` moves them towards the largest bound: one step of
the primal-dual hybrid gradient method (Chambolle and Pock 2011), with steps scaled by the degree of
each node (Pock and Chambolle 2011) and norms weighted by n_w. `sum_shortest_paths` computes the
bound's terms in whole numbers, without rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import FloatArray, IntArray, LongArray
from volt.kernels.jit import borrowing, inlined, releasing

_FAR = 1 << 62
_EDGE_STEP = 1 / 3  # an edge is in the equations of two nodes, and in x_e ≤ y_t
_ATOM_STEP = 1 / 2
_MULTIPLIER_STEP = 1 / 2
_N_HALVINGS = 30
_LOWER = 0.9  # the price of a step is rarely below this share of the price before


class WordLattice(NamedTuple):
    """Words and their edges. A place is an atom of a word; the places of all words are numbered."""

    ends: LongArray  # (n_words,), the place after each word's last atom
    counts: LongArray  # (n_words,)
    first_edges: LongArray  # (n_places + 1,), the first edge that starts at each place or later
    sizes: IntArray  # (n_edges,), atoms of each edge, ≥ 2; edges are in the order of their places
    tokens: IntArray  # (n_edges,), the candidate of each edge


class Flow(NamedTuple):
    """The state of the relaxation."""

    atoms: FloatArray  # (n_places,), the share of paths that take each atom
    edges: FloatArray  # (n_edges,), x_e
    potentials: FloatArray  # (n_places,), about the cost from each place to the word's end
    multipliers: FloatArray  # (n_edges,), μ_e
    steps: FloatArray  # (n_places,), 1 / the number of edges and atoms that start or end there


@releasing
def relax(
    lattice: WordLattice,
    first: int,
    last: int,
    shares: FloatArray,
    flow: Flow,
    surplus: FloatArray,
    values: FloatArray,
) -> int:
    """Move the paths of the words from `first` to before `last`, then their multipliers. Return 0.

    shares: y_t of each token, extrapolated
    surplus: working memory, longer than the longest word
    values: set to Σ n_w μ_e of each token, over these words
    """
    values[:] = 0.0
    start = lattice.ends[first - 1] if first > 0 else np.int64(0)
    for word in range(first, last):
        end = lattice.ends[word]
        count = float(lattice.counts[word])
        size = end - start
        for i in range(size + 1):
            surplus[i] = 0.0
        surplus[0] = -1.0
        for i in range(size):
            place = start + i
            here = flow.potentials[place]
            cost = 1.0 - here + _potential(place + 1, end, flow.potentials)
            before = flow.atoms[place]
            share = max(0.0, before - _ATOM_STEP * cost)
            flow.atoms[place] = share
            surplus[i] += 2 * share - before
            surplus[i + 1] -= 2 * share - before
            for edge in range(lattice.first_edges[place], lattice.first_edges[place + 1]):
                atoms = np.int64(lattice.sizes[edge])
                token = lattice.tokens[edge]
                multiplier = flow.multipliers[edge]
                to = place + atoms
                cost = 1.0 + multiplier - here + _potential(to, end, flow.potentials)
                before = flow.edges[edge]
                share = max(0.0, before - _EDGE_STEP * cost)
                flow.edges[edge] = share
                extrapolated = 2 * share - before
                surplus[i] += extrapolated
                surplus[i + atoms] -= extrapolated
                multiplier += _MULTIPLIER_STEP * (extrapolated - shares[token])
                multiplier = max(0.0, multiplier)
                flow.multipliers[edge] = multiplier
                values[token] += count * multiplier
        for i in range(size):
            flow.potentials[start + i] -= flow.steps[start + i] * surplus[i]
        start = end
    return 0


@inlined
def _potential(place: Any, end: Any, potentials: FloatArray) -> float:
    return float(potentials[place]) if place < end else 0.0


@releasing
def share_out(
    values: FloatArray,
    weights: FloatArray,
    n_tokens: int,
    price: FloatArray,
    shares: FloatArray,
    extrapolated: FloatArray,
    active: IntArray,
) -> int:
    """Raise the share of each token by its value, and lower all by one price, until their sum is at
    most n_tokens. Return 0.

    weights: Σ n_w over the edges of each token
    price: (1,), the price of the step before, replaced by the new one
    active: (n_shares,), working memory
    """
    low = _LOWER * price[0]
    n_active = _list_active(values, weights, low, shares, active)
    if _sum_shares(values, weights, low, shares, active, n_active) <= n_tokens:
        low = 0.0
        n_active = _list_active(values, weights, low, shares, active)
    high = price[0] / _LOWER
    if _sum_shares(values, weights, high, shares, active, n_active) > n_tokens:
        for i in range(n_active):
            token = active[i]
            high = max(high, weights[token] * shares[token] + values[token])
    if _sum_shares(values, weights, low, shares, active, n_active) <= n_tokens:
        high = low
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2
        if _sum_shares(values, weights, middle, shares, active, n_active) > n_tokens:
            low = middle
        else:
            high = middle

    price[0] = high
    for token in range(len(shares)):
        before = shares[token]
        shares[token] = _share(before, values[token] - high, weights[token])
        extrapolated[token] = 2 * shares[token] - before
    return 0


@borrowing
def _list_active(
    values: FloatArray, weights: FloatArray, price: float, shares: FloatArray, active: IntArray
) -> int:
    """List the tokens of which a price leaves a share. Return their number."""
    n = 0
    for token in range(len(shares)):
        active[n] = token
        n += int(shares[token] * weights[token] + values[token] > price)
    return n


@borrowing
def _sum_shares(
    values: FloatArray,
    weights: FloatArray,
    price: float,
    shares: FloatArray,
    active: IntArray,
    n_active: int,
) -> float:
    total: float = 0.0
    for i in range(n_active):
        token = active[i]
        total += _share(shares[token], values[token] - price, weights[token])
    return total


@inlined
def _share(before: Any, gain: Any, weight: Any) -> Any:
    return min(1.0, max(0.0, before + gain / weight))


@releasing
def sum_shortest_paths(
    lattice: WordLattice,
    first: int,
    last: int,
    multipliers: LongArray,
    unit: int,
    costs: LongArray,
    values: LongArray,
) -> int:
    """Return Σ n_w · (shortest path) over the words from `first` to before `last`.

    multipliers: (n_edges,), in 1 / unit pieces, as are the results
    costs: working memory, longer than the longest word
    values: set to Σ n_w μ_e of each token, over these words
    """
    values[:] = 0
    total = np.int64(0)
    start = lattice.ends[first - 1] if first > 0 else np.int64(0)
    for word in range(first, last):
        end = lattice.ends[word]
        count = lattice.counts[word]
        for i in range(end - start + 1):
            costs[i] = _FAR
        costs[0] = 0
        for i in range(end - start):
            place = start + i
            cost = costs[i] + unit
            costs[i + 1] = min(costs[i + 1], cost)
            for edge in range(lattice.first_edges[place], lattice.first_edges[place + 1]):
                to = i + np.int64(lattice.sizes[edge])
                costs[to] = min(costs[to], cost + multipliers[edge])
                values[lattice.tokens[edge]] += count * multipliers[edge]
        total += count * costs[end - start]
        start = end
    return int(total)


@releasing
def find_starts(
    lattice: WordLattice,
    multipliers: FloatArray,
    potentials: FloatArray,
    savings: FloatArray,
) -> int:
    """Set potentials to the cost of the shortest path from each place to the word's end. Return 0.

    savings: set to the pieces that each token saves on the shortest paths of words
    """
    savings[:] = 0.0
    start = np.int64(0)
    for word in range(len(lattice.ends)):
        end = lattice.ends[word]
        for i in range(end - start):
            place = end - 1 - i
            best = 1.0 + _potential(place + 1, end, potentials)
            for edge in range(lattice.first_edges[place], lattice.first_edges[place + 1]):
                to = place + np.int64(lattice.sizes[edge])
                best = min(best, 1.0 + multipliers[edge] + _potential(to, end, potentials))
            potentials[place] = best
        place = start
        while place < end:
            following = place + 1
            for edge in range(lattice.first_edges[place], lattice.first_edges[place + 1]):
                to = place + np.int64(lattice.sizes[edge])
                cost = 1.0 + multipliers[edge] + _potential(to, end, potentials)
                if cost <= potentials[place]:
                    following = to
                    n_saved = float(lattice.sizes[edge] - 1)
                    savings[lattice.tokens[edge]] += n_saved * float(lattice.counts[word])
                    break
            place = following
        start = end
    return 0
