"""Random transport problems, and the equations of a plan, computed on dense matrices."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp, xlogy

from volt.choose.transport import Sinkhorn, TransportProblem, penalty

SOLVE = Sinkhorn(threshold=1e-10)
seeds = st.integers(0, 2**32 - 1)
taus = st.floats(0.01, 0.9)


def random_support(rng, *, n_rows, n_cols):
    """Draw a mask with an entry in every row and column."""
    mask = rng.random((n_rows, n_cols)) < 0.4
    mask[np.arange(n_rows), rng.integers(0, n_cols, n_rows)] = True
    mask[rng.integers(0, n_rows, n_cols), np.arange(n_cols)] = True
    return mask


def csr(mask, dense):
    rows, columns = np.nonzero(mask)
    return sparse.csr_array((dense[rows, columns], (rows, columns)), shape=mask.shape)


def random_problem(seed, **parameters):
    """Draw costs log(length) with many zeros, and masses over three orders of magnitude."""
    rng = np.random.default_rng(seed)
    n_rows = rng.integers(1, 8)
    n_cols = rng.integers(1, 12)
    mask = random_support(rng, n_rows=n_rows, n_cols=n_cols)
    cost = csr(mask, np.log(rng.integers(1, 9, mask.shape)))
    row_mass = 10 ** rng.uniform(-3, 0, n_rows)
    column_mass = 10 ** rng.uniform(-3, 0, n_cols)
    return TransportProblem(
        cost, row_mass / row_mass.sum(), column_mass / column_mass.sum(), **parameters
    )


def balanced_problem(seed, *, epsilon):
    """Return hard marginals that a random positive plan on the support has."""
    problem = random_problem(seed, epsilon=epsilon)
    plan = replace_data(problem.cost, np.random.default_rng(seed).uniform(0.1, 1, problem.cost.nnz))
    return replace(problem, row_mass=plan.sum(axis=1), column_mass=plan.sum(axis=0), column_tau=1.0)


def replace_data(matrix, data):
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def dense_cost(problem):
    """Return the costs as a matrix, with +∞ off the support."""
    coo = problem.cost.tocoo()
    dense = np.full(coo.shape, np.inf)
    dense[coo.row, coo.col] = coo.data
    return dense


def objective(problem, plan):
    """Return <P,D> − ε H(P) + ρ_a KL(P1|a) + ρ_b KL(Pᵀ1|b); a hard marginal adds nothing."""
    entries = plan.data
    value = (
        entries @ problem.cost.data + problem.epsilon * (xlogy(entries, entries) - entries).sum()
    )
    sides = (0, problem.column_mass, problem.column_tau), (1, problem.row_mass, problem.row_tau)
    for axis, mass, tau in sides:
        if tau < 1:
            moved = plan.sum(axis=axis)
            value += (
                penalty(tau, problem.epsilon) * (xlogy(moved, moved / mass) - moved + mass).sum()
            )
    return value


def naive_update(problem, potentials):
    """Return one dense iteration of u ← (a/Kv)^τ, v ← (b/Kᵀu)^τ from log u."""
    log_kernel = -dense_cost(problem) / problem.epsilon
    column_sums = logsumexp(log_kernel + potentials.row[:, None], axis=0)
    column = problem.column_tau * (np.log(problem.column_mass) - column_sums)
    row = problem.row_tau * (np.log(problem.row_mass) - logsumexp(log_kernel + column, axis=1))
    return row, column


def check_plan(problem, plan):
    """Assert that the plan is finite, and that its masses and residuals are those of the matrix."""
    assert all(
        np.isfinite(x).all()
        for x in (plan.matrix.data, plan.row_mass, plan.token_mass, plan.change)
    )
    scale = max(1.0, plan.row_mass.max(), plan.token_mass.max())
    np.testing.assert_allclose(plan.matrix.sum(axis=1), plan.row_mass, rtol=1e-7, atol=1e-9 * scale)
    np.testing.assert_allclose(
        plan.matrix.sum(axis=0), plan.token_mass, rtol=1e-7, atol=1e-9 * scale
    )
    assert plan.row_residual == pytest.approx(np.abs(plan.row_mass - problem.row_mass).sum())
    assert plan.column_residual == pytest.approx(
        np.abs(plan.token_mass - problem.column_mass).sum()
    )
