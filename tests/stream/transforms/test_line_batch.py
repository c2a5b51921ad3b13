"""`Batch`: lines as columns, joined, selected and converted."""

import numpy as np
import pytest

from volt.errors import ConfigError, StreamError
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng, concatenate_batches


def test_batches_are_joined_in_order():
    """concatenate_batches joins lines that are split into different numbers of fields; a single
    batch stays the same object."""
    assert concatenate_batches([Batch.of(["a"]), Batch.of(["b\tc"]).split(2)]).lines == [
        "a",
        "b\tc",
    ]
    assert len(concatenate_batches([])) == 0
    batch = Batch.of(["a", "b"])
    assert concatenate_batches([batch]) is batch


def test_lines_are_selected_by_a_function():
    """Batch.keep drops the lines for which the function is false, with their origins."""
    assert Batch.of(["a", "", "c"]).keep(bool).origins.tolist() == [0, 2]


def test_new_lines_must_be_as_many():
    """Batch.with_lines refuses a different number of lines, and names the remedy."""
    message = r"1 lines were made from 2; first drop or repeat lines with take\(\)"
    with pytest.raises(StreamError, match=message):
        Batch.of(["a", "b"]).with_lines(["a"])


MOST = (1 << 64) - 1
ORIGINS = np.arange(40)


def test_every_key_draws_other_numbers():
    """LineRng draws different numbers for each key of 128 bits, for names and numbers, and after
    `at`."""
    keys = [LineRng(0, 0), LineRng(MOST, MOST), LineRng(0, MOST), LineRng(MOST, 0)]
    keys += [LineRng.of(1), LineRng.of("1"), LineRng.of(1, 0), LineRng.of(1, "0")]
    keys.append(LineRng(1, 2).at("limit"))
    words = np.concatenate([rng.words(ORIGINS) for rng in keys])
    assert len(np.unique(words)) == len(keys) * len(ORIGINS)


def test_bounds_of_whole_numbers_are_included():
    """LineRng.integers draws both the least and the greatest number."""
    assert set(LineRng(1, 2).integers(ORIGINS, 4, 6).tolist()) == {4, 5, 6}


@pytest.mark.parametrize(
    ("key", "message"),
    [((-1, 0), "first is -1; give 0 or more"), ((0, MOST + 1), f"second is {MOST + 1}")],
)
def test_keys_beyond_64_bits_are_refused(key, message):
    """LineRng refuses a part of its key below 0 or above 64 bits, and names the part."""
    with pytest.raises(ConfigError, match=message):
        LineRng(*key)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ((None, "b", None), "\tb"),
        (("a", None, "c"), "a\t\tc"),
        ((None, None, "c"), "\t\tc"),
        (("a", None, None), "a"),
        ((None, None, None), ""),
    ],
)
def test_a_missing_field_before_another_is_empty(values, line):
    """A line keeps the places of its fields if an earlier one is missing, and ends after its last
    one."""
    columns = tuple(Column.of(["x", value, "y"]) for value in values)
    assert Batch(columns, None, np.arange(3)).lines == ["x\tx\tx", line, "y\ty\ty"]
