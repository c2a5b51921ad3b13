"""The POT library as a second, independent solver, for small problems and for tests."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np

from volt.choose.transport import Floats, Potentials, Sinkhorn, TransportPlan, TransportProblem, penalty, scattered
from volt.errors import TransportError, missing


@dataclass(frozen=True, slots=True)
class PotSolver(Sinkhorn):
    """A solver by the POT library (`pip install 'volt-vocab[pot]'`), which stores the cost of every cell."""

    max_cells: int = 25_000_000

    def __call__(self, problem: TransportProblem, start: Potentials | None = None) -> TransportPlan:
        n_cells = math.prod(problem.cost.shape)
        if n_cells > self.max_cells:
            raise TransportError(f"the problem's {n_cells} dense cells are above {self.max_cells}; use Sinkhorn.")
        ours = Sinkhorn(self.threshold, max_iters=1)
        first = ours(problem, start).potentials
        row, n_iters = _pot_row(problem, first, solver=self)
        return replace(ours(problem, replace(first, row=row)), n_iters=n_iters)


def _pot_row(problem: TransportProblem, start: Potentials, *, solver: PotSolver) -> tuple[Floats, int]:
    """Return log u and the number of iterations of POT."""
    try:
        import ot
    except ImportError as error:
        raise missing("POT", extra="pot", remedy="use Sinkhorn") from error
    rows, columns = problem.active_rows, problem.active_columns
    stored, rate = problem.cost.tocoo(), problem.row_tau * problem.column_tau
    cost = np.full(stored.shape, np.inf)
    cost[stored.row, stored.col] = stored.data
    args = problem.row_mass[rows], problem.column_mass[columns], cost[np.ix_(rows, columns)], problem.epsilon
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
