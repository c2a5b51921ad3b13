"""A search → the `Study` of MUV-search, a table of candidate tokens, and lines cut at every size.

MUV-search picks the BPE vocabulary with the greatest marginal utility (Eq. 1). If the entropy curve
is convex, the first size wins: the choice of sizes decides, not the corpus. So the study compares
several grids (lists of sizes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, get_args

import numpy as np
import polars as pl

from volt.choose.criteria import Length, muv
from volt.choose.exact_curve import EntropyCurve, muv_search
from volt.choose.search import SearchResult
from volt.choose.size_steps import SearchParameters, size_steps
from volt.choose.vocabulary_at import recount_split_tokens, vocabulary_of
from volt.encode.encoder import Encoder
from volt.learn.candidates import Candidates, Longs
from volt.text.atoms import PREFIX, SUFFIX


@dataclass(frozen=True, slots=True)
class SampleCuts:
    """Sample lines, split by the vocabulary of every searched size.

    samples: for each line, the name of its text, and the line
    cuts: [size][sample][word] → the word's pieces: an index for each token, a string for each
        unknown character
    counts: [size] → {index as a string: count in the corpus} of the tokens in the samples
    """

    sizes: tuple[int, ...]
    samples: tuple[tuple[str, str], ...]
    cuts: tuple[tuple[tuple[tuple[int | str, ...], ...], ...], ...]
    counts: tuple[dict[str, int], ...]


def token_table(search: SearchResult) -> pl.DataFrame:
    """Return a table with a row for each candidate token.

    count, rank: its count and rank in the chosen vocabulary; null if that vocabulary lacks it
    appears: the smallest size that has the token
    peak, peak_count: the size at which its count is greatest, and that count
    scaffolding: the first searched size at which merges make it but the vocabulary drops it, or null
    """
    candidates = search.candidates
    chosen = dict(zip(search.vocabulary.tokens, search.vocabulary.counts, strict=True))
    counts = pl.Series([chosen.get(token) for token in candidates.tokens])
    numbers = np.arange(candidates.n_tokens)
    appears = np.maximum(numbers + 1, candidates.n_atoms)
    dropped = np.zeros(candidates.n_tokens, np.int64)
    for step in reversed(search.steps):
        dropped[np.flatnonzero(~step.kept)] = step.size

    peaks = _peaks(candidates, appears)
    return pl.DataFrame(
        {
            "token": candidates.tokens,
            "length": candidates.lengths,
            "count": counts,
            "rank": counts.rank("ordinal", descending=True),
            "appears": appears,
            "peak": peaks["peak"],
            "peak_count": peaks["peak_count"],
            "scaffolding": pl.Series(dropped).replace(0, None),
        }
    )


def _peaks(candidates: Candidates, appears: Longs) -> pl.DataFrame:
    """Return the size at which each token is most frequent, and its count there."""
    change = candidates.trajectory
    first_counts = np.zeros(candidates.n_tokens, np.int64)
    first_counts[: candidates.n_atoms] = candidates.atom_counts
    sizes = candidates.sizes_after()[1:][change.merges]
    table = pl.DataFrame(
        {
            "token": np.concatenate([np.arange(candidates.n_tokens), change.tokens]),
            "peak": np.concatenate([appears, sizes]),
            "peak_count": np.concatenate([first_counts, change.after]),
        }
    )
    last = table.unique(["token", "peak"], keep="last", maintain_order=True)
    ordered = last.sort("token", "peak_count", "peak", descending=[False, True, False])
    return ordered.unique("token", keep="first", maintain_order=True)


def cut_samples(search: SearchResult, samples: Sequence[tuple[str, str]]) -> SampleCuts:
    """Split lines at every searched size. samples: (name of the text, line)"""
    candidates = search.candidates
    normalizer = candidates.counts.normalizer
    pretokenizer = candidates.counts.pretokenizer
    lines = [pretokenizer.split(normalizer.normalize(line)) for _, line in samples]
    words = list(dict.fromkeys(chain.from_iterable(lines)))
    numbers = {token: number for number, token in enumerate(candidates.tokens)}
    encoders = _sample_encoders(search, words)

    cuts = []
    counts = []
    for step, encoder in zip(search.steps, encoders, strict=True):
        pieces = {}
        for word, encoded in zip(words, encoder.encode_words(words), strict=True):
            pieces[word] = tuple(numbers.get(piece, piece) for piece in encoded)
        cuts.append(tuple(tuple(pieces[word] for word in line) for line in lines))
        used = {piece for cut in pieces.values() for piece in cut if isinstance(piece, int)}
        exact = recount_split_tokens(candidates, step.kept)
        counts.append({str(token): int(exact[token]) for token in sorted(used)})
    sizes = tuple(step.size for step in search.steps)
    return SampleCuts(sizes, tuple(samples), tuple(cuts), tuple(counts))


def _sample_encoders(search: SearchResult, words: Sequence[str]) -> Iterator[Encoder]:
    """Yield an encoder of each searched size, with the merges and tokens that the words may need."""
    candidates = search.candidates
    text = "\n".join(words)
    if candidates.marker == "prefix":
        text = "\n".join(PREFIX + word for word in words)
    elif candidates.marker == "suffix":
        text = "\n".join(word + SUFFIX for word in words)
    merges = [(rank, pair) for rank, pair in enumerate(candidates.merges) if "".join(pair) in text]
    tokens = [
        (number, token)
        for number, token in enumerate(candidates.tokens)
        if number < candidates.n_atoms or token in text
    ]
    for step in search.steps:
        n_merges = candidates.merges_at(step.size)
        vocabulary = vocabulary_of(
            candidates,
            merges=[pair for rank, pair in merges if rank < n_merges],
            tokens=[token for n, token in tokens if n < step.size and step.kept[n]],
        )
        yield Encoder(vocabulary)


Row = dict[str, Any]
GRID = (*range(1_000, 10_001, 1_000), 20_000)  # the paper's Section 5.2
FLOORS = 250, 500, 1_000, 2_000, 4_000, 8_000  # first sizes of grids, besides the number of atoms
GRID_STEP = 1_000
CURVE_POINTS = 500


@dataclass(frozen=True, slots=True)
class Argmax:
    """The size with the greatest MUV (Eq. 1) among some sizes.

    over: which sizes: "grid", the paper's; "every size"; or "floor", every 1,000th from `floor` on
    length: whether Eq. 2 averages the length of tokens ("type") or of pieces ("occurrence")
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
    candidates = search.candidates
    reached = _within(candidates, grid)
    curves = {length: muv_search(candidates, length=length) for length in get_args(Length)}
    argmaxes = _argmaxes(candidates, curves, reached, grid_step)
    return Study(
        grid=_grid_rows(search, reached, curves, parameters),
        argmaxes=tuple(argmaxes),
        curve=_curve_points(curves["type"], curves["occurrence"]),
        warnings=tuple(_warnings(argmaxes, reached, grid, candidates.n_tokens)),
    )


def _curve_points(by_type: EntropyCurve, by_occurrence: EntropyCurve) -> dict[str, list[float]]:
    """Return evenly spaced points of both curves, as columns."""
    places = np.linspace(0, len(by_type.sizes) - 1, CURVE_POINTS)
    at = np.unique(places.round().astype(int))
    sizes = by_type.sizes[at]
    entropies = by_type.entropies[at]
    occurrence_entropies = by_occurrence.entropies[at]
    return {
        "sizes": sizes.tolist(),
        "entropies": entropies.tolist(),
        "muv": muv(entropies, sizes).tolist(),
        "occurrence_entropies": occurrence_entropies.tolist(),
        "occurrence_muv": muv(occurrence_entropies, sizes).tolist(),
        "n_pieces": by_type.n_pieces[at].tolist(),
    }


def grid_argmax(candidates: Candidates, *, grid: Sequence[int] = GRID) -> Argmax | None:
    """Return the pick of MUV-search on a grid.

    None if the candidates reach fewer than two of the grid's sizes.
    """
    return _argmax(muv_search(candidates), _within(candidates, grid), "grid", "type")


def _argmaxes(
    candidates: Candidates, curves: dict[str, EntropyCurve], reached: Sequence[int], grid_step: int
) -> list[Argmax]:
    first = candidates.n_atoms
    end = candidates.n_tokens + 1
    grids: list[tuple[str, Sequence[int]]] = [
        ("grid", reached),
        ("every size", range(first, end)),
    ]
    floors = [first, *(floor for floor in FLOORS if floor > first)]
    grids += [("floor", range(floor, end, grid_step)) for floor in floors]

    argmaxes = []
    for over, sizes in grids:
        for length, curve in curves.items():
            argmax = _argmax(curve, sizes, over, length)
            if argmax:
                argmaxes.append(argmax)
    return argmaxes


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
    search: SearchResult,
    sizes: Sequence[int],
    curves: dict[str, EntropyCurve],
    parameters: SearchParameters,
) -> tuple[Row, ...]:
    """Return three entropies and their MUV at each size of the grid."""
    steps = {step.size: step for step in search.steps}
    missing = [size for size in sizes if size not in steps]
    for step in size_steps(search.candidates, missing, parameters=parameters):
        steps[step.size] = step

    at = np.array(sizes, np.int64) - search.candidates.n_atoms
    entropies = {
        "": curves["type"].entropies[at],
        "occurrence_": curves["occurrence"].entropies[at],
        "transport_": np.array([steps[size].transport_entropy for size in sizes]),
    }
    rows = [Row(size=size) for size in sizes]
    for name, values in entropies.items():
        utilities = [None, *muv(values, np.array(sizes)).tolist()]
        for row, value, utility in zip(rows, values.tolist(), utilities, strict=False):
            row[f"{name}entropy"] = value
            row[f"{name}muv"] = utility
    return tuple(rows)


def _warnings(
    argmaxes: Sequence[Argmax], reached: Sequence[int], grid: Sequence[int], n_tokens: int
) -> Iterator[str]:
    if len(reached) < len(grid):
        yield (
            f"the candidates offer {n_tokens:,} tokens at most: {len(reached)} of the grid's "
            f"{len(grid)} sizes can be compared"
        )
    for argmax in argmaxes:
        if argmax.over == "grid" and argmax.on_edge:
            yield (
                f"Eq. 1 (mean length by {argmax.length}) is greatest at {argmax.size:,}, on the "
                f"edge of the grid {reached[0]:,} to {reached[-1]:,}: the grid decides, not the "
                "corpus"
            )
    floors = [one for one in argmaxes if one.over == "floor" and one.length == "type"]
    if len({argmax.size for argmax in floors}) > 1:
        picks = ", ".join(f"{argmax.size:,} from {argmax.floor:,}" for argmax in floors)
        yield f"the argmax moves with the smallest size of the grid: {picks}"
