"""`LineRng`: keys and bounds of the lines' random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from volt.errors import ConfigError
from volt.stream.transforms.line_rng import LineRng

MOST = (1 << 64) - 1
ORIGINS = np.arange(40)


def test_every_key_draws_other_numbers():
    """Keys have 64 bits; names, numbers and further draws give independent numbers."""
    keys = [LineRng(0, 0), LineRng(MOST, MOST), LineRng(0, MOST), LineRng(MOST, 0)]
    keys += [LineRng.of(1), LineRng.of("1"), LineRng.of(1, 0), LineRng.of(1, "0")]
    keys.append(LineRng(1, 2).at("limit"))
    words = np.concatenate([rng.words(ORIGINS) for rng in keys])
    assert len(np.unique(words)) == len(keys) * len(ORIGINS)


def test_bounds_of_whole_numbers_are_included():
    """Both the least and the greatest number are drawn."""
    assert set(LineRng(1, 2).integers(ORIGINS, 4, 6).tolist()) == {4, 5, 6}


@pytest.mark.parametrize(
    ("key", "message"),
    [((-1, 0), "first is -1; give 0 or more"), ((0, MOST + 1), f"second is {MOST + 1}")],
)
def test_keys_beyond_64_bits_are_refused(key, message):
    """The error names the part of the key."""
    with pytest.raises(ConfigError, match=message):
        LineRng(*key)
