"""Ids of many lines, flat: the lines of all parts, in order."""

from __future__ import annotations

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volt.encode.batch_encoder import Encoded, EncodedPart


@given(
    parts=st.lists(st.lists(st.lists(st.integers(0, 99), max_size=3), max_size=3)),
    n_bytes=st.integers(0, 40),
)
def test_parts_are_put_together_line_by_line(parts: list[list[list[int]]], n_bytes: int) -> None:
    """The lines of the first part come first, then those of the next, however short the text was thought to be."""
    made = [
        EncodedPart(
            np.array(list(chain(*lines)), np.int32),
            np.cumsum([len(line) for line in lines], dtype=np.int64),
        )
        for lines in parts
    ]
    encoded = Encoded.of(made, n_bytes=n_bytes)
    assert [encoded[i].tolist() for i in range(len(encoded))] == list(chain(*parts))
    assert encoded.offsets.tolist()[-1] == len(encoded.ids)
