"""Reproduce the published VOLT program's objective, and show that floating point decides the size it picks.

    VOLT_DATA=DIR python experiments/published.py [--texts multi30k/train.en.gz multi30k/train.fr.gz]

    columns  tokens, the first `size` merges in order, spelled as in the codes file: "i n" and "e r</w>"
    n_j      1 + Σ counts of the pieces (subword-nmt's, all 30,000 merges) that contain the merged token
    rows     characters that occur more than twice
    masses   a_i = n_i / Σn + 1e-4;  b_j = n_j len(j) / Σn + 1e-4
    cost     0.001 · j if the token's spelling contains the character, else 100
    solver   balanced Sinkhorn, reg 1, 500 iterations or until u or v is not finite: then the plan before that
    score    Σ P log(1 + P);  the program picks the size with the greatest gain over the size before

Σb is some five times Σa, so no plan has both marginals. Every iteration multiplies u by about Σa / Σb, and v by the
inverse: after some 400 iterations u holds subnormal numbers and zeros, v overflows, and the iteration stops. The rows
of the plan that are left decide the score. `rescaled` avoids this: the plan does not depend on the scale of u, so u is
divided by its largest entry, and v multiplied by it.

>>> plan = scaled(np.array([0.5, 0.5]), np.array([2.0, 3.0]), np.ones((2, 2)), n_iters=20, rescaled=True)
>>> plan.matrix.sum(axis=1), plan.n_iters  # rows keep their mass, columns get a fifth of theirs
(array([0.5, 0.5]), 20)
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import volt

Floats = NDArray[np.float64]
SIZES = tuple(range(1_000, 10_000, 1_000))
TEXTS = ("multi30k/train.en.gz", "multi30k/train.de.gz")
REFERENCE = (
    2.17e-5,
    4.80e-5,
    4.47e-4,
    4.23e-6,
    5.88e-4,
    1.43e-5,
    8.02e-4,
    7.52e-4,
    7.00e-4,
)  # the program's own run


@dataclass(frozen=True, slots=True)
class Variant:
    """A change of the program. base: start of every token's count;  least: occurrences that a character needs;
    n_iters: at most;  equal: scale Σb to Σa;  rescaled: divide u by its largest entry."""

    base: int = 1
    least: int = 3
    n_iters: int = 500
    equal: bool = False
    rescaled: bool = False


VARIANTS = {
    "published": Variant(),
    "counts from 0": Variant(base=0),
    "counts from 10": Variant(base=10),
    "all characters": Variant(least=1),
    "300 iterations": Variant(n_iters=300),
    "rescaled": Variant(rescaled=True),
    "equal masses": Variant(equal=True),
}


class Texts(NamedTuple):
    """A corpus. tokens: (spelling, count of the pieces that contain it);  characters: (character, count)."""

    tokens: tuple[tuple[str, int], ...]
    characters: tuple[tuple[str, int], ...]


class Plan(NamedTuple):
    """A plan. stopped: "iterations", "converged" or "overflow"."""

    matrix: Floats
    n_iters: int
    stopped: str


class Score(NamedTuple):
    """The objective at a size, and how the solver stopped."""

    size: int
    objective: float
    n_iters: int
    stopped: str


def read_texts(candidates: volt.Candidates) -> Texts:
    own = dict(
        zip(candidates.tokens, candidates.counts_at(candidates.n_tokens).tolist(), strict=True)
    )
    applied = {
        token if token.endswith("</w>") else f"{token}@@": n for token, n in own.items() if n
    }
    within = count_within([left + right for left, right in candidates.merges], applied)
    characters: Counter[str] = Counter()
    for word, n in zip(candidates.counts.words, candidates.counts.counts.tolist(), strict=True):
        characters.update(
            {character: n * word.count(character) for character in set(word) if character.strip()}
        )
    spelled = [f"{left} {right}" for left, right in candidates.merges]
    return Texts(tuple(zip(spelled, within, strict=True)), tuple(characters.most_common()))


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


def scaled(
    a: Floats,
    b: Floats,
    kernel: Floats,
    *,
    n_iters: int,
    rescaled: bool = False,
    close: float = 1e-9,
) -> Plan:
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
            return Plan(before[0][:, None] * kernel * before[1], step, "overflow")
        if rescaled:
            v, u = v * u.max(), u / u.max()
        if step % 10 == 0 and np.linalg.norm((u[:, None] * kernel * v).sum(axis=0) - b) < close:
            return Plan(u[:, None] * kernel * v, step, "converged")
    return Plan(u[:, None] * kernel * v, n_iters, "iterations")


def score(texts: Texts, size: int, variant: Variant) -> Score:
    characters = [(character, n) for character, n in texts.characters if n >= variant.least]
    tokens = texts.tokens[:size]
    row_counts, counts = (
        np.array([n for _, n in characters]),
        np.array([variant.base + n for _, n in tokens]),
    )
    a = row_counts / row_counts.sum() + 1e-4
    b = counts / counts.sum() * np.array([len(token) for token, _ in tokens]) + 1e-4
    if variant.equal:
        b *= a.sum() / b.sum()
    inside = np.array([[character in token for token, _ in tokens] for character, _ in characters])
    kernel = np.exp(-np.where(inside, 0.001 * np.arange(len(tokens)), 100.0))
    plan = scaled(a, b, kernel, n_iters=variant.n_iters, rescaled=variant.rescaled)
    return Score(
        size, float((plan.matrix * np.log1p(plan.matrix)).sum()), plan.n_iters, plan.stopped
    )


def picked(scores: Sequence[Score]) -> int:
    """Return the size with the greatest gain of the objective over the size before."""
    return max(pairwise(scores), key=lambda pair: pair[1].objective - pair[0].objective)[1].size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", nargs="+", default=TEXTS, help="files below VOLT_DATA")
    files = [Path(os.environ.get("VOLT_DATA", "."), text) for text in parser.parse_args().texts]
    texts = read_texts(volt.learn_bpe(volt.count_words(files, pretokenizer="regex:[^ ]+"), 30_000))
    print(
        f"| variant | picks | {' | '.join(f'{size:,}' for size in SIZES)} | stopped by |",
        "| --- " * 12 + "|",
        sep="\n",
    )
    for name, variant in VARIANTS.items():
        scores = [score(texts, size, variant) for size in SIZES]
        figures = " | ".join(f"{one.objective:.2e}" for one in scores)
        stopped = ", ".join(dict.fromkeys(one.stopped for one in scores))
        print(f"| {name} | {picked(scores):,} | {figures} | {stopped} |", flush=True)
    print(
        f"\nThe program's own run on {' and '.join(TEXTS)}: {', '.join(f'{one:.2e}' for one in REFERENCE)}"
    )


if __name__ == "__main__":
    main()
