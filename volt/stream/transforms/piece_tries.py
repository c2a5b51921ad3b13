"""Turn pieces and texts into the arrays that the compiled loops of `volt.kernels.lattice` read.

    symbol    the number of a character that occurs in pieces; any other character has −1 − code point
    trie      a state for each prefix of a piece; a step leads from a state, by a symbol, to a state

The pieces {"lo": 0, "low": 1} have the symbols l → 0, o → 1, w → 2, and the states "" (0), "l" (1),
"lo" (2, spells piece 0) and "low" (3, spells piece 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.errors import VocabularyError
from volt.stream.transforms.column import Ints, Longs

if TYPE_CHECKING:
    from volt.kernels.lattice import Trie

_N_CODE_POINTS = 0x110000


def build_trie(
    piece_numbers: Mapping[str, int], scores: NDArray[np.float64], unknown_score: float
) -> tuple[Ints, Trie]:
    """Return the symbol of each code point, and the trie of pieces.

    piece_numbers: piece → its number, which is the index of its score
    scores: (n_pieces,) float64, the scores of pieces, or their costs
    unknown_score: the score or cost of a character that is not a piece
    """
    from volt.kernels.bpe_tables import ranked_merges
    from volt.kernels.lattice import Trie

    characters = sorted(set(chain.from_iterable(piece_numbers)))
    symbols = {character: symbol for symbol, character in enumerate(characters)}
    steps = dict[tuple[int, int], int]()  # (state, symbol) → next state
    piece_of_state = [-1]
    for piece, number in piece_numbers.items():
        state = 0
        for character in piece:
            new_state = len(piece_of_state)
            state = steps.setdefault((state, symbols[character]), new_state)
            if state == new_state:
                piece_of_state.append(-1)
        piece_of_state[state] = number
    check_table_size(len(steps))

    rows = np.array(list(steps), np.int32).reshape(-1, 2)
    step_table = ranked_merges(rows[:, 0], rows[:, 1], np.arange(len(rows))).pairs
    trie = Trie(step_table, np.array(piece_of_state, np.int32), scores, unknown_score)
    return map_code_points(symbols), trie


def map_code_points(symbols: Mapping[str, int]) -> Ints:
    """Return the symbol of each code point, (1,114,112,) int32.

    symbols: text → its symbol; only texts of one character count
    """
    result = -1 - np.arange(_N_CODE_POINTS, dtype=np.int32)
    for text, symbol in symbols.items():
        if len(text) == 1:
            result[ord(text)] = symbol
    return result


def join_code_points(texts: Sequence[str]) -> tuple[Ints, Longs]:
    """Return the code points of all texts, text after text, and (n_texts,) where each text ends."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return codes, np.cumsum(sizes)


def check_table_size(n_rows: int) -> None:
    """Raise VocabularyError if a model needs more rows than a table of pairs can hold."""
    from volt.kernels.bpe_tables import MOST

    if n_rows > MOST:
        raise VocabularyError(
            f"its table would have {n_rows:,} rows, and the limit is {MOST:,}; use a smaller model"
        )
