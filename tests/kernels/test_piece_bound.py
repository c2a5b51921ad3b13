"""Shortest paths are those of a slow twin; shares keep to their sum and are nearest to what values ask for."""

import naive
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.choose.certificate import build_lattice
from volt.kernels.arrays import Words
from volt.kernels.piece_bound import find_starts, share_out, sum_shortest_paths
from volt.text.atoms import atom_codes

MANY = settings(max_examples=examples(60), deadline=None)
texts = st.dictionaries(
    st.text("abc", min_size=1, max_size=7), st.integers(1, 9), min_size=1, max_size=5
)
values_and_weights = st.lists(
    st.tuples(st.floats(0, 50), st.integers(1, 20), st.floats(0, 1)), min_size=1, max_size=12
)


def lattice_of(counts):
    codes, ends = atom_codes(list(counts), marker="none")
    return build_lattice(Words(codes, ends, np.array(list(counts.values()), np.int64)), 2)


@MANY
@given(texts)
def test_free_edges_give_the_fewest_pieces(counts):
    """Without multipliers, the sum and the potentials are the pieces with all candidates as tokens."""
    lattice = lattice_of(counts)
    text = "".join(counts)
    starts = np.repeat(np.arange(len(text)), np.diff(lattice.first_edges))
    tokens = {text[start : start + size] for start, size in zip(starts, lattice.sizes, strict=True)}
    lengths = [naive.path_length(word, tokens) for word in counts]
    n_tokens = int(lattice.tokens.max(initial=-1)) + 1
    values = np.ones(n_tokens, np.int64)
    multipliers = np.zeros(len(lattice.tokens), np.int64)
    room = np.zeros(len(text) + 1, np.int64)
    total = sum_shortest_paths(lattice, 0, len(counts), multipliers, 4, room, values)
    assert total == 4 * sum(n * length for n, length in zip(counts.values(), lengths, strict=True))
    assert not values.any()

    potentials = np.zeros(len(text))
    savings = np.zeros(n_tokens)
    find_starts(lattice, multipliers.astype(float), potentials, savings)
    assert potentials[np.append(0, lattice.ends[:-1])].tolist() == lengths
    n_atoms = sum(len(word) * n for word, n in counts.items())
    assert savings.sum() == n_atoms - total / 4


@MANY
@given(values_and_weights, st.integers(1, 12), st.floats(0, 60))
def test_shares_are_lowered_by_one_price(rows, n_tokens, price_before):
    """Shares add up to n_tokens at most; if the price is not 0, to about n_tokens; whatever the price before was."""
    values, weights, shares = (np.array(column, float) for column in zip(*rows, strict=True))
    raised = shares + values / weights
    price = np.array([price_before])
    before = shares.copy()
    extrapolated = np.zeros(len(shares))
    active = np.zeros(len(shares), np.int32)
    share_out(values, weights, n_tokens, price, shares, extrapolated, active)
    np.testing.assert_allclose(shares, np.clip(raised - price / weights, 0, 1), atol=1e-9)
    np.testing.assert_allclose(extrapolated, 2 * shares - before)
    assert shares.sum() <= n_tokens + 1e-9
    if price[0] > 1e-6:
        assert shares.sum() > n_tokens - 1e-3
