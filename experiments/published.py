"""Reproduce the published VOLT program's objective, and show that floating point decides the size it picks.

    VOLT_DATA=DIR python experiments/published.py [--quick] [--texts multi30k/train.en.gz multi30k/train.fr.gz]

    columns  tokens, the first `size` merges in their order; spelled as in the codes file, "i n" and "e r</w>"
    n_j      1 + Σ counts of the pieces (subword-nmt's, all 30,000 merges) in which the merged token is a substring
    rows     characters that occur more than twice
    masses   a_i = n_i / Σn + 1e-4;  b_j = n_j len(j) / Σn + 1e-4
    cost     0.001 · j if the character occurs in the token's spelling, else 100
    solver   balanced Sinkhorn, reg 1, 500 iterations or until u or v is no longer finite: then the plan before that
    score    Σ P log(1 + P);  the size whose score is greatest above that of the size before is picked

Σb is some five times Σa, so no plan has both marginals. Every iteration multiplies u by about Σa / Σb, and v by the
inverse: after some 400 iterations u holds subnormal numbers and zeros, v overflows, and the iteration stops. The rows
of the plan that are left decide the score. `rescaled` avoids this: the plan does not depend on the scale of u, so u is
divided by its largest entry, and v multiplied by it.

>>> plan = scaled(np.array([0.5, 0.5]), np.array([2.0, 3.0]), np.ones((2, 2)), n_iters=20, rescaled=True)
>>> plan.matrix.sum(axis=1), plan.n_iters  # the rows keep their mass, the columns get a fifth of theirs
(array([0.5, 0.5]), 20)
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import volt

sys.path.insert(0, str(Path(__file__).parent / "bench"))
from measure import markdown_table

N_MERGES = 30_000
TEXTS = ("multi30k/train.en.gz", "multi30k/train.de.gz")
Floats = NDArray[np.float64]
MARKER = "</w>"
SIZES = tuple(range(1_000, 10_000, 1_000))
REFERENCE = (2.17e-5, 4.80e-5, 4.47e-4, 4.23e-6, 5.88e-4, 1.43e-5, 8.02e-4, 7.52e-4, 7.00e-4)  # the program's own run
SPELLINGS: dict[str, Callable[[str, str], str]] = {
    "left right": lambda left, right: f"{left} {right}",
    "joined": lambda left, right: left + right,
}


@dataclass(frozen=True, slots=True)
class Variant:
    """An uncertain or changeable part. The defaults give the reference values.

    base: start of every token's count;  least: occurrences that a character needs
    spelling: of a token where it is measured and searched for characters
    counts: "substring", or "exact", the token's own count when the text is cut with all merges
    n_iters: at most;  equal: scale Σb to Σa;  rescaled: divide u by its largest entry
    """

    base: int = 1
    least: int = 3
    spelling: str = "left right"
    counts: str = "substring"
    n_iters: int = 500
    equal: bool = False
    rescaled: bool = False


VARIANTS: dict[str, Variant] = {
    "published": Variant(),
    "counts from 0": Variant(base=0),
    "counts from 2": Variant(base=2),
    "counts from 10": Variant(base=10),
    "all characters": Variant(least=1),
    "tokens joined": Variant(spelling="joined"),
    "tokens' own counts": Variant(counts="exact"),
    "300 iterations": Variant(n_iters=300),
    "rescaled": Variant(rescaled=True),
    "equal masses": Variant(equal=True),
}
QUICK = ("published", "counts from 0", "300 iterations", "rescaled")


@dataclass(frozen=True, slots=True)
class Texts:
    """A corpus. merges: pairs;  own, within: counts of the merged tokens, and of the pieces that contain them;
    characters: (character, count)."""

    merges: tuple[tuple[str, str], ...]
    own: tuple[int, ...]
    within: tuple[int, ...]
    characters: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A plan. stopped: "iterations", "converged" or "overflow"."""

    matrix: Floats
    n_iters: int
    stopped: str


@dataclass(frozen=True, slots=True)
class Score:
    """One size. row_mass, column_mass: Σa and Σb;  kept: the plan's share of Σa, 1 if no row was lost."""

    size: int
    objective: float
    n_iters: int
    stopped: str
    row_mass: float
    column_mass: float
    kept: float


def read_texts(candidates: volt.Candidates) -> Texts:
    """Return merges, counts and characters of a corpus."""
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
    """Sum the counts of the pieces that contain each token.

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
    """Format a token as apply-bpe does, with the marker, which the program adds again."""
    return token if token.endswith(MARKER) else token + "@@"


def scaled(a: Floats, b: Floats, kernel: Floats, *, n_iters: int, rescaled: bool = False, close: float = 1e-9) -> Plan:
    """Scale by Sinkhorn: v = b / Kᵀu, u = a / Kv, until the column sums are close to b, or something overflows.

    a: (n_rows,), b: (n_columns,), kernel: (n_rows, n_columns) exp(−cost). Every tenth iteration checks the sums.
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
    """Compute the objective at one size."""
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
    return [(spell(*merge), variant.base + n) for merge, n in zip(texts.merges, counts, strict=True)]


def picked(scores: Sequence[Score]) -> int:
    """Return the size with the greatest gain of the objective over the size before."""
    return max(pairwise(scores), key=lambda pair: pair[1].objective - pair[0].objective)[1].size


def main() -> None:
    """Print the objectives of all variants, and what stopped the first one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", nargs="+", default=TEXTS, help="files below VOLT_DATA")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    given = parser.parse_args()
    if "VOLT_DATA" not in os.environ:
        parser.error("set VOLT_DATA to the folder that holds multi30k/")
    files = [Path(os.environ["VOLT_DATA"], text) for text in given.texts]
    texts = read_texts(volt.learn_bpe(volt.count_words(files, pretokenizer="regex:[^ ]+"), N_MERGES))
    sizes = [size for size in SIZES if size <= len(texts.merges)]
    studied = {
        name: [score(texts, size, VARIANTS[name]) for size in sizes] for name in (QUICK if given.quick else VARIANTS)
    }
    rows = [["the program's own run", "7,000", *(f"{one:.2e}" for one in REFERENCE)]]
    rows = [] if tuple(given.texts) != TEXTS else rows
    rows += [
        [name, f"{picked(scores):,}", *(f"{one.objective:.2e}" for one in scores)] for name, scores in studied.items()
    ]
    print(markdown_table(["variant", "picks", *(f"{size:,}" for size in sizes)], rows), "\npublished:\n", sep="\n")
    figures = [
        [
            f"{one.size:,}",
            one.stopped,
            str(one.n_iters),
            *(f"{n:.3f}" for n in (one.row_mass, one.column_mass, one.kept)),
        ]
        for one in studied["published"]
    ]
    print(markdown_table(["size", "stopped by", "after", "Σa", "Σb", "ΣP / Σa"], figures, n_text=2))


if __name__ == "__main__":
    main()
