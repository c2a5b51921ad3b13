"""Entropic optimal transport on a sparse support: characters are moved into tokens (Section 4.2).

Rows i have masses a (characters), columns j masses b (tokens); D(i,j) is stored where i may move into j. `Sinkhorn`
finds the plan P ≥ 0 on the support that minimises

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

    cost: (n_rows, n_cols) sparse, ≥ 0; its stored entries, zeros included, are the support, all others are +∞
    row_mass: (n_rows,) float64, ≥ 0; a row of mass 0 is ignored
    column_mass: (n_cols,) float64, ≥ 0; a column of mass 0 is ignored
    epsilon: ε > 0, in units of cost
    row_tau, column_tau: hardness of the marginals, in (0, 1]; 1 is hard, that is, exact (see `penalty`)
    active_rows, active_columns: bool, computed: whether each row or column has mass, and a partner with mass
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
        sides = [counted(self.cost.shape[0], "row"), counted(self.cost.shape[1], "column")]
        settings = f"epsilon {self.epsilon:g}, taus {self.row_tau:g} and {self.column_tau:g}"
        return f"<TransportProblem: {', '.join(sides)}, {counted(self.cost.nnz, 'stored cost')}, {settings}>"

    def __post_init__(self) -> None:
        for name in ("epsilon", "row_tau", "column_tau"):
            arguments.number(getattr(self, name), name)
        require(
            0 < self.epsilon < math.inf, f"epsilon is {self.epsilon}; give a finite number above 0."
        )
        for name, tau in (("row_tau", self.row_tau), ("column_tau", self.column_tau)):
            require(
                0 < tau <= 1,
                f"{name} is {tau}; give a number above 0 and at most 1 (hard marginal).",
            )
        cost = _checked_cost(self.cost)
        row_mass = _checked_mass("row_mass", self.row_mass, size=cost.shape[0])
        column_mass = _checked_mass("column_mass", self.column_mass, size=cost.shape[1])
        support, rows, columns = like(cost, np.ones(cost.nnz)), row_mass > 0, column_mass > 0
        rows, columns = (
            rows & (support @ columns.astype(float) > 0),
            columns & (support.T @ rows.astype(float) > 0),
        )
        require(
            rows.any(),
            "no stored cost joins a row and a column of positive mass; extend the support.",
        )
        sides = (
            ("row", row_mass, rows, self.row_tau),
            ("column", column_mass, columns, self.column_tau),
        )
        for name, mass, active, tau in sides:
            stranded = (mass > 0) & ~active
            problem = f"{name} {int(stranded.argmax())} has mass, but no stored cost to a partner with mass"
            require(
                tau < 1 or not stranded.any(),
                f"{problem}; add one, set its mass to 0, or lower {name}_tau.",
            )
        values = {"cost": cost, "row_mass": row_mass, "column_mass": column_mass}
        for name, value in (values | {"active_rows": rows, "active_columns": columns}).items():
            object.__setattr__(
                self, name, value
            )  # the only way to set a field of a frozen dataclass


def like(matrix: Matrix, entries: Floats) -> Matrix:
    return sparse.csr_array((entries, matrix.indices, matrix.indptr), shape=matrix.shape)


def require(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise TransportError(message)


def _checked_cost(cost: Matrix) -> Matrix:
    fits = sparse.issparse(cost) and len(cost.shape) == 2
    require(
        fits, f"cost is a {type(cost).__name__}; pass a two-dimensional scipy.sparse.csr_array."
    )
    csr: Matrix = sparse.csr_array(cost).astype(np.float64, copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()  # keeps stored zeros, which are legal costs
    legal = (csr.data >= 0) & (csr.data < math.inf)
    require(
        legal.all(),
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
    legal = (checked >= 0) & (checked < math.inf)
    place = int(legal.argmin())
    require(legal.all(), f"{name}[{place}] is {checked[place]}; give finite masses of at least 0.")
    return checked


Sides: TypeAlias = "tuple[_Side, _Side]"

# Costs are ≥ 0, so K ≤ 1 and a term lost to underflow is below 1e-307: a sum above this limit is exact.
_UNDERFLOW = 1e-280
_ROUNDING = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Potentials:
    """log u (n_rows,) and log v (n_cols,) of Eq. 9–10; −∞ where no mass moves."""

    row: Floats
    column: Floats

    def __repr__(self) -> str:
        return (
            f"<Potentials: {counted(len(self.row), 'row')}, {counted(len(self.column), 'column')}>"
        )


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
    row_residual, column_residual: the L1 distances of P1 to a and of Pᵀ1 to b, positive for relaxed marginals

    >>> problem = TransportProblem(sparse.csr_array([[1.0, 2.0]]), np.array([1.0]), np.array([0.5, 0.5]))
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
        state = f"{'converged' if self.converged else 'not converged'} after {counted(self.n_iters, 'iteration')}"
        return f"<TransportPlan: {sides}, {state}, residuals {self.row_residual:.3g} and {self.column_residual:.3g}>"

    @property
    def matrix(self) -> Matrix:
        """P on the support of the problem, (n_rows, n_cols), computed at each access."""
        cost, potentials = self.problem.cost, self.potentials
        log_scaling = (
            np.repeat(potentials.row, np.diff(cost.indptr)) + potentials.column[cost.indices]
        )
        return like(cost, np.exp(log_scaling - cost.data / self.problem.epsilon))

    @property
    def remedy(self) -> str:
        """The remedy for a plan that has not converged; empty for one that has."""
        problem, masses = (
            self.problem,
            (self.problem.row_mass.sum(), self.problem.column_mass.sum()),
        )
        general = f"raise max_iters above {self.n_iters} or epsilon above {problem.epsilon:g}"
        if self.converged:
            return ""
        if problem.row_tau * problem.column_tau < 1:
            return f"not converged: {general}, or lower a tau."
        if not math.isclose(*masses, rel_tol=1e-9):
            return "hard marginals of masses {:g} and {:g}: rescale one or set a tau < 1.".format(
                *masses
            )
        return f"the support may admit no plan with these marginals: set a tau < 1; if it does, {general}."


@dataclass(frozen=True, slots=True)
class Sinkhorn:
    """Sparse Sinkhorn in the log domain: memory and the time of an iteration are linear in the number of stored costs.

    threshold: allowed distance of any log u or log v from the solution. An iteration shrinks the distance by
        κ = τ_a τ_b, so it is at most change · τ_b / (1 − κ); if both marginals are hard, κ is the observed rate
    max_iters: after how many iterations the solver gives up

    >>> cost = sparse.csr_array(np.log([[1.0, 2.0], [3.0, 2.0]]))  # log 1 = 0 is not stored, so off the support
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
        sides, n_iters, row = _sides(problem), 1, np.zeros(int(problem.active_rows.sum()))
        if start is not None:
            fits = start.row.shape == problem.row_mass.shape
            require(
                fits,
                f"start.row has shape {start.row.shape}; align it to the {problem.row_mass.size} rows.",
            )
            row = np.nan_to_num(start.row[problem.active_rows], nan=0.0, posinf=0.0, neginf=0.0)
        step = _step(sides, row)
        while (
            not (done := _is_done(sides, step, threshold=self.threshold))
            and n_iters < self.max_iters
        ):
            step, n_iters = (
                _step(sides, _translated(sides, step), previous=step.change),
                n_iters + 1,
            )
        return _plan(problem, step, sides=sides, n_iters=n_iters, done=done)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    log_kernel: Matrix
    kernel: Matrix
    log_mass: Floats
    tau: float

    @classmethod
    def of(cls, log_kernel: Matrix, mass: Floats, tau: float) -> _Side:
        return cls(log_kernel, like(log_kernel, np.exp(log_kernel.data)), np.log(mass), tau)

    def log_sums(self, potential: Floats) -> Floats:
        """Return log Σ_j K_ij exp(x_j) for every i, by log-sum-exp where the matrix product underflows."""
        top = potential.max()
        sums = self.kernel @ np.exp(potential - top)
        low = np.flatnonzero(sums < _UNDERFLOW)
        sums[low] = 1.0
        log_sums: Floats = np.log(sums) + top
        if low.size:
            log_sums[low] = _log_sum_rows(self.log_kernel[low], potential)
        return log_sums


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One iteration: log u before it, log v, log Kv, log u after it."""

    before: Floats
    column: Floats
    row_sums: Floats
    row: Floats
    change: float
    rate: float  # change / the previous iteration's change


def _sides(problem: TransportProblem) -> Sides:
    rows, columns, cost = problem.active_rows, problem.active_columns, problem.cost
    if not (rows.all() and columns.all()):
        cost = cost[np.flatnonzero(rows)][:, np.flatnonzero(columns)]
    log_kernel = like(cost, cost.data / -problem.epsilon)
    row_side = _Side.of(log_kernel, problem.row_mass[rows], problem.row_tau)
    return row_side, _Side.of(
        log_kernel.T.tocsr(), problem.column_mass[columns], problem.column_tau
    )


def _step(sides: Sides, row: Floats, *, previous: float = math.inf) -> _Step:
    """v ← (b / Kᵀu)^τ_b, then u ← (a / Kv)^τ_a."""
    rows, columns = sides
    column = columns.tau * (columns.log_mass - columns.log_sums(row))
    row_sums = rows.log_sums(column)
    new_row = rows.tau * (rows.log_mass - row_sums)
    change = float(np.abs(new_row - row).max())
    return _Step(row, column, row_sums, new_row, change, rate=change / previous)


def _translated(sides: Sides, step: _Step) -> Floats:
    """Return the new log u, moved by the constant t that maximises the dual (Séjourné et al. 2022)."""
    # t = log(mass after the row half step / mass after the column half step) / (ε/ρ_a + ε/ρ_b)
    softness = sum((1 - side.tau) / side.tau for side in sides)
    after, before = (np.logaddexp.reduce(row + step.row_sums) for row in (step.row, step.before))
    return step.row + (float(after - before) / softness if softness else 0.0)


def _is_done(sides: Sides, step: _Step, *, threshold: float) -> bool:
    contraction = sides[0].tau * sides[1].tau
    rate = contraction if contraction < 1 else min(step.rate, 1.0)
    near = step.change * sides[1].tau <= threshold * (1 - rate)
    return near or (
        step.rate >= 1 and step.change <= _ROUNDING * (1 + float(np.abs(step.row).max()))
    )


def _plan(
    problem: TransportProblem, step: _Step, *, sides: Sides, n_iters: int, done: bool
) -> TransportPlan:
    rows, columns = problem.active_rows, problem.active_columns
    row_mass = scattered(np.exp(step.row + step.row_sums), rows, other=0.0)
    token_mass = scattered(np.exp(step.column + sides[1].log_sums(step.row)), columns, other=0.0)
    row, column = (
        scattered(step.row, rows, other=-np.inf),
        scattered(step.column, columns, other=-np.inf),
    )
    gaps = row_mass - problem.row_mass, token_mass - problem.column_mass
    residuals = (float(np.abs(gap).sum()) for gap in gaps)
    return TransportPlan(
        problem,
        Potentials(row, column),
        row_mass,
        token_mass,
        n_iters,
        step.change,
        done,
        *residuals,
    )


def scattered(values: Floats, active: Mask, *, other: float) -> Floats:
    full = np.full(active.size, other)
    full[active] = values
    return full


def _log_sum_rows(log_kernel: Matrix, potential: Floats) -> Floats:
    """Return log Σ_j exp(L_ij + x_j) for each row of L. No row may be empty: reduceat would misread it."""
    terms = log_kernel.data + potential[log_kernel.indices]
    return np.asarray(np.logaddexp.reduceat(terms, log_kernel.indptr[:-1]))


@dataclass(frozen=True, slots=True)
class PotSolver(Sinkhorn):
    """Solver that uses the POT library (`pip install 'volt-vocab[pot]'`), which stores the cost of every cell."""

    max_cells: int = 25_000_000

    def __call__(self, problem: TransportProblem, start: Potentials | None = None) -> TransportPlan:
        n_cells = math.prod(problem.cost.shape)
        if n_cells > self.max_cells:
            raise TransportError(
                f"the problem has {n_cells} dense cells, more than {self.max_cells}; use Sinkhorn."
            )
        ours = Sinkhorn(self.threshold, max_iters=1)
        first = ours(problem, start).potentials
        row, n_iters = _pot_row(problem, first, solver=self)
        return replace(ours(problem, replace(first, row=row)), n_iters=n_iters)


def _pot_row(
    problem: TransportProblem, start: Potentials, *, solver: PotSolver
) -> tuple[Floats, int]:
    try:
        import ot
    except ImportError as error:
        raise missing("POT", extra="pot", remedy="use Sinkhorn") from error
    rows, columns = problem.active_rows, problem.active_columns
    stored, rate = problem.cost.tocoo(), problem.row_tau * problem.column_tau
    cost = np.full(stored.shape, np.inf)
    cost[stored.row, stored.col] = stored.data
    args = (
        problem.row_mass[rows],
        problem.column_mass[columns],
        cost[np.ix_(rows, columns)],
        problem.epsilon,
    )
    rho = penalty(problem.row_tau, problem.epsilon), penalty(problem.column_tau, problem.epsilon)
    warm, stop = (start.row[rows], start.column[columns]), solver.threshold / 10
    options = {"warmstart": warm, "numItermax": solver.max_iters, "log": True}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if rate == 1:
            log = ot.sinkhorn(*args, method="sinkhorn_log", stopThr=stop, **options)[1]
            return scattered(log["log_u"], rows, other=-np.inf), log["niter"] + 1
        # "entropy" is −ε H(P), while POT's default "kl" is relative to abᵀ; ρ = inf is τ = 1
        options |= {"reg_type": "entropy", "stopThr": max(stop * (1 - rate), 1e-15)}
        log = ot.unbalanced.sinkhorn_unbalanced(*args, rho, **options)[1]
        return scattered(log["logu"], rows, other=-np.inf), len(log["err"])


SOLVERS: dict[str, type[Sinkhorn]] = {"sinkhorn": Sinkhorn, "pot": PotSolver}
