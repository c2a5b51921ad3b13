r"""`Splitter`: a sequence of splits, compiled to tables, which divides texts into pre-tokens.

    Split(r"\p{N}{1,3}", from_end=True)   "in 12345 days" → "in "  "12"  "345"  " days"

Each split divides the results of the previous split into the matches of its pattern and the text
between them, like the behaviour "isolated" of published tokenizers. No character is lost, and no
pre-token is empty.

    pattern --regex_parser--> tree --automaton--> states --`_compile_tables`--> one table for all
    splits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from volt import arguments
from volt.array_cache import Arrays, cached_arrays
from volt.array_types import Ints
from volt.errors import ConfigError, quoted
from volt.text.normalizer import check_text
from volt.text.patterns.automaton import Automaton, determinize, is_linear
from volt.text.patterns.regex_parser import parse, sets_of
from volt.text.patterns.regex_tree import Alphabet

if TYPE_CHECKING:
    from volt.kernels.regex_cutting import SplitTables


@dataclass(frozen=True, slots=True)
class Split:
    """Split text around the matches of a pattern.

    pattern: a regular expression, see volt.text.patterns.regex_parser
    from_end: whether text is read backwards; the pattern then describes the reversed text

    Raises ConfigError if the pattern is not text, or contains a lone surrogate. Splitter.of checks
    its syntax.
    """

    pattern: str
    from_end: bool = False

    def __post_init__(self) -> None:
        arguments.storable(self.pattern, "pattern")
        object.__setattr__(self, "from_end", arguments.flag(self.from_end, "from_end"))


@dataclass(frozen=True, eq=False, slots=True)
class Splitter:
    """A sequence of compiled splits.

    splits: the splits, in the order of application
    automata: one for each split, over the same classes of characters
    tables: the automata for the compiled loop
    """

    splits: tuple[Split, ...]
    automata: tuple[Automaton, ...]
    tables: SplitTables

    @staticmethod
    def of(*splits: Split) -> Splitter:
        r"""Return the splitter of these splits, compiled once in a process.

        Raises ConfigError without splits, or for a pattern that is unsupported, too large, or
        matches the empty text.

        >>> Splitter.of(Split(r"\p{N}{1,3}", from_end=True)).split("in 12345 days")
        ['in ', '12', '345', ' days']
        """
        if not splits:
            raise ConfigError("no split is given; give at least one, such as Split(r'\\s+')")
        for index, split in enumerate(splits):
            remedy = "give a Split"
            if isinstance(split, str):
                remedy = f"did you mean Splitter.of(Split({split!r}))?"
            arguments.instance(split, Split, f"splits[{index}]", remedy=remedy)
        return _compile(splits)

    @property
    def is_linear(self) -> bool:
        """Return whether splitting provably takes linear time.

        Raises ConfigError if the proof takes too long.
        """
        return all(map(is_linear, self.automata))

    def split(self, text: str) -> list[str]:
        """Return the pre-tokens of a text. Raises CorpusError if it contains a lone surrogate."""
        from volt.kernels.regex_cutting import cut_texts

        data = check_text(text).encode()
        ends = np.empty(len(data), np.int64)
        n_words = cut_texts(
            np.frombuffer(data, np.uint8),
            np.zeros(1, np.int64),
            np.array([len(data)]),
            self.tables,
            ends,
            np.empty_like(ends),
            np.empty(1, np.int64),
        )
        bounds = [0, *ends[:n_words].tolist()]
        return [data[start:end].decode() for start, end in pairwise(bounds)]


def cut_alike(first: Split, second: Split) -> bool:
    """Check whether two splits have the same automaton, however their patterns are written."""
    first_tables: tuple[Any, ...] = Splitter.of(first).tables
    second_tables: tuple[Any, ...] = Splitter.of(second).tables
    return all(map(np.array_equal, first_tables, second_tables))


@lru_cache(maxsize=64)
def _compile(splits: tuple[Split, ...]) -> Splitter:
    from volt.kernels.regex_cutting import SplitTables

    arrays = cached_arrays(splits, lambda: _compile_tables(splits))
    start_states, classes, moves, end, first_rows, *moves_of_automata = arrays
    automata = tuple(map(Automaton, moves_of_automata, start_states.tolist()))
    return Splitter(splits, automata, SplitTables(classes, moves, int(end), first_rows))


def _compile_tables(splits: Sequence[Split]) -> Arrays:
    """Return the arrays that `_compile` unpacks.

    This takes a quarter of a second, because Polars classifies the characters.
    """
    trees = [parse(split.pattern) for split in splits]
    alphabet = Alphabet.of(characters for tree in trees for characters in sets_of(tree))
    automata = [determinize(tree, alphabet) for tree in trees]
    for split, automaton in zip(splits, automata, strict=True):
        if (automaton.moves[automaton.start] & 1).any():
            raise ConfigError(
                f"pattern {quoted(split.pattern, 500)} could match the empty text, which is not a "
                "pre-token; let each alternative match a character: write + for *"
            )

    # Merge classes that have the same moves in all automata.
    all_moves = np.vstack([automaton.moves[:, :-1] for automaton in automata])
    _, first_columns, merged_classes = np.unique(
        all_moves, axis=1, return_index=True, return_inverse=True
    )
    classes = alphabet.table(merged_classes.reshape(-1).astype(np.uint8))
    columns = [*first_columns.tolist(), alphabet.n_classes]
    n_columns = len(columns)

    # In the joint table, the name of a row is the index of its first entry. In every automaton,
    # state 0 has no moves, so the first row of the joint table represents all of them.
    tables = list[Ints]()
    first_rows = list[int]()
    offset = 0
    for automaton, split in zip(automata, splits, strict=True):
        moves = automaton.moves[:, columns].reshape(-1)
        next_rows = np.where(moves > 1, (moves >> 1) * n_columns + offset, 0)
        tables.append(2 * next_rows.astype(np.int32) + (moves & 1))
        start_row = automaton.start * n_columns + offset
        first_rows.append(2 * start_row + split.from_end)
        offset += len(moves)

    return [
        np.array([automaton.start for automaton in automata]),
        classes,
        np.concatenate(tables),
        np.asarray(n_columns - 1),
        np.array(first_rows, np.int64),
        *(automaton.moves for automaton in automata),
    ]
