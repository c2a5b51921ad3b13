"""Laws of volt.choose.transport: a solver of another library behind the same call."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transports import (
    SOLVE,
    balanced_problem,
    check_plan,
    random_problem,
    seeds,
    taus,
)

from volt.choose.transport import SOLVERS, PotSolver
from volt.errors import MissingLibraryError, TransportError


@settings(max_examples=examples(40), deadline=None)
@given(seeds, st.floats(0.2, 5), taus | st.just(1.0), taus)
def test_pot_solver_gives_the_same_plan(seed, epsilon, row_tau, column_tau):
    """Both solvers have one call signature and one answer."""
    pytest.importorskip("ot")
    problem = random_problem(seed, epsilon=epsilon, row_tau=row_tau, column_tau=column_tau)
    ours, theirs = (
        SOLVERS["sinkhorn"](threshold=1e-9)(problem),
        SOLVERS["pot"](threshold=1e-9)(problem),
    )
    assert theirs.n_iters >= 1
    np.testing.assert_allclose(ours.matrix.data, theirs.matrix.data, rtol=0, atol=1e-7)
    check_plan(problem, theirs)


def test_pot_solver_balanced_and_with_zero_masses():
    """PotSolver takes hard marginals, and restricts itself to the lines that have mass."""
    pytest.importorskip("ot")
    balanced = balanced_problem(0, epsilon=1.0)
    assert min(balanced.cost.shape) > 2
    assert PotSolver(threshold=1e-8)(balanced).converged
    column_mass = np.append(balanced.column_mass[:-1], 0.0)
    problem = replace(balanced, column_mass=column_mass, row_tau=0.5, column_tau=0.5)
    ours, theirs = SOLVE(problem), PotSolver()(problem)
    np.testing.assert_allclose(ours.matrix.data, theirs.matrix.data, rtol=0, atol=1e-9)
    assert theirs.token_mass[-1] == 0


def test_pot_solver_refuses_large_problems_and_names_its_package(monkeypatch):
    """Too many dense cells, and a missing library, are errors that say what to do."""
    problem = random_problem(1)
    with pytest.raises(TransportError, match="dense cells, more than 0; use Sinkhorn"):
        PotSolver(max_cells=0)(problem)
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'volt-vocab\[pot\]'"):
        PotSolver()(problem)
