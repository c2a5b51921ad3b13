"""`Rendering`: symbols → a form of output: ids, pieces as text, or ids as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volt import arguments
from volt.encode.merge_tables import MergeTables
from volt.errors import ConfigError, quoted
from volt.text.characters import SUFFIX

Longs = NDArray[np.int64]
Spell = Callable[[int], Sequence[int] | bytes]
Kind = Literal["ids", "pieces", "id text"]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The values of symbols: row r is values[starts[r]:starts[r + 1]].

    known: the row of each symbol below 0 so far
    """

    starts: Longs
    values: NDArray[Any]
    known: dict[int, int]

    def extended(self, symbols: Sequence[int], spelled: Sequence[Sequence[int] | bytes]) -> _Rows:
        first = len(self.starts) - 1
        ends = self.starts[-1] + np.cumsum([len(values) for values in spelled], dtype=np.int64)
        new = np.fromiter(chain.from_iterable(spelled), self.values.dtype)
        known = self.known | {symbol: first + i for i, symbol in enumerate(symbols)}
        return _Rows(np.concatenate([self.starts, ends]), np.concatenate([self.values, new]), known)


class Rendering:
    """The values of each symbol. Safe to share between threads."""

    # Rows for unknown characters are added by atomic replacement, without a lock.

    def __init__(
        self, tables: MergeTables, spell: Spell, *, dtype: DTypeLike, single: NDArray[Any] | None = None
    ) -> None:
        """single: (n_tokens,), the value of each token of the vocabulary, if each has just one."""
        self.dtype, self._spell = np.dtype(dtype), spell
        empty = _Rows(np.zeros(1, np.int64), np.zeros(0, self.dtype), {})
        retained, is_atom = tables.retained != 0, tables.parts < 0  # all others are split back
        if single is None:
            spelled = [spell(symbol) if occurs else b"" for symbol, occurs in enumerate((retained | is_atom).tolist())]
            self._rows = empty.extended([], spelled)
            return
        others = [(symbol, spell(symbol)) for symbol in np.flatnonzero(is_atom & ~retained).tolist()]
        sizes = retained.astype(np.int64)
        for symbol, values in others:
            sizes[symbol] = len(values)
        starts = np.append(0, np.cumsum(sizes))
        self._rows = _Rows(starts, np.empty(starts[-1], self.dtype), {})
        self._rows.values[starts[:-1][retained]] = single[retained]
        for symbol, values in others:
            self._rows.values[starts[symbol] : starts[symbol + 1]] = list(values)

    @property
    def are_ids(self) -> bool:
        return self.dtype == np.int32

    def known_rows(self, n: int) -> tuple[Longs, NDArray[Any]]:
        """Return the values of the first n symbols, and where each starts, (n + 1,)."""
        rows = self._rows
        return rows.starts[: n + 1], rows.values[: rows.starts[n]]

    def expand(self, symbols: NDArray[np.int32]) -> tuple[NDArray[Any], Longs]:
        """Return the values of symbols, concatenated, and where each symbol's end."""
        numbers, rows = self.numbered(symbols)
        starts = rows.starts[numbers]
        sizes = rows.starts[numbers + 1] - starts
        return rows.values[places_of(starts, sizes)], np.cumsum(sizes)

    def numbered(self, symbols: NDArray[np.int32]) -> tuple[NDArray[np.int32], _Rows]:
        rows, unknown = self._rows, symbols < 0
        if not unknown.any():
            return symbols, rows
        met = np.unique(symbols[unknown])
        if missing := [symbol for symbol in met.tolist() if symbol not in rows.known]:
            rows = rows.extended(missing, [self._spell(symbol) for symbol in missing])
            self._rows = rows
        numbers = symbols.copy()
        numbers[unknown] = np.array([rows.known[symbol] for symbol in met.tolist()])[
            np.searchsorted(met, symbols[unknown])
        ]
        return numbers, rows


def checked_separator(separator: str) -> str:
    """Check the mark after pieces that do not end a word; it may be empty."""
    if arguments.storable(separator, "separator") and (separator.split() != [separator] or not separator.isprintable()):
        raise ConfigError(
            f"separator {quoted(separator)} is white space, holds some, or cannot be printed; give a mark such as '@@'"
        )
    return separator


def places_of(starts: Longs, sizes: Longs) -> Longs:
    """Return the places of all items of rows.

    >>> places_of(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    result: Longs = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
    return result


def rendering_of(kind: Kind, tables: MergeTables, *, separator: str = "") -> Rendering:
    if kind == "pieces":
        return as_pieces(tables, separator=separator)
    return as_ids(tables) if kind == "ids" else as_id_text(tables)


def as_ids(tables: MergeTables) -> Rendering:
    """Render ids, int32; `unk` for unknown pieces, if any."""
    ids = tables.vocabulary.ids
    single = np.fromiter(map(ids.get, tables.tokens, repeat(0)), np.int32, len(tables.tokens))
    return Rendering(tables, lambda symbol: _ids(tables, symbol), dtype=np.int32, single=single)


def _ids(tables: MergeTables, symbol: int) -> list[int]:
    ids, unk = tables.vocabulary.ids, tables.vocabulary.unk_id
    result = (ids.get(piece, unk) for piece in tables.spell(symbol))
    return [number for number in result if number is not None]


def as_pieces(tables: MergeTables, *, separator: str = "") -> Rendering:
    """Render UTF-8 text: pieces, each followed by a space. separator: see `joined`."""
    if separator and tables.vocabulary.marker != "suffix":
        raise ConfigError("a separator goes with pieces of a vocabulary whose marker is suffix; leave it out")

    def spell(symbol: int) -> bytes:
        pieces = tables.spell(symbol)
        return "".join(piece + " " for piece in (joined(pieces, separator) if separator else pieces)).encode()

    return Rendering(tables, spell, dtype=np.uint8)


def as_id_text(tables: MergeTables) -> Rendering:
    return Rendering(
        tables, lambda symbol: "".join(f"{number} " for number in _ids(tables, symbol)).encode(), dtype=np.uint8
    )


def joined(pieces: Iterable[str], separator: str) -> list[str]:
    """Spell pieces as subword-nmt does: a separator follows each piece that does not end its word."""
    spelled: list[str] = []
    for piece in pieces:
        if piece == SUFFIX and spelled:  # the word ends after a user token or a byte
            spelled[-1] = spelled[-1].removesuffix(separator)
        else:
            spelled.append(piece.removesuffix(SUFFIX) if piece.endswith(SUFFIX) else piece + separator)
    return spelled
