"""`Rendering`: symbols → values, in a form of output: ids, pieces as text, or ids as text.

    symbol of "lo"          ids [4]         pieces b"lo "      id text b"4 "
    symbol of unknown "é"   ids [265, 239]  pieces b"<0xC3> <0xA9> "   (with byte fallback)

"marked ids" are ids from which volt.encode.offsets finds spans: each piece has a number, and the
last of each word also has the bit ENDS_WORD. The number is the piece's id. Unknown pieces have the
numbers after the last id: n for a character, and n + 1 for a byte inside a character; n + 2 and
n + 3 if the piece continues with the next number.

Symbols are described in volt.encode.word_tables. The values of all symbols are *rows* of one flat
array. The row of a symbol of 0 or more has the symbol's number. The rows of unknown characters,
whose symbols are negative, are added when they first occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from typing import Literal

import numpy as np

from volt import arguments
from volt.array_cache import Arrays
from volt.array_types import Array, Ints, Longs
from volt.encode.arrays import row_indices
from volt.encode.word_tables import WordTables
from volt.errors import ConfigError, quoted
from volt.kernels.spans import ENDS_WORD
from volt.kernels.superwords import ENDS_UNIT_WORD, IS_SCAFFOLD, IS_UNSURE, SYMBOL_SHIFT
from volt.text.atoms import SPACE, SUFFIX
from volt.text.byte_alphabet import ALPHABET, INNER, to_characters
from volt.vocabulary.cached_vocabulary import cached_with

Kind = Literal["ids", "marked ids", "pieces", "id text", "symbols"]
_N_CODE_POINTS = 0x110000
INNER_CHARACTERS = frozenset(ALPHABET[byte] for byte in INNER)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The values of symbols: row r is values[starts[r]:starts[r + 1]].

    widest: the most values of a row
    row_of_unknown: the row of each negative symbol that has occurred
    """

    starts: Longs
    values: Array
    widest: int
    row_of_unknown: dict[int, int]


class Rendering:
    """The values of each symbol. Safe to share between threads.

    kind: "ids" (int32; unknown pieces become `unk`, if it exists), "marked ids" (int32), "pieces" or
        "id text" (UTF-8, a space after each piece or id), or "symbols" (int32, see
        volt.kernels.superwords)
    tables: the vocabulary's symbols
    separator: the mark after each piece that does not end a word, see `mark_unfinished_words`
    """

    # Rows are added by replacing `_rows`, so threads need no lock: at worst, two compute equal
    # rows.

    def __init__(self, kind: Kind, tables: WordTables, *, separator: str = "") -> None:
        if separator and tables.vocabulary.marker != "suffix":
            raise ConfigError(
                "a separator works only with pieces of a vocabulary whose marker is suffix; remove it"
            )
        self._kind = kind
        self._tables = tables
        self._separator = separator
        self.marks_words = kind == "marked ids"
        self.gives_ids = kind == "ids"
        self.gives_symbols = kind == "symbols"
        self.word_bits = 0  # set in the last value of a word that Python has encoded
        if self.marks_words:
            self.word_bits = ENDS_WORD
        elif self.gives_symbols:
            self.word_bits = ENDS_UNIT_WORD | IS_UNSURE
        # the unknown characters that compiled code has found, as 1 in a flag for each code point
        self.seen = np.zeros(_N_CODE_POINTS if self.gives_ids else 0, np.uint8)
        is_int = kind not in ("pieces", "id text")
        self.dtype = np.dtype(np.int32 if is_int else np.uint8)
        if self.gives_symbols:
            n_symbols = len(tables.retained)
            starts = np.arange(n_symbols + 1)
            values: Array = np.arange(n_symbols, dtype=np.int32) << SYMBOL_SHIFT
            values[tables.retained == 0] |= IS_SCAFFOLD
        else:
            name = ["values of symbols", kind, separator]
            starts, values = cached_with(tables.vocabulary, name, self._build_rows)
        sizes = np.diff(starts)
        self._rows = _Rows(starts, values, int(sizes.max(initial=0)), {})
        self.is_single = self.gives_ids and bool((sizes == 1).all())

    def _build_rows(self) -> Arrays:
        """Return where the row of each symbol of 0 or more starts, and all values."""
        tables = self._tables
        retained = tables.retained != 0
        is_atom = tables.parts < 0
        is_rendered = is_atom | retained  # encoding splits all other symbols back
        if self.dtype == np.int32:
            is_rendered &= ~retained  # ids of retained tokens are looked up together, below
        symbols = np.flatnonzero(is_rendered)
        sizes = np.zeros(len(retained), np.int64)
        sizes[symbols], values = self._render_all(symbols.tolist())
        if self.dtype == np.int32:
            retained_tokens = compress(tables.tokens, retained)
            ids = np.fromiter(map(tables.vocabulary.ids.get, retained_tokens), np.int32)
            n_ids_before = np.cumsum(retained)[symbols]
            values = np.insert(ids, np.repeat(n_ids_before, sizes[symbols]), values)
            sizes[retained] = 1
        return [np.append(0, np.cumsum(sizes)), values]

    def _render_all(self, symbols: list[int]) -> tuple[list[int], Array]:
        """Return the number of values of each symbol, and all values."""
        rendered = list(map(self._render, symbols))
        values = np.fromiter(chain.from_iterable(rendered), self.dtype)
        return list(map(len, rendered)), values

    def _render(self, symbol: int) -> Sequence[int] | bytes:
        if self.gives_symbols:
            return [symbol << SYMBOL_SHIFT]
        vocabulary = self._tables.vocabulary
        pieces: Iterable[str] = self._tables.spell(symbol)
        if self._tables.is_continued(symbol):  # the next symbol belongs to the same piece
            if self._kind == "pieces":
                return "".join(pieces).encode()
            if self.marks_words:
                return [self._number(piece) + 2 for piece in pieces]
            return b""

        if self._kind == "pieces":
            is_bytes = vocabulary.pretokenizer.is_bytes
            pieces = [without_spaces(piece, is_bytes=is_bytes) for piece in pieces]
            if self._separator:
                pieces = mark_unfinished_words(pieces, self._separator)
            return "".join(f"{piece} " for piece in pieces).encode()
        if self.marks_words:
            return list(map(self._number, pieces))
        # The ids of all pieces take a second to build, and no token spells an unknown character.
        id_of = vocabulary.reserved_ids if symbol < 0 else vocabulary.ids
        ids_or_none = [id_of.get(piece, vocabulary.unk_id) for piece in pieces]
        ids = [number for number in ids_or_none if number is not None]
        if self._kind == "ids":
            return ids
        return "".join(f"{number} " for number in ids).encode()

    def _number(self, piece: str) -> int:
        """Return a piece's id, or the number of its kind of unknown piece."""
        vocabulary = self._tables.vocabulary
        is_inner = vocabulary.pretokenizer.is_bytes and piece[0] in INNER_CHARACTERS
        return vocabulary.ids.get(piece, len(vocabulary) + is_inner)

    def expand(self, symbols: Ints) -> tuple[Array, Longs]:
        """Return the concatenated values of symbols, and where each symbol's values end."""
        row_numbers, rows = self.find_rows(symbols)
        starts = rows.starts[row_numbers]
        sizes = rows.starts[row_numbers + 1] - starts
        return rows.values[row_indices(starts, sizes)], np.cumsum(sizes)

    def expand_single(self, symbols: Ints) -> Array | None:
        """Return the id of each symbol; None for other output, or if a symbol may not have one id."""
        if self.is_single and len(symbols) and symbols.min() >= 0:
            return self._rows.values[symbols.astype(np.int64)]  # int32 would take twice as long
        return None

    def rows_of_symbols(self) -> tuple[Longs, Array]:
        """Return where the values of each symbol of 0 or more start and end, and all values."""
        rows = self._rows
        starts = rows.starts[: len(self._tables.retained) + 1]
        return starts, rows.values[: starts[-1]]

    def find_rows(self, symbols: Ints) -> tuple[Ints, _Rows]:
        """Return the row number of each symbol, and the rows."""
        rows = self._rows
        is_unknown = symbols < 0
        if not is_unknown.any():
            return symbols, rows

        unknown = symbols[is_unknown]
        distinct = np.unique(unknown)
        new = [symbol for symbol in distinct.tolist() if symbol not in rows.row_of_unknown]
        if new:
            sizes, values = self._render_all(new)
            new_starts = rows.starts[-1] + np.cumsum(sizes)
            new_rows = zip(new, count(len(rows.starts) - 1))
            rows = _Rows(
                np.append(rows.starts, new_starts),
                np.append(rows.values, values),
                max(rows.widest, *sizes),
                rows.row_of_unknown | dict(new_rows),
            )
            self._rows = rows
        row_of_code = np.empty(int(distinct[-1] - distinct[0]) + 1, np.int32)
        row_of_code[distinct - distinct[0]] = [
            rows.row_of_unknown[symbol] for symbol in distinct.tolist()
        ]
        row_numbers = symbols.copy()
        row_numbers[is_unknown] = row_of_code[unknown - distinct[0]]
        return row_numbers, rows

    def unknown(self) -> set[str]:
        """Return the characters expanded so far that the vocabulary cannot spell."""
        pieces = {self._tables.spell(symbol)[0] for symbol in self._rows.row_of_unknown}
        if pieces:
            pieces -= self._tables.vocabulary.ids.keys()
        found = map(chr, np.flatnonzero(self.seen).tolist())
        return {piece.removesuffix(SUFFIX) for piece in pieces} | set(found)


def without_spaces(piece: str, *, is_bytes: bool) -> str:
    r"""Return a piece with other characters for white space, which separates pieces in text.

    Only user tokens contain white space.

    >>> without_spaces("  ", is_bytes=False), without_spaces("\n\n", is_bytes=True)
    ('▁▁', 'ĊĊ')
    """
    if piece.split() == [piece]:
        return piece
    if is_bytes:
        return to_characters(piece.encode())
    return piece.replace(" ", SPACE)


def check_separator(separator: str) -> str:
    """Return the separator itself.

    Raises ConfigError if it contains white space or unprintable characters.
    """
    arguments.storable(separator, "separator")
    if separator and (separator.split() != [separator] or not separator.isprintable()):
        fault = f"separator {quoted(separator)} contains white space or unprintable characters"
        raise ConfigError(f"{fault}; give a mark such as '@@'")
    return separator


def mark_unfinished_words(pieces: Iterable[str], separator: str) -> list[str]:
    """Spell pieces as subword-nmt does: a separator follows each piece that does not end its word.

    >>> mark_unfinished_words(["lo", "w</w>", "er</w>"], "@@")
    ['lo@@', 'w', 'er']
    """
    result: list[str] = []
    for piece in pieces:
        if piece == SUFFIX and result:  # the word ends after a user token or a byte
            result[-1] = result[-1].removesuffix(separator)
        elif piece.endswith(SUFFIX):
            result.append(piece.removesuffix(SUFFIX))
        else:
            result.append(piece + separator)
    return result
