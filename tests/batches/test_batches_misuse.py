"""Lengths and options that cannot be meant: one line that says what was given and what to give."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from volt.batches import (
    ByPacks,
    ByTokens,
    Counted,
    Layout,
    Progress,
    SampleFormat,
    Samples,
    collate,
    collate_packed,
    cut_samples,
    pack,
    padding_share,
    token_batches,
)
from volt.errors import ConfigError, StreamError, VoltError

LENGTHS: dict[str, tuple[Any, str]] = {
    "negative": ([3, -1], r"lengths\[1\] is -1; give whole numbers from 0 to"),
    "negative on a side": ([[3, 4], [1, -7]], r"lengths\[1\] is \[1, -7\]; give"),
    "enormous": (
        [3, 2**60],
        r"lengths\[1\] is 1152921504606846976; give whole numbers from 0 to 9,007",
    ),
    "enormous without a sign": (
        np.array([2**64 - 1], np.uint64),
        r"lengths\[0\] is 18446744073709551615; give",
    ),
    "fractions": (
        [3.5],
        r"lengths is an array of float64 and shape \(1,\); give whole numbers of shape \(n,\) or \(n, sides\)",
    ),
    "not a number": ([math.nan], "lengths is an array of float64"),
    "flags": ([True], "lengths is an array of bool"),
    "texts": (["3"], "lengths is an array of <U1"),
    "one number": (3, r"lengths is 3 \(int\); give whole numbers"),
    "none": (None, "lengths is None; give whole numbers"),
    "rows of unequal size": (
        [[3], [3, 4]],
        "lengths is not a table of numbers; give whole numbers",
    ),
    "three dimensions": (np.ones((1, 1, 1), int), "lengths is an array of int64 and shape"),
    "no side": (np.ones((2, 0), int), "lengths is an array of int64 and shape"),
}


@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize(
    "function", [lambda given: token_batches(given, max_tokens=9), lambda given: pack(given, 9)]
)
def test_lengths_that_are_none(case: str, function: Callable[[Any], object]) -> None:
    """Every function refuses them alike, as an option that is wrong."""
    given, message = LENGTHS[case]
    with pytest.raises(ConfigError, match=message) as caught:
        function(given)
    assert "\n" not in str(caught.value)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "half a token": ({"max_tokens": 8.5}, r"max_tokens is 8.5 \(float\); give a whole number"),
    "noise that is no number": ({"noise": math.nan}, "noise is nan; give a number from 0 to 1"),
    "much noise": ({"noise": 1.5}, "noise is 1.5; give a number from 0 to 1"),
    "noise below zero": ({"noise": -0.1}, "noise is -0.1; give"),
    "noise without chance": ({"noise": 0.1, "shuffle": False}, "noise is 0.1 but shuffle is False"),
    "noise in fairseq's order": (
        {"noise": 0.1, "sort": "sides"},
        "noise is 0.1 but sort='sides' takes no noise",
    ),
    "another order": ({"sort": "target"}, "unknown sort 'target'; choose from length, sides"),
    "another way": ({"on_long": "split"}, "unknown on_long 'split'; choose from raise, report"),
    "a least above the most": (
        {"min_length": 7, "max_length": 6},
        "min_length is 7, more than max_length, 6;",
    ),
    "no bucket": ({"buckets": []}, "buckets is empty; give rising lengths, or None"),
    "a bucket of nothing": (
        {"buckets": [0, 4]},
        r"buckets\[0\] is 0, after 0; give rising lengths, from 1 on",
    ),
    "buckets that fall": (
        {"buckets": [4, 8, 8]},
        r"buckets\[2\] is 8, after 8; give rising lengths",
    ),
    "a bucket beyond a batch": (
        {"buckets": [4, 16]},
        "the last of buckets is 16, more than max_tokens, 9; remove it",
    ),
    "buckets that are none": ({"buckets": 8}, r"buckets is 8 \(int\); give"),
    "a least above the last bucket": (
        {"buckets": [4], "min_length": 5},
        "min_length is 5, more than the last of buck",
    ),
    "seed": ({"seed": "one"}, r"seed is 'one' \(str\); give a whole number"),
    "epoch": ({"epoch": 0.5}, "epoch is 0.5"),
    "window": ({"window": None}, "window is None"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_cannot_be_meant(case: str) -> None:
    """Each is refused, whatever the lengths are."""
    given, message = OPTIONS[case]
    for lengths in ([], [3, 2]):
        with pytest.raises(ConfigError, match=message):
            token_batches(lengths, **{"max_tokens": 9, **given})


PAIR, TEXT = Samples.of({"src": [[5, 2]], "tgt": [[6, 2]]}), Samples.of({"text": [[5, 2]]})
INT32, LARGEST = (1 << 31) - 1, 1 << 53
# Function of one option → the option's name, its least value and its largest; None where no value is too large.
LIMITS: list[tuple[Callable[[int], object], str, int, int | None]] = [
    (lambda n: token_batches([1], max_tokens=n), "max_tokens", 1, LARGEST),
    (lambda n: token_batches([1], max_tokens=9, max_sentences=n), "max_sentences", 1, None),
    (lambda n: token_batches([1], max_tokens=9, multiple=n), "multiple", 1, None),
    (
        lambda n: token_batches([1], max_tokens=1 << 20, pad_to_multiple=n),
        "pad_to_multiple",
        1,
        1 << 16,
    ),
    (lambda n: token_batches([1], max_tokens=9, max_length=n), "max_length", 1, None),
    (lambda n: token_batches([9], max_tokens=9, min_length=n), "min_length", 1, None),
    (lambda n: token_batches([1], max_tokens=9, world=n), "world", 1, 1 << 31),
    (lambda n: ByTokens(max_tokens=n), "max_tokens", 1, LARGEST),
    (lambda n: ByTokens(max_tokens=9, max_sentences=n), "max_sentences", 1, LARGEST),
    (lambda n: ByTokens(max_tokens=9, multiple=n), "multiple", 1, LARGEST),
    (lambda n: ByTokens(max_tokens=9, max_length=n), "max_length", 1, LARGEST),
    (lambda n: ByTokens(max_tokens=LARGEST, min_length=n), "min_length", 1, LARGEST),
    (lambda n: pack([], n), "size", 1, 1 << 24),
    (lambda n: ByPacks(length=n, rows=1), "length", 1, 1 << 24),
    (lambda n: ByPacks(length=8, rows=n), "rows", 1, 1 << 50),
    (lambda n: cut_samples(TEXT, n), "size", 1, None),
    (lambda n: Layout(pad=n), "pad", 0, INT32),
    (lambda n: Layout(pad={"src": 0, "tgt": n}), "pad", 0, INT32),
    (lambda n: Layout(pad_to_multiple=n), "pad_to_multiple", 1, 1 << 16),
    (lambda n: collate(PAIR, [0], pad=n, eos=2), "pad", 0, INT32),
    (lambda n: collate(Samples.of({"text": [[5, max(n, 0)]]}), [0], pad=1, eos=n), "eos", 0, None),
    (lambda n: collate(PAIR, [0], pad={"src": 0, "tgt": n}, eos=2), r"pad\['tgt'\]", 0, INT32),
    (lambda n: collate(PAIR, [0], pad=1, eos=2, pad_to_multiple=n), "pad_to_multiple", 1, None),
    (
        lambda n: collate_packed(Samples.of({"text": [[2]]}), [[0]], length=n, pad=1, eos=2),
        "length",
        1,
        None,
    ),
    (lambda n: SampleFormat({"src": ["a"]}, eos=False, max_length=n), "max_length", 1, INT32),
    (lambda n: Progress([], every=n), "every", 1, None),
    (lambda n: Counted("ab", start=n), "start", 0, None),
    (lambda n: Counted("ab").skip(n), "n", 0, None),
]


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row[1])
def test_numbers_have_limits(row: tuple[Callable[[int], object], str, int, int | None]) -> None:
    """The least and the largest value are accepted; one less, and one more, are refused with that value."""
    function, name, low, high = row
    function(low)
    with pytest.raises(ConfigError, match=rf"^{name} is {low - 1}; give {low:,} or more"):
        function(low - 1)
    if high is not None:
        function(high)
        with pytest.raises(ConfigError, match=rf"^{name} is {high + 1}; give {high:,} or less"):
            function(high + 1)


def test_a_row_that_is_too_long_is_named() -> None:
    """The first of them, with its length, how many more there are, and the limit that it breaks."""
    with pytest.raises(
        StreamError,
        match=r"^row 1 of 4 has 12 tokens, and 1 row more; max_tokens is 9; raise it, short",
    ):
        token_batches([3, 12, 9, 10], max_tokens=9)
    with pytest.raises(
        StreamError, match=r"^row 1 of 3 has 9 tokens; size is 8; raise it, .* to report or split$"
    ):
        pack([8, 9, 1], 8)
    with pytest.raises(StreamError, match=r"^row 1 of 2 has 5 tokens; max_length is 4; raise it"):
        token_batches([(3, 1), (2, 5)], max_tokens=9, max_length=4)
    with pytest.raises(
        StreamError, match=r"^row 1 of 2 has 5 tokens; the last of buckets is 4; raise it"
    ):
        token_batches([(3, 1), (2, 5)], max_tokens=9, buckets=[2, 4])


def test_a_rank_that_is_none() -> None:
    """Ranks count from 0 to below the world."""
    batches = token_batches([3, 2], max_tokens=9, world=2)
    for rank in (2, -1):
        with pytest.raises(ConfigError, match=f"rank {rank} of world 2: give a rank of 0 or more"):
            batches.of_rank(rank)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pack([1, -1], 4), r"lengths\[1\] is -1; give"),
        (lambda: pack([[1, 2]], 4), "lengths has 2 sides; give one number for each row"),
        (
            lambda: pack([1], 4, on_long="crop"),
            "unknown on_long 'crop'; choose from raise, report, split",
        ),  # type: ignore[arg-type]
        (lambda: padding_share([[0]], [1]), "batches is a list; give the result of token_batches"),  # type: ignore[arg-type]
        (
            lambda: padding_share(token_batches([3, 2], max_tokens=9), [3]),
            "batches have row 1, but lengths has 1 row;",
        ),
    ],
)
def test_other_functions_refuse_alike(call: Callable[[], object], message: str) -> None:
    """One line each."""
    with pytest.raises(VoltError, match=message):
        call()


def test_nothing_to_batch_is_no_batch() -> None:
    """No rows, too few for all ranks, or none that fits: no batch, and no padding; what is there is listed."""
    for lengths in ([], np.empty((0, 2), int)):
        batches = token_batches(lengths, max_tokens=9)
        assert (len(batches), list(batches), padding_share(batches, lengths)) == (0, [], 0.0)
        assert len(batches.of_rank(0)) == len(batches.costs) == 0
    assert token_batches([3, 2], max_tokens=9, world=1 << 31).left.tolist() == [0, 1]
    assert token_batches([12], max_tokens=9, on_long="report").too_long.tolist() == [0]
    assert (len(pack([], 4)), list(pack([0], 4)), pack([], 4).padding_share) == (0, [], 0.0)
    with pytest.raises(IndexError):
        _ = token_batches([3], max_tokens=9)[1]
    with pytest.raises(IndexError):
        _ = pack([3], 4)[1]


def test_batches_are_counted_from_the_end_too() -> None:
    """As lists are."""
    batches, packs = token_batches([3, 2], max_tokens=3), pack([3, 2], 3)
    assert batches[-1].tolist() == batches[1].tolist()
    assert packs[-1].rows.tolist() == packs[1].rows.tolist()
