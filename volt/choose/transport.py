"""Entropic optimal transport on a sparse support: characters are moved into tokens (Section 4.2).

Rows i have masses a (characters), columns j masses b (tokens); D(i,j) is stored where i may move
into j. `Sinkhorn` finds the plan P ≥ 0 on the support that minimises

    <P,D> − ε H(P) + ρ_a KL(P1 | a) + ρ_b KL(Pᵀ1 | b)      H(P) = −Σ P (log P − 1),  τ = ρ/(ρ+ε)

whose solution is P = diag(u) K diag(v) with K = exp(−D/ε), found by alternating (Eq. 9–10)

    v ← (b / Kᵀu)^τ_b      u ← (a / Kv)^τ_a      τ = 1: a hard marginal.

`PotSolver` solves small problems with the POT library, as an independent check.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from volt import arguments
from volt.display import counted
from volt.errors import TransportError, missing

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Matrix: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"


def penalty(tau: float, epsilon: float) -> float:
    """Return ρ = ε τ / (1 − τ), the weight of KL(marginal | mass) in the objective."""
    return math.inf if tau == 1 else epsilon * tau / (1 - tau)


@dataclass(frozen=True, slots=True, eq=False)
class TransportProblem:
    """Masses to move from rows to columns, and the cost of each move.

    cost: (n_rows, n_cols) sparse, ≥ 0; its stored entries, zeros included, are the support, all
        others are +∞
    row_mass: (n_rows,) float64, ≥ 0; a row of mass 0 is ignored
    column_mass: (n_cols,) float64, ≥ 0; a column of mass 0 is ignored
    epsilon: ε > 0, in units of cost
    row_tau, column_tau: hardness of the marginals, in (0, 1]; 1 is hard, that is, exact (see `penalty`)
    active_rows, active_columns: bool, computed: whether each row or column has mass, and a partner
        with mass
    Raises TransportError if a value is out of range, or mass under a hard marginal has nowhere to go.

    >>> TransportProblem(sparse.csr_array([[1.0, 2.0]]), np.array([1.0]), np.array([0.5, 0.5]))
    <TransportProblem: 1 row, 2 columns, 2 stored costs, epsilon 1, taus 1 and 0.5>
    """

    cost: Matrix
    row_mass: Floats
    column_mass: Floats
    epsilon: float = 1.0
    row_tau: float = 1.0
    column_tau: float = 0.5
    active_rows: Mask = field(init=False, repr=False)
    active_columns: Mask = field(init=False, repr=False)

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
        support = like(cost, np.ones(cost.nnz))
        rows = (row_mass > 0) & (support @ (column_mass > 0).astype(float) > 0)
        columns = (column_mass > 0) & (support.T @ (row_mass > 0).astype(float) > 0)
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


def like(matrix: Matrix, entries: Floats) -> Matrix:
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
    place = int(is_legal.argmin())
    require(
        is_legal.all(), f"{name}[{place}] is {checked[place]}; give finite masses of at least 0."
    )
    return checked


def _check_partners(name: str, mass: Floats, active: Mask, tau: float) -> None:
    """Check that all mass under a hard marginal may move somewhere."""
    is_stranded = (mass > 0) & ~active
    require(
        tau < 1 or not is_stranded.any(),
        f"{name} {int(is_stranded.argmax())} has mass, but no stored cost to a partner with mass; "
        f"add one, set its mass to 0, or lower {name}_tau.",
    )


# Costs are ≥ 0, so K ≤ 1, and a term lost to underflow is below 1e-307: larger sums are exact.
_UNDERFLOW = 1e-280
_ROUNDING = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Potentials:
    """log u (n_rows,) and log v (n_cols,) of Eq. 9–10; −∞ where no mass moves."""

    row: Floats
    column: Floats

    def __repr__(self) -> str:
        rows = counted(len(self.row), "row")
        return f"<Potentials: {rows}, {counted(len(self.column), 'column')}>"


@dataclass(frozen=True, slots=True, eq=False)
class TransportPlan:
    """The solution P of a problem, and how far it can be trusted.

    problem: the solved problem
    potentials: log u and log v
    row_mass: (n_rows,) P1
    token_mass: (n_cols,) Pᵀ1
    n_iters: iterations that it took
    change: the largest change of log u in the last iteration
    converged: whether the solver reached its threshold
    row_residual, column_residual: the L1 distances of P1 to a and of Pᵀ1 to b, positive for relaxed
        marginals

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
        return (
            f"<TransportPlan: {sides}, {negation}converged after {counted(self.n_iters, 'iteration')}, "
            f"residuals {self.row_residual:.3g} and {self.column_residual:.3g}>"
        )

    @property
    def matrix(self) -> Matrix:
        """P on the support of the problem, (n_rows, n_cols), computed at each access."""
        cost = self.problem.cost
        log_u = np.repeat(self.potentials.row, np.diff(cost.indptr))
        log_v = self.potentials.column[cost.indices]
        return like(cost, np.exp(log_u + log_v - cost.data / self.problem.epsilon))

    @property
    def remedy(self) -> str:
        """The remedy for a plan that has not converged; empty for one that has."""
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

    threshold: allowed distance of any log u or log v from the solution. An iteration shrinks the
        distance by κ = τ_a τ_b, so it is at most change · τ_b / (1 − κ); if both marginals are
        hard, κ is the observed rate
    max_iters: after how many iterations the solver gives up

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

        start: potentials of an earlier plan; only `start.row` is read, because the columns follow from it
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

        sides = _Sides.of(problem)
        iteration = sides.iterate(row, math.inf)
        n_iters = 1
        while True:
            converged = sides.is_solved(iteration, self.threshold)
            if converged or n_iters >= self.max_iters:
                return _plan(problem, sides, iteration, n_iters, converged)
            iteration = sides.iterate(sides.translated(iteration), iteration.change)
            n_iters += 1


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The rows of K with their masses a, or the rows of Kᵀ with b."""

    log_kernel: Matrix
    kernel: Matrix
    log_mass: Floats
    tau: float

    @classmethod
    def of(cls, log_kernel: Matrix, mass: Floats, tau: float) -> _Side:
        return cls(log_kernel, like(log_kernel, np.exp(log_kernel.data)), np.log(mass), tau)

    def log_sums(self, potential: Floats) -> Floats:
        """Return log Σ_j K_ij exp(x_j) for every i, exact even where the product underflows."""
        top = potential.max()
        sums = self.kernel @ np.exp(potential - top)
        low = np.flatnonzero(sums < _UNDERFLOW)
        sums[low] = 1.0
        log_sums: Floats = np.log(sums) + top
        if low.size:
            log_kernel = self.log_kernel[low]  # has no empty row, which reduceat would misread
            terms = log_kernel.data + potential[log_kernel.indices]
            log_sums[low] = np.logaddexp.reduceat(terms, log_kernel.indptr[:-1])
        return log_sums

    def half_step(self, log_sums: Floats) -> Floats:
        """Return the log of (mass / sums)^τ."""
        return self.tau * (self.log_mass - log_sums)


@dataclass(frozen=True, slots=True, eq=False)
class _Iteration:
    """One iteration: log u before it, log v, log Kv, log u after it.

    rate: the change of log u over the previous iteration's change
    """

    before: Floats
    column: Floats
    row_sums: Floats
    row: Floats
    change: float
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """The active rows and columns of a problem."""

    rows: _Side
    columns: _Side

    @classmethod
    def of(cls, problem: TransportProblem) -> _Sides:
        rows = problem.active_rows
        columns = problem.active_columns
        cost = problem.cost
        if not (rows.all() and columns.all()):
            cost = cost[np.flatnonzero(rows)][:, np.flatnonzero(columns)]
        log_kernel = like(cost, cost.data / -problem.epsilon)
        return cls(
            _Side.of(log_kernel, problem.row_mass[rows], problem.row_tau),
            _Side.of(log_kernel.T.tocsr(), problem.column_mass[columns], problem.column_tau),
        )

    def iterate(self, row: Floats, previous_change: float) -> _Iteration:
        """Compute v ← (b / Kᵀu)^τ_b, then u ← (a / Kv)^τ_a."""
        column = self.columns.half_step(self.columns.log_sums(row))
        row_sums = self.rows.log_sums(column)
        new_row = self.rows.half_step(row_sums)
        change = float(np.abs(new_row - row).max())
        return _Iteration(row, column, row_sums, new_row, change, change / previous_change)

    def translated(self, iteration: _Iteration) -> Floats:
        """Return log u, moved by the t that maximises the dual (Séjourné et al. 2022).

        t = log(mass after the row half step / mass after the column half step) / (ε/ρ_a + ε/ρ_b)
        """
        softness = sum((1 - side.tau) / side.tau for side in (self.rows, self.columns))
        if not softness:
            return iteration.row
        after = np.logaddexp.reduce(iteration.row + iteration.row_sums)
        before = np.logaddexp.reduce(iteration.before + iteration.row_sums)
        return iteration.row + float(after - before) / softness

    def is_solved(self, iteration: _Iteration, threshold: float) -> bool:
        contraction = self.rows.tau * self.columns.tau
        rate = contraction if contraction < 1 else min(iteration.rate, 1.0)
        if iteration.change * self.columns.tau <= threshold * (1 - rate):
            return True
        rounding = _ROUNDING * (1 + float(np.abs(iteration.row).max()))
        return iteration.rate >= 1 and iteration.change <= rounding


def _plan(
    problem: TransportProblem, sides: _Sides, iteration: _Iteration, n_iters: int, converged: bool
) -> TransportPlan:
    rows = problem.active_rows
    columns = problem.active_columns
    column_sums = sides.columns.log_sums(iteration.row)
    row_mass = scattered(np.exp(iteration.row + iteration.row_sums), rows, other=0.0)
    token_mass = scattered(np.exp(iteration.column + column_sums), columns, other=0.0)
    return TransportPlan(
        problem,
        Potentials(
            scattered(iteration.row, rows, other=-np.inf),
            scattered(iteration.column, columns, other=-np.inf),
        ),
        row_mass,
        token_mass,
        n_iters,
        iteration.change,
        converged,
        row_residual=float(np.abs(row_mass - problem.row_mass).sum()),
        column_residual=float(np.abs(token_mass - problem.column_mass).sum()),
    )


def scattered(values: Floats, active: Mask, *, other: float) -> Floats:
    full = np.full(active.size, other)
    full[active] = values
    return full


@dataclass(frozen=True, slots=True)
class PotSolver(Sinkhorn):
    """Solver that uses the POT library (`pip install 'volt-vocab[pot]'`).

    The library stores the cost of every cell.
    """

    max_cells: int = 25_000_000

    def __call__(self, problem: TransportProblem, start: Potentials | None = None) -> TransportPlan:
        n_cells = math.prod(problem.cost.shape)
        if n_cells > self.max_cells:
            raise TransportError(
                f"the problem has {n_cells} dense cells, more than {self.max_cells}; use Sinkhorn."
            )
        once = Sinkhorn(self.threshold, max_iters=1)
        first = once(problem, start).potentials
        row, n_iters = _pot_row(problem, first, solver=self)
        return replace(once(problem, replace(first, row=row)), n_iters=n_iters)


def _pot_row(
    problem: TransportProblem, start: Potentials, *, solver: PotSolver
) -> tuple[Floats, int]:
    """Return log u and the number of iterations."""
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
            return scattered(log["log_u"], rows, other=-np.inf), log["niter"] + 1
        # "entropy" is −ε H(P); POT's default "kl" is relative to abᵀ. ρ = inf is τ = 1
        rho = [penalty(tau, problem.epsilon) for tau in (problem.row_tau, problem.column_tau)]
        options |= {"reg_type": "entropy", "stopThr": max(stop * (1 - rate), 1e-15)}
        log = ot.unbalanced.sinkhorn_unbalanced(*inputs, tuple(rho), **options)[1]
        return scattered(log["logu"], rows, other=-np.inf), len(log["err"])


SOLVERS: dict[str, type[Sinkhorn]] = {"sinkhorn": Sinkhorn, "pot": PotSolver}
