"""A search → `Study`: MUV-search under the microscope: on the paper's grid and at every size, with both length
conventions, from different floors, beside the transport's entropy, and at what cost.

MUV-search takes the BPE vocabulary whose marginal utility (Eq. 1) is greatest. Where the entropy curve is convex, Eq. 1
falls from the first step on, and the argmax is the first size that the grid lets it pick: the grid decides.

>>> from volt.learn.bpe import learn_bpe
>>> from volt.choose.search import search
>>> from volt.count.word_counts import WordCounts
>>> words = {f"{a}{b}{c}": i + 1 for a in "lst" for b in "aeiou" for i, c in enumerate("nrdw")}
>>> found = muv_study(search(learn_bpe(WordCounts.from_pairs(words), 40)), grid=range(20, 50, 5), grid_step=5)
>>> [(one.over, one.length, one.size, one.on_edge) for one in found.argmaxes[:2]]
[('grid', 'type', 30, False), ('grid', 'occurrence', 25, True)]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from volt.choose.criteria import Length, muv
from volt.choose.search import SearchResult
from volt.choose.size_steps import Parameters, size_steps
from volt.choose.sweep import EntropyCurve, muv_search
from volt.comparison.cost import Cost
from volt.learn.candidates import Candidates

Longs = NDArray[np.int64]

GRID = (*range(1_000, 10_001, 1_000), 20_000)  # the paper's Section 5.2
FLOORS = (0, 250, 500, 1_000, 2_000, 4_000, 8_000)  # 0 stands for the atoms
GRID_STEP = 1_000
CURVE_POINTS = 500


@dataclass(frozen=True, slots=True)
class GridRow:
    """One size of the grid. muv fields: Eq. 1 against the row before, None in the first row.

    entropy, muv: of the sweep, mean length over types;  occurrence_entropy, occurrence_muv: over occurrences
    transport_entropy, transport_muv: Eq. 4 after the transport of this size, with the search's own parameters
    """

    size: int
    entropy: float
    muv: float | None
    occurrence_entropy: float
    occurrence_muv: float | None
    transport_entropy: float
    transport_muv: float | None


@dataclass(frozen=True, slots=True)
class Argmax:
    """Where Eq. 1 is greatest. over: "grid", "every size", or "floor": steps of 1,000 from `floor` on.

    floor: the smallest size;  length: "type" or "occurrence";  on_edge: the first or last size that could be picked
    """

    over: str
    floor: int
    length: str
    size: int
    muv: float
    on_edge: bool


@dataclass(frozen=True, slots=True)
class CostRow:
    """A row in the format of the paper's Table 4. measured: in this run, or quoted from the paper.

    seconds: wall time measured here, CPU time quoted; None where there is none;  gpu_hours: of trial trainings
    """

    approach: str
    size: int
    seconds: float | None
    memory_mb: float | None
    gpu_hours: float
    measured: bool
    note: str


@dataclass(frozen=True, slots=True)
class Curve:
    """The sweep at no more than some 500 evenly spaced sizes; muv is Eq. 1 from one point to the next (one fewer)."""

    sizes: tuple[int, ...]
    entropies: tuple[float, ...]
    muv: tuple[float, ...]
    occurrence_entropies: tuple[float, ...]
    occurrence_muv: tuple[float, ...]
    n_pieces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Study:
    """grid: the sizes of the paper's grid that the candidates reach;  argmaxes: on that grid, over every size, and from
    each floor, for both length conventions, as far as two sizes are there to compare."""

    grid: tuple[GridRow, ...]
    argmaxes: tuple[Argmax, ...]
    curve: Curve
    costs: tuple[CostRow, ...]
    warnings: tuple[str, ...]


_TABLE_4 = "the paper's Table 4: WMT-14 English-German, trial trainings and downstream evaluation on GPUs"
QUOTED = (
    CostRow("BPE-Search (quoted)", 12_600, None, None, 384, False, _TABLE_4),
    CostRow("MUV-Search (quoted)", 9_700, 5.4 * 3600, None, 30, False, _TABLE_4),
    CostRow("VOLT (quoted)", 11_600, 0.5 * 3600, None, 30, False, _TABLE_4),
)


def muv_study(
    search: SearchResult,
    *,
    parameters: Parameters | None = None,
    volt_cost: Cost | None = None,
    sweep_cost: Cost | None = None,
    grid: Sequence[int] = GRID,
    grid_step: int = GRID_STEP,
) -> Study:
    """Study MUV-search on the search's candidates. parameters: the search's;  costs: what either approach took here."""
    candidates = search.candidates
    curves = {length: muv_search(candidates, length=length) for length in get_args(Length)}
    reached = _within(candidates, grid)
    argmaxes = [_argmax(curve, reached, "grid", length) for length, curve in curves.items()]
    argmaxes += [_every_size(curve, length) for length, curve in curves.items()]
    for floor in FLOORS:
        sizes = np.arange(max(floor, candidates.n_atoms), candidates.n_tokens + 1, grid_step).tolist()
        if floor == 0 or floor > candidates.n_atoms:
            argmaxes += [_argmax(curve, sizes, "floor", length) for length, curve in curves.items()]
    found = tuple(one for one in argmaxes if one is not None)
    return Study(
        grid=_grid_rows(search, reached, curves, parameters or Parameters()),
        argmaxes=found,
        curve=_thinned(curves),
        costs=(*_measured(search, argmaxes[0], volt_cost, sweep_cost), *QUOTED),
        warnings=tuple(_warnings(found, reached, grid, candidates.n_tokens)),
    )


def grid_argmax(candidates: Candidates, *, length: Length = "type", grid: Sequence[int] = GRID) -> Argmax | None:
    """What MUV-search picks on the paper's grid; None if the candidates reach fewer than two of its sizes.

    >>> from volt.learn.bpe import learn_bpe
    >>> from volt.count.word_counts import WordCounts
    >>> grid_argmax(learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2}), n_merges=3), grid=range(6, 10)).size
    7
    """
    return _argmax(muv_search(candidates, length=length), _within(candidates, grid), "grid", length)


def _within(candidates: Candidates, sizes: Sequence[int]) -> list[int]:
    return [size for size in sizes if candidates.n_atoms <= size <= candidates.n_tokens]


def _argmax(curve: EntropyCurve, sizes: Sequence[int], over: str, length: str) -> Argmax | None:
    if len(sizes) < 2:
        return None
    at = np.array(sizes) - curve.sizes[0]
    values = muv(curve.entropies[at], curve.sizes[at])
    index = int(np.argmax(values))
    edge = index in (0, len(values) - 1)
    return Argmax(over, sizes[0], length, sizes[index + 1], float(values[index]), edge)


def _every_size(curve: EntropyCurve, length: str) -> Argmax | None:
    return _argmax(curve, curve.sizes.tolist(), "every size", length)


def _grid_rows(
    search: SearchResult, sizes: Sequence[int], curves: dict[str, EntropyCurve], parameters: Parameters
) -> tuple[GridRow, ...]:
    transported = {step.size: step.entropy for step in search.steps}
    missing = [size for size in sizes if size not in transported]
    transported |= {s.size: s.entropy for s in size_steps(search.candidates, missing, parameters=parameters)}
    at = np.array(sizes, np.int64) - search.candidates.n_atoms
    columns = [curves["type"].entropies[at], curves["occurrence"].entropies[at]]
    columns.append(np.array([transported[size] for size in sizes]))
    with_muv = [(entropies.tolist(), [None, *muv(entropies, np.array(sizes)).tolist()]) for entropies in columns]
    flat = [column for pair in with_muv for column in pair]
    return tuple(GridRow(size, *row) for size, *row in zip(sizes, *flat, strict=False))


def _thinned(curves: dict[str, EntropyCurve]) -> Curve:
    by_type, by_occurrence = curves["type"], curves["occurrence"]
    at = np.unique(np.linspace(0, len(by_type.sizes) - 1, CURVE_POINTS).round().astype(int))
    sizes, first, second = by_type.sizes[at], by_type.entropies[at], by_occurrence.entropies[at]
    columns = (sizes, first, muv(first, sizes), second, muv(second, sizes), by_type.n_pieces[at])
    return Curve(*(tuple(column.tolist()) for column in columns))


def _measured(
    search: SearchResult, picked: Argmax | None, volt_cost: Cost | None, sweep_cost: Cost | None
) -> Iterator[CostRow]:
    if volt_cost is not None:
        note = f"learning the candidates, and {len(search.steps)} transports; no training"
        yield _cost_row(f"VOLT, {search.pick.rule}", search.pick.size, volt_cost, note)
    if sweep_cost is not None and picked is not None:
        note = "learning the candidates; the entropy of every size follows from it, without encoding; no training"
        yield _cost_row("MUV-search", picked.size, sweep_cost, note)


def _cost_row(approach: str, size: int, cost: Cost, note: str) -> CostRow:
    return CostRow(approach, size, cost.seconds, cost.memory_mb, 0.0, True, note)


def _warnings(argmaxes: Sequence[Argmax], reached: Sequence[int], grid: Sequence[int], n_tokens: int) -> Iterator[str]:
    if len(reached) < len(grid):
        found = f"{len(reached)} of the grid's {len(grid)} sizes can be compared"
        yield f"the candidates offer {n_tokens:,} tokens at most: {found}"
    for one in argmaxes:
        if one.over == "grid" and one.on_edge:
            yield (
                f"Eq. 1 ({one.length} length) is greatest at {one.size:,}, on the edge of the grid {reached[0]:,} to "
                f"{reached[-1]:,}: the grid decides, not the corpus"
            )
    floors = [one for one in argmaxes if one.over == "floor" and one.length == "type"]
    if len({one.size for one in floors}) > 1:
        picks = ", ".join(f"{one.size:,} from {one.floor:,}" for one in floors)
        yield f"the argmax moves with the smallest size of the grid: {picks}"
