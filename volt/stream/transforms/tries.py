"""Pieces as the compiled loops see them: characters as symbols, and a trie of symbols.

>>> codes, ends = codes_of(["ab", "", "c"])
>>> codes.tolist(), ends.tolist(), trie_of({"ab": 0, "b": 1}).pieces.tolist()
([97, 98, 99], [2, 2, 3], [-1, -1, 0, 1])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import VocabularyError

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
_N_CODES = 0x110000


class PieceTrie(NamedTuple):
    """Texts by their characters.

    symbol_of: (n_codes,) int32, code point → symbol, or −1 − code
    steps: as in volt.kernels.pair_table: a state and a symbol → the next state − 1; the first state is 0
    pieces: (n_states,) int32, the number of the text that a state spells, or −1
    """

    symbol_of: Ints
    steps: NDArray[np.uint64]
    pieces: Ints


def trie_of(numbers: Mapping[str, int]) -> PieceTrie:
    """The trie of texts, by their numbers. Raises VocabularyError if there are too many.

    numbers: text, not empty → its number
    """
    from volt.kernels.pair_table import ranked_merges

    symbols = {character: place for place, character in enumerate(sorted(set(chain.from_iterable(numbers))))}
    steps, pieces = dict[tuple[int, int], int](), [-1]
    for text, number in numbers.items():
        state = 0
        for character in text:
            state = steps.setdefault((state, symbols[character]), len(pieces))
            pieces += [-1] * (state == len(pieces))
        pieces[state] = number
    check_size(len(steps))
    rows = np.array(list(steps), np.int32).reshape(-1, 2)
    table = ranked_merges(rows[:, 0], rows[:, 1], np.arange(len(rows)))
    return PieceTrie(symbols_of(symbols), table.pairs, np.array(pieces, np.int32))


def symbols_of(symbols: Mapping[str, int]) -> Ints:
    """The symbol of every code point: that of these characters, or −1 − code.

    >>> symbols_of({"a": 5})[96:98].tolist()
    [-97, 5]
    """
    found = -1 - np.arange(_N_CODES, dtype=np.int32)
    single = {ord(text): number for text, number in symbols.items() if len(text) == 1}
    found[list(single)] = list(single.values())
    return found


def codes_of(texts: Sequence[str]) -> tuple[Ints, Longs]:
    """The code points of texts, and where each text's end."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32)
    return codes, np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))


def check_size(n_rows: int) -> None:
    """Raise VocabularyError if a table of pairs cannot have so many rows.

    >>> check_size(1000)
    """
    from volt.kernels.pair_table import MOST

    if n_rows > MOST:
        raise VocabularyError(f"the model's pieces have {n_rows:,} parts; sampling takes {MOST:,} at most")
