"""Wrong lengths and numbers are refused with an error that says what to give."""

import math
from functools import partial

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
    token_batches,
)
from volt.errors import ConfigError

LENGTHS = {
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
    "function",
    [lambda lengths: token_batches(lengths, max_tokens=9), lambda lengths: pack(lengths, 9)],
)
def test_wrong_lengths_are_refused(case, function):
    """`token_batches` and `pack` refuse wrong lengths with the same error of one line."""
    lengths, message = LENGTHS[case]
    with pytest.raises(ConfigError, match=message) as caught:
        function(lengths)
    assert "\n" not in str(caught.value)


PAIR = Samples.of({"src": [[5, 2]], "tgt": [[6, 2]]})
TEXT = Samples.of({"text": [[5, 2]]})
INT32 = (1 << 31) - 1
LARGEST = 1 << 53
batches_of_nine = partial(token_batches, [1], max_tokens=9)
rule_of_nine = partial(ByTokens, max_tokens=9)
# a function, its option, and the option's least and largest values; None for no largest value
LIMITS = [
    (partial(token_batches, [1]), "max_tokens", 1, LARGEST),
    (batches_of_nine, "max_sentences", 1, None),
    (batches_of_nine, "multiple", 1, None),
    (partial(token_batches, [1], max_tokens=1 << 20), "pad_to_multiple", 1, 1 << 16),
    (batches_of_nine, "max_length", 1, None),
    (partial(token_batches, [9], max_tokens=9), "min_length", 1, None),
    (batches_of_nine, "world", 1, 1 << 31),
    (ByTokens, "max_tokens", 1, LARGEST),
    (rule_of_nine, "max_sentences", 1, LARGEST),
    (rule_of_nine, "multiple", 1, LARGEST),
    (rule_of_nine, "max_length", 1, LARGEST),
    (partial(ByTokens, max_tokens=LARGEST), "min_length", 1, LARGEST),
    (partial(pack, []), "size", 1, 1 << 24),
    (partial(ByPacks, rows=1), "length", 1, 1 << 24),
    (partial(ByPacks, length=8), "rows", 1, 1 << 50),
    (partial(cut_samples, TEXT), "size", 1, None),
    (Layout, "pad", 0, INT32),
    (lambda pad: Layout(pad={"src": 0, "tgt": pad}), "pad", 0, INT32),
    (Layout, "pad_to_multiple", 1, 1 << 16),
    (partial(collate, PAIR, [0], eos=2), "pad", 0, INT32),
    (
        lambda eos: collate(Samples.of({"text": [[5, max(eos, 0)]]}), [0], pad=1, eos=eos),
        "eos",
        0,
        None,
    ),
    (partial(collate, PAIR, [0], pad=1, eos=2), "pad_to_multiple", 1, None),
    (partial(collate_packed, Samples.of({"text": [[2]]}), [[0]], pad=1, eos=2), "length", 1, None),
    (partial(SampleFormat, {"src": ["a"]}, eos=False), "max_length", 1, INT32),
    (partial(Progress, []), "every", 1, None),
    (partial(Counted, "ab"), "start", 0, None),
    (Counted("ab").skip, "n", 0, None),
]


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row[1])
def test_numbers_have_limits(row):
    """Each whole-number option of batches accepts its least and largest value, and refuses one less
    and one more."""
    function, name, low, high = row
    function(**{name: low})
    with pytest.raises(ConfigError, match=rf"^{name} is {low - 1}; give {low:,} or more"):
        function(**{name: low - 1})
    if high is not None:
        function(**{name: high})
        with pytest.raises(ConfigError, match=rf"^{name} is {high + 1}; give {high:,} or less"):
            function(**{name: high + 1})
