"""A search → the `Study` of MUV-search, a table of the candidate tokens, and lines split at every size (`SampleCuts`).

MUV-search picks the BPE vocabulary with the greatest marginal utility (Eq. 1). If the entropy curve is convex, the
first size wins: the choice of sizes decides, not the corpus. So the study compares several grids (lists of sizes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import polars as pl

from volt.choose.criteria import Length, muv
from volt.choose.exact_curve import EntropyCurve, muv_search
from volt.choose.search import SearchResult
from volt.choose.size_steps import SearchParameters, size_steps
from volt.choose.vocabulary_at import counts_of_kept, vocabulary_of
from volt.encode.encoder import Encoder
from volt.learn.candidates import Candidates
from volt.text.atoms import PREFIX, SUFFIX


@dataclass(frozen=True, slots=True)
class SampleCuts:
    """Sample lines, split by the vocabulary of every searched size.

    samples: for each line, the name of its text, and the line
    cuts: [size][sample][word] → the word's pieces: an index for each token, a string for each unknown character
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
    candidates, change = search.candidates, search.candidates.trajectory
    chosen = dict(zip(search.vocabulary.tokens, search.vocabulary.counts, strict=True))
    numbers = np.arange(candidates.n_tokens)
    appears = np.maximum(numbers + 1, candidates.n_atoms)
    first_counts, dropped = np.zeros((2, candidates.n_tokens), np.int64)
    first_counts[: candidates.n_atoms] = candidates.atom_counts
    for step in reversed(search.steps):
        dropped[np.flatnonzero(~step.kept)] = step.size
    sizes = {
        "token": np.concatenate([numbers, change.tokens]),
        "peak": np.concatenate([appears, candidates.sizes_after()[1:][change.merges]]),
        "peak_count": np.concatenate([first_counts, change.after]),
    }
    last = pl.DataFrame(sizes).unique(["token", "peak"], keep="last", maintain_order=True)
    peaks = last.sort("token", "peak_count", "peak", descending=[False, True, False]).unique(
        "token", keep="first"
    )
    return pl.DataFrame(
        {
            "token": candidates.tokens,
            "length": candidates.lengths,
            "count": [chosen.get(token) for token in candidates.tokens],
            "appears": appears,
            **peaks.sort("token").select("peak", "peak_count").to_dict(),
            "scaffolding": dropped,
        }
    ).select(
        "token",
        "length",
        "count",
        pl.col("count").rank("ordinal", descending=True).alias("rank"),
        "appears",
        "peak",
        "peak_count",
        pl.col("scaffolding").replace(0, None),
    )


def sample_cuts(search: SearchResult, samples: Sequence[tuple[str, str]]) -> SampleCuts:
    """Split lines at every searched size. samples: (name of the text, line)"""
    candidates = search.candidates
    normalizer, pretokenizer = candidates.counts.normalizer, candidates.counts.pretokenizer
    lines = [pretokenizer.split(normalizer.normalize(line)) for _, line in samples]
    words = list(dict.fromkeys(word for line in lines for word in line))
    numbers = {token: number for number, token in enumerate(candidates.tokens)}
    texts = _substrings(candidates, words)
    merges = [(rank, pair) for rank, pair in enumerate(candidates.merges) if "".join(pair) in texts]
    tokens = [
        n for n, token in enumerate(candidates.tokens) if n < candidates.n_atoms or token in texts
    ]
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
            word: tuple(numbers.get(piece, piece) for piece in cut)
            for word, cut in zip(words, result, strict=True)
        }
        cuts.append(tuple(tuple(pieces[word] for word in line) for line in lines))
        used = {piece for cut in pieces.values() for piece in cut if isinstance(piece, int)}
        exact = counts_of_kept(candidates, step.kept)
        counts.append({str(token): int(exact[token]) for token in sorted(used)})
    return SampleCuts(
        tuple(step.size for step in search.steps), tuple(samples), tuple(cuts), tuple(counts)
    )


def _substrings(candidates: Candidates, words: Sequence[str]) -> set[str]:
    """Return all strings in these words that may be tokens."""
    longest, texts = max(map(len, candidates.tokens)), set[str]()
    for word in words:
        text = (
            PREFIX * (candidates.marker == "prefix")
            + word
            + SUFFIX * (candidates.marker == "suffix")
        )
        texts.update(
            text[start:end]
            for start in range(len(text))
            for end in range(start + 1, start + longest + 1)
        )
    return texts


Row = dict[str, Any]
GRID = (*range(1_000, 10_001, 1_000), 20_000)  # the paper's Section 5.2
FLOORS = (250, 500, 1_000, 2_000, 4_000, 8_000)  # first sizes of grids, besides the number of atoms
GRID_STEP = 1_000
CURVE_POINTS = 500


@dataclass(frozen=True, slots=True)
class Argmax:
    """The size with the greatest MUV (Eq. 1) among some sizes.

    over: which sizes: "grid", those of the paper; "every size"; or "floor", every 1,000th size from `floor` on
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

    grid: for each size, three entropies, and the MUV (Eq. 1) of each: Eq. 2 by tokens, Eq. 2 by pieces, and Eq. 4
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
    candidates, reached = search.candidates, _within(search.candidates, grid)
    curves = {length: muv_search(candidates, length=length) for length in get_args(Length)}
    argmaxes = _argmaxes(candidates, curves, reached, grid_step)
    by_type, by_occurrence = curves["type"], curves["occurrence"]
    at = np.unique(np.linspace(0, len(by_type.sizes) - 1, CURVE_POINTS).round().astype(int))
    sizes, first, second = by_type.sizes[at], by_type.entropies[at], by_occurrence.entropies[at]
    columns = {
        "sizes": sizes,
        "entropies": first,
        "muv": muv(first, sizes),
        "occurrence_entropies": second,
        "occurrence_muv": muv(second, sizes),
        "n_pieces": by_type.n_pieces[at],
    }
    return Study(
        grid=_grid_rows(search, reached, curves, parameters),
        argmaxes=tuple(argmaxes),
        curve={name: column.tolist() for name, column in columns.items()},
        warnings=tuple(_warnings(argmaxes, reached, grid, candidates.n_tokens)),
    )


def grid_argmax(candidates: Candidates, *, grid: Sequence[int] = GRID) -> Argmax | None:
    """Return the pick of MUV-search on a grid; None if the candidates reach fewer than two of the grid's sizes."""
    return _argmax(muv_search(candidates), _within(candidates, grid), "grid", "type")


def _argmaxes(
    candidates: Candidates, curves: dict[str, EntropyCurve], reached: Sequence[int], grid_step: int
) -> list[Argmax]:
    first, end = candidates.n_atoms, candidates.n_tokens + 1
    floors = [first, *(floor for floor in FLOORS if floor > first)]
    compared: list[tuple[str, Sequence[int]]] = [
        ("grid", reached),
        ("every size", range(first, end)),
    ]
    compared += [("floor", range(floor, end, grid_step)) for floor in floors]
    results = (
        _argmax(curve, sizes, over, length)
        for over, sizes in compared
        for length, curve in curves.items()
    )
    return [one for one in results if one is not None]


def _within(candidates: Candidates, sizes: Sequence[int]) -> list[int]:
    return [size for size in sizes if candidates.n_atoms <= size <= candidates.n_tokens]


def _argmax(curve: EntropyCurve, sizes: Sequence[int], over: str, length: str) -> Argmax | None:
    if len(sizes) < 2:
        return None
    at = np.array(sizes) - curve.sizes[0]
    values = muv(curve.entropies[at], curve.sizes[at])
    index = int(np.argmax(values))
    return Argmax(
        over,
        sizes[0],
        length,
        sizes[index + 1],
        float(values[index]),
        index in (0, len(values) - 1),
    )


def _grid_rows(
    search: SearchResult,
    sizes: Sequence[int],
    curves: dict[str, EntropyCurve],
    parameters: SearchParameters,
) -> tuple[Row, ...]:
    transported = {step.size: step.transport_entropy for step in search.steps}
    missing = [size for size in sizes if size not in transported]
    transported |= {
        s.size: s.transport_entropy
        for s in size_steps(search.candidates, missing, parameters=parameters)
    }
    at = np.array(sizes, np.int64) - search.candidates.n_atoms
    entropies = {
        "": curves["type"].entropies[at],
        "occurrence_": curves["occurrence"].entropies[at],
    }
    entropies["transport_"] = np.array([transported[size] for size in sizes])
    columns: dict[str, list[Any]] = {"size": list(sizes)}
    for name, values in entropies.items():
        columns |= {
            f"{name}entropy": values.tolist(),
            f"{name}muv": [None, *muv(values, np.array(sizes)).tolist()],
        }
    return tuple(
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=False)
    )


def _warnings(
    argmaxes: Sequence[Argmax], reached: Sequence[int], grid: Sequence[int], n_tokens: int
) -> Iterator[str]:
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
