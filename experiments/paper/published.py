"""The published VOLT program's objective, and why the size that it picks is an accident of floating point.

    python experiments/paper/published.py [--quick] [--json PUBLISHED.json]

    columns  tokens, the first `size` merges in their order; spelled as in the codes file, "i n" and "e r</w>"
    n_j      1 + Σ counts of the pieces (subword-nmt's, all 30,000 merges) in which the merged token is a substring
    rows     characters that occur more than twice
    masses   a_i = n_i / Σn + 1e-4;  b_j = n_j len(j) / Σn + 1e-4
    cost     0.001 · j if the character occurs in the token's spelling, else 100
    solver   balanced Sinkhorn, reg 1, 500 iterations or until u or v is no longer finite: then the plan before that
    score    Σ P log(1 + P);  the size whose score is greatest above that of the size before is picked

Σb is some five times Σa, so no plan has both marginals. Every iteration multiplies u by about Σa / Σb, and v by the
inverse: after some 400 iterations u consists of subnormal numbers and zeros, v overflows, and the iteration stops.
Which rows of the plan have survived until then decides the score. `rescaled` iterates the same without this: the plan
does not depend on the scale of u, so u may be divided by its largest entry, and v multiplied by it.

>>> plan = scaled(np.array([0.5, 0.5]), np.array([2.0, 3.0]), np.ones((2, 2)), n_iters=20, rescaled=True)
>>> plan.matrix.sum(axis=1), plan.n_iters  # the rows keep their mass, the columns get a fifth of theirs
(array([0.5, 0.5]), 20)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from corpora import N_MERGES, checked, count, markdown_table, parser, write_json
from numpy.typing import NDArray

import volt

Floats = NDArray[np.float64]
MARKER = "</w>"
CORPUS = "Multi30k en+de"
SIZES = tuple(range(1_000, 10_000, 1_000))
REFERENCE = (2.17e-5, 4.80e-5, 4.47e-4, 4.23e-6, 5.88e-4, 1.43e-5, 8.02e-4, 7.52e-4, 7.00e-4)  # the program's own run
SPELLINGS: dict[str, Callable[[str, str], str]] = {
    "left right": lambda left, right: f"{left} {right}",
    "joined": lambda left, right: left + right,
    "joined, no </w>": lambda left, right: (left + right).removesuffix(MARKER),
    "joined, @@ inside": lambda left, right: _applied(left + right),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """What is not certain, or may be changed. The defaults are the variant that gives the reference values.

    base: what every token's count starts from;  least: occurrences that a character needs
    spelling: how a token is spelled where it is measured and searched for characters
    counts: "substring", or "exact", the token's own count when the text is cut with all merges
    order: "merges", or "counts", the most frequent first;  n_iters: at most
    equal: scale the token masses to the sum of the character masses;  rescaled: divide u by its largest entry
    """

    base: int = 1
    least: int = 3
    spelling: str = "left right"
    counts: str = "substring"
    order: str = "merges"
    n_iters: int = 500
    equal: bool = False
    rescaled: bool = False


VARIANTS: dict[str, Variant] = {
    "published": Variant(),
    "counts from 0": Variant(base=0),
    "counts from 2": Variant(base=2),
    "counts from 10": Variant(base=10),
    "all characters": Variant(least=1),
    "characters seen 11 times": Variant(least=11),
    "tokens joined": Variant(spelling="joined"),
    "tokens joined, no </w>": Variant(spelling="joined, no </w>"),
    "tokens joined, @@ inside": Variant(spelling="joined, @@ inside"),
    "tokens' own counts": Variant(counts="exact"),
    "most frequent first": Variant(order="counts"),
    "400 iterations": Variant(n_iters=400),
    "300 iterations": Variant(n_iters=300),
    "rescaled": Variant(rescaled=True),
    "rescaled, counts from 10": Variant(base=10, rescaled=True),
    "equal masses": Variant(equal=True),
}
QUICK = ("published", "counts from 0", "300 iterations", "rescaled")


@dataclass(frozen=True, slots=True)
class Texts:
    """What the variants share. merges: pairs;  own, within: counts of the merged tokens, and of the pieces they are in;
    characters: (character, count)."""

    merges: tuple[tuple[str, str], ...]
    own: tuple[int, ...]
    within: tuple[int, ...]
    characters: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A plan, and how it came about. stopped: why, "iterations", "converged" or "overflow"."""

    matrix: Floats
    n_iters: int
    stopped: str


@dataclass(frozen=True, slots=True)
class Score:
    """One size. row_mass, column_mass: Σa and Σb;  kept: the plan's part of Σa, 1 where no row was lost."""

    size: int
    objective: float
    n_iters: int
    stopped: str
    row_mass: float
    column_mass: float
    kept: float


def read_texts(candidates: volt.Candidates) -> Texts:
    """Merges, counts and characters of a corpus."""
    results = [left + right for left, right in candidates.merges]
    own = dict(zip(candidates.tokens, candidates.counts_at(candidates.n_tokens).tolist(), strict=True))
    within = count_within(results, {_applied(token): n for token, n in own.items() if n})
    counted = zip(candidates.counts.words, candidates.counts.counts.tolist(), strict=True)
    characters: Counter[str] = Counter()
    for word, n in counted:
        characters.update({character: n * word.count(character) for character in set(word) if character.strip()})
    return Texts(
        tuple(candidates.merges), tuple(own[token] for token in results), tuple(within), tuple(characters.most_common())
    )


def count_within(tokens: Sequence[str], pieces: dict[str, int]) -> list[int]:
    """Σ counts of the pieces in which each token is a substring.

    >>> count_within(["lo", "w</w>"], {"low</w>": 5, "lo@@": 2})
    [7, 5]
    """
    found = dict.fromkeys(tokens, 0)
    for piece, n in pieces.items():
        ends = range(1, len(piece) + 1)
        for part in {piece[start:end] for end in ends for start in range(end)} & found.keys():
            found[part] += n
    return [found[token] for token in tokens]


def _applied(token: str) -> str:
    """As apply-bpe writes it, but for the marker, which the program puts back."""
    return token if token.endswith(MARKER) else token + "@@"


def scaled(a: Floats, b: Floats, kernel: Floats, *, n_iters: int, rescaled: bool = False, close: float = 1e-9) -> Plan:
    """Sinkhorn's scaling: v = b / Kᵀu, u = a / Kv, until the column sums are close to b, or something overflows.

    a: (n_rows,), b: (n_columns,), kernel: (n_rows, n_columns) exp(−cost). The sums are looked at every tenth time.
    """
    u, v = np.full(len(a), 1 / len(a)), np.full(len(b), 1 / len(b))
    over_a = (1 / a)[:, None] * kernel
    for step in range(n_iters):
        before = u, v
        with np.errstate(all="ignore"):
            reached = kernel.T @ u
            v = b / reached
            u = 1 / (over_a @ v)
        if (reached == 0).any() or not np.isfinite(u).all() or not np.isfinite(v).all():
            return Plan(_plan(*before, kernel), step, "overflow")
        if rescaled:
            v, u = v * u.max(), u / u.max()
        if step % 10 == 0 and np.linalg.norm(_plan(u, v, kernel).sum(axis=0) - b) < close:
            return Plan(_plan(u, v, kernel), step, "converged")
    return Plan(_plan(u, v, kernel), n_iters, "iterations")


def _plan(u: Floats, v: Floats, kernel: Floats) -> Floats:
    return u[:, None] * kernel * v[None, :]


def score(texts: Texts, size: int, variant: Variant) -> Score:
    """The objective at one size."""
    characters = [(character, n) for character, n in texts.characters if n >= variant.least]
    tokens = _tokens(texts, variant)[:size]
    row_counts, counts = np.array([n for _, n in characters]), np.array([n for _, n in tokens])
    a = row_counts / row_counts.sum() + 1e-4
    b = counts / counts.sum() * np.array([len(token) for token, _ in tokens]) + 1e-4
    if variant.equal:
        b *= a.sum() / b.sum()
    inside = np.array([[character in token for token, _ in tokens] for character, _ in characters])
    kernel = np.exp(-np.where(inside, 0.001 * np.arange(len(tokens)), 100.0))
    plan = scaled(a, b, kernel, n_iters=variant.n_iters, rescaled=variant.rescaled)
    objective = float((plan.matrix * np.log1p(plan.matrix)).sum())
    masses = float(a.sum()), float(b.sum())
    return Score(size, objective, plan.n_iters, plan.stopped, *masses, float(plan.matrix.sum() / a.sum()))


def _tokens(texts: Texts, variant: Variant) -> list[tuple[str, int]]:
    spell, counts = SPELLINGS[variant.spelling], texts.within if variant.counts == "substring" else texts.own
    tokens = [(spell(*merge), variant.base + n) for merge, n in zip(texts.merges, counts, strict=True)]
    return sorted(tokens, key=lambda token: -token[1]) if variant.order == "counts" else tokens


def picked(scores: Sequence[Score]) -> int:
    """The size whose objective is greatest above that of the size before."""
    return max(pairwise(scores), key=lambda pair: pair[1].objective - pair[0].objective)[1].size


def distance(objectives: Sequence[float]) -> float:
    """Mean |log₁₀| of the ratios to the reference values: 0 is equal, 1 a factor of ten.

    >>> distance([10 * value for value in REFERENCE])
    1.0
    """
    return float(np.abs(np.log10(np.array(objectives) / REFERENCE)).mean())


def study(texts: Texts, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each variant."""
    for name in names:
        scores = [score(texts, size, VARIANTS[name]) for size in SIZES if size <= len(texts.merges)]
        yield {
            "name": name, "variant": asdict(VARIANTS[name]), "picks": picked(scores),
            "scores": [asdict(one) for one in scores],
        }  # fmt: skip


def report(rows: Sequence[dict[str, Any]], *, reference: Sequence[float] = ()) -> str:
    """Two tables: every variant's objectives, beside the reference if there is one, and what happened in the first."""
    sizes = [f"{one['size']:,}" for one in rows[0]["scores"]]
    cells = [_cells(row["name"], f"{row['picks']:,}", [one["objective"] for one in row["scores"]]) for row in rows]
    if reference:
        cells = [_cells("the program's own run", "7,000", reference), *cells]
        for row in cells:
            row.insert(2, f"{distance([float(cell) for cell in row[2:]]):.3f}")
    found = [
        [f"{one['size']:,}", one["stopped"], str(one["n_iters"]), f"{one['row_mass']:.3f}", f"{one['column_mass']:.3f}",
         f"{one['kept']:.3f}", f"{one['objective']:.2e}"] for one in rows[0]["scores"]
    ]  # fmt: skip
    headings = ["size", "stopped by", "after", "Σa", "Σb", "ΣP / Σa", "Σ P log(1+P)"]
    first = markdown_table(["variant", "picks", *["distance"] * bool(reference), *sizes], cells)
    return f"{first}\n\n{rows[0]['name']}:\n\n{markdown_table(headings, found)}"


def _cells(name: str, picks: str, objectives: Sequence[float]) -> list[str]:
    return [name, picks, *(f"{value:.2e}" for value in objectives)]


def main() -> None:
    """Run the variants."""
    made = parser(__doc__, corpora=(CORPUS,))
    made.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    options, found = checked(made), dict[str, Any]()
    for name in options.corpora:
        reference = REFERENCE if name == CORPUS else ()
        counts = count(name, data=options.data, pretokenizer="regex:[^ ]+")
        rows = list(study(read_texts(volt.learn_bpe(counts, N_MERGES)), QUICK if options.quick else list(VARIANTS)))
        found[name] = {"corpus": counts.fingerprint, "reference": reference, "rows": rows}
        print(f"### {name}: the published program's objective\n\n{report(rows, reference=reference)}\n")
    write_json(options.json, found)


if __name__ == "__main__":
    main()
