"""A search → `Study` of MUV-search, and `TokenTable` and `SampleCuts`: tokens and sample lines along all sizes.

MUV-search picks the BPE vocabulary with the greatest marginal utility (Eq. 1). Where the entropy curve is convex, that
is the first size: the choice of sizes decides, not the corpus. So the study compares several grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from volt.choose.criteria import Length, muv
from volt.choose.exact_curve import EntropyCurve, muv_search
from volt.choose.search import SearchResult
from volt.choose.size_steps import SearchParameters, size_steps
from volt.choose.vocabulary_at import counts_of_kept, vocabulary_of
from volt.comparison.cost import Cost
from volt.encode.encoder import Encoder
from volt.learn.candidates import Candidates
from volt.text.characters import PREFIX, SUFFIX

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TokenTable:
    """Where each candidate token appears, peaks and is dropped along the sizes, with counts from the learned corpus.

    counts, ranks: each token's in the chosen vocabulary; −1 and 0 for a token that it lacks
    scaffolding: the first searched size that has the token and drops it, or 0
    """

    tokens: tuple[str, ...]
    lengths: Longs
    counts: Longs
    ranks: Longs
    appears: Longs
    peaks: Longs
    peak_counts: Longs
    scaffolding: Longs


@dataclass(frozen=True, slots=True)
class SampleCuts:
    """Sample lines, each (name of its text, line), cut by the vocabulary of every searched size.

    cuts: [size][sample][word] → its pieces: numbers of tokens in the TokenTable, or unknown characters
    counts: [size] → token number → its count in the corpus, for the tokens that the samples use
    """

    sizes: tuple[int, ...]
    samples: tuple[tuple[str, str], ...]
    cuts: tuple[tuple[tuple[tuple[int | str, ...], ...], ...], ...]
    counts: tuple[dict[int, int], ...]


def token_table(search: SearchResult) -> TokenTable:
    candidates = search.candidates
    held = dict(zip(search.vocabulary.tokens, search.vocabulary.counts, strict=True))
    counts = np.array([held.get(token, -1) for token in candidates.tokens], np.int64)
    ranks = np.zeros(len(counts), np.int64)
    ranks[np.argsort(-counts, kind="stable")[: len(held)]] = np.arange(1, len(held) + 1)
    peaks, peak_counts = _peaks(candidates)
    dropped = np.zeros(candidates.n_tokens, np.int64)
    for step in search.steps:
        new = np.flatnonzero(~step.kept & (dropped[: step.size] == 0))
        dropped[new] = step.size
    appears = np.maximum(np.arange(1, candidates.n_tokens + 1), candidates.n_atoms)
    return TokenTable(candidates.tokens, candidates.lengths, counts, ranks, appears, peaks, peak_counts, dropped)


def _peaks(candidates: Candidates) -> tuple[Longs, Longs]:
    change, n_atoms = candidates.trajectory, candidates.n_atoms
    tokens = np.concatenate([np.arange(n_atoms), change.tokens])
    sizes = np.concatenate([np.full(n_atoms, n_atoms), candidates.sizes_after()[1:][change.merges]])
    counts = np.concatenate([candidates.atom_counts, change.after])
    order = np.argsort(tokens, kind="stable")
    tokens, sizes, counts = tokens[order], sizes[order], counts[order]
    last = np.append((tokens[1:] != tokens[:-1]) | (sizes[1:] != sizes[:-1]), True)  # where a size ends for a token
    tokens, sizes, counts = tokens[last], sizes[last], counts[last]
    best = np.lexsort((sizes, -counts, tokens))
    result, first = np.unique(tokens[best], return_index=True)
    peaks, peak_counts = np.arange(1, candidates.n_tokens + 1), np.zeros(candidates.n_tokens, np.int64)
    peaks[result], peak_counts[result] = sizes[best][first], counts[best][first]
    return peaks, peak_counts


def sample_cuts(search: SearchResult, samples: Sequence[tuple[str, str]]) -> SampleCuts:
    """Cut lines at every searched size. samples: (name of the text, line)"""
    candidates = search.candidates
    normalizer, pretokenizer = candidates.counts.normalizer, candidates.counts.pretokenizer
    lines = [pretokenizer.split(normalizer.normalize(line)) for _, line in samples]
    words = list(dict.fromkeys(word for line in lines for word in line))
    numbers = {token: number for number, token in enumerate(candidates.tokens)}
    texts = _substrings(candidates, words)
    merges = [(rank, pair) for rank, pair in enumerate(candidates.merges) if "".join(pair) in texts]
    tokens = [n for n, token in enumerate(candidates.tokens) if n < candidates.n_atoms or token in texts]
    cuts, counts = [], []
    for step in search.steps:
        n_merges = candidates.merges_at(step.size)
        vocabulary = vocabulary_of(
            candidates,
            merges=(pair for rank, pair in merges if rank < n_merges),
            tokens=(candidates.tokens[n] for n in tokens if n < step.size and step.kept[n]),
        )
        result = Encoder(vocabulary).encode_words(words)
        pieces = {
            word: tuple(numbers.get(piece, piece) for piece in cut) for word, cut in zip(words, result, strict=True)
        }
        cuts.append(tuple(tuple(pieces[word] for word in line) for line in lines))
        used = {piece for cut in pieces.values() for piece in cut if isinstance(piece, int)}
        exact = counts_of_kept(candidates, step.kept)
        counts.append({token: int(exact[token]) for token in sorted(used)})
    return SampleCuts(tuple(step.size for step in search.steps), tuple(samples), tuple(cuts), tuple(counts))


def _substrings(candidates: Candidates, words: Sequence[str]) -> set[str]:
    """Return the strings of tokens in these words; a vocabulary of such tokens cuts them alike."""
    longest, texts = max(map(len, candidates.tokens)), set[str]()
    for word in words:
        text = PREFIX * (candidates.marker == "prefix") + word + SUFFIX * (candidates.marker == "suffix")
        texts.update(text[start:end] for start in range(len(text)) for end in range(start + 1, start + longest + 1))
    return texts


GRID = (*range(1_000, 10_001, 1_000), 20_000)  # the paper's Section 5.2
FLOORS = (0, 250, 500, 1_000, 2_000, 4_000, 8_000)  # the first sizes of grids; 0 stands for the number of atoms
GRID_STEP = 1_000
CURVE_POINTS = 500


@dataclass(frozen=True, slots=True)
class GridRow:
    """One size of the grid: Eq. 2 with the mean length over tokens and over pieces, Eq. 4, and Eq. 1 of each."""

    size: int
    entropy: float
    muv: float | None
    occurrence_entropy: float
    occurrence_muv: float | None
    transport_entropy: float
    transport_muv: float | None


@dataclass(frozen=True, slots=True)
class Argmax:
    """The argmax of Eq. 1 among the "grid" (the paper's), "every size", or the steps of 1,000 from a "floor" on.

    length: the mean length of Eq. 2 is over "type" (tokens) or "occurrence" (pieces)
    """

    over: str
    floor: int
    length: str
    size: int
    muv: float
    on_edge: bool


@dataclass(frozen=True, slots=True)
class CostRow:
    """A row in the format of the paper's Table 4."""

    approach: str
    size: int
    seconds: float | None
    memory_mb: float | None
    gpu_hours: float
    measured: bool
    note: str


@dataclass(frozen=True, slots=True)
class Curve:
    """The BPE sweep at up to 500 evenly spaced sizes. The fields are named as in `GridRow`."""

    sizes: tuple[int, ...]
    entropies: tuple[float, ...]
    muv: tuple[float, ...]
    occurrence_entropies: tuple[float, ...]
    occurrence_muv: tuple[float, ...]
    n_pieces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Study:
    """The argmaxes of Eq. 1 over the grid, every size, and from each floor on; the sweep; costs as in Table 4.

    warnings: sentences on what the argmaxes depend on
    """

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
    parameters: SearchParameters | None = None,
    volt_cost: Cost | None = None,
    sweep_cost: Cost | None = None,
    grid: Sequence[int] = GRID,
    grid_step: int = GRID_STEP,
) -> Study:
    candidates, reached = search.candidates, _within(search.candidates, grid)
    curves = {length: muv_search(candidates, length=length) for length in get_args(Length)}
    argmaxes = list(_argmaxes(candidates, curves, reached, grid_step))
    on_grid = next((one for one in argmaxes if (one.over, one.length) == ("grid", "type")), None)
    costs = []
    if volt_cost is not None:
        note = f"learning the candidates, and {len(search.steps)} transports; no training"
        costs.append(_measured(f"VOLT, {search.pick.rule}", search.pick.size, volt_cost, note))
    if sweep_cost is not None and on_grid is not None:
        note = "learning the candidates; the entropy of every size follows from it, without encoding; no training"
        costs.append(_measured("MUV-search", on_grid.size, sweep_cost, note))
    by_type, by_occurrence = curves["type"], curves["occurrence"]
    at = np.unique(np.linspace(0, len(by_type.sizes) - 1, CURVE_POINTS).round().astype(int))
    sizes, first, second = by_type.sizes[at], by_type.entropies[at], by_occurrence.entropies[at]
    columns = (sizes, first, muv(first, sizes), second, muv(second, sizes), by_type.n_pieces[at])
    return Study(
        grid=_grid_rows(search, reached, curves, parameters or SearchParameters()),
        argmaxes=tuple(argmaxes),
        curve=Curve(*(tuple(column.tolist()) for column in columns)),
        costs=(*costs, *QUOTED),
        warnings=tuple(_warnings(argmaxes, reached, grid, candidates.n_tokens)),
    )


def grid_argmax(candidates: Candidates, *, length: Length = "type", grid: Sequence[int] = GRID) -> Argmax | None:
    """Return the pick of MUV-search on the paper's grid, if it has two sizes."""
    return _argmax(muv_search(candidates, length=length), _within(candidates, grid), "grid", length)


def _argmaxes(
    candidates: Candidates, curves: dict[str, EntropyCurve], reached: Sequence[int], grid_step: int
) -> Iterator[Argmax]:
    sizes_of = [("grid", list(reached)), ("every size", list(range(candidates.n_atoms, candidates.n_tokens + 1)))]
    for floor in FLOORS:
        if floor == 0 or floor > candidates.n_atoms:
            first = max(floor, candidates.n_atoms)
            sizes_of.append(("floor", list(range(first, candidates.n_tokens + 1, grid_step))))
    for over, sizes in sizes_of:
        result = (_argmax(curve, sizes, over, length) for length, curve in curves.items())
        yield from (one for one in result if one is not None)


def _within(candidates: Candidates, sizes: Sequence[int]) -> list[int]:
    return [size for size in sizes if candidates.n_atoms <= size <= candidates.n_tokens]


def _argmax(curve: EntropyCurve, sizes: Sequence[int], over: str, length: str) -> Argmax | None:
    if len(sizes) < 2:
        return None
    at = np.array(sizes) - curve.sizes[0]
    values = muv(curve.entropies[at], curve.sizes[at])
    index = int(np.argmax(values))
    on_edge = index in (0, len(values) - 1)
    return Argmax(over, sizes[0], length, sizes[index + 1], float(values[index]), on_edge)


def _grid_rows(
    search: SearchResult, sizes: Sequence[int], curves: dict[str, EntropyCurve], parameters: SearchParameters
) -> tuple[GridRow, ...]:
    transported = {step.size: step.transport_entropy for step in search.steps}
    missing = [size for size in sizes if size not in transported]
    transported |= {s.size: s.transport_entropy for s in size_steps(search.candidates, missing, parameters=parameters)}
    at = np.array(sizes, np.int64) - search.candidates.n_atoms
    columns = [curves["type"].entropies[at], curves["occurrence"].entropies[at]]
    columns.append(np.array([transported[size] for size in sizes]))
    with_muv = [(entropies.tolist(), [None, *muv(entropies, np.array(sizes)).tolist()]) for entropies in columns]
    flat = [column for pair in with_muv for column in pair]
    return tuple(GridRow(size, *row) for size, *row in zip(sizes, *flat, strict=False))


def _measured(approach: str, size: int, cost: Cost, note: str) -> CostRow:
    return CostRow(approach, size, cost.seconds, cost.memory_mb, 0.0, True, note)


def _warnings(argmaxes: Sequence[Argmax], reached: Sequence[int], grid: Sequence[int], n_tokens: int) -> Iterator[str]:
    if len(reached) < len(grid):
        result = f"{len(reached)} of the grid's {len(grid)} sizes can be compared"
        yield f"the candidates offer {n_tokens:,} tokens at most: {result}"
    for one in argmaxes:
        if one.over == "grid" and one.on_edge:
            yield (
                f"Eq. 1 (mean length by {one.length}) is greatest at {one.size:,}, on the edge of the grid "
                f"{reached[0]:,} to {reached[-1]:,}: the grid decides, not the corpus"
            )
    floors = [one for one in argmaxes if one.over == "floor" and one.length == "type"]
    if len({one.size for one in floors}) > 1:
        picks = ", ".join(f"{one.size:,} from {one.floor:,}" for one in floors)
        yield f"the argmax moves with the smallest size of the grid: {picks}"
