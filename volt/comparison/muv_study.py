"""A search → `Study`: the sizes that MUV-search picks, and how they depend on the grid.

MUV-search picks the BPE vocabulary with the greatest marginal utility of vocabularisation (MUV, Eq.
1) in a grid, a list of increasing sizes. The MUV of a size is the fall in entropy (Eq. 2) from the
size before, per added token:

    sizes 100, 300; entropies 2.0, 1.0  →  MUV of 300: (2.0 - 1.0) / (300 - 100) = 0.005

If the entropy curve is convex, the fall per token is greatest at the start, so the grid's second
size wins: the choice of the grid decides, not the corpus. The study compares several grids to show
this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from volt.choose.criteria import Length, muv
from volt.choose.exact_curve import EntropyCurve, muv_search
from volt.choose.search import SearchResult
from volt.choose.size_steps import SearchParameters, size_steps
from volt.learn.candidates import Candidates

Row = dict[str, Any]
Curves = dict[str, EntropyCurve]  # mean length, "type" or "occurrence" → the curve
GRID = (*range(1_000, 10_001, 1_000), 20_000)  # the paper's Section 5.2
FLOORS = 250, 500, 1_000, 2_000, 4_000, 8_000  # first sizes of grids, besides the number of atoms
GRID_STEP = 1_000  # distance of sizes in the grids that start at the floors
CURVE_POINTS = 500


@dataclass(frozen=True, slots=True)
class Argmax:
    """The size with the greatest MUV (Eq. 1) in a grid.

    over: the grid: "grid", the paper's; "every size"; or "floor", every 1,000th size from `floor`
        on
    floor: the smallest size of the grid
    length: whether Eq. 2 averages the length of tokens ("type") or of pieces ("occurrence")
    size, muv: the size with the greatest MUV, and that MUV
    on_edge: whether that is the second size of the grid (the first has no MUV) or the last
    """

    over: str
    floor: int
    length: str
    size: int
    muv: float
    on_edge: bool


@dataclass(frozen=True, slots=True)
class Study:
    """The study of MUV-search.

    grid: for each size, three entropies, and the MUV (Eq. 1) of each: Eq. 2 by tokens, Eq. 2 by
        pieces, and Eq. 4
    argmaxes: the sizes with the greatest MUV
    curve: entropy and MUV of BPE at up to 500 evenly spaced sizes; the first size has no MUV
    warnings: sentences on what the argmaxes depend on
    """

    grid: tuple[Row, ...]
    argmaxes: tuple[Argmax, ...]
    curve: dict[str, list[float]]
    warnings: tuple[str, ...]


def muv_study(
    search: SearchResult,
    *,
    parameters: SearchParameters,
    grid: Sequence[int] = GRID,
    grid_step: int = GRID_STEP,
) -> Study:
    """Return the study of a search's candidates. parameters: parameters of the transport"""
    candidates = search.candidates
    reachable = _reachable_sizes(candidates, grid)
    curves = {length: muv_search(candidates, length=length) for length in get_args(Length)}
    argmaxes = _find_argmaxes(candidates, curves, reachable, grid_step)
    return Study(
        grid=_grid_rows(search, reachable, curves, parameters),
        argmaxes=tuple(argmaxes),
        curve=_curve_columns(curves),
        warnings=tuple(_warnings(argmaxes, reachable, grid, candidates.n_tokens)),
    )


def grid_argmax(candidates: Candidates, *, grid: Sequence[int] = GRID) -> Argmax | None:
    """Return the pick of MUV-search in a grid.

    None if the candidates reach fewer than two of the grid's sizes.
    """
    reachable = _reachable_sizes(candidates, grid)
    return _find_argmax(muv_search(candidates), reachable, over="grid", length="type")


def _reachable_sizes(candidates: Candidates, sizes: Sequence[int]) -> list[int]:
    return [size for size in sizes if candidates.n_atoms <= size <= candidates.n_tokens]


def _find_argmaxes(
    candidates: Candidates, curves: Curves, reachable: Sequence[int], grid_step: int
) -> list[Argmax]:
    """Return the argmax of each grid and mean length.

    reachable: the reachable sizes of the paper's grid
    """
    smallest = candidates.n_atoms
    end = candidates.n_tokens + 1
    grids: list[tuple[str, Sequence[int]]] = [
        ("grid", reachable),
        ("every size", range(smallest, end)),
    ]
    floors = [smallest, *(floor for floor in FLOORS if floor > smallest)]
    grids += [("floor", range(floor, end, grid_step)) for floor in floors]

    argmaxes = []
    for over, sizes in grids:
        for length, curve in curves.items():
            argmax = _find_argmax(curve, sizes, over=over, length=length)
            if argmax:
                argmaxes.append(argmax)
    return argmaxes


def _find_argmax(
    curve: EntropyCurve, sizes: Sequence[int], *, over: str, length: str
) -> Argmax | None:
    """Return the size with the greatest MUV against the size before.

    None for fewer than two sizes.
    """
    if len(sizes) < 2:
        return None
    positions = np.array(sizes) - curve.sizes[0]
    utilities = muv(curve.entropies[positions], curve.sizes[positions])
    index = int(np.argmax(utilities))
    return Argmax(
        over=over,
        floor=sizes[0],
        length=length,
        size=sizes[index + 1],
        muv=float(utilities[index]),
        on_edge=index in (0, len(utilities) - 1),
    )


def _grid_rows(
    search: SearchResult, sizes: Sequence[int], curves: Curves, parameters: SearchParameters
) -> tuple[Row, ...]:
    """Return a row for each size: three entropies, and the MUV of each against the size before."""
    steps = {step.size: step for step in search.steps}
    missing = [size for size in sizes if size not in steps]
    for step in size_steps(search.candidates, missing, parameters=parameters):
        steps[step.size] = step

    positions = np.array(sizes, np.int64) - search.candidates.n_atoms
    entropies_by_prefix = {
        "": curves["type"].entropies[positions],
        "occurrence_": curves["occurrence"].entropies[positions],
        "transport_": np.array([steps[size].transport_entropy for size in sizes]),
    }
    rows = [Row(size=size) for size in sizes]
    for prefix, entropies in entropies_by_prefix.items():
        utilities = [None, *muv(entropies, np.array(sizes)).tolist()]
        for row, entropy, utility in zip(rows, entropies.tolist(), utilities, strict=False):
            row[f"{prefix}entropy"] = entropy
            row[f"{prefix}muv"] = utility
    return tuple(rows)


def _curve_columns(curves: Curves) -> dict[str, list[float]]:
    """Return entropies and MUV at evenly spaced sizes, as columns for charts."""
    by_type = curves["type"]
    spaced = np.linspace(0, len(by_type.sizes) - 1, CURVE_POINTS)
    positions = np.unique(spaced.round().astype(int))
    sizes = by_type.sizes[positions]
    columns = {"sizes": sizes.tolist()}
    for prefix, curve in (("", by_type), ("occurrence_", curves["occurrence"])):
        entropies = curve.entropies[positions]
        columns[f"{prefix}entropies"] = entropies.tolist()
        columns[f"{prefix}muv"] = muv(entropies, sizes).tolist()
    columns["n_pieces"] = by_type.n_pieces[positions].tolist()
    return columns


def _warnings(
    argmaxes: Sequence[Argmax], reachable: Sequence[int], grid: Sequence[int], n_tokens: int
) -> Iterator[str]:
    """Yield sentences on what the argmaxes depend on. n_tokens: the greatest reachable size"""
    if len(reachable) < len(grid):
        yield (
            f"the candidates offer {n_tokens:,} tokens at most: {len(reachable)} of the grid's "
            f"{len(grid)} sizes can be compared"
        )
    for argmax in argmaxes:
        if argmax.over == "grid" and argmax.on_edge:
            yield (
                f"Eq. 1 (mean length by {argmax.length}) is greatest at {argmax.size:,}, on the "
                f"edge of the grid {reachable[0]:,} to {reachable[-1]:,}: the grid decides, not "
                "the corpus"
            )
    by_floor = [argmax for argmax in argmaxes if (argmax.over, argmax.length) == ("floor", "type")]
    if len({argmax.size for argmax in by_floor}) > 1:
        picks = ", ".join(f"{argmax.size:,} from {argmax.floor:,}" for argmax in by_floor)
        yield f"the argmax moves with the smallest size of the grid: {picks}"
