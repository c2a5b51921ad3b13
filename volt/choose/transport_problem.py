"""What is to be transported: masses of rows and columns, costs on a sparse support, and how firm the marginals are.

`volt.choose.transport` solves it; here it is checked, once, where it is built.

>>> problem = TransportProblem(sparse.csr_array([[1.0, 2.0]]), np.array([1.0]), np.array([0.5, 0.5]))
>>> problem.active_columns
array([ True,  True])
>>> TransportProblem(sparse.csr_array([[-1.0]]), np.array([1.0]), np.array([1.0]))
Traceback (most recent call last):
    ...
volt.errors.TransportError: cost holds a negative, NaN or infinite entry; leave infinite costs unstored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from volt import arguments
from volt.display import counted
from volt.errors import TransportError

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Matrix: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"


def penalty(tau: float, epsilon: float) -> float:
    """ρ = ε τ / (1 − τ), the weight of KL(marginal | mass) in the objective; infinite for a hard marginal.

    >>> penalty(0.5, 1.0), penalty(0.75, 2.0), penalty(1.0, 1.0)
    (1.0, 6.0, inf)
    """
    return math.inf if tau == 1 else epsilon * tau / (1 - tau)


@dataclass(frozen=True, slots=True, eq=False)
class TransportProblem:
    """What is to be moved (rows), whereto (columns), and at what cost.

    cost: (n_rows, n_cols) sparse, ≥ 0; its stored entries, zeros included, are the support, all others are +∞
    row_mass: (n_rows,) float64, ≥ 0; a row of mass 0 takes no part
    column_mass: (n_cols,) float64, ≥ 0; a column of mass 0 takes no part
    epsilon: ε > 0, in units of cost
    row_tau, column_tau: in (0, 1], 1 = hard marginal (see `penalty`)
    active_rows, active_columns: bool, those that have mass and a partner with mass; computed
    Raises TransportError if a value is out of range, or if mass under a hard marginal has nowhere to go.

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
        require(0 < self.epsilon < math.inf, f"epsilon is {self.epsilon}; give a finite number above 0.")
        for name, tau in (("row_tau", self.row_tau), ("column_tau", self.column_tau)):
            require(0 < tau <= 1, f"{name} is {tau}; give a number above 0 and at most 1 (hard marginal).")
        cost = _checked_cost(self.cost)
        row_mass = _checked_mass("row_mass", self.row_mass, size=cost.shape[0])
        column_mass = _checked_mass("column_mass", self.column_mass, size=cost.shape[1])
        rows, columns = _active(cost, row_mass > 0, column_mass > 0)
        _refuse_stranded("row", row_mass, rows, tau=self.row_tau)
        _refuse_stranded("column", column_mass, columns, tau=self.column_tau)
        # A problem is built like any other value, TransportProblem(cost, a, b), and holds its arrays converted. A
        # frozen dataclass lets its own constructor set them in this way alone; nothing changes them later.
        for name, value in (("cost", cost), ("row_mass", row_mass), ("column_mass", column_mass)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "active_rows", rows)
        object.__setattr__(self, "active_columns", columns)


def like(matrix: Matrix, entries: Floats) -> Matrix:
    """A matrix with the same places and other entries."""
    return sparse.csr_array((entries, matrix.indices, matrix.indptr), shape=matrix.shape)


def _active(cost: Matrix, rows: Mask, columns: Mask) -> tuple[Mask, Mask]:
    """Those of the given rows and columns that a stored entry joins to one of the given others."""
    support = like(cost, np.ones(cost.nnz))
    joined = rows & (support @ columns.astype(np.float64) > 0)
    require(joined.any(), "no stored cost joins a row and a column of positive mass; extend the support.")
    return joined, columns & (support.T @ rows.astype(np.float64) > 0)


def _refuse_stranded(name: str, mass: Floats, active: Mask, *, tau: float) -> None:
    """Raise TransportError if a hard marginal has mass that no stored cost joins to a partner with mass."""
    stranded = (mass > 0) & ~active
    found = f"{name} {int(stranded.argmax())} has mass, but no stored cost to a partner with mass"
    require(tau < 1 or not stranded.any(), f"{found}; add one, set its mass to 0, or {name}_tau below 1.")


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise TransportError unless something holds."""
    if not holds:
        raise TransportError(message)


def _checked_cost(cost: Matrix) -> Matrix:
    fits = sparse.issparse(cost) and len(cost.shape) == 2
    require(fits, f"cost is a {type(cost).__name__}; pass a two-dimensional scipy.sparse.csr_array.")
    csr: Matrix = sparse.csr_array(cost).astype(np.float64, copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()  # keeps stored zeros, which are legal costs
    legal = (csr.data >= 0) & (csr.data < math.inf)
    require(legal.all(), "cost holds a negative, NaN or infinite entry; leave infinite costs unstored.")
    return csr


def _checked_mass(name: str, mass: Floats, *, size: int) -> Floats:
    try:
        checked: Floats = np.asarray(mass, dtype=np.float64)
    except (TypeError, ValueError):
        raise arguments.refusal(mass, name, "give a numpy array of numbers") from None
    require(checked.shape == (size,), f"{name} has shape {checked.shape}; cost asks for ({size},).")
    require(checked.any(), f"{name} is 0 everywhere; give at least one positive mass.")
    legal = (checked >= 0) & (checked < math.inf)
    place = int(legal.argmin())
    require(legal.all(), f"{name}[{place}] is {checked[place]}; give finite masses of at least 0.")
    return checked
