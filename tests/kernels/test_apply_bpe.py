"""The compiled merging of one word, against its definition, with merges that no learner would make."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.kernels.apply_bpe import LONG, PieceRule, encode_words
from volt.kernels.bpe_tables import no_spellings, ranked_merges
from volt.vocabulary import Vocabulary

N_TOKENS = 6
tokens = st.integers(0, N_TOKENS - 1)
merges_of_any_kind = st.lists(
    st.tuples(tokens, tokens, tokens).filter(lambda merge: merge[2] not in merge[:2]), max_size=12
)


def _merged(symbols: Sequence[int], merges: Sequence[tuple[int, int, int]]) -> list[int]:
    """All places of the applicable merge of the lowest rank, from left to right, until none is applicable."""
    ranks = {merge[:2]: rank for rank, merge in reversed(list(enumerate(merges)))}
    symbols = list(symbols)
    while found := [ranks[pair] for pair in pairwise(symbols) if pair in ranks]:
        left, right, result = merges[min(found)]
        i, replaced = 0, []
        while i < len(symbols):
            here = symbols[i : i + 2] == [left, right]
            replaced.append(result if here else symbols[i])
            i += 1 + here
        symbols = replaced
    return symbols


def _encoded(symbols: Sequence[int], merges: Sequence[tuple[int, int, int]]) -> list[int]:
    table = np.array(merges, np.int32).reshape(-1, 3)
    rule = PieceRule(np.ones(N_TOKENS, np.uint8), np.full(N_TOKENS, -1), no_spellings())
    made = ranked_merges(table[:, 0], table[:, 1], table[:, 2])
    found, _ = encode_words(
        np.array(symbols, np.int32), np.array([len(symbols)]), made, rule, 0.0, np.zeros(1, np.int64)
    )
    return found.tolist()


@settings(max_examples=examples(300), deadline=None)
@given(symbols=st.lists(tokens, min_size=1, max_size=20), merges=merges_of_any_kind)
def test_words_merge_by_definition(symbols: list[int], merges: list[tuple[int, int, int]]) -> None:
    """Also where a merge makes a pair of a lower rank, or what another merge has made; but never its own part."""
    assert _encoded(symbols, merges) == _merged(symbols, merges)


@settings(max_examples=examples(50), deadline=None)
@given(
    symbols=st.lists(tokens, min_size=LONG - 2, max_size=LONG + 30), merges=merges_of_any_kind, unknown=st.booleans()
)
def test_long_words_merge_by_definition(symbols: list[int], merges: list[tuple[int, int, int]], unknown: bool) -> None:
    """On either side of the length at which the loop changes; what is unknown merges with nothing."""
    if unknown:
        symbols[1::7] = [-5] * len(symbols[1::7])
    assert _encoded(symbols, merges) == _merged(symbols, merges)


def test_every_pair_is_found_in_a_large_table() -> None:
    """The rank of a pair is where it stands first, whatever the number of pairs; other pairs have none."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 500, (40_000, 2)).astype(np.int32)
    made = ranked_merges(pairs[:, 0], pairs[:, 1], np.arange(len(pairs), dtype=np.int32))
    first = {pair: rank for rank, pair in reversed(list(enumerate(map(tuple, pairs.tolist()))))}
    asked = [*first, *((left, 500 + left) for left in range(500))]
    n_tokens = len(pairs) + 1
    found, ends = encode_words(
        np.array(asked, np.int32).ravel(), 2 * np.arange(1, len(asked) + 1), made,
        PieceRule(np.ones(n_tokens, np.uint8), np.full(n_tokens, -1), no_spellings()), 0.0, np.zeros(1, np.int64),
    )  # fmt: skip
    sizes = np.diff(ends, prepend=0)
    assert sizes.tolist() == [1] * len(first) + [2] * 500
    assert found[: len(first)].tolist() == list(first.values())


def test_too_many_tokens_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary that the table of pairs has no numbers for is an error, not a wrong result."""
    monkeypatch.setattr("volt.kernels.bpe_tables.MOST", 3)
    vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w")), tokens=("l", "o", "w", "lo", "low"), marker="none")
    with pytest.raises(VocabularyError, match="5 tokens and 2 merges: at most 3"):
        Encoder(vocabulary)
