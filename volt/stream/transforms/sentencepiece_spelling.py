"""What the pieces of a SentencePiece model are written as: ids, or text with a space between two.

>>> pieces = Spelling.of([Piece("<unk>", 0, 2), Piece("a", 0, 1)], 0, byte_fallback=False)
>>> pieces.column(np.array([1, -1 - ord("é"), 1], np.int32), np.array([2, 3]), "pieces").strings()
['a é', 'a']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.stream.transforms.column import Column

Form = Literal["pieces", "ids"]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
NORMAL, USER, UNUSED, BYTE = 1, 4, 5, 6  # kinds of pieces


class Piece(NamedTuple):
    """A row of a model."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, slots=True, eq=False)
class Spelling:
    """How pieces are written.

    text: of all pieces, each with a space behind it
    starts: (n_pieces + 1,) where each piece's text starts
    unknown: the id of the unknown piece
    bytes: the id of each byte's piece; empty without byte fallback
    """

    text: NDArray[np.uint8]
    starts: Longs
    unknown: int
    bytes: list[int]

    @classmethod
    def of(cls, pieces: Sequence[Piece], unknown: int, *, byte_fallback: bool) -> Spelling:
        """The spelling of a model's pieces."""
        texts = [f"{piece.text} ".encode() for piece in pieces]
        starts = np.concatenate([[0], np.cumsum(list(map(len, texts)))]).astype(np.int64)
        ids = {piece.text: number for number, piece in enumerate(pieces) if piece.kind == BYTE}
        found = [ids[f"<0x{byte:02X}>"] for byte in range(256 * byte_fallback)]
        return cls(np.frombuffer(b"".join(texts), np.uint8), starts, unknown, found)

    def column(self, numbers: Ints, ends: Longs, form: Form) -> Column:
        """Lines of ids, of which −1 − code is an unknown character. A run of these is one piece, or its bytes.

        ends: (n_lines,) where each line's numbers end

        >>> pieces = Spelling.of([Piece("<unk>", 0, 2), Piece("a", 0, 1)], 0, byte_fallback=False)
        >>> numbers = np.array([1, -1 - ord("é"), -1 - ord("ü")], np.int32)
        >>> [pieces.column(numbers, np.array([3, 3]), form).strings() for form in ("pieces", "ids")]
        [['a éü', ''], ['1 0', '']]
        """
        from volt.encode.batches import expanded

        n = len(self.starts) - 1
        ids = np.arange(n + 1), np.arange(n, dtype=np.int32)
        starts, values = (self.starts, self.text) if form == "pieces" else ids
        if (numbers < 0).any():
            numbers, keys = _unknown_apart(numbers, ends, n, glues=not self.bytes)
            rows = [self._unknown(key >> 1, bool(key & 1), form) for key in keys.tolist()]
            starts = np.concatenate([starts, starts[-1] + np.cumsum(list(map(len, rows)))])
            values = np.concatenate([values, *rows])
        part = expanded(numbers, ends, starts, values)
        offsets = np.concatenate([[0], part.ends])
        if form == "ids":
            return Column.of_ids(part.values, offsets)
        return Column(part.values, offsets[:-1], np.diff(offsets) - 1)

    def _unknown(self, code: int, goes_on: bool, form: Form) -> NDArray[Any]:
        """What an unknown character is written as. goes_on: whether another follows, so that both are one piece."""
        if form == "ids":
            ids = [self.bytes[byte] for byte in chr(code).encode()] if self.bytes else [self.unknown] * (not goes_on)
            return np.array(ids, np.int32)
        text = "".join(f"<0x{byte:02X}> " for byte in chr(code).encode()) if self.bytes else chr(code)
        return np.frombuffer((text + " " * (not self.bytes and not goes_on)).encode(), np.uint8)


def _unknown_apart(numbers: Ints, ends: Longs, n: int, *, glues: bool) -> tuple[Ints, Longs]:
    """Numbers with rows from n on for unknown characters, and what these rows are: 2 · code, + 1 if another follows."""
    places = np.flatnonzero(numbers < 0)
    followed = np.zeros(len(numbers) + 1, bool)
    followed[places] = glues
    followed[ends[ends < len(numbers)]] = False
    keys, rows = np.unique(2 * (-1 - numbers[places].astype(np.int64)) + followed[places + 1], return_inverse=True)
    numbers = numbers.copy()
    numbers[places] = n + rows
    return numbers, keys
