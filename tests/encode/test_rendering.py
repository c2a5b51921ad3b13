"""Rows of symbols, and pieces as subword-nmt spells them."""

import numpy as np
import pytest

from volt.encode.arrays import row_indices
from volt.encode.rendering import mark_unfinished_words


@pytest.mark.parametrize(
    ("starts", "sizes", "places"), [([], [], []), ([3], [0], []), ([5, 0, 2], [2, 0, 1], [5, 6, 2])]
)
def test_places_of_rows(starts, sizes, places):
    """Rows may be empty and in any order."""
    result = row_indices(np.array(starts, np.int64), np.array(sizes, np.int64))
    assert result.tolist() == places


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["a", "b</w>"], ["a@@", "b"]),
        (["</w>", "a", "</w>"], ["", "a"]),
        (["a@@", "</w>"], ["a@@"]),
        (["a</w>b", "</w>b</w>"], ["a</w>b@@", "</w>b"]),
    ],
)
def test_a_separator_follows_pieces_inside_words(pieces, expected):
    """A lone "</w>" ends the piece before it; inside a piece, it is text."""
    assert mark_unfinished_words(pieces, "@@") == expected
