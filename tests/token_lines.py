"""What the tests of token noise share: any lines of tokens, as text and as ids, and twins of what is drawn for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from splitmix import Drawn

from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import Transform

_ANY = st.characters(exclude_characters=" \t\n", exclude_categories=["Cs"])
_HARD = st.sampled_from(
    ["", "▁", "▁a", "a", "▁▁a", "▁b", "é一𐐀", "\xa0", "\u2581"[:1] * 3, "x" * 63, "x" * 64]
)
TOKEN = _HARD | st.text(_ANY, max_size=4)
LINES = st.lists(
    st.lists(TOKEN, max_size=14).map(" ".join), max_size=6
)  # an empty token makes several spaces
ID_LINES = st.lists(st.lists(st.integers(-2, 9), max_size=14), max_size=6)
AMOUNTS = st.sampled_from(
    [(0.0, None), (0.5, None), (2.0, None), (50.0, None), (None, 0.0), (None, 0.3), (None, 1.0)]
)
SEEDS = st.integers(0, 99)


def tokens_of(value: str) -> list[str]:
    """Return the runs of characters other than the space."""
    return [token for token in value.split(" ") if token]


def id_batch(lines: Sequence[Sequence[int]], n_fields: int = 1) -> Batch:
    """Return lines whose fields all hold the same ids."""
    ids = np.array([number for line in lines for number in line], np.int32)
    column = Column.of_ids(ids, np.cumsum([0, *map(len, lines)]))
    return Batch((column,) * n_fields, None, np.arange(len(lines)))


def ids_of(column: Column) -> list[list[int]]:
    """Return the ids of each value."""
    assert column.is_ids
    return [[int(word) for word in tokens_of(value)] for value in column.strings()]


def noisy_text(noise: Transform, values: Sequence[str], chance: LineRng) -> list[str]:
    """Return field 1 after noise."""
    return noise(Batch.of(values), chance).column(1).strings()


def numbers_of(
    counts: Sequence[int], amount: tuple[float | None, float | None], chance: LineRng
) -> list[int]:
    """Return how many tokens of field 1 are hit in each line."""
    (temperature, rate), origins, found = amount, np.arange(len(counts)), list[int]()
    draws = zip(counts, chance.at(1).uniform(origins), chance.at(1).words(origins), strict=True)
    for n, uniform, word in draws:
        drawn = Drawn(int(word))
        if rate is not None:
            found.append(sum(drawn.fraction() < rate for _ in range(n)))
        elif not n or not temperature:
            found.append(int(uniform * n))
        else:
            found.append(
                min(n - 1, int(-math.log1p(uniform * math.expm1(-temperature * n)) / temperature))
            )
    return found


def hits_of(n: int, number: int, n_choices: int, seed: int) -> list[int | None]:
    """Return the draw for each of n tokens; None for tokens that are not hit."""
    drawn, found = Drawn(seed), list[int | None]()
    for left in range(n, 0, -1):
        is_hit = number > 0 and drawn.below(left) < number
        found.append(drawn.below(n_choices) if is_hit else None)
        number -= is_hit
    return found


def hit_lines(
    counts: Sequence[int],
    amount: tuple[float | None, float | None],
    chance: LineRng,
    *,
    n_choices: int = 1,
    spared: int = 0,
) -> list[list[int | None]]:
    """Return the draws for each token of field 1 of each line."""
    numbers, seeds = (
        numbers_of(counts, amount, chance),
        chance.at(1).at("tokens").words(np.arange(len(counts))),
    )
    draws = zip(counts, numbers, seeds, strict=True)
    return [
        hits_of(n, max(min(number, n - spared), 0), n_choices, int(seed))
        for n, number, seed in draws
    ]
