"""`Rendering`: symbols → a form of output: ids, pieces as text, or ids as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from typing import Literal

import numpy as np

from volt import arguments
from volt.encode.arrays import Array, Ints, Longs
from volt.encode.merge_tables import MergeTables
from volt.errors import ConfigError, quoted
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import to_characters

Kind = Literal["ids", "pieces", "id text"]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The values of symbols: row r is values[starts[r]:starts[r + 1]].

    known: the row of each negative symbol seen so far
    """

    starts: Longs
    values: Array
    known: dict[int, int]


class Rendering:
    """The values of each symbol. Safe to share between threads.

    kind: "ids" (int32; unknown pieces become `unk`, if it exists), "pieces" or "id text" (UTF-8, a space after each)
    separator: the mark after each piece that does not end a word, see `joined`
    """

    # Rows for unknown characters are added by atomic replacement, without a lock.

    def __init__(self, kind: Kind, tables: MergeTables, *, separator: str = "") -> None:
        if separator and tables.vocabulary.marker != "suffix":
            raise ConfigError(
                "a separator works only with pieces of a vocabulary whose marker is suffix; remove it"
            )
        self._kind = kind
        self._tables = tables
        self._separator = separator
        self.dtype = np.dtype(np.int32 if kind == "ids" else np.uint8)

        retained = tables.retained != 0
        is_atom = tables.parts < 0
        is_spelled = is_atom | retained  # all others are split back
        if kind == "ids":
            is_spelled &= ~retained  # these have one id
        symbols = np.flatnonzero(is_spelled)
        sizes = np.zeros(len(retained), np.int64)
        sizes[symbols], values = self._values(symbols.tolist())
        if kind == "ids":
            own = compress(tables.tokens, retained)
            ids = np.fromiter(map(tables.vocabulary.ids.get, own), np.int32)
            places = np.cumsum(retained)[symbols]
            values = np.insert(ids, np.repeat(places, sizes[symbols]), values)
            sizes[retained] = 1
        self._rows = _Rows(np.append(0, np.cumsum(sizes)), values, {})

    def _values(self, symbols: list[int]) -> tuple[list[int], Array]:
        """Return the number of values of each symbol, and all values."""
        spelled = list(map(self._spell, symbols))
        values = np.fromiter(chain.from_iterable(spelled), self.dtype)
        return list(map(len, spelled)), values

    def _spell(self, symbol: int) -> Sequence[int] | bytes:
        vocabulary = self._tables.vocabulary
        pieces: Iterable[str] = self._tables.spell(symbol)
        if self._tables.is_continued(symbol):
            if self._kind == "pieces":
                return "".join(pieces).encode()
            return b""

        if self._kind == "pieces":
            is_bytes = vocabulary.pretokenizer.is_bytes
            pieces = [without_spaces(piece, is_bytes=is_bytes) for piece in pieces]
            if self._separator:
                pieces = joined(pieces, self._separator)
            return "".join(f"{piece} " for piece in pieces).encode()
        numbers = [vocabulary.ids.get(piece, vocabulary.unk_id) for piece in pieces]
        ids = [number for number in numbers if number is not None]
        if self._kind == "ids":
            return ids
        return "".join(f"{number} " for number in ids).encode()

    def expand(self, symbols: Ints) -> tuple[Array, Longs]:
        """Return the concatenated values of symbols, and where each symbol's values end."""
        numbers, rows = self.numbered(symbols)
        starts = rows.starts[numbers]
        sizes = rows.starts[numbers + 1] - starts
        return rows.values[places_of(starts, sizes)], np.cumsum(sizes)

    def unknown(self) -> set[str]:
        """Return the characters expanded so far that the vocabulary cannot spell."""
        pieces = {self._tables.spell(symbol)[0] for symbol in self._rows.known}
        pieces -= self._tables.vocabulary.ids.keys()
        return {piece.removesuffix(SUFFIX) for piece in pieces}

    def numbered(self, symbols: Ints) -> tuple[Ints, _Rows]:
        """Return the row of each symbol, and the rows."""
        rows = self._rows
        unknown = symbols < 0
        if not unknown.any():
            return symbols, rows

        distinct, places = np.unique(symbols[unknown], return_inverse=True)
        missing = [symbol for symbol in distinct.tolist() if symbol not in rows.known]
        if missing:
            sizes, values = self._values(missing)
            new_starts = rows.starts[-1] + np.cumsum(sizes)
            numbered = zip(missing, count(len(rows.starts) - 1))
            rows = _Rows(
                np.append(rows.starts, new_starts),
                np.append(rows.values, values),
                rows.known | dict(numbered),
            )
            self._rows = rows
        known_rows = [rows.known[symbol] for symbol in distinct.tolist()]
        numbers = symbols.copy()
        numbers[unknown] = np.array(known_rows)[places]
        return numbers, rows


def without_spaces(piece: str, *, is_bytes: bool) -> str:
    r"""Return a piece without spaces, which separate pieces in text. Only user tokens contain spaces.

    >>> without_spaces("  ", is_bytes=False), without_spaces("\n\n", is_bytes=True)
    ('▁▁', 'ĊĊ')
    """
    if piece.split() == [piece]:
        return piece
    if is_bytes:
        return to_characters(piece.encode())
    return piece.replace(" ", SPACE)


def checked_separator(separator: str) -> str:
    """Check the separator, which follows pieces that do not end a word; it may be empty."""
    arguments.storable(separator, "separator")
    if separator and (separator.split() != [separator] or not separator.isprintable()):
        fault = f"separator {quoted(separator)} contains white space or unprintable characters"
        raise ConfigError(f"{fault}; give a mark such as '@@'")
    return separator


def places_of(starts: Longs, sizes: Longs) -> Longs:
    """Return the indices of all items of the rows that have these starts and sizes.

    >>> places_of(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    offsets = starts - (np.cumsum(sizes) - sizes)
    places: Longs = np.arange(sizes.sum()) + np.repeat(offsets, sizes)
    return places


def joined(pieces: Iterable[str], separator: str) -> list[str]:
    """Spell pieces as subword-nmt does: a separator follows each piece that does not end its word."""
    spelled: list[str] = []
    for piece in pieces:
        if piece == SUFFIX and spelled:  # the word ends after a user token or a byte
            spelled[-1] = spelled[-1].removesuffix(separator)
        elif piece.endswith(SUFFIX):
            spelled.append(piece.removesuffix(SUFFIX))
        else:
            spelled.append(piece + separator)
    return spelled
