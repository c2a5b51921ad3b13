"""The table of spellings, against a dictionary: which runs of symbols are tokens, and how tokens are cut into these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.kernels.apply_bpe import PieceRule, encode_words
from volt.kernels.bpe_tables import Merges, Spellings, cuts, ranked_merges, spellings

Run = tuple[int, ...]
MANY = settings(max_examples=examples(200), deadline=None)
runs = st.lists(st.sampled_from([-7, -1, 0, 1, 2]), max_size=6).map(tuple)
many_runs = st.lists(runs, max_size=40)


def table_of(tokens: Sequence[Run]) -> Spellings:
    """The table of these tokens."""
    flat = [symbol for token in tokens for symbol in token]
    return spellings(np.array(flat, np.int32), np.cumsum([len(token) for token in tokens], dtype=np.int64))


def first_numbers(tokens: Sequence[Run]) -> dict[Run, int]:
    """Run → the first token that has these symbols."""
    return {token: number for number, token in reversed(list(enumerate(tokens))) if token}


def no_merges() -> Merges:
    nothing = np.zeros(0, np.int32)
    return ranked_merges(nothing, nothing, nothing)


@MANY
@given(many_runs)
def test_tokens_are_cut_in_two_in_every_way(tokens: list[Run]) -> None:
    """Of each token, repeated or not, every cut into two tokens, and no other, is found once."""
    numbers = first_numbers(tokens)
    expected = [
        (numbers[token[:cut]], numbers[token[cut:]], number)
        for number, token in enumerate(tokens)
        for cut in range(1, len(token))
        if token[:cut] in numbers and token[cut:] in numbers
    ]
    found = [column.tolist() for column in cuts(table_of(tokens))]
    assert sorted(zip(*found, strict=True)) == sorted(expected)


@MANY
@given(many_runs, st.lists(runs.filter(len), min_size=1, max_size=9), st.data())
def test_a_word_that_is_a_kept_token_is_that_token(tokens: list[Run], words: list[Run], data: st.DataObject) -> None:
    """Of words without merges, those that kept tokens spell are one piece, and all others stay as they are; with
    dropout, all stay as they are."""
    words += [token for token in tokens if token]
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(tokens) + 9, max_size=len(tokens) + 9)), np.uint8)
    rule = PieceRule(kept, np.full(len(kept), -1), table_of(tokens))
    symbols, ends = np.array([symbol for word in words for symbol in word], np.int32), np.cumsum(list(map(len, words)))
    found, found_ends = encode_words(symbols, ends, no_merges(), rule, 0.0, np.zeros(1, np.int64))
    numbers = first_numbers(tokens)
    expected = [[numbers[word]] if kept[numbers.get(word, -1)] and word in numbers else list(word) for word in words]
    assert [piece.tolist() for piece in np.split(found, found_ends[:-1])] == expected
    dropped, _ = encode_words(symbols, ends, no_merges(), rule, 0.5, np.zeros(1, np.int64))
    assert dropped.tolist() == symbols.tolist()


def test_many_long_tokens_are_found() -> None:
    """Five thousand tokens of up to forty symbols, each a word, are found; with one symbol changed, none is."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(20, 41, 5_000)
    symbols, ends = rng.integers(-3, 50, sizes.sum()).astype(np.int32), np.cumsum(sizes)  # below 0: unknown
    rule = PieceRule(np.ones(len(sizes), np.uint8), np.full(len(sizes), -1), spellings(symbols, ends))
    state = np.zeros(1, np.int64)
    found, found_ends = encode_words(symbols, ends, no_merges(), rule, 0.0, state)
    assert found.tolist() == list(range(len(sizes)))
    assert np.diff(found_ends).tolist() == [1] * (len(sizes) - 1)
    symbols = symbols.copy()
    symbols[ends - 7] += 100
    assert len(encode_words(symbols, ends, no_merges(), rule, 0.0, state)[0]) == len(symbols)
