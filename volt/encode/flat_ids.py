"""Ids of many lines in one array, `Encoded`: from rows of ids, with ids added around lines, or without some ids.

>>> with_ends(flat_ids([[5, 6], [7]]), np.array([1]), np.array([2])).ids.tolist()
[1, 5, 6, 2, 1, 7, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.encode.batch_encoder import Encoded, Ids
from volt.errors import ArgumentError, VocabularyError

_FLAT = "give a flat numpy array of whole numbers"


def with_ends(encoded: Encoded, first: Ids, last: Ids) -> Encoded:
    """Add ids before and after each line."""
    lines = np.split(encoded.ids, encoded.offsets[1:-1]) if len(encoded.offsets) > 1 else []
    ids = [part for line in lines for part in (first, line, last)]
    offsets = encoded.offsets + (len(first) + len(last)) * np.arange(len(encoded.offsets))
    return Encoded(np.concatenate([np.zeros(0, np.int32), *ids]), offsets)


def without(encoded: Encoded, ids: Sequence[int]) -> Encoded:
    stays = ~np.isin(encoded.ids, ids)
    return Encoded(encoded.ids[stays], np.concatenate([[0], np.cumsum(stays)])[encoded.offsets])


def flat_ids(encoded: Encoded | Iterable[Iterable[int]]) -> Encoded:
    if not isinstance(encoded, Encoded):
        rows = arguments.several(encoded, "encoded", remedy="give the result of encode_batch, or the ids of each line")
        numbers = [arguments.wholes(row, f"encoded[{place}]") for place, row in enumerate(rows)]
        try:
            flat: NDArray[Any] = np.array([*chain.from_iterable(numbers)], np.int64)
        except OverflowError:
            raise VocabularyError("encoded contains an id of more than 64 bits; give ids of the vocabulary") from None
        return Encoded(flat, np.cumsum([0, *map(len, numbers)]))
    for name in ("ids", "offsets"):
        values = arguments.instance(getattr(encoded, name), np.ndarray, f"encoded.{name}", remedy=_FLAT)
        if values.ndim != 1 or values.dtype.kind not in "iu":
            shape = "1 dimension" if values.ndim == 1 else f"{values.ndim} dimensions"
            raise ArgumentError(f"encoded.{name} is a ndarray of {values.dtype} and {shape}; {_FLAT}")
    return encoded
