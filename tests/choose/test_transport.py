"""Laws of the transport solvers; POT and the optimality conditions are independent oracles."""

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from support.drawn import examples
from support.transports import (
    SOLVE,
    balanced_problem,
    check_plan,
    dense_cost,
    naive_update,
    objective,
    random_problem,
    replace_data,
    seeds,
    taus,
)

from volt.choose.transport import SOLVERS, PotSolver, Sinkhorn, TransportProblem, penalty
from volt.errors import MissingLibraryError, TransportError

SOME = settings(max_examples=examples(50), deadline=None)
HALVES = np.array([0.5, 0.5])


def assert_close(result, expected, *, relative=0.0, absolute=0.0):
    np.testing.assert_allclose(result, expected, rtol=relative, atol=absolute)


@SOME
@given(seeds, st.floats(0.2, 5), taus | st.just(1.0), taus)
def test_a_relaxed_plan_equals_pots(seed, epsilon, row_tau, column_tau):
    """With relaxed marginals, the plans of `Sinkhorn`, of `PotSolver` and of POT itself are
    equal.
    """
    ot = pytest.importorskip("ot")
    problem = random_problem(seed, epsilon=epsilon, row_tau=row_tau, column_tau=column_tau)
    rho = penalty(row_tau, epsilon), penalty(column_tau, epsilon)
    options = {"reg_type": "entropy", "numItermax": 5_000, "stopThr": 1e-14}
    masses = problem.row_mass, problem.column_mass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # POT comments on the requested regularisation
        expected = ot.unbalanced.sinkhorn_unbalanced(
            *masses, dense_cost(problem), epsilon, rho, **options
        )
    plan = SOLVE(problem)
    assert plan.converged
    assert_close(plan.matrix.toarray(), expected, absolute=1e-7)
    by_pot = PotSolver(threshold=1e-9)(problem)
    assert by_pot.n_iters >= 1
    assert_close(by_pot.matrix.data, plan.matrix.data, absolute=1e-7)
    check_plan(problem, by_pot)


@SOME
@given(seeds, st.floats(0.5, 5))
def test_a_balanced_plan_equals_pots(seed, epsilon):
    """With hard marginals that a plan can have, the plan of `Sinkhorn` has them, and equals
    POT's.
    """
    ot = pytest.importorskip("ot")
    problem = balanced_problem(seed, epsilon=epsilon)
    options = {"method": "sinkhorn_log", "numItermax": 20_000, "stopThr": 1e-12}
    masses = problem.row_mass, problem.column_mass
    expected = ot.sinkhorn(*masses, dense_cost(problem), epsilon, **options)
    plan = SOLVE(problem)
    assert plan.converged
    assert max(plan.row_residual, plan.column_residual) < 1e-8
    assert_close(plan.matrix.toarray(), expected, absolute=1e-7)


@settings(max_examples=examples(150), deadline=None)
@given(seeds, st.floats(-3, 1), st.floats(0.01, 1), st.floats(0.01, 1))
def test_plans_are_finite_and_converged_ones_are_fixed_points(
    seed, log_epsilon, row_tau, column_tau
):
    """For ε from 1e-3 to 10 and any τ, a plan is finite; a converged plan is a fixed point of Eq.
    9–10.
    """
    problem = random_problem(seed, epsilon=10**log_epsilon, row_tau=row_tau, column_tau=column_tau)
    plan = Sinkhorn(threshold=1e-6, max_iters=1_000)(problem)
    check_plan(problem, plan)
    if plan.converged:
        row, column = naive_update(problem, plan.potentials)
        assert_close(row, plan.potentials.row, relative=1e-11, absolute=1e-6)
        assert_close(column, plan.potentials.column, relative=1e-11, absolute=2e-6)


@SOME
@given(seeds, st.floats(0.05, 5), st.floats(0.05, 1), st.floats(0.05, 0.97), st.integers(4, 9))
def test_threshold_bounds_the_distance_to_the_solution(seed, epsilon, row_tau, column_tau, digits):
    """A plan's potentials are within the threshold of those of a solver with a much smaller
    threshold.
    """
    problem = random_problem(seed, epsilon=epsilon, row_tau=row_tau, column_tau=column_tau)
    coarse = Sinkhorn(threshold=10.0**-digits)(problem)
    fine = Sinkhorn(threshold=1e-12)(problem)
    assert coarse.converged
    assert fine.converged
    limit = 1.01 * 10.0**-digits + 1e-11
    assert_close(coarse.potentials.row, fine.potentials.row, absolute=limit)
    assert_close(coarse.potentials.column, fine.potentials.column, absolute=limit)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("epsilon", [0.05, 0.1])
def test_the_threshold_holds_for_hard_marginals_too(seed, epsilon):
    """With hard marginals and slow iterations, log P is within twice the threshold of the
    solution.
    """
    problem = balanced_problem(seed, epsilon=epsilon)
    coarse = Sinkhorn(threshold=1e-4)(problem)
    fine = Sinkhorn(threshold=1e-11)(problem)
    assert coarse.converged
    assert fine.converged
    assert_close(np.log(coarse.matrix.data), np.log(fine.matrix.data), absolute=2e-4)


@SOME
@given(seeds, st.floats(0.1, 5), st.floats(0.05, 1), taus)
def test_a_solution_as_start_ends_at_once(seed, epsilon, row_tau, column_tau):
    """From its own row potentials, a plan takes no more iterations; column potentials are not
    read.
    """
    problem = random_problem(seed, epsilon=epsilon, row_tau=row_tau, column_tau=column_tau)
    cold = SOLVE(problem)
    warm = SOLVE(problem, cold.potentials)
    assert warm.n_iters <= cold.n_iters
    assert_close(warm.matrix.data, cold.matrix.data, relative=1e-8)
    assert_close(warm.token_mass, cold.token_mass, relative=1e-8)
    assert SOLVE(problem, replace(cold.potentials, column=np.zeros(0))).n_iters == warm.n_iters


@SOME
@given(seeds, st.floats(0.01, 5), st.floats(0.1, 0.9))
def test_columns_without_mass_are_ignored(seed, epsilon, tau):
    """A column without mass has the potential −∞ and no mass; the others are as if it were
    absent.
    """
    problem = random_problem(seed, epsilon=epsilon, row_tau=tau, column_tau=tau)
    mass = problem.column_mass
    mask = np.random.default_rng(seed).random(mass.size) < 0.6
    mask[0] = True
    plan = SOLVE(replace(problem, column_mass=np.where(mask, mass, 0)))
    assert not plan.token_mass[~mask].any()
    assert not plan.matrix.toarray()[:, ~mask].any()
    assert np.isneginf(plan.potentials.column[~mask]).all()
    alone = SOLVE(replace(problem, cost=problem.cost[:, mask], column_mass=mass[mask]))
    assert_close(plan.token_mass[mask], alone.token_mass, absolute=1e-12)
    assert_close(plan.row_mass, alone.row_mass, absolute=1e-12)


def stored(entries, columns, ends):
    return sparse.csr_array((np.array(entries), columns, ends), shape=(2, 2))


def test_formats_of_the_cost_are_equal():
    """Any sparse format of the cost, unsorted or with repeated entries, gives the same plan.

    A stored cost of 0 belongs to the support. The given matrix does not change."""
    unsorted = stored([1.5, 0.0, 2.0], [1, 0, 1], [0, 2, 3])
    parts = stored([1.0, 0.5, 0.0, 2.0], [1, 1, 0, 1], [0, 3, 4])
    expected = None
    for cost in (unsorted, unsorted.tocoo(), unsorted.tocsc(), parts):
        plan = SOLVE(TransportProblem(cost, HALVES, HALVES)).matrix
        assert plan.nnz == 3
        assert (plan.data > 0).all()
        if expected is None:
            expected = plan.toarray()
        assert_close(plan.toarray(), expected, absolute=1e-12)
    assert unsorted.indices.tolist() == [1, 0, 1]


def test_wide_costs_use_exact_sums():
    """Row sums are exact even if costs are thousands of ε, whose exponentials underflow."""
    cost = sparse.csr_array(np.array([[3000.0, 5000.0], [4000.0, 4500.0]]))
    problem = TransportProblem(cost, np.array([0.25, 0.75]), HALVES, column_tau=0.5)
    plan = SOLVE(problem)
    assert plan.converged
    assert_close(plan.row_mass, [0.25, 0.75], relative=1e-12)
    row, _ = naive_update(problem, plan.potentials)
    assert_close(row, plan.potentials.row, relative=1e-11)


def test_infeasible_hard_marginals_are_a_result_with_a_remedy():
    """If no plan has the hard marginals, the result is finite, and its remedy proposes a lower
    τ.
    """
    cost = stored([1.0, 1, 1], [0, 0, 1], [0, 1, 3])
    problem = TransportProblem(cost, np.array([0.9, 0.1]), HALVES, column_tau=1.0)
    solver = Sinkhorn(max_iters=300)
    plan = solver(problem)
    assert (plan.converged, plan.n_iters) == (False, 300)
    assert "set a tau < 1" in plan.remedy
    check_plan(problem, plan)
    assert SOLVE(replace(problem, column_tau=0.9)).remedy == ""
    assert "1 and 0.75" in solver(replace(problem, column_mass=np.array([0.5, 0.25]))).remedy


def test_too_few_iterations_are_a_result_with_a_remedy():
    """After too few iterations, the plan is not `converged`, and its remedy names what to
    change.
    """
    plan = Sinkhorn(max_iters=1)(random_problem(5))
    assert not plan.converged
    for remedy in ("max_iters above 1", "epsilon above 1", "lower a tau"):
        assert remedy in plan.remedy


def test_translation_makes_soft_marginals_fast():
    """For τ = 0.999, `Sinkhorn` takes fewer than 200 iterations; without translation, it takes
    thousands.
    """
    problem = random_problem(11, epsilon=5.0, row_tau=0.999, column_tau=0.999)
    plan = Sinkhorn(threshold=1e-9)(problem)
    assert plan.converged
    assert plan.n_iters < 200


def diagonal(value):
    """Return a diagonal cost of a value and 1."""
    return stored([value, 1.0], [0, 1], [0, 1, 2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": np.ones((2, 2))}, "cost is a ndarray; pass"),
        ({"cost": diagonal(-1.0)}, "negative"),
        ({"cost": diagonal(np.nan)}, "NaN"),
        ({"cost": diagonal(np.inf)}, "leave infinite costs unstored"),
        ({"row_mass": np.ones(3)}, r"row_mass has shape \(3,\)"),
        ({"column_mass": np.ones((2, 1))}, r"column_mass has shape \(2, 1\)"),
        ({"row_mass": np.array([1.0, -0.5])}, r"row_mass\[1\] is -0.5"),
        ({"row_mass": np.array([np.nan, 0.5])}, r"row_mass\[0\] is nan"),
        ({"column_mass": np.array([1.0, np.inf])}, r"column_mass\[1\] is inf"),
        ({"column_mass": np.zeros(2)}, "column_mass is 0 everywhere"),
        ({"epsilon": 0.0}, "epsilon is 0.0"),
        ({"epsilon": np.inf}, "epsilon is inf"),
        ({"row_tau": 0.0}, "row_tau is 0.0"),
        ({"column_tau": 1.5}, "column_tau is 1.5"),
        ({"column_tau": np.nan}, "column_tau is nan"),
        ({"column_mass": np.array([1.0, 0.0])}, "row 1 has mass, .* lower row_tau"),
        ({"row_mass": np.array([0.0, 1.0]), "column_tau": 1.0}, "column 0 has mass"),
        (
            {"row_mass": np.array([0.0, 1.0]), "column_mass": np.array([1.0, 0.0])},
            "no stored cost joins",
        ),
        ({"cost": sparse.csr_array((0, 2)), "row_mass": np.zeros(0)}, "row_mass is 0 everywhere"),
    ],
)
def test_malformed_problems_are_refused(change, message):
    """`TransportProblem` raises TransportError for each invalid value, and says what to do."""
    parts = {"cost": diagonal(0.0), "row_mass": HALVES, "column_mass": HALVES}
    with pytest.raises(TransportError, match=message):
        TransportProblem(**(parts | change))


@pytest.mark.parametrize("solver", SOLVERS.values())
@pytest.mark.parametrize("name", ["threshold", "max_iters"])
def test_limits_are_checked(solver, name):
    """Each solver raises TransportError if its threshold or number of iterations is not
    positive.
    """
    with pytest.raises(TransportError, match=f"{name} is 0"):
        solver(**{name: 0})


def test_start_must_fit_the_rows():
    """`start` with another number of rows raises an error; a potential of −∞ in it counts as 0."""
    problem = random_problem(2)
    plan = SOLVE(problem)
    row = plan.potentials.row
    with pytest.raises(TransportError, match="align it to the"):
        SOLVE(problem, replace(plan.potentials, row=np.append(row, 0.0)))
    unknown = replace(plan.potentials, row=np.full_like(row, -np.inf))
    assert_close(SOLVE(problem, unknown).token_mass, plan.token_mass, absolute=1e-9)


LARGE = """
from pathlib import Path
import numpy as np
from scipy import sparse
from volt.choose.transport import Sinkhorn
from volt.choose.transport import TransportProblem
n_rows, n_cols, rng = 10_000, 300_000, np.random.default_rng(0)
rows = np.concatenate([np.arange(n_rows), rng.integers(0, n_rows, 5 * n_cols - n_rows)])
columns = np.arange(5 * n_cols) % n_cols
cost = sparse.coo_array((np.ones(5 * n_cols), (rows, columns)), shape=(n_rows, n_cols)).tocsr()
cost.data[:] = np.log(5)
column_mass = rng.permutation(1 / np.arange(1, n_cols + 1))
plan = Sinkhorn(threshold=1e-6)(TransportProblem(cost, rng.uniform(1, 2, n_rows), column_mass))
assert plan.converged
assert plan.matrix.nnz == cost.nnz
status = Path("/proc/self/status").read_text().splitlines()
peak = next(line for line in status if line.startswith("VmHWM"))
assert int(peak.split()[1]) < 2 * 1024**2, "above 2 GB"  # ru_maxrss includes the parent's peak
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not state a process's peak"
)
def test_large_problem_stays_below_two_gigabytes():
    """A problem of 300,000 tokens with five characters each needs less than 2 GB."""
    subprocess.run([sys.executable, "-c", LARGE], check=True, timeout=120)


@SOME
@given(seeds, st.floats(0.05, 5), st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_no_other_plan_is_better(seed, epsilon, row_tau, column_tau):
    """With relaxed marginals, no random plan on the support has a smaller objective than the
    solution.
    """
    problem = random_problem(seed, epsilon=epsilon, row_tau=row_tau, column_tau=column_tau)
    plan = SOLVE(problem).matrix
    rng = np.random.default_rng(seed)
    best = objective(problem, plan)
    for scale in (1e-3, 1e-1, 1.0):
        other = replace_data(plan, plan.data * np.exp(scale * rng.standard_normal(plan.nnz)))
        assert objective(problem, other) >= best - 1e-9 * max(1.0, abs(best))


def test_pot_solver_solves_balanced_problems_and_ignores_zero_masses():
    """`PotSolver` converges for hard marginals, and gives a column without mass no mass."""
    pytest.importorskip("ot")
    balanced = balanced_problem(0, epsilon=1.0)
    assert min(balanced.cost.shape) > 2
    assert PotSolver(threshold=1e-8)(balanced).converged
    column_mass = np.append(balanced.column_mass[:-1], 0.0)
    problem = replace(balanced, column_mass=column_mass, row_tau=0.5, column_tau=0.5)
    plan = PotSolver()(problem)
    assert_close(plan.matrix.data, SOLVE(problem).matrix.data, absolute=1e-9)
    assert plan.token_mass[-1] == 0


def test_pot_solver_refuses_large_problems_and_names_its_package(monkeypatch):
    """`PotSolver` refuses too many cells; if POT is missing, the error says how to install it."""
    problem = random_problem(1)
    with pytest.raises(TransportError, match="dense cells, more than 0; use Sinkhorn"):
        PotSolver(max_cells=0)(problem)
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'volt-vocab\[pot\]'"):
        PotSolver()(problem)
