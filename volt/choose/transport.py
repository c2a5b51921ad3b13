"""Entropic optimal transport on a sparse support: characters are moved into tokens (Section 4.2).

    TransportProblem (costs, masses, ε, τ) → Sinkhorn → TransportPlan (P, residuals, a remedy)

Rows i are characters with masses a_i, columns j are tokens with masses b_j; a cost D(i,j) is stored
only where row i may move into column j. The plan P ≥ 0 on these entries minimises

    <P,D> − ε H(P) + ρ_a KL(P1 | a) + ρ_b KL(Pᵀ1 | b)      H(P) = −Σ P (log P − 1)

ρ says how much a row or column sum that differs from its mass costs. τ = ρ/(ρ+ε) in (0, 1] says
the same on a bounded scale; τ = 1 makes the marginal hard, which means that sums equal masses.

The solution is P = diag(u) K diag(v) with K = exp(−D/ε). Iterations alternate two half steps

    v ← (b / Kᵀu)^τ_b      u ← (a / Kv)^τ_a                                       (Eq. 9–10)

on log u and log v, until these change by less than a threshold. With K = [[1, 1]], a = (1),
b = (½, ½), τ_a = 1, τ_b = ½ and u = 1 at first, v = (0.71, 0.71), u = 0.71, v = (0.84, 0.84),
u = 0.59, …, until v = (1, 1), u = ½ and P = (½, ½).

`PotSolver` solves small problems with the POT library, as an independent check.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from scipy import sparse

from volt import arguments
from volt.array_types import Flags, Floats
from volt.display import counted
from volt.errors import TransportError, missing

Matrix: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"

# Costs are ≥ 0, so K ≤ 1, and a term lost to underflow is below 1e-307: larger sums are exact.
_UNDERFLOW = 1e-280
# The relative size of changes of log u that come from rounding alone.
_ROUNDING = 64 * float(np.finfo(np.float64).eps)


def penalty(tau: float, epsilon: float) -> float:
    """Return ρ = ε τ / (1 − τ), the weight of KL(marginal | mass); ∞ for τ = 1."""
    return math.inf if tau == 1 else epsilon * tau / (1 - tau)


@dataclass(frozen=True, slots=True, eq=False)
class TransportProblem:
    """Masses to move from rows to columns, and the cost of each move.

    cost: (n_rows, n_cols) sparse, ≥ 0; its stored entries, zeros included, are the support, all
        others are +∞
    row_mass: (n_rows,) float64, ≥ 0; a row of mass 0 is ignored
    column_mass: (n_cols,) float64, ≥ 0; a column of mass 0 is ignored
    epsilon: ε > 0, in units of cost
    row_tau, column_tau: the hardness τ of the marginals, in (0, 1]; 1 is hard, that is, exact
    active_rows, active_columns: bool, computed; whether each row or column has mass and a stored
        cost to a column or row with mass
    Raises TransportError if a value is out of range, or mass under a hard marginal cannot move.

    >>> TransportProblem(sparse.csr_array([[1.0, 2.0]]), np.array([1.0]), np.array([0.5, 0.5]))
    <TransportProblem: 1 row, 2 columns, 2 stored costs, epsilon 1, taus 1 and 0.5>
    """

    cost: Matrix
    row_mass: Floats
    column_mass: Floats
    epsilon: float = 1.0
    row_tau: float = 1.0
    column_tau: float = 0.5
    active_rows: Flags = field(init=False, repr=False)
    active_columns: Flags = field(init=False, repr=False)

    def __repr__(self) -> str:
        n_rows, n_columns = self.cost.shape
        sides = f"{counted(n_rows, 'row')}, {counted(n_columns, 'column')}"
        settings = f"epsilon {self.epsilon:g}, taus {self.row_tau:g} and {self.column_tau:g}"
        costs = counted(self.cost.nnz, "stored cost")
        return f"<TransportProblem: {sides}, {costs}, {settings}>"

    def __post_init__(self) -> None:
        for name in ("epsilon", "row_tau", "column_tau"):
            value = arguments.number(getattr(self, name), name)
            if name == "epsilon":
                require(0 < value < math.inf, f"{name} is {value}; give a finite number above 0.")
            else:
                remedy = "give a number above 0 and at most 1 (hard marginal)."
                require(0 < value <= 1, f"{name} is {value}; {remedy}")

        cost = _checked_cost(self.cost)
        row_mass = _checked_mass("row_mass", self.row_mass, size=cost.shape[0])
        column_mass = _checked_mass("column_mass", self.column_mass, size=cost.shape[1])
        support = with_entries(cost, np.ones(cost.nnz))
        has_row_mass = row_mass > 0
        has_column_mass = column_mass > 0
        rows = has_row_mass & (support @ has_column_mass.astype(float) > 0)
        columns = has_column_mass & (support.T @ has_row_mass.astype(float) > 0)
        require(
            rows.any(),
            "no stored cost joins a row and a column of positive mass; extend the support.",
        )
        _check_partners("row", row_mass, rows, self.row_tau)
        _check_partners("column", column_mass, columns, self.column_tau)

        values = {
            "cost": cost,
            "row_mass": row_mass,
            "column_mass": column_mass,
            "active_rows": rows,
            "active_columns": columns,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)  # this dataclass is frozen


def with_entries(matrix: Matrix, entries: Floats) -> Matrix:
    """Return a matrix with the same support, and other entries."""
    return sparse.csr_array((entries, matrix.indices, matrix.indptr), shape=matrix.shape)


def require(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise TransportError(message)


def _checked_cost(cost: Matrix) -> Matrix:
    require(
        sparse.issparse(cost) and len(cost.shape) == 2,
        f"cost is a {type(cost).__name__}; pass a two-dimensional scipy.sparse.csr_array.",
    )
    csr: Matrix = sparse.csr_array(cost).astype(np.float64, copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()  # keeps stored zeros, which are legal costs
    require(
        ((csr.data >= 0) & (csr.data < math.inf)).all(),
        "cost contains a negative, NaN or infinite entry; leave infinite costs unstored.",
    )
    return csr


def _checked_mass(name: str, mass: Floats, *, size: int) -> Floats:
    try:
        checked: Floats = np.asarray(mass, dtype=np.float64)
    except (TypeError, ValueError):
        raise arguments.refusal(mass, name, "give a numpy array of numbers") from None
    require(checked.shape == (size,), f"{name} has shape {checked.shape}; cost needs ({size},).")
    require(checked.any(), f"{name} is 0 everywhere; give at least one positive mass.")
    is_legal = (checked >= 0) & (checked < math.inf)
    index = int(is_legal.argmin())
    require(
        is_legal.all(), f"{name}[{index}] is {checked[index]}; give finite masses of at least 0."
    )
    return checked


def _check_partners(name: str, mass: Floats, active: Flags, tau: float) -> None:
    """Raise TransportError if a row or column with a hard marginal has mass that cannot move."""
    is_stranded = (mass > 0) & ~active
    require(
        tau < 1 or not is_stranded.any(),
        f"{name} {int(is_stranded.argmax())} has mass, but no stored cost to a partner with mass; "
        f"add one, set its mass to 0, or lower {name}_tau.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Potentials:
    """The solution of Eq. 9–10: row is log u, (n_rows,), and column is log v, (n_cols,).

    A potential is −∞ if its row or column has no mass.
    """

    row: Floats
    column: Floats

    def __repr__(self) -> str:
        rows = counted(len(self.row), "row")
        return f"<Potentials: {rows}, {counted(len(self.column), 'column')}>"


@dataclass(frozen=True, slots=True, eq=False)
class TransportPlan:
    """The solution P of a problem, and how far it can be trusted.

    problem: the problem that P solves
    potentials: log u and log v
    row_mass: (n_rows,) P1, the mass that leaves each row
    token_mass: (n_cols,) Pᵀ1, the mass that reaches each column
    n_iters: the number of iterations
    change: the largest change of log u in the last iteration
    converged: whether the solver reached its threshold
    row_residual, column_residual: the L1 distances of P1 from a and of Pᵀ1 from b, which are
        positive if the marginals are relaxed

    >>> masses = np.array([1.0]), np.array([0.5, 0.5])
    >>> problem = TransportProblem(sparse.csr_array([[1.0, 2.0]]), *masses)
    >>> Sinkhorn()(problem)
    <TransportPlan: 1 row, 2 columns, converged after 2 iterations, residuals 0 and 0.245>
    """

    problem: TransportProblem = field(repr=False)
    potentials: Potentials = field(repr=False)
    row_mass: Floats = field(repr=False)
    token_mass: Floats = field(repr=False)
    n_iters: int
    change: float
    converged: bool
    row_residual: float
    column_residual: float

    def __repr__(self) -> str:
        sides = f"{counted(len(self.row_mass), 'row')}, {counted(len(self.token_mass), 'column')}"
        negation = "" if self.converged else "not "
        iterations = counted(self.n_iters, "iteration")
        return (
            f"<TransportPlan: {sides}, {negation}converged after {iterations}, "
            f"residuals {self.row_residual:.3g} and {self.column_residual:.3g}>"
        )

    @property
    def matrix(self) -> Matrix:
        """P on the support of the problem, (n_rows, n_cols), computed at each access."""
        cost = self.problem.cost
        log_u = np.repeat(self.potentials.row, np.diff(cost.indptr))
        log_v = self.potentials.column[cost.indices]
        return with_entries(cost, np.exp(log_u + log_v - cost.data / self.problem.epsilon))

    @property
    def remedy(self) -> str:
        """The parameters to change if the plan has not converged; otherwise empty."""
        if self.converged:
            return ""
        problem = self.problem
        general = f"raise max_iters above {self.n_iters} or epsilon above {problem.epsilon:g}"
        if problem.row_tau * problem.column_tau < 1:
            return f"not converged: {general}, or lower a tau."

        a = problem.row_mass.sum()
        b = problem.column_mass.sum()
        if not math.isclose(a, b, rel_tol=1e-9):
            return f"hard marginals of masses {a:g} and {b:g}: rescale one or set a tau < 1."
        return (
            "the support may admit no plan with these marginals: set a tau < 1; "
            f"if it does, {general}."
        )


@dataclass(frozen=True, slots=True)
class Sinkhorn:
    """Sparse Sinkhorn in the log domain.

    Memory and the time of an iteration are linear in the number of stored costs.

    threshold: the greatest distance of any log u or log v from the solution
    max_iters: the number of iterations after which the solver gives up

    >>> cost = sparse.csr_array(np.log([[1.0, 2.0], [3.0, 2.0]]))  # log 1 = 0 is not stored
    >>> plan = Sinkhorn()(TransportProblem(cost, np.array([0.5, 0.5]), np.array([0.25, 0.75])))
    >>> plan.matrix.toarray().round(3)
    array([[0.  , 0.5 ],
           [0.22, 0.28]])
    """

    threshold: float = 1e-9
    max_iters: int = 10_000

    def __post_init__(self) -> None:
        arguments.whole(self.max_iters, "max_iters")
        threshold = arguments.number(self.threshold, "threshold")
        require(
            0 < threshold < math.inf,
            f"threshold is {self.threshold}; give a finite number above 0.",
        )
        require(self.max_iters >= 1, f"max_iters is {self.max_iters}; give 1 or more.")

    def __call__(self, problem: TransportProblem, start: Potentials | None = None) -> TransportPlan:
        """Solve `problem`. A plan that has not converged is also returned.

        start: potentials of an earlier plan; only `start.row` is read, as log v follows from it
        """
        arguments.instance(
            problem, TransportProblem, "problem", remedy="give a volt.TransportProblem"
        )
        row = np.zeros(int(problem.active_rows.sum()))
        if start is not None:
            require(
                start.row.shape == problem.row_mass.shape,
                f"start.row has shape {start.row.shape}; align it to the {problem.row_mass.size} "
                "rows.",
            )
            row = np.nan_to_num(start.row[problem.active_rows], nan=0.0, posinf=0.0, neginf=0.0)

        updates = _Updates.of(problem)
        iteration = updates.iterate(row, previous_change=math.inf)
        n_iters = 1
        while not updates.is_solved(iteration, self.threshold):
            if n_iters >= self.max_iters:
                return _plan(problem, updates, iteration, n_iters, converged=False)
            iteration = updates.iterate(updates.translate(iteration), iteration.change)
            n_iters += 1
        return _plan(problem, updates, iteration, n_iters, converged=True)


@dataclass(frozen=True, slots=True, eq=False)
class _HalfStep:
    """One half step of Eq. 9–10: log x ← τ (log mass − log K exp(log y)).

    To update u, the matrix is K, the mass a, and y is v. To update v, it is Kᵀ, b, and y is u.
    """

    log_kernel: Matrix
    kernel: Matrix
    log_mass: Floats
    tau: float

    @classmethod
    def of(cls, log_kernel: Matrix, mass: Floats, tau: float) -> _HalfStep:
        kernel = with_entries(log_kernel, np.exp(log_kernel.data))
        return cls(log_kernel, kernel, np.log(mass), tau)

    def log_sums(self, potential: Floats) -> Floats:
        """Return log Σ_j K_ij exp(y_j) for every i, exact even where the product underflows."""
        top = potential.max()
        sums = self.kernel @ np.exp(potential - top)
        is_low = np.flatnonzero(sums < _UNDERFLOW)
        sums[is_low] = 1.0
        log_sums: Floats = np.log(sums) + top
        if is_low.size:
            log_kernel = self.log_kernel[is_low]  # has no empty row, which reduceat would misread
            terms = log_kernel.data + potential[log_kernel.indices]
            log_sums[is_low] = np.logaddexp.reduceat(terms, log_kernel.indptr[:-1])
        return log_sums

    def update(self, log_sums: Floats) -> Floats:
        return self.tau * (self.log_mass - log_sums)


@dataclass(frozen=True, slots=True, eq=False)
class _Iteration:
    """The values of one iteration, over active rows and columns.

    old_row, row: log u before and after the iteration
    column: log v, computed from `old_row`
    row_sums: log Kv
    change: the largest change of log u
    rate: the change, divided by the change in the previous iteration
    """

    old_row: Floats
    column: Floats
    row_sums: Floats
    row: Floats
    change: float
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class _Updates:
    """The two half steps of a problem, restricted to its active rows and columns."""

    of_rows: _HalfStep
    of_columns: _HalfStep

    @classmethod
    def of(cls, problem: TransportProblem) -> _Updates:
        rows = problem.active_rows
        columns = problem.active_columns
        cost = problem.cost
        if not (rows.all() and columns.all()):
            cost = cost[np.flatnonzero(rows)][:, np.flatnonzero(columns)]
        log_kernel = with_entries(cost, cost.data / -problem.epsilon)
        return cls(
            _HalfStep.of(log_kernel, problem.row_mass[rows], problem.row_tau),
            _HalfStep.of(log_kernel.T.tocsr(), problem.column_mass[columns], problem.column_tau),
        )

    def iterate(self, old_row: Floats, previous_change: float) -> _Iteration:
        """Compute v ← (b / Kᵀu)^τ_b, then u ← (a / Kv)^τ_a."""
        column = self.of_columns.update(self.of_columns.log_sums(old_row))
        row_sums = self.of_rows.log_sums(column)
        row = self.of_rows.update(row_sums)
        change = float(np.abs(row - old_row).max())
        return _Iteration(old_row, column, row_sums, row, change, change / previous_change)

    def translate(self, iteration: _Iteration) -> Floats:
        """Return log u + t, with the t that maximises the dual (Séjourné et al. 2022).

        With relaxed marginals, plain iterations change the total mass of P slowly; t sets it:
        t = log(mass after the row half step / mass after the column half step) / (ε/ρ_a + ε/ρ_b)
        """
        softness = sum((1 - step.tau) / step.tau for step in (self.of_rows, self.of_columns))
        if not softness:
            return iteration.row
        log_mass_after = np.logaddexp.reduce(iteration.row + iteration.row_sums)
        log_mass_before = np.logaddexp.reduce(iteration.old_row + iteration.row_sums)
        return iteration.row + float(log_mass_after - log_mass_before) / softness

    def is_solved(self, iteration: _Iteration, threshold: float) -> bool:
        """Check whether log u and log v are within the threshold of the solution.

        An iteration shrinks their distance from the solution by κ = τ_a τ_b, so the distance is at
        most change · τ_b / (1 − κ). If both marginals are hard, κ is the observed rate. A change
        within rounding that no longer shrinks also ends the iterations.
        """
        shrinkage = self.of_rows.tau * self.of_columns.tau
        if shrinkage == 1:
            shrinkage = min(iteration.rate, 1.0)
        if iteration.change * self.of_columns.tau <= threshold * (1 - shrinkage):
            return True
        rounding = _ROUNDING * (1 + float(np.abs(iteration.row).max()))
        return iteration.rate >= 1 and iteration.change <= rounding


def _plan(
    problem: TransportProblem,
    updates: _Updates,
    iteration: _Iteration,
    n_iters: int,
    *,
    converged: bool,
) -> TransportPlan:
    rows = problem.active_rows
    columns = problem.active_columns
    column_sums = updates.of_columns.log_sums(iteration.row)
    row_mass = scatter(np.exp(iteration.row + iteration.row_sums), rows, other=0.0)
    token_mass = scatter(np.exp(iteration.column + column_sums), columns, other=0.0)
    return TransportPlan(
        problem,
        Potentials(
            scatter(iteration.row, rows, other=-np.inf),
            scatter(iteration.column, columns, other=-np.inf),
        ),
        row_mass,
        token_mass,
        n_iters,
        iteration.change,
        converged,
        row_residual=float(np.abs(row_mass - problem.row_mass).sum()),
        column_residual=float(np.abs(token_mass - problem.column_mass).sum()),
    )


def scatter(values: Floats, active: Flags, *, other: float) -> Floats:
    """Return an array with the values at the active places, and `other` elsewhere."""
    full = np.full(active.size, other)
    full[active] = values
    return full


@dataclass(frozen=True, slots=True)
class PotSolver(Sinkhorn):
    """Solver that uses the POT library (`pip install 'volt-vocab[pot]'`).

    max_cells: the largest number of cells; the library stores the cost of every cell
    """

    max_cells: int = 25_000_000

    def __call__(self, problem: TransportProblem, start: Potentials | None = None) -> TransportPlan:
        n_cells = math.prod(problem.cost.shape)
        if n_cells > self.max_cells:
            raise TransportError(
                f"the problem has {n_cells} dense cells, more than {self.max_cells}; use Sinkhorn."
            )
        one_iteration = Sinkhorn(self.threshold, max_iters=1)
        first = one_iteration(problem, start).potentials
        row, n_iters = _solve_with_pot(problem, first, solver=self)
        return replace(one_iteration(problem, replace(first, row=row)), n_iters=n_iters)


def _solve_with_pot(
    problem: TransportProblem, start: Potentials, *, solver: PotSolver
) -> tuple[Floats, int]:
    """Return log u, (n_rows,), and the number of iterations."""
    try:
        import ot
    except ImportError as error:
        raise missing("POT", extra="pot", remedy="use Sinkhorn") from error
    rows = problem.active_rows
    columns = problem.active_columns
    stored = problem.cost.tocoo()
    cost = np.full(stored.shape, np.inf)
    cost[stored.row, stored.col] = stored.data

    row_mass = problem.row_mass[rows]
    column_mass = problem.column_mass[columns]
    inputs = row_mass, column_mass, cost[np.ix_(rows, columns)], problem.epsilon
    options = {
        "warmstart": (start.row[rows], start.column[columns]),
        "numItermax": solver.max_iters,
        "log": True,
    }
    stop = solver.threshold / 10
    rate = problem.row_tau * problem.column_tau
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if rate == 1:
            log = ot.sinkhorn(*inputs, method="sinkhorn_log", stopThr=stop, **options)[1]
            return scatter(log["log_u"], rows, other=-np.inf), log["niter"] + 1
        # "entropy" is −ε H(P); POT's default "kl" is relative to abᵀ. ρ = inf is τ = 1
        rho = [penalty(tau, problem.epsilon) for tau in (problem.row_tau, problem.column_tau)]
        options |= {"reg_type": "entropy", "stopThr": max(stop * (1 - rate), 1e-15)}
        log = ot.unbalanced.sinkhorn_unbalanced(*inputs, tuple(rho), **options)[1]
        return scatter(log["logu"], rows, other=-np.inf), len(log["err"])


SOLVERS: dict[str, type[Sinkhorn]] = {"sinkhorn": Sinkhorn, "pot": PotSolver}
