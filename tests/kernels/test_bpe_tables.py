"""The hash tables of pairs and of spellings, compared with dictionaries."""

from itertools import product
from random import Random

import numpy as np
import pytest

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.kernels import bpe_tables
from volt.kernels.arrays import table_size
from volt.kernels.bpe_tables import (
    MOST,
    N_FIRST,
    NO_RANK,
    cuts,
    rank_of,
    ranked_merges,
    spellings,
)
from volt.vocabulary import Vocabulary

# Tests call parts of loops as plain Python, which warns when integers wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")
NUMBERS = [0, 1, 2, N_FIRST - 1, N_FIRST, MOST - 1]
Run = tuple[int, ...]


def first_numbers(keys, numbers):
    """Return the number of each key's first occurrence."""
    return {
        key: number for key, number in zip(reversed(keys), reversed(numbers), strict=True) if key
    }


@pytest.mark.parametrize("n", [0, 1, 2, 4, 5, 9, 30, 64, 300])
def test_rank_of_returns_the_rank_of_a_pairs_first_occurrence(n):
    """In tables of any size, `rank_of` returns the rank of a pair at its first occurrence, and no
    rank for other pairs, whether ranks and results are consecutive or not."""
    rng, letters = Random(n), NUMBERS if n < 60 else range(40)
    pairs = [(rng.choice(letters), rng.choice(letters)) for _ in range(n)]
    ranks = rng.sample(range(2 * n), n)
    lefts, rights = np.array(pairs, np.int32).reshape(-1, 2).T
    for results, given, one_by_one in (
        (range(9, 9 + n), None, True),
        (rng.choices(range(9), k=2 * n), ranks, False),
    ):
        made = ranked_merges(
            lefts, rights, np.array(results), ranks=given and np.array(given), one_by_one=one_by_one
        )
        expected = first_numbers(pairs, given or range(n))
        asked = np.array([*product([*letters, -1, -5], [*letters, -5]), *pairs], np.int32)
        found = [int(rank_of(left, right, made.pairs)) for left, right in asked]
        assert found == [expected.get(pair, NO_RANK) for pair in map(tuple, asked.tolist())]
        assert made.one_by_one is one_by_one
        is_consecutive = all(result == results[0] + i for i, result in enumerate(results))
        assert made.first == (results[0] if n and is_consecutive else -1)
        tokens = [bpe_tables.token_of(rank, made) for rank in range(len(results))]
        assert tokens == list(results)
        columns = (column.tolist() for column in bpe_tables.pairs_met(made))
        assert sorted(zip(*columns, strict=True)) == sorted(
            (*pair, rank) for pair, rank in expected.items()
        )


def test_fill_merges_doubles_its_table_until_all_pairs_have_a_slot():
    """`fill` cannot enter nine pairs into eight slots; `fill_merges` doubles the table seven times,
    and then raises an error."""
    numbers, sizes, nothing = np.arange(9, dtype=np.int32), [], np.zeros(0, np.int32)
    empty = [np.full(n, 2**64 - 1, np.uint64) for n in (8, 64)]
    assert [bool(bpe_tables.fill(pairs, *[numbers] * 3)) for pairs in empty] == [False, True]
    with pytest.raises(VocabularyError, match="the merges collide in hash tables of all sizes"):
        bpe_tables.fill_merges(
            5, nothing, lambda merges: bool(sizes.append(len(merges.pairs))), one_by_one=False
        )
    assert sizes == [16 << power for power in range(7)]
    assert [table_size(n) for n in (0, 4, 5, 8, 9)] == [8, 8, 16, 16, 32]


def test_ranked_merges_refuses_pairs_that_collide_in_all_tables():
    """`ranked_merges` raises an error with a remedy for three pairs that share both slots in tables
    of 8 to 512 slots."""
    atoms = [chr(0x100 + number) for number in range(2_000)]
    lefts, rights = np.indices((2_000, 2_000)).reshape(2, -1)
    one, other = bpe_tables._slots(bpe_tables._pair(lefts, rights), np.zeros(512, np.int64))
    both = 512 * one + other
    chosen = np.flatnonzero(both == both[0])[:3]
    merges = tuple(
        (atoms[left], atoms[right])
        for left, right in zip(lefts[chosen], rights[chosen], strict=True)
    )
    with pytest.raises(VocabularyError, match=r"as in a manipulated file; use another file$"):
        Encoder(Vocabulary(merges, (*atoms, *map("".join, merges)), marker="none"))


def table_of(tokens):
    flat = [symbol for token in tokens for symbol in token]
    return spellings(
        np.array(flat, np.int32), np.cumsum([len(token) for token in tokens], dtype=np.int64)
    )


def test_token_spelled_and_cuts_equal_a_search_of_all_tokens():
    """`token_spelled` returns the first token that has the symbols; `cuts` lists each split of a
    token into two tokens once, the longest first part first."""
    rng = Random(1)
    for n in (0, 1, 3, 4, 5, 20, 20, 60):
        tokens = [
            tuple(rng.choices([-7, 0, 1], k=rng.randint(0, rng.randint(1, 4)))) for _ in range(n)
        ]
        numbers, table = first_numbers(tokens, range(n)), table_of(tokens)
        assert table.longest == max(map(len, tokens), default=0)
        for size in range(1, 6):
            for word in product([-7, 0, 1], repeat=size):
                symbols = np.array([5, *word, 5], np.int32)
                assert bpe_tables.token_spelled(symbols, 1, size, table) == numbers.get(word, -1)
        expected = [
            (numbers[token[:cut]], numbers[token[cut:]], number)
            for number, token in enumerate(tokens)
            for cut in range(len(token) - 1, 0, -1)
            if token[:cut] in numbers and token[cut:] in numbers
        ]
        assert list(zip(*(column.tolist() for column in cuts(table)), strict=True)) == expected
    assert bpe_tables.token_spelled(np.zeros(1, np.int32), 0, 1, bpe_tables.no_spellings()) == -1
